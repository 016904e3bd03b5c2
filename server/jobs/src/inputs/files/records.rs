//! The records of a part of a file, as applications get them.

use ebb_text::csv::{CsvDialect, CsvFields, push_record};
use ebb_text::reader::{RecordError, RecordKind, Records};

/// The records of a part of a file. A CSV record is rewritten with commas and well-formed quotes,
/// whatever delimiter and quotes the file has.
pub(super) struct FileRecords {
    records: Records<'static>,
    rewriting: Option<Rewriting>,
}

#[derive(Debug)]
pub(super) struct FileRecord<'a> {
    /// The offset of the record's first byte in the text of the file.
    pub(super) offset: u64,
    /// The line in which the record begins, counted from the start of the part.
    pub(super) line: u64,
    pub(super) text: &'a [u8],
}

/// The buffers for rewriting a CSV record with commas and well-formed quotes.
struct Rewriting {
    fields: CsvFields,
    record: Vec<u8>,
}

impl FileRecords {
    /// Wraps `records`, which are of the kind `kind`.
    pub(super) fn new(records: Records<'static>, kind: RecordKind) -> Self {
        let rewriting = match kind {
            RecordKind::Csv(dialect) if dialect != CsvDialect::default() => Some(Rewriting {
                fields: CsvFields::new(dialect),
                record: Vec::new(),
            }),
            RecordKind::Text | RecordKind::Csv(_) | RecordKind::JsonLines => None,
        };
        Self { records, rewriting }
    }

    /// Returns the next record; `None` after the last one.
    pub(super) fn read(&mut self) -> Result<Option<FileRecord<'_>>, RecordError> {
        let Some(record) = self.records.read()? else {
            return Ok(None);
        };
        let text = match &mut self.rewriting {
            None => record.text,
            Some(Rewriting { fields, record: to }) => {
                fields
                    .parse(record.text)
                    .map_err(|problem| RecordError::Malformed {
                        line: record.line,
                        problem: problem.to_string(),
                    })?;
                to.clear();
                push_record(to, fields);
                to
            }
        };
        Ok(Some(FileRecord {
            offset: record.offset,
            line: record.line,
            text,
        }))
    }
}

//! The values of a table as CSV records, whose quotes may be malformed.

use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_text::csv::{CsvDialect, CsvFields, push_record};

use super::SnapshotInput;
use crate::records::InvalidRow;

/// The rows of a table whose values are CSV records. Malformed quotes are read as text, and
/// each value is rewritten with well-formed quotes, as applications expect it.
#[derive(Debug, Clone)]
pub struct LenientCsvInput {
    rows: SnapshotInput,
}

impl LenientCsvInput {
    /// Creates an input of the rows of `rows`, whose values are CSV records, perhaps with malformed
    /// quotes.
    pub fn new(rows: SnapshotInput) -> Self {
        Self { rows }
    }
}

/// Returns a function that passes each row to `record`, with its value rewritten with well-formed
/// quotes.
fn rewriting(record: RecordSink<'_>) -> impl FnMut(&[u8], &[u8]) -> Result<(), TaskError> {
    let mut fields = CsvFields::new(CsvDialect {
        lenient_quotes: true,
        ..CsvDialect::default()
    });
    let mut rewritten = Vec::new();
    move |key: &[u8], value: &[u8]| {
        let parsed = fields.parse(value);
        parsed.map_err(|problem| InvalidRow::error(key, problem))?;
        rewritten.clear();
        push_record(&mut rewritten, &fields);
        record(key, &rewritten)
    }
}

impl Input for LenientCsvInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        self.rows.splits()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.rows.read(split, &mut rewriting(record))
    }

    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        (self.rows).read_with_checkpoints(split, &mut rewriting(record), checkpoint)
    }

    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        (self.rows).sample(split, records, &mut rewriting(record), checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_quotes_are_text_and_what_is_no_record_is_refused_with_its_key() {
        let mut rows = Vec::new();
        let mut keep = |_: &[u8], value: &[u8]| {
            rows.push(String::from_utf8_lossy(value).into_owned());
            Ok(())
        };
        let mut record = rewriting(&mut keep);
        record(b"a", b"1,5\" disk").unwrap();
        record(b"b", b"\"x\"y,2").unwrap();
        let error = record(b"c", b"1\n2").unwrap_err();
        assert_eq!(InvalidRow::of(&error).unwrap().key, "c");
        drop(record);
        assert_eq!(rows, ["1,\"5\"\" disk\"", "xy,2"]);
    }
}

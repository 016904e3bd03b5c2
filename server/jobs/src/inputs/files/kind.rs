//! The kind of a file's records.

use std::path::Path;

use ebb_text::TextFormat;
use ebb_text::csv::CsvDialect;
use ebb_text::reader::RecordKind;
use serde::{Deserialize, Serialize};

/// The kind of a file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// Each record is a line.
    Text,
    /// Each record is a CSV record, which may span several lines.
    Csv {
        /// True if the first line of each file contains the names of the columns.
        header: bool,
        /// The byte between two fields; `None`: a tab in files with the extension `.tsv`,
        /// else a comma.
        delimiter: Option<u8>,
        /// True if malformed quotes are read as text. Then each file is one split, because only a
        /// reader from its start can find where a record begins.
        lenient_quotes: bool,
    },
    /// A JSON object per line. Blank lines are skipped.
    JsonLines,
}

impl FileKind {
    /// Returns the kind of CSV files with well-formed quotes. The delimiter is a tab in files with
    /// the extension `.tsv`, else a comma.
    pub const fn csv(header: bool) -> Self {
        Self::Csv {
            header,
            delimiter: None,
            lenient_quotes: false,
        }
    }

    /// Returns the kind of records in the file at this path.
    pub(super) fn of_file(self, path: &Path) -> RecordKind {
        match self {
            Self::Text => RecordKind::Text,
            Self::JsonLines => RecordKind::JsonLines,
            Self::Csv {
                delimiter,
                lenient_quotes,
                ..
            } => RecordKind::Csv(CsvDialect {
                delimiter: delimiter.unwrap_or_else(|| TextFormat::delimiter_of_name(path)),
                lenient_quotes,
            }),
        }
    }

    pub(super) fn has_header(self) -> bool {
        matches!(self, Self::Csv { header: true, .. })
    }
}

//! The formats of the rows that a job writes to files and to the terminal.

use serde::{Deserialize, Serialize};

/// The format of a file of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RowFormat {
    /// `KEY<TAB>VALUE`, both unchanged; only one of them if the format of the rows writes only that
    /// one. A tab or newline inside is not escaped.
    #[cfg_attr(
        feature = "args",
        value(help = "`KEY<TAB>VALUE`; a tab or newline inside is not escaped")
    )]
    Text,
    /// CSV (RFC 4180) with a header.
    Csv,
    /// A JSON object per line.
    JsonLines,
}

impl RowFormat {
    /// Returns the format for the extension of a file's name; text for unknown ones.
    pub fn of_name(name: &str) -> Self {
        let extension = name
            .rsplit_once('.')
            .map(|(_, end)| end.to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Self::Csv,
            Some("jsonl" | "ndjson") => Self::JsonLines,
            _ => Self::Text,
        }
    }

    /// Returns the extension of the files, one per partition, in an output folder.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Text => "tsv",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

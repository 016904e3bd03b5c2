//! What a job reads.

use std::path::PathBuf;

use ebb_tables::names::TableName;
use ebb_text::csv::CsvDialect;
use serde::{Deserialize, Serialize};

/// Where records come from. Relative paths start from the request's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InputRequest {
    /// A table, as it was at a snapshot.
    Table(TableInput),
    /// Lines of text files.
    Text(TextInput),
    /// Records of CSV files.
    Csv(CsvInput),
    /// JSON objects, one per line of files.
    JsonLines(JsonLinesInput),
    /// Records drawn from a seed.
    Generated(GeneratedInput),
}

/// A table as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TableInput {
    /// Which.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub table: TableName,
    /// At which snapshot; `None`: one that is made for the job and goes with it.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Which of its rows.
    #[serde(default)]
    pub keys: KeySelection,
    /// What its values are; of a table that CQL made its schema says that.
    #[serde(default)]
    pub values: ValueKind,
    /// Names of the columns of CSV values; none: their numbers, from 1.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether malformed quotes in CSV values are read as text. Not written if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient_quotes: bool,
    /// Of a table that CQL made, the columns that are read beside those of its primary key;
    /// none, which is not written: those that the application needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl TableInput {
    /// All of a table, whose values are plain text.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            snapshot: None,
            keys: KeySelection::default(),
            values: ValueKind::default(),
            names: Vec::new(),
            lenient_quotes: false,
            columns: Vec::new(),
        }
    }
}

/// Which keys of a table are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum KeySelection {
    /// All of them.
    #[default]
    All,
    /// From one (included) to another (left out).
    Range {
        /// Empty: from the first.
        from: String,
        /// Empty: to the last.
        to: String,
    },
    /// Those that start with this.
    Prefix(String),
}

/// What values of a table are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Nothing that has columns.
    #[cfg_attr(feature = "args", value(help = "Plain text, without columns"))]
    #[default]
    Text,
    /// A CSV record each.
    Csv,
    /// A JSON object each.
    Json,
}

/// Text files as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TextInput {
    /// Files, and directories of which all files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// Whether files that are not text, cannot be read or are malformed are left out. Not written if
    /// not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

/// CSV files as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CsvInput {
    /// Files, and directories of which all files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// Whether the first line of each names the columns.
    pub header: bool,
    /// Has no effect: fields in quotes may always go over several lines. Requests that were made
    /// when they might not have it.
    #[serde(default)]
    pub multiline: bool,
    /// Names of the columns where there is no header; none: their numbers, from 1.
    #[serde(default)]
    pub names: Vec<String>,
    /// The character between two fields, ASCII; `None`, which is not written: a tab in files called
    /// `.tsv`, else a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub delimiter: Option<char>,
    /// Whether malformed quotes are read as text; a file is one split then. Not written if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient_quotes: bool,
    /// Whether files that are not text, cannot be read or are malformed are left out. Not written if
    /// not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

impl CsvInput {
    /// CSV files with a header, commas and quotes by the rules.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            header: true,
            multiline: false,
            names: Vec::new(),
            delimiter: None,
            lenient_quotes: false,
            skip_bad: false,
        }
    }

    /// The byte between two fields, if one is chosen that can be.
    pub fn delimiter_byte(&self) -> Option<u8> {
        let byte = u8::try_from(self.delimiter?).ok()?;
        CsvDialect::is_delimiter(byte).then_some(byte)
    }
}

/// Files of JSON objects as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JsonLinesInput {
    /// Files, and directories of which all files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// Whether files that are not text, cannot be read or are malformed are left out. Not written if
    /// not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

/// Drawn records as an input: a key of 10 printable characters and words, 100 bytes in
/// all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GeneratedInput {
    /// How many.
    pub records: u64,
    /// What they are drawn from.
    pub seed: u64,
}

//! The inputs of a job request.

use std::path::PathBuf;

use ebb_tables::names::TableName;
use ebb_text::csv::CsvDialect;
use serde::{Deserialize, Serialize};

/// The source of a job's records. Relative paths start from the request's directory.
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
    /// The name of the table.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub table: TableName,
    /// The name of the snapshot. `None` stands for a new snapshot, which is created for the job and
    /// deleted when the job has ended.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The keys to read.
    #[serde(default)]
    pub keys: KeySelection,
    /// The format of the values. For a CQL table, the schema defines it.
    #[serde(default)]
    pub values: ValueKind,
    /// Names of the columns of CSV values; if empty, columns have numbers instead, from 1.
    #[serde(default)]
    pub names: Vec<String>,
    /// True if malformed quotes in CSV values are read as text. Left out of the JSON if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient_quotes: bool,
    /// The columns of a CQL table to read, in addition to its primary key. An empty list, which is
    /// left out of the JSON, stands for the columns that the application needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl TableInput {
    /// Creates an input of a whole table, whose values are plain text.
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

/// The keys of a table to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum KeySelection {
    /// All keys.
    #[default]
    All,
    /// A range of keys.
    Range {
        /// The first key (included); empty for no lower bound.
        from: String,
        /// The end of the range (excluded); empty for no upper bound.
        to: String,
    },
    /// The keys with this prefix.
    Prefix(String),
}

/// The format of the values of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Plain text, without columns.
    #[cfg_attr(feature = "args", value(help = "Plain text, without columns"))]
    #[default]
    Text,
    /// CSV records.
    Csv,
    /// JSON objects.
    Json,
}

/// Text files as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TextInput {
    /// Files, and directories whose files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// True if files that are not text, cannot be read or are malformed are skipped. Left out of
    /// the JSON if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

/// CSV files as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CsvInput {
    /// Files, and directories whose files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// True if the first line of each file has the names of the columns.
    pub header: bool,
    /// Has no effect: quoted fields may always span several lines. It was an option in earlier
    /// builds, so their requests still have it.
    #[serde(default)]
    pub multiline: bool,
    /// Names of the columns if there is no header; if empty, columns have numbers instead, from 1.
    #[serde(default)]
    pub names: Vec<String>,
    /// The character between two fields, ASCII. If it is absent, fields are separated by tabs in
    /// files with the extension `.tsv`, and else by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub delimiter: Option<char>,
    /// True if malformed quotes are read as text. Each file is then one split. Left out of the JSON
    /// if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient_quotes: bool,
    /// True if files that are not text, cannot be read or are malformed are skipped. Left out of
    /// the JSON if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

impl CsvInput {
    /// Creates an input of CSV files with a header, commas and well-formed quotes.
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

    /// Returns the byte between two fields; `None` if none is chosen, or if it is not valid.
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
    /// Files, and directories whose files are read.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub paths: Vec<PathBuf>,
    /// True if files that are not text, cannot be read or are malformed are skipped. Left out of
    /// the JSON if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad: bool,
}

/// Generated records as an input: a key of 10 printable characters, and words, 100 bytes in
/// all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GeneratedInput {
    /// The number of records.
    pub records: u64,
    /// The seed from which the records are drawn.
    pub seed: u64,
}

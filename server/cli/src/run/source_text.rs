//! A second input in one word.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use ebb_jobs::RowFormat;

use super::input::Place;
use crate::names::TableName;

/// `FILE.csv`, `FILE.jsonl`, `KEYSPACE.TABLE` or another file, which is text.
///
/// `lines.txt` has the form of a table's name too: what exists as a file is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceText(String);

impl FromStr for SourceText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_string()))
    }
}

impl SourceText {
    fn table(&self) -> Option<TableName> {
        let is_file = std::fs::exists(&self.0).unwrap_or(true);
        self.0.parse().ok().filter(|_| !is_file)
    }

    /// Whether a database is needed.
    pub(super) fn is_table(&self) -> bool {
        self.table().is_some()
    }

    /// Where it is read from.
    pub(super) fn place(&self) -> Place {
        let path = || vec![PathBuf::from(&self.0)];
        let mut place = Place::default();
        match (self.table(), RowFormat::of_name(&self.0)) {
            (Some(table), _) => place.table = Some(table),
            (None, RowFormat::Csv) => place.csv = path(),
            (None, RowFormat::JsonLines) => place.json_lines = path(),
            (None, RowFormat::Text) => place.text = path(),
        }
        place
    }
}

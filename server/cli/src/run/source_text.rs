//! A second input in one word.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use ebb_text::TextFormat;

use super::input::Place;
use crate::error::CliError;
use crate::names::TableName;

/// Ends of names that are those of files, though `lines.txt` has the form of a table's name, too.
/// Other ends (`app.log`) could be tables.
const FILE_ENDS: [&str; 10] = [
    "csv", "gz", "html", "jsonl", "md", "ndjson", "parquet", "tsv", "txt", "zip",
];

/// `FILE.csv`, `FILE.jsonl`, `KEYSPACE.TABLE` or another file, which is text.
///
/// A file that is there is meant, whatever its name is.
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
        let name: TableName = self.0.parse().ok()?;
        let is_file_name = FILE_ENDS.contains(&&*name.table);
        let is_file = is_file_name || std::fs::exists(&self.0).unwrap_or(true);
        (!is_file).then_some(name)
    }

    /// Whether a database is needed.
    pub(super) fn is_table(&self) -> bool {
        self.table().is_some()
    }

    /// Checks that a table can be meant: there is a database in `data`.
    ///
    /// # Errors
    /// When there is none. Then it may be a file that is meant, which is not there either.
    pub(super) fn check_database(&self, data: &Path) -> Result<(), CliError> {
        if self.table().is_none() || data.exists() {
            return Ok(());
        }
        Err(CliError::NoSource(format!(
            "no such file: {}; nor is there a database in {} that could have a table of this name",
            self.0,
            data.display()
        )))
    }

    /// Checks that a table can be meant: its keyspace is there.
    ///
    /// # Errors
    /// As [`Self::check_database`]; or when the keyspaces are not known.
    pub(super) fn check_keyspace(&self, is_keyspace: impl Fn(&str) -> Result<bool>) -> Result<()> {
        let Some(name) = self.table() else {
            return Ok(());
        };
        if is_keyspace(&name.keyspace)? {
            return Ok(());
        }
        let text = format!(
            "no such file: {}; nor is there a keyspace {} that could have a table of this name",
            self.0, name.keyspace
        );
        Err(CliError::NoSource(text).into())
    }

    /// Where it is read from.
    pub(super) fn place(&self) -> Place {
        let mut place = Place::default();
        if let Some(table) = self.table() {
            place.table = Some(table);
            return place;
        }
        let path = PathBuf::from(&self.0);
        match TextFormat::of_name(&path) {
            // Jobs write such files without a header.
            Some(TextFormat::Csv) if TextFormat::delimiter_of_name(&path) == b'\t' => {
                place.text = vec![path];
            }
            Some(TextFormat::Csv) => place.csv = vec![path],
            Some(TextFormat::JsonLines) => place.json_lines = vec![path],
            Some(TextFormat::Text) | None => place.text = vec![path],
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceText {
        text.parse().unwrap()
    }

    #[test]
    fn names_of_files_are_files_also_where_there_are_none() {
        for (text, is_table) in [
            ("nope.csv", false),
            ("nope.jsonl", false),
            ("nope.txt", false),
            ("nope.csv.gz", false),
            ("./nope.log", false),
            ("nope", false),
            ("nope/visits.csv", false),
            ("app.visits", true),
            ("app.log", true),
            // The manifest of this crate, which is where tests run.
            ("Cargo.toml", false),
        ] {
            assert_eq!(source(text).is_table(), is_table, "{text}");
        }
    }

    #[test]
    fn files_are_read_as_their_names_end_packed_or_not() {
        for (text, [csv, json_lines, text_files]) in [
            ("a.csv", [1, 0, 0]),
            ("a.CSV.gz", [1, 0, 0]),
            ("a.ndjson", [0, 1, 0]),
            ("a.tsv", [0, 0, 1]),
            ("a", [0, 0, 1]),
        ] {
            let place = source(text).place();
            let found = [&place.csv, &place.json_lines, &place.text].map(Vec::len);
            assert_eq!(found, [csv, json_lines, text_files], "{text}");
        }
    }

    #[test]
    fn what_is_neither_a_file_nor_a_table_is_called_both() {
        let nowhere = Path::new("no-such-directory");
        let error = source("nope.json").check_database(nowhere).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("no such file: nope.json; nor"), "{error}");
        assert!(source("nope.csv").check_database(nowhere).is_ok());
        let error = source("nope.json").check_keyspace(|_| Ok(false));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no such file: nope.json; nor"), "{error}");
        assert!(error.contains("a keyspace nope"), "{error}");
        source("app.visits")
            .check_keyspace(|name| Ok(name == "app"))
            .unwrap();
    }
}

//! The second input of a job, given as one word.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use ebb_text::{FileError, TextFormat};

use super::input::Place;
use crate::error::CliError;
use crate::names::TableName;

/// Extensions of names of files, in lower case. A name such as `lines.txt` has the form of a
/// table's name, too. If there is no database, a name with one of these extensions counts as a
/// file, and a name with another extension, such as `app.log`, as a table. If there is a database
/// without the keyspace, a name with one of these extensions leads to the error for a missing file.
const FILE_ENDS: [&str; 10] = [
    "csv", "gz", "html", "jsonl", "md", "ndjson", "parquet", "tsv", "txt", "zip",
];

/// The argument that names an input: `FILE.csv`, `FILE.jsonl`, `KEYSPACE.TABLE` or another file, which is
/// text.
///
/// If a file of this name exists, the input is the file. Otherwise, a text that has the form of a table's
/// name is a table, unless it looks like the name of a file ([`FILE_ENDS`]) and there is no database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceText(String);

impl FromStr for SourceText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_string()))
    }
}

impl SourceText {
    /// Returns the table that the text names; `None` if the input is a file. `data` is the directory of
    /// the database, which need not exist.
    fn table(&self, data: &Path) -> Option<TableName> {
        let name: TableName = self.0.parse().ok()?;
        let is_file_name = is_file_name(&name) && !data.exists();
        let is_file = is_file_name || std::fs::exists(&self.0).unwrap_or(true);
        (!is_file).then_some(name)
    }

    /// Returns whether the input is a table, of the database in `data`.
    pub(super) fn is_table(&self, data: &Path) -> bool {
        self.table(data).is_some()
    }

    /// Checks that `data` has a database if the input is a table.
    ///
    /// # Errors
    /// When there is no database. The error names the file, too, because the user may have meant a file
    /// that does not exist.
    pub(super) fn check_database(&self, data: &Path) -> Result<(), CliError> {
        if self.table(data).is_none() || data.exists() {
            return Ok(());
        }
        Err(CliError::NotFound(format!(
            "no such file: {}; nor is there a database in {} that could have a table of this name",
            self.0,
            data.display()
        )))
    }

    /// Checks that the database in `data` has the keyspace if the input is a table.
    ///
    /// # Errors
    /// When the keyspace does not exist. The error is [`FileError::Missing`] if the name ends with
    /// one of [`FILE_ENDS`]. Also the error of `is_keyspace`.
    pub(super) fn check_keyspace(
        &self,
        data: &Path,
        is_keyspace: impl Fn(&str) -> Result<bool>,
    ) -> Result<()> {
        let Some(name) = self.table(data) else {
            return Ok(());
        };
        if is_keyspace(&name.keyspace)? {
            return Ok(());
        }
        if is_file_name(&name) {
            let path = PathBuf::from(&self.0);
            return Err(FileError::Missing { path }.into());
        }
        let text = format!(
            "no such file: {}; nor is there a keyspace {} that could have a table of this name",
            self.0, name.keyspace
        );
        Err(CliError::NotFound(text).into())
    }

    /// Returns the kind and the place of the input: a table of the database in `data`, or else
    /// files, whose format follows from their names.
    pub(super) fn place(&self, data: &Path) -> Place {
        let mut place = Place::default();
        if let Some(table) = self.table(data) {
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

fn is_file_name(name: &TableName) -> bool {
    FILE_ENDS.contains(&&*name.table.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceText {
        text.parse().unwrap()
    }

    /// The directory of a database that does not exist.
    const NOWHERE: &str = "no-such-directory";
    /// A directory that exists: the sources of this crate. It takes the place of the directory of a
    /// database, which the functions under test do not open.
    const SOMEWHERE: &str = "src";

    #[test]
    fn names_of_files_are_tables_only_where_there_is_a_database_and_no_file() {
        // A table whose name ends like that of a file was never found.
        for (text, without_database, with_database) in [
            ("nope.csv", false, true),
            ("NOPE.CSV", false, true),
            ("app.html", false, true),
            ("nope.csv.gz", false, false),
            ("./nope.log", false, false),
            ("nope", false, false),
            ("nope/visits.csv", false, false),
            ("app.visits", true, true),
            ("app.log", true, true),
            // The manifest of this crate, which is where tests run.
            ("Cargo.toml", false, false),
        ] {
            let is_table = |data: &str| source(text).is_table(Path::new(data));
            assert_eq!(is_table(NOWHERE), without_database, "{text}");
            assert_eq!(is_table(SOMEWHERE), with_database, "{text}");
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
            let place = source(text).place(Path::new(NOWHERE));
            let found = [&place.csv, &place.json_lines, &place.text].map(Vec::len);
            assert_eq!(found, [csv, json_lines, text_files], "{text}");
        }
    }

    #[test]
    fn what_is_neither_a_file_nor_a_table_is_called_both() {
        let (nowhere, somewhere) = (Path::new(NOWHERE), Path::new(SOMEWHERE));
        let error = source("nope.json").check_database(nowhere).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("no such file: nope.json; nor"), "{error}");
        assert!(source("nope.csv").check_database(nowhere).is_ok());
        let error = source("nope.json").check_keyspace(somewhere, |_| Ok(false));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no such file: nope.json; nor"), "{error}");
        assert!(error.contains("a keyspace nope"), "{error}");
        let error = source("nope.csv").check_keyspace(somewhere, |_| Ok(false));
        assert_eq!(error.unwrap_err().to_string(), "no such file: nope.csv");
        let error = source("nope.Csv").check_keyspace(somewhere, |_| Ok(false));
        assert_eq!(error.unwrap_err().to_string(), "no such file: nope.Csv");
        for table in ["app.visits", "app.html"] {
            let is_keyspace = |name: &str| Ok(name == "app");
            source(table)
                .check_keyspace(somewhere, is_keyspace)
                .unwrap();
        }
    }
}

//! What a job reads, as arguments.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use ebb_scheduler::runtime::Input;
use ebb_server::jobs::records::{RecordFormat, ValueFormat};
use ebb_server::jobs::{FileKind, FilesInput, Generator, SnapshotInput};
use ebb_storage::{Db, SnapshotTable};
use serde::{Deserialize, Serialize};

use super::source::Source;
use crate::database;
use crate::error::CliError;
use crate::names::{TableName, end_of_prefix};

/// What every job takes that reads something.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub(super) struct InputArgs {
    #[command(flatten)]
    place: Place,
    /// Read the table as it was at this snapshot [default: one made for the job,
    /// deleted at its end; if the job is killed and not started again, it expires after
    /// a week].
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// The snapshot was made for this job by a process that ended before it.
    #[arg(skip)]
    #[serde(default)]
    owns_snapshot: bool,
    /// Only the keys of the table from A to B, B left out; A.. and ..B are open.
    #[arg(long, value_name = "A..B")]
    range: Option<KeyRange>,
    /// Only the keys of the table that start with this.
    #[arg(long, value_name = "KEY", conflicts_with = "range")]
    prefix: Option<String>,
    /// What the values of the table are.
    #[arg(long, value_name = "KIND", default_value = "text")]
    values: ValueKind,
    /// Names of the columns of CSV values or files without a header, all of them; else
    /// they go by their numbers, from 1.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    names: Vec<String>,
    /// The CSV files have no header.
    #[arg(long)]
    no_header: bool,
    /// Fields of the CSV files may go over several lines. A file is read by one
    /// task then.
    #[arg(long)]
    multiline: bool,
    /// What the generated records are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Exactly one of these.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
#[group(required = true, multiple = false)]
pub(super) struct Place {
    /// Read a table.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    pub(super) table: Option<TableName>,
    /// Read lines of text from files, and of all files in directories, plain or
    /// compressed by gzip.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) text: Vec<PathBuf>,
    /// Read records from CSV files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) csv: Vec<PathBuf>,
    /// Read JSON objects, one per line, from files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) json_lines: Vec<PathBuf>,
    /// Read so many records drawn from a seed: a key of 10 printable characters,
    /// and words, 100 bytes in all.
    #[arg(long, value_name = "RECORDS")]
    pub(super) generate: Option<u64>,
}

/// What values of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ValueKind {
    /// Nothing that has columns.
    Text,
    /// A CSV record each.
    Csv,
    /// A JSON object each.
    Json,
}

/// Keys from one (included) to another (left out); empty ends are open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeyRange {
    from: String,
    to: String,
}

impl FromStr for KeyRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected A..B, as in a..n, a.. or ..n".to_string();
        let (from, to) = text.split_once("..").ok_or_else(expected)?;
        if !to.is_empty() && to <= from {
            return Err(format!("there are no keys from {from:?} up to {to:?}"));
        }
        Ok(Self {
            from: from.to_string(),
            to: to.to_string(),
        })
    }
}

/// Bytes of a generated value: with its key 100.
const GENERATED_VALUE_BYTES: usize = 90;

/// An input that is there.
pub(super) struct Opened {
    pub(super) input: Arc<dyn Input>,
    pub(super) format: RecordFormat,
    /// What a report calls it.
    pub(super) label: String,
    /// The snapshot that it reads.
    pub(super) source: Option<Source>,
    /// What a process of its own has to read.
    pub(super) place: OpenedPlace,
}

/// Where the records of an input are.
pub(super) enum OpenedPlace {
    Table(SnapshotTable),
    Files(FilesInput),
    Generator(Generator),
    /// In a process of its own, which tells nobody.
    Told,
}

impl InputArgs {
    /// Whether a database is needed.
    pub(super) fn is_table(&self) -> bool {
        self.place.table.is_some()
    }

    /// Reads the snapshot that was made for the job, which goes with it.
    pub(super) fn set_own_snapshot(&mut self, name: &str) {
        self.snapshot = Some(name.to_string());
        self.owns_snapshot = true;
    }

    /// Takes that back: reads what it was told to.
    pub(super) fn forget_own_snapshot(&mut self) {
        if std::mem::take(&mut self.owns_snapshot) {
            self.snapshot = None;
        }
    }

    /// Deletes the snapshot that was made for the job.
    pub(super) fn delete_own_snapshot(&self, db: &Db) {
        if let (true, Some(table)) = (self.owns_snapshot, &self.place.table) {
            // Dropped, it takes the snapshot with it. One that cannot be had is gone.
            drop(Source::new(db, table, self.snapshot.as_deref(), true));
        }
    }

    /// The same for another place. Ranges of keys, and how files are written, are
    /// the first one's own.
    pub(super) fn at(&self, place: Place) -> Self {
        Self {
            snapshot: self.snapshot.clone().filter(|_| place.table.is_some()),
            values: match place.table {
                Some(_) => self.values,
                None => ValueKind::Text,
            },
            multiline: self.multiline && !place.csv.is_empty(),
            place,
            range: None,
            prefix: None,
            owns_snapshot: false,
            no_header: false,
            names: Vec::new(),
            seed: self.seed,
        }
    }

    /// Finds what is to be read, and cuts it into at most `splits` splits.
    pub(super) fn open(&self, db: Option<&Db>, splits: usize) -> Result<Opened> {
        self.check()?;
        let place = &self.place;
        let files = [
            (&place.text, FileKind::Text),
            (&place.csv, self.csv_kind()),
            (&place.json_lines, FileKind::JsonLines),
        ];
        if let Some((paths, kind)) = files.into_iter().find(|(paths, _)| !paths.is_empty()) {
            return self.open_files(paths, kind, splits);
        }
        if let Some(records) = place.generate {
            let input = Generator::new(self.seed, records, GENERATED_VALUE_BYTES, splits);
            return Ok(Opened {
                input: Arc::new(input),
                format: RecordFormat::text(),
                label: format!("{records} records drawn from seed {}", self.seed),
                source: None,
                place: OpenedPlace::Generator(input),
            });
        }
        let table = place.table.as_ref();
        let table = table.ok_or_else(|| CliError::Usage("nothing to read is named".into()))?;
        self.open_table(db.context("there is no database")?, table, splits)
    }

    /// That nothing is said of a table or of CSV files where there are none. Among
    /// arguments that exclude each other clap does not ask for what they require.
    fn check(&self) -> Result<(), CliError> {
        let of_table = [
            ("--snapshot", self.snapshot.is_some()),
            ("--range", self.range.is_some()),
            ("--prefix", self.prefix.is_some()),
            ("--values", self.values != ValueKind::Text),
        ];
        let of_csv = [
            ("--no-header", self.no_header),
            ("--multiline", self.multiline),
        ];
        let said = |of: &[(&'static str, bool)]| of.iter().find(|(_, said)| *said).map(|of| of.0);
        if let (Some(option), None) = (said(&of_table), &self.place.table) {
            return Err(CliError::Usage(format!("{option} is for a --table")));
        }
        if let (Some(option), true) = (said(&of_csv), self.place.csv.is_empty()) {
            return Err(CliError::Usage(format!("{option} is for --csv files")));
        }
        let has_unnamed = match &self.place.table {
            Some(_) => self.values == ValueKind::Csv,
            None => !self.place.csv.is_empty() && self.no_header,
        };
        if !self.names.is_empty() && !has_unnamed {
            let text = "--names is for CSV without a header: --csv with --no-header, or a --table \
                        with --values csv";
            return Err(CliError::Usage(text.to_string()));
        }
        Ok(())
    }

    fn csv_kind(&self) -> FileKind {
        FileKind::Csv {
            header: !self.no_header,
            multiline: self.multiline,
        }
    }

    fn open_files(&self, paths: &[PathBuf], kind: FileKind, splits: usize) -> Result<Opened> {
        let input = FilesInput::open(paths, kind, splits)?;
        let format = input.format(&self.names)?;
        let label = paths.iter().map(|path| path.display().to_string());
        Ok(Opened {
            input: Arc::new(input.clone()),
            format,
            label: label.collect::<Vec<_>>().join(" "),
            source: None,
            place: OpenedPlace::Files(input),
        })
    }

    fn open_table(&self, db: &Db, name: &TableName, splits: usize) -> Result<Opened> {
        let given = self.snapshot.as_deref();
        let source = Source::new(db, name, given, self.owns_snapshot)?;
        let table = database::snapshot_table(db, name, source.name())?;
        let mut input = SnapshotInput::new(table.clone(), splits);
        if let Some(KeyRange { from, to }) = &self.range {
            let to = (!to.is_empty()).then(|| Bytes::from(to.clone()));
            input = input.within(from.clone(), to);
        }
        if let Some(prefix) = &self.prefix {
            let to = end_of_prefix(prefix.as_bytes()).map(Bytes::from);
            input = input.within(prefix.clone(), to);
        }
        let format = RecordFormat::table(match self.values {
            ValueKind::Text => ValueFormat::text(),
            ValueKind::Json => ValueFormat::Json,
            ValueKind::Csv if self.names.is_empty() => ValueFormat::csv(None)?,
            ValueKind::Csv => ValueFormat::csv(Some(&self.names))?,
        })?;
        Ok(Opened {
            input: Arc::new(input),
            format,
            label: name.to_string(),
            source: Some(source),
            place: OpenedPlace::Table(table),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_which_may_be_open() {
        let range = |text: &str| text.parse::<KeyRange>().map(|range| (range.from, range.to));
        let ends = |from: &str, to: &str| Ok((from.to_string(), to.to_string()));
        assert_eq!(range("a..n"), ends("a", "n"));
        assert_eq!(range("a.."), ends("a", ""));
        assert_eq!(range("..n"), ends("", "n"));
        for bad in ["a", "b..a", "a..a"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
}

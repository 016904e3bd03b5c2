//! The input of a job, as arguments.

use std::path::PathBuf;
use std::str::FromStr;

use ebb_jobs::request::{
    CsvInput, GeneratedInput, InputRequest, JsonLinesInput, KeySelection, TableInput, TextInput,
    ValueKind,
};

use crate::error::CliError;
use crate::load::delimiter;
use crate::names::TableName;

/// The options of a job with an input.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct InputArgs {
    #[command(flatten)]
    place: Place,
    /// Read the table as it was at this snapshot [default: one made for the job,
    /// deleted at its end; if the job is killed and not restarted, it expires after a
    /// week].
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Only the keys of the table from A up to but not including B. A.. has no end, ..B no start.
    #[arg(long, value_name = "A..B")]
    range: Option<KeyRange>,
    /// Only the keys of the table that start with this.
    #[arg(long, value_name = "KEY", conflicts_with = "range")]
    prefix: Option<String>,
    /// Format of the values of a table without columns. A CQL table has its own columns.
    #[arg(long, value_name = "KIND", default_value = "text")]
    values: ValueKind,
    /// Names of all columns, in their order, of CSV values or of CSV files without a header
    /// [default: the numbers of the columns, from 1].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    names: Vec<String>,
    /// The CSV files have no header.
    #[arg(long)]
    no_header: bool,
    /// Separator of CSV fields: one character, or tab [default: a comma; a tab in files
    /// called .tsv].
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Read malformed quotes in the CSV files, or in CSV values of the table, as text; otherwise
    /// they fail the job. Each file is then read by one task. `ebb load --help` lists the kinds of
    /// malformed quotes.
    #[arg(long)]
    lenient_quotes: bool,
    /// Leave out files that are not text, cannot be read or are malformed, and name them in the
    /// report; otherwise such a file fails the job. To find them, the command reads each file once
    /// before the job.
    #[arg(long)]
    skip_bad: bool,
    /// Seed of the generated records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The columns to read. No option of this struct sets them: [`with`](Self::with) does, for applications
    /// with the option [`ColumnsArg`].
    #[arg(skip)]
    columns: Vec<String>,
}

/// The columns of a CQL table to read, for an application that reads the value of a row as a whole.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ColumnsArg {
    /// The columns of a CQL table that make up the value of a row [default: all but the primary key].
    /// The primary key is the row's key, and its columns cannot be listed here.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    columns: Vec<String>,
}

/// The place of the input: exactly one of these options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Place {
    /// Read a table.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    pub(super) table: Option<TableName>,
    /// Read lines of text from files, and from all files in directories, plain or
    /// compressed by gzip.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) text: Vec<PathBuf>,
    /// Read records from CSV files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) csv: Vec<PathBuf>,
    /// Read JSON objects, one per line, from files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) json_lines: Vec<PathBuf>,
    /// Read this many random records of 100 bytes: a key of 10 printable characters, and
    /// words.
    #[arg(long, value_name = "RECORDS")]
    pub(super) generate: Option<u64>,
}

/// A range of keys from a start (included) to an end (excluded). An empty start or end is open.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl InputArgs {
    /// Returns whether the input is a table, which needs a database.
    pub(super) fn is_table(&self) -> bool {
        self.place.table.is_some()
    }

    /// Returns these arguments, with `columns` as the columns to read.
    pub(super) fn with(self, columns: ColumnsArg) -> Self {
        Self {
            columns: columns.columns,
            ..self
        }
    }

    /// Returns the arguments of a second input at `place`: those of this one, without the options that
    /// are for the first input only (`--range`, `--prefix`, `--names`, `--no-header`, `--delimiter`,
    /// `--columns`) and without those that do not fit the kind of input at `place`.
    pub(super) fn at(&self, place: Place) -> Self {
        let is_csv = match place.table {
            Some(_) => self.values == ValueKind::Csv,
            None => !place.csv.is_empty(),
        };
        Self {
            snapshot: self.snapshot.clone().filter(|_| place.table.is_some()),
            values: match place.table {
                Some(_) => self.values,
                None => ValueKind::Text,
            },
            lenient_quotes: self.lenient_quotes && is_csv,
            skip_bad: self.skip_bad && place.table.is_none(),
            place,
            range: None,
            prefix: None,
            no_header: false,
            delimiter: None,
            names: Vec::new(),
            columns: Vec::new(),
            seed: self.seed,
        }
    }

    /// Makes the input of a job request.
    ///
    /// # Errors
    /// When an option is for another kind of input.
    pub(super) fn into_request(self) -> Result<InputRequest, CliError> {
        self.check()?;
        let Self { place, names, .. } = self;
        Ok(match place {
            Place {
                table: Some(table), ..
            } => InputRequest::Table(TableInput {
                table,
                snapshot: self.snapshot,
                keys: match (self.range, self.prefix) {
                    (Some(KeyRange { from, to }), _) => KeySelection::Range { from, to },
                    (None, Some(prefix)) => KeySelection::Prefix(prefix),
                    (None, None) => KeySelection::All,
                },
                values: self.values,
                names,
                lenient_quotes: self.lenient_quotes,
                columns: self.columns,
            }),
            Place {
                generate: Some(records),
                ..
            } => InputRequest::Generated(GeneratedInput {
                records,
                seed: self.seed,
            }),
            Place { csv, .. } if !csv.is_empty() => InputRequest::Csv(CsvInput {
                header: !self.no_header,
                names,
                delimiter: self.delimiter.map(char::from),
                lenient_quotes: self.lenient_quotes,
                skip_bad: self.skip_bad,
                ..CsvInput::new(csv)
            }),
            Place { json_lines, .. } if !json_lines.is_empty() => {
                InputRequest::JsonLines(JsonLinesInput {
                    paths: json_lines,
                    skip_bad: self.skip_bad,
                })
            }
            Place { text, .. } => InputRequest::Text(TextInput {
                paths: text,
                skip_bad: self.skip_bad,
            }),
        })
    }

    /// Checks that each option fits the input: an option for tables needs a table, one for CSV needs CSV files
    /// or CSV values of a table, and `--skip-bad` needs files. clap cannot check this: it ignores `requires`
    /// among arguments that exclude each other.
    fn check(&self) -> Result<(), CliError> {
        let of_table = [
            ("--snapshot", self.snapshot.is_some()),
            ("--range", self.range.is_some()),
            ("--prefix", self.prefix.is_some()),
            ("--values", self.values != ValueKind::Text),
            ("--columns", !self.columns.is_empty()),
        ];
        let of_csv = [
            ("--no-header", self.no_header),
            ("--delimiter", self.delimiter.is_some()),
            (
                "--lenient-quotes",
                self.lenient_quotes && self.place.table.is_none(),
            ),
        ];
        let used = |of: &[(&'static str, bool)]| of.iter().find(|(_, used)| *used).map(|of| of.0);
        if let (Some(option), None) = (used(&of_table), &self.place.table) {
            let text = format!("{option} is for a --table: leave it out, or name a --table");
            return Err(CliError::Usage(text));
        }
        if let (Some(option), true) = (used(&of_csv), self.place.csv.is_empty()) {
            let text =
                format!("{option} is for --csv files: leave it out, or name them with --csv");
            return Err(CliError::Usage(text));
        }
        let is_files = self.place.table.is_none() && self.place.generate.is_none();
        if self.skip_bad && !is_files {
            let text = "--skip-bad is for files: leave it out, or name files by --text, --csv or \
                        --json-lines";
            return Err(CliError::Usage(text.to_string()));
        }
        if self.lenient_quotes && self.place.table.is_some() && self.values != ValueKind::Csv {
            let text = "--lenient-quotes is for CSV: leave it out, or add --values csv if the \
                        values of the table are CSV";
            return Err(CliError::Usage(text.to_string()));
        }
        let has_unnamed = match &self.place.table {
            Some(_) => self.values == ValueKind::Csv,
            None => !self.place.csv.is_empty() && self.no_header,
        };
        if !self.names.is_empty() && !has_unnamed {
            let text = "--names is for CSV without a header: leave it out, or use --csv with \
                        --no-header, or a --table with --values csv";
            return Err(CliError::Usage(text.to_string()));
        }
        Ok(())
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

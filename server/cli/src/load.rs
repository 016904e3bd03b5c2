//! `ebb load`: loads files into a table, all of their rows or none. A load is not paced, because its
//! process has the database to itself.

mod columnar;
mod scratch;
#[cfg(feature = "publish")]
mod typed;
mod watch;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use ebb_storage::{Db, ErrorKind, SortedWriterOptions, TableOptions};
use ebb_tables::is_cql_table;
use ebb_text::csv::CsvDialect;
use ebb_text::{Duplicates, LoadOptions, LoadReport, SkipReason, Skipped, Sorted, TextFormat};
use indicatif::{DecimalBytes, HumanFloatCount};

use self::scratch::Scratch;
#[cfg(feature = "publish")]
use self::typed::load as load_typed;
use self::watch::Watch;
use super::database::Location;
use super::error::CliError;
use super::interrupt;
use super::names::{TableName, refuse_system};
use super::print::{Printer, counted, notice};

const EXAMPLES: &str = "\
Examples:
  ebb load --table app.lines README.md docs
  ebb load --table app.trips --key id trips.csv
  ebb load --table app.trips --key id --delimiter ';' 2025.csv.gz 2026.csv.gz
  ebb load --table app.events --key user.id --duplicates last events.jsonl
  zcat web.log.gz | ebb load --table logs.web -
  ebb load --table app.lines --skip-bad --json . | jq .rows
  ebb load --table shop.orders orders.parquet
  ebb load --table shop.orders --columns id,total /lake/orders@monday
  ebb load --table shop.orders s3://lake/shop/orders@monday

Without --key every line becomes a row. Its key is the file's path as given and the number
of the line (docs/wal.md:000000000012). Its value is the line. With --key every CSV record
and every line of JSON becomes a row. Its key is that column. Its value is the whole
record. Keys are sorted as bytes: 10 is before 9.

A load is one commit: an invalid line, a file that is not text, Ctrl-C and a full disk
leave the table as it was. A loaded row replaces the row with the same key. Below a
directory, hidden files, files called _SUCCESS, symbolic links and directories called target are
left out. Files compressed by gzip are decompressed. Lines end with LF, CRLF or CR. A byte order
mark at the start is dropped.

Parquet files and Iceberg tables are loaded into a table that CREATE TABLE made, column by
column. A PATH is a Parquet file, a folder of such files, the folder of an Iceberg table, with
@TAG for one of its tags or branches, or one of its files *.metadata.json. Each row is written as
by INSERT: it replaces the values of the row with the same primary key, and a null deletes. Values
are converted exactly, or the load ends.

A PATH may be s3://BUCKET/KEY, in a build with the feature s3. The environment variables
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and so on have the
credentials and the server.";

/// Load files into a table: text, CSV, JSON lines, Parquet or Iceberg, all rows or none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table, created with its keyspace when absent. Parquet and Iceberg need a table that was
    /// created by CQL.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// The column that becomes the row's key: its name, for CSV also its number from 1, for JSON
    /// also a.b for member b of member a [default: the key is the file and the line's number].
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// Format of the files [default: text; with --key, by their extension: .csv, .tsv, .jsonl or
    /// .ndjson].
    #[arg(long, value_name = "FORMAT")]
    format: Option<TextFormat>,
    /// Separator of CSV fields: one character, or tab [default: a comma; a tab in files
    /// called .tsv]. Implies --format csv.
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// The CSV files have no header: columns have numbers only. Implies --format csv.
    #[arg(long)]
    no_header: bool,
    /// Read malformed quotes in CSV as text; otherwise such a file ends the load. These are
    /// malformed: a quote inside a field that does not begin with one; text behind a closing quote;
    /// and a quote that is not closed, whose field takes the rest of the file. Implies --format
    /// csv.
    #[arg(long)]
    lenient_quotes: bool,
    /// Treatment of several input rows with the same key.
    #[arg(long, value_name = "WHICH", default_value = "refuse")]
    duplicates: Duplicates,
    /// Leave out files that are not text, cannot be read or are malformed, with a warning;
    /// otherwise such a file ends the load.
    #[arg(long)]
    skip_bad: bool,
    /// The columns of Parquet files and Iceberg tables to load [default: all; the table must have each
    /// column that is loaded].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// The tag or branch of an Iceberg table [default: main].
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Threads that read files, 1 to 1024 [default: the cores, at most 4].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    threads: Option<usize>,
    /// Print a JSON object: files, skipped, rows, replaced, bytes, columns, seconds.
    #[arg(long)]
    json: bool,
    /// Files, directories with files, - for standard input, and s3://BUCKET/KEY.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Parses the separator of CSV fields: one ASCII character, or `tab`.
pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        b"\"" | b"\n" | b"\r" => {
            Err("a quote or a line break cannot separate fields: choose another character".into())
        }
        &[byte] if CsvDialect::is_delimiter(byte) => Ok(byte),
        _ => Err("expected one ASCII character, or tab".into()),
    }
}

impl Args {
    /// Checks that no options for text are given for a load of Parquet files or Iceberg tables.
    fn refuse_text_options(&self) -> Result<(), CliError> {
        let given = [
            ("--key", self.key.is_some()),
            ("--delimiter", self.delimiter.is_some()),
            ("--no-header", self.no_header),
            ("--lenient-quotes", self.lenient_quotes),
            ("--skip-bad", self.skip_bad),
            ("--threads", self.threads.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(CliError::Usage(format!(
                "{option} is for text, CSV and JSON lines: leave it out to load Parquet files and \
                 Iceberg tables"
            ))),
            None => Ok(()),
        }
    }

    fn options(&self) -> Result<LoadOptions, CliError> {
        let usage = |text: &str| Err(CliError::Usage(text.to_string()));
        let is_csv = self.delimiter.is_some() || self.no_header || self.lenient_quotes;
        let format = self.format.or(is_csv.then_some(TextFormat::Csv));
        if is_csv && format != Some(TextFormat::Csv) {
            return usage(
                "--delimiter, --no-header and --lenient-quotes are for --format csv: leave them \
                 out, or choose --format csv",
            );
        }
        if self.key.is_some() && format == Some(TextFormat::Text) {
            return usage(
                "--key names a column, and lines of text have none: leave out --key or --format",
            );
        }
        let default = LoadOptions::default();
        Ok(LoadOptions {
            format,
            delimiter: self.delimiter,
            lenient_quotes: self.lenient_quotes,
            header: !self.no_header,
            key: self.key.clone(),
            duplicates: self.duplicates,
            skip_bad: self.skip_bad,
            threads: self.threads.unwrap_or(default.threads),
            sorted: SortedWriterOptions::from(&self.location.options()),
            ..default
        })
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    refuse_system(&args.table)?;
    if let Some(inputs) = columnar::inputs(&args)? {
        return load_typed(&args, &inputs);
    }
    let options = args.options()?;
    // Looked up first, so that no database is created for files that do not exist.
    let found = ebb_text::walk(&args.paths, Some(&args.location.data))?;
    if !args.skip_bad {
        refuse(&found.skipped)?;
    }
    if found.files.is_empty() {
        warn_of_skipped(&found.skipped);
        bail!("found no files to load: name a file, or a folder that has some");
    }
    warn_of_records_as_lines(&args);
    let cancelled = interrupt::cancelled()?;
    // Opened before the work, so that a database in use is an error at once.
    let open = args.location.open_if_there()?;
    if let Some(db) = &open {
        refuse_made_by_cql(db, &args.table)?;
    }
    let scratch = Scratch::create_in(&args.location)?;
    // The size of a pipe is not known.
    let is_known = found.files.iter().all(|file| !file.is_stream);
    let watch = Watch::new(is_known.then(|| found.bytes()), cancelled);
    let sorted = ebb_text::sort(&found, &options, scratch.path(), &watch)?;
    watch.finishing();
    let db = match open {
        Some(db) => db,
        None => {
            let db = args.location.open_or_create()?;
            // Another process may have made the table while the files were read.
            refuse_made_by_cql(&db, &args.table)?;
            db
        }
    };
    let report = ingest(&db, &args.table, sorted)?;
    finish(&db, scratch, &watch);
    print(&args, &report)
}

#[cfg(not(feature = "publish"))]
fn load_typed(_args: &Args, inputs: &[columnar::Input]) -> Result<()> {
    let is_bucket = |input: &columnar::Input| matches!(input, columnar::Input::Bucket { .. });
    let features = if inputs.iter().any(is_bucket) {
        " --features s3"
    } else {
        ""
    };
    let text = format!(
        "this build of ebb reads no Parquet files and no Iceberg tables: make one that does by `cargo \
         build --release --package ebb-cli{features}`, without `--no-default-features`"
    );
    Err(CliError::Usage(text).into())
}

/// Finishes a load after its rows were committed: flushes the database and removes the scratch folder.
fn finish(db: &Db, scratch: Scratch, watch: &Watch) {
    // Flushed, so that the next command need not replay the log.
    let flushed = db.flush();
    drop(scratch);
    watch.done();
    if let Err(error) = flushed {
        notice(format_args!(
            "all rows are loaded, but flushing the database failed: {error}; the next command that \
             opens it replays the log instead"
        ));
    }
}

/// Fails if CQL made the table.
fn refuse_made_by_cql(db: &Db, name: &TableName) -> Result<(), CliError> {
    let keyspace = db.existing_keyspace(&name.keyspace);
    let table = keyspace.and_then(|keyspace| keyspace.existing_table(&name.table));
    // If the table cannot be opened, the load makes it, or fails for the same reason.
    if !table.is_ok_and(|table| is_cql_table(&table)) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "table {name} was made by CQL: ebb load fills it from Parquet files and Iceberg tables \
         only; COPY ... FROM of cqlsh fills it from CSV"
    )))
}

/// Adds the sorted rows to the table, which is created if it is absent. On an error, drops the table or the
/// keyspace that was created for them.
fn ingest(db: &Db, name: &TableName, sorted: Sorted) -> Result<LoadReport> {
    let is_keyspace_new = db.existing_keyspace(&name.keyspace).is_err();
    let keyspace = db.keyspace(&name.keyspace)?;
    let (table, is_new) = match keyspace.existing_table(&name.table) {
        Ok(table) => (table, false),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let table = keyspace.table(&name.table, TableOptions::default())?;
            (table, true)
        }
        Err(error) => return Err(error.into()),
    };
    let report = sorted.ingest(&table);
    if report.is_err() {
        // If the drop fails too, an empty table is left, which does no harm.
        let _ = match (is_keyspace_new, is_new) {
            (true, _) => db.drop_keyspace(&name.keyspace),
            (false, true) => keyspace.drop_table(&name.table),
            (false, false) => Ok(()),
        };
    }
    Ok(report?)
}

fn print(args: &Args, report: &LoadReport) -> Result<()> {
    warn_of_skipped(&report.skipped);
    let mut printer = Printer::new();
    if args.json {
        printer.json(&report)?;
        return printer.finish();
    }
    let per_second = |count: u64| count as f64 / report.seconds.max(1e-9);
    printer.line(format_args!(
        "loaded {} ({}) of {} into {} in {:.2} s: {} rows/s, {:.1} MB/s",
        counted(report.rows, "row"),
        DecimalBytes(report.bytes),
        counted(report.files, "file"),
        args.table,
        report.seconds,
        HumanFloatCount(per_second(report.rows).round()),
        per_second(report.bytes) / 1e6,
    ))?;
    if report.replaced > 0 {
        let replaced = counted(report.replaced, "row");
        printer.line(format_args!(
            "left out {replaced}: a later one has the same key"
        ))?;
    }
    if let Some(columns) = &report.columns {
        let names = columns.join(",");
        printer.line(format_args!(
            "columns for jobs: --values csv --names {names}"
        ))?;
    }
    printer.finish()
}

/// Warns if a path of the command line is a CSV or JSON file that is about to be loaded as lines of text,
/// because no option selects records.
fn warn_of_records_as_lines(args: &Args) {
    let is_csv = args.delimiter.is_some() || args.no_header || args.lenient_quotes;
    if args.key.is_some() || args.format.is_some() || is_csv {
        return;
    }
    let is_records = |path: &&PathBuf| path.is_file() && TextFormat::of_name(path).is_some();
    if let Some(path) = args.paths.iter().find(is_records) {
        notice(format_args!(
            "{} is loaded as lines of text; add --key COLUMN to load its records, or \
             --format text if lines are meant",
            path.display()
        ));
    }
}

/// The greatest number of files that a message names. Of the other files it shows only the number.
const NAMED_MAX: usize = 5;

/// Returns the reasons why files were left out, for the first [`NAMED_MAX`] of them, and the number of the
/// others.
fn reasons(skipped: &[Skipped]) -> String {
    let reason = |skipped: &Skipped| {
        let path = skipped.path.display();
        match &skipped.reason {
            SkipReason::NotText(why) => format!("{path} is not UTF-8 text: {why}"),
            SkipReason::Bad(why) => format!("{path}: {why}"),
            SkipReason::Unreadable(why) => format!("cannot read {path}: {why}"),
        }
    };
    let mut reasons: Vec<_> = skipped.iter().take(NAMED_MAX).map(reason).collect();
    if let Some(more @ 1..) = skipped.len().checked_sub(NAMED_MAX) {
        reasons.push(format!("{more} more"));
    }
    reasons.join("; ")
}

/// Fails if some files cannot be loaded. The error is one of malformed input, except if the system refused to
/// read every one of these files: then it is an I/O error.
fn refuse(skipped: &[Skipped]) -> Result<()> {
    if skipped.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}; nothing was loaded; --skip-bad leaves such files out",
        reasons(skipped)
    );
    let is_unreadable = |skipped: &Skipped| matches!(skipped.reason, SkipReason::Unreadable(_));
    if skipped.iter().all(is_unreadable) {
        bail!(text);
    }
    Err(CliError::Usage(text).into())
}

fn warn_of_skipped(skipped: &[Skipped]) {
    if !skipped.is_empty() {
        let files = counted(skipped.len() as u64, "file");
        notice(format_args!("left out {files}: {}", reasons(skipped)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_system_does_not_let_read_are_no_malformed_input() {
        let skipped = |reason| Skipped {
            path: "a.txt".into(),
            reason,
        };
        let denied = || skipped(SkipReason::Unreadable("Permission denied".into()));
        let binary = skipped(SkipReason::NotText("line 1: it has a NUL byte".into()));
        let is_usage = |skipped: &[Skipped]| refuse(skipped).unwrap_err().is::<CliError>();
        assert!(!is_usage(&[denied()]));
        assert!(is_usage(&[denied(), binary]));
        refuse(&[]).unwrap();
    }
}

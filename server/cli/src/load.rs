//! `ebb load`: text files into a table.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use ebb_server::jobs::history::SYSTEM_KEYSPACE;
use ebb_server::text::{self, LoadOptions, LoadReport, SkipReason, Skipped};
use ebb_storage::{Db, ErrorKind, Table, TableOptions};
use indicatif::{DecimalBytes, HumanCount, HumanFloatCount};

use super::database::Location;
use super::error::CliError;
use super::names::TableName;
use super::print::Printer;
use super::progress;

const EXAMPLES: &str = "\
Examples:
  ebb load --keyspace app --table lines README.md docs
  ebb load --data /srv/ebb --keyspace logs --table web /var/log/nginx --threads 2
  ebb load --keyspace app --table lines --json . | jq .rows

Every line becomes a row: the key is the file's path as given and the number of
the line (docs/wal.md:000000000012), the value is the line. Below a directory, hidden
files and directories called target are left out. A file that is not UTF-8 is
skipped whole and said. Loading a file again overwrites its rows. Keyspace and
table are created when absent.";

/// Load text files into a table, one row per line.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// The table.
    #[arg(long)]
    table: String,
    /// Threads, each with one file at a time [default: the cores, at most 4].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print a JSON object: files, skipped, rows, bytes, seconds.
    #[arg(long)]
    json: bool,
    /// Files, and directories with files.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<()> {
    if args.keyspace == SYSTEM_KEYSPACE {
        let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: load into another");
        return Err(CliError::Usage(text).into());
    }
    // Before a database is made for nothing.
    let found = text::walk(&args.paths)?;
    if found.files.is_empty() {
        warn_of_skipped(&found.skipped);
        bail!("found no text files to load");
    }
    let db = args.location.open_or_create()?;
    let table = open_or_create_table(&db, &args)?;
    let mut options = LoadOptions::default();
    if let Some(threads) = args.threads {
        options.threads = threads.get();
    }
    let bar = progress::byte_bar(found.bytes());
    let report = text::load(&db, &table, &found, &options, &|progress| {
        bar.set_position(progress.bytes);
        bar.set_message(format!("{} rows", HumanCount(progress.rows)));
    })?;
    bar.set_message("writing SSTables");
    // So that jobs can split the table by its files, and the next command need
    // not replay the log.
    db.flush()?;
    bar.finish_and_clear();
    print(&args, &report)
}

fn open_or_create_table(db: &Db, args: &Args) -> Result<Table> {
    let keyspace = db.keyspace(&args.keyspace)?;
    match keyspace.existing_table(&args.table) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(keyspace.table(&args.table, TableOptions::default())?)
        }
        found => Ok(found?),
    }
}

fn print(args: &Args, report: &LoadReport) -> Result<()> {
    let mut printer = Printer::new();
    if args.json {
        printer.json(&report)?;
        return printer.finish();
    }
    warn_of_skipped(&report.skipped);
    let per_second = |count: u64| count as f64 / report.seconds.max(1e-9);
    let name = TableName {
        keyspace: args.keyspace.clone(),
        table: args.table.clone(),
    };
    printer.line(format_args!(
        "loaded {} rows ({}) of {} files into {name} in {:.2} s: {} rows/s, {:.1} MB/s",
        HumanCount(report.rows),
        DecimalBytes(report.bytes),
        HumanCount(report.files),
        report.seconds,
        HumanFloatCount(per_second(report.rows).round()),
        per_second(report.bytes) / 1e6,
    ))?;
    printer.finish()
}

/// Skipped files named on stderr; more are counted only.
const NAMED_MAX: usize = 5;

fn warn_of_skipped(skipped: &[Skipped]) {
    let (not_text, unreadable): (Vec<_>, Vec<_>) = skipped
        .iter()
        .partition(|skipped| skipped.reason == SkipReason::NotText);
    if !not_text.is_empty() {
        let names = not_text.iter().take(NAMED_MAX);
        let names = names.map(|skipped| skipped.path.display().to_string());
        let mut names: Vec<String> = names.collect();
        if not_text.len() > NAMED_MAX {
            names.push("...".to_string());
        }
        let (files, are) = match not_text.len() {
            1 => ("file", "is"),
            _ => ("files", "are"),
        };
        eprintln!(
            "ebb: skipped {} {files} that {are} not UTF-8 text: {}",
            not_text.len(),
            names.join(", ")
        );
    }
    for skipped in unreadable.iter().take(NAMED_MAX) {
        if let SkipReason::Unreadable(why) = &skipped.reason {
            eprintln!("ebb: skipped {}: {why}", skipped.path.display());
        }
    }
    if unreadable.len() > NAMED_MAX {
        let more = unreadable.len() - NAMED_MAX;
        eprintln!("ebb: skipped {more} more files that cannot be read");
    }
}

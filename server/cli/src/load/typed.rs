//! Loads rows of Parquet files and Iceberg tables into a table of CQL, by one commit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use anyhow::Result;
use ebb_jobs::CqlLoad;
use ebb_publish::source::{Source, SourceError};
use ebb_publish::target::{Target, TargetError};
use ebb_scheduler::runtime::TaskError;
use ebb_tables::{LazyCatalog, is_cql_table};
use ebb_text::{LoadControl, LoadError, LoadPhase, LoadProgress, LoadReport};

use super::columnar::Input;
use super::scratch::Scratch;
use super::watch::Watch;
use super::{Args, finish, print};
use crate::database;
use crate::error::CliError;
use crate::interrupt;

/// The number of rows between two updates of the progress, each with a check whether the load was cancelled.
const REPORT_EVERY_ROWS: u64 = 1024;

/// Loads the rows of all inputs by one commit. Checks the inputs, the columns and the table first, because
/// reading the rows may take long.
pub(super) fn load<'i>(args: &Args, inputs: &'i [Input]) -> Result<()> {
    let start = Instant::now();
    let mut buckets = BTreeMap::new();
    let source = |input: &'i Input| -> Result<Source, SourceError> {
        match input {
            Input::Files(files) => Source::parquet(files),
            Input::Table { path, tag } => Source::table(path, tag.as_deref()),
            Input::Bucket { bucket, key, tag } => {
                Source::bucket(open(&mut buckets, bucket)?, key, tag.as_deref())
            }
        }
    };
    let sources = inputs.iter().map(source);
    let sources: Vec<Source> = sources.collect::<Result<_, _>>().map_err(refused)?;
    let columns = columns(&args.columns, &sources)?;
    // Before the database opens: from then on, an interrupt has to end the load in order, so that its
    // scratch folder is removed.
    let cancelled = interrupt::cancelled()?;
    // No database is created: a new one has no table of CQL to load into.
    let Some(db) = args.location.open_if_there()? else {
        let text = format!(
            "there is no database in {}: create table {} by CQL first",
            args.location.data.display(),
            args.table
        );
        return Err(CliError::NotFound(text).into());
    };
    if !is_cql_table(&database::table(&db, &args.table)?) {
        let text = format!(
            "table {} was not made by CQL, and rows whose columns have types are loaded into tables \
             of CQL only: create one by CREATE TABLE",
            args.table
        );
        return Err(CliError::Usage(text).into());
    }
    let files = || sources.iter().flat_map(Source::files);
    let bytes: u64 = files().map(|file| file.bytes()).sum();
    // Rows are sorted in files there, until the commit.
    let scratch = Scratch::create_in(&args.location)?;
    let watch = Watch::new(Some(bytes), cancelled);
    let catalog = LazyCatalog::default().of(&db)?;
    let name = (&args.table.keyspace[..], &args.table.table[..]);
    let mut load = CqlLoad::begin(catalog, name, &columns, scratch.path())?;
    read(&sources, &mut load, &watch)?;
    let loaded = load.commit(args.duplicates, &watch);
    // The exit codes are those of loads of text files.
    let loaded = loaded.map_err(|error| -> anyhow::Error {
        match error {
            TaskError::Cancelled => LoadError::Cancelled.into(),
            TaskError::Invalid(problem) => {
                CliError::Usage(format!("{problem}; nothing was loaded")).into()
            }
            error => error.into(),
        }
    })?;
    finish(&db, scratch, &watch);
    let report = LoadReport {
        files: files().count() as u64,
        rows: loaded.rows,
        replaced: loaded.replaced,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        ..LoadReport::default()
    };
    print(args, &report)
}

/// Returns the bucket of this name from `buckets`, or opens it, with credentials from the environment. So
/// each bucket is opened once, however many paths lie in it.
fn open<'b, 'n>(
    buckets: &'b mut BTreeMap<&'n str, Target>,
    name: &'n str,
) -> Result<&'b Target, TargetError> {
    match buckets.entry(name) {
        Entry::Occupied(open) => Ok(open.into_mut()),
        Entry::Vacant(absent) => Ok(absent.insert(Target::bucket(name, "")?)),
    }
}

/// Returns the columns to load: `chosen`, those of the command line, or all columns if `chosen` is empty.
///
/// # Errors
/// When a source lacks a chosen column. If all columns are loaded, when the sources have different columns.
fn columns(chosen: &[String], sources: &[Source]) -> Result<Vec<String>, CliError> {
    let all = sources.first().map(Source::columns).unwrap_or_default();
    let columns = if chosen.is_empty() { all } else { chosen };
    for source in sources {
        let own = source.columns();
        if let Some(absent) = columns.iter().find(|column| !own.contains(column)) {
            return Err(CliError::Usage(format!(
                "a PATH has no column {absent}; it has: {}",
                own.join(", ")
            )));
        }
        if chosen.is_empty() && own.iter().any(|column| !all.contains(column)) {
            return Err(CliError::Usage(format!(
                "one PATH has the columns {}, and another has {}: load each by a command of its \
                 own, or name the columns by --columns",
                all.join(", "),
                own.join(", ")
            )));
        }
    }
    Ok(columns.to_vec())
}

/// Reads all rows of the sources into `load`. Fails if the load is cancelled.
fn read(sources: &[Source], load: &mut CqlLoad, watch: &Watch) -> Result<()> {
    let columns = load.columns().to_vec();
    let mut bytes_read = 0;
    for source in sources {
        for file in source.files() {
            let mut rows = source.rows(file, &columns).map_err(refused)?;
            while rows.next_row().map_err(refused)? {
                let pushed = load.push(rows.values());
                pushed.map_err(|error| match error {
                    TaskError::Invalid(problem) => refused(rows.error(problem.to_string())),
                    error => error.into(),
                })?;
                if load.rows().is_multiple_of(REPORT_EVERY_ROWS) {
                    report(load, bytes_read + rows.bytes_read(), watch)?;
                }
            }
            bytes_read += file.bytes();
        }
    }
    report(load, bytes_read, watch)
}

/// Shows the progress of a load. Fails if the load is cancelled.
fn report(load: &CqlLoad, bytes_read: u64, watch: &Watch) -> Result<()> {
    watch.progress(LoadProgress {
        phase: LoadPhase::Read,
        rows: load.rows(),
        bytes_read,
    });
    if watch.is_cancelled() {
        return Err(LoadError::Cancelled.into());
    }
    Ok(())
}

/// Converts the error of an input. A file or a row that cannot be loaded, and an invalid setting for a bucket,
/// is an error in the arguments ([`CliError::Usage`]); an I/O error is not.
fn refused(error: SourceError) -> anyhow::Error {
    match error {
        SourceError::File { .. }
        | SourceError::Row { .. }
        | SourceError::Target(TargetError::Refused(_)) => {
            CliError::Usage(format!("{error}; nothing was loaded")).into()
        }
        SourceError::Io { .. } | SourceError::Target(_) => error.into(),
    }
}

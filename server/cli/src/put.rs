//! `ebb put`: one row.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_storage::{ErrorKind, MAX_VALUE_BYTES, Table, TableOptions, WriteBatch};

use super::database::{self, Location};
use super::error::CliError;
use super::names::{TableName, key_bytes, refuse_system};
use super::time;

const EXAMPLES: &str = "\
Examples:
  ebb put --create app.users ada 1815
  ebb put app.users ada '{\"born\":1815}'
  ebb put app.pages / < index.html
  ebb put app.sessions 7f3a ada --ttl 30m

Without VALUE it is read from standard input, whole and as it is. The row is on the disk
when the command ends. For many rows there is `ebb load`.";

/// Set the value of a key.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// The key.
    key: OsString,
    /// The value [default: read from standard input].
    value: Option<OsString>,
    /// Expire the row after this time: 30m, 2h, 7days.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    ttl: Option<Duration>,
    /// Create the table, its keyspace and the database when absent.
    #[arg(long)]
    create: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    refuse_system(&args.table)?;
    let key = key_bytes(&args.key);
    let value = match args.value {
        Some(value) => value.into_vec(),
        None => value_of_stdin()?,
    };
    let db = if args.create {
        args.location.open_or_create()?
    } else {
        args.location.open_existing()?
    };
    let table = if args.create {
        existing_or_new(&db, &args.table)?
    } else {
        database::raw_table(&db, &args.table)?
    };
    let mut batch = WriteBatch::new();
    match args.ttl {
        Some(ttl) => batch.put_with_ttl(&table, key, &value, ttl),
        None => batch.put(&table, key, &value),
    }
    db.write(batch)?;
    Ok(db.sync()?)
}

fn existing_or_new(db: &ebb_storage::Db, name: &TableName) -> Result<Table> {
    let keyspace = db.keyspace(&name.keyspace)?;
    match keyspace.existing_table(&name.table) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(keyspace.table(&name.table, TableOptions::default())?)
        }
        table => {
            let table = table?;
            database::refuse_cql(&table)?;
            Ok(table)
        }
    }
}

fn value_of_stdin() -> Result<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        let text = "no VALUE: give one, or pipe it in, as in: ebb put app.pages / < index.html";
        return Err(CliError::Usage(text.to_string()).into());
    }
    let mut value = Vec::new();
    // One byte more than the limit is read, so that the store returns its error for a value too long.
    let read = stdin
        .lock()
        .take(MAX_VALUE_BYTES as u64 + 1)
        .read_to_end(&mut value);
    read.context("cannot read standard input")?;
    Ok(value)
}

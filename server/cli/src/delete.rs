//! `ebb delete`: some rows, or all of a key range.

use std::ffi::OsString;

use anyhow::Result;
use ebb_storage::{Db, Table, WriteBatch};

use super::database::{self, Location};
use super::error::{CliError, require_yes};
use super::key_range::KeyRange;
use super::names::{TableName, key_bytes, refuse_system};
use super::print::{self, counted};

const EXAMPLES: &str = "\
Examples:
  ebb delete app.users ada
  ebb delete app.users ada grace
  ebb delete app.users --prefix test- --yes
  ebb delete app.users --from a --to n --yes

Several keys are deleted by one commit. If one of them does not exist, none is deleted,
and the exit code is 3. A range is deleted with --yes only; without it the command prints
how many rows it has. Snapshots keep their rows.";

/// Delete rows by their keys, or all rows of a key range.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// The keys.
    #[arg(value_name = "KEY", conflicts_with_all = ["from", "to", "prefix"])]
    #[arg(required_unless_present_any = ["from", "to", "prefix"])]
    keys: Vec<OsString>,
    #[command(flatten)]
    range: KeyRange,
    /// Delete the range, however many rows it has.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    refuse_system(&args.table)?;
    let db = args.location.open_existing()?;
    let table = database::raw_table(&db, &args.table)?;
    let rows = if args.keys.is_empty() {
        delete_range(&args, &table)?
    } else {
        delete_keys(&args, &db, &table)?
    };
    db.sync()?;
    print::say(format!(
        "deleted {} of {}",
        counted(rows, "row"),
        args.table
    ))
}

fn delete_keys(args: &Args, db: &Db, table: &Table) -> Result<u64> {
    let mut keys: Vec<&[u8]> = args.keys.iter().map(|key| key_bytes(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut batch = WriteBatch::new();
    for (key, value) in keys.iter().zip(table.get_many(&keys)?) {
        if value.is_none() {
            let key = String::from_utf8_lossy(key);
            let text = format!("no key {key:?} in {}; nothing was deleted", args.table);
            return Err(CliError::NotFound(text).into());
        }
        batch.delete(table, key);
    }
    db.write(batch)?;
    Ok(keys.len() as u64)
}

fn delete_range(args: &Args, table: &Table) -> Result<u64> {
    let bounds = args.range.bounds();
    let mut rows = 0;
    for row in table.range(bounds.clone()) {
        row?;
        rows += 1;
    }
    let is_confirmed = args.yes || rows == 0;
    let (found, table_name) = (counted(rows, "row"), &args.table);
    require_yes(
        is_confirmed,
        format_args!("deletes {found} of {table_name}"),
    )?;
    table.delete_range(bounds)?;
    Ok(rows)
}

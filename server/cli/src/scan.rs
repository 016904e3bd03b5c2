//! `ebb scan`: the rows of a key range. It runs unpaced: no process that serves a load has
//! the database open.

use anyhow::Result;
use ebb_storage::Entry;

use super::database::{self, Location};
use super::key_range::KeyRange;
use super::names::TableName;
use super::print::{self, Printer};

const EXAMPLES: &str = "\
Examples:
  ebb scan app.users
  ebb scan app.users --prefix ada --limit 10
  ebb scan app.users --from a --to n --snapshot monday
  ebb scan app.users --reverse --limit 1 --keys-only
  ebb scan app.users --json | jq -r .key

Rows are printed as KEY<TAB>VALUE, as they are: a tab or newline inside them is
not escaped. Use --json where that matters.";

/// Print the rows of a key range in order, now or as they were at a snapshot.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    #[command(flatten)]
    range: KeyRange,
    /// Stop after this many rows.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// From the last row to the first.
    #[arg(long)]
    reverse: bool,
    /// Leave the values out.
    #[arg(long)]
    keys_only: bool,
    /// Read the table as it was at this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Print a JSON object per line, with key and value; bytes that are not
    /// UTF-8 as key_hex and value_hex.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let db = args.location.open_to_read()?;
    let bounds = args.range.bounds();
    let rows = match &args.snapshot {
        Some(snapshot) => database::snapshot_table(&db, &args.table, snapshot)?.scan(bounds),
        None => database::table(&db, &args.table)?.range(bounds),
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    if args.reverse {
        print_rows(&args, rows.rev().take(limit))
    } else {
        print_rows(&args, rows.take(limit))
    }
}

fn print_rows(args: &Args, rows: impl Iterator<Item = ebb_storage::Result<Entry>>) -> Result<()> {
    let mut printer = Printer::new();
    for row in rows {
        let (key, value) = row?;
        let value = (!args.keys_only).then_some(&value[..]);
        match (args.json, value) {
            (true, value) => printer.json(&print::row(&key, value))?,
            (false, Some(value)) => printer.fields(&[&key, value])?,
            (false, None) => printer.fields(&[&key])?,
        }
    }
    printer.finish()
}

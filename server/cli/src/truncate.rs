//! `ebb truncate`: all rows of a table.

use anyhow::Result;

use super::database::{self, Location, TableSize};
use super::error::require_yes;
use super::names::{TableName, refuse_system};
use super::print;

const EXAMPLES: &str = "\
Examples:
  ebb truncate app.users --yes

Without --yes the command prints what would be deleted, and does nothing. The table itself
stays. Snapshots keep their rows.";

/// Delete all rows of a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// Delete them, however many there are.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let name = &args.table;
    refuse_system(name)?;
    let db = args.location.open_existing()?;
    let table = database::raw_table(&db, name)?;
    let size = TableSize::of(&db, &name.keyspace, Some(&name.table));
    require_yes(args.yes, format_args!("deletes all rows of {name}, {size}"))?;
    table.truncate()?;
    db.sync()?;
    print::say(format!("deleted all rows of {name}, {size}"))
}

//! `ebb drop`: a table or a keyspace, for good.

use anyhow::Result;
use ebb_jobs::history::SYSTEM_KEYSPACE;
use ebb_storage::{Db, Keyspace};
use ebb_tables::forget_keyspace;

use super::database::{self, Location, TableSize};
use super::error::{CliError, require_yes};
use super::names::{TableName, refuse_system, system_refused};
use super::print::{self, counted};

const EXAMPLES: &str = "\
Examples:
  ebb drop app.users --yes
  ebb drop app --yes

Without --yes the command prints what would be dropped, and does nothing. A dropped table stays
readable in the snapshots that cover it, and takes space until they are deleted. Dropping a
keyspace deletes its snapshots, too.";

/// Drop a table, or a keyspace with all its tables and snapshots.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The table, or the keyspace.
    #[arg(value_name = "KEYSPACE[.TABLE]")]
    name: String,
    /// Drop it, whatever is in it.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    if args.name.contains('.') {
        let name: TableName = args.name.parse().map_err(CliError::Usage)?;
        drop_table(&args, &name)
    } else {
        drop_keyspace(&args)
    }
}

fn drop_table(args: &Args, name: &TableName) -> Result<()> {
    refuse_system(name)?;
    let db = args.location.open_existing()?;
    database::table(&db, name)?;
    let size = TableSize::of(&db, &name.keyspace, Some(&name.table));
    require_yes(args.yes, format_args!("drops {name} with {size}"))?;
    let keyspace = database::keyspace(&db, &name.keyspace)?;
    keyspace.drop_table(&name.table)?;
    db.sync()?;
    let kept_by = covering(&keyspace, &name.table);
    let kept = match kept_by {
        0 => String::new(),
        1 => "; 1 snapshot still covers it".to_owned(),
        n => format!("; {n} snapshots still cover it"),
    };
    print::say(format!("dropped table {name} with {size}{kept}"))
}

/// Returns the number of snapshots of a keyspace that contain its table `table`.
fn covering(keyspace: &Keyspace, table: &str) -> u64 {
    let snapshots = keyspace.snapshots();
    let covers = snapshots
        .iter()
        .filter(|info| info.tables.iter().any(|name| name == table));
    covers.count() as u64
}

fn drop_keyspace(args: &Args) -> Result<()> {
    let name = &args.name;
    if name == SYSTEM_KEYSPACE {
        return Err(system_refused().into());
    }
    let db = args.location.open_existing()?;
    let what = contents(&db, &database::keyspace(&db, name)?);
    require_yes(args.yes, format_args!("drops keyspace {name} with {what}"))?;
    db.drop_keyspace(name)?;
    forget_keyspace(&db, name)?;
    db.sync()?;
    print::say(format!("dropped keyspace {name} with {what}"))
}

fn contents(db: &Db, keyspace: &Keyspace) -> String {
    let size = TableSize::of(db, keyspace.name(), None);
    let tables = counted(keyspace.tables().len() as u64, "table");
    let snapshots = counted(keyspace.snapshot_names().len() as u64, "snapshot");
    format!("{tables}, {size} and {snapshots}")
}

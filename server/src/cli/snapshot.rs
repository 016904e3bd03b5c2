//! `ebb snapshot`: create, list and delete named snapshots.

use anyhow::Result;
use ebb_storage::{Db, Keyspace, SnapshotInfo};
use serde_json::json;

use super::database::{self, Location, or_known, unknown_snapshot, unknown_table};
use super::print::{Printer, table};

const EXAMPLES: &str = "\
Examples:
  ebb snapshot create --keyspace app monday
  ebb snapshot create --keyspace app --table users before-import
  ebb snapshot list
  ebb snapshot delete --keyspace app monday";

const CREATE_EXAMPLES: &str = "\
Examples:
  ebb snapshot create --keyspace app monday
  ebb snapshot create --keyspace app --table users before-import

Creating a snapshot costs as much as a small write; nothing is copied. It stays
until it is deleted.";

const LIST_EXAMPLES: &str = "\
Examples:
  ebb snapshot list
  ebb snapshot list --keyspace app --json | jq -r '.[].name'";

const DELETE_EXAMPLES: &str = "\
Examples:
  ebb snapshot delete --keyspace app monday

The space of what only this snapshot saw comes back by compaction, while a
command that writes has the database open.";

/// Create, list and delete named snapshots.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Delete(Delete),
}

/// Remember all tables of a keyspace, or one table, as they are now.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    #[command(flatten)]
    location: Location,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// Only this table of it.
    #[arg(long)]
    table: Option<String>,
    /// Name of the snapshot, new in the keyspace.
    name: String,
}

/// List snapshots, oldest first in each keyspace.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct List {
    #[command(flatten)]
    location: Location,
    /// Only those of this keyspace.
    #[arg(long)]
    keyspace: Option<String>,
    /// Print a JSON array of objects with keyspace, name, commit, tables,
    /// single_table and created.
    #[arg(long)]
    json: bool,
}

/// Delete a snapshot.
#[derive(Debug, clap::Args)]
#[command(after_help = DELETE_EXAMPLES)]
struct Delete {
    #[command(flatten)]
    location: Location,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// Name of the snapshot.
    name: String,
}

pub(super) fn run(args: Args) -> Result<()> {
    match args.action {
        Action::Create(args) => create(&args),
        Action::List(args) => list(&args),
        Action::Delete(args) => delete(&args),
    }
}

fn create(args: &Create) -> Result<()> {
    let db = args.location.open_existing()?;
    let keyspace = database::keyspace(&db, &args.keyspace)?;
    let what = match &args.table {
        Some(table) => {
            let created = keyspace.create_table_snapshot(&args.name, table);
            or_known(created, || unknown_table(&keyspace, table))?;
            format!("table {}.{table}", args.keyspace)
        }
        None => {
            keyspace.create_snapshot(&args.name)?;
            format!("keyspace {}", args.keyspace)
        }
    };
    // What the command said is there has to be there after a power cut.
    db.sync()?;
    say(format!("created snapshot {} of {what}", args.name))
}

fn delete(args: &Delete) -> Result<()> {
    let db = args.location.open_existing()?;
    let keyspace = database::keyspace(&db, &args.keyspace)?;
    let deleted = keyspace.delete_snapshot(&args.name);
    or_known(deleted, || unknown_snapshot(&keyspace, &args.name))?;
    db.sync()?;
    say(format!(
        "deleted snapshot {} of keyspace {}",
        args.name, args.keyspace
    ))
}

fn say(text: String) -> Result<()> {
    let mut printer = Printer::new();
    printer.line(text)?;
    printer.finish()
}

fn list(args: &List) -> Result<()> {
    let db = args.location.open_existing()?;
    let infos = infos(&db, args.keyspace.as_deref())?;
    let created = |info: &SnapshotInfo| humantime::format_rfc3339_seconds(info.created).to_string();
    let mut printer = Printer::new();
    if args.json {
        let object = |(keyspace, info): &(Keyspace, SnapshotInfo)| {
            json!({
                "keyspace": keyspace.name(),
                "name": info.name,
                "commit": info.seq.0,
                "tables": info.tables,
                "single_table": info.single_table,
                "created": created(info),
            })
        };
        printer.json(&infos.iter().map(object).collect::<Vec<_>>())?;
    } else {
        let row = |(keyspace, info): &(Keyspace, SnapshotInfo)| {
            vec![
                keyspace.name().to_string(),
                info.name.clone(),
                info.seq.to_string(),
                created(info),
                info.tables.join(", "),
            ]
        };
        let rows: Vec<_> = infos.iter().map(row).collect();
        let head = ["keyspace", "snapshot", "commit", "created", "tables"];
        for line in table(&head, &["commit"], &rows) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

/// The snapshots of one keyspace, or of all.
fn infos(db: &Db, keyspace: Option<&str>) -> Result<Vec<(Keyspace, SnapshotInfo)>> {
    let names = match keyspace {
        Some(name) => vec![name.to_string()],
        None => db.keyspaces(),
    };
    let mut all = Vec::new();
    for name in names {
        let keyspace = database::keyspace(db, &name)?;
        let infos = keyspace.snapshots().into_iter();
        all.extend(infos.map(|info| (keyspace.clone(), info)));
    }
    Ok(all)
}

//! `ebb snapshot`: create, list, renew and delete named snapshots.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use ebb_storage::{Db, Keyspace, SnapshotInfo, SnapshotOptions, SnapshotScope};
use indicatif::HumanBytes;
use serde_json::json;

use super::database::{self, Location, or_known, unknown_snapshot, unknown_table};
use super::names::TableName;
use super::print::{Printer, say, table};
use super::time;

const EXAMPLES: &str = "\
Examples:
  ebb snapshot create --keyspace app monday
  ebb snapshot create --table app.users before-import
  ebb snapshot create --keyspace app --expires 2h for-the-report
  ebb snapshot list --pinned
  ebb snapshot renew --keyspace app --expires 2h for-the-report
  ebb snapshot delete --keyspace app monday";

const CREATE_EXAMPLES: &str = "\
Examples:
  ebb snapshot create --keyspace app monday
  ebb snapshot create --table app.users before-import
  ebb snapshot create --keyspace app --expires 2h for-the-report

Creating a snapshot costs as much as a small write; nothing is copied. It stays
until it is deleted, or until it expires.";

const LIST_EXAMPLES: &str = "\
Examples:
  ebb snapshot list
  ebb snapshot list --pinned
  ebb snapshot list --keyspace app --json | jq -r '.[].name'

'reads' is the size of the files that reading the snapshot touches; most of it
may be shared. 'pinned' is what deleting this snapshot alone frees: keys and
values before compression, counted by reading through its tables.";

const RENEW_EXAMPLES: &str = "\
Examples:
  ebb snapshot renew --keyspace app --expires 2h for-the-report
  ebb snapshot renew --keyspace app --never monday";

const DELETE_EXAMPLES: &str = "\
Examples:
  ebb snapshot delete --keyspace app monday

The space of what only this snapshot saw comes back by compaction, while a
command that writes has the database open.";

/// Create, list, renew and delete named snapshots.
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
    Renew(Renew),
    Delete(Delete),
}

/// Create a snapshot of all tables of a keyspace, or of one table.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    scope: Scope,
    /// Let it expire after this time, unless renewed: 30m, 2h, 7days.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    expires: Option<Duration>,
    /// Name of the snapshot, new in the keyspace.
    name: String,
}

/// What a snapshot covers: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Scope {
    /// All tables of this keyspace.
    #[arg(long)]
    keyspace: Option<String>,
    /// Only this table.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: Option<TableName>,
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
    /// Also count the bytes that deleting each would free; this reads its tables.
    #[arg(long)]
    pinned: bool,
    /// Print a JSON array of objects with keyspace, name, commit, tables,
    /// single_table, created, expires (or null), runs, approximate_bytes and,
    /// when asked for, pinned_bytes.
    #[arg(long)]
    json: bool,
}

/// Change when a snapshot expires.
#[derive(Debug, clap::Args)]
#[command(after_help = RENEW_EXAMPLES)]
struct Renew {
    #[command(flatten)]
    location: Location,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// Let it expire after this time: 30m, 2h, 7days.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::to_come,
        required_unless_present = "never"
    )]
    expires: Option<Duration>,
    /// Keep it until it is deleted.
    #[arg(long, conflicts_with = "expires")]
    never: bool,
    /// Name of the snapshot.
    name: String,
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
        Action::Renew(args) => renew(&args),
        Action::Delete(args) => delete(&args),
    }
}

fn create(args: &Create) -> Result<()> {
    let db = args.location.open_existing()?;
    let Scope { keyspace, table } = &args.scope;
    let named = keyspace.as_ref();
    let named = named.or(table.as_ref().map(|table| &table.keyspace));
    let keyspace = database::keyspace(&db, named.context("clap asked for one of them")?)?;
    let options = SnapshotOptions {
        table: table.as_ref().map(|name| name.table.clone()),
        expires_in: args.expires,
    };
    let created = keyspace.create_snapshot_with(&args.name, options);
    let what = match table {
        Some(name) => {
            or_known(created, || unknown_table(&keyspace, &name.table))?;
            format!("table {name}")
        }
        None => {
            created?;
            format!("keyspace {}", keyspace.name())
        }
    };
    // The snapshot has to survive a power loss once it is printed.
    db.sync()?;
    let until = match args.expires {
        Some(time) => format!(", to expire in {}", humantime::format_duration(time)),
        None => String::new(),
    };
    say(format!("created snapshot {} of {what}{until}", args.name))
}

fn renew(args: &Renew) -> Result<()> {
    let db = args.location.open_existing()?;
    let keyspace = database::keyspace(&db, &args.keyspace)?;
    let renewed = keyspace.set_snapshot_expiry(&args.name, args.expires);
    or_known(renewed, || unknown_snapshot(&keyspace, &args.name))?;
    db.sync()?;
    let until = match args.expires {
        Some(time) => format!("expires in {}", humantime::format_duration(time)),
        None => "stays until it is deleted".to_string(),
    };
    say(format!(
        "snapshot {} of keyspace {} {until}",
        args.name, args.keyspace
    ))
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

fn list(args: &List) -> Result<()> {
    let db = args.location.open_to_read()?;
    let mut listed = Vec::new();
    for (keyspace, info) in infos(&db, args.keyspace.as_deref())? {
        let pinned_bytes = match args.pinned {
            true => Some(keyspace.snapshot_pinned_bytes(&info.name)?),
            false => None,
        };
        listed.push((keyspace, info, pinned_bytes));
    }
    let rfc3339 = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
    let mut printer = Printer::new();
    if args.json {
        let object = |(keyspace, info, pinned_bytes): &Listed| {
            let mut object = json!({
                "keyspace": keyspace.name(),
                "name": info.name,
                "commit": info.seq.0,
                "tables": info.tables,
                "single_table": matches!(info.scope, SnapshotScope::Table(_)),
                "created": rfc3339(info.created),
                "expires": info.expires.map(rfc3339),
                "runs": info.runs,
                "approximate_bytes": info.approximate_bytes,
            });
            if let Some(bytes) = pinned_bytes {
                object["pinned_bytes"] = (*bytes).into();
            }
            object
        };
        printer.json(&listed.iter().map(object).collect::<Vec<_>>())?;
    } else {
        let now = SystemTime::now();
        let row = |(keyspace, info, pinned_bytes): &Listed| {
            let mut row = vec![
                keyspace.name().to_string(),
                info.name.clone(),
                info.seq.to_string(),
                rfc3339(info.created),
                expires(info, now),
                HumanBytes(info.approximate_bytes).to_string(),
            ];
            row.extend(pinned_bytes.map(|bytes| HumanBytes(bytes).to_string()));
            row.push(info.tables.join(", "));
            row
        };
        let rows: Vec<_> = listed.iter().map(row).collect();
        let mut head = vec!["keyspace", "snapshot", "commit", "created", "expires"];
        head.push("reads");
        head.extend(args.pinned.then_some("pinned"));
        head.push("tables");
        for line in table(&head, &["commit", "reads", "pinned"], &rows) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

/// A snapshot of a keyspace, with the bytes that it pins when asked for.
type Listed = (Keyspace, SnapshotInfo, Option<u64>);

/// The time that a snapshot has left, in the two largest units.
fn expires(info: &SnapshotInfo, now: SystemTime) -> String {
    let Some(at) = info.expires else {
        return "never".to_string();
    };
    let left = at.duration_since(now).unwrap_or_default().as_secs();
    let text = humantime::format_duration(Duration::from_secs(left)).to_string();
    let units: Vec<_> = text.split(' ').take(2).collect();
    format!("in {}", units.join(" "))
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

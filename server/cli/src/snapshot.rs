//! `ebb snapshot`: create, list, renew and delete named snapshots.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::builder::NonEmptyStringValueParser;
use ebb_server::http::{JobsClient, SnapshotList, SnapshotRequest, SnapshotView};
use ebb_storage::{Db, SnapshotOptions};
use indicatif::HumanBytes;

use super::attached::Attached;
use super::database::{self, or_known, unknown_snapshot, unknown_table};
use super::names::TableName;
use super::print::{Printer, say};
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

The column 'reads' is the size of the files that a reader of the snapshot needs;
other snapshots and the tables may share most of them. 'pinned' is how many
bytes of files deleting this snapshot alone would free, counted by one pass over the
tables. The last line is what deleting all listed snapshots would free. It may exceed
the sum: rows that several snapshots share stay until the last of them is deleted.
The snapshots that ebb publish keeps for its next publication are listed only with
--pinned.";

const RENEW_EXAMPLES: &str = "\
Examples:
  ebb snapshot renew --keyspace app --expires 2h for-the-report
  ebb snapshot renew --keyspace app --never monday";

const DELETE_EXAMPLES: &str = "\
Examples:
  ebb snapshot delete --keyspace app monday

Compaction then frees the space of the rows that only this snapshot had, while
ebb serve or another command that writes has the database open.";

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
    attached: Attached,
    #[command(flatten)]
    scope: Scope,
    /// Expire the snapshot after this time, unless it is renewed: 30m, 2h, 7days.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    expires: Option<Duration>,
    /// Name of the snapshot, which no other snapshot of the keyspace has.
    name: String,
}

/// The tables of a snapshot: exactly one of these options.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Scope {
    /// Cover all tables of this keyspace.
    #[arg(long)]
    keyspace: Option<String>,
    /// Cover only this table.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: Option<TableName>,
}

/// List snapshots, oldest first in each keyspace.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct List {
    #[command(flatten)]
    attached: Attached,
    /// List only the snapshots of this keyspace.
    #[arg(long)]
    keyspace: Option<String>,
    /// Also count the bytes that deleting each snapshot would free; this reads the tables.
    #[arg(long)]
    pinned: bool,
    /// Print a JSON array with the objects of `GET /v1/snapshots`: keyspace, name, tables,
    /// created_unix_ms, expires_unix_ms (or null), read_bytes, pinned_bytes (an estimate) and so
    /// on; with --pinned also pinned_exact_bytes and, for a snapshot that ebb made itself,
    /// held_for (its purpose).
    #[arg(long)]
    json: bool,
}

/// Change when a snapshot expires.
#[derive(Debug, clap::Args)]
#[command(after_help = RENEW_EXAMPLES)]
#[command(group = clap::ArgGroup::new("until").required(true).args(["expires", "never"]))]
struct Renew {
    #[command(flatten)]
    attached: Attached,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// Expire the snapshot after this time: 30m, 2h, 7days.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    expires: Option<Duration>,
    /// Keep the snapshot until it is deleted.
    #[arg(long)]
    never: bool,
    /// Name of the snapshot.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

/// Delete a snapshot.
#[derive(Debug, clap::Args)]
#[command(after_help = DELETE_EXAMPLES)]
struct Delete {
    #[command(flatten)]
    attached: Attached,
    /// The keyspace.
    #[arg(long)]
    keyspace: String,
    /// Name of the snapshot.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
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
    let Scope { keyspace, table } = &args.scope;
    let named = keyspace.as_ref();
    let named = named.or(table.as_ref().map(|table| &table.keyspace));
    let named = named.context("clap asked for one of them")?;
    let until = match args.expires {
        Some(time) => format!(", to expire in {}", humantime::format_duration(time)),
        None => String::new(),
    };
    let tell = |what: String| say(format!("created snapshot {} of {what}{until}", args.name));
    if let Some(server) = args.attached.server()? {
        server.create_snapshot(&SnapshotRequest {
            keyspace: named.clone(),
            name: args.name.clone(),
            table: table.as_ref().map(|name| name.table.clone()),
            expires_in_s: args.expires.map(|time| time.as_secs_f64()),
        })?;
        return tell(match table {
            Some(name) => format!("table {name}"),
            None => format!("keyspace {named}"),
        });
    }
    let db = args.attached.location.open_existing()?;
    let keyspace = database::keyspace(&db, named)?;
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
    tell(what)
}

fn renew(args: &Renew) -> Result<()> {
    match args.attached.server()? {
        Some(server) => {
            server.renew_snapshot(&args.keyspace, &args.name, args.expires)?;
        }
        None => {
            let db = args.attached.location.open_existing()?;
            let keyspace = database::keyspace(&db, &args.keyspace)?;
            let renewed = keyspace.set_snapshot_expiry(&args.name, args.expires);
            or_known(renewed, || unknown_snapshot(&keyspace, &args.name))?;
            db.sync()?;
        }
    }
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
    match args.attached.server()? {
        Some(server) => server.delete_snapshot(&args.keyspace, &args.name)?,
        None => {
            let db = args.attached.location.open_existing()?;
            let keyspace = database::keyspace(&db, &args.keyspace)?;
            let deleted = keyspace.delete_snapshot(&args.name);
            or_known(deleted, || unknown_snapshot(&keyspace, &args.name))?;
            db.sync()?;
        }
    }
    say(format!(
        "deleted snapshot {} of keyspace {}",
        args.name, args.keyspace
    ))
}

fn list(args: &List) -> Result<()> {
    let list = match args.attached.server()? {
        Some(server) => listed_by(&server, args)?,
        None => listed_in(&args.attached.location.open_to_read()?, args)?,
    };
    let listed = &list.snapshots;
    let mut printer = Printer::new();
    if args.json {
        printer.json(listed)?;
    } else {
        let now = now_of(&list, SystemTime::now());
        let row = |view: &SnapshotView| {
            let mut row = vec![
                view.keyspace.clone(),
                view.name.clone(),
                view.sequence.to_string(),
                time::rfc3339(view.created_unix_ms / 1000),
                expires(view, now),
                HumanBytes(view.read_bytes).to_string(),
            ];
            if args.pinned {
                let pinned = view.pinned_exact_bytes;
                row.push(
                    pinned.map_or_else(|| "-".to_owned(), |bytes| HumanBytes(bytes).to_string()),
                );
            }
            let tables = view.tables.join(", ");
            row.push(match &view.held_for {
                Some(holder) => format!("{tables}, for {holder}"),
                None => tables,
            });
            row
        };
        let rows: Vec<_> = listed.iter().map(row).collect();
        let mut head = vec!["keyspace", "snapshot", "commit", "created", "expires"];
        head.push("reads");
        head.extend(args.pinned.then_some("pinned"));
        head.push("tables");
        printer.table(&head, &["commit", "reads", "pinned"], &rows)?;
        if let Some(bytes) = list.pinned_exact_together_bytes {
            printer.line(format_args!("all together: {}", HumanBytes(bytes)))?;
        }
    }
    printer.finish()
}

/// Returns the snapshots of a server, the oldest first in each keyspace.
fn listed_by(server: &JobsClient, args: &List) -> Result<SnapshotList> {
    let mut list = server.snapshots(args.keyspace.as_deref(), args.pinned)?;
    // The newest come first there. The sort is stable, so the order by age stays within a keyspace.
    list.snapshots.reverse();
    (list.snapshots).sort_by(|a, b| a.keyspace.cmp(&b.keyspace));
    Ok(list)
}

/// Returns the snapshots of a database, the oldest first in each keyspace.
fn listed_in(db: &Db, args: &List) -> Result<SnapshotList> {
    let names = match &args.keyspace {
        Some(name) => vec![name.clone()],
        None => db.keyspaces(),
    };
    let mut snapshots = Vec::new();
    let now = SystemTime::now();
    for name in names {
        let keyspace = database::keyspace(db, &name)?;
        let mut infos = keyspace.snapshots();
        if args.pinned {
            infos.extend(keyspace.holds());
        }
        let infos = infos.into_iter();
        snapshots.extend(infos.map(|info| SnapshotView::of(&name, info, now)));
    }
    let mut pins = None;
    if args.pinned {
        let mut go_on = |_: u64| ControlFlow::Continue(());
        pins = db.snapshot_pins(args.keyspace.as_deref(), &mut go_on)?;
    }
    if let Some(pins) = &pins {
        snapshots.iter_mut().for_each(|view| view.set_pinned(pins));
    }
    Ok(SnapshotList {
        now_unix_ms: None,
        snapshots,
        next: None,
        pinned_exact_together_bytes: pins.map(|pins| pins.together.file_bytes),
    })
}

/// Returns the current time, for a comparison with the times in `list`. It is the time of the
/// server's clock, or `client_now` if no server sent the list, or the server sent no time.
fn now_of(list: &SnapshotList, client_now: SystemTime) -> SystemTime {
    list.now_unix_ms.map_or(client_now, at)
}

fn at(unix_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms)
}

/// Returns the time until a snapshot expires, in the two largest units.
fn expires(view: &SnapshotView, now: SystemTime) -> String {
    let Some(end) = view.expires_unix_ms.map(at) else {
        return "never".to_string();
    };
    let left = end.duration_since(now).unwrap_or_default().as_secs();
    let text = humantime::format_duration(Duration::from_secs(left)).to_string();
    let units: Vec<_> = text.split(' ').take(2).collect();
    format!("in {}", units.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Regression: a client whose clock was ahead of the server's subtracted its own time from the expiry.
    #[test]
    fn a_snapshot_expires_by_the_clock_of_the_server() {
        let view = json!({
            "keyspace": "app", "name": "s", "sequence": 1, "tables": ["t"], "single_table": false,
            "created_unix_ms": 0, "age_s": 1.0, "expires_unix_ms": 13_000, "runs": 0, "files": 0,
            "read_bytes": 0, "pinned_bytes": 0, "pinned_error_bytes": 0, "pinned_exact_bytes": null,
        });
        // An earlier build of the server sends no time.
        let without_time = json!({
            "snapshots": [view], "next": null, "pinned_exact_together_bytes": null,
        });
        let mut with_time = without_time.clone();
        with_time["now_unix_ms"] = json!(1000);
        for (list, client_unix_ms) in [(with_time, 3_601_000), (without_time, 1000)] {
            let list: SnapshotList = serde_json::from_value(list).unwrap();
            let now = now_of(&list, at(client_unix_ms));
            assert_eq!(expires(&list.snapshots[0], now), "in 12s");
        }
    }
}

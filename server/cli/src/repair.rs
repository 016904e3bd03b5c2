//! `ebb repair`: saves the readable part of a damaged database in a new one, or rewrites the
//! damaged files of a table in place.

mod online;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_storage::{Lost, RepairReport};
use ebb_tables::{Unreadable, unreadable_objects};
use indicatif::HumanBytes;
use serde_json::Value;

use super::attached::Attached;
use super::database::Location;
use super::error::CliError;
use super::names::TableName;
use super::print::{Printer, counted, insert_bytes, unless_closed};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb repair ./ebb-repaired
  ebb repair --data /srv/ebb ./ebb-repaired --json | jq '.lost[]'
  ebb repair --online app.users
  ebb repair --online app.users --accept-loss 9f2c41d07be83a55

With NEWDIR the damaged database is only read. Each loss is printed with the keys that it may
affect: if the newest version of a key is lost, an older one is visible. If anything was lost
the exit code is 5, and the new database is complete otherwise. A table whose schema cannot be
read keeps its rows, is printed, and makes the exit code 5, too.

With --online nothing is changed either, and the exit code is 5 if a file of the table is
damaged, missing or unreadable. The list has a token, and --accept-loss TOKEN gives up what is on
it: new files with what can be read take the place of these files, and the damaged ones move to
the folder `damaged` of the database. If something else is lost by then, nothing is changed, and
the new list is printed. Take the files from a backup first, with `ebb restore`: what is lost here
is lost for good. A server that has the database open, or that --server names, does this itself,
and serves meanwhile.";

/// Save the readable part of a damaged database into a new directory, or rewrite the damaged files
/// of one table in place.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Directory of the new database: one that does not exist yet, or is empty.
    #[arg(value_name = "NEWDIR", required_unless_present = "online")]
    new_dir: Option<PathBuf>,
    /// Instead of saving the database, list what this table has lost in its damaged files.
    #[arg(long, value_name = "KEYSPACE.TABLE", conflicts_with = "new_dir")]
    online: Option<TableName>,
    /// Accept the loss that --online has listed with this token: rewrite the damaged files without
    /// the lost rows.
    #[arg(
        long,
        value_name = "TOKEN",
        requires = "online",
        conflicts_with = "new_dir"
    )]
    accept_loss: Option<String>,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    match (&args.online, &args.new_dir) {
        (Some(table), _) => {
            let accepted = args.accept_loss.as_deref();
            online::run(&args.attached, table, accepted, args.json)
        }
        (None, Some(new_dir)) => save(args.attached.location, new_dir, args.json),
        (None, None) => {
            let text = "name a directory for the new database, or a table with --online";
            Err(CliError::Usage(text.into()).into())
        }
    }
}

/// Saves what can be read of the database at `location` into a new directory.
fn save(location: Location, new_dir: &Path, as_json: bool) -> Result<()> {
    let (dir, options) = (&location.data, location.options());
    let report = maintenance_bar(|tell| ebb_storage::repair(dir, new_dir, &options, tell))?;
    let new = Location {
        data: new_dir.to_path_buf(),
        ..location
    };
    let schema = new
        .open_to_read()
        .and_then(|db| Ok(unreadable_objects(&db)?));
    unless_closed(print(as_json, &report, &schema))?;
    let unreadable = schema.with_context(|| {
        let new_dir = new_dir.display();
        format!("the files are saved in {new_dir}, but the schema there cannot be read")
    })?;
    match report.lost.len() {
        0 if unreadable.is_empty() => Ok(()),
        0 => Err(CliError::Damaged(format!(
            "all files were read, but not every schema; all rows are in {}",
            new_dir.display()
        ))
        .into()),
        n => Err(CliError::Damaged(format!(
            "{n} {} lost; all that could be read is in {}",
            if n == 1 { "part is" } else { "parts are" },
            new_dir.display()
        ))
        .into()),
    }
}

/// Prints what was saved and what was lost. `schema` has the objects of the new database that cannot be read.
/// If the schema could not be read at all, `schema` is an error, which the caller reports.
fn print(as_json: bool, report: &RepairReport, schema: &Result<Vec<Unreadable>>) -> Result<()> {
    let unreadable = schema.as_deref().unwrap_or_default();
    let mut printer = Printer::new();
    if as_json {
        printer.json(&json(report, unreadable)?)?;
    } else {
        tell(&mut printer, report, unreadable)?;
    }
    printer.finish()
}

fn tell(printer: &mut Printer, report: &RepairReport, unreadable: &[Unreadable]) -> Result<()> {
    for lost in &report.lost {
        printer.line(format_args!(
            "lost: {} at offset {}: {} ({})",
            lost.path.display(),
            lost.offset,
            lost.detail,
            keys(lost)
        ))?;
    }
    for snapshot in &report.snapshots_incomplete {
        printer.line(format_args!("snapshot {snapshot} may miss some of that"))?;
    }
    printer.lines(unreadable)?;
    for table in &report.tables {
        printer.line(format_args!(
            "saved {} of {}.{}",
            counted(table.versions, "version"),
            table.keyspace,
            table.name
        ))?;
    }
    printer.line(format_args!(
        "saved {} in {} and {}",
        HumanBytes(report.bytes),
        counted(report.tables.len() as u64, "table"),
        counted(report.snapshots, "snapshot")
    ))
}

/// Returns the keys that a loss may concern, as text.
fn keys(lost: &Lost) -> String {
    let table = lost.table.as_deref().unwrap_or("any table");
    let end = |key: &Option<Vec<u8>>| {
        key.as_ref()
            .map(|key| format!("\"{}\"", key.escape_ascii()))
    };
    match (end(&lost.from_key), end(&lost.to_key)) {
        (None, None) => format!("any key of {table}"),
        (Some(from), None) => format!("keys of {table} from {from}"),
        (None, Some(to)) => format!("keys of {table} up to {to}"),
        (Some(from), Some(to)) => format!("keys of {table} from {from} to {to}"),
    }
}

/// Returns the report as JSON, with keys as text, or as hexadecimal digits if they are not UTF-8.
fn json(report: &RepairReport, unreadable: &[Unreadable]) -> Result<Value> {
    let mut value = serde_json::to_value(report).context("cannot encode the report")?;
    spell_keys(&mut value["lost"], &report.lost);
    value["unreadable"] = serde_json::to_value(unreadable).context("cannot encode the report")?;
    Ok(value)
}

/// Replaces the keys in `json`, the JSON of `lost`, by text, or by hexadecimal digits if they are not UTF-8.
fn spell_keys(json: &mut Value, lost: &[Lost]) {
    let parts = json.as_array_mut().into_iter().flatten();
    for (object, lost) in parts.filter_map(Value::as_object_mut).zip(lost) {
        for (name, key) in [("from_key", &lost.from_key), ("to_key", &lost.to_key)] {
            if let Some(key) = key {
                object.remove(name);
                insert_bytes(object, name, key);
            }
        }
    }
}

//! `ebb repair`: what can be read of a damaged database, in a new one.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_storage::{Lost, RepairReport};
use ebb_tables::{Unreadable, database_options, unreadable_objects};
use indicatif::HumanBytes;
use serde_json::Value;

use super::database::Location;
use super::error::CliError;
use super::print::{Printer, counted, insert_bytes};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb repair ./ebb-repaired
  ebb repair --data /srv/ebb ./ebb-repaired --json | jq '.lost[]'

The damaged database is only read. Each loss is printed with the keys that it may affect:
if the newest version of a key is lost, an older one is visible. If anything was lost the
exit code is 5, and the new database is complete otherwise. A table whose schema cannot be
read keeps its rows, is printed, and makes the exit code 5, too.";

/// Save what can be read of a damaged database into a new directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Directory of the new database; must not exist, or be empty.
    #[arg(value_name = "NEWDIR")]
    new_dir: PathBuf,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let (dir, new_dir) = (&args.location.data, &args.new_dir);
    let options = database_options();
    let report = maintenance_bar(|tell| ebb_storage::repair(dir, new_dir, &options, tell))?;
    let new = Location {
        data: new_dir.clone(),
    };
    let schema = new
        .open_to_read()
        .and_then(|db| Ok(unreadable_objects(&db)?));
    print(args.json, &report, &schema)?;
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

/// Prints what was saved and what was lost, whether the schema of the new database was read or not.
fn print(as_json: bool, report: &RepairReport, schema: &Result<Vec<Unreadable>>) -> Result<()> {
    let unreadable = schema.as_deref().unwrap_or_default();
    let mut printer = Printer::new();
    match as_json {
        true => printer.json(&json(report, unreadable)?)?,
        false => tell(&mut printer, report, unreadable)?,
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

/// Which keys something lost may concern.
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

/// The report with keys as text, or as hexadecimal digits.
fn json(report: &RepairReport, unreadable: &[Unreadable]) -> Result<Value> {
    let mut value = serde_json::to_value(report).context("cannot encode the report")?;
    let lost = value["lost"].as_array_mut().into_iter().flatten();
    for (object, lost) in lost.filter_map(Value::as_object_mut).zip(&report.lost) {
        for (name, key) in [("from_key", &lost.from_key), ("to_key", &lost.to_key)] {
            if let Some(key) = key {
                object.remove(name);
                insert_bytes(object, name, key);
            }
        }
    }
    value["unreadable"] = serde_json::to_value(unreadable).context("cannot encode the report")?;
    Ok(value)
}

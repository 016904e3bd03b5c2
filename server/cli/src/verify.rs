//! `ebb verify`: checks a database's files, and reads the schema as a server does when it starts.
//! It runs unpaced: no other process has the database open for writing.

use anyhow::{Context, Result};
use ebb_storage::VerifyReport;
use ebb_tables::{Unreadable, database_options, unreadable_objects};
use indicatif::HumanBytes;
use serde::Serialize;

use super::database::Location;
use super::error::CliError;
use super::print::{Printer, counted, json_or_text};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb verify
  ebb verify --data ./ebb-backup --json | jq '.findings[].path'

Every file is read once, then the schema of each table, type and snapshot, the roles and the
records of the node, as a server reads them. Nothing is written. If anything is damaged the exit code is 5. `ebb repair` saves what can
be read of the files into another directory.";

/// Check every file of a database: checksums, order, bounds, log, snapshots; and the schema.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let dir = &args.location.data;
    let files = maintenance_bar(|tell| ebb_storage::verify(dir, &database_options(), tell))?;
    let report = with_schema(files, || {
        let db = args.location.open_to_read()?;
        Ok(unreadable_objects(&db)?)
    })?;
    json_or_text(args.json, &report, |printer| tell(printer, &report))?;
    let dir = dir.display();
    let (damaged, unreadable) = (report.files.findings.len(), report.unreadable.len());
    let advice = match damaged {
        0 => "each line names what to do".to_string(),
        _ => format!("save what can be read with: ebb repair --data {dir} NEWDIR"),
    };
    match damaged + unreadable {
        0 => Ok(()),
        1 => Err(CliError::Damaged(format!("1 thing is wrong in {dir}; {advice}")).into()),
        n => Err(CliError::Damaged(format!("{n} things are wrong in {dir}; {advice}")).into()),
    }
}

/// The findings in the files, and those in the schema.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    files: VerifyReport,
    /// The objects that a server cannot read.
    unreadable: Vec<Unreadable>,
    /// The reason why the schema was not read, if files are damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_not_read: Option<String>,
}

/// Reads the schema, too. Damage may keep the database from opening, and is in the report then.
///
/// # Errors
/// If the schema cannot be read of a database whose files are whole.
fn with_schema(
    files: VerifyReport,
    read: impl FnOnce() -> Result<Vec<Unreadable>>,
) -> Result<Report> {
    let (unreadable, schema_not_read) = match read() {
        Ok(unreadable) => (unreadable, None),
        Err(error) if !files.findings.is_empty() => (Vec::new(), Some(error.to_string())),
        Err(error) => return Err(error).context("cannot read the schema"),
    };
    Ok(Report {
        files,
        unreadable,
        schema_not_read,
    })
}

fn tell(printer: &mut Printer, report: &Report) -> Result<()> {
    let Report {
        files: report,
        unreadable,
        schema_not_read,
    } = report;
    for finding in &report.findings {
        let path = finding.path.display();
        printer.line(format_args!(
            "{path} at offset {}: {}",
            finding.offset, finding.detail
        ))?;
    }
    printer.lines(unreadable)?;
    if let Some(why) = schema_not_read {
        printer.line(format_args!("the schema was not read: {why}"))?;
    }
    printer.line(format_args!(
        "read {} in {}: {} in {}, {} in the log, {}",
        HumanBytes(report.bytes),
        counted(report.files, "file"),
        counted(report.entries, "version"),
        counted(report.runs, "run"),
        counted(report.wal_records, "commit"),
        counted(report.bookmarks, "snapshot"),
    ))?;
    if report.wal_torn_bytes > 0 {
        printer.line(format_args!(
            "the log ends with {} that a crash left unfinished; the next opening cuts them",
            HumanBytes(report.wal_torn_bytes)
        ))?;
    }
    if report.findings.is_empty() && unreadable.is_empty() {
        printer.line("nothing is wrong")?;
    }
    Ok(())
}

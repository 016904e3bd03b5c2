//! `ebb verify`: checks a database's files. It runs unpaced: nobody has the database open for
//! writing.

use anyhow::Result;
use ebb_storage::VerifyReport;
use ebb_tables::database_options;
use indicatif::HumanBytes;

use super::database::Location;
use super::error::CliError;
use super::print::{Printer, counted};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb verify
  ebb verify --data ./ebb-backup --json | jq '.findings[].path'

Every file is read once. Nothing is written, and the log is not recovered. If anything is
damaged the exit code is 5. `ebb repair` saves what can be read into another directory.";

/// Check every file of a database: checksums, order, bounds, log, snapshots.
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
    let report = maintenance_bar(|tell| ebb_storage::verify(dir, &database_options(), tell))?;
    let mut printer = Printer::new();
    match args.json {
        true => printer.json(&report)?,
        false => tell(&mut printer, &report)?,
    }
    printer.finish()?;
    match report.findings.len() {
        0 => Ok(()),
        n => Err(CliError::Damaged(format!(
            "{n} {} wrong in {dir}; save what can be read with: ebb repair --data {dir} NEWDIR",
            if n == 1 { "thing is" } else { "things are" },
            dir = dir.display(),
        ))
        .into()),
    }
}

fn tell(printer: &mut Printer, report: &VerifyReport) -> Result<()> {
    for finding in &report.findings {
        let path = finding.path.display();
        printer.line(format_args!(
            "{path} at offset {}: {}",
            finding.offset, finding.detail
        ))?;
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
    if report.findings.is_empty() {
        printer.line("nothing is wrong")?;
    }
    Ok(())
}

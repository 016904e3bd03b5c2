//! `ebb restore`: replaces the damaged files of a database by their copies in a backup.

use std::path::PathBuf;

use anyhow::Result;
use ebb_storage::RestoredFile;

use super::attached::Attached;
use super::error::CliError;
use super::print::{Printer, counted, json_or_text};
use super::progress::spinner_while;

const EXAMPLES: &str = "\
Examples:
  ebb restore /mnt/other/ebb-backup

Every file of the database is read. A damaged file is replaced if the backup has the same file,
by its id, undamaged. Everything else stays as it is, so no write is lost. A backup on the same
file system shares its files with the database by hard links, and so the damage, unless it was
copied.

A server that has the database open does this itself, and serves meanwhile. A server that --server
names takes a backup below its --backup-root: BACKUP is a name, or a path there.";

/// Replace the damaged files of the database by their copies in a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Directory of a backup of this database.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Print one JSON object: restored (a list of the replaced files), left (a list of those
    /// that are still damaged).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let report = match args.attached.server()? {
        Some(server) => {
            let place = args.attached.backup_place(&args.backup)?;
            spinner_while("the server reads its files", || server.restore(&place))?
        }
        None => {
            let db = args.attached.location.open_existing()?;
            db.restore(&args.backup)?
        }
    };
    json_or_text(args.json, &report, |printer| {
        for file in &report.left {
            tell(printer, "still damaged", file)?;
        }
        for file in &report.restored {
            tell(printer, "restored", file)?;
        }
        printer.line(format_args!(
            "restored {}; {} still damaged",
            counted(report.restored.len() as u64, "file"),
            report.left.len()
        ))
    })?;
    if report.left.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} still damaged: name another backup, such as a copy on another disk; without one, give \
         up what is lost with: ebb repair --online KEYSPACE.TABLE",
        counted(report.left.len() as u64, "file")
    );
    Err(CliError::Damaged(text).into())
}

fn tell(printer: &mut Printer, what: &str, file: &RestoredFile) -> Result<()> {
    let path = file.path.display();
    printer.line(format_args!(
        "{what}: {path} of {}: {}",
        file.table, file.detail
    ))
}

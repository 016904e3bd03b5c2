//! `ebb restore`: replaces the damaged files of a database by their copies in a backup.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Result;
use ebb_jobs::history::RESTORE;
use ebb_storage::{RestoreReport, RestoreStep, RestoredFile};

use super::attached::Attached;
use super::error::CliError;
use super::print::{Printer, counted, json_or_text};
use super::progress::maintenance_bar;
use super::rate::Rate;
use super::server_progress::with_server_progress;

const EXAMPLES: &str = "\
Examples:
  ebb restore /mnt/other/ebb-backup

Every file of the database is read. A damaged file is replaced if the backup has the same file,
by its id, undamaged. Everything else stays as it is, so no write is lost. A backup on the same
file system shares its files with the database by hard links, and so the damage, unless it was
copied.

A server that has the database open does this itself, and serves meanwhile. A server that --server
names takes a backup below its --backup-root: BACKUP is a name, or a path there. ebb jobs lists the
work of a server as application restore, and ebb jobs cancel ends it.";

/// Replace the damaged files of the database by their copies in a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Directory of a backup of this database.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    #[command(flatten)]
    rate: Rate,
    /// Print one JSON object: restored (a list of the replaced files), left (a list of those
    /// that are still damaged).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let report = match args.attached.server()? {
        Some(server) => {
            let place = args.attached.backup_place(&args.backup)?;
            let what = "the server reads its files";
            let restore = || server.restore(&place, args.rate.bytes_per_s);
            with_server_progress(&args.attached, RESTORE, what, restore)?
        }
        None => restored(&args)?,
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

/// Restores the files in this process, and shows a progress bar.
fn restored(args: &Args) -> Result<RestoreReport> {
    let db = args.attached.location.open_existing()?;
    let restored = maintenance_bar(|tell| {
        let mut tell = args.rate.paced(tell);
        let restored = db.restore_while(&args.backup, |step| {
            if let RestoreStep::Read(now) = step {
                tell(now);
            }
            ControlFlow::Continue(())
        });
        Ok(restored?.expect("the step does not break"))
    });
    Ok(restored?)
}

fn tell(printer: &mut Printer, what: &str, file: &RestoredFile) -> Result<()> {
    let path = file.path.display();
    printer.line(format_args!(
        "{what}: {path} of {}: {}",
        file.table, file.detail
    ))
}

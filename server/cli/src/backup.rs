//! `ebb backup`: copies the database into a directory. Without a server it runs unpaced unless `--rate` is
//! given: the process has the database to itself.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_jobs::check_outside;
use ebb_jobs::history::{
    BACKUP, BackupReport, BackupRequest, History, HistoryError, JobRecord, MaintenanceOptions,
    now_unix_ms,
};
use ebb_storage::{Backup, BackupInfo, Db, MaintenanceProgress};
use indicatif::HumanBytes;
use rustix::process::getuid;

use super::attached::Attached;
use super::error::CliError;
use super::print::{counted, json_or_text, notice};
use super::progress::maintenance_bar;
use super::rate::Rate;
use super::server_progress::with_server_progress;

const EXAMPLES: &str = "\
Examples:
  ebb backup ./ebb-backup
  ebb backup --data /srv/ebb /mnt/other/ebb-backup --json
  ebb backup --rate 50MiB /mnt/other/ebb-backup

A backup is a database, with all snapshots. Within a file system its SSTables are hard
links, so it takes only the space of the log. On another file system they are copied. Every
file is checked. If files are damaged, missing or unreadable, the backup is made nevertheless
and lists them, but the exit code is 5. An interrupted backup does not open.

The directory may have an older backup of the same database. Its files are verified, and only
those that are missing or damaged are copied. The older backup stays whole until the new one
takes its place in one step, and stays for good if the new one has damage. A backup that was
opened for writing since, as by ebb serve, has become another database and is refused. The
directory may not lie in that of the database.

A server that has the database open makes the backup itself, and serves meanwhile. A server
that --server names makes it below its --backup-root: DIR is a name, or a path there. ebb jobs
lists the backup, and ebb jobs cancel ends one that a server makes. Without a server, a backup is
listed only if the database has had jobs.";

/// Back up the database into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Directory of the backup: new, empty, or with an older backup of the database.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    rate: Rate,
    /// Print one JSON object: files, bytes, linked_bytes, copied_bytes, kept_bytes (of files that
    /// the older backup has), damaged (a list), older_stays (true if the older backup was kept
    /// because of damage).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    // A server that is named by its address has its own directory, and makes backups below its --backup-root.
    if !args.attached.names_server() {
        check_outside(&args.attached.location.data, &args.dir)?;
    }
    let info = match args.attached.server()? {
        Some(server) => {
            let place = args.attached.backup_place(&args.dir)?;
            let rate = args.rate.bytes_per_s;
            let what = "the server makes the backup";
            let back_up = || server.back_up(&place, rate);
            with_server_progress(&args.attached, BACKUP, what, back_up)?
        }
        None => back_up(&args)?,
    };
    json_or_text(args.json, &info, |printer| {
        for finding in &info.damaged {
            let (path, offset) = (finding.path.display(), finding.offset);
            printer.line(format_args!(
                "{path} at offset {offset}: {}",
                finding.detail
            ))?;
        }
        // The new backup was not completed, so its numbers are those of no backup.
        if info.older_stays {
            let dir = args.dir.display();
            return printer.line(format_args!("the older backup in {dir} stays"));
        }
        printer.line(format_args!(
            "backed up {} in {} to {}: {} linked, {} copied, {} kept",
            HumanBytes(info.bytes),
            counted(info.files, "file"),
            args.dir.display(),
            HumanBytes(info.linked_bytes),
            HumanBytes(info.copied_bytes),
            HumanBytes(info.kept_bytes),
        ))
    })?;
    // The backup was made and reported; damage only sets the exit code.
    if info.damaged.is_empty() {
        return Ok(());
    }
    let damaged = counted(info.damaged.len() as u64, "damaged or missing file");
    let text = if info.older_stays {
        format!(
            "{damaged}, so the older backup was not replaced: take the files from that with ebb \
             restore, or give up what is lost with ebb repair --online, and back up again; or name \
             another directory"
        )
    } else {
        format!(
            "the backup has {damaged}: keep an older one, take the files from that with ebb \
             restore, or give up what is lost with ebb repair --online, and make another"
        )
    };
    Err(CliError::Damaged(text).into())
}

/// Makes the backup in this process. Records it if the database has a history of jobs. If the record
/// cannot be written, prints a warning and makes the backup nevertheless.
fn back_up(args: &Args) -> Result<BackupInfo> {
    let db = args.attached.location.open_existing()?;
    let target = std::path::absolute(&args.dir).context("the path of the backup")?;
    let request = BackupRequest {
        target: target.display().to_string(),
        options: MaintenanceOptions {
            by: format!("uid {}", getuid().as_raw()),
            rate_bytes_per_s: args.rate.bytes_per_s,
        },
    };
    let started_unix_ms = now_unix_ms();
    // Captures the state, so that the backup does not contain its own unfinished record.
    let backup = db.start_backup(&args.dir)?;
    let job = or_warn(begin(&db, &request, started_unix_ms)).flatten();
    let made = copy(backup, args.rate);
    if let Some((history, job)) = &job {
        let report = match &made {
            Ok(made) => BackupReport::finished(made.clone()),
            Err(error) => BackupReport::failed(error.to_string()),
        };
        or_warn(history.end_backup(job, &report));
    }
    Ok(made?)
}

/// Records in the history of jobs, if the database has one, that a backup has begun.
fn begin(
    db: &Db,
    request: &BackupRequest,
    started_unix_ms: u64,
) -> Result<Option<(History, JobRecord)>, HistoryError> {
    let Some(history) = History::existing(db)? else {
        return Ok(None);
    };
    let job = history.begin_backup(request, started_unix_ms)?;
    Ok(Some((history, job)))
}

/// Returns the value of `recorded`. On an error, prints that the backup is not in the history, and returns
/// `None`.
fn or_warn<T>(recorded: Result<T, HistoryError>) -> Option<T> {
    let warn = |error: &HistoryError| {
        notice(format_args!(
            "the backup is not in the history of jobs: {error}"
        ));
    };
    recorded.inspect_err(warn).ok()
}

/// Copies and checks the files of a backup, and shows a progress bar.
fn copy(mut backup: Backup<'_>, rate: Rate) -> ebb_storage::Result<BackupInfo> {
    maintenance_bar(|tell| {
        let mut tell = rate.paced(tell);
        let mut step = |now: MaintenanceProgress| {
            tell(now);
            ControlFlow::Continue(())
        };
        let _copied = backup.copy(&mut step)?;
        let made = backup.finish(&mut step)?;
        Ok(made.expect("the step does not break"))
    })
}

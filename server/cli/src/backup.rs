//! `ebb backup`: copies the database into a new directory. Without a server it runs unpaced: the
//! process has the database to itself.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;

use super::attached::Attached;
use super::error::CliError;
use super::print::{counted, json_or_text};
use super::progress::{maintenance_bar, spinner_while};

const EXAMPLES: &str = "\
Examples:
  ebb backup ./ebb-backup
  ebb backup --data /srv/ebb /mnt/other/ebb-backup --json

A backup is a database, with all snapshots. Within a file system its SSTables are hard
links, so it takes only the space of the log. On another file system they are copied. Every
file is checked. If files are damaged, missing or unreadable, the backup is made nevertheless
and lists them, but the exit code is 5. An interrupted backup does not open.

A server that has the database open makes the backup, and goes on meanwhile. A server that
is named by --server makes it below its --backup-root: NEWDIR is a name, or a path there.";

/// Back up the database into a new directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Directory of the backup; must not exist, or be empty.
    #[arg(value_name = "NEWDIR")]
    new_dir: PathBuf,
    /// Print one JSON object: files, bytes, linked_bytes, copied_bytes, damaged.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let info = match args.attached.server()? {
        Some(server) => {
            let place = args.attached.backup_place(&args.new_dir)?;
            spinner_while("the server makes the backup", || server.back_up(&place))?
        }
        None => {
            let db = args.attached.location.open_existing()?;
            maintenance_bar(|tell| db.backup_with_progress(&args.new_dir, tell))?
        }
    };
    json_or_text(args.json, &info, |printer| {
        for finding in &info.damaged {
            let (path, offset) = (finding.path.display(), finding.offset);
            printer.line(format_args!(
                "{path} at offset {offset}: {}",
                finding.detail
            ))?;
        }
        printer.line(format_args!(
            "backed up {} in {} to {}: {} linked, {} copied",
            HumanBytes(info.bytes),
            counted(info.files, "file"),
            args.new_dir.display(),
            HumanBytes(info.linked_bytes),
            HumanBytes(info.copied_bytes),
        ))
    })?;
    if info.damaged.is_empty() {
        return Ok(());
    }
    let damaged = counted(info.damaged.len() as u64, "damaged or missing file");
    let text = format!(
        "the backup has {damaged}: keep an older one, take the files from that with ebb restore, or \
         give up what is lost with ebb repair --online, and make another"
    );
    Err(CliError::Damaged(text).into())
}

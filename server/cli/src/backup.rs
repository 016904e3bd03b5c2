//! `ebb backup`: copies the database into a new directory. It runs unpaced: the
//! process has the database to itself.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;

use super::database::Location;
use super::print::{counted, json_or_text};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb backup ./ebb-backup
  ebb backup --data /srv/ebb /mnt/other/ebb-backup --json

A backup is a database, with all snapshots. Within a file system its SSTables are hard
links, so it takes only the space of the log. On another file system they are copied. An
interrupted backup does not open.";

/// Back up the database into a new directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Directory of the backup; must not exist, or be empty.
    #[arg(value_name = "NEWDIR")]
    new_dir: PathBuf,
    /// Print one JSON object: files, bytes, linked_bytes, copied_bytes.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let db = args.location.open_existing()?;
    let info = maintenance_bar(|tell| db.backup_with_progress(&args.new_dir, tell))?;
    json_or_text(args.json, &info, |printer| {
        printer.line(format_args!(
            "backed up {} in {} to {}: {} linked, {} copied",
            HumanBytes(info.bytes),
            counted(info.files, "file"),
            args.new_dir.display(),
            HumanBytes(info.linked_bytes),
            HumanBytes(info.copied_bytes),
        ))
    })
}

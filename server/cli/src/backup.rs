//! `ebb backup`: a second directory that opens as the database. It runs unpaced: the
//! process has the database to itself.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;

use super::database::Location;
use super::print::{Printer, counted};
use super::progress::maintenance_bar;

const EXAMPLES: &str = "\
Examples:
  ebb backup ./ebb-backup
  ebb backup --data /srv/ebb /mnt/other/ebb-backup --json

Snapshots are in it. Within a file system the SSTables are hard links, so that a
backup takes the space of the log only; elsewhere they are copied. A backup that
is interrupted does not open.";

/// Make a directory that opens as the database is now.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Directory of the new one; missing or empty.
    #[arg(value_name = "NEWDIR")]
    new_dir: PathBuf,
    /// Print one JSON object: files, bytes, linked_bytes, copied_bytes.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let db = args.location.open_existing()?;
    let info = maintenance_bar(|tell| db.backup_with_progress(&args.new_dir, tell))?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&info)?;
    } else {
        printer.line(format_args!(
            "backed up {} in {} to {}: {} linked, {} copied",
            HumanBytes(info.bytes),
            counted(info.files, "file"),
            args.new_dir.display(),
            HumanBytes(info.linked_bytes),
            HumanBytes(info.copied_bytes),
        ))?;
    }
    printer.finish()
}

//! `ebb backup`: a second directory that opens as the database.

use anyhow::Result;
use indicatif::HumanBytes;

use super::database::{FromTo, Location};
use super::print::{Printer, counted};

const EXAMPLES: &str = "\
Examples:
  ebb backup ./ebb-data ./ebb-backup
  ebb backup ./ebb-data /mnt/other/ebb-backup --json

Snapshots are in it. Within a file system the SSTables are hard links, so that a
backup takes the space of the log only; elsewhere they are copied. A backup that
is interrupted does not open.";

/// Make a directory that opens as the database is now.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    directories: FromTo,
    /// Print one JSON object: files, bytes, linked_bytes, copied_bytes.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let FromTo { dir, new_dir } = args.directories;
    let db = Location { data: dir }.open_existing()?;
    let info = db.backup(&new_dir)?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&info)?;
    } else {
        printer.line(format_args!(
            "backed up {} in {} to {}: {} linked, {} copied",
            HumanBytes(info.bytes),
            counted(info.files, "file"),
            new_dir.display(),
            HumanBytes(info.linked_bytes),
            HumanBytes(info.copied_bytes),
        ))?;
    }
    printer.finish()
}

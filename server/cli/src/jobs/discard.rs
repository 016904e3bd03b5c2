//! `ebb jobs discard`: unfinished jobs that nobody wants any more.

use anyhow::Result;
use ebb_server::node::{Node, NodeOptions};

use crate::database::Location;
use crate::print::Printer;

const EXAMPLES: &str = "\
Examples:
  ebb jobs discard 1795293012345

The job is cancelled: it is not started again, and a snapshot that was made for it is
deleted. What it was about to write was never there.";

/// Cancel unfinished jobs instead of starting them again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Which; `last` is the latest job.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let db = args.location.open_existing()?;
    let node = Node::start(Some(db), NodeOptions::default())?;
    let mut printer = Printer::new();
    for id in &args.ids {
        let job = node.discard(id)?;
        printer.line(format!("discarded {} {}", job.application, job.id))?;
    }
    printer.finish()
}

//! `ebb jobs discard`: cancels unfinished jobs.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use ebb_server::jobs::Jobs;
use ebb_server::node::{Node, NodeOptions};

use crate::attached::Attached;
use crate::print::{Printer, unless_closed};

const EXAMPLES: &str = "\
Examples:
  ebb jobs discard 1795293012345

The job is recorded as cancelled, and the snapshots made for it are deleted. If its output was
already in place when its process ended, the output stays.";

/// Cancel unfinished jobs instead of restarting them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the jobs; `last` is the latest job.
    #[arg(value_name = "ID", required = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    ids: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<()> {
    match args.attached.server()? {
        Some(server) => discard(&server, &args.ids),
        None => {
            let db = args.attached.location.open_existing()?;
            discard(&Node::start(Some(db), NodeOptions::default())?, &args.ids)
        }
    }
}

fn discard(jobs: &impl Jobs, ids: &[String]) -> Result<()> {
    let mut printer = Printer::new();
    // The remaining jobs are discarded also if the reader of the output has closed it.
    let mut printed = Ok(());
    for id in ids {
        let job = jobs.discard(id)?.record;
        let line = format!("discarded {} {}", job.application, job.id);
        printed = printed.and_then(|()| printer.line(line));
    }
    unless_closed(printed.and_then(|()| printer.finish()))
}

//! `ebb jobs cancel`: cancels jobs of a server.

use std::time::Duration;

use anyhow::Result;
use ebb_server::jobs::{Jobs, ReadJobs};

use crate::attached::Attached;
use crate::error::CliError;
use crate::print::Printer;

const EXAMPLES: &str = "\
Examples:
  ebb jobs cancel 1795293012345
  ebb jobs cancel last

Nothing of their output is written. Jobs of `ebb run` are cancelled there, by Ctrl-C.";

/// Cancel jobs that run in the server which holds the database.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the jobs; `last` is the latest job.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let data = &args.attached.location.data;
    let Some(server) = args.attached.server()? else {
        return Err(CliError::Usage(format!(
            "no server holds {}, so no job of it runs: ebb jobs discard ends an unfinished one",
            data.display()
        ))
        .into());
    };
    let mut printer = Printer::new();
    for id in &args.ids {
        let job = server.show(id, Duration::ZERO)?.record;
        let told = match server.cancel(&job.id)? {
            true => "cancelling",
            false => "too late for",
        };
        printer.line(format!("{told} {} {}", job.application, job.id))?;
    }
    printer.finish()
}

//! `ebb jobs cancel`: cancels jobs of a server.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::builder::NonEmptyStringValueParser;
use ebb_server::http::JobsClient;
use ebb_server::jobs::{Jobs, ReadJobs};

use crate::attached::Attached;
use crate::error::CliError;
use crate::print::print_each;

const EXAMPLES: &str = "\
Examples:
  ebb jobs cancel 1795293012345
  ebb jobs cancel last

Cancelled jobs write no output. A job of an `ebb run` without a server is cancelled by Ctrl-C in
its terminal. If a job has ended already, the command fails and prints how it ended.";

/// Cancel jobs that run in a server.
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

/// Cancels the jobs with the given ids, also after one of them could not be cancelled.
///
/// # Errors
/// The last error, if jobs could not be cancelled; the errors before it are printed to stderr.
pub(super) fn run(args: Args) -> Result<()> {
    let data = &args.attached.location.data;
    let Some(server) = args.attached.server()? else {
        return Err(CliError::Usage(format!(
            "no server holds {}: press Ctrl-C in the terminal of an ebb run, or end an unfinished job \
             by ebb jobs discard",
            data.display()
        ))
        .into());
    };
    print_each(&args.ids, |id| {
        Ok(format!("cancelling {}", cancel(&server, id)?))
    })
}

/// Requests that the server cancels a job. Returns the name of the job's application and the job's
/// id, as one text.
///
/// # Errors
/// When the server refuses the request, or the output of the job is already being put in place.
fn cancel(server: &JobsClient, id: &str) -> Result<String> {
    let job = server.show(id, Duration::ZERO)?.record;
    let name = format!("{} {}", job.application, job.id);
    if !server.cancel(&job.id)? {
        bail!("it is too late to cancel {name}: its output is being put in place");
    }
    Ok(name)
}

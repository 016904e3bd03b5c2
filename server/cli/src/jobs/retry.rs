//! `ebb jobs retry`: submits again the requests of jobs that failed or were cancelled.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use ebb_server::jobs::Jobs;

use super::watch::start_and_see_through;
use crate::attached::Attached;
use crate::print::{notice, print_each};
use crate::runner::Runner;

const EXAMPLES: &str = "\
Examples:
  ebb jobs retry 1795293012345
  ebb jobs retry last --detach
  EBB_TOKEN=... ebb jobs retry --server http://10.0.0.5:9043 1795293012345

Each is another job, with an id of its own. An input without a named snapshot is read as it is
now. Ctrl-C cancels the jobs. Unfinished jobs are started again by ebb jobs restart, which
keeps their ids and snapshots.";

/// Submit the requests of failed or cancelled jobs again, as other jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the jobs; `last` is the latest job.
    #[arg(value_name = "ID", required = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    ids: Vec<String>,
    /// Print the new ids, and do not wait for the jobs. This needs a server, which runs them.
    #[arg(long, conflicts_with = "json")]
    detach: bool,
    /// Print the jobs' reports as JSON, an object a line.
    #[arg(long)]
    json: bool,
}

/// Submits the requests of the jobs again, and waits for the new jobs unless `--detach` is given.
///
/// # Errors
/// The error of the last job that did not succeed; the errors of other jobs are printed to stderr.
pub(super) fn run(args: Args) -> Result<()> {
    if args.detach {
        let server = args.attached.client()?;
        return print_each(&args.ids, |id| Ok(server.retry(id)?.record.id));
    }
    let runner = Runner::of(&args.attached)?;
    start_and_see_through(&runner, &args.ids, args.json, |runner, id, _| {
        let job = runner.retry(id)?;
        let application = &job.started.record.application;
        notice(format_args!(
            "starting {application} {}, as {id} was requested",
            job.id()
        ));
        Ok(Some(job))
    })
}

//! `ebb jobs restart`: runs unfinished jobs again.

use anyhow::{Error, Result};
use ebb_server::jobs::Restart;
use ebb_server::node::NodeOptions;

use super::watch::see_through;
use crate::attached::Attached;
use crate::error::CliError;
use crate::interrupt;
use crate::run::tell_done;
use crate::runner::{FollowedJob, Runner};
use crate::unpaced;

const EXAMPLES: &str = "\
Examples:
  ebb jobs restart
  ebb jobs restart 1795293012345

They run at the same time and share the cores. Ctrl-C cancels them.";

/// Restart unfinished jobs, over their snapshots.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the jobs [default: all unfinished jobs].
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Print the jobs' reports as JSON, an object a line.
    #[arg(long)]
    json: bool,
}

/// # Errors
/// That of the last job that did not succeed; those of the others are printed to stderr.
pub(super) fn run(args: Args) -> Result<()> {
    let Args {
        attached,
        ids,
        json,
    } = args;
    let runner = match attached.server()? {
        Some(server) => Runner::Server(server),
        None => {
            let options = unpaced::for_tests(NodeOptions::command());
            Runner::open(&attached.location, options)?
        }
    };
    let ids = match ids.is_empty() {
        false => ids,
        true => runner.unfinished()?,
    };
    let cancelled = interrupt::cancelled()?;
    // The last error becomes the exit code.
    let mut last = None;
    let mut fail = |error: Error| {
        if let Some(earlier) = last.replace(error) {
            eprintln!("ebb: {earlier:#}");
        }
    };
    let mut running = Vec::new();
    for id in &ids {
        match start(&runner, id, json) {
            Ok(job) => running.extend(job),
            Err(error) => fail(error),
        }
    }
    for job in &running {
        if let Err(error) = see_through(job, &cancelled, json) {
            fail(error);
        }
    }
    runner.shutdown();
    last.map_or(Ok(()), Err)
}

/// Starts a job again. Returns `None` if the job had succeeded already.
fn start<'r>(runner: &'r Runner, id: &str, json: bool) -> Result<Option<FollowedJob<'r>>> {
    match runner.restart(id)? {
        Restart::Runs(job) => {
            let (application, id) = (&job.started.record.application, job.id());
            eprintln!("ebb: starting {application} {id} again, which a process left unfinished");
            Ok(Some(job))
        }
        Restart::HadSucceeded(record) => {
            let (application, id) = (&record.application, &record.id);
            let request = record.request()?;
            let output = &request.output.to;
            eprintln!(
                "ebb: {application} {id}, whose process ended before it could say so, had \
                 succeeded: {output} is there, which it was about to put in place (if another \
                 program wrote it, move it away and run the job again)"
            );
            tell_done(&record, &request, json)?;
            Ok(None)
        }
        Restart::GivenUp(cause) => Err(CliError::Usage(cause).into()),
    }
}

//! `ebb jobs restart`: runs unfinished jobs again.

use std::sync::atomic::AtomicBool;

use anyhow::{Error, Result};
use ebb_server::jobs::Restart;
use ebb_server::node::{Node, NodeOptions};
use ebb_storage::{Maintenance, Options};

use crate::attached::Attached;
use crate::error::CliError;
use crate::interrupt;
use crate::run::{Report, tell_done, watch};
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
            let db = Options {
                create_if_missing: false,
                maintenance: Maintenance::Background,
                ..Options::default()
            };
            let options = unpaced::for_tests(NodeOptions::command());
            let node = Node::open(&attached.location.data, db, options)?;
            Runner::Own(Box::new(node))
        }
    };
    let ids = match ids.is_empty() {
        false => ids,
        true => runner.unfinished()?,
    };
    let cancelled = interrupt::cancelled()?;
    let mut failed = Failures::default();
    let mut running = Vec::new();
    for id in &ids {
        match start(&runner, id, json) {
            Ok(job) => running.extend(job),
            Err(error) => failed.add(error),
        }
    }
    for job in &running {
        if let Err(error) = see_through(job, &cancelled, json) {
            failed.add(error);
        }
    }
    runner.shutdown();
    failed.result()
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

/// Waits for the end of a job, and prints its report.
fn see_through(job: &FollowedJob<'_>, cancelled: &AtomicBool, json: bool) -> Result<()> {
    let ended = watch(job, cancelled)?;
    let report = Report {
        request: &ended.record.request()?,
        job: &ended,
        json,
    };
    report.tell()
}

/// What went wrong, one of which becomes the exit code.
#[derive(Default)]
struct Failures {
    last: Option<Error>,
}

impl Failures {
    fn add(&mut self, error: Error) {
        if let Some(earlier) = self.last.replace(error) {
            eprintln!("ebb: {earlier:#}");
        }
    }

    fn result(self) -> Result<()> {
        self.last.map_or(Ok(()), Err)
    }
}

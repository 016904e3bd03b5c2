//! `ebb jobs watch`: waits for a job of a server.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Error, Result};
use clap::builder::NonEmptyStringValueParser;
use ebb_server::jobs::ReadJobs;

use crate::attached::Attached;
use crate::error::CliError;
use crate::interrupt;
use crate::print::notice;
use crate::run::{Report, watch};
use crate::runner::{FollowedJob, Runner};

const EXAMPLES: &str = "\
Examples:
  ebb jobs watch last
  EBB_TOKEN=... ebb jobs watch --server http://10.0.0.5:9043 1795293012345

Ctrl-C ends the command, and not the job. It exits as ebb run does.";

/// Wait for the end of a job that runs in a server, and print its report.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Id of the job; `last` is the latest job.
    #[arg(value_name = "ID")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Print the report as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let server = args.attached.client()?;
    let job = server.show(&args.id, Duration::ZERO)?;
    if job.record.is_maintenance() {
        let (application, id) = (&job.record.application, &job.record.id);
        let text = format!("{application} {id} ends without a report: see ebb jobs {id}");
        return Err(CliError::Usage(text).into());
    }
    let job = FollowedJob::of(&server, job);
    see_through(&job, &AtomicBool::new(false), args.json)
}

/// Starts jobs, waits for the ends of all, and prints their reports. `start` returns `None` for a job that
/// needs no run. If a job fails, the others go on. A signal cancels all of them.
///
/// # Errors
/// The last error, which becomes the exit code; the errors before it are printed to stderr.
pub(super) fn start_and_see_through<'r>(
    runner: &'r Runner,
    ids: &[String],
    json: bool,
    start: impl Fn(&'r Runner, &str, bool) -> Result<Option<FollowedJob<'r>>>,
) -> Result<()> {
    let cancelled = interrupt::cancelled()?;
    let mut last = None;
    let mut fail = |error: Error| {
        if let Some(earlier) = last.replace(error) {
            notice(format_args!("{earlier:#}"));
        }
    };
    let mut running = Vec::new();
    for id in ids {
        match start(runner, id, json) {
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

/// Waits for the end of a job, and prints its report.
fn see_through(job: &FollowedJob<'_>, cancelled: &AtomicBool, json: bool) -> Result<()> {
    let ended = watch(job, cancelled)?;
    // Some roles see only an outline of the request, and a newer server may have another version of it. The
    // end of the job is known all the same.
    let request = ended.record.request().ok();
    let report = Report {
        request: request.as_ref(),
        job: &ended,
        json,
    };
    report.print()
}

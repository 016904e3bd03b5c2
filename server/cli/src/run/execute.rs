//! The execution of a request: submits it to a runner, watches the job, and prints its report.

use anyhow::Result;
use ebb_jobs::request::{JobRequest, OutputPlace};

use super::advice;
use super::report::Report;
use super::spool::Spool;
use super::watch::watch;
use crate::interrupt;
use crate::print::{counted, notice, say};
use crate::runner::Runner;

/// Runs the job of `request`, and prints its report, as JSON if `json` is set.
pub(crate) fn execute(request: JobRequest, runner: &Runner, json: bool) -> Result<()> {
    let cancelled = interrupt::cancelled()?;
    let spool = match (runner.server(), &request.output.to) {
        (Some(server), OutputPlace::Terminal) => Some(Spool::create_for(server.data())?),
        _ => None,
    };
    if spool.is_none() {
        print_unfinished(runner)?;
    }
    let submitted = match &spool {
        Some(spool) => spool.instead_of_terminal(request.clone()),
        None => request.clone(),
    };
    let job = runner.submit(submitted)?;
    if let Some(run) = &job.started.run
        && let Some(estimate) = &run.estimate
    {
        advice::warn(&request, estimate);
    }
    let ended = watch(&job, &cancelled)?;
    if let Some(spool) = spool {
        spool.print()?;
    }
    let report = Report {
        job: &ended,
        request: Some(&request),
        json,
    };
    let reported = report.print();
    runner.shutdown();
    reported.and_then(|()| report.check_recorded())
}

/// Starts the job of `request` in the server, and prints its id.
pub(super) fn detach(request: JobRequest, runner: &Runner, json: bool) -> Result<()> {
    let job = runner.submit(request)?;
    if json {
        say(serde_json::to_string(&job.started)?)
    } else {
        say(job.id().to_string())
    }
}

/// Prints how many jobs are unfinished, which the user can restart or discard.
fn print_unfinished(runner: &Runner) -> Result<()> {
    let unfinished = runner.unfinished()?.len() as u64;
    if unfinished > 0 {
        let jobs = counted(unfinished, "job");
        notice(format_args!(
            "{jobs} unfinished since a process ended: ebb jobs restart starts such jobs again, and \
             ebb jobs discard cancels them"
        ));
    }
    Ok(())
}

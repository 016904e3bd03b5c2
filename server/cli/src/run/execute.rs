//! A request, executed: submitted to the node, watched and reported.

use anyhow::Result;
use ebb_server::jobs::request::JobRequest;
use ebb_server::node::{Node, Stop};

use super::advice;
use super::report::Report;
use super::watch::watch;
use crate::interrupt;
use crate::print::counted;

/// Runs the job of `request`, and prints its report, as JSON if that is asked for.
pub(super) fn execute(request: JobRequest, node: &Node, json: bool) -> Result<()> {
    let cancelled = interrupt::cancelled()?;
    print_unfinished(node)?;
    let job = node.submit(request)?;
    if let Some(expected) = job.expected() {
        advice::warn(job.request(), expected);
    }
    let end = watch(&job, &cancelled);
    let policy = node.runtime().status().policy;
    let report = Report {
        job: &job,
        end: &end,
        policy,
        json,
    };
    let reported = report.tell();
    node.shutdown(Stop::Cancel);
    reported.and_then(|()| report.check_recorded())
}

/// Prints how many jobs are unfinished, which the user can restart or discard.
fn print_unfinished(node: &Node) -> Result<()> {
    let unfinished = node.unfinished()?.len() as u64;
    if unfinished > 0 {
        let jobs = counted(unfinished, "job");
        eprintln!("ebb: {jobs} unfinished since a process ended: see ebb jobs");
    }
    Ok(())
}

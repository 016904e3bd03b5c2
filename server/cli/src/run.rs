//! `ebb run`: a built-in application over a snapshot, files or drawn records.
//!
//! ```text
//!   arguments ─> request ─> Node::submit ─> watch ─> report, exit code
//! ```

mod advice;
mod applications;
mod common;
mod input;
mod memory;
mod report;
mod source_text;
mod target;
mod watch;

use anyhow::Result;
use ebb_server::node::{JobEnd, Node, RunningJob, Stop};

use self::applications::JobArgs;
pub(super) use self::common::IsolationArg;
pub(super) use self::report::{Report, tell_done};
pub(super) use self::watch::watch;
use super::interrupt;
use super::print::counted;

const EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --output app.counts --goal 30s
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run sort --text lines.txt --output sorted.txt
  ebb run aggregate --csv trips.csv --by city --of fare --output -
  ebb run wordcount --table app.lines --output app.counts --goal 30s --dry-run
  ebb run index --table app.lines --output app.words --isolate process
  ebb run pi --output - --priority normal

`ebb apps` lists the applications; `ebb run APPLICATION --help` tells all of one.

Ctrl-C, SIGTERM and SIGHUP cancel the job: its output is not written, and the exit code
is 6. A second one ends the process at once, and leaves the job unfinished, as SIGKILL
does: `ebb jobs restart` starts it again, `ebb jobs discard` forgets it.";

/// Run a job over a snapshot of a table, or over files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    job: JobArgs,
}

pub(super) fn run(args: Args) -> Result<()> {
    let common = args.job.common().clone();
    let node = common.open_node(args.job.reads_table())?;
    let request = args.job.into_request(&node)?;
    let name = request.application.name();
    if common.dry_run {
        let (expected, inputs) = node.expect(&request)?;
        return advice::print(&request, &expected, &inputs, common.json);
    }
    let cancelled = interrupt::cancelled()?;
    tell_unfinished(&node)?;
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
        json: common.json,
    };
    let told = report.tell();
    node.shutdown(Stop::Cancel);
    told.and_then(|()| recorded(name, &job, &end))
}

/// Says that jobs wait for somebody to say what becomes of them.
fn tell_unfinished(node: &Node) -> Result<()> {
    let unfinished = node.unfinished()?.len() as u64;
    if unfinished > 0 {
        let jobs = counted(unfinished, "job");
        eprintln!("ebb: {jobs} unfinished since a process ended: see ebb jobs");
    }
    Ok(())
}

/// That the end of a job is in the history.
fn recorded(name: &str, job: &RunningJob, end: &JobEnd) -> Result<()> {
    match &end.unrecorded {
        None => Ok(()),
        Some(error) => {
            let output = &job.request().output.to;
            anyhow::bail!("{name}: the output is in {output}, but its end is not recorded: {error}")
        }
    }
}

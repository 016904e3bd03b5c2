//! `ebb jobs`: what became of jobs, and those to be started again.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;

use super::database::Location;
use super::print::{Printer, table};
use super::run;
use crate::jobs::history::{History, NotedJob, NotedState};

const EXAMPLES: &str = "\
Examples:
  ebb jobs
  ebb jobs --json | jq '.[] | select(.state == \"failed\")'
  ebb jobs --restart

A job is unfinished when its process ended before it. --restart starts such jobs
again, the oldest first, over the snapshot that they had. The latest 1,000 ended jobs
are remembered, in table jobs of keyspace system.";

/// List the jobs that ran over this database, and what became of them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// Start unfinished jobs again, one after the other.
    #[arg(long)]
    restart: bool,
    /// Print a JSON array: id, application, arguments, state, times, report.
    #[arg(long, conflicts_with = "restart")]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let db = args.location.open_existing()?;
    let history = History::existing(&db)?;
    if args.restart {
        let unfinished = history.map(|history| history.unfinished());
        let unfinished = unfinished.transpose()?.unwrap_or_default();
        drop(db);
        return run::restart(&args.location, unfinished);
    }
    let jobs = history.map(|history| history.jobs());
    let jobs = jobs.transpose()?.unwrap_or_default();
    let mut printer = Printer::new();
    if args.json {
        printer.json(&jobs)?;
    } else {
        let head = ["id", "application", "state", "started", "took s", "rows"];
        let rows: Vec<_> = jobs.iter().map(row).collect();
        for line in table(&head, &["took s", "rows"], &rows) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

fn row(job: &NotedJob) -> Vec<String> {
    let state = match job.state {
        NotedState::Started => "unfinished",
        NotedState::Succeeded => "succeeded",
        NotedState::Failed => "failed",
        NotedState::Cancelled => "cancelled",
    };
    let started = UNIX_EPOCH + Duration::from_millis(job.started_unix_ms);
    let took_ms = job
        .ended_unix_ms
        .map(|end| end.saturating_sub(job.started_unix_ms));
    let took = took_ms.map(|took_ms| format!("{:.2}", took_ms as f64 / 1e3));
    let report = job.report.as_ref();
    let rows = report.and_then(|report| report["counters"]["output_records"].as_u64());
    vec![
        job.id.clone(),
        job.application.clone(),
        state.to_string(),
        humantime::format_rfc3339_seconds(started).to_string(),
        took.unwrap_or_default(),
        rows.map(|rows| rows.to_string()).unwrap_or_default(),
    ]
}

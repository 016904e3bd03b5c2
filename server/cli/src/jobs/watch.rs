//! `ebb jobs watch`: waits for a job of a server.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use ebb_server::jobs::ReadJobs;

use crate::attached::Attached;
use crate::error::CliError;
use crate::run::{Report, watch};
use crate::runner::FollowedJob;

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
    id: String,
    /// Print the report as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let server = args.attached.client()?;
    let job = server.show(&args.id, Duration::ZERO)?;
    if job.record.is_backup() {
        let id = &job.record.id;
        let text = format!("{id} is a backup, which ends without a report: see ebb jobs {id}");
        return Err(CliError::Usage(text).into());
    }
    let job = FollowedJob::of(&server, job);
    see_through(&job, &AtomicBool::new(false), args.json)
}

/// Waits for the end of a job, and prints its report.
pub(super) fn see_through(job: &FollowedJob<'_>, cancelled: &AtomicBool, json: bool) -> Result<()> {
    let ended = watch(job, cancelled)?;
    let report = Report {
        request: &ended.record.request()?,
        job: &ended,
        json,
    };
    report.tell()
}

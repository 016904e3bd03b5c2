//! `ebb jobs show`: one job.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;

use super::detail;
use super::source::JobSource;
use crate::attached::Attached;
use crate::print::Printer;

const EXAMPLES: &str = "\
Examples:
  ebb jobs show last
  EBB_TOKEN=... ebb jobs show --server http://10.0.0.5:9043 1795293012345 --json

The same as ebb jobs ID.";

/// Show one job with its counters and attempts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Id of the job; `last` is the latest job.
    #[arg(value_name = "ID")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Print the job as a JSON object, with its attempts.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    print(&JobSource::of(&args.attached)?, &args.id, args.json)
}

pub(super) fn print(jobs: &JobSource, id: &str, json: bool) -> Result<()> {
    let job = jobs.show(id)?;
    let attempts = jobs.attempts(&job.record.id)?;
    let mut printer = Printer::new();
    if json {
        printer.json(&detail::object(&job, &attempts))?;
    } else {
        printer.lines(detail::lines(&job, &attempts))?;
    }
    printer.finish()
}

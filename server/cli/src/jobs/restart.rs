//! `ebb jobs restart`: runs unfinished jobs again.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use ebb_server::jobs::Restart;

use super::watch::start_and_see_through;
use crate::attached::Attached;
use crate::error::CliError;
use crate::print::notice;
use crate::run::print_done;
use crate::runner::{FollowedJob, Runner};

const EXAMPLES: &str = "\
Examples:
  ebb jobs restart
  ebb jobs restart 1795293012345

They run at the same time and share the cores. Ctrl-C cancels them.";

/// Restart unfinished jobs, over the snapshots that they read before.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the jobs [default: all unfinished jobs].
    #[arg(value_name = "ID")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    ids: Vec<String>,
    /// Print the jobs' reports as JSON, an object a line.
    #[arg(long)]
    json: bool,
}

/// Starts the jobs with the given ids again, by default all unfinished ones, and waits for their
/// ends.
///
/// # Errors
/// The last error, if jobs failed; the errors before it are printed to stderr.
pub(super) fn run(args: Args) -> Result<()> {
    let Args {
        attached,
        ids,
        json,
    } = args;
    let runner = Runner::of(&attached)?;
    let ids = if ids.is_empty() {
        runner.unfinished()?
    } else {
        ids
    };
    start_and_see_through(&runner, &ids, json, start)
}

/// Starts a job again. Returns `None` if the job had already succeeded, but the history did not
/// record this.
///
/// # Errors
/// When the job runs or has ended, or cannot start again. For most causes, such as a missing input,
/// the history then records the job as failed. For others, such as a full disk, the job stays
/// unfinished.
fn start<'r>(runner: &'r Runner, id: &str, json: bool) -> Result<Option<FollowedJob<'r>>> {
    match runner.restart(id)? {
        Restart::Runs(job) => {
            let (application, id) = (&job.started.record.application, job.id());
            notice(format_args!(
                "starting {application} {id} again, which a process left unfinished"
            ));
            Ok(Some(job))
        }
        Restart::HadSucceeded(record) => {
            let (application, id) = (&record.application, &record.id);
            let request = record.request()?;
            let output = &request.output.to;
            notice(format_args!(
                "{application} {id} had succeeded: its output {output} is in place, and only the \
                 record of its end is missing (if another program wrote {output}, move it away and \
                 run the job again)"
            ));
            print_done(&record, &request, json)?;
            Ok(None)
        }
        Restart::GivenUp(cause) => Err(CliError::Usage(cause).into()),
    }
}

//! `ebb jobs`: the history of jobs; cancels those that run in a server, restarts or discards
//! unfinished ones, and retries others.

mod cancel;
mod detail;
mod discard;
mod list;
mod profiles;
mod restart;
mod retry;
mod show;
mod source;
mod state;
mod submit;
mod timeline;
mod watch;

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use ebb_jobs::history::JobRecord;

use self::source::JobSource;
use super::attached::Attached;
use super::time;

const EXAMPLES: &str = "\
Examples:
  ebb jobs
  ebb jobs last
  ebb jobs 1795293012345 --json | jq '.attempts[] | select(.outcome.kind == \"failed\")'
  ebb jobs --json | jq '.[] | select(.state == \"failed\")'
  ebb jobs --profiles
  ebb jobs restart
  ebb jobs discard 1795293012345
  ebb jobs cancel last
  ebb jobs submit words.json
  ebb jobs watch last
  ebb jobs list --state failed
  ebb jobs retry 1795293012345

If ebb serve holds the database, the commands act on the jobs of this server; with --server URL,
on those of the server at that address.

Backups are listed as application backup, with the directory as output, and verifications by a
server as application verify. Those that run in a server can be cancelled. A backup or
verification whose process ended too early has failed, and is not restarted.

A job is unfinished if its process ended before the job did. `ebb jobs restart` runs it again
over the same snapshot, unless its output is already complete: then the job has succeeded. After
three starts whose process ended too early the job has failed; starts that ended because a server
was stopped do not count. `ebb jobs retry` submits the request of a failed or cancelled job
again, as another job. The database keeps the latest 1,000 ended jobs, and those of the last 24
hours that were submitted with a key. It keeps the first 10,000 attempts (executions of tasks) of
each job.

When a job succeeds, the measured CPU time of its tasks is kept as the profile of the application
(--profiles). It is the estimate for the application's next job, in proportion to the input.";

/// List the jobs of this database, with their states and results.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    attached: Attached,
    /// Show one job with its counters and attempts; `last` is the latest.
    #[arg(value_name = "ID")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// Show the profiles: the measured CPU time of each application's tasks.
    #[arg(long, conflicts_with = "id")]
    profiles: bool,
    /// Print a JSON array: id, application, request, state, times, report. For one job,
    /// print an object that has its attempts, too.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Submit(submit::Args),
    List(list::Args),
    Show(show::Args),
    Watch(watch::Args),
    Cancel(cancel::Args),
    Restart(restart::Args),
    Retry(retry::Args),
    Discard(discard::Args),
}

pub(super) fn run(mut args: Args) -> Result<()> {
    match args.command.take() {
        Some(Command::Submit(submit)) => return submit::run(submit),
        Some(Command::List(list)) => return list::run(&list),
        Some(Command::Show(show)) => return show::run(&show),
        Some(Command::Watch(watch)) => return watch::run(watch),
        Some(Command::Cancel(cancel)) => return cancel::run(cancel),
        Some(Command::Restart(restart)) => return restart::run(restart),
        Some(Command::Retry(retry)) => return retry::run(retry),
        Some(Command::Discard(discard)) => return discard::run(discard),
        None => {}
    }
    let jobs = JobSource::of(&args.attached)?;
    if args.profiles {
        return profiles::print(&jobs.profiles()?, args.json);
    }
    match &args.id {
        Some(id) => show::print(&jobs, id, args.json),
        None => list::print(&jobs.list()?, args.json),
    }
}

/// Formats the time at which a job started, to the second.
fn started(unix_ms: u64) -> String {
    time::rfc3339(unix_ms / 1000)
}

/// Returns the time from a job's latest start to its end, in seconds; `None` if the job has not ended. The
/// goal is measured from the same start. The times in the job's report are preferred: the runtime measured
/// them with a clock that does not jump when the machine's time is set. Without them, the times are those
/// of the job's record.
fn took_s(job: &JobRecord) -> Option<f64> {
    let ended_unix_ms = job.ended_unix_ms?;
    let time_s = |name: &str| job.report.as_ref()?.get(name)?.as_f64();
    let by_runtime = time_s("submitted_s").zip(time_s("finished_s"));
    let by_runtime_s = by_runtime.map(|(submitted_s, finished_s)| finished_s - submitted_s);
    let by_clock_s = || ended_unix_ms.saturating_sub(job.begun_unix_ms()) as f64 / 1e3;
    Some(by_runtime_s.unwrap_or_else(by_clock_s))
}

//! `ebb run`: a built-in application over a snapshot, files or drawn records.
//!
//! ```text
//!   arguments ─> applications, input, common ─> JobRequest ─> its files are there
//!                                                  v
//!     exit code <─ report <─ watch <─ Runner::submit, in execute
//! ```

mod advice;
mod applications;
mod common;
mod execute;
mod input;
mod memory;
mod report;
mod source_text;
mod spool;
mod target;
mod watch;

use anyhow::Result;
use ebb_jobs::launch::check_files;

use self::applications::JobArgs;
pub(super) use self::applications::runnable;
pub(super) use self::common::goal;
use self::execute::detach;
pub(super) use self::execute::execute;
pub(super) use self::report::{Report, goal_of, print_done};
pub(super) use self::watch::watch;

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

`ebb apps` lists the applications. `ebb run APPLICATION --help` shows the options of one.

Ctrl-C, SIGTERM and SIGHUP cancel the job: its output is not written, and the exit code
is 6. A second signal ends the process at once, and leaves the job unfinished, as SIGKILL
does. `ebb jobs restart` starts an unfinished job again, `ebb jobs discard` cancels it.

If `ebb serve` holds the directory of --data, every job runs in the server, beside its load.
Ctrl-C cancels it there; a second signal leaves it to the server. --policy, --priority, --memory
and --spill-dir are refused then: they are for jobs of this process.

With --output - the first line has the names of the columns, unless rows are JSON objects.";

/// Run a job over a snapshot of a table, or over files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    job: JobArgs,
}

pub(super) fn run(args: Args) -> Result<()> {
    let (common, right) = (args.job.common.clone(), args.job.right.clone());
    let reads_table = args.job.reads_table();
    // Made before a database is opened, because a missing input file needs no database to be an error.
    let mut request = args.job.into_request()?;
    check_files(&request, Some(common.data()))?;
    if let Some(right) = &right {
        right.check_database(common.data())?;
    }
    let runner = common.runner(reads_table)?;
    if let Some(right) = &right {
        right.check_keyspace(common.data(), |name| runner.is_keyspace(name))?;
    }
    common.choose_output(&mut request, &runner)?;
    if common.dry_run {
        let estimate = runner.estimate(&request)?;
        return advice::print(&request, &estimate, common.json);
    }
    if common.detach {
        detach(request, &runner, common.json)
    } else {
        execute(request, &runner, common.json)
    }
}

//! `ebb run`: a built-in application over a snapshot.

mod report;
mod source;
mod target;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use ebb_scheduler::policy;
use ebb_scheduler::runtime::{Input, JobSpec, Output, Runtime, RuntimeOptions};
use ebb_storage::Db;

use self::source::Source;
use self::target::Target;
use super::database::{self, Location};
use super::error::CliError;
use super::names::TableName;
use crate::jobs::grep::{self, Pattern};
use crate::jobs::{SnapshotInput, wordcount};

const EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --output app.counts --goal 30s
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO";

const WORDCOUNT_EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --snapshot monday --output app.counts --goal 30s

A word is a maximal run of bytes that are ASCII letters, ASCII digits or above
0x7f; ASCII letters count as lower case. Rows of the result: the word, the count.";

const GREP_EXAMPLES: &str = "\
Examples:
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run grep --table app.lines --snapshot monday --output app.found --regex --pattern '^use '

Rows of the result: those rows of the table whose value matches, as they are.";

/// Run a job over a snapshot of a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(Debug, clap::Subcommand)]
enum Job {
    Grep(Grep),
    Wordcount(Wordcount),
}

/// Find the rows whose value matches a pattern.
#[derive(Debug, clap::Args)]
#[command(after_help = GREP_EXAMPLES)]
struct Grep {
    #[command(flatten)]
    common: Common,
    /// What to look for: this text, upper and lower case being different.
    #[arg(long, value_name = "TEXT")]
    pattern: String,
    /// The pattern is a regular expression.
    #[arg(long)]
    regex: bool,
}

/// Count how often each word occurs in the values.
#[derive(Debug, clap::Args)]
#[command(after_help = WORDCOUNT_EXAMPLES)]
struct Wordcount {
    #[command(flatten)]
    common: Common,
    /// Reduce tasks. A file is sorted within the part of each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reduces: u32,
}

/// What every job takes.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    location: Location,
    /// The table to read.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// Read it as it was at this snapshot [default: one made for the job, deleted
    /// at its end; if the job is killed it expires after an hour].
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Where the rows go when the job succeeds, all at once: a new file with a
    /// line KEY<TAB>VALUE for each, or a table without rows. It is a table when
    /// it has the form KEYSPACE.TABLE and the keyspace exists; write ./NAME for
    /// a file of such a name.
    #[arg(long, value_name = "FILE|KEYSPACE.TABLE")]
    output: String,
    /// Completion time goal: 30s, 5m. A job that ends later is exit code 7.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    goal: Option<Duration>,
    /// The scheduling policy; see `ebb policies`.
    #[arg(long, value_name = "NAME", default_value = "reverse-adaptive")]
    #[arg(value_parser = policies())]
    policy: String,
    /// Map tasks at most [default: four per core].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    splits: Option<u32>,
    /// Cores the job may use at most [default: those of the machine].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Where sorted runs are kept meanwhile [default: a directory in --data].
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// Print the job's report as a JSON object.
    #[arg(long)]
    json: bool,
}

fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(policy::descriptors().into_iter().map(|policy| policy.name))
}

pub(super) fn run(args: Args) -> Result<()> {
    match args.job {
        Job::Grep(args) => {
            let pattern = match args.regex {
                true => Pattern::regex(&args.pattern),
                false => Pattern::text(&args.pattern),
            };
            let pattern =
                pattern.map_err(|error| CliError::Usage(format!("--pattern: {error}")))?;
            args.common
                .run(|input, output| grep::spec(grep::APPLICATION.name, input, output, pattern))
        }
        Job::Wordcount(args) => args.common.run(|input, output| {
            wordcount::spec(wordcount::APPLICATION.name, input, output, args.reduces)
        }),
    }
}

impl Common {
    fn run(&self, spec: impl FnOnce(Arc<dyn Input>, Arc<dyn Output>) -> JobSpec) -> Result<()> {
        let db = self.location.open_with_maintenance()?;
        let spill_dir = self.spill_dir.clone();
        let spill_dir = spill_dir.unwrap_or_else(|| self.location.data.join("spill"));
        let result = self.run_in(&db, spill_dir.clone(), spec);
        if self.spill_dir.is_none() {
            // Ours, and only if nothing is left in it.
            let _ = std::fs::remove_dir(&spill_dir);
        }
        result
    }

    fn run_in(
        &self,
        db: &Db,
        spill_dir: PathBuf,
        spec: impl FnOnce(Arc<dyn Input>, Arc<dyn Output>) -> JobSpec,
    ) -> Result<()> {
        let machine_cores = available_parallelism().map_or(1, |cores| cores.get() as u32);
        let cores = self.cores.unwrap_or(machine_cores);
        let source = Source::new(db, &self.table, self.snapshot.as_deref())?;
        let table = database::snapshot_table(db, &self.table, source.name())?;
        let splits = self.splits.unwrap_or(4 * cores);
        let input = Arc::new(SnapshotInput::new(table, splits as usize));
        let target = Target::choose(db, &self.output);
        let mut spec = spec(input, target.output(db, &spill_dir)?);
        if let Some(goal) = self.goal {
            spec = spec.goal_s(goal.as_secs_f64());
        }
        let runtime = Runtime::start(RuntimeOptions {
            policy: policy::by_name(&self.policy).expect("clap checked the name"),
            spill_dir,
            ..RuntimeOptions::new(cores)
        })?;
        let handle = runtime.submit(spec)?;
        let interrupted = handle.clone();
        let cancel = move || {
            // Too late while the output is being committed: then it succeeds.
            interrupted.cancel();
        };
        ctrlc::set_handler(cancel).context("cannot listen for an interrupt")?;
        let job = watch::watch(&handle);
        report::tell(self, source.name(), &target, &job)
    }
}

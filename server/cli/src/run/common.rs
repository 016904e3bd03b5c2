//! The options that all jobs have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use ebb_jobs::RowFormat;
use ebb_jobs::request::{
    ApplicationRequest, InputRequest, Isolation, JobRequest, OutputPlace, OutputRequest,
};
use ebb_scheduler::queueing::{policy_by_name, policy_names};
use ebb_server::http::JobsClient;
use ebb_server::node::{Node, NodeOptions};

use super::{memory, target};
use crate::database::Location;
use crate::error::CliError;
use crate::runner::Runner;
use crate::{time, unpaced};

/// The options that all jobs have.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    location: Location,
    /// Output of the job: a new file; NAME/ for a new folder with a file per task and
    /// _SUCCESS; a new or empty table; or - for the terminal. The result appears as a whole
    /// when the job succeeds. A name of the form KEYSPACE.TABLE is a table if the keyspace
    /// exists; write ./NAME for a file of such a name.
    #[arg(long, value_name = "FILE|FOLDER/|KEYSPACE.TABLE|-")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    output: String,
    /// Format of the output files [default: by the file's extension: .csv, .jsonl, else
    /// text].
    #[arg(long, value_name = "FORMAT")]
    format: Option<RowFormat>,
    /// Write only the first N rows of the result, in its order. The job still reads all of
    /// its input.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Completion time goal: 30s, 5m. If the job ends later, the exit code is 7.
    #[arg(long, value_name = "TIME", value_parser = goal, allow_hyphen_values = true)]
    goal: Option<Duration>,
    /// The scheduling policy [default: forecast-edf]; see `ebb policies`.
    #[arg(long, value_name = "NAME", value_parser = policies())]
    policy: Option<String>,
    /// Priority of the job's tasks against other processes [default: idle].
    #[arg(long, value_name = "HOW")]
    priority: Option<Priority>,
    /// Maximum number of map tasks for each input [default: four per core].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    splits: Option<u32>,
    /// Maximum number of cores [default: all of the machine].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Memory for the records of all tasks together, as in 256MiB; more is spilled to
    /// --spill-dir [default: 16 MiB per core].
    #[arg(long = "memory", value_name = "SIZE", value_parser = memory::size)]
    memory_bytes: Option<u64>,
    /// Folder for records that do not fit into --memory, while the job runs [default: spill in
    /// --data, or the system's folder for temporary files if the job uses no database].
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// Do not run the job: print how long it would take, and how probably it would meet its goal. If
    /// it would probably be late, also print by how much, and whether more machines could meet the
    /// goal.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Start the job in the server that holds the database, print its id, and do not wait
    /// for its end.
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) detach: bool,
    /// Isolation of tasks: threads of one process, or processes of their own. A process that
    /// hangs can be killed, and one that crashes or takes too much memory affects only its job.
    #[arg(long, value_name = "HOW", default_value = "thread")]
    isolate: Isolation,
    /// Print the job's report as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// Parses a completion time goal, such as `30s` or `1h 5m`. Refuses zero and negative times.
pub(crate) fn goal(text: &str) -> Result<Duration, String> {
    match time::parse(text.trim_start_matches('-'))? {
        goal if goal.is_zero() || text.starts_with('-') => {
            Err("a completion time goal must lie in the future".to_string())
        }
        goal => Ok(goal),
    }
}

fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(policy_names())
}

/// Priority of tasks against other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Priority {
    /// Tasks use what other processes leave, but at least 0.15 of a core.
    Idle,
    /// Tasks run like any other process.
    Normal,
}

impl Common {
    /// Returns the directory of the database.
    pub(super) fn data(&self) -> &Path {
        &self.location.data
    }

    /// Returns whether the output may be a table: there is a database, and the name has the form of a
    /// table's name.
    fn may_write_table(&self) -> bool {
        target::may_be_table(&self.output) && self.location.data.exists()
    }

    /// Returns the runner of the job: the server that holds the directory, if one does, and otherwise
    /// this process. A server runs every job of its directory, so that where a job runs does not
    /// depend on its input or output. This process opens the database only if the job reads a table
    /// (`reads_table`), or may write one.
    pub(super) fn runner(&self, reads_table: bool) -> Result<Runner> {
        let data = &self.location.data;
        if let Some(server) = JobsClient::of(data)? {
            self.check_for_server()?;
            return Ok(Runner::Server(server));
        }
        if self.detach {
            return Err(CliError::Usage(format!(
                "--detach is for jobs of a server, and none serves {}: start ebb serve there",
                data.display()
            ))
            .into());
        }
        let options = self.node_options()?;
        if !reads_table && !self.may_write_table() {
            return Ok(Runner::Own(Box::new(Node::start(None, options)?)));
        }
        Runner::open(&self.location, options)
    }

    /// Checks, for a job that a server runs, that no option is given that affects only jobs of this process.
    fn check_for_server(&self) -> Result<(), CliError> {
        let of_node = [
            ("--policy", self.policy.is_some()),
            ("--priority", self.priority.is_some()),
            ("--memory", self.memory_bytes.is_some()),
            ("--spill-dir", self.spill_dir.is_some()),
        ];
        match of_node.iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((option, _)) => Err(CliError::Usage(format!(
                "{option} is for jobs of this process, and this one runs in the server that \
                 holds {}: leave it out, or set --data to a directory that no server holds",
                self.location.data.display()
            ))),
        }
    }

    fn node_options(&self) -> Result<NodeOptions> {
        let mut options = NodeOptions {
            spill_dir: self.spill_dir.clone(),
            ..NodeOptions::command()
        };
        let runtime = &mut options.colocated.runtime;
        if let Some(name) = &self.policy {
            runtime.policy = policy_by_name(name).context("clap checked the name")?;
        }
        if let Some(all_bytes) = self.memory_bytes {
            // A job has as many tasks at a time as it may use cores.
            let tasks = self
                .cores
                .map_or(runtime.cores, |most| most.min(runtime.cores));
            let task_bytes = memory::of_a_task(all_bytes, tasks)?;
            runtime.task_memory_bytes = task_bytes;
            runtime.memory_bytes = Some(task_bytes as u64 * u64::from(tasks));
        }
        if self.priority == Some(Priority::Normal) {
            options = options.at_normal_priority();
        }
        Ok(unpaced::for_tests(options))
    }

    /// Returns the request of a job for an application. If the output may be a table, the request names the
    /// terminal as its output until [`Self::choose_output`] sets it: only the open database shows whether the
    /// keyspace of the table exists.
    pub(super) fn request(
        &self,
        application: ApplicationRequest,
        inputs: Vec<InputRequest>,
    ) -> Result<JobRequest> {
        let output = OutputRequest {
            to: if self.may_write_table() {
                OutputPlace::Terminal
            } else {
                target::choose(&self.output, |_| Ok(false))?
            },
            format: self.format,
            limit: self.limit,
            header: false,
        };
        let here = std::env::current_dir().context("cannot find the current directory")?;
        Ok(JobRequest {
            goal_s: self.goal.map(|goal| goal.as_secs_f64()),
            splits: self.splits,
            cores: self.cores,
            isolation: self.isolate,
            ..JobRequest::new(application, inputs, output, here)
        })
    }

    /// Sets the output of a request from the argument of `--output`. The database of the runner
    /// decides whether an argument such as `ks.counts` is a table: it is one if the keyspace `ks`
    /// exists.
    pub(super) fn choose_output(&self, request: &mut JobRequest, runner: &Runner) -> Result<()> {
        request.output.to = target::choose(&self.output, |name| runner.is_keyspace(name))?;
        Ok(())
    }
}

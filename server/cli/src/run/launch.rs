//! From arguments to a job that runs: the database, the input, the output, the
//! runtime.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use ebb_scheduler::policy;
use ebb_scheduler::runtime::{
    JobHandle, JobJournal, JobReport, JobSpec, Outcome, Output, Runtime, RuntimeOptions, VecOutput,
};
use ebb_server::jobs::history::{
    CommitNote, History, KnownProfile, NotedJob, NotedOutput, SYSTEM_KEYSPACE,
};
use ebb_server::jobs::records::RowSchema;
use ebb_server::jobs::{Chain, LimitedOutput, RowFormat};
use ebb_storage::{Db, PinnedTable};
use serde::{Deserialize, Serialize};

use super::input::{InputArgs, Opened};
use super::isolate::{Isolation, ToldInput, ToldJob};
use super::memory;
use super::report::Report;
use super::spills::Spills;
use super::target::Target;
use super::told::Told;
use super::watch;
use crate::database::Location;
use crate::error::CliError;

/// What every job takes, whatever it reads.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub(super) struct Common {
    #[command(flatten)]
    #[serde(skip)]
    pub(super) location: Location,
    /// Where the rows go when the job succeeds, all at once: a new file; with a
    /// slash at its end a new folder with a file per task and _SUCCESS; a table
    /// without rows; or - for the terminal. It is a table when it has the form
    /// KEYSPACE.TABLE and the keyspace exists; write ./NAME for a file of such a
    /// name.
    #[arg(long, value_name = "FILE|FOLDER/|KEYSPACE.TABLE|-")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(super) output: String,
    /// What files of rows look like [default: as the file's name ends: .csv,
    /// .jsonl, else text].
    #[arg(long, value_name = "FORMAT")]
    format: Option<RowFormat>,
    /// Only the first N rows of the result, in its order. All of the input is read all
    /// the same.
    #[arg(long, value_name = "N")]
    #[serde(default)]
    limit: Option<u64>,
    /// Completion time goal: 30s, 5m. A job that ends later is exit code 7.
    #[arg(long, value_name = "TIME", value_parser = goal, allow_hyphen_values = true)]
    pub(super) goal: Option<Duration>,
    /// The scheduling policy; see `ebb policies`.
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    #[arg(value_parser = policies())]
    pub(super) policy: String,
    /// Map tasks at most [default: four per core].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    splits: Option<u32>,
    /// Cores the job may use at most [default: those of the machine].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Memory for the records of all tasks together, as in 256MiB; what does not fit
    /// goes to --spill-dir [default: 16 MiB per core].
    #[arg(long = "memory", value_name = "SIZE", value_parser = memory::size)]
    memory_bytes: Option<u64>,
    /// Where sorted runs are kept meanwhile, in a hidden folder [default: a directory
    /// in --data].
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// Do not run the job: tell how long it takes, and how probably it meets its
    /// goal.
    #[arg(long)]
    #[serde(skip)]
    pub(super) dry_run: bool,
    /// Leave jobs alone that a killed process left unfinished: else they are started
    /// again first.
    #[arg(long)]
    #[serde(skip)]
    pub(super) no_restart: bool,
    /// Run each task on a thread of this process, or in a process of its own: one that
    /// hangs can be killed then, and one that fails or takes too much memory hurts
    /// nothing but its job.
    #[arg(long, value_name = "HOW", default_value = "thread")]
    #[serde(default)]
    pub(super) isolate: Isolation,
    /// Print the job's report as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// Parses `30s` or `1h 5m`: a time to come.
fn goal(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text.trim_start_matches('-')) {
        Err(_) => Err("expected a time, as in 30s or 5m".to_string()),
        Ok(goal) if goal.is_zero() || text.starts_with('-') => {
            Err("a completion time goal must lie in the future".to_string())
        }
        Ok(goal) => Ok(goal),
    }
}

fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(policy::descriptors().into_iter().map(|policy| policy.name))
}

/// What is to be run.
pub(super) enum Work {
    Job(Box<JobSpec>),
    Chain(Box<dyn Chain>),
}

impl Work {
    pub(super) fn job(spec: JobSpec) -> Self {
        Self::Job(Box::new(spec))
    }
}

/// A job about to run. What it opens stays open until it is dropped.
pub(super) struct Launch<'a> {
    pub(super) common: &'a Common,
    db: Option<Db>,
    pub(super) target: Target,
    /// None in a process that only runs tasks, which is told where to spill.
    spills: Option<Spills>,
    inputs: Vec<Opened>,
    /// Whose report is told in the end.
    pub(super) report: Report,
    /// What was told before it started.
    pub(super) told: Option<Told>,
    /// Where it is noted that the output is about to be put in place.
    pub(super) commit_note: CommitNote,
    /// What processes of their own read.
    pins: Vec<PinnedTable>,
    /// In such a process: what is left of what it was told.
    told_job: Option<ToldJob>,
}

impl<'a> Launch<'a> {
    /// Opens the database where one is needed: for a table to read, or where the
    /// output may be one.
    pub(super) fn new(common: &'a Common, location: &Location, reads_table: bool) -> Result<Self> {
        let may_write = Target::may_be_table(&common.output) && location.data.exists();
        let db = (reads_table || may_write)
            .then(|| location.open_with_maintenance())
            .transpose()?;
        let spills = match (&common.spill_dir, &db) {
            (Some(named), _) => Spills::create_in(named.clone(), false),
            (None, Some(_)) => Spills::create_in(location.data.join("spill"), true),
            (None, None) => Spills::create_in(std::env::temp_dir(), false),
        };
        Ok(Self {
            target: Target::choose(db.as_ref(), &common.output),
            common,
            db,
            spills: Some(spills?),
            inputs: Vec::new(),
            report: Report::Asked,
            commit_note: CommitNote::default(),
            pins: Vec::new(),
            told_job: None,
            told: None,
        })
    }

    /// The same in a process that only runs tasks: inputs are what it was told, and
    /// there is no output.
    pub(super) fn in_process(common: &'a Common, told: ToldJob) -> Self {
        Self {
            target: Target::choose(None, &common.output),
            common,
            db: None,
            spills: None,
            inputs: Vec::new(),
            report: Report::Asked,
            commit_note: CommitNote::default(),
            pins: Vec::new(),
            told_job: Some(told),
            told: None,
        }
    }

    /// What a process has to be told to read the inputs, whose files stay where they
    /// are for as long as this lives.
    pub(super) fn tell_inputs(&mut self) -> Result<Vec<ToldInput>> {
        let mut told = Vec::new();
        for opened in &self.inputs {
            let (input, pin) = ToldInput::of(opened)?;
            told.push(input);
            self.pins.extend(pin);
        }
        Ok(told)
    }

    /// Where runs and waiting rows are.
    pub(super) fn spill_dir(&self) -> &Path {
        self.spills.as_ref().map_or(Path::new(""), Spills::path)
    }

    /// The database, where one is open.
    pub(super) fn database(&self) -> Option<&Db> {
        self.db.as_ref()
    }

    /// Cores that the job may use.
    pub(super) fn cores(&self) -> u32 {
        let machine_cores = available_parallelism().map_or(1, |cores| cores.get() as u32);
        self.common.cores.unwrap_or(machine_cores)
    }

    /// Memory for the records of a task.
    pub(super) fn task_memory_bytes(&self) -> Result<usize> {
        Ok(match self.common.memory_bytes {
            // A job has as many tasks at a time as there are cores.
            Some(all_bytes) => memory::of_a_task(all_bytes, self.cores())?,
            None => RuntimeOptions::new(self.cores()).task_memory_bytes,
        })
    }

    /// Map tasks at most.
    pub(super) fn splits(&self) -> u32 {
        if let Some(told) = &self.told_job {
            return told.splits;
        }
        self.common.splits.unwrap_or(4 * self.cores())
    }

    /// Opens an input, which is told in the report.
    pub(super) fn input(&mut self, args: &InputArgs) -> Result<&Opened> {
        let splits = self.splits() as usize;
        let opened = match &mut self.told_job {
            Some(told) => told.next_input()?,
            None => args.open(self.db.as_ref(), splits)?,
        };
        self.inputs.push(opened);
        Ok(&self.inputs[self.inputs.len() - 1])
    }

    /// The output for rows as `rows` says.
    ///
    /// # Errors
    /// When the target is ebb's own.
    pub(super) fn output(&self, rows: Arc<dyn RowSchema>) -> Result<Arc<dyn Output>> {
        if self.told_job.is_some() {
            return Ok(Arc::new(VecOutput::new()));
        }
        if let Target::Table(name) = &self.target
            && name.keyspace == SYSTEM_KEYSPACE
        {
            let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: write to another");
            return Err(CliError::Usage(text).into());
        }
        let (db, format) = (self.db.as_ref(), self.common.format);
        let mut output = (self.target).output(db, rows, format, self.spill_dir())?;
        if let Some(rows_max) = self.common.limit {
            output = Arc::new(LimitedOutput::new(output, rows_max, self.spill_dir()));
        }
        Ok(Arc::new(NotedOutput::new(output, self.commit_note.clone())))
    }

    /// Whether what the job is to put out is there already.
    pub(super) fn has_output(&self) -> Result<bool> {
        self.target.is_there(self.db.as_ref())
    }

    /// The output for rows of which several may have the same key: no table, where
    /// one of them would be left.
    ///
    /// # Errors
    /// When the target is a table.
    pub(super) fn output_of_any_keys(&self, rows: Arc<dyn RowSchema>) -> Result<Arc<dyn Output>> {
        if let Target::Table(name) = &self.target {
            return Err(CliError::Usage(format!(
                "several rows of this job may have the same key, and in table {name} one of \
                 them would be left: write to a file"
            ))
            .into());
        }
        self.output(rows)
    }

    /// What is read, in words: inputs, and the snapshots of those that are tables.
    pub(super) fn told_inputs(&self) -> Vec<(&str, Option<&str>)> {
        let mut all = Vec::new();
        for opened in &self.inputs {
            let snapshot = opened.source.as_ref().map(|source| source.name());
            all.push((&opened.label[..], snapshot));
        }
        all
    }

    /// The history of jobs, where there is a database.
    pub(super) fn history(&self) -> Result<Option<History>> {
        Ok(self.db.as_ref().map(History::open).transpose()?)
    }

    /// The jobs over the database whose processes ended before them, the oldest
    /// first.
    pub(super) fn unfinished(&self) -> Result<Vec<NotedJob>> {
        let history = self.existing_history()?;
        let unfinished = history.map(|history| history.unfinished()).transpose()?;
        Ok(unfinished.unwrap_or_default())
    }

    /// The history of jobs, where there is one.
    pub(super) fn existing_history(&self) -> Result<Option<History>> {
        Ok(self
            .db
            .as_ref()
            .map(History::existing)
            .transpose()?
            .flatten())
    }

    /// The name of the snapshot that was made for the job.
    pub(super) fn own_snapshot(&self) -> Option<&str> {
        let source = self.inputs.first()?.source.as_ref()?;
        source.is_own().then(|| source.name())
    }

    /// What is read, in words.
    pub(super) fn input_label(&self) -> String {
        let labels = self.inputs.iter().map(|opened| &opened.label[..]);
        labels.collect::<Vec<_>>().join(" and ")
    }

    /// Runs it to its end. What happens meanwhile is told to `journal`. Its tasks
    /// are believed to take as long as is `known`.
    pub(super) fn run(
        &self,
        work: Work,
        interrupt: &Interrupt,
        journal: Option<Arc<dyn JobJournal>>,
        known: Option<&KnownProfile>,
    ) -> Result<JobReport> {
        let default = RuntimeOptions::new(self.cores());
        let task_memory_bytes = self.task_memory_bytes()?;
        let runtime = Runtime::start(RuntimeOptions {
            policy: policy::by_name(&self.common.policy).expect("clap checked the name"),
            spill_dir: self.spill_dir().to_path_buf(),
            journal,
            task_memory_bytes,
            memory_bytes: Some(task_memory_bytes as u64 * u64::from(self.cores())),
            ..default
        })?;
        let runner = Runner {
            runtime,
            interrupt,
            known,
            goal_s: self.common.goal.map(|goal| goal.as_secs_f64()),
        };
        match work {
            Work::Job(spec) => runner.run(*spec),
            Work::Chain(chain) => runner.run_chain(chain),
        }
    }
}

struct Runner<'a> {
    runtime: Runtime,
    interrupt: &'a Interrupt,
    known: Option<&'a KnownProfile>,
    goal_s: Option<f64>,
}

impl Runner<'_> {
    fn run(&self, mut spec: JobSpec) -> Result<JobReport> {
        if let Some(goal_s) = self.goal_s {
            spec = spec.goal_s(goal_s);
        }
        self.submit(spec, None)
    }

    fn submit(&self, mut spec: JobSpec, place: Option<(u32, u32)>) -> Result<JobReport> {
        let known = self
            .known
            .and_then(|known| known.noted.measured(&spec.name));
        spec.measured = spec.measured.or(known);
        let handle = self.runtime.submit(spec)?;
        self.interrupt.watch(&handle);
        Ok(watch::watch(&handle, place))
    }

    /// Runs the jobs of a chain, all of them by the goal: what is left of it is
    /// shared out evenly over those that are left.
    fn run_chain(&self, mut chain: Box<dyn Chain>) -> Result<JobReport> {
        let begun_s = self.runtime.now_s();
        let goal_s = self.goal_s.map(|goal_s| begun_s + goal_s);
        let length = chain.length();
        let mut whole: Option<JobReport> = None;
        let mut last: Option<JobReport> = None;
        for number in 1.. {
            let Some(mut spec) = chain.next(last.as_ref())? else {
                break;
            };
            if let Some(goal_s) = goal_s {
                let left_s = goal_s - self.runtime.now_s();
                let left_jobs = f64::from(length.saturating_sub(number) + 1);
                // Late already: as soon as possible.
                spec = spec.goal_s((left_s / left_jobs).max(1e-3));
            }
            let report = self.submit(spec, Some((number, length)))?;
            let ended = report.outcome != Outcome::Succeeded;
            let all = match whole {
                Some(before) => joined(before, &report),
                None => report.clone(),
            };
            whole = Some(all);
            last = Some(report);
            if ended {
                break;
            }
        }
        let mut whole = whole.context("a chain without jobs")?;
        whole.name = chain.name().to_string();
        whole.goal_s = goal_s;
        whole.met =
            goal_s.map(|goal_s| whole.outcome == Outcome::Succeeded && whole.finished_s <= goal_s);
        Ok(whole)
    }
}

/// Two jobs that follow each other as one.
fn joined(before: JobReport, next: &JobReport) -> JobReport {
    let mut counters = before.counters;
    counters.add(&next.counters);
    // The rows of the whole are those of the last.
    counters.output_records = next.counters.output_records;
    counters.output_bytes = next.counters.output_bytes;
    JobReport {
        finished_s: next.finished_s,
        tasks: before.tasks + next.tasks,
        cpu_s: before.cpu_s + next.cpu_s,
        counters,
        outcome: next.outcome.clone(),
        invalid_input: next.invalid_input,
        ..before
    }
}

/// Cancels the job that runs at an interrupt, and every one after it.
pub(super) struct Interrupt {
    running: Arc<Mutex<Option<JobHandle>>>,
    interrupted: Arc<AtomicBool>,
}

impl Interrupt {
    /// To be asked for once in a process.
    pub(super) fn listen() -> Result<Self> {
        let interrupt = Self {
            running: Arc::default(),
            interrupted: Arc::default(),
        };
        let running = Arc::clone(&interrupt.running);
        let interrupted = Arc::clone(&interrupt.interrupted);
        let cancel = move || {
            interrupted.store(true, Ordering::SeqCst);
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(handle) = &*running {
                // Too late while the output is being committed: then it succeeds.
                handle.cancel();
            }
        };
        ctrlc::set_handler(cancel).context("cannot listen for an interrupt")?;
        Ok(interrupt)
    }

    /// Whether there was one.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn watch(&self, handle: &JobHandle) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(handle.clone());
        drop(running);
        if self.is_interrupted() {
            handle.cancel();
        }
    }
}

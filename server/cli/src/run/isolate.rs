//! Tasks of a job in processes of their own (`--isolate process`).
//!
//! ```text
//!   ebb run ... --isolate process       jobs::processes
//!   job, inputs as ToldJob ─────── JSON ───────> ToldJob ─> the same job
//! ```
//!
//! The process makes the job by the same code from the same arguments; only its inputs
//! come from what it is told: a table's pinned files, and files as they were found.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_scheduler::runtime::{Input, JobReport, JobSpec, TaskError};
use ebb_server::jobs::processes::{self, TableWork};
use ebb_server::jobs::records::RecordFormat;
use ebb_server::jobs::{Chain, FilesInput, Generator, SnapshotInput};
use ebb_storage::{DetachedOptions, DetachedTable, PinnedTable};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::applications::Job;
use super::input::{Opened, OpenedPlace};
use super::launch::{Launch, Work};

/// Where tasks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Isolation {
    /// On threads of this process.
    #[default]
    Thread,
    /// Each in a process of its own.
    Process,
}

/// What a process is told of the job whose tasks it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ToldJob {
    /// A [`Job`].
    job: Value,
    /// Which one of a chain, as [`Chain::told`] says.
    step: Option<Vec<u8>>,
    /// Map tasks at most.
    pub(super) splits: u32,
    /// In the order in which the job opens them.
    inputs: VecDeque<ToldInput>,
}

impl ToldJob {
    /// The input that the job opens next.
    pub(super) fn next_input(&mut self) -> Result<Opened> {
        let input = self.inputs.pop_front();
        input.context("there is no such input")?.open()
    }
}

/// An input as a process is told of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ToldInput {
    format: RecordFormat,
    place: ToldPlace,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ToldPlace {
    /// As [`PinnedTable::description`] says.
    Table(String),
    Files(FilesInput),
    Generator(Generator),
}

impl ToldInput {
    /// What to tell of an input, and what keeps it where it is.
    pub(super) fn of(opened: &Opened) -> Result<(Self, Option<PinnedTable>)> {
        let (place, pin) = match &opened.place {
            OpenedPlace::Table(table) => {
                let pin = table.pin()?;
                (ToldPlace::Table(pin.description().to_string()), Some(pin))
            }
            OpenedPlace::Files(files) => (ToldPlace::Files(files.clone()), None),
            OpenedPlace::Generator(generator) => (ToldPlace::Generator(*generator), None),
            OpenedPlace::Told => anyhow::bail!("an input that was told is told again"),
        };
        let format = opened.format.clone();
        Ok((Self { format, place }, pin))
    }

    fn open(self) -> Result<Opened> {
        let input: Arc<dyn Input> = match self.place {
            ToldPlace::Table(description) => {
                let table = DetachedTable::open(&description, DetachedOptions::default())?;
                Arc::new(SnapshotInput::detached(table))
            }
            ToldPlace::Files(files) => Arc::new(files),
            ToldPlace::Generator(generator) => Arc::new(generator),
        };
        Ok(Opened {
            input,
            format: self.format,
            label: String::new(),
            source: None,
            place: OpenedPlace::Told,
        })
    }
}

/// The work with its tasks where the job's arguments say.
///
/// # Errors
/// When they cannot run there.
pub(super) fn isolated(work: Work, job: &Job, launch: &mut Launch<'_>) -> Result<Work> {
    if job.common().isolate == Isolation::Thread {
        return Ok(work);
    }
    let isolated = Isolated {
        told: ToldJob {
            job: json!(job),
            step: None,
            splits: launch.splits(),
            inputs: launch.tell_inputs()?.into(),
        },
        task_memory_bytes: launch.task_memory_bytes()?,
    };
    Ok(match work {
        Work::Job(spec) => Work::job(isolated.job(*spec, None)?),
        Work::Chain(chain) => Work::Chain(Box::new(IsolatedChain { chain, isolated })),
    })
}

/// How jobs get into processes.
struct Isolated {
    told: ToldJob,
    task_memory_bytes: usize,
}

impl Isolated {
    fn job(&self, spec: JobSpec, step: Option<Vec<u8>>) -> Result<JobSpec> {
        let told = ToldJob {
            step,
            ..self.told.clone()
        };
        let told = serde_json::to_vec(&Served::Run(told));
        let told = told.context("telling a process of the job")?;
        let processes = processes::task_processes(told, self.task_memory_bytes);
        Ok(spec.in_processes(Arc::new(processes)))
    }
}

/// A chain of which each job has processes of its own.
struct IsolatedChain {
    chain: Box<dyn Chain>,
    isolated: Isolated,
}

impl Chain for IsolatedChain {
    fn name(&self) -> &str {
        self.chain.name()
    }

    fn length(&self) -> u32 {
        self.chain.length()
    }

    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError> {
        let Some(spec) = self.chain.next(done)? else {
            return Ok(None);
        };
        let job = self.isolated.job(spec, Some(self.told()?));
        job.map(Some).map_err(TaskError::failed)
    }

    fn told(&self) -> Result<Vec<u8>, TaskError> {
        self.chain.told()
    }

    fn told_job(&self, told: &[u8]) -> Result<JobSpec, TaskError> {
        self.chain.told_job(told)
    }
}

/// What processes of this program run tasks of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Served {
    /// Of a job of `ebb run`.
    Run(ToldJob),
    /// Of a job over a table that a library's user has made.
    Table(TableWork),
}

/// Runs tasks if this process was started for that; `None` if it was not. To be asked
/// before the arguments are looked at.
pub fn serve_tasks_if_asked() -> Option<ExitCode> {
    processes::serve_tasks_if_asked(job)
}

/// The job that this process is told of, as far as its tasks need it.
fn job(told: &[u8]) -> Result<JobSpec> {
    let mut told = match serde_json::from_slice(told)? {
        Served::Run(told) => told,
        Served::Table(work) => return work.spec(),
    };
    let job: Job = serde_json::from_value(told.job.clone())?;
    let (common, step) = (job.common().clone(), told.step.take());
    match (job.work(&mut Launch::in_process(&common, told))?, step) {
        (Work::Job(spec), None) => Ok(*spec),
        (Work::Chain(chain), Some(step)) => Ok(chain.told_job(&step)?),
        _ => anyhow::bail!("{} is told as another kind of job", job.name()),
    }
}

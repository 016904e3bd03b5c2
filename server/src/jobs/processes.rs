//! The processes that run tasks of jobs apart from this one: this very program,
//! started in another way.
//!
//! ```text
//!   parent                                   ebb run-tasks-of-parent
//!   task_processes(what to tell) ── told ──> serve_tasks_if_asked(how to make the job)
//! ```

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use ebb_scheduler::runtime::{JobSpec, RuntimeOptions, TaskProcesses, TaskServer, VecOutput};
use ebb_storage::{DetachedOptions, DetachedTable, PinnedTable};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::records::{RecordFormat, RowSchema, ValueFormat};
use super::{LINE_BYTES_MAX, SnapshotInput, grep, wordcount};

/// The first argument of a process that runs tasks.
const ARGUMENT: &str = "run-tasks-of-parent";

/// Memory of a process that runs tasks, for heap and stacks, beyond that for the
/// records of a task: eight of the longest records there are. To read one takes a
/// buffer of up to twice as much, and half as much again while it grows; one more is on
/// its way to the parent; and applications keep some of a group.
const MEMORY_BYTES: u64 = 8 * LINE_BYTES_MAX as u64;

/// Files that such a process may open beyond those of its input.
const FILES_MAX: u64 = 128;

/// Processes that are told `told`, for tasks with `task_memory_bytes` for their records.
/// Their program has to ask [`serve_tasks_if_asked`] first of all.
pub fn task_processes(told: Vec<u8>, task_memory_bytes: usize) -> TaskProcesses {
    TaskProcesses::new(command, told).memory_bytes(MEMORY_BYTES + task_memory_bytes as u64)
}

/// This very program, even if the file it was started from has been replaced.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ebb").arg(ARGUMENT);
    command
}

/// Runs tasks for the process that started this one for that, of the job that `build`
/// makes of what it is told; `None` if it was started for anything else. Once the job
/// is made this process opens few files more.
pub fn serve_tasks_if_asked<E: Display>(
    build: impl FnOnce(&[u8]) -> Result<JobSpec, E>,
) -> Option<ExitCode> {
    let is_asked = std::env::args_os().nth(1)? == ARGUMENT;
    is_asked.then(|| {
        // What the system lists it as; it would be "exe".
        let _ = rustix::thread::set_name(c"ebb-tasks");
        let build = |told: &[u8]| {
            let spec = build(told).map_err(|e| format!("{e:#}"))?;
            limit_files().map_err(|e| format!("limiting open files: {e}"))?;
            Ok::<_, String>(spec)
        };
        let served = TaskServer::from_stdin().and_then(|server| server.serve(build));
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ebb: {ARGUMENT}, which is for ebb to start: {error}");
                ExitCode::FAILURE
            }
        }
    })
}

/// What processes are told of a [`TableWork`].
#[derive(Debug, Deserialize)]
struct Told {
    table: TableWork,
}

/// A job over a table as the program's processes are told of it: one that is made by
/// other code than that of `ebb run`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableWork {
    /// As [`PinnedTable::description`] says.
    table: String,
    application: TableApplication,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TableApplication {
    WordCount { reduces: u32 },
    Grep { text: String },
}

impl TableWork {
    /// [`wordcount::spec`] in `reduces` reduce tasks.
    pub fn word_count(table: &PinnedTable, reduces: u32) -> Self {
        Self::new(table, TableApplication::WordCount { reduces })
    }

    /// [`grep::spec`] for a text.
    pub fn grep(table: &PinnedTable, text: impl Into<String>) -> Self {
        Self::new(table, TableApplication::Grep { text: text.into() })
    }

    fn new(table: &PinnedTable, application: TableApplication) -> Self {
        Self {
            table: table.description().to_owned(),
            application,
        }
    }

    /// Processes for its tasks with as much memory as they have by default, good for as
    /// long as the table is pinned.
    pub fn processes(&self) -> TaskProcesses {
        let told = json!({ "table": self }).to_string().into_bytes();
        task_processes(told, RuntimeOptions::new(1).task_memory_bytes)
    }

    /// What such a process was told.
    ///
    /// # Errors
    /// When it was told of something else.
    pub fn from_told(told: &[u8]) -> Result<Self> {
        let Told { table } = serde_json::from_slice(told)?;
        Ok(table)
    }

    /// The job as such a process runs tasks of it.
    ///
    /// # Errors
    /// When the table cannot be opened.
    pub fn spec(&self) -> Result<JobSpec> {
        let table = DetachedTable::open(&self.table, DetachedOptions::default())?;
        let input = Arc::new(SnapshotInput::detached(table));
        let output = Arc::new(VecOutput::new());
        Ok(match &self.application {
            TableApplication::WordCount { reduces } => {
                wordcount::spec("word count", input, output, *reduces)
            }
            TableApplication::Grep { text } => {
                let rows = RecordFormat::table(ValueFormat::text())?.shared();
                grep::spec("grep", input, output, grep::Pattern::text(text)?, rows)
            }
        })
    }
}

fn limit_files() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?;
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
    let wanted = numbers.max().unwrap_or(0) + FILES_MAX;
    let limits = getrlimit(Resource::Nofile);
    let limit = limits.current.map_or(wanted, |now| now.min(wanted));
    let limits = Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    Ok(setrlimit(Resource::Nofile, limits)?)
}

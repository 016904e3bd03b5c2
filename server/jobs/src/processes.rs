//! Child processes that run tasks of jobs. They run the executable of this process, with another
//! argument.
//!
//! ```text
//!   parent                                   ebb run-tasks-of-parent
//!   task_processes(description) ── stdin ─> serve_tasks(how to make the job)
//! ```

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ebb_scheduler::runtime::{JobSpec, TaskProcesses, TaskServer};
use ebb_text::LINE_BYTES_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The first argument of a process that runs tasks.
const ARGUMENT: &str = "run-tasks-of-parent";

/// The memory for heap and stacks of a process that runs tasks, in addition to the memory for the
/// records of a task. It is eight times the longest record: the buffer of a reader takes up to
/// twice the length of a record, and three times while it grows. One more record is on its way to
/// the parent, and applications keep some records of a group.
const MEMORY_BYTES: u64 = 8 * LINE_BYTES_MAX as u64;

/// The number of files that a process for tasks may open after it has made the job, whose input is
/// open by then.
const FILES_MAX: u64 = 128;

/// Returns child processes for the tasks of a job. They receive `description`, make the job from
/// this description, and have `task_memory_bytes` of memory for the records of a task. The program
/// must call [`serve_tasks`] before anything else.
pub(super) fn task_processes(description: Vec<u8>, task_memory_bytes: usize) -> TaskProcesses {
    TaskProcesses::new(command, description).memory_bytes(MEMORY_BYTES + task_memory_bytes as u64)
}

/// Returns a command that runs the executable of this process, even if another file has taken its
/// place.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ebb").arg(ARGUMENT);
    // The limit on the memory of a task counts memory that may be written. By default mimalloc makes all
    // of the address space that it reserves writable at once.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    command
}

/// Runs tasks of the job that `build` makes from the parent's description, and returns the exit
/// code of the process; `None` if this process was not started to run tasks. Once the job is made,
/// with its input open, the process may open only [`FILES_MAX`] more files.
pub(super) fn serve_tasks<E: Display>(
    build: impl FnOnce(&[u8]) -> Result<JobSpec, E>,
) -> Option<ExitCode> {
    let is_requested = std::env::args_os().nth(1)? == ARGUMENT;
    is_requested.then(|| {
        // The name of the process in the system's lists, which would be "exe".
        let _ = rustix::thread::set_name(c"ebb-tasks");
        let build = |description: &[u8]| {
            let spec = build(description).map_err(|e| format!("{e:#}"))?;
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

//! The processes that run tasks of jobs apart from this one: this very program,
//! started in another way.
//!
//! ```text
//!   parent                                   ebb run-tasks-of-parent
//!   task_processes(description) ── told ──> serve_tasks_if_asked(how to make the job)
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

/// Memory of a process that runs tasks, for heap and stacks, beyond that for the
/// records of a task: eight of the longest records there are. To read one takes a
/// buffer of up to twice as much, and half as much again while it grows; one more is on
/// its way to the parent; and applications keep some of a group.
const MEMORY_BYTES: u64 = 8 * LINE_BYTES_MAX as u64;

/// Files that such a process may open beyond those of its input.
const FILES_MAX: u64 = 128;

/// Processes that get the description `told` of their job, for tasks with `task_memory_bytes` for their records.
/// Their program has to ask [`serve_tasks_if_asked`] first of all.
pub(super) fn task_processes(told: Vec<u8>, task_memory_bytes: usize) -> TaskProcesses {
    TaskProcesses::new(command, told).memory_bytes(MEMORY_BYTES + task_memory_bytes as u64)
}

/// This very program, even if the file it was started from has been replaced.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ebb").arg(ARGUMENT);
    // The limit on the memory of a task counts memory that may be written. By default mimalloc makes all
    // of the address space that it reserves writable at once.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    command
}

/// Runs tasks for the parent, of the job that `build` makes from the parent's description;
/// `None` if this process was not started to run tasks. Once the job is made, the process
/// opens few more files.
pub(super) fn serve_tasks_if_asked<E: Display>(
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

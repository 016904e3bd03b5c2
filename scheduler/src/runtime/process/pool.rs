//! The processes that run the tasks of one job.

use super::frame::{self, FrameError, KeepWaiting, Kind};
use super::message::{ToChild, ToParent, decode, encode};
use crate::runtime::error::TaskError;
use crate::runtime::job::task_processes::TaskProcesses;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two checks of a parent that waits for a child: it checks whether the result is
/// still needed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An upper bound of the number of cores of a machine. A process may report any CPU time, but no
/// more of it counts than this number of cores can give since the process was started.
const CORES_MAX: u64 = 1024;

/// Signal of a process that called `abort`, as Rust's allocator does when memory runs out.
const SIGABRT: i32 = 6;

/// CPU time of all processes that have run tasks for this process, in nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the CPU time of all processes that have run tasks for this process, in any of its
/// runtimes, in seconds. For each running process it may be too low by up to 4 ms, or by up to 50
/// ms while that process sends no report.
#[must_use]
pub fn processes_cpu_s() -> f64 {
    CPU_NS.load(Ordering::Relaxed) as f64 / 1e9
}

impl TaskProcesses {
    /// Returns the payload of the first frame: the memory limit, 0 for none, u64 LE | the
    /// description of the job.
    fn hello(&self) -> Vec<u8> {
        let limit = self.memory_bytes.unwrap_or(0).to_le_bytes();
        [&limit[..], &self.description].concat()
    }

    /// Starts a process. It inherits the class of the calling thread; `is_on_floor` is true if
    /// this class is the floor (the ordinary class with a high nice value).
    fn start(&self, is_on_floor: bool) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LOOK_EVERY))?;
        ours.set_write_timeout(Some(LOOK_EVERY))?;
        let mut command = (self.command)();
        let stdin = Stdio::from(OwnedFd::from(theirs));
        command.process_group(0).stdin(stdin).stdout(Stdio::null());
        let started = Instant::now();
        let child = command.spawn()?;
        Ok(Process {
            is_on_floor,
            meter: Meter {
                id: child.id(),
                started,
                paid_ns: 0,
            },
            line: Line {
                child,
                socket: ours,
                payload: Vec::new(),
                memory_bytes: self.memory_bytes,
            },
        })
    }
}

/// The idle processes of one job. They end with the pool.
pub(in crate::runtime) struct Pool {
    processes: Arc<TaskProcesses>,
    idle: Mutex<Vec<Process>>,
}

impl Pool {
    pub fn new(processes: Arc<TaskProcesses>) -> Self {
        Self {
            processes,
            idle: Mutex::default(),
        }
    }

    /// Ends the idle processes: kills them.
    pub fn end(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// Returns an idle process, or starts a new one. The process has the class of the calling
    /// thread, which is the floor (the ordinary class with a high nice value) if `is_on_floor` is
    /// true.
    pub(super) fn take(
        &self,
        is_on_floor: bool,
        keep_waiting: KeepWaiting<'_>,
    ) -> Result<Process, TaskError> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (idle.iter()).rposition(|process| process.is_on_floor == is_on_floor);
            at.map(|at| idle.swap_remove(at))
        };
        if let Some(process) = idle {
            return Ok(process);
        }
        let started = self.processes.start(is_on_floor);
        let mut process = started.map_err(TaskError::io("starting a process for a task"))?;
        let hello = self.processes.hello();
        process.line.send(Kind::Hello, &hello, keep_waiting)?;
        Ok(process)
    }

    /// Puts a process whose task has ended back into the pool, for the next task.
    pub(super) fn give_back(&self, process: Process) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(process);
    }
}

/// The content of a frame from a process.
pub(super) enum FromChild<'a> {
    Message(ToParent),
    Rows(&'a [u8]),
}

/// A process that runs tasks.
pub(super) struct Process {
    pub line: Line,
    pub meter: Meter,
    /// True if the process runs on the floor (in the ordinary class, with a high nice value), not
    /// in the idle class.
    pub is_on_floor: bool,
}

/// The connection to a process, which is killed on drop.
pub(super) struct Line {
    child: Child,
    socket: UnixStream,
    /// Payload of the last frame from the process.
    payload: Vec<u8>,
    memory_bytes: Option<u64>,
}

impl Line {
    /// Sends a message to the process.
    ///
    /// # Errors
    /// If the process has ended, the connection fails, or the message cannot be serialised or is
    /// too long; [`TaskError::Cancelled`] if `keep_waiting` returns false.
    pub fn send_message(
        &mut self,
        message: &ToChild,
        keep_waiting: KeepWaiting<'_>,
    ) -> Result<(), TaskError> {
        let bytes = encode(message)?;
        self.send(Kind::Order, &bytes, keep_waiting)
    }

    fn send(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        keep_waiting: KeepWaiting<'_>,
    ) -> Result<(), TaskError> {
        let sent = frame::send(&mut self.socket, kind, bytes, keep_waiting);
        sent.map_err(|error| self.failed(error))
    }

    /// Receives the next frame from the process: a message, or rows of the task's output.
    ///
    /// # Errors
    /// If the process has ended or sends an invalid frame, or if the connection fails;
    /// [`TaskError::Cancelled`] if `keep_waiting` returns false.
    pub fn receive_message(
        &mut self,
        keep_waiting: KeepWaiting<'_>,
    ) -> Result<FromChild<'_>, TaskError> {
        let received = frame::receive(&mut self.socket, &mut self.payload, keep_waiting);
        let message = match received {
            Ok(Kind::Rows) => return Ok(FromChild::Rows(&self.payload)),
            Ok(Kind::Report) => decode(&self.payload),
            Ok(kind) => Err(FrameError::Damaged(format!("{kind:?} from a child"))),
            Err(error) => Err(error),
        };
        message
            .map(FromChild::Message)
            .map_err(|error| self.failed(error))
    }

    /// Converts `error` to a task error: a process that has closed its end has died.
    fn failed(&mut self, error: FrameError) -> TaskError {
        match error {
            FrameError::GivenUp => TaskError::Cancelled,
            FrameError::Closed => {
                let how = match self.end() {
                    Ok(status) => self.describe_end(status),
                    Err(error) => format!("its exit status is unknown: {error}"),
                };
                TaskError::failed(format!("the process of the task ended: {how}"))
            }
            error => TaskError::failed(format!("in the connection to the task's process: {error}")),
        }
    }

    fn describe_end(&self, status: ExitStatus) -> String {
        match (status.signal(), self.memory_bytes) {
            // The kernel does not report the reason of an abort.
            (Some(SIGABRT), Some(memory_bytes)) => format!(
                "{status}, as after an allocation beyond its {memory_bytes} bytes of memory"
            ),
            _ => status.to_string(),
        }
    }

    /// Kills the process, unless it has ended already, and returns its exit status. Waits only
    /// until the kernel has ended the process.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A process that cannot be killed has ended and was waited for.
        let _ = self.end();
    }
}

/// The CPU time of a process, and the part of it that was already charged to the job.
pub(super) struct Meter {
    id: u32,
    started: Instant,
    paid_ns: u64,
}

impl Meter {
    /// Returns the CPU time that was not charged to the job yet, in seconds, and counts it as
    /// charged. `cpu_ns` is the CPU time of the process since its start.
    pub fn take_unpaid_s(&mut self, cpu_ns: u64) -> f64 {
        // A child may report any number: limit it to the CPU time that existed.
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cpu_ns = cpu_ns.min(elapsed_ns.saturating_mul(CORES_MAX));
        let unpaid_ns = cpu_ns.saturating_sub(self.paid_ns);
        self.paid_ns += unpaid_ns;
        CPU_NS.fetch_add(unpaid_ns, Ordering::Relaxed);
        unpaid_ns as f64 / 1e9
    }

    /// Returns the CPU time of the process that was not charged to the job yet, in seconds, and
    /// counts it as charged. The caller needs this function for a process that sends no report. The
    /// CPU time is the kernel's count for the first thread, which runs the tasks.
    pub fn take_counted_s(&mut self) -> f64 {
        let path = format!("/proc/{}/schedstat", self.id);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.split_whitespace().next();
        let counted_ns = first.and_then(|number| number.parse().ok()).unwrap_or(0);
        self.take_unpaid_s(counted_ns)
    }
}

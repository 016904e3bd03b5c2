//! The processes that run the tasks of one job.

use super::frame::{self, FrameError, GoesOn, Kind};
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

/// How long the parent waits for a child before it looks at whether anybody still
/// wants the result.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// More cores than a machine has.
const CORES_MAX: u64 = 1024;

/// Signal of a process that called `abort`, as Rust's allocator does when there is no
/// memory.
const SIGABRT: i32 = 6;

/// CPU time of all processes that have run tasks for this one, in nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// CPU time of all processes that have run tasks for this one, of whatever runtime, in
/// seconds. Behind by up to 4 ms of each that runs; by 50 ms if it says nothing.
#[must_use]
pub fn processes_cpu_s() -> f64 {
    CPU_NS.load(Ordering::Relaxed) as f64 / 1e9
}

impl TaskProcesses {
    /// The first frame: the memory limit, 0 for none, u64 LE | the description of the job.
    fn hello(&self) -> Vec<u8> {
        let limit = self.memory_bytes.unwrap_or(0).to_le_bytes();
        [&limit[..], &self.told].concat()
    }

    /// Starts a process from a thread that is on the floor or not, whose class it inherits.
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

/// The processes of one job that have nothing to do at present. They end with it.
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

    /// Ends those that are idle: nothing is left to do.
    pub fn end(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// One that is idle and of the class of the calling thread, or a new one.
    pub(super) fn take(
        &self,
        is_on_floor: bool,
        goes_on: GoesOn<'_>,
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
        process.line.send(Kind::Hello, &hello, goes_on)?;
        Ok(process)
    }

    /// Takes back one that has finished its order.
    pub(super) fn give_back(&self, process: Process) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(process);
    }
}

/// What came from a process.
pub(super) enum Said<'a> {
    Message(ToParent),
    Rows(&'a [u8]),
}

/// A process that runs tasks.
pub(super) struct Process {
    pub line: Line,
    pub meter: Meter,
    /// The process is on the floor instead of in the idle class.
    pub is_on_floor: bool,
}

/// The connection to a process, which is killed on drop.
pub(super) struct Line {
    child: Child,
    socket: UnixStream,
    /// Of the last frame.
    payload: Vec<u8>,
    memory_bytes: Option<u64>,
}

impl Line {
    /// # Errors
    /// When the process has ended, or the message cannot be told.
    pub fn tell(&mut self, message: &ToChild, goes_on: GoesOn<'_>) -> Result<(), TaskError> {
        let bytes = encode(message)?;
        self.send(Kind::Order, &bytes, goes_on)
    }

    fn send(&mut self, kind: Kind, bytes: &[u8], goes_on: GoesOn<'_>) -> Result<(), TaskError> {
        let sent = frame::send(&mut self.socket, kind, bytes, goes_on);
        sent.map_err(|error| self.failed(error))
    }

    /// Its next message.
    ///
    /// # Errors
    /// When it has ended, or says what makes no sense.
    pub fn listen(&mut self, goes_on: GoesOn<'_>) -> Result<Said<'_>, TaskError> {
        let received = frame::receive(&mut self.socket, &mut self.payload, goes_on);
        let message = match received {
            Ok(Kind::Rows) => return Ok(Said::Rows(&self.payload)),
            Ok(Kind::Report) => decode(&self.payload),
            Ok(kind) => Err(FrameError::Damaged(format!("{kind:?} from a child"))),
            Err(error) => Err(error),
        };
        message
            .map(Said::Message)
            .map_err(|error| self.failed(error))
    }

    /// What to make of `error`: a process that has closed its end has died.
    fn failed(&mut self, error: FrameError) -> TaskError {
        match error {
            FrameError::GivenUp => TaskError::Cancelled,
            FrameError::Closed => {
                let how = match self.end() {
                    Ok(status) => self.told_end(status),
                    Err(error) => format!("its exit status is unknown: {error}"),
                };
                TaskError::failed(format!("the process of the task ended: {how}"))
            }
            error => TaskError::failed(format!("talking to the process of the task: {error}")),
        }
    }

    fn told_end(&self, status: ExitStatus) -> String {
        match (status.signal(), self.memory_bytes) {
            // The kernel does not tell why.
            (Some(SIGABRT), Some(memory_bytes)) => format!(
                "{status}, as when it asks for more than its {memory_bytes} bytes of memory"
            ),
            _ => status.to_string(),
        }
    }

    /// Kills it, unless it has ended already, and tells how it ended. Waits for no
    /// longer than the kernel takes to do that.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // One that cannot be killed has ended, and was waited for.
        let _ = self.end();
    }
}

/// What a process has used, and what of it was paid for.
pub(super) struct Meter {
    id: u32,
    started: Instant,
    paid_ns: u64,
}

impl Meter {
    /// CPU time that was not paid for yet, in seconds, given that the process says it
    /// has used `cpu_ns` since it was started. From now on it is.
    pub fn take_unpaid_s(&mut self, cpu_ns: u64) -> f64 {
        // It cannot have used more than there was.
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cpu_ns = cpu_ns.min(elapsed_ns.saturating_mul(CORES_MAX));
        let unpaid_ns = cpu_ns.saturating_sub(self.paid_ns);
        self.paid_ns += unpaid_ns;
        CPU_NS.fetch_add(unpaid_ns, Ordering::Relaxed);
        unpaid_ns as f64 / 1e9
    }

    /// The same for a process that says nothing: what the kernel counts of its first
    /// thread, which runs the tasks.
    pub fn take_counted_s(&mut self) -> f64 {
        let path = format!("/proc/{}/schedstat", self.id);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.split_whitespace().next();
        let counted_ns = first.and_then(|number| number.parse().ok()).unwrap_or(0);
        self.take_unpaid_s(counted_ns)
    }
}

//! The side of a child process that runs tasks.

use super::frame::{self, FrameError, Kind, push_row};
use super::message::{
    Failure, Order, TaskEnd, TaskResult, ToChild, ToParent, Use, Work, decode, encode,
};
use crate::runtime::error::TaskError;
use crate::runtime::job::output::{Output, OutputWriter};
use crate::runtime::job::partitioner::RangePartitioner;
use crate::runtime::job::spec::JobSpec;
use crate::runtime::job::task_context::TaskContext;
use crate::runtime::pacing::account::Payee;
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::pacing::attempt_state::AttemptState;
use crate::runtime::pacing::cores::tie_current_thread;
use crate::runtime::panics::catch;
use crate::runtime::spill_space::SpillSpace;
use crate::runtime::task::map::{MapWork, run_map};
use crate::runtime::task::reduce::run_reduce;
use ebb_threads::{YIELD_EVERY, lower_current_thread, process_cpu};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Wall time between two settlements: the process reports its CPU time to its parent, and waits if
/// the job has used more than its share. Each settlement is a message and its answer, so this time
/// is longer than on a thread; it is a fifth of the burst of CPU time that a job may save up.
const SETTLE_EVERY: Duration = Duration::from_millis(4);

/// The most bytes of rows that a child gathers before it sends them to the parent. It sends a
/// longer row alone.
const ROWS_BYTES: usize = 64 << 10;

/// The exit code of a process whose parent has ended.
const EXIT_ORPHAN: i32 = 3;

/// The task server of a child process. Its parent is a [`Runtime`](crate::runtime::Runtime) with a
/// job in [`TaskProcesses`](crate::runtime::TaskProcesses).
#[derive(Debug)]
pub struct TaskServer {
    socket: UnixStream,
}

impl TaskServer {
    /// Takes the standard input, which must be the socket from the parent. From now on this process
    /// ends when its parent does, at any point of its work.
    ///
    /// # Errors
    /// If the standard input is not accessible, or no thread can be started.
    pub fn from_stdin() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        end_with_parent(socket.try_clone()?)?;
        Ok(Self { socket })
    }

    /// Applies the parent's limits to this process, makes the job by `build` from the parent's
    /// description, and runs tasks of the job on this thread until the parent has no more. The
    /// job's output is not used: rows go to the parent.
    ///
    /// # Errors
    /// If the connection to the parent fails, or the parent sends an invalid message. Errors of
    /// `build` and of tasks are reported to the parent.
    pub fn serve<E: Display>(
        self,
        build: impl FnOnce(&[u8]) -> Result<JobSpec, E>,
    ) -> io::Result<()> {
        serve_on(self.socket, build).or_else(|error| match error {
            FrameError::Closed => Ok(()),
            error => Err(io::Error::other(error)),
        })
    }
}

/// Starts a thread that ends this process when its parent ends. The kernel can notify a process only of
/// the end of its parent's *thread*, but a process runs tasks for several threads. So the thread waits
/// until the parent's end of the socket is closed, which happens in whatever way the parent ends.
fn end_with_parent(socket: UnixStream) -> io::Result<()> {
    let wait = move || {
        loop {
            let mut ends = [PollFd::new(&socket, PollFlags::empty())];
            let waited = poll(&mut ends, None);
            if waited.is_ok() && !ends[0].revents().is_empty() {
                std::process::exit(EXIT_ORPHAN);
            }
        }
    };
    let thread = thread::Builder::new().name("ebb-parent".to_owned());
    thread.stack_size(64 << 10).spawn(wait).map(drop)
}

/// Runs the tasks that arrive over `socket`, until an error; the error is `Closed` when the parent has no
/// more tasks. If this process cannot be limited, or `build` fails, each task fails with that error,
/// because the error has to reach the parent.
fn serve_on<E: Display>(
    socket: UnixStream,
    build: impl FnOnce(&[u8]) -> Result<JobSpec, E>,
) -> Result<(), FrameError> {
    let mut link = Link {
        socket,
        payload: Vec::new(),
        read_bytes: 0,
    };
    let hello = link.hello()?;
    let (limit, description) = hello
        .split_first_chunk::<8>()
        .ok_or_else(|| FrameError::Damaged("a hello without a limit".to_owned()))?;
    let built = limit_this_process(u64::from_le_bytes(*limit))
        .map_err(|e| format!("limiting the process of the task: {e}"))
        .and_then(|()| match catch(|| build(description)) {
            Ok(built) => built.map_err(|e| format!("in the process of the task: {e}")),
            Err(message) => Err(format!("the process of the task panicked: {message}")),
        });
    let parent = Parent(Arc::new(Mutex::new(link)));
    let mut job = built.map(|spec| TaskContext {
        spec: JobSpec {
            output: Arc::new(parent.clone()),
            ..spec
        },
        directory: PathBuf::new(),
        spill_space: SpillSpace::default(),
        task_memory_bytes: 0,
    });
    loop {
        let ToChild::Order(order) = parent.lock().receive_order()? else {
            return Err(FrameError::Damaged("an answer to nothing".to_owned()));
        };
        let attempt_state = AttemptState::default();
        let ended = match &mut job {
            Ok(job) => carry_out(*order, job, &parent, &attempt_state),
            Err(cause) => Err(TaskError::failed(cause.clone())),
        };
        let ended = ended.unwrap_or_else(|error| TaskEnd::Failed(Failure::of(&error)));
        let used = parent.lock().take_use(&attempt_state);
        parent.lock().report(&ToParent::TaskEnd(used, ended))?;
    }
}

/// Limits heap and stacks of this process to `memory_bytes`, and disables core files. Does nothing
/// if `memory_bytes` is 0, which stands for no limit.
fn limit_this_process(memory_bytes: u64) -> io::Result<()> {
    let limit = |resource, limit: u64| {
        // An existing limit cannot be raised.
        let limit = getrlimit(resource)
            .maximum
            .map_or(limit, |most| limit.min(most));
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)
    };
    if memory_bytes > 0 {
        limit(Resource::Data, memory_bytes)?;
        limit(Resource::Core, 0)?;
    }
    Ok(())
}

/// Carries out one order, and returns the message for the parent about its end. A task that emits
/// rows sends them while it runs.
fn carry_out(
    order: Order,
    job: &mut TaskContext,
    parent: &Parent,
    attempt_state: &AttemptState,
) -> Result<TaskEnd, TaskError> {
    // The core comes with each order, because another thread of the parent than the last one may use this
    // process, and the class, because each order has a new state.
    if let Some(core) = order.core {
        tie_current_thread(core as usize);
    }
    attempt_state.set_on_floor(order.is_on_floor);
    job.directory = order.directory();
    job.task_memory_bytes = usize::try_from(order.task_memory_bytes).unwrap_or(usize::MAX);
    job.spill_space = SpillSpace::default().leaving(order.spill_reserve_bytes);
    let job = &*job;
    // A panic may leave the state of user code inconsistent. No later attempt meets it: the parent
    // kills this process after a failed attempt.
    let ended = catch(|| -> Result<TaskEnd, TaskError> {
        // Always granted here. The parent requests the permission itself before it finishes the
        // output, because only the parent's process has the other attempts at the task.
        let may_finish = || true;
        let attempt = Attempt::start(parent, attempt_state, &may_finish)?;
        let runs = match order.work {
            Work::Sample(plan) => {
                // Only the ranges go back: the order for the map itself follows, with counters of its own.
                let ranges = plan.ranges(job, &attempt)?;
                return Ok(TaskEnd::Cuts(ranges.cuts().to_vec()));
            }
            Work::Map {
                index,
                attempt: number,
                split,
                cuts,
            } => {
                let ranges = cuts.map(|cuts| Arc::new(RangePartitioner::new(cuts)));
                let map = MapWork {
                    index,
                    attempt: number,
                    split: &split,
                    partitioner: job.spec.partitioning.with(ranges)?,
                };
                run_map(job, map, &attempt)?
            }
            Work::Reduce {
                index,
                attempt: number,
                segments,
            } => {
                let segments =
                    (segments.into_iter()).map(|segment| segment.into_segment(&job.directory));
                let segments = segments
                    .collect::<Result<_, _>>()
                    .map_err(TaskError::failed)?;
                run_reduce(job, index, number, segments, &attempt)?;
                Vec::new()
            }
        };
        // All notes so far, also of earlier tasks: the parent accepts them repeatedly.
        let notes = job.spec.notes.as_ref();
        let notes = notes.map_or_else(Vec::new, |notes| notes.encode());
        let result = TaskResult::new(attempt.counters(), &runs, notes)?;
        Ok(TaskEnd::Done(Box::new(result)))
    });
    ended.unwrap_or_else(|message| Err(TaskError::Panicked(message)))
}

/// The connection to the parent.
struct Link {
    socket: UnixStream,
    /// Payload of the last frame from the parent.
    payload: Vec<u8>,
    /// Bytes of input since the last report.
    read_bytes: u64,
}

impl Link {
    fn hello(&mut self) -> Result<Vec<u8>, FrameError> {
        match self.receive()? {
            Kind::Hello => Ok(std::mem::take(&mut self.payload)),
            kind => Err(FrameError::Damaged(format!("{kind:?} before a hello"))),
        }
    }

    fn receive_order(&mut self) -> Result<ToChild, FrameError> {
        match self.receive()? {
            Kind::Order => decode(&self.payload),
            kind => Err(FrameError::Damaged(format!("{kind:?} from the parent"))),
        }
    }

    fn receive(&mut self) -> Result<Kind, FrameError> {
        frame::receive(&mut self.socket, &mut self.payload, &mut || true)
    }

    fn report(&mut self, message: &ToParent) -> Result<(), FrameError> {
        let bytes = encode(message).map_err(|e| FrameError::Damaged(e.to_string()))?;
        self.send(Kind::Report, &bytes)
    }

    fn send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), FrameError> {
        frame::send(&mut self.socket, kind, bytes, &mut || true)
    }

    /// Returns the use to report: CPU time since the start of this process, bytes read since the last
    /// report.
    fn take_use(&mut self, attempt_state: &AttemptState) -> Use {
        let (input, handled) = attempt_state.input();
        Use {
            cpu_ns: process_cpu().as_nanos() as u64,
            read_bytes: std::mem::take(&mut self.read_bytes),
            input,
            handled,
            memory_bytes: attempt_state.memory_bytes(),
        }
    }
}

/// The connection to the parent process, shared by a task's output (its rows go to the parent) and
/// its pacing (the parent gets reports of the resource use).
#[derive(Clone)]
struct Parent(Arc<Mutex<Link>>);

impl Parent {
    fn lock(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, and waits until the parent's answer permits this process to go on. Returns
    /// whether the process has to move itself to the idle class.
    fn request(&self, question: &ToParent) -> Result<bool, TaskError> {
        let mut link = self.lock();
        let answer = link.report(question).and_then(|()| link.receive_order());
        match answer.map_err(lost)? {
            ToChild::GoOn { lowers } => Ok(lowers),
            ToChild::Order(_) => Err(lost(FrameError::Damaged("an order in a task".to_owned()))),
        }
    }

    fn send_rows(&self, rows: &mut Vec<u8>) -> Result<(), TaskError> {
        self.lock().send(Kind::Rows, rows).map_err(lost)?;
        rows.clear();
        Ok(())
    }
}

fn lost(error: FrameError) -> TaskError {
    TaskError::failed(format!("in the connection to the parent: {error}"))
}

impl Payee for Parent {
    fn settle_every(&self) -> Duration {
        SETTLE_EVERY
    }

    fn yield_every(&self) -> Option<Duration> {
        Some(YIELD_EVERY)
    }

    fn pay(&self, _cpu_s: f64, read_bytes: u64) {
        // CPU time is measured for the whole process.
        self.lock().read_bytes += read_bytes;
    }

    fn wait(
        &self,
        attempt_state: &AttemptState,
        _goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TaskError> {
        let used = self.lock().take_use(attempt_state);
        if self.request(&ToParent::Used(used))? {
            lower_current_thread();
            attempt_state.set_on_floor(false);
        }
        Ok(())
    }
}

impl Output for Parent {
    fn open(&self, _partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(ParentWriter {
            parent: self.clone(),
            rows: Vec::new(),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        Err(TaskError::failed("only the parent commits an output"))
    }

    fn abort(&self) {}
}

/// A writer that sends rows to the parent, many at a time.
struct ParentWriter {
    parent: Parent,
    rows: Vec<u8>,
}

impl OutputWriter for ParentWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        // A long row is sent alone, so that it may fill a whole frame.
        if !self.rows.is_empty() && self.rows.len() + key.len() + value.len() > ROWS_BYTES {
            self.parent.send_rows(&mut self.rows)?;
        }
        push_row(&mut self.rows, key, value)
    }

    fn finish(mut self: Box<Self>) -> Result<(), TaskError> {
        if self.rows.is_empty() {
            Ok(())
        } else {
            self.parent.send_rows(&mut self.rows)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{VecInput, VecOutput};
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::io::Write;
    use std::path::Path;

    fn build(_: &[u8]) -> Result<JobSpec, String> {
        let mapper =
            |key: &[u8], value: &[u8], emit: &mut dyn crate::runtime::Emit| emit.emit(key, value);
        let input = Arc::new(VecInput::lines("a b\nc", 2));
        let output = Arc::new(VecOutput::new());
        Ok(JobSpec::new("copy", input, Arc::new(mapper), output))
    }

    #[test]
    fn a_process_ends_when_the_parent_sends_no_more_whatever_it_sent() {
        let test = "a_process_ends_when_the_parent_sends_no_more_whatever_it_sent";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let spills = tempfile::tempdir().unwrap();
            let mut good = Vec::new();
            let mut push = |kind, payload: &[u8]| {
                frame::send(&mut good, kind, payload, &mut || true).unwrap();
            };
            // Eight bytes for no limit on memory, and one for the description.
            push(Kind::Hello, &[0; 9]);
            let map = Work::Map {
                index: 1,
                attempt: 1,
                split: crate::runtime::Split {
                    index: 1,
                    ..crate::runtime::Split::default()
                },
                cuts: None,
            };
            let order = |path: &Path, work| Order::new((None, false), path, 1 << 20, 0, work);
            let order = ToChild::Order(Box::new(order(spills.path(), map)));
            push(Kind::Order, &encode(&order).unwrap());
            // The answer to the settlement at the start of the task. There is no second one, also
            // on a slow machine: an account reads the clock after more steps than this task has.
            let go_on = ToChild::GoOn { lowers: false };
            push(Kind::Order, &encode(&go_on).unwrap());
            // The first round sends all messages as they are. The number of the others is
            // arbitrary: more rounds change more of the bytes.
            for round in 0..200 {
                let mut sent = good.clone();
                if round > 0 {
                    // The header of the frame (5 bytes) and the limit on memory (8) stay as they are: a
                    // new limit would apply to all tests of this process.
                    let at = rng.random_range(13..sent.len());
                    sent[at] = rng.random();
                    sent.truncate(rng.random_range(at..=sent.len()));
                }
                let (mut ours, theirs) = UnixStream::pair().unwrap();
                ours.write_all(&sent).unwrap();
                ours.shutdown(std::net::Shutdown::Write).unwrap();
                let ended = serve_on(theirs, build);
                assert!(ended.is_err(), "a server ends only with an error");
                if round == 0 {
                    assert!(matches!(ended, Err(FrameError::Closed)), "{ended:?}");
                    let mut payload = Vec::new();
                    let mut kind = || frame::receive(&mut ours, &mut payload, &mut || true);
                    let kinds = [(); 3].map(|()| kind().unwrap());
                    assert_eq!(kinds, [Kind::Report, Kind::Rows, Kind::Report]);
                    let done = decode(&payload).unwrap();
                    assert!(
                        matches!(done, ToParent::TaskEnd(_, TaskEnd::Done(_))),
                        "{done:?}"
                    );
                }
            }
        });
    }
}

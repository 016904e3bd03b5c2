//! Work outside MapReduce under the same shares: a query, an export, a backup.
//!
//! A lease is a job of which nothing is handed out: its tasks are the threads of others
//! that come in, as long as they do. So one mechanism serves both: the policy gives it
//! a share, the pacer holds its threads to that, and status and history list it.

use super::error::{SubmitError, TaskError};
use super::job::report::JobStatus;
use super::job_entry::JobEntry;
use super::pacing::account::{Account, Payee};
use super::pacing::attempt_state::AttemptState;
use super::pacing::lowered::Lowered;
use super::pacing::pacer::Pacer;
use super::schedule::tracker::Tracker;
use super::state::Shared;
use crate::model::{Job, JobId, TaskId};
use ebb_threads::ThreadUse;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Wall time between two looks at what the kernel counts of a thread beside CPU time: two
/// small files, some 10 us.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// CPU time of all threads while they were in, of any runtime, in nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);
/// The time that they waited for a core meanwhile, in nanoseconds.
static WAITED_NS: AtomicU64 = AtomicU64::new(0);
/// What they read from the disk and wrote to it meanwhile.
static DISK_BYTES: AtomicU64 = AtomicU64::new(0);

/// What threads used while they worked under a [`Lease`], of all runtimes of this process.
/// A load monitor that sees these threads among all others counts this for analytics. CPU
/// time is as of the last checkpoints; the rest may be 5 ms older.
#[must_use]
pub fn leased_use() -> ThreadUse {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    ThreadUse {
        cpu_ns: load(&CPU_NS),
        waited_ns: load(&WAITED_NS),
        disk_bytes: load(&DISK_BYTES),
    }
}

/// The pacing of one thread under a lease, which also counts what all leases use.
struct LeasePayee {
    pacer: Arc<Pacer>,
    /// What the thread had used at the last look, and when that was.
    seen: Cell<(ThreadUse, Instant)>,
    /// The thread is in the class of tasks meanwhile, and follows it.
    is_lowered: bool,
}

impl LeasePayee {
    /// For the calling thread, from now on.
    fn new(pacer: Arc<Pacer>, is_lowered: bool) -> Self {
        let seen = Cell::new((ThreadUse::of_this_thread(), Instant::now()));
        Self {
            pacer,
            seen,
            is_lowered,
        }
    }

    /// Counts what the thread waited for and moved since the last look.
    fn look(&self) {
        let now = ThreadUse::of_this_thread();
        let (before, _) = self.seen.replace((now, Instant::now()));
        let used = now - before;
        WAITED_NS.fetch_add(used.waited_ns, Ordering::Relaxed);
        DISK_BYTES.fetch_add(used.disk_bytes, Ordering::Relaxed);
    }
}

impl Drop for LeasePayee {
    fn drop(&mut self) {
        self.look();
    }
}

impl Payee for LeasePayee {
    fn settle_every(&self) -> Duration {
        self.pacer.settle_every()
    }

    fn yield_every(&self) -> Option<Duration> {
        self.pacer.yield_every()
    }

    fn pay(&self, cpu_s: f64, read_bytes: u64) {
        CPU_NS.fetch_add((cpu_s * 1e9) as u64, Ordering::Relaxed);
        if self.seen.get().1.elapsed() >= LOOK_EVERY {
            self.look();
        }
        self.pacer.pay(cpu_s, read_bytes);
    }

    fn wait(&self, attempt_state: &AttemptState) -> Result<(), TaskError> {
        if self.is_lowered {
            self.pacer.wait(attempt_state)
        } else {
            self.pacer.wait_unless(|| attempt_state.is_stopped())
        }
    }
}

/// What is to be known of the work under a [`Lease`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeaseOptions {
    /// When all of it is to be done, in seconds from now; positive. Without it: as early
    /// as possible, behind what has a goal, and behind what is older and has none.
    pub goal_s: Option<f64>,
    /// CPU time that all of it is believed to take, in seconds; positive. Policies plan
    /// with it until more was used.
    pub cpu_s: f64,
}

impl Default for LeaseOptions {
    /// No goal, a second of CPU.
    fn default() -> Self {
        Self {
            goal_s: None,
            cpu_s: 1.0,
        }
    }
}

/// A share of what analytics may use, for work that the runtime does not run: see
/// [`Runtime::lease`](super::Runtime::lease). Clones are the same lease; it ends with
/// the last of them and of its threads.
#[derive(Clone)]
pub struct Lease(Arc<Held>);

struct Held {
    id: JobId,
    pacer: Arc<Pacer>,
    shared: Arc<Shared>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.release(self.id);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.0.id).finish()
    }
}

impl Lease {
    /// Takes a lease from `shared`; as [`Runtime::lease`](super::Runtime::lease).
    pub(super) fn take(
        shared: &Arc<Shared>,
        name: String,
        options: LeaseOptions,
    ) -> Result<Self, SubmitError> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if let Some(goal_s) = options.goal_s.filter(|&goal_s| !is_positive(goal_s)) {
            return Err(SubmitError::Goal(goal_s));
        }
        if !is_positive(options.cpu_s) {
            return Err(SubmitError::Profile(options.cpu_s));
        }
        let pacer = Arc::new(shared.pacer());
        let mut state = shared.lock();
        if state.shutting_down {
            return Err(SubmitError::ShuttingDown);
        }
        let (id, now_s) = (state.next_id(), shared.clock.now_s());
        let goal_s = options.goal_s.map(|goal_s| now_s + goal_s);
        let tracker = Tracker::leased(Job::new(id, now_s, goal_s), options.cpu_s);
        let entry = JobEntry::new(name, tracker, Arc::clone(&pacer));
        state.jobs.insert(id, entry);
        shared.kick(&mut state);
        drop(state);
        Ok(Self(Arc::new(Held {
            id,
            pacer,
            shared: Arc::clone(shared),
        })))
    }

    /// Its id: of the same sequence as those of jobs.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.id
    }

    /// As [`Runtime::status`](super::Runtime::status) lists it; `None` once the runtime
    /// has shut down.
    #[must_use]
    pub fn status(&self) -> Option<JobStatus> {
        let state = self.0.shared.lock();
        Some(state.jobs.get(&self.0.id)?.status(None))
    }

    /// Asks its threads to stop: whatever they ask next is refused. It is listed until it
    /// is dropped. False when it was stopped before.
    pub fn cancel(&self) -> bool {
        self.0.shared.cancel(self.0.id)
    }

    /// Has the calling thread work under the lease until what this returns is dropped;
    /// waits until the lease has a share. As many threads as like may come in: together
    /// they use the share.
    ///
    /// Where the runtime runs tasks under `SCHED_IDLE`, the thread does so too meanwhile,
    /// if the system lets it go back: it must hold no lock for which a transaction may wait. While
    /// tasks run on the [floor](super::Capacity::is_on_floor), so does the thread.
    ///
    /// Memory of the work is not accounted: `RuntimeOptions::memory_bytes` is for tasks.
    /// What a leased thread allocates counts as memory that the process uses, which leaves
    /// tasks less where the capacity source measures it.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] when the lease was cancelled, its jobs' policy or capacity
    /// source panicked, or the runtime shuts down.
    pub fn enter(&self) -> Result<LeasedThread, TaskError> {
        let shared = &self.0.shared;
        let mut state = shared.lock();
        let lease = state.jobs.get_mut(&self.0.id);
        let entered = lease.and_then(|lease| {
            let entered = lease.tracker.enter(shared.clock.now_s())?;
            Some((entered, lease.share_hundredths == 0))
        });
        let ((task, attempt, attempt_state), has_no_share) = entered.ok_or(TaskError::Cancelled)?;
        if has_no_share {
            shared.kick(&mut state);
        }
        drop(state);
        let entered = Entered {
            lease: self.clone(),
            task,
            attempt,
        };
        let lowers = shared.options.lowers_tasks() && shared.can_raise;
        let lowered = lowers.then(|| Lowered::begin(&shared.cores, self.0.id));
        let lowered = lowered.flatten();
        let payee = LeasePayee::new(Arc::clone(&self.0.pacer), lowered.is_some());
        Ok(LeasedThread {
            account: Account::open(Box::new(payee), attempt_state)?,
            _lowered: lowered,
            _entered: entered,
            _stays: PhantomData,
        })
    }
}

/// A thread that is in; its task is given back on drop.
struct Entered {
    lease: Lease,
    task: TaskId,
    attempt: u32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = self.lease.0.shared.lock();
        if let Some(lease) = state.jobs.get_mut(&self.task.job) {
            lease.tracker.leave(self.task, self.attempt);
        }
    }
}

/// A thread that works under a [`Lease`]. Stays on it. When it is dropped, by a panic
/// too, the thread has paid for what it used and is of its own class again.
pub struct LeasedThread {
    // In this order: paid for while it is known; raised before it takes the lock.
    account: Account<Box<LeasePayee>, Arc<AttemptState>>,
    _lowered: Option<Lowered>,
    _entered: Entered,
    _stays: PhantomData<*const ()>,
}

impl LeasedThread {
    /// Pays for the CPU time that the thread used, and waits while the lease has used more
    /// than its share. To be called between pieces of work of well below a millisecond;
    /// costs some 30 ns, and every half millisecond a system call.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`]: the work is to stop.
    pub fn checkpoint(&self) -> Result<(), TaskError> {
        self.account.look()
    }

    /// As [`checkpoint`](Self::checkpoint), for a record of `bytes` bytes that was read:
    /// reads of all jobs and leases are paced together.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`]: the work is to stop.
    pub fn read(&self, bytes: usize) -> Result<(), TaskError> {
        self.account.read(bytes)
    }

    /// CPU time that this thread used since it came in, in seconds, as of the last
    /// settlement.
    #[must_use]
    pub fn used_cpu_s(&self) -> f64 {
        self.account.state().used_s()
    }
}

impl fmt::Debug for LeasedThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = self._entered.lease.id();
        f.debug_tuple("LeasedThread").field(&lease).finish()
    }
}

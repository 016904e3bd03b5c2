//! Work outside MapReduce under shares like those of jobs: a query, an export, a backup.
//!
//! The runtime hands out no tasks of a lease. Its tasks are the threads of the caller, each from
//! its entry until it leaves. So jobs and leases share one mechanism: the policy gives a lease a
//! share, the pacer limits its threads to that share, and status and history list it.

use super::error::{SubmitError, TaskError};
use super::job::report::JobStatus;
use super::job_entry::JobEntry;
use super::pacing::account::{Account, Payee};
use super::pacing::attempt_state::AttemptState;
use super::pacing::lowered::LoweredThread;
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

/// Wall time between two reads of a thread's waiting time and disk bytes from the kernel. A read
/// opens two small files and takes some 10 us.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// CPU time of all threads in leases, of all runtimes, in nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);
/// Time that threads in leases waited for a core, in nanoseconds.
static WAITED_NS: AtomicU64 = AtomicU64::new(0);
/// Bytes that threads in leases read from the disk and wrote to it.
static DISK_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the resources that threads used under a [`Lease`], of all runtimes of this process. A
/// load monitor that measures these threads together with all others must count this use as that of
/// analytics. The CPU time includes the use of each thread up to its last charge. Charges happen at
/// checkpoints, and one is due half a millisecond after the last. The other values may be 5 ms
/// older than the CPU time, or more while the kernel's counters cannot be read.
#[must_use]
pub fn leased_use() -> ThreadUse {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    ThreadUse {
        cpu_ns: load(&CPU_NS),
        waited_ns: load(&WAITED_NS),
        disk_bytes: load(&DISK_BYTES),
    }
}

/// The [`Payee`] of one thread under a lease (a share of CPU lent to threads of the caller): it
/// charges the thread's CPU time and input to the lease, and adds the thread's waits and disk bytes
/// to the process's sums over all leases.
struct LeasePayee {
    pacer: Arc<Pacer>,
    last_read: Cell<LastRead>,
    /// The guard of a thread that runs in the scheduling class of tasks, and changes its class when
    /// tasks do; `None` if the thread keeps its own class.
    lowered: Option<LoweredThread>,
}

impl LeasePayee {
    /// Starts to charge the calling thread's resource use to the lease, from now on. `lowered` is
    /// its guard if the thread runs in the scheduling class of tasks.
    fn new(pacer: Arc<Pacer>, lowered: Option<LoweredThread>) -> Self {
        let last_read = LastRead {
            used: ThreadUse::of_this_thread().ok(),
            at: Instant::now(),
        };
        Self {
            pacer,
            last_read: Cell::new(last_read),
            lowered,
        }
    }

    /// Reads the kernel's counters of the thread, and adds its waiting time and disk bytes since
    /// the last successful read to the sums over all leases.
    fn look(&self) {
        let now = ThreadUse::of_this_thread().ok();
        let (last_read, used) = self.last_read.get().next(now, Instant::now());
        self.last_read.set(last_read);
        WAITED_NS.fetch_add(used.waited_ns, Ordering::Relaxed);
        DISK_BYTES.fetch_add(used.disk_bytes, Ordering::Relaxed);
    }
}

/// The last read of a thread's counters in the kernel.
#[derive(Clone, Copy)]
struct LastRead {
    /// The thread's use at the last successful read; `None` before the first one. A read fails, for
    /// example, while the process has as many files open as it may.
    used: Option<ThreadUse>,
    /// The time of the last read, which may have failed.
    at: Instant,
}

impl LastRead {
    /// Returns the state after a read at the time `at`. `now` is the use that the read returned;
    /// `None` if the read failed. Also returns the thread's use since the last successful read.
    /// This is 0 if the read failed. It is also 0 for the first successful read, because the
    /// thread's use before the lease does not belong to analytics.
    fn next(self, now: Option<ThreadUse>, at: Instant) -> (Self, ThreadUse) {
        let used = match (self.used, now) {
            (Some(before), Some(now)) => now - before,
            _ => ThreadUse::default(),
        };
        let next = Self {
            used: now.or(self.used),
            at,
        };
        (next, used)
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
        if self.last_read.get().at.elapsed() >= LOOK_EVERY {
            self.look();
        }
        self.pacer.pay(cpu_s, read_bytes);
    }

    fn wait(
        &self,
        attempt_state: &AttemptState,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TaskError> {
        let Some(lowered) = &self.lowered else {
            let is_stopped = || attempt_state.is_stopped();
            return self.pacer.wait_while(is_stopped, goes_on);
        };
        self.pacer.wait(attempt_state, goes_on)?;
        lowered.follow_others();
        Ok(())
    }
}

/// The goal and the estimated cost of the work under a [`Lease`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeaseOptions {
    /// Time by which all work should be done, in seconds from now; positive. Without a goal the
    /// lease is served as early as possible, behind jobs with a goal and behind older jobs and
    /// leases without one.
    pub goal_s: Option<f64>,
    /// Estimated CPU time of all work, in seconds; positive. Policies plan with it until the lease
    /// has used more.
    pub cpu_s: f64,
}

impl Default for LeaseOptions {
    /// Returns options without a goal, for one second of CPU.
    fn default() -> Self {
        Self {
            goal_s: None,
            cpu_s: 1.0,
        }
    }
}

/// A share of the capacity of analytics, for work that the runtime does not run: see
/// [`Runtime::lease`](super::Runtime::lease). Clones are the same lease; it ends with the last of
/// its clones and threads.
#[derive(Clone)]
pub struct Lease(Arc<LeaseCore>);

struct LeaseCore {
    id: JobId,
    pacer: Arc<Pacer>,
    shared: Arc<Shared>,
}

impl Drop for LeaseCore {
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
    /// Takes a lease from `shared`; see [`Runtime::lease`](super::Runtime::lease).
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
        let grace_s = shared.options.cycle_s;
        let tracker = Tracker::leased(Job::new(id, now_s, goal_s), options.cpu_s, grace_s);
        let entry = JobEntry::new(name, tracker, Arc::clone(&pacer));
        state.jobs.insert(id, entry);
        shared.kick(&mut state);
        drop(state);
        Ok(Self(Arc::new(LeaseCore {
            id,
            pacer,
            shared: Arc::clone(shared),
        })))
    }

    /// Returns the lease's id, from the same sequence as those of jobs.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.id
    }

    /// Returns the status that [`Runtime::status`](super::Runtime::status) lists, or `None` once
    /// the runtime has shut down.
    #[must_use]
    pub fn status(&self) -> Option<JobStatus> {
        let state = self.0.shared.lock();
        Some(state.jobs.get(&self.0.id)?.status(None))
    }

    /// Cancels the lease: its threads get an error at their next call. It stays listed until it is
    /// dropped. Returns false, without any effect, if it was already cancelled, or has failed or
    /// ended.
    pub fn cancel(&self) -> bool {
        self.0.shared.cancel(self.0.id)
    }

    /// Puts the calling thread to work under the lease, until the returned guard is dropped. Waits
    /// until the lease has a share. Any number of threads may enter: together they use the share.
    ///
    /// If the runtime runs tasks under `SCHED_IDLE` and the system lets a thread leave that class,
    /// the thread runs under it, too, until it leaves the lease. It must then hold no lock for
    /// which a transaction may wait. While tasks run on the [floor](super::Capacity::is_on_floor),
    /// so does the thread.
    ///
    /// Memory of the work is not accounted: `RuntimeOptions::memory_bytes` is for tasks.
    /// Allocations of a leased thread count as memory that the process uses. If the capacity source
    /// measures that memory, tasks get less.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if the lease was cancelled, the policy or the capacity source
    /// panicked, or the runtime shuts down.
    pub fn enter(&self) -> Result<LeasedThread, TaskError> {
        self.enter_while(&|| true)
    }

    /// Puts the calling thread to work under the lease as [`enter`](Self::enter) does. While the lease
    /// has no share, calls `goes_on` every second, and gives up once it returns false.
    ///
    /// # Errors
    /// The errors are those of [`enter`](Self::enter), and [`TaskError::Cancelled`] after `goes_on` returned
    /// false.
    pub fn enter_while(&self, goes_on: &dyn Fn() -> bool) -> Result<LeasedThread, TaskError> {
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
        let entered = EntryGuard {
            lease: self.clone(),
            task,
            attempt,
        };
        let lowers = shared.options.lowers_tasks() && shared.can_raise;
        let lowered = lowers.then(|| LoweredThread::begin(&shared.cores, self.0.id));
        let payee = LeasePayee::new(Arc::clone(&self.0.pacer), lowered.flatten());
        Ok(LeasedThread {
            account: Account::open(Box::new(payee), attempt_state, goes_on)?,
            _entered: entered,
            _stays: PhantomData,
        })
    }
}

/// A guard that holds a thread's entry in a lease, where the thread counts as an attempt at `task`.
/// Dropping it removes the thread from the lease.
struct EntryGuard {
    lease: Lease,
    task: TaskId,
    attempt: u32,
}

impl Drop for EntryGuard {
    fn drop(&mut self) {
        let mut state = self.lease.0.shared.lock();
        if let Some(lease) = state.jobs.get_mut(&self.task.job) {
            lease.tracker.leave(self.task, self.attempt);
        }
    }
}

/// A guard for the calling thread while it works under a [`Lease`]; it cannot move to another
/// thread. Its drop, also by a panic, charges the lease for the thread's last use and returns the
/// thread to its own class.
pub struct LeasedThread {
    // Drop order: the account pays while the task exists, and its payee raises the class before
    // `EntryGuard` takes the lock.
    account: Account<Box<LeasePayee>, Arc<AttemptState>>,
    _entered: EntryGuard,
    _stays: PhantomData<*const ()>,
}

impl LeasedThread {
    /// Charges the lease for the CPU time that the thread used, and waits while the lease has used
    /// more than its share. Call it between pieces of work of well below a millisecond; it costs
    /// some 30 ns, and a system call every half millisecond.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if the work has to stop.
    pub fn checkpoint(&self) -> Result<(), TaskError> {
        self.account.look()
    }

    /// Does the same as [`checkpoint`](Self::checkpoint). While the lease has used more than its share,
    /// calls `goes_on` every second, and gives up once it returns false.
    ///
    /// # Errors
    /// The errors are those of [`checkpoint`](Self::checkpoint), and [`TaskError::Cancelled`] after `goes_on`
    /// returned false.
    pub fn checkpoint_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TaskError> {
        self.account.look_while(goes_on)
    }

    /// Like [`checkpoint`](Self::checkpoint), for a record of `bytes` bytes that was read: reads of
    /// all jobs and leases are paced together.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if the work has to stop.
    pub fn read(&self, bytes: usize) -> Result<(), TaskError> {
        self.account.read(bytes)
    }

    /// Returns the CPU time of this thread in the lease, in seconds, up to the last checkpoint at
    /// which it was charged to the lease.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a failed read counted as a use of 0, so that the next read added the use of all of
    /// the thread's life to the sums over all leases.
    #[test]
    fn a_failed_read_of_the_counters_adds_no_use_from_before_the_lease() {
        let at = Instant::now(); // clock: any instant, as no time is compared
        let waits_ns = |mut last: LastRead, reads: &[Option<u64>]| -> Vec<u64> {
            let reads = reads.iter().map(|read| {
                let now = read.map(|waited_ns| ThreadUse {
                    waited_ns,
                    ..ThreadUse::default()
                });
                let (next, used) = last.next(now, at);
                last = next;
                used.waited_ns
            });
            reads.collect()
        };
        let unread = LastRead { used: None, at };
        let first = waits_ns(unread, &[None, Some(5000), Some(5100)]);
        assert_eq!(first, [0, 0, 100]);
        let used = Some(ThreadUse {
            waited_ns: 5000,
            ..ThreadUse::default()
        });
        let later = waits_ns(
            LastRead { used, at },
            &[Some(5200), None, None, Some(5900), Some(6000)],
        );
        assert_eq!(later, [200, 0, 0, 700, 100]);
    }
}

//! Pacing: it limits a job to its share of a core.
//!
//! Each job has a [`Bucket`] of CPU time, which fills at the job's share. Tasks charge their use
//! after the fact and wait while the job is in debt. So a job never uses more than its share plus
//! [`BURST_S`] plus the use between two checkpoints, and that last part is paid back. Tasks wait in
//! the same place while all jobs together have read more than the read limit.

use super::account::Payee;
use super::attempt_state::AttemptState;
use super::bucket::{Bucket, Verdict};
use super::reads::ReadBudget;
use super::task_class::TaskClass;
use crate::runtime::clock::Clock;
use crate::runtime::error::TaskError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// CPU time that a job can save up while it does not run, in seconds.
pub const BURST_S: f64 = 0.02;

/// The longest wait before the next read of the clock, in seconds: the advance of a test's clock is
/// noticed within this time.
const WAIT_S_MAX: f64 = 0.1;

/// The time of a wait between two questions whether the work of the thread goes on, in seconds. The answer
/// may need a system call, such as a look at the free space of a disk.
const ASK_EVERY_S: f64 = 1.0;

/// Wall time between two settlements of a thread: it charges its CPU time to the job, and waits if
/// the job has used more than its share. Reading a thread's CPU time is a system call; every half
/// millisecond it costs less than a thousandth, and a paced job still computes in bursts far below
/// what a transaction would notice.
pub(in crate::runtime) const SETTLE_EVERY: Duration = Duration::from_micros(500);

#[derive(Debug)]
struct State {
    bucket: Bucket,
    cancelled: bool,
}

/// The pacing of one job, shared by its tasks and the control thread.
pub(in crate::runtime) struct Pacer {
    clock: Arc<dyn Clock>,
    /// False if CPU time is charged but tasks never wait for it: in an unmanaged runtime, or
    /// without CPU pacing ([`Throttles`](crate::runtime::Throttles)).
    paced: bool,
    /// Wall time after which the job's tasks offer their cores to others; `None` for never.
    yield_every: Option<Duration>,
    /// The limit for the bytes that all jobs of the runtime together read.
    reads: Arc<ReadBudget>,
    /// The scheduling class (idle, or ordinary with a high nice value) of the tasks of all jobs.
    class: Arc<TaskClass>,
    state: Mutex<State>,
    changed: Condvar,
    used_ns: AtomicU64,
}

impl Pacer {
    pub fn new(
        clock: Arc<dyn Clock>,
        paced: bool,
        yield_every: Option<Duration>,
        reads: Arc<ReadBudget>,
        class: Arc<TaskClass>,
    ) -> Self {
        let bucket = Bucket::new(clock.now_s());
        Self {
            clock,
            paced,
            yield_every,
            reads,
            class,
            state: Mutex::new(State {
                bucket,
                cancelled: false,
            }),
            changed: Condvar::new(),
            used_ns: AtomicU64::new(0),
        }
    }

    pub fn set_share(&self, share_hundredths: u32) {
        let rate = f64::from(share_hundredths) / 100.0;
        let now_s = self.clock.now_s();
        self.lock().bucket.set_rate(rate, BURST_S, now_s);
        self.changed.notify_all();
    }

    /// Wakes every waiting task, which then checks again whether it may go on.
    pub fn wake(&self) {
        // Under the lock, so that no task is between its check and its wait.
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// Makes every wait, now and later, end with [`TaskError::Cancelled`].
    pub fn cancel(&self) {
        self.lock().cancelled = true;
        self.changed.notify_all();
    }

    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Charges CPU time that was already used.
    pub fn charge(&self, cpu_s: f64) {
        self.used_ns
            .fetch_add((cpu_s * 1e9) as u64, Ordering::Relaxed);
        self.lock().bucket.charge(cpu_s, self.clock.now_s());
    }

    /// Charges bytes that were already read.
    pub fn charge_read(&self, bytes: u64) {
        self.reads.charge(bytes, self.clock.now_s());
    }

    /// Waits until the job may use CPU, and all jobs together may read more. Returns
    /// [`TaskError::Cancelled`] when the job is cancelled or when `is_stopped`, which concerns a
    /// single task, returns true; also when `goes_on` returns false. A wait of some seconds calls
    /// `goes_on` every second, without a lock, because `goes_on` may take long.
    pub fn wait_while(
        &self,
        is_stopped: impl Fn() -> bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TaskError> {
        let mut ask_at_s = None;
        let mut state = self.lock();
        loop {
            if state.cancelled || is_stopped() {
                return Err(TaskError::Cancelled);
            }
            let now_s = self.clock.now_s();
            let verdict = if self.paced {
                state.bucket.verdict(now_s)
            } else {
                Verdict::Go
            };
            let verdict = match verdict {
                Verdict::Go => self.reads.verdict(now_s),
                wait => wait,
            };
            let wait_s = match verdict {
                Verdict::Go => return Ok(()),
                Verdict::WaitFor(wait_s) => wait_s.min(WAIT_S_MAX),
                Verdict::Pause => WAIT_S_MAX,
            };
            if now_s >= *ask_at_s.get_or_insert(now_s + ASK_EVERY_S) {
                drop(state);
                if !goes_on() {
                    return Err(TaskError::Cancelled);
                }
                ask_at_s = None;
                state = self.lock();
                continue;
            }
            let waited = self
                .changed
                .wait_timeout(state, Duration::from_secs_f64(wait_s));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the CPU time that the job has used, in seconds.
    pub fn used_cpu_s(&self) -> f64 {
        self.used_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pacing of an attempt on a thread of this process, not in a child process.
impl Payee for Pacer {
    fn settle_every(&self) -> Duration {
        SETTLE_EVERY
    }

    fn yield_every(&self) -> Option<Duration> {
        self.yield_every
    }

    fn pay(&self, cpu_s: f64, read_bytes: u64) {
        self.charge(cpu_s);
        self.charge_read(read_bytes);
    }

    fn wait(
        &self,
        attempt_state: &AttemptState,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TaskError> {
        self.wait_while(|| attempt_state.is_stopped(), goes_on)?;
        self.class.follow_with(attempt_state);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::thread::JoinHandle;

    use super::*;
    use crate::runtime::tests::ManualClock;

    fn pacer() -> Arc<Pacer> {
        pacer_with(Arc::default())
    }

    fn pacer_with(clock: Arc<ManualClock>) -> Arc<Pacer> {
        let reads = Arc::<ReadBudget>::default();
        Arc::new(Pacer::new(clock, true, None, reads, Arc::default()))
    }

    /// Starts a thread that waits until the job has CPU and bytes, or is cancelled.
    fn waiting(pacer: &Arc<Pacer>) -> JoinHandle<Result<(), TaskError>> {
        let pacer = Arc::clone(pacer);
        std::thread::spawn(move || pacer.wait_while(|| false, &|| true))
    }

    /// Regression: while jobs had no share, a backup looked neither at the free space nor at its client.
    #[test]
    fn a_wait_calls_its_closure_every_second() {
        let clock = Arc::<ManualClock>::default();
        let pacer = pacer_with(Arc::clone(&clock));
        let asked_at_s = RefCell::new(Vec::new());
        // The job has no share. Half a second passes between two looks of the wait.
        let is_stopped = || {
            clock.advance_s(0.5);
            false
        };
        let goes_on = || {
            // It holds no lock: another thread can change the share meanwhile.
            assert!(!pacer.is_cancelled());
            asked_at_s.borrow_mut().push(clock.now_s());
            asked_at_s.borrow().len() < 2
        };
        let ended = pacer.wait_while(is_stopped, &goes_on);
        assert!(matches!(ended, Err(TaskError::Cancelled)));
        assert_eq!(asked_at_s.into_inner(), [1.5, 3.0]);
        pacer.set_share(10);
        assert!(matches!(pacer.wait_while(|| false, &|| false), Ok(())));
    }

    #[test]
    fn a_paused_job_waits_until_it_gets_a_share() {
        let pacer = pacer();
        let waiter = waiting(&pacer);
        pacer.set_share(10);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn a_stopped_task_ends_its_wait_and_the_others_of_its_job_go_on() {
        let pacer = pacer();
        assert!(matches!(
            pacer.wait_while(|| true, &|| true),
            Err(TaskError::Cancelled)
        ));
        pacer.set_share(10);
        assert!(matches!(pacer.wait_while(|| false, &|| true), Ok(())));
    }

    #[test]
    fn cancellation_ends_a_wait_that_time_would_not_end() {
        let pacer = pacer();
        pacer.set_share(10);
        pacer.charge(1.0);
        let waiter = waiting(&pacer);
        pacer.cancel();
        assert!(matches!(waiter.join().unwrap(), Err(TaskError::Cancelled)));
        assert!((pacer.used_cpu_s() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_job_that_has_cpu_waits_for_bytes() {
        let clock = Arc::new(ManualClock::default());
        let reads = Arc::<ReadBudget>::default();
        let class = Arc::<TaskClass>::default();
        let pacer = Arc::new(Pacer::new(clock, true, None, Arc::clone(&reads), class));
        pacer.set_share(100);
        reads.set_rate(Some(10), 0.0);
        pacer.charge_read(1000);
        let waiter = waiting(&pacer);
        reads.set_rate(None, 0.0);
        waiter.join().unwrap().unwrap();
    }
}

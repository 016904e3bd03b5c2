//! Pacing: how a share of a core is enforced on a job.
//!
//! A [`Bucket`] of CPU time per job fills at the job's share. Tasks charge what
//! they used after the fact and wait while the job is in debt. So a job never
//! uses more than its share plus [`BURST_S`] plus what runs between two
//! checkpoints, and that last part is paid back.

use super::clock::Clock;
use super::error::TaskError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// CPU time a job can save up while it does not run, in seconds.
pub const BURST_S: f64 = 0.02;

/// The longest wait before looking at the clock again, in seconds: a held
/// clock's advance is noticed within this time.
const WAIT_S_MAX: f64 = 0.1;

/// What a task has to do now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Go,
    WaitFor(f64),
    /// No share: until that changes.
    Pause,
}

/// A token bucket of CPU time; the decision without the waiting.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    share_hundredths: u32,
    balance_s: f64,
    filled_s: f64,
}

impl Bucket {
    fn new(now_s: f64) -> Self {
        Self {
            share_hundredths: 0,
            balance_s: 0.0,
            filled_s: now_s,
        }
    }

    /// What was earned until now was earned at the old share.
    fn set_share(&mut self, share_hundredths: u32, now_s: f64) {
        self.fill(now_s);
        self.share_hundredths = share_hundredths;
    }

    fn charge(&mut self, cpu_s: f64, now_s: f64) {
        self.fill(now_s);
        self.balance_s -= cpu_s;
    }

    fn verdict(&mut self, now_s: f64) -> Verdict {
        self.fill(now_s);
        if self.share_hundredths == 0 {
            Verdict::Pause
        } else if self.balance_s >= 0.0 {
            Verdict::Go
        } else {
            Verdict::WaitFor(-self.balance_s * 100.0 / f64::from(self.share_hundredths))
        }
    }

    fn fill(&mut self, now_s: f64) {
        let elapsed_s = (now_s - self.filled_s).max(0.0);
        let earned_s = elapsed_s * f64::from(self.share_hundredths) / 100.0;
        self.balance_s = (self.balance_s + earned_s).min(BURST_S);
        self.filled_s = now_s;
    }
}

#[derive(Debug)]
struct State {
    bucket: Bucket,
    cancelled: bool,
}

/// The pacing of one job, shared by its tasks and the control thread.
pub(super) struct Pacer {
    clock: Arc<dyn Clock>,
    /// False in an unmanaged runtime: charge, but never wait.
    paced: bool,
    state: Mutex<State>,
    changed: Condvar,
    used_ns: AtomicU64,
}

impl Pacer {
    pub fn new(clock: Arc<dyn Clock>, paced: bool) -> Self {
        let bucket = Bucket::new(clock.now_s());
        Self {
            clock,
            paced,
            state: Mutex::new(State {
                bucket,
                cancelled: false,
            }),
            changed: Condvar::new(),
            used_ns: AtomicU64::new(0),
        }
    }

    pub fn set_share(&self, share_hundredths: u32) {
        self.lock()
            .bucket
            .set_share(share_hundredths, self.clock.now_s());
        self.changed.notify_all();
    }

    /// Lets every wait look again at what may end it.
    pub fn wake(&self) {
        // With the lock, so that nobody is between looking and waiting.
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// Makes every wait, now and later, end with [`TaskError::Cancelled`].
    pub fn cancel(&self) {
        self.lock().cancelled = true;
        self.changed.notify_all();
    }

    /// Charges CPU time already used.
    pub fn charge(&self, cpu_s: f64) {
        self.used_ns
            .fetch_add((cpu_s * 1e9) as u64, Ordering::Relaxed);
        self.lock().bucket.charge(cpu_s, self.clock.now_s());
    }

    /// Waits until the job may use CPU. Ends with [`TaskError::Cancelled`] for a
    /// single task too, when that one `is_stopped`.
    pub fn wait(&self, is_stopped: impl Fn() -> bool) -> Result<(), TaskError> {
        let mut state = self.lock();
        loop {
            if state.cancelled || is_stopped() {
                return Err(TaskError::Cancelled);
            }
            if !self.paced {
                return Ok(());
            }
            let wait_s = match state.bucket.verdict(self.clock.now_s()) {
                Verdict::Go => return Ok(()),
                Verdict::WaitFor(wait_s) => wait_s.min(WAIT_S_MAX),
                Verdict::Pause => WAIT_S_MAX,
            };
            let waited = self
                .changed
                .wait_timeout(state, Duration::from_secs_f64(wait_s));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// CPU time the job has used, in seconds.
    pub fn used_cpu_s(&self) -> f64 {
        self.used_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ManualClock;

    #[test]
    fn half_a_core_pays_ten_milliseconds_in_twenty() {
        let mut bucket = Bucket::new(0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::Pause);
        bucket.set_share(50, 0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::Go);
        bucket.charge(0.010, 0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::WaitFor(0.020));
        let Verdict::WaitFor(wait_s) = bucket.verdict(0.015) else {
            panic!("still in debt")
        };
        assert!((wait_s - 0.005).abs() < 1e-12);
        assert_eq!(bucket.verdict(0.0201), Verdict::Go);
    }

    #[test]
    fn an_idle_job_saves_no_more_than_the_burst() {
        let mut bucket = Bucket::new(0.0);
        bucket.set_share(200, 0.0);
        assert_eq!(bucket.verdict(3600.0), Verdict::Go);
        assert_eq!(bucket.balance_s, BURST_S);
    }

    #[test]
    fn a_new_share_does_not_reach_back() {
        let mut bucket = Bucket::new(0.0);
        bucket.charge(1.0, 0.0);
        bucket.set_share(100, 10.0);
        assert_eq!(bucket.verdict(10.0), Verdict::WaitFor(1.0));
    }

    #[test]
    fn a_paused_job_waits_until_it_gets_a_share() {
        let pacer = Arc::new(Pacer::new(Arc::new(ManualClock::default()), true));
        let waiter = {
            let pacer = Arc::clone(&pacer);
            std::thread::spawn(move || pacer.wait(|| false))
        };
        pacer.set_share(10);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn a_stopped_task_ends_its_wait_and_the_others_of_its_job_go_on() {
        let pacer = Pacer::new(Arc::new(ManualClock::default()), true);
        assert!(matches!(pacer.wait(|| true), Err(TaskError::Cancelled)));
        pacer.set_share(10);
        assert!(matches!(pacer.wait(|| false), Ok(())));
    }

    #[test]
    fn cancellation_ends_a_wait_that_time_would_not() {
        let pacer = Arc::new(Pacer::new(Arc::new(ManualClock::default()), true));
        pacer.set_share(10);
        pacer.charge(1.0);
        let waiter = {
            let pacer = Arc::clone(&pacer);
            std::thread::spawn(move || pacer.wait(|| false))
        };
        pacer.cancel();
        assert!(matches!(waiter.join().unwrap(), Err(TaskError::Cancelled)));
        assert!((pacer.used_cpu_s() - 1.0).abs() < 1e-9);
    }
}

//! The floor of threads that a service runs itself, such as clients' scans: their CPU while other
//! processes hold all cores.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ebb_scheduler::runtime::{BURST_S, Bucket, Verdict};

/// The maximal time that a thread waits before it checks again whether it may continue, in seconds:
/// its work may have been cancelled.
const WAIT_S_MAX: f64 = 0.05;

/// The CPU time that the threads of a service, such as clients' scans, may use together while other
/// processes use all cores. The [`Governor`](crate::Governor) sets its amount in each control cycle.
///
/// The jobs of the runtime have a floor of their own.
#[derive(Debug)]
pub struct FloorShare {
    begun: Instant,
    is_on: AtomicBool,
    /// The token bucket of the CPU time that threads may use, in seconds.
    bucket: Mutex<Bucket>,
    changed: Condvar,
}

impl FloorShare {
    /// Creates a CPU share that is turned off until other processes use all cores.
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            is_on: AtomicBool::new(false),
            bucket: Mutex::new(Bucket::new(0.0)),
            changed: Condvar::new(),
        }
    }

    /// Sets the cores that the service's threads, such as clients' scans, may use together while
    /// other processes use all cores. `None` lifts the limit.
    pub fn set(&self, cores: Option<f64>) {
        let now_s = self.now_s();
        (self.lock()).set_rate(cores.unwrap_or(0.0), BURST_S, now_s);
        self.is_on.store(cores.is_some(), Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Returns whether other processes use all cores, so that a thread of the idle class would get
    /// next to nothing.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Charges CPU time that a thread of the service has used while other processes use all cores.
    pub fn charge(&self, cpu: Duration) {
        let now_s = self.now_s();
        self.lock().charge(cpu.as_secs_f64(), now_s);
    }

    /// Returns true if the calling thread, one of those that use this CPU time together, may
    /// continue. Otherwise waits briefly and returns false.
    pub fn may_go_on(&self) -> bool {
        let now_s = self.now_s();
        let mut bucket = self.lock();
        let wait_s = match bucket.verdict(now_s) {
            Verdict::Go => return true,
            Verdict::WaitFor(wait_s) => wait_s.min(WAIT_S_MAX),
            Verdict::Pause => WAIT_S_MAX,
        };
        // The caller checks again, whatever ended the wait.
        drop((self.changed).wait_timeout(bucket, Duration::from_secs_f64(wait_s)));
        false
    }

    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FloorShare {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_that_has_used_more_than_the_floor_waits_until_there_is_more() {
        let share = Arc::new(FloorShare::new());
        assert!(!share.is_on());
        share.set(Some(0.0));
        assert!(share.is_on() && !share.may_go_on(), "nothing is left");
        share.charge(Duration::from_secs(1000));
        share.set(Some(1.0));
        assert!(!share.may_go_on(), "it is in debt");
        let waiter = {
            let share = Arc::clone(&share);
            std::thread::spawn(move || while !share.may_go_on() {})
        };
        share.set(Some(1e9));
        waiter.join().unwrap();
        share.set(None);
        assert!(!share.is_on());
    }
}

//! Pacing of reads: one bucket of bytes for all jobs.
//!
//! A disk serves the store and the jobs alike and has no idle class (the kernel's I/O priorities
//! have no effect on many disks). So the bytes of the records that maps read are paced beside their
//! CPU time, if the capacity source sets a limit for reads.

use super::bucket::{Bucket, Verdict};
use std::sync::{Mutex, PoisonError};

/// The burst of reads: the bytes that the rate permits in this many seconds.
const BURST_S: f64 = 0.02;

/// The limit on the bytes per second that all jobs of a runtime together read; at first none.
#[derive(Debug, Default)]
pub(in crate::runtime) struct ReadBudget {
    /// The token bucket of the bytes; `None` for no limit.
    bucket: Mutex<Option<Bucket>>,
}

impl ReadBudget {
    pub fn set_rate(&self, bytes_per_s: Option<u64>, now_s: f64) {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        *bucket = bytes_per_s.map(|bytes_per_s| {
            let rate = bytes_per_s as f64;
            let mut changed = bucket.unwrap_or_else(|| Bucket::new(now_s));
            changed.set_rate(rate, rate * BURST_S, now_s);
            changed
        });
    }

    pub fn charge(&self, bytes: u64, now_s: f64) {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = bucket.as_mut() {
            bucket.charge(bytes as f64, now_s);
        }
    }

    pub fn verdict(&self, now_s: f64) -> Verdict {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        match bucket.as_mut() {
            Some(bucket) => bucket.verdict(now_s),
            None => Verdict::Go,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_while_over_the_rate_and_never_without_a_rate() {
        let budget = ReadBudget::default();
        budget.charge(u64::MAX, 0.0);
        assert_eq!(budget.verdict(0.0), Verdict::Go);
        budget.set_rate(Some(1000), 0.0);
        budget.charge(500, 0.0);
        assert_eq!(budget.verdict(0.0), Verdict::WaitFor(0.5));
        // Debts are kept when the rate changes, and dropped with the limit.
        budget.set_rate(Some(100), 0.0);
        assert_eq!(budget.verdict(0.0), Verdict::WaitFor(5.0));
        budget.set_rate(Some(0), 0.0);
        assert_eq!(budget.verdict(100.0), Verdict::Pause);
        budget.set_rate(None, 0.0);
        assert_eq!(budget.verdict(0.0), Verdict::Go);
    }
}

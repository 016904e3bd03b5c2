//! Reports of the intervals of a run, which are sent during the run.

use std::sync::mpsc::Sender;
use std::time::Duration;

use ebb_threads::thread_cpu;
use hdrhistogram::Histogram;

use crate::ycsb::latencies::histogram;
use crate::ycsb::timeline::DIGITS;
use crate::ycsb::{Interval, Pace};

/// The measurements of one thread in the current interval of the run, to be sent at the end of the
/// interval.
#[derive(Debug)]
pub(super) struct Intervals {
    length: Duration,
    sender: Sender<Interval>,
    pace: Pace,
    began: Duration,
    nanos: Histogram<u64>,
    cpu: Duration,
}

impl Intervals {
    /// Starts the first interval. Intervals last at least `length`, and are sent to `sender` when
    /// they end.
    pub(super) fn new(length: Duration, sender: Sender<Interval>, pace: &Pace) -> Self {
        Self {
            length,
            sender,
            pace: pace.clone(),
            began: Duration::ZERO,
            nanos: histogram(DIGITS),
            cpu: thread_cpu(),
        }
    }

    pub(super) fn record(&mut self, nanos: u64) {
        self.nanos.saturating_record(nanos);
    }

    /// If the interval has lasted long enough, sends it and starts the next one. `now` is the time
    /// since the beginning of the run.
    pub(super) fn look(&mut self, now: Duration) {
        let Some(length) = now.checked_sub(self.began) else {
            return;
        };
        if length < self.length {
            return;
        }
        let (now_s, length_s) = (now.as_secs_f64(), length.as_secs_f64());
        let cpu = thread_cpu();
        let cpu_s = cpu.saturating_sub(self.cpu).as_secs_f64();
        let interval = Interval::new(now_s, length_s, &self.nanos, &self.pace, cpu_s);
        // The receiver may be gone: the run goes on without it.
        let _ = self.sender.send(interval);
        self.nanos.reset();
        (self.began, self.cpu) = (now, cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_count_the_operations_that_ended_in_them() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let length = Duration::from_millis(100);
        let mut intervals = Intervals::new(length, sender, &Pace::steady(20.0));
        intervals.record(1_000);
        intervals.record(9_000);
        intervals.look(Duration::from_millis(60));
        intervals.look(Duration::from_millis(110));
        intervals.look(Duration::from_millis(200));
        intervals.look(Duration::from_millis(210));
        let all: Vec<Interval> = receiver.try_iter().collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].ops, all[1].ops), (2, 0));
        assert_eq!(all[0].target_ops_per_s, Some(20.0));
        assert!((all[0].length_s - 0.11).abs() < 1e-9);
        assert!((all[0].max_us - 9.0).abs() < 0.1, "{all:?}");
        assert_eq!(all[1].p99_us, 0.0);
    }
}

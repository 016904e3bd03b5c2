//! The timeline of a run: its intervals, available while it runs.
//!
//! Each worker records into a slot of its own. At the end of each interval the sampler exchanges
//! the slots' histograms for empty ones, so a worker never waits longer than an exchange of
//! pointers takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::latencies::{Latencies, histogram};
use super::pace::Pace;

/// The results of one interval, over all threads and operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The end of the interval, in seconds since the start of the run.
    pub t_s: f64,
    /// Length of the interval, in seconds.
    pub length_s: f64,
    /// The number of operations that ended in the interval.
    pub ops: u64,
    /// The target rate of an open loop in the middle of the interval.
    pub target_ops_per_s: Option<f64>,
    /// The median latency, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of latencies, in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile of latencies, in microseconds.
    pub p999_us: f64,
    /// The largest latency, in microseconds.
    pub max_us: f64,
    /// CPU time of the threads that run the operations, in seconds. The threads of a
    /// [`Driver`](super::Driver) publish it at most every 10 ms, so a part of it may count in the
    /// next interval.
    pub cpu_s: f64,
}

impl Interval {
    /// Returns the interval of this length that ended at `t_s`, with latencies in nanoseconds.
    pub(super) fn new(
        t_s: f64,
        length_s: f64,
        nanos: &Histogram<u64>,
        pace: &Pace,
        cpu_s: f64,
    ) -> Self {
        let latencies = Latencies::from(nanos);
        Self {
            t_s,
            length_s,
            ops: latencies.count,
            target_ops_per_s: match pace {
                Pace::Closed => None,
                Pace::Open(rate) => Some(rate(t_s - length_s / 2.0)),
            },
            p50_us: latencies.p50_us,
            p99_us: latencies.p99_us,
            p999_us: latencies.p999_us,
            max_us: latencies.max_us,
            cpu_s,
        }
    }
}

/// The intervals of a run so far. Clones share them, and outlive the run.
#[derive(Debug, Clone, Default)]
pub struct Timeline(Arc<Mutex<Vec<Interval>>>);

impl Timeline {
    /// Returns the last interval that has ended.
    pub fn latest(&self) -> Option<Interval> {
        self.0.lock().unwrap().last().copied()
    }

    /// Returns the intervals from position `from` on, in order. A caller that passes the number of
    /// intervals that it has gets the new ones.
    pub fn since(&self, from: usize) -> Vec<Interval> {
        let intervals = self.0.lock().unwrap();
        intervals.get(from..).unwrap_or_default().to_vec()
    }

    fn push(&self, interval: Interval) {
        self.0.lock().unwrap().push(interval);
    }
}

/// The measurements that one worker shares with the sampler.
#[derive(Debug)]
pub(super) struct Slot {
    nanos: Mutex<Histogram<u64>>,
    /// CPU time of the worker's thread, in nanoseconds.
    cpu_ns: AtomicU64,
}

/// The significant decimal digits to which a worker's histogram of an interval is exact. Two digits
/// (1%) make a histogram of 35 KB, small enough to exchange and merge one for every thread ten
/// times a second.
pub(super) const DIGITS: u8 = 2;

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            nanos: Mutex::new(histogram(DIGITS)),
            cpu_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, latency_ns: u64) {
        self.nanos.lock().unwrap().saturating_record(latency_ns);
    }

    pub(super) fn set_cpu(&self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        self.cpu_ns.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }
}

/// Collects the latencies of all workers at the end of each interval, and adds the interval to the
/// timeline.
pub(super) struct Sampler {
    timeline: Timeline,
    pace: Pace,
    merged: Histogram<u64>,
    spare: Histogram<u64>,
    cpu_ns: u64,
    ended_s: f64,
}

impl Sampler {
    pub(super) fn new(timeline: Timeline, pace: Pace) -> Self {
        Self {
            timeline,
            pace,
            merged: histogram(DIGITS),
            spare: histogram(DIGITS),
            cpu_ns: 0,
            ended_s: 0.0,
        }
    }

    /// Ends an interval at `now_s`, in seconds since the start of the run.
    pub(super) fn sample(&mut self, now_s: f64, slots: &[Slot]) {
        self.merged.reset();
        for slot in slots {
            std::mem::swap(&mut *slot.nanos.lock().unwrap(), &mut self.spare);
            self.merged
                .add(&self.spare)
                .expect("both have the same bounds");
            self.spare.reset();
        }
        let cpu_ns: u64 = slots.iter().map(Slot::cpu_ns).sum();
        let length_s = now_s - self.ended_s;
        let cpu_s = (cpu_ns - self.cpu_ns) as f64 / 1e9;
        let interval = Interval::new(now_s, length_s, &self.merged, &self.pace, cpu_s);
        self.timeline.push(interval);
        (self.cpu_ns, self.ended_s) = (cpu_ns, now_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_count_operations_that_ended_in_them_over_all_threads() {
        let slots = [Slot::new(), Slot::new()];
        let timeline = Timeline::default();
        let mut sampler = Sampler::new(timeline.clone(), Pace::steady(20.0));
        slots[0].record(1_000);
        slots[1].record(9_000);
        slots[1].set_cpu(Duration::from_millis(30));
        sampler.sample(0.1, &slots);
        sampler.sample(0.2, &slots);
        let intervals = timeline.since(0);
        assert_eq!(intervals[0].ops, 2);
        assert_eq!(intervals[0].target_ops_per_s, Some(20.0));
        assert!((intervals[0].max_us - 9.0).abs() < 0.1, "{intervals:?}");
        assert!((intervals[0].cpu_s - 0.03).abs() < 1e-9);
        assert_eq!((intervals[1].ops, intervals[1].cpu_s), (0, 0.0));
        assert_eq!(timeline.latest(), Some(intervals[1]));
        assert_eq!(timeline.since(1).len(), 1);
        assert!(timeline.since(5).is_empty());
    }
}

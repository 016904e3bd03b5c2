//! The request latencies that a service records.
//!
//! ```text
//!   request threads ── record ──> shards of buckets ──┬─> RecordedWindows   for the guard
//!                                                     └─> RecordedRequests  for the monitor
//! ```
//!
//! Counts only grow, and each reader remembers the counts of its last reading. So recording is one
//! atomic addition without a lock, and readers do not delay it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use histogram::{AtomicHistogram, Config, Histogram};

use crate::counts::LatencyCounts;
use crate::guard::{LatencyWindow, ObservedWindow};
use crate::monitor::{RequestRates, RequestSource};
use crate::objective::Quantile;
use crate::watch::LatencySource;

/// The number of buckets per doubling of the latency, as a power of two: a bucket is at most 1/32
/// of its latency wide.
const GROUPING_POWER: u8 = 5;
/// The largest latency that the histogram distinguishes, as a power of two of nanoseconds: 69
/// seconds. Longer latencies are counted as this one.
const LATENCY_NS_POWER: u8 = 36;
const LATENCY_NS_MAX: u64 = (1 << LATENCY_NS_POWER) - 1;

/// The number of copies (shards) of the counts of latencies, of 8 KiB each. Threads are assigned to
/// shards in turn, so that two threads rarely write to the same cache line; readers add the shards
/// up.
const SHARDS: usize = 8;

/// The length of the windows over which latencies are summarized for the latency guard, which
/// limits analytics while requests are too slow.
const WINDOW: Duration = Duration::from_millis(100);

fn config() -> Config {
    Config::new(GROUPING_POWER, LATENCY_NS_POWER).expect("the powers are valid")
}

/// The latencies of a service's requests. Clones share their counts.
#[derive(Clone)]
pub struct Latencies(Arc<[AtomicHistogram]>);

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies").finish_non_exhaustive()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| AtomicHistogram::with_config(&config()));
        Self(shards.collect())
    }

    /// Counts a request of this latency.
    #[inline]
    pub fn record(&self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let shard = &self.0[shard_of_thread()];
        let counted = shard.increment(latency_ns.min(LATENCY_NS_MAX));
        debug_assert!(counted.is_ok(), "the bounds hold {LATENCY_NS_MAX}");
    }

    /// Returns the latencies of all requests recorded so far, with an error of a few percent.
    pub fn counts(&self) -> LatencyCounts {
        Requests(self.total()).counts()
    }

    /// Returns a source that reports, at each call, the rate and the quantiles of the requests
    /// recorded since the call before; the first call reports those recorded from now on.
    pub fn requests(&self) -> impl RequestSource + use<> {
        RecordedRequests::new(self.clone())
    }

    /// Returns the histogram of all requests recorded so far, over all shards.
    fn total(&self) -> Histogram {
        let mut total = Histogram::with_config(&config());
        let mut some = Histogram::with_config(&config());
        for shard in self.0.iter() {
            let loaded = shard.load_into(&mut some);
            loaded.expect("all have the same bounds");
            total = (total.wrapping_add(&some)).expect("all have the same bounds");
        }
        total
    }
}

fn shard_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

/// A reader that returns the requests counted since its last reading.
#[derive(Debug)]
struct Reader {
    latencies: Latencies,
    before: Histogram,
}

impl Reader {
    fn new(latencies: Latencies) -> Self {
        let before = latencies.total();
        Self { latencies, before }
    }

    fn take(&mut self) -> Requests {
        let total = self.latencies.total();
        let taken = total.wrapping_sub(&self.before);
        self.before = total;
        Requests(taken.expect("all have the same bounds"))
    }
}

/// The requests that were counted in some period, by latency.
struct Requests(Histogram);

impl Requests {
    fn count(&self) -> u64 {
        self.0.as_slice().iter().sum()
    }

    fn counts(&self) -> LatencyCounts {
        let buckets = self.0.into_iter();
        buckets
            .map(|bucket| (bucket.end(), bucket.count()))
            .collect()
    }

    /// Returns a quantile in microseconds, at most 1/32 too long; 0 without requests.
    fn quantile_us(&self, quantile: f64) -> f64 {
        let bucket = self.0.quantile_bucket(quantile);
        let bucket = bucket.expect("a quantile is within 0 to 1");
        bucket.map_or(0.0, |bucket| bucket.end() as f64 / 1e3)
    }
}

/// Cuts the recorded requests into windows for the latency guard. The first window is the one with
/// the first request, so a service that records nothing does not count as one of the guard's
/// sources of latencies.
#[derive(Debug)]
pub(crate) struct RecordedWindows {
    reader: Reader,
    quantile: Quantile,
    window: Duration,
    started: Instant,
    /// The end of the last window.
    ended: Instant,
    has_begun: bool,
}

impl RecordedWindows {
    /// Begins to cut windows of at least 100 ms, and computes this quantile of each.
    pub(crate) fn new(latencies: Latencies, quantile: Quantile) -> Self {
        Self::of_length(latencies, quantile, WINDOW)
    }

    fn of_length(latencies: Latencies, quantile: Quantile, window: Duration) -> Self {
        let started = Instant::now();
        Self {
            reader: Reader::new(latencies),
            quantile,
            window,
            started,
            ended: started,
            has_begun: false,
        }
    }
}

impl LatencySource for RecordedWindows {
    fn ended(&mut self) -> Vec<ObservedWindow> {
        let length = self.ended.elapsed();
        if length < self.window {
            return Vec::new();
        }
        self.ended += length;
        let requests = self.reader.take();
        self.has_begun |= requests.count() > 0;
        let window = LatencyWindow {
            t_s: (self.ended - self.started).as_secs_f64(),
            length_s: length.as_secs_f64(),
            requests: requests.count(),
            latency_us: requests.quantile_us(self.quantile.part()),
        };
        if self.has_begun {
            vec![ObservedWindow {
                window,
                latencies: requests.counts(),
            }]
        } else {
            Vec::new()
        }
    }
}

/// The rates of the requests that a service recorded. Its bytes per second are always 0, because a
/// service records latencies only.
#[derive(Debug)]
pub(crate) struct RecordedRequests {
    reader: Reader,
    taken: Instant,
}

impl RecordedRequests {
    pub(crate) fn new(latencies: Latencies) -> Self {
        Self {
            reader: Reader::new(latencies),
            taken: Instant::now(),
        }
    }
}

impl RequestSource for RecordedRequests {
    fn take(&mut self) -> RequestRates {
        let elapsed = std::mem::replace(&mut self.taken, Instant::now()).elapsed();
        let requests = self.reader.take();
        RequestRates {
            requests_per_s: requests.count() as f64 / elapsed.as_secs_f64().max(1e-9),
            bytes_per_s: 0.0,
            p50_us: requests.quantile_us(0.5),
            p99_us: requests.quantile_us(0.99),
            p999_us: requests.quantile_us(0.999),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn every_thread_counts_and_each_reader_has_all_of_it() {
        let latencies = Latencies::new();
        let (mut often, mut once) = (
            Reader::new(latencies.clone()),
            Reader::new(latencies.clone()),
        );
        let mut seen = 0;
        for _ in 0..3 {
            thread::scope(|scope| {
                for _ in 0..SHARDS + 1 {
                    scope.spawn(|| (1..=1000).for_each(|latency| latencies.record(us(latency))));
                }
            });
            seen += often.take().count();
        }
        let all = once.take();
        assert_eq!(seen, 3000 * (SHARDS as u64 + 1));
        assert_eq!(all.count(), seen);
        for (quantile, expected_us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let us = all.quantile_us(quantile);
            let most_us = expected_us * (1.0 + 1.0 / 32.0);
            assert!((expected_us..=most_us).contains(&us), "{quantile}: {us}");
        }
        assert_eq!(often.take().count(), 0);
    }

    #[test]
    fn a_latency_longer_than_all_buckets_counts_as_the_longest() {
        let latencies = Latencies::new();
        let mut requests = RecordedRequests::new(latencies.clone());
        latencies.record(Duration::MAX);
        latencies.record(Duration::ZERO);
        let rates = requests.take();
        assert!(rates.p999_us > 68e6 && rates.p50_us < 1.0, "{rates:?}");
        assert!(rates.requests_per_s > 0.0);
        assert_eq!(requests.take(), RequestRates::default());
    }

    #[test]
    fn windows_begin_with_the_first_request_and_go_on_in_silence() {
        let latencies = Latencies::new();
        let mut source =
            RecordedWindows::of_length(latencies.clone(), Quantile::P99, Duration::ZERO);
        assert!(source.ended().is_empty(), "nothing was recorded");
        latencies.record(us(10));
        let mut windows = source.ended();
        windows.extend(source.ended());
        let requests: Vec<_> = windows.iter().map(|seen| seen.window.requests).collect();
        assert_eq!(requests, [1, 0]);
        assert!((10.0..=10.4).contains(&windows[0].window.latency_us));
        let counted: Vec<_> = windows.iter().map(|seen| seen.latencies.total()).collect();
        assert_eq!(counted, [1, 0]);
        assert_eq!(windows[0].latencies.above_us(9.0), 1);
        assert!(windows.is_sorted_by(|a, b| a.window.t_s < b.window.t_s));
        let mut slow = RecordedWindows::of_length(latencies, Quantile::P99, Duration::MAX);
        assert!(slow.ended().is_empty());
    }
}

//! Requests as those who make them see them: how many, how long they took, how many
//! bytes they moved.
//!
//! Nothing is measured while nobody asks: then a request costs one look at a number
//! that hardly ever changes. Threads record into a few shards, so that two of them
//! seldom write to the same line.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use histogram::{AtomicHistogram, Config, Histogram};

/// Buckets in a doubling of the latency, as a power of two: a bucket is at most 1/32
/// wide.
const GROUPING_POWER: u8 = 5;
/// Latencies from 2 to this power on, in nanoseconds, count as the longest there is: 69
/// seconds.
const LATENCY_NS_POWER: u8 = 36;
const LATENCY_NS_MAX: u64 = (1 << LATENCY_NS_POWER) - 1;
const SHARDS: usize = 8;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Scan,
}

const KINDS: usize = 3;

fn config() -> Config {
    Config::new(GROUPING_POWER, LATENCY_NS_POWER).expect("the powers are valid")
}

/// What threads record of one kind of request.
struct Recorded {
    latencies_ns: AtomicHistogram,
    bytes: AtomicU64,
}

impl Recorded {
    fn new() -> Self {
        Self {
            latencies_ns: AtomicHistogram::with_config(&config()),
            bytes: AtomicU64::new(0),
        }
    }
}

type Shard = [Recorded; KINDS];

/// The part of a database that requests are recorded in.
// On lines of its own: what is written all the time is not to be next to the number
// that every request reads.
#[repr(align(128))]
pub(crate) struct Metering {
    /// Living meters.
    meters: AtomicUsize,
    /// Made for the first meter.
    shards: OnceLock<Box<[Shard]>>,
}

impl Default for Metering {
    fn default() -> Self {
        Self {
            meters: AtomicUsize::new(0),
            shards: OnceLock::new(),
        }
    }
}

impl fmt::Debug for Metering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metering")
            .field("meters", &self.meters)
            .finish_non_exhaustive()
    }
}

impl Metering {
    /// Begins a request; `None` while nobody measures.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Instant> {
        (self.meters.load(Ordering::Relaxed) > 0).then(Instant::now)
    }

    /// Ends a request.
    #[inline]
    pub(crate) fn end(&self, kind: RequestKind, begun: Option<Instant>) {
        if let Some(begun) = begun {
            self.record(kind, begun.elapsed());
        }
    }

    /// Requests moved so many bytes of keys and values.
    #[inline]
    pub(crate) fn note_bytes(&self, kind: RequestKind, bytes: usize) {
        if self.meters.load(Ordering::Relaxed) > 0 {
            self.add_bytes(kind, bytes as u64);
        }
    }

    fn record(&self, kind: RequestKind, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.recorded(kind);
        let counted = recorded
            .latencies_ns
            .increment(latency_ns.min(LATENCY_NS_MAX));
        debug_assert!(counted.is_ok(), "the bounds hold {LATENCY_NS_MAX}");
    }

    fn add_bytes(&self, kind: RequestKind, bytes: u64) {
        self.recorded(kind)
            .bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Where this thread records.
    fn recorded(&self, kind: RequestKind) -> &Recorded {
        &self.shards()[shard_of_thread()][kind as usize]
    }

    fn shards(&self) -> &[Shard] {
        self.shards.get_or_init(|| {
            let shards = (0..SHARDS).map(|_| array::from_fn(|_| Recorded::new()));
            shards.collect()
        })
    }

    /// All that was recorded so far.
    fn total(&self) -> [Requests; KINDS] {
        let mut total = array::from_fn(|_| Requests::default());
        let mut some_ns = Histogram::with_config(&config());
        for shard in self.shards() {
            for (recorded, total) in shard.iter().zip(&mut total) {
                let loaded = recorded.latencies_ns.load_into(&mut some_ns);
                loaded.expect("all have the same bounds");
                total.latencies_ns = add(&total.latencies_ns, &some_ns);
                total.bytes += recorded.bytes.load(Ordering::Relaxed);
            }
        }
        total
    }
}

/// Threads take turns.
fn shard_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

fn add(a: &Histogram, b: &Histogram) -> Histogram {
    a.wrapping_add(b).expect("all have the same bounds")
}

/// A scan that is being made.
#[derive(Debug)]
pub(crate) struct Scan {
    metering: Arc<Metering>,
    /// Until its first entry has come.
    begun: Option<Instant>,
    bytes: u64,
}

impl Scan {
    /// Begins one; `None` while nobody measures.
    pub(crate) fn begin(metering: &Arc<Metering>) -> Option<Self> {
        let begun = metering.begin()?;
        Some(Self {
            metering: Arc::clone(metering),
            begun: Some(begun),
            bytes: 0,
        })
    }

    /// The next entry has so many bytes, or there is none.
    pub(crate) fn note(&mut self, bytes: usize) {
        if let Some(begun) = self.begun.take() {
            self.metering.record(RequestKind::Scan, begun.elapsed());
        }
        self.bytes += bytes as u64;
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.metering.add_bytes(RequestKind::Scan, self.bytes);
    }
}

/// Requests of one kind, over some time.
#[derive(Clone, PartialEq)]
pub struct Requests {
    latencies_ns: Histogram,
    bytes: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            latencies_ns: Histogram::with_config(&config()),
            bytes: 0,
        }
    }
}

impl Requests {
    /// How many ended.
    pub fn count(&self) -> u64 {
        self.latencies_ns.as_slice().iter().sum()
    }

    /// The bytes of keys and values that they gave or took; those of a scan count
    /// when it ends.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A quantile of their latencies, in microseconds: at most a thirty-second part
    /// more than the true one; `None` without requests.
    ///
    /// # Panics
    /// When `quantile` is not within 0 to 1.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let bucket = self.latencies_ns.quantile_bucket(quantile);
        let bucket = bucket.expect("a quantile is within 0 to 1")?;
        Some(bucket.end() as f64 / 1e3)
    }

    /// These and others together.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        Self {
            latencies_ns: add(&self.latencies_ns, &others.latencies_ns),
            bytes: self.bytes + others.bytes,
        }
    }

    /// What came since `before`.
    fn since(&self, before: &Self) -> Self {
        let latencies_ns = self.latencies_ns.wrapping_sub(&before.latencies_ns);
        Self {
            latencies_ns: latencies_ns.expect("all have the same bounds"),
            bytes: self.bytes - before.bytes,
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("count", &self.count())
            .field("bytes", &self.bytes)
            .field("p50_us", &self.quantile_us(0.5))
            .field("p99_us", &self.quantile_us(0.99))
            .finish()
    }
}

/// The requests that a database served over some time, from [`Meter::take`].
#[derive(Debug, Clone, PartialEq)]
pub struct Metered {
    /// Since the meter was made or was asked before, in seconds.
    pub length_s: f64,
    /// Point reads of what is now, of views and of transactions. One that asks for many
    /// keys is one, but in a transaction, where each key counts.
    pub reads: Requests,
    /// Commits. They took until they were visible, and as durable as asked.
    pub writes: Requests,
    /// Scans of the same as reads. They took until their first entry came.
    pub scans: Requests,
}

impl Metered {
    /// All of them together.
    pub fn all(&self) -> Requests {
        self.reads.and(&self.writes).and(&self.scans)
    }
}

/// Measures the requests of a database for as long as it lives: from
/// [`Db::meter`](crate::Db::meter).
///
/// Reads of named snapshots are no requests: they are what runs beside a load.
#[derive(Debug)]
pub struct Meter {
    metering: Arc<Metering>,
    before: [Requests; KINDS],
    taken: Instant,
}

impl Meter {
    pub(crate) fn new(metering: &Arc<Metering>) -> Self {
        // Before anybody records, so that no request waits for it.
        let before = metering.total();
        metering.meters.fetch_add(1, Ordering::Relaxed);
        Self {
            metering: Arc::clone(metering),
            before,
            taken: Instant::now(),
        }
    }

    /// What was requested since the last call, or since the meter was made: the
    /// requests that ended. Another meter's calls do not matter.
    pub fn take(&mut self) -> Metered {
        let total = self.metering.total();
        let length = std::mem::replace(&mut self.taken, Instant::now()).elapsed();
        let before = std::mem::replace(&mut self.before, total);
        let of = |kind: RequestKind| self.before[kind as usize].since(&before[kind as usize]);
        Metered {
            length_s: length.as_secs_f64(),
            reads: of(RequestKind::Read),
            writes: of(RequestKind::Write),
            scans: of(RequestKind::Scan),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.metering.meters.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::thread;

    use super::*;

    fn record(metering: &Metering, kind: RequestKind, latency_us: u64, bytes: u64) {
        metering.record(kind, Duration::from_micros(latency_us));
        metering.add_bytes(kind, bytes);
    }

    #[test]
    fn nothing_is_measured_while_nobody_asks() {
        let metering = Arc::new(Metering::default());
        assert_eq!(metering.begin(), None);
        metering.end(RequestKind::Read, None);
        metering.note_bytes(RequestKind::Read, 7);
        assert!(metering.shards.get().is_none());
        let meters = [Meter::new(&metering), Meter::new(&metering)];
        assert!(metering.begin().is_some());
        drop(meters);
        assert_eq!(metering.begin(), None);
    }

    #[test]
    fn quantiles_are_a_thirty_second_part_off_at_most() {
        let metering = Arc::new(Metering::default());
        let mut meter = Meter::new(&metering);
        for latency_us in 1..=1000 {
            record(&metering, RequestKind::Read, latency_us, 1);
        }
        let reads = meter.take().reads;
        assert_eq!((reads.count(), reads.bytes()), (1000, 1000));
        for (quantile, expected_us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)]
        {
            let us = reads.quantile_us(quantile).unwrap();
            let most_us = expected_us * (1.0 + 1.0 / 32.0);
            assert!((expected_us..=most_us).contains(&us), "{quantile}: {us}");
        }
        record(&metering, RequestKind::Read, u64::MAX / 1000, 0);
        assert!(meter.take().reads.quantile_us(0.5).unwrap() > 68e6);
    }

    #[test]
    fn each_meter_has_what_came_since_it_was_asked_and_each_thread_counts() {
        let metering = Arc::new(Metering::default());
        let (mut often, mut once) = (Meter::new(&metering), Meter::new(&metering));
        let mut seen = 0;
        for _ in 0..3 {
            thread::scope(|scope| {
                for _ in 0..SHARDS + 1 {
                    scope.spawn(|| record(&metering, RequestKind::Write, 10, 5));
                }
            });
            seen += often.take().writes.count();
        }
        let once = once.take();
        assert_eq!(seen, 3 * (SHARDS as u64 + 1));
        assert_eq!((once.writes.count(), once.writes.bytes()), (seen, 5 * seen));
        assert_eq!((once.all().count(), once.reads.count()), (seen, 0));
        assert_eq!(once.reads.quantile_us(0.99), None);
        assert_eq!(often.take().all(), Requests::default());
    }

    #[test]
    fn a_scan_counts_once_and_its_bytes_when_it_ends() {
        let metering = Arc::new(Metering::default());
        assert!(Scan::begin(&metering).is_none());
        let mut meter = Meter::new(&metering);
        let mut scan = Scan::begin(&metering).unwrap();
        assert_eq!(meter.take().scans.count(), 0);
        scan.note(10);
        scan.note(20);
        let scans = meter.take().scans;
        assert_eq!((scans.count(), scans.bytes()), (1, 0));
        drop(scan);
        let scans = meter.take().scans;
        assert_eq!((scans.count(), scans.bytes()), (0, 30));
    }
}

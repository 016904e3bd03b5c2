//! Latencies, counts and sizes of requests, as the callers of the database see them.
//!
//! Without a meter, nothing is measured: a request then only reads one number that hardly ever
//! changes. In a busy store only some requests are measured, drawn at random, and stand for the
//! others: two reads of the clock cost a tenth of a read from the cache. Threads record into a few
//! shards, so that two of them seldom write to the same line.

use std::array;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use histogram::{AtomicHistogram, Config, Histogram};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The number of buckets in each doubling of the latency, as a power of two: a bucket is at most
/// 1/32 of its latency wide.
const GROUPING_POWER: u8 = 5;
/// The largest latency that the histogram distinguishes, as a power of two of nanoseconds: 69 seconds. Longer
/// latencies count as this one.
const LATENCY_NS_POWER: u8 = 36;
const LATENCY_NS_MAX: u64 = (1 << LATENCY_NS_POWER) - 1;
const SHARDS: usize = 8;

/// The least number of requests per second that are measured, if there are as many. The stride (one
/// request in `stride` is measured) is the rate of requests divided by this number, rounded down,
/// and at most [`STRIDE_MAX`]. So at less than 40,000 requests per second, every request is
/// measured. At higher rates only some are, because each measurement reads the clock twice.
const MEASURED_PER_S: f64 = 20_000.0;
/// The shortest window, in seconds, over which the rate of requests is computed. A shorter window
/// counts as this long, because the number of requests in it is a poor estimate of the rate.
const WINDOW_S_MIN: f64 = 0.1;
/// The largest stride: even under the highest load, one in this many requests is measured on
/// average.
const STRIDE_MAX: u32 = 16;

/// A kind of request; each kind has measurements of its own.
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

/// The measurements of one kind of request, by the threads that share a shard.
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

/// The part of a database that records the latencies and sizes of its requests.
#[derive(Default)]
pub(crate) struct Metering {
    /// One request in `stride` is measured, on average; 0 while there is no meter. Every
    /// request reads it, so no number that changes all the time shares its cache line.
    stride: CachePadded<AtomicU32>,
    /// The number of live meters.
    meters: Mutex<usize>,
    /// The histograms, allocated with the first meter: a database without meters needs none.
    shards: OnceLock<Box<[CachePadded<Shard>]>>,
}

impl fmt::Debug for Metering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metering")
            .field("stride", &self.stride)
            .finish_non_exhaustive()
    }
}

/// The start of a measured request. If only some requests are measured, this one counts as
/// `stands_for` requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Begun {
    at: Instant,
    stands_for: u32,
}

impl Metering {
    /// Begins the measurement of a request. Returns `None` if the request is not measured: there is
    /// no meter, or the request was not drawn.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Begun> {
        let stride = self.stride.load(Ordering::Relaxed);
        (stride > 0 && is_drawn(stride)).then(|| Begun {
            at: Instant::now(),
            stands_for: stride,
        })
    }

    /// Records the latency of a request, and the `bytes` that it read; does nothing if `begun` is
    /// `None`. For writes, `bytes` is 0: [`Self::note_written`] counts their bytes.
    #[inline]
    pub(crate) fn end(&self, kind: RequestKind, begun: Option<Begun>, bytes: usize) {
        if let Some(begun) = begun {
            self.record(kind, begun.at.elapsed(), begun.stands_for);
            self.add_bytes(kind, bytes as u64 * u64::from(begun.stands_for));
        }
    }

    /// Adds the bytes of keys and values that requests wrote.
    #[inline]
    pub(crate) fn note_written(&self, bytes: usize) {
        if self.stride.load(Ordering::Relaxed) > 0 {
            self.add_bytes(RequestKind::Write, bytes as u64);
        }
    }

    fn record(&self, kind: RequestKind, latency: Duration, requests: u32) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.recorded(kind);
        let counted = recorded
            .latencies_ns
            .add(latency_ns.min(LATENCY_NS_MAX), u64::from(requests));
        debug_assert!(counted.is_ok(), "the bounds hold {LATENCY_NS_MAX}");
    }

    fn add_bytes(&self, kind: RequestKind, bytes: u64) {
        self.recorded(kind)
            .bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the measurements of requests of this kind in the shard of the calling thread.
    fn recorded(&self, kind: RequestKind) -> &Recorded {
        &self.shards()[shard_of_thread()][kind as usize]
    }

    fn shards(&self) -> &[CachePadded<Shard>] {
        self.shards.get_or_init(|| {
            let shard = |_| CachePadded::new(array::from_fn(|_| Recorded::new()));
            (0..SHARDS).map(shard).collect()
        })
    }

    fn meters(&self) -> MutexGuard<'_, usize> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the stride for the rate of the last window, which had `requests` requests in `length_s`
    /// seconds. At this rate, at least [`MEASURED_PER_S`] requests per second are measured, or all
    /// of them if there are fewer. Fewer than twice as many are measured, unless this needs a
    /// stride above [`STRIDE_MAX`].
    fn set_stride(&self, requests: u64, length_s: f64) {
        let measured = MEASURED_PER_S * length_s.max(WINDOW_S_MIN);
        let stride = (requests as f64 / measured) as u32;
        let stride = stride.clamp(1, STRIDE_MAX);
        self.stride.store(stride, Ordering::Relaxed);
    }

    /// Returns the sum of the measurements of all shards, for each kind of request.
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

/// Returns whether this thread measures its next request, one in `stride` on average. The request
/// is drawn at random: if every second one were measured, a thread that reads and writes in turn
/// would be measured reading only.
fn is_drawn(stride: u32) -> bool {
    thread_local!(static PASSED_OVER: Cell<u32> = const { Cell::new(0) });
    if stride == 1 {
        return true;
    }
    PASSED_OVER.with(|left| match left.get() {
        0 => {
            left.set(fastrand::u32(..2 * stride - 1));
            true
        }
        some => {
            left.set(some - 1);
            false
        }
    })
}

/// Returns the index of the shard in which this thread counts. Each shard has its own copy of the
/// counters, so that threads seldom write to the same one; new threads get the shards in turn.
fn shard_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

fn add(a: &Histogram, b: &Histogram) -> Histogram {
    a.wrapping_add(b).expect("all have the same bounds")
}

/// The measurement of a scan that is under way. The bytes of the scan are recorded when this value
/// is dropped.
#[derive(Debug)]
pub(crate) struct Scan {
    metering: Arc<Metering>,
    begun: Begun,
    /// Whether the scan's latency, which ends with the first entry, is recorded already.
    is_recorded: bool,
    bytes: u64,
}

impl Scan {
    /// Begins the measurement of a scan; `None` if it is not measured.
    pub(crate) fn begin(metering: &Arc<Metering>) -> Option<Self> {
        let begun = metering.begin()?;
        Some(Self {
            metering: Arc::clone(metering),
            begun,
            is_recorded: false,
            bytes: 0,
        })
    }

    /// Counts the next entry of the scan, of `bytes` bytes; 0 stands for the end of the scan, or
    /// for an error. The first call records the latency of the scan, which is thus the time until
    /// its first entry.
    pub(crate) fn note(&mut self, bytes: usize) {
        if !std::mem::replace(&mut self.is_recorded, true) {
            let Begun { at, stands_for } = self.begun;
            let latency = at.elapsed();
            self.metering.record(RequestKind::Scan, latency, stands_for);
        }
        self.bytes += bytes as u64;
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let bytes = self.bytes * u64::from(self.begun.stands_for);
        self.metering.add_bytes(RequestKind::Scan, bytes);
    }
}

/// The latencies and bytes of the requests of one kind, over some time.
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
    /// Returns the number of requests. A point read or a commit counts when it has succeeded, and a
    /// scan when it returns its first entry, or ends without one.
    pub fn count(&self) -> u64 {
        self.latencies_ns.as_slice().iter().sum()
    }

    /// Returns the bytes that the requests read or wrote: the values of point reads, and the keys
    /// and values of scans and writes. Those of a scan count when it is dropped.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a quantile of the latencies, in microseconds; `None` if there were no requests. The
    /// result is at most 1/32 above the true quantile. Latencies above 69 seconds count as 69
    /// seconds.
    ///
    /// # Panics
    /// If `quantile` is not within 0 to 1.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let bucket = self.latencies_ns.quantile_bucket(quantile);
        let bucket = bucket.expect("a quantile is within 0 to 1")?;
        Some(bucket.end() as f64 / 1e3)
    }

    /// Returns the latencies of the requests, in nanoseconds, ascending, each with the number of
    /// requests that took this long. Latencies are rounded up to the end of a bucket, whose width
    /// is at most 1/32 of the latency.
    pub fn latencies(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.latencies_ns.into_iter();
        let counted = buckets.map(|bucket| (bucket.end(), bucket.count()));
        counted.filter(|(_, count)| *count > 0)
    }

    /// Merges the measurements of two kinds of requests, such as reads and writes.
    fn and(&self, others: &Self) -> Self {
        Self {
            latencies_ns: add(&self.latencies_ns, &others.latencies_ns),
            bytes: self.bytes + others.bytes,
        }
    }

    /// Returns the requests that were measured since `before`, an earlier state of the same
    /// measurement.
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
    /// The length of the measurement in seconds: since the last [`Meter::take`], or since the
    /// meter was made.
    pub length_s: f64,
    /// Point reads of the latest state, of views and of transactions. A read of many keys is
    /// one request, but in a transaction each key counts.
    pub reads: Requests,
    /// Commits. Their latency ends when they are visible, and as durable as requested.
    pub writes: Requests,
    /// Scans of the latest state, of views and of transactions. Their latency ends with the
    /// first entry.
    pub scans: Requests,
}

impl Metered {
    /// Returns the requests of all kinds together.
    pub fn all(&self) -> Requests {
        self.reads.and(&self.writes).and(&self.scans)
    }
}

/// Measures the requests of a database for as long as this value lives; returned by
/// [`Db::meter`](crate::Db::meter).
///
/// Reads of named snapshots are not counted: they are background work beside the load that is
/// measured.
///
/// While there are fewer than 40,000 requests per second, every request is measured. Under a higher
/// load one request in 2 to 16 is measured, drawn at random, and weighted accordingly; then all
/// numbers except the bytes of writes are estimates. Each [`Meter::take`] adjusts the measured part
/// to the rate of requests since the last call.
#[derive(Debug)]
pub struct Meter {
    metering: Arc<Metering>,
    before: [Requests; KINDS],
    taken: Instant,
}

impl Meter {
    pub(crate) fn new(metering: &Arc<Metering>) -> Self {
        // Makes the shards, before anybody records.
        let before = metering.total();
        let mut meters = metering.meters();
        if *meters == 0 {
            metering.set_stride(0, 0.0);
        }
        *meters += 1;
        drop(meters);
        Self {
            metering: Arc::clone(metering),
            before,
            taken: Instant::now(),
        }
    }

    /// Returns the requests since the last call of this method, or since the meter was made. Calls
    /// of other meters of the same database do not shorten this period.
    pub fn take(&mut self) -> Metered {
        let total = self.metering.total();
        let length = std::mem::replace(&mut self.taken, Instant::now()).elapsed();
        let before = std::mem::replace(&mut self.before, total);
        let of = |kind: RequestKind| self.before[kind as usize].since(&before[kind as usize]);
        let metered = Metered {
            length_s: length.as_secs_f64(),
            reads: of(RequestKind::Read),
            writes: of(RequestKind::Write),
            scans: of(RequestKind::Scan),
        };
        let requests = metered.reads.count() + metered.writes.count() + metered.scans.count();
        self.metering.set_stride(requests, metered.length_s);
        metered
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let mut meters = self.metering.meters();
        *meters -= 1;
        if *meters == 0 {
            self.metering.stride.store(0, Ordering::Relaxed);
        }
    }
}

//! The pace of writes: whether they take microseconds at the moment, and how the server goes on if
//! one takes longer.
//!
//! A thread that waits in a write serves no reads. The store delays writers while flushes or merges
//! are behind, and gives no notice; but it throttles writers before it stops them. So after the
//! first slow write, others go to the commit lane. The thread in the slow write may have been the
//! one that waits for the sockets. Then no thread does, until a watchdog wakes another.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// A write that takes this long is slow: it has waited for the store or for a core.
const SLOW: Duration = Duration::from_millis(4);
/// The time after a slow write during which the server assumes that other writes would be slow,
/// too.
const SLOW_FOR: Duration = Duration::from_millis(250);
/// The duration after which a write that still runs makes the server assume that its thread is
/// stuck, and that other writes would be slow.
pub(super) const STUCK: Duration = Duration::from_millis(1);
/// The interval, while there are writes, at which the watchdog (the thread that notices stuck
/// writes) checks them.
const WATCH_EVERY: Duration = Duration::from_millis(2);
/// The time after the start of the last write at which the watchdog stops checking, if no write
/// runs any more. The watchdog then sleeps until the next write begins.
const WATCH_FOR: Duration = Duration::from_secs(1);

/// The record of the current and recent writes that shows whether writes are slow at the moment.
#[derive(Debug)]
pub(super) struct WritePace {
    epoch: Instant,
    /// The number of threads that serve connections and execute a write at the moment.
    inside: AtomicU32,
    /// The time at which the most recent write began, in microseconds since `epoch`.
    began_us: AtomicU64,
    /// The time until which the server assumes that writes are slow, in microseconds since `epoch`.
    slow_until_us: AtomicU64,
    is_watched: AtomicBool,
    watchdog: OnceLock<Thread>,
}

impl Drop for WritePace {
    fn drop(&mut self) {
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.unpark();
        }
    }
}

impl WritePace {
    fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            inside: AtomicU32::new(0),
            began_us: AtomicU64::new(0),
            slow_until_us: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            watchdog: OnceLock::new(),
        }
    }

    /// Creates a record of writes with a watchdog: a thread that wakes another one to serve
    /// connections while a write is stuck. The watchdog ends when the record is dropped.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn watched(runtime: Handle) -> io::Result<Arc<Self>> {
        let pace = Arc::new(Self::new(Instant::now()));
        let weak = Arc::downgrade(&pace);
        let watchdog = thread::Builder::new()
            .name("cql-watchdog".into())
            .spawn(move || watch(&weak, &runtime))?;
        pace.watchdog.get_or_init(|| watchdog.thread().clone());
        Ok(pace)
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_micros() as u64
    }

    /// Returns whether a write that begins at `now` may be slow, because a recent write was slow or
    /// the write in progress is.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        let now_us = self.micros(now);
        if now_us < self.slow_until_us.load(Ordering::Relaxed) {
            return true;
        }
        let since_us = now_us.saturating_sub(self.began_us.load(Ordering::Relaxed));
        self.inside.load(Ordering::Relaxed) > 0 && since_us > STUCK.as_micros() as u64
    }

    /// Returns whether a thread that serves connections executes a write at `now`, or has begun one
    /// within the last [`WATCH_FOR`], so that more writes are likely.
    fn is_busy(&self, now: Instant) -> bool {
        let since_us = (self.micros(now)).saturating_sub(self.began_us.load(Ordering::Relaxed));
        // `run` explains the ordering.
        self.inside.load(Ordering::SeqCst) > 0 || since_us < WATCH_FOR.as_micros() as u64
    }

    /// Executes a write on a thread that serves connections, and notes its duration.
    pub(super) fn run<T>(&self, write: impl FnOnce() -> T) -> T {
        /// A running write, included in `inside` until this is dropped, even if the write panics.
        struct Inside<'a>(&'a AtomicU32);
        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let begun = Instant::now();
        (self.began_us).store(self.micros(begun), Ordering::Relaxed);
        // A write first adds itself to `inside`, and then reads `is_watched`. Before the watchdog
        // sleeps, it first clears `is_watched`, and then reads `inside`. All four accesses are
        // sequentially consistent, so at least one of the two threads sees the store of the other:
        // the write wakes the watchdog, or the watchdog does not sleep. With weaker orderings both
        // could read the old values, since a CPU may do a load before an earlier store. Nothing
        // would then notice that the write is stuck.
        self.inside.fetch_add(1, Ordering::SeqCst);
        if !self.is_watched.load(Ordering::SeqCst)
            && !self.is_watched.swap(true, Ordering::Relaxed)
            && let Some(watchdog) = self.watchdog.get()
        {
            watchdog.unpark();
        }
        let inside = Inside(&self.inside);
        let value = write();
        drop(inside);
        self.ended(begun, Instant::now());
        value
    }

    /// Notes that a write began at `begun` and ended at `now`.
    pub(super) fn ended(&self, begun: Instant, now: Instant) {
        if now.saturating_duration_since(begun) >= SLOW {
            let until_us = self.micros(now + SLOW_FOR);
            self.slow_until_us.fetch_max(until_us, Ordering::Relaxed);
        }
    }
}

/// Wakes another thread of `runtime` whenever a thread may be stuck in a write, because that may be
/// the thread that waits for the sockets. Ends when `pace` is dropped.
fn watch(pace: &Weak<WritePace>, runtime: &Handle) {
    loop {
        let Some(pace) = pace.upgrade() else {
            return;
        };
        let now = Instant::now();
        if pace.is_slow(now) {
            // The thread that runs the task waits for the sockets afterwards.
            runtime.spawn(async {});
        }
        if pace.is_busy(now) {
            drop(pace);
            thread::park_timeout(WATCH_EVERY);
            continue;
        }
        pace.is_watched.store(false, Ordering::SeqCst);
        // A write that began since the last check has not woken the watchdog. `run` explains the
        // ordering of the store before and the load in `is_busy`.
        let is_busy = pace.is_busy(Instant::now());
        drop(pace);
        if !is_busy {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time from which a test computes all other times.
    fn epoch() -> Instant {
        Instant::now() // clock: the base of a test's times
    }

    #[test]
    fn writes_are_slow_for_a_while_after_a_slow_one() {
        let epoch = epoch();
        let pace = WritePace::new(epoch);
        let at = |ms| epoch + Duration::from_millis(ms);
        pace.ended(at(1), at(2));
        assert!(!pace.is_slow(at(3)));
        pace.ended(at(10), at(14));
        assert!(pace.is_slow(at(15)));
        assert!(pace.is_slow(at(263)));
        assert!(!pace.is_slow(at(264)));
    }

    #[test]
    fn writes_are_slow_during_a_write_that_does_not_end() {
        let epoch = epoch();
        let pace = WritePace::new(epoch);
        let later = epoch + Duration::from_secs(3600);
        pace.run(|| assert!(pace.is_slow(later)));
        assert!(!pace.is_slow(later));
    }
}

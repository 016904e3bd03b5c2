//! The server's timestamps: microseconds since 1970 that increase strictly, across all connections
//! and restarts.
//!
//! CQL decides between two writes of the same timestamp by their values. So two writes of this
//! server must never have the same one, and a later one never a smaller one, whatever the machine's
//! clock does. The database contains a bound above all assigned timestamps, which is raised before
//! the first timestamp above it is assigned. The bound needs no fsync of its own, because a crash
//! cuts the log of the database only at its end: a write that survives it comes after its bound in
//! the log.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebb_storage::{Clock, Table};

use super::damage::{Readable, readable_unless_failed};
use super::error::Result;

/// The key of the stored upper bound on all assigned timestamps, in `ebb_system.node`.
const BOUND_KEY: &[u8] = b"timestamp_bound_us";

/// The distance between a new bound and the timestamp that made it necessary, in microseconds. The
/// stored bound lies above all assigned timestamps: before a timestamp that reaches it is assigned,
/// a new bound is stored. A server that restarts before the clock has reached the bound waits until
/// it does: see [`Timestamps::until_bound`].
const AHEAD_US: i64 = 100_000;

/// The source of timestamps, for any number of threads.
#[derive(Debug)]
pub struct Timestamps {
    clock: Arc<dyn Clock>,
    node: Table,
    /// The last assigned timestamp.
    last_us: AtomicI64,
    /// A bound above all timestamps ever assigned; the database contains the same bound or a
    /// greater one.
    bound_us: AtomicI64,
    /// Locked while a higher bound of the assigned timestamps is written to the database.
    raising: Mutex<()>,
}

impl Timestamps {
    /// Creates a source whose timestamps are above all that were ever assigned for this database. If
    /// the stored upper bound on them is unreadable, also returns the reason. Timestamps then begin at
    /// the current time plus [`AHEAD_US`], which is above all assigned ones unless the clock was set back.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn open(node: Table, clock: Arc<dyn Clock>) -> Result<(Self, Option<String>)> {
        let (bound_us, damage) = match Self::read_bound_us(&node)? {
            Ok(bound_us) => (bound_us, None),
            Err(damage) => {
                let now_us = i64::try_from(clock.now_us()).unwrap_or(i64::MAX);
                (now_us.saturating_add(AHEAD_US), Some(damage))
            }
        };
        let timestamps = Self {
            clock,
            node,
            last_us: AtomicI64::new(bound_us.saturating_sub(1)),
            bound_us: AtomicI64::new(bound_us),
            raising: Mutex::new(()),
        };
        Ok((timestamps, damage))
    }

    /// Reads the stored upper bound on all assigned timestamps; 0 before the first one is assigned.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn read_bound_us(node: &Table) -> Result<Readable<i64>> {
        Ok(match readable_unless_failed(node.get(BOUND_KEY))? {
            Ok(None) => Ok(0),
            Ok(Some(bytes)) => match bytes[..].try_into() {
                Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
                Err(_) => Err(format!("{} bytes where a number has 8", bytes.len())),
            },
            Err(damage) => Err(damage),
        })
    }

    /// Returns how long a server must wait before it serves: until the clock reaches the bound that
    /// the previous process stored above its timestamps. Without the wait, the server's timestamps
    /// would be ahead of the clock, and would prevail over later writes to which drivers give the
    /// current time.
    ///
    /// Returns zero if the bound is more than 100 ms (`AHEAD_US`) ahead of the clock: then the clock
    /// was probably set back, and the wait might be long.
    pub fn until_bound(&self) -> Duration {
        let bound_us = self.bound_us.load(Ordering::Acquire);
        match bound_us.saturating_sub(self.now_us()) {
            ahead_us @ 1..=AHEAD_US => Duration::from_micros(ahead_us.unsigned_abs()),
            _ => Duration::ZERO,
        }
    }

    /// Returns the clock's time in microseconds since 1970, at the clock's resolution.
    pub fn now_us(&self) -> i64 {
        i64::try_from(self.clock.now_us()).unwrap_or(i64::MAX)
    }

    /// Returns a timestamp above all earlier ones: the clock's time, or, if that is not above them, the
    /// number after the last one.
    ///
    /// # Errors
    /// If a higher bound must be stored first, and the write of it fails.
    pub fn next_us(&self) -> Result<i64> {
        let now_us = self.now_us();
        loop {
            let last_us = self.last_us.load(Ordering::Acquire);
            let next_us = now_us.max(last_us.saturating_add(1));
            if next_us >= self.bound_us.load(Ordering::Acquire) {
                self.raise_above(next_us)?;
                continue;
            }
            let given = self.last_us.compare_exchange_weak(
                last_us,
                next_us,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if given.is_ok() {
                return Ok(next_us);
            }
        }
    }

    fn raise_above(&self, timestamp_us: i64) -> Result<()> {
        let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if timestamp_us < self.bound_us.load(Ordering::Acquire) {
            return Ok(());
        }
        let bound_us = timestamp_us.saturating_add(AHEAD_US);
        self.node.put(BOUND_KEY, &bound_us.to_be_bytes())?;
        self.bound_us.store(bound_us, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Db, Durability, ManualClock, Options, TableOptions};

    use super::*;

    fn node(disk: &MemDisk) -> Table {
        let options = Options {
            disk: Arc::new(disk.clone()),
            durability: Durability::Os,
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        let keyspace = db.keyspace("ebb_system").unwrap();
        keyspace.table("node", TableOptions::default()).unwrap()
    }

    #[test]
    fn timestamps_follow_the_clock_and_rise_where_it_stands() {
        let clock = ManualClock::at_ms(5_000);
        let node = node(&MemDisk::new());
        let (timestamps, _) = Timestamps::open(node, Arc::new(clock.clone())).unwrap();
        let first = timestamps.next_us().unwrap();
        assert_eq!(first, 5_000_000);
        assert_eq!(timestamps.next_us().unwrap(), 5_000_001);
        clock.advance_ms(7);
        assert_eq!(timestamps.next_us().unwrap(), 5_007_000);
    }

    /// Regression: after a restart, timestamps were ahead of the clock. If a column was dropped at such
    /// a timestamp and added again, values to which drivers gave the current time counted as older than
    /// the drop, and did not show.
    #[test]
    fn timestamps_follow_the_clock_of_a_server_that_waits_at_its_start() {
        let node = node(&MemDisk::new());
        let clock = ManualClock::at_ms(5_000);
        let open = || {
            let (timestamps, _) = Timestamps::open(node.clone(), Arc::new(clock.clone())).unwrap();
            timestamps
        };
        let first = open();
        assert_eq!(first.until_bound(), Duration::ZERO);
        assert_eq!(first.next_us().unwrap(), 5_000_000);
        clock.advance_ms(40);
        let again = open();
        assert_eq!(again.until_bound(), Duration::from_millis(60));
        clock.advance_ms(60);
        assert_eq!(again.until_bound(), Duration::ZERO);
        assert_eq!(again.next_us().unwrap(), 5_100_000);
    }

    #[test]
    fn a_server_does_not_wait_for_a_clock_that_was_set_back() {
        let node = node(&MemDisk::new());
        let clock = ManualClock::at_ms(5_000);
        let (timestamps, _) = Timestamps::open(node, Arc::new(clock.clone())).unwrap();
        timestamps.next_us().unwrap();
        clock.set_ms(4_999);
        assert_eq!(timestamps.until_bound(), Duration::ZERO);
        assert!(timestamps.next_us().unwrap() > 5_000_000);
    }

    #[test]
    fn timestamps_rise_over_a_crash_and_a_clock_that_went_back() {
        let disk = MemDisk::new();
        let data = || node(&disk);
        let mut last_us = 0;
        // Each run of the node, up to a crash, has a clock that shows another time than that of the run
        // before, mostly an earlier one.
        for (life, now_ms) in [90_000, 80_000, 3_000, 89_000].into_iter().enumerate() {
            let node = data();
            let clock = ManualClock::at_ms(now_ms);
            let (timestamps, _) = Timestamps::open(node.clone(), Arc::new(clock.clone())).unwrap();
            for _ in 0..500 {
                let next_us = timestamps.next_us().unwrap();
                assert!(next_us > last_us, "life {life}: {next_us} after {last_us}");
                node.put(b"write", &next_us.to_be_bytes()).unwrap();
                last_us = next_us;
                clock.advance_ms(9);
            }
            drop((timestamps, node));
            disk.crash_at(1);
            disk.restart(life as u64);
            // After the next start, timestamps must be above those of the writes that survived the crash.
            let found = data().get(b"write").unwrap();
            last_us = found.map_or(0, |bytes| i64::from_be_bytes(bytes[..].try_into().unwrap()));
        }
    }

    #[test]
    fn timestamps_begin_at_the_clock_where_the_bound_is_lost_and_rise_from_there() {
        let disk = MemDisk::new();
        let node = node(&disk);
        let clock = Arc::new(ManualClock::at_ms(5_000));
        let open = || Timestamps::open(node.clone(), clock.clone()).unwrap();
        let last_us = open().0.next_us().unwrap();
        node.put(BOUND_KEY, b"damaged").unwrap();
        let (timestamps, damage) = open();
        assert_eq!(damage.unwrap(), "7 bytes where a number has 8");
        let next_us = timestamps.next_us().unwrap();
        assert!(next_us > last_us, "{next_us} after {last_us}");
        let (timestamps, damage) = open();
        assert_eq!(damage, None);
        assert!(timestamps.next_us().unwrap() > next_us);
    }

    #[test]
    fn no_two_threads_get_the_same_timestamp() {
        #[derive(Debug)]
        struct Jumps(AtomicU64);
        impl Clock for Jumps {
            fn now_ms(&self) -> u64 {
                // Forward, back, and unchanged.
                let n = self.0.fetch_add(1, Ordering::Relaxed);
                10_000 + n % 7 * 400
            }
        }

        let node = node(&MemDisk::new());
        let clock = Arc::new(Jumps(AtomicU64::new(0)));
        let (timestamps, _) = Timestamps::open(node, clock).unwrap();
        let of_a_thread =
            || -> Vec<i64> { (0..2_000).map(|_| timestamps.next_us().unwrap()).collect() };
        let all: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(of_a_thread)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for of_one in &all {
            assert!(of_one.is_sorted_by(|a, b| a < b));
        }
        let distinct: BTreeSet<i64> = all.into_iter().flatten().collect();
        assert_eq!(distinct.len(), 8_000);
    }
}

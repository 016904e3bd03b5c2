//! Detects idle databases: no writes, and hardly any reads.

use std::time::{Duration, Instant};

use crate::key::SeqNo;

/// A database counts as idle after a time without writes only if it had at most this many point
/// reads in that time.
const READS_MAX: u64 = 100;

/// The activity of a database so far, to be compared at intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) last: SeqNo,
    pub(super) reads: u64,
}

#[derive(Debug)]
pub(super) struct IdleWatch {
    after: Duration,
    seen: Activity,
    /// The time at which the activity was measured as `seen`. At the last look, there had been no
    /// write since then, and at most [`READS_MAX`] point reads.
    since: Instant,
}

impl IdleWatch {
    /// Returns a watch that reports a database as idle after this time without a write, and with at most
    /// [`READS_MAX`] reads.
    pub(super) fn new(after: Duration, seen: Activity, now: Instant) -> Self {
        Self {
            after,
            seen,
            since: now,
        }
    }

    /// Compares the activity `found` now with the activity `seen` before. Returns whether there has
    /// been no activity for so long that the database counts as idle.
    pub(super) fn look(&mut self, found: Activity, now: Instant) -> bool {
        let reads = found.reads.saturating_sub(self.seen.reads);
        if found.last != self.seen.last || reads > READS_MAX {
            (self.seen, self.since) = (found, now);
        }
        now.duration_since(self.since) >= self.after
    }

    /// Returns the time to wait before the activity is looked at again.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        match self.after.saturating_sub(now.duration_since(self.since)) {
            // The database stays idle until there is activity.
            Duration::ZERO => self.after,
            left => left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_idle_after_a_while_without_writes_and_with_few_reads() {
        let start = Instant::now(); // clock: the watch takes instants
        let after = Duration::from_secs(2);
        let activity = |last, reads| Activity {
            last: SeqNo(last),
            reads,
        };
        let mut watch = IdleWatch::new(after, activity(7, 0), start);
        for (ms, last, reads, idle, pause_ms) in [
            (1000, 7, 0, false, 1000),
            (1999, 8, 0, false, 2000),
            (3998, 8, 100, false, 1),
            (3999, 8, 100, true, 2000),
            (9000, 8, 100, true, 2000),
            (9001, 8, 101, false, 2000),
            (9002, 9, 101, false, 2000),
        ] {
            let now = start + Duration::from_millis(ms);
            let found = activity(last, reads);
            assert_eq!(watch.look(found, now), idle, "after {ms} ms");
            assert_eq!(watch.pause(now), Duration::from_millis(pause_ms));
        }
    }
}

//! Notices when nobody writes and hardly anybody reads.

use std::time::{Duration, Instant};

use crate::key::SeqNo;

/// So many point reads in the time that makes a database idle are none.
const READS_MAX: u64 = 100;

/// What a database has done so far, to be looked at from time to time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) last: SeqNo,
    pub(super) reads: u64,
}

#[derive(Debug)]
pub(super) struct IdleWatch {
    after: Duration,
    seen: Activity,
    /// When that was seen, with nothing to speak of since.
    since: Instant,
}

impl IdleWatch {
    /// Says that a database is idle when it did nothing to speak of for `after`.
    pub(super) fn new(after: Duration, seen: Activity, now: Instant) -> Self {
        Self {
            after,
            seen,
            since: now,
        }
    }

    /// Whether it is idle.
    pub(super) fn look(&mut self, found: Activity, now: Instant) -> bool {
        let reads = found.reads.saturating_sub(self.seen.reads);
        if found.last != self.seen.last || reads > READS_MAX {
            (self.seen, self.since) = (found, now);
        }
        now.duration_since(self.since) >= self.after
    }

    /// How long to wait before the next look.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        match self.after.saturating_sub(now.duration_since(self.since)) {
            // It is idle, and stays so until somebody comes.
            Duration::ZERO => self.after,
            left => left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_who_has_not_written_and_hardly_read_for_a_while() {
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

//! How long a group of commits waits for more to come before it goes to the disk:
//! numbers in, numbers out.
//!
//! Writers that wait for a slow disk fall apart into two halves, of which each
//! comes back while the other is at the disk, and each sync serves one half. A
//! short wait for those who were woken a moment ago brings them together again,
//! and each sync serves all. (PostgreSQL's `commit_delay`, with the delay and
//! whether it is worth it found out by measuring.)

use std::time::Duration;

/// Where a sync takes less, waking a writer takes a good part of it, and nobody
/// waits.
const SYNC_TIME_MIN: Duration = Duration::from_micros(200);
/// A group waits at most for this part of a sync, so what it can lose is less than
/// what it can win.
const SYNC_TIME_FRACTION: u32 = 2;
/// After waits in vain so many groups do not wait, at most.
const SKIPPED_MAX: u32 = 256;

/// What was learnt of the disk and of those who write.
#[derive(Debug, Default)]
pub(super) struct GroupCommitDelay {
    /// Of a sync, smoothed.
    sync_time: Duration,
    /// How many commits the last group and the one behind it had together, when
    /// the last one's sync ended.
    writers: usize,
    /// So many groups do not wait.
    skipped: u32,
    /// What `skipped` becomes after the next wait in vain.
    skipped_next: u32,
}

/// A wait for more commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    /// It ends when there are so many.
    pub(super) wanted: usize,
    pub(super) time_max: Duration,
}

impl GroupCommitDelay {
    /// A group of so many was synced, while so many `behind` it came.
    pub(super) fn synced(&mut self, members: usize, behind: usize, took: Duration) {
        self.sync_time = match self.sync_time {
            Duration::ZERO => took,
            before => (before * 3 + took) / 4,
        };
        // Nobody is in both: who waits does not write.
        self.writers = members + behind;
    }

    /// Whether a group of so many, whose turn it is, waits for more.
    pub(super) fn hold(&mut self, members: usize) -> Option<Hold> {
        if self.sync_time < SYNC_TIME_MIN || members >= self.writers {
            return None;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return None;
        }
        Some(Hold {
            wanted: self.writers,
            time_max: self.sync_time / SYNC_TIME_FRACTION,
        })
    }

    /// A group of so many waited, and then was one of so many.
    pub(super) fn held(&mut self, hold: Hold, before: usize, after: usize) {
        let was_worth_it = 2 * (after - before) >= hold.wanted - before;
        self.skipped_next = match was_worth_it {
            true => 0,
            false => (2 * self.skipped_next).clamp(1, SKIPPED_MAX),
        };
        self.skipped = self.skipped_next;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(2);

    fn after(members: usize, behind: usize, took: Duration) -> GroupCommitDelay {
        let mut delay = GroupCommitDelay::default();
        delay.synced(members, behind, took);
        delay
    }

    #[test]
    fn two_halves_wait_for_each_other_and_a_whole_for_its_own_members() {
        for (members, behind, now) in [(32, 32, 32), (64, 0, 1), (64, 0, 63)] {
            let hold = after(members, behind, SYNC).hold(now).unwrap();
            assert_eq!(hold.wanted, 64);
            assert_eq!(hold.time_max, SYNC / 2);
        }
    }

    #[test]
    fn nobody_waits_alone_or_when_all_are_there_or_for_a_fast_disk() {
        assert_eq!(GroupCommitDelay::default().hold(1), None);
        assert_eq!(after(1, 0, SYNC).hold(1), None);
        assert_eq!(after(32, 32, SYNC).hold(64), None);
        assert_eq!(after(32, 32, Duration::from_micros(50)).hold(32), None);
    }

    /// Writers that do not come back as soon as they are woken are waited for
    /// ever more seldom, and often again once they do.
    #[test]
    fn waits_in_vain_grow_rare() {
        let mut delay = after(2, 2, SYNC);
        let mut waits = Vec::new();
        for group in 0..1200 {
            if let Some(hold) = delay.hold(2) {
                delay.held(hold, 2, 2);
                waits.push(group);
            }
        }
        assert_eq!(waits, [0, 2, 5, 10, 19, 36, 69, 134, 263, 520, 777, 1034]);
        while delay.hold(2).is_none() {}
        let hold = Hold {
            wanted: 4,
            time_max: SYNC / 2,
        };
        delay.held(hold, 2, 3);
        assert_eq!(delay.hold(2), Some(hold));
    }

    #[test]
    fn the_time_of_a_sync_follows_the_disk_smoothly() {
        let mut delay = after(2, 2, SYNC);
        delay.synced(2, 2, 5 * SYNC);
        assert_eq!(delay.hold(2).unwrap().time_max, SYNC);
        for _ in 0..20 {
            delay.synced(2, 2, Duration::from_micros(50));
        }
        assert_eq!(delay.hold(2), None);
    }
}

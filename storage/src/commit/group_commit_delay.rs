//! The time that a group of commits waits for more members before it goes to the disk: numbers in,
//! numbers out.
//!
//! Writers that wait for a slow disk split into two halves: each half returns while the other is at
//! the disk, and each sync serves one half. A short wait for the writers that were just woken
//! brings the halves together again, and each sync serves all. (PostgreSQL's `commit_delay`, but
//! the delay, and whether it is worth it, are measured.)

use std::time::Duration;

/// If a sync takes less time than this, no group waits: waking a writer takes a good part of this
/// time.
const SYNC_TIME_MIN: Duration = Duration::from_micros(200);
/// A group waits at most for the time of a sync divided by this, so that a wait in vain costs less
/// time than a successful one saves.
const SYNC_TIME_FRACTION: u32 = 2;
/// After a wait in vain, which brought fewer than half of the commits that the group waited for, the
/// next group does not wait. Each further wait in vain doubles the number of groups that do not wait,
/// up to this number.
const SKIPPED_MAX: u32 = 256;

/// Decides how long a group of commits waits for more of them, from measurements of the disk and of
/// the writers.
#[derive(Debug, Default)]
pub(super) struct GroupCommitDelay {
    /// The duration of a sync: an average in which recent syncs weigh more.
    sync_time: Duration,
    /// The number of commits in the last group, plus those that were in the next group when the
    /// sync of the last one ended.
    writers: usize,
    /// The number of coming groups that will not wait, because the last wait was in vain.
    skipped: u32,
    /// The value that `skipped` got after the last wait: 0 if the wait was worth it, 1 after the first
    /// wait in vain, and twice as many after each further one, up to [`SKIPPED_MAX`].
    skipped_next: u32,
}

/// A wait for more commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    /// The number of commits in the group at which the wait ends.
    pub(super) wanted: usize,
    pub(super) time_max: Duration,
}

impl GroupCommitDelay {
    /// Records that the sync of a group of `members` commits took the time `took`, and that
    /// `behind` commits joined the next group meanwhile.
    pub(super) fn synced(&mut self, members: usize, behind: usize, took: Duration) {
        self.sync_time = match self.sync_time {
            Duration::ZERO => took,
            before => (before * 3 + took) / 4,
        };
        // No writer is in both groups, because a waiting writer does not write.
        self.writers = members + behind;
    }

    /// Returns the conditions that end the wait of a group of `members` commits for more commits
    /// before its sync; `None` if the group should not wait.
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

    /// Records the outcome of a wait that began with `before` members of the group and ended with
    /// `after`.
    pub(super) fn held(&mut self, hold: Hold, before: usize, after: usize) {
        let was_worth_it = 2 * (after - before) >= hold.wanted - before;
        self.skipped_next = if was_worth_it {
            0
        } else {
            (2 * self.skipped_next).clamp(1, SKIPPED_MAX)
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
    fn no_group_waits_for_a_single_writer_or_when_all_are_there_or_for_a_fast_disk() {
        assert_eq!(GroupCommitDelay::default().hold(1), None);
        assert_eq!(after(1, 0, SYNC).hold(1), None);
        assert_eq!(after(32, 32, SYNC).hold(64), None);
        assert_eq!(after(32, 32, Duration::from_micros(50)).hold(32), None);
    }

    /// If writers that were woken do not write again at once, groups wait ever more seldom. As soon as
    /// such writers write again at once, groups wait often again.
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

//! The rule for which tombstones and expired values compactions may drop.

use super::cell::{Cell, Deletion, Lifetime, Marker};

/// The bounds below which a tombstone or an expired value is garbage.
///
/// Two conditions must hold: gc_grace has passed, and no other source can contain anything that the
/// tombstone could still hide. Other sources are all operands of the same key that are not folded
/// into this one, newer or older: in memtables, in other runs, in other stripes of the same runs (a
/// stripe is the versions between two snapshots). A write that arrives later may have an old
/// timestamp, too. It stays hidden only if it arrives before gc_grace has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage {
    /// The time of the earliest reader less gc_grace, in seconds since the Unix epoch. For values
    /// that were deleted or expired before this time, gc_grace has passed.
    pub gc_before_s: i64,
    /// The least client timestamp in other sources (memtables, runs, or versions between other
    /// snapshots). If a row is purged, only their operands of this row count. If the header of a
    /// partition is purged, their operands of the whole partition count, because the header's
    /// deletions cover its rows. [`i64::MAX`] if there is no other source, [`i64::MIN`] if the
    /// timestamp is not known.
    pub oldest_elsewhere: i64,
}

impl Garbage {
    #[inline]
    fn has(self, timestamp: i64, ended_s: i64) -> bool {
        ended_s < self.gc_before_s && timestamp < self.oldest_elsewhere
    }

    pub(super) fn has_deletion(self, deletion: Deletion) -> bool {
        self.has(deletion.timestamp, deletion.local_time_s)
    }

    pub(super) fn has_marker(self, marker: &Marker) -> bool {
        marker
            .expiry
            .is_some_and(|expiry| self.has(marker.timestamp, expiry.expiry_s))
    }

    #[inline]
    pub(super) fn has_cell(self, cell: &Cell<'_>) -> bool {
        match cell.lifetime {
            Lifetime::Permanent => false,
            Lifetime::Expiring(expiry) => self.has(cell.timestamp, expiry.expiry_s),
            Lifetime::Tombstone { local_time_s } => self.has(cell.timestamp, local_time_s),
        }
    }
}

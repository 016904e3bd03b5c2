//! Which tombstones, and what that expired, have served their time.

use super::cell::{Cell, Deletion, Lifetime, Marker};

/// From when on a tombstone, or what has expired, is garbage.
///
/// Both bounds must hold: gc_grace has passed, and nothing that the tombstone could still
/// hide is anywhere else. Operands of the same key that are not folded into this one count
/// as elsewhere, whichever is newer: memtables, other runs, other stripes of the same
/// runs. So do writes to come, but for those that gc_grace guards no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage {
    /// The time of the earliest reader less gc_grace, in seconds since the Unix epoch.
    /// What was deleted or has expired before it has served its time.
    pub gc_before_s: i64,
    /// The least client timestamp that any other source may hold for the key, or for the
    /// whole partition where a header is purged; [`i64::MAX`] when there is no other.
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

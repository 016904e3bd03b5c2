//! The reader's view of a cell at one time.

use super::cell::{Cell, Deletion, Lifetime, is_shadowed};

/// The live value of a cell, as a reader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveCell<'a> {
    /// The value in the native serialization of its type.
    pub value: &'a [u8],
    /// The result of CQL's writetime(): the client's timestamp.
    pub writetime: i64,
    /// The result of CQL's ttl(): the remaining seconds, at least 1; `None` if the value is
    /// permanent.
    pub ttl_s: Option<i64>,
}

/// Returns the cell's value; `None` if `deletion` hides the cell, or if it is a tombstone or has
/// expired at `read_time_s`.
#[inline]
pub(super) fn live_cell<'a>(
    cell: Cell<'a>,
    deletion: Option<Deletion>,
    read_time_s: i64,
) -> Option<LiveCell<'a>> {
    if is_shadowed(cell.timestamp, deletion) || !cell.is_live(read_time_s) {
        return None;
    }
    Some(LiveCell {
        value: cell.value,
        writetime: cell.timestamp,
        ttl_s: match cell.lifetime {
            Lifetime::Expiring(expiry) => Some(expiry.expiry_s.saturating_sub(read_time_s)),
            _ => None,
        },
    })
}

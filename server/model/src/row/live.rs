//! Whether a reader at one time sees a cell, and what of it.

use super::cell::{Cell, Deletion, Lifetime, is_shadowed};

/// A value that a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveCell<'a> {
    /// Its bytes in the native serialization of its type.
    pub value: &'a [u8],
    /// CQL's writetime(): the client's timestamp.
    pub writetime: i64,
    /// CQL's ttl(): the seconds that are left to it, at least 1; none when it stays.
    pub ttl_s: Option<i64>,
}

/// The cell as a reader sees it, if it does.
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

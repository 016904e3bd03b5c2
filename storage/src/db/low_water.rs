//! The low-water mark: the free space that ordinary work leaves on the disk of the log and the
//! manifest. Operations that free space need some of it.
//!
//! ```text
//!   free space
//!     │  everything
//!     ├─ twice the mark: jobs, backups and holds are given up, so that no write is refused for them
//!     │  writes, merges
//!     ├─ the mark: writes are refused, and only merges begin that give much back
//!     │  flushes, which shorten the log; truncating, dropping, deleting snapshots
//!     └─ nothing: the file RESERVE is given up for the latter
//! ```
//!
//! A look at the free space is a system call, which is too expensive for each write. So a write
//! looks when the log has grown by [`LOOK_EVERY_BYTES`] since the last look, and each flush looks.
//! While writes are refused, each write looks, and the thread that flushes looks every few seconds,
//! for the last one that was refused: writes are accepted again as soon as there is space.

use super::Engine;
use super::events::Shortage;
use crate::error::{Error, Result};
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// A write looks at the free space again once the log has grown by this many bytes. Writes in
/// between may use space below the mark, so this is a small part of the mark.
const LOOK_EVERY_BYTES: u64 = 1 << 20;

/// The low-water mark, and the length of the log at which a write looks at the free space next.
#[derive(Debug)]
pub(super) struct LowWater {
    /// The lower bound of the low-water mark, in bytes, from the options; 0 turns the mark off. A
    /// large manifest raises the mark (`mark_bytes`) above this bound.
    least_bytes: u64,
    mark_bytes: AtomicU64,
    /// The length that the log must reach, counted since the opening, for a write to look at the
    /// free space again.
    look_at: AtomicU64,
    /// The bytes of the write that was refused last; 0 once a write was accepted after a look at
    /// the free space, or a flush has found enough space for the refused write. Flushes look for
    /// this much space. If they looked for less, the database would accept small writes again,
    /// refuse the large write again, and so on.
    refused_bytes: AtomicU64,
    /// Whether the last look at the free space found less than twice the low-water mark.
    is_near: AtomicBool,
}

impl LowWater {
    /// Returns the low-water mark (the free space that writes must leave) of a database with a
    /// manifest of `manifest_bytes`. The next write looks at the free space.
    pub(super) fn new(least_bytes: u64, manifest_bytes: u64) -> Self {
        Self {
            least_bytes,
            mark_bytes: AtomicU64::new(mark_bytes(least_bytes, manifest_bytes)),
            look_at: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
            is_near: AtomicBool::new(false),
        }
    }

    /// Sets the low-water mark (the free space that writes must leave) to that of a database with a
    /// manifest of this size, its copy included.
    pub(super) fn set_manifest_bytes(&self, manifest_bytes: u64) {
        let mark_bytes = mark_bytes(self.least_bytes, manifest_bytes);
        self.mark_bytes.store(mark_bytes, Ordering::Relaxed);
    }

    fn mark_bytes(&self) -> u64 {
        self.mark_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether a write that makes the log `log_bytes` long has to look at the free space.
    fn is_due(&self, log_bytes: u64) -> bool {
        self.least_bytes > 0 && log_bytes >= self.look_at.load(Ordering::Relaxed)
    }

    /// Records the outcome of a look at the free space: `refused_bytes` is the size of a write that
    /// lacks space, or `None` if there is enough space. `log_bytes` is the present length of the
    /// log.
    fn note_look(&self, log_bytes: u64, refused_bytes: Option<u64>) {
        let look_at = match refused_bytes {
            Some(_) => 0,
            None => log_bytes.saturating_add(LOOK_EVERY_BYTES),
        };
        self.look_at.store(look_at, Ordering::Relaxed);
        let refused_bytes = refused_bytes.unwrap_or(0);
        self.refused_bytes.store(refused_bytes, Ordering::Relaxed);
    }
}

/// Returns the low-water mark (the free space that writes must leave), in bytes: `least_bytes`, or
/// twice `manifest_bytes` (the size of the manifest and its copy together) if that is more. If
/// `least_bytes` is 0, returns 0, which means no mark.
///
/// The size of the manifest counts because any edit, also one that drops a table, may write a new
/// manifest with its copy beside the old ones. In addition, the file `RESERVE` holds back at least
/// twice `manifest_bytes`, and at least 1 MiB, while enough space is free.
fn mark_bytes(least_bytes: u64, manifest_bytes: u64) -> u64 {
    match least_bytes {
        0 => 0,
        least_bytes => least_bytes.max(manifest_bytes.saturating_mul(2)),
    }
}

/// Returns whether a write of `bytes` would leave less than the mark.
fn is_short(free_bytes: u64, mark_bytes: u64, bytes: u64) -> bool {
    mark_bytes > 0 && free_bytes < mark_bytes.saturating_add(bytes)
}

impl Engine {
    /// Returns the low-water mark: the free space, in bytes, that writes and merges leave on the
    /// disk.
    pub(crate) fn low_water_bytes(&self) -> u64 {
        self.low_water.mark_bytes()
    }

    /// Refuses a write of `bytes` that would leave less than the low-water mark. Looks at the free
    /// space only now and then.
    ///
    /// # Errors
    /// [`Error::LowSpace`].
    #[inline]
    pub(super) fn check_space(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        if self.low_water.is_due(self.wal.written_bytes() + bytes) {
            return self.look_at_space(bytes);
        }
        Ok(())
    }

    /// Looks whether a write of `bytes` would leave less than the low-water mark, and records the
    /// answer for later writes.
    ///
    /// # Errors
    /// [`Error::LowSpace`] if it would.
    #[cold]
    fn look_at_space(&self, bytes: u64) -> Result<()> {
        let mark_bytes = self.low_water_bytes();
        if mark_bytes == 0 || self.check_access().is_err() {
            return Ok(());
        }
        let found = self.disk().free_bytes(&self.dir);
        // A disk that does not report its free space refuses writes by itself when it is full.
        let free_bytes = found.ok().flatten().unwrap_or(u64::MAX);
        let is_near = is_short(free_bytes, mark_bytes.saturating_mul(2), bytes);
        let is_short =
            is_short(free_bytes, mark_bytes, bytes) && !mutation::is(Mutation::WriteBelowLowWater);
        let was_near = self.low_water.is_near.swap(is_near, Ordering::Relaxed);
        if is_near && !was_near {
            // The thread that looks at the time releases the holds.
            self.signal.look_at_the_time();
        }
        let refused_bytes = is_short.then_some(bytes);
        self.low_water
            .note_look(self.wal.written_bytes(), refused_bytes);
        let path = is_short.then_some(&*self.dir);
        let has_changed = self.events.tell_of_space(Shortage::LowWater, path);
        if !is_short {
            return Ok(());
        }
        if has_changed {
            // From now on the thread that flushes looks again and again.
            self.signal.flush();
        }
        Err(Error::LowSpace {
            path: self.dir.clone(),
            free_bytes,
            low_water_bytes: mark_bytes,
        })
    }

    /// Looks whether there is space for the write that was refused last, and records the answer for
    /// later writes.
    pub(super) fn look_at_space_again(&self) {
        let bytes = self.low_water.refused_bytes.load(Ordering::Relaxed);
        // The error is that of a refused write, which has its own look.
        let _ = self.look_at_space(bytes);
    }

    /// Returns whether there is less free space than twice the low-water mark. If the last look found
    /// less, looks again, because there may be space again by now.
    pub(super) fn is_near_low_water(&self) -> bool {
        let is_near = || self.low_water.is_near.load(Ordering::Relaxed);
        if is_near() {
            self.look_at_space_again();
        }
        is_near()
    }

    /// Returns whether the last look at the free space found that a write would leave less free
    /// space than the low-water mark.
    pub(super) fn is_low_on_space(&self) -> bool {
        self.events.has(Shortage::LowWater)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_twice_the_manifest_or_the_least_if_that_is_more() {
        for (least, manifest, mark) in [
            (100, 0, 100),
            (100, 50, 100),
            (100, 51, 102),
            (100, u64::MAX, u64::MAX),
            (0, 1000, 0),
        ] {
            assert_eq!(mark_bytes(least, manifest), mark, "{least} {manifest}");
        }
    }

    #[test]
    fn a_write_is_refused_that_would_leave_less_than_the_mark() {
        for (free, mark, bytes, refused) in [
            (100, 100, 0, false),
            (99, 100, 0, true),
            (110, 100, 10, false),
            (109, 100, 10, true),
            (5, 0, 10, false),
            (u64::MAX, u64::MAX, 1, false),
        ] {
            assert_eq!(
                is_short(free, mark, bytes),
                refused,
                "{free} {mark} {bytes}"
            );
        }
    }

    #[test]
    fn writes_look_once_in_a_mebibyte_and_each_while_they_are_refused() {
        let low_water = LowWater::new(100, 0);
        assert!(low_water.is_due(0), "the first write looks");
        low_water.note_look(7, None);
        assert!(!low_water.is_due(6 + LOOK_EVERY_BYTES));
        assert!(low_water.is_due(7 + LOOK_EVERY_BYTES));
        low_water.note_look(7 + LOOK_EVERY_BYTES, Some(0));
        assert!(low_water.is_due(7 + LOOK_EVERY_BYTES));
        assert!(!LowWater::new(0, 1000).is_due(u64::MAX));
    }
}

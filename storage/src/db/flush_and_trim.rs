//! Flushing memtables, and trimming the log by what was flushed.
//!
//! ```text
//!   rotate ─► frozen memtables ─► a round of flushes ─► trim_wal
//! ```
//!
//! A memtable keeps those segments of the log that have its writes. A segment is removed once no
//! memtable needs it and the manifest has its operations on snapshots.

use std::sync::Arc;

use super::background::Work;
use super::{Engine, TableCore};
use crate::error::{Error, ErrorKind, Result};
use crate::key::SeqNo;
use crate::manifest::Edit;
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::options::Maintenance;
use crate::sync::Ordering;

/// A scan that walked over dead keys of a memtable causes a flush only if the memtable has at least
/// 1 / `SCANNED_FRACTION` of its full size. Smaller files would cost more in merges than they save
/// in scans.
const SCANNED_FRACTION: usize = 16;

impl Engine {
    /// Flushes everything that was written to a table until now.
    pub(crate) fn flush_table(&self, table: &TableCore) -> Result<()> {
        self.check_access()?;
        self.rotate(table, 0);
        self.flush_frozen()
    }

    /// Flushes everything that was written until now.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.check_access()?;
        self.delete_expired_snapshots()?;
        for table in self.tables() {
            self.rotate(&table, 0);
        }
        self.flush_frozen()
    }

    /// Flushes everything that is frozen, of all tables, and trims the WAL.
    pub(super) fn flush_frozen(&self) -> Result<()> {
        let _one = self.flushing.lock().unwrap();
        let outcome = self.flush_and_trim();
        self.note_outcome(Work::Flush, &outcome);
        self.look_at_space_again();
        outcome
    }

    fn flush_and_trim(&self) -> Result<()> {
        loop {
            let flushed = self.flush_round();
            let found_none = |e: &Error| e.kind() == ErrorKind::DiskFull;
            if flushed.as_ref().is_err_and(found_none) {
                self.flush_truncated()?;
            }
            flushed?;
            self.release_retired();
            self.trim_wal()?;
            // Writers may wait for the log to become shorter, or for the memory of a table that
            // was dropped.
            self.add_up_memtables();
            self.write_stall.work_ended();
            if !self.rotate_for_wal() {
                self.hold_reserve();
                self.hold_spares();
                return Ok(());
            }
        }
    }

    /// Requests a flush of the memtable of a table and merges of the table, or does both under
    /// [`Maintenance::Manual`]. May lock `flushing`.
    pub(crate) fn flush_soon(&self, table: &TableCore) {
        self.rotate(table, 0);
        self.maintain();
    }

    /// Requests a flush of a memtable after a scan walked over its dead keys, if it is still the
    /// open one and worth a file. Does nothing under [`Maintenance::Manual`]: reads never flush.
    pub(crate) fn flush_scanned(&self, table: &TableCore, memtable: &Arc<Memtable>) {
        let is_open = Arc::ptr_eq(&table.peek().memtable, memtable);
        if self.options.maintenance == Maintenance::Background
            && is_open
            && self.rotate(table, self.options.memtable_bytes / SCANNED_FRACTION)
        {
            self.signal.flush();
        }
    }

    /// Called after a commit that may have filled these tables' memtables, or the WAL: requests or
    /// does the flushes for them. May lock `flushing`. The commit is done, so a failure of the
    /// flushes does not fail it; [`Engine::maintenance_failure`] returns the failure.
    pub(super) fn after_commit(&self, tables: &[Arc<TableCore>]) {
        let limit = self.options.memtable_bytes;
        let mut full = self.wal.bytes() > self.options.wal_flush_bytes();
        for table in tables {
            if table.peek().memtable.bytes() >= limit {
                full |= self.rotate(table, limit);
            }
        }
        full |= self.freeze_largest();
        if full {
            self.maintain();
        }
    }

    /// Requests the work that a commit left to do, or does it under [`Maintenance::Manual`]. A
    /// failure of the work is no failure of the commit: the work is tried again.
    fn maintain(&self) {
        match self.options.maintenance {
            Maintenance::Background => self.signal.flush(),
            Maintenance::Manual => {
                let _ = self.delete_expired_snapshots();
                let _ = self.flush_frozen().and_then(|()| self.compact_more());
            }
        }
    }

    /// Sets whether the database is idle. When it becomes idle, freezes everything in memory,
    /// begins a new segment of the log, so that the next flush can free the older segments, and
    /// requests the merges that are worth it only in an idle database.
    pub(super) fn set_idle(&self, idle: bool) -> Result<()> {
        if self.idle.swap(idle, Ordering::Relaxed) || !idle {
            return Ok(());
        }
        for table in self.tables() {
            self.rotate(&table, 0);
        }
        self.signal.compact();
        self.wal.roll()
    }

    /// Freezes the memtable of a table if it has at least `bytes_min` bytes and any write. Returns
    /// whether the memtable was frozen.
    pub(super) fn rotate(&self, table: &TableCore, bytes_min: usize) -> bool {
        self.queue.pause(|next| {
            let end = SeqNo(next.0 - 1);
            table.update(|version| {
                (version.memtable.bytes() >= bytes_min)
                    .then(|| version.rotated(end))
                    .flatten()
            })
        })
    }

    /// If the WAL is too large, freezes the memtables that need its oldest segment. Returns whether
    /// any was frozen.
    fn rotate_for_wal(&self) -> bool {
        if self.wal.bytes() <= self.options.wal_flush_bytes()
            || mutation::is(Mutation::QuietTableHoldsWal)
        {
            return false;
        }
        let first = |table: &Arc<TableCore>| table.peek().memtable.first_segment();
        let tables = self.tables();
        // The open segment stays, whatever is flushed.
        let open = self.wal.segment_number();
        let oldest = tables.iter().filter_map(first).min();
        let Some(oldest) = oldest.filter(|&oldest| oldest < open) else {
            return false;
        };
        let mut rotated = false;
        for table in tables.iter().filter(|table| first(table) == Some(oldest)) {
            rotated |= self.rotate(table, 0);
        }
        rotated
    }

    /// Removes WAL segments that no memtable needs, once the manifest has their operations on
    /// snapshots. The newest segment stays: without any log, a loss of edits of the manifest could
    /// not be detected.
    fn trim_wal(&self) -> Result<()> {
        let (floor, last) = {
            // Taken before the order lock: a change of the catalog holds it during an fsync, and no
            // writer may wait for that.
            let catalog = self.catalog.read().unwrap();
            self.queue.pause(|next| {
                let needed = catalog.tables().filter_map(|table| {
                    let version = table.peek();
                    let memtables = std::iter::once(&version.memtable).chain(&version.frozen);
                    memtables
                        .filter_map(|memtable| memtable.first_segment())
                        .min()
                });
                (
                    needed
                        .min()
                        .filter(|_| !mutation::is(Mutation::TrimNeededWal))
                        .unwrap_or_else(|| self.wal.segment_number()),
                    SeqNo(next.0 - 1),
                )
            })
        };
        let kept = floor.min(self.wal.newest_segment());
        let floor = mutation::replace(kept, Mutation::TrimWalToNothing, floor);
        if !self.wal.has_free_below(floor) || mutation::is(Mutation::NeverTrimWal) {
            return Ok(());
        }
        // A deletion of a snapshot may be in the log and not done yet.
        self.queue.wait_visible(last);
        let snapshots = self.unrecorded_snapshots();
        self.wal.sync_all()?;
        self.with_reserve(|| {
            let snapshots = snapshots.clone();
            self.commit_edit(Edit::TrimWal { floor, snapshots })
        })?;
        self.with_reserve(|| self.wal.delete_closed_below(floor))
    }
}

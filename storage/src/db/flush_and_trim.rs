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

    /// Deletes expired snapshots, then flushes everything that was written until now.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.check_access()?;
        self.delete_expired_snapshots()?;
        for table in self.tables() {
            self.rotate(&table, 0);
        }
        self.flush_frozen()
    }

    /// Flushes everything that is frozen, of all tables, and trims the WAL. If the WAL is still too
    /// large then, freezes the memtables that need its oldest segment, and goes on.
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

    /// Freezes the memtable of a table and requests a flush. Under [`Maintenance::Manual`], flushes
    /// all frozen memtables and merges all tables before it returns. May lock `flushing`.
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

    /// Freezes the memtable of a table if it has at least `bytes_min` bytes and at least one write.
    /// Returns whether the memtable was frozen.
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
        // A verification that waits while it reads the log must not let it grow without bound.
        if self.wal.bytes() > self.options.wal_bytes_max {
            self.wal.end_bounded_holds();
        }
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::Db;
    use crate::api::Keyspace;
    use crate::db::DbInner;
    use crate::file_system::FileSystem;
    use crate::files::FileKind;
    use crate::options::{Options, TableOptions};
    use crate::simulation::MemDisk;
    use crate::wal::SEGMENT_HEADER_BYTES;

    const DIR: &str = "/db";
    const BACKUP: &str = "/b";

    fn options(mem: &MemDisk) -> Options {
        Options {
            disk: Arc::new(mem.clone()),
            maintenance: Maintenance::Manual,
            low_water_bytes: 0,
            ..Options::default()
        }
    }

    /// Opens a database that has become idle after one write: its log is one segment without
    /// records, which the manifest needs.
    fn idle(mem: &MemDisk) -> Arc<DbInner> {
        let db = DbInner::open(Path::new(DIR), options(mem)).unwrap();
        db.open_or_create_keyspace("app").unwrap();
        let table = Keyspace::new(db.clone(), "app").table("t", TableOptions::default());
        table.unwrap().put(b"k", b"v").unwrap();
        db.set_idle(true).unwrap();
        db.flush_frozen().unwrap();
        let left = (db.wal.segments(), db.wal.bytes());
        assert_eq!(left, (1, SEGMENT_HEADER_BYTES as u64));
        db
    }

    /// Returns the only segment in the directory of the database.
    fn only_segment(mem: &MemDisk) -> PathBuf {
        let mut found = mem.list(Path::new(DIR)).unwrap();
        found.retain(|path| matches!(FileKind::of(path), Some(FileKind::Wal(_))));
        assert_eq!(found.len(), 1, "{found:?}");
        found.swap_remove(0)
    }

    fn assert_reads(db: &Db) {
        let table = db.existing_keyspace("app").unwrap().existing_table("t");
        assert_eq!(table.unwrap().get(b"k").unwrap().unwrap(), "v");
    }

    /// Opens the database of `dir` twice in turn, without a write. If `backs_up`, makes a backup
    /// between the two openings, and opens the backup twice.
    fn open_twice(mem: &MemDisk, dir: &str, backs_up: bool) {
        let db = Db::open(dir, options(mem)).unwrap();
        assert_reads(&db);
        if backs_up {
            db.backup(BACKUP).unwrap();
            open_twice(mem, BACKUP, false);
        }
        drop(db);
        assert_reads(&Db::open(dir, options(mem)).unwrap());
    }

    /// Regression: the header of the segment that an idle database had begun was not synced, and all
    /// older segments were removed. After a loss of power the next opening removed the segment, and
    /// the opening after that missed it.
    #[test]
    fn an_idle_database_that_loses_power_can_be_opened_twice_and_backed_up() {
        for seed in 0..16 {
            for backs_up in [false, true] {
                let mem = MemDisk::new();
                let db = idle(&mem);
                let segment = only_segment(&mem);
                let header = mem.read_all(&segment).unwrap();
                mem.crash_at(1);
                mem.exists(Path::new(DIR)).unwrap_err();
                drop(db);
                mem.restart(seed);
                assert_eq!(mem.read_all(&segment).unwrap(), header, "seed {seed}");
                open_twice(&mem, DIR, backs_up);
            }
        }
    }

    /// Regression: an opening removed a segment of the log whose header was incomplete, though the
    /// manifest needs the segment, and the next opening missed it. A backup made in between did not
    /// open.
    #[test]
    fn a_needed_segment_without_a_whole_header_is_replaced_by_an_empty_one() {
        for (kept_bytes, zeros) in [(0, 0), (10, 0), (0, SEGMENT_HEADER_BYTES as u64 + 9)] {
            for backs_up in [false, true] {
                let mem = MemDisk::new();
                drop(idle(&mem));
                let segment = only_segment(&mem);
                mem.cut(&segment, kept_bytes).unwrap();
                mem.cut(&segment, kept_bytes + zeros).unwrap();
                open_twice(&mem, DIR, backs_up);
                assert_eq!(only_segment(&mem), segment);

                // The log goes on behind the segment.
                let db = Db::open(DIR, options(&mem)).unwrap();
                let table = db.existing_keyspace("app").unwrap().existing_table("t");
                table.unwrap().put(b"k2", b"v2").unwrap();
                drop(db);
                let db = Db::open(DIR, options(&mem)).unwrap();
                assert_reads(&db);
                let table = db.existing_keyspace("app").unwrap().existing_table("t");
                assert_eq!(table.unwrap().get(b"k2").unwrap().unwrap(), "v2");
            }
        }
    }

    /// The only segment of the log has no header, and the opening finds no space to write one.
    /// Reads work. Neither the opening nor a write that finds no space may remove the segment's
    /// file: the manifest needs it.
    #[test]
    fn a_database_with_such_a_segment_can_be_read_on_a_full_disk() {
        let mem = MemDisk::new();
        drop(idle(&mem));
        let segment = only_segment(&mem);
        mem.cut(&segment, 0).unwrap();
        mem.set_capacity_bytes(Some(mem.used_bytes()));
        let db = Db::open(DIR, options(&mem)).unwrap();
        assert_reads(&db);
        let table = db.existing_keyspace("app").unwrap().existing_table("t");
        let refused = table.unwrap().put(b"k2", b"v2").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DiskFull);
        drop(db);
        mem.set_capacity_bytes(None);
        open_twice(&mem, DIR, true);
        assert_eq!(only_segment(&mem), segment);
    }

    /// The backup has no segment of the log, because the only one of the source has no header. The
    /// source was opened for reading only, so the opening did not replace this segment.
    #[test]
    fn a_backup_without_any_segment_opens() {
        let mem = MemDisk::new();
        drop(idle(&mem));
        mem.cut(only_segment(&mem), 0).unwrap();
        let db = Db::open_read_only(DIR, options(&mem)).unwrap();
        assert_reads(&db);
        db.backup(BACKUP).unwrap();
        open_twice(&mem, BACKUP, false);
    }

    #[test]
    fn a_needed_segment_that_is_missing_is_damage() {
        let mem = MemDisk::new();
        drop(idle(&mem));
        mem.remove(&only_segment(&mem)).unwrap();
        let refused = Db::open(DIR, options(&mem)).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption);
    }
}

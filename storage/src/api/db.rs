//! The handle on a database.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Keyspace, SortedWriterOptions, Transaction, TransactionOptions, View, WriteBatch};
use crate::db::{DbInner, Event, FileCheck, Health, LargeGroup, SnapshotPins};
use crate::error::{Error, Result};
use crate::maintenance::{
    self, Backup, BackupInfo, LossReport, MaintenanceProgress, RestoreReport, VerifyReport,
    verify_state,
};
use crate::manifest::Manifest;
use crate::meter::Meter;
use crate::options::{Options, WriteOptions};
use crate::stats::Stats;

/// A database: keyspaces of tables in one directory, with one log and one order
/// of commits.
///
/// Clones share it. It closes when the last handle (and keyspace, table,
/// snapshot, view or iterator of it) is dropped; [`Db::sync`] before that tells
/// of errors that a drop would swallow.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// use ebb_storage::{Db, Options, TableOptions};
///
/// let db = Db::open(path, Options::default())?;
/// let app = db.keyspace("app")?;
/// let users = app.table("users", TableOptions::default())?;
/// users.put(b"ada", b"1815")?;
///
/// app.create_snapshot("monday")?;
/// users.put(b"ada", b"1852")?;
/// let monday = app.snapshot("monday")?;
/// assert_eq!(monday.table("users")?.get(b"ada")?.unwrap(), "1815");
/// assert_eq!(users.get(b"ada")?.unwrap(), "1852");
/// # Ok::<(), ebb_storage::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    inner: Arc<DbInner>,
}

impl Db {
    /// Whether a directory has a database, which may be damaged or in use.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn exists(dir: impl AsRef<Path>, options: &Options) -> Result<bool> {
        Manifest::exists(&*options.disk, dir.as_ref())
    }

    /// Opens the database of a directory, or makes one there
    /// ([`Options::create_if_missing`]), and recovers what a crash left.
    ///
    /// # Errors
    /// [`Error::NoDatabase`], [`Error::Locked`], [`Error::Corruption`],
    /// [`Error::UnsupportedFormat`] or [`Error::Io`]; nothing is lost by any.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let inner = DbInner::open(dir.as_ref(), options)?;
        Ok(Self { inner })
    }

    /// Opens the database of a directory to be read, and writes nothing at all: not a
    /// file, not a name, not a lock. Any number of processes may do so at once, and the
    /// directory may be read-only. What a crash left in the log is replayed into memory.
    /// Everything that would write is refused by [`Error::OpenedReadOnly`].
    ///
    /// It shows the database as it is now, and no writer is let in while it is open. A
    /// directory without a `LOCK` file, a plain copy for example, is read without a lock:
    /// whoever has it must keep writers away.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path();
    /// # use ebb_storage::{Db, Options};
    /// # Db::open(path, Options::default())?.keyspace("app")?.table("users", Default::default())?.put(b"ada", b"1815")?;
    /// let one = Db::open_read_only(path, Options::default())?;
    /// let two = Db::open_read_only(path, Options::default())?;
    /// let users = two.existing_keyspace("app")?.existing_table("users")?;
    /// assert_eq!(users.get(b"ada")?.unwrap(), "1815");
    /// assert!(users.put(b"ada", b"1852").is_err());
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BeingWritten`] beside somebody who has it open by [`Db::open`]; otherwise
    /// as there. [`Options::create_if_missing`] does not count.
    pub fn open_read_only(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let inner = DbInner::open_read_only(dir.as_ref(), options)?;
        Ok(Self { inner })
    }

    /// The keyspace of this name; created when absent.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.inner.open_or_create_keyspace(name)?;
        Ok(Keyspace::new(self.inner.clone(), name))
    }

    /// The keyspace of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.inner.find_keyspace(name)?;
        Ok(Keyspace::new(self.inner.clone(), name))
    }

    /// Drops a keyspace: its snapshots, its tables (see
    /// [`Keyspace::drop_table`]) and its name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none. After any other error some of the
    /// snapshots may be gone.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.inner.drop_keyspace(name)
    }

    /// The names of all keyspaces, ascending.
    pub fn keyspaces(&self) -> Vec<String> {
        self.inner.catalog().keyspace_names()
    }

    /// From now on `hear` is called with each [`Event`]. It must neither wait nor call the
    /// database: it may be called by a write, or while snapshots are created.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = std::sync::mpsc::channel();
    /// db.on_event(move |event| {
    ///     if let ebb_storage::Event::SnapshotExpired { keyspace, name } = event {
    ///         drop(tell.send(format!("{keyspace}@{name}")));
    ///     }
    /// });
    /// let options = ebb_storage::SnapshotOptions {
    ///     expires_in: Some(Duration::from_millis(1)),
    ///     ..Default::default()
    /// };
    /// app.create_snapshot_with("job-7", options)?;
    /// assert_eq!(told.recv().unwrap(), "app@job-7");
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn on_event(&self, hear: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        self.inner.events.add(hear);
    }

    /// From now on `hear` is called with each group ([`MergeOperator::group`]) of which a flush
    /// or a merge writes more than `above_bytes` of keys and values: again with each merge that
    /// writes it anew, and also where what was written is not installed after all. It must
    /// neither wait nor call the database.
    ///
    /// [`MergeOperator::group`]: crate::MergeOperator::group
    pub fn on_large_group(
        &self,
        above_bytes: u64,
        hear: impl Fn(&LargeGroup<'_>) + Send + Sync + 'static,
    ) {
        self.inner.group_listeners.add(above_bytes, hear);
    }

    /// Commits a batch: all of it becomes visible at once, and survives a crash
    /// whole or not at all, over all its tables.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key, value or batch that is too large,
    /// [`Error::NotFound`] for a table that was dropped, [`Error::DiskFull`],
    /// [`Error::LowSpace`], [`Error::NoDescriptor`]: nothing is written.
    /// [`Error::ReadOnly`] after a failed write or fsync: whether the batch survives
    /// is then known only after reopening.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// [`Db::write`] with options.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.check_database(&batch)?;
        let (payload, tables) = batch.into_parts();
        self.inner.write(payload, &tables, options)
    }

    /// [`Db::write_with`] for a small batch that gives space back, or prepares that. It is taken
    /// below the low-water mark, too ([`Options::low_water_bytes`]), and on a full disk it may use
    /// the space that the database holds back (the file `RESERVE`). Tables that the batch
    /// truncates, by a range delete of all keys, are flushed soon, also if other flushes find no
    /// space, so their files go without another write.
    ///
    /// # Errors
    /// As [`Db::write`]; [`Error::DiskFull`] only if the space that is held back does not suffice, or
    /// if many truncations of a table wait for space already.
    pub fn write_freeing(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.check_database(&batch)?;
        let (payload, tables) = batch.into_parts();
        self.inner.write_freeing(payload, &tables, options)
    }

    /// The low-water mark: the free bytes of its disk that the database leaves, from
    /// [`Options::low_water_bytes`] and the size of the manifest. Other work on the same disk that can
    /// be given up should leave more, so that no write is refused for it.
    pub fn low_water_bytes(&self) -> u64 {
        self.inner.low_water_bytes()
    }

    fn check_database(&self, batch: &WriteBatch) -> Result<()> {
        for table in batch.tables() {
            if table.database != self.inner.id {
                let name = format!("{}.{}", table.keyspace, table.name);
                return Err(Error::InvalidRequest(format!(
                    "table {name} in the batch is of another database"
                )));
            }
        }
        Ok(())
    }

    /// A read view: all tables at this instant, for as long as it lives.
    pub fn view(&self) -> View {
        View::now(self.inner.clone())
    }

    /// Begins a transaction, which reads at this instant.
    pub fn begin(&self) -> Transaction {
        self.begin_with(TransactionOptions::default())
    }

    /// [`Db::begin`] with options.
    pub fn begin_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::begin(self.inner.clone(), options)
    }

    /// The id of the database, 32 hexadecimal digits: that of no other database, copies that a backup
    /// or a repair makes included.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use ebb_storage::{Db, Options};
    /// let id = Db::open(dir.path(), Options::default())?.id();
    /// assert_eq!(Db::open(dir.path(), Options::default())?.id(), id);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn id(&self) -> String {
        self.inner.database_id().to_string()
    }

    /// Returns once everything written so far survives a crash of the machine.
    pub fn sync(&self) -> Result<()> {
        self.inner.wal.sync_all()
    }

    /// Writes all memtables to SSTables.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all()
    }

    /// Has no merge begin while the guard lives; those under way go on, and
    /// [`Stats::compactions_running`] counts them. Flushes go on too, so tables get more runs,
    /// reads become slower and space is not given back, and no writer waits for that: it is
    /// for a while in which the disk is needed for something else. Meanwhile [`Db::compact`]
    /// merges nothing.
    ///
    /// The guard keeps the database open, as a handle does. It ends with a panic, too.
    /// Where there are several, merges wait for the last.
    pub fn pause_merges(&self) -> MergePause {
        self.inner.pause_merges();
        MergePause {
            db: self.inner.clone(),
        }
    }

    /// Merges runs until no merge is worth it. Runs that merges left out, because they could not be
    /// read, are tried again.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] if a run still cannot be read. Everything else is merged
    /// then, and writes go on.
    pub fn compact(&self) -> Result<()> {
        self.inner.compact_all()
    }

    /// Reads every SSTable, and puts those that are damaged, missing or unreadable back from a backup
    /// of this database that has them whole, while readers and writers go on. A backup on the same
    /// file system shares the bytes, unless it was copied, and so the damage.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DiskFull`]; files that were restored before stay restored. A file
    /// that the backup does not have is no error: the report lists it.
    pub fn restore(&self, backup: impl AsRef<Path>) -> Result<RestoreReport> {
        maintenance::restore(&self.inner, backup.as_ref())
    }

    /// Lists what is lost of the damaged, missing and unreadable files of a table if no backup has
    /// them. Reads every file of the table, and changes nothing. A part counts as lost once it was read
    /// twice, past all caches.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such table; [`Error::Io`].
    pub fn list_lost(&self, keyspace: &str, table: &str) -> Result<LossReport> {
        maintenance::list_lost(&self.inner, keyspace, table)
    }

    /// Gives up what [`Db::list_lost`] has listed: writes what can be read of each of these files into
    /// new ones, which take its place, while readers and writers go on. So no read fails any more because
    /// of them, and their runs are merged again. Every version that can be read stays, for snapshots
    /// too. For the lost keys an older value shows, or none, as the newest version may be lost, or a
    /// deletion. The [holds](Keyspace::hold_snapshot) of the table go before.
    ///
    /// The damaged files get a name in the folder `damaged` of the database's directory, if they are
    /// files of that disk. Nothing reads them there; remove them at any time.
    ///
    /// `accepted` is [`LossReport::token`] of the list. Returns `None`, and gives up nothing, if another
    /// loss would be listed now. A file of which other keys are lost when it is read for the last time is
    /// not rewritten ([`FileLoss::is_rewritten`]).
    ///
    /// [`FileLoss::is_rewritten`]: crate::FileLoss::is_rewritten
    ///
    /// # Errors
    /// As [`Db::list_lost`]; [`Error::DiskFull`], [`Error::ReadOnly`]. Files that were rewritten before
    /// stay rewritten.
    pub fn rewrite_damaged(
        &self,
        keyspace: &str,
        table: &str,
        accepted: &str,
    ) -> Result<Option<LossReport>> {
        maintenance::rewrite_damaged(&self.inner, keyspace, table, accepted)
    }

    /// Makes a directory that opens as this database, with everything committed
    /// when the call began, snapshots included; what is committed meanwhile may
    /// be in it, as a prefix. SSTables are hard-linked, so within a file system
    /// this takes the space of the WAL only; across file systems they are copied.
    /// Every block is read and checked. [`BackupInfo::damaged`] lists the files that are damaged,
    /// missing or unreadable, and the backup is made nevertheless. Writers are not held up. What is
    /// interrupted does not open as a database.
    ///
    /// The directory may have an older backup of this database. Its SSTables are verified, and those
    /// that are whole stay; the rest and the log are linked or copied. The older backup is whole until
    /// the new one takes its place in one step, and only then are files removed. A backup with damage
    /// replaces no older one ([`BackupInfo::older_stays`]). Opening a backup for writing makes it a
    /// database of its own, which no other backup replaces.
    ///
    /// Links in a folder `.backup-1` (or another number) of the database's directory keep the files
    /// meanwhile, so the log is trimmed and runs are merged as always. Where files cannot be
    /// linked, the log grows until the backup ends.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a directory that has something else in it, also a backup of this
    /// database before that was put back to an earlier state;
    /// [`Error::Locked`] for one that another process or thread is filling or reading;
    /// [`Error::ReadOnly`] after a failed write; [`Error::DiskFull`], also when the disk of the
    /// database is about to be full; [`Error::Io`].
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupInfo> {
        self.backup_with_progress(dir, &mut |_| ())
    }

    /// [`Db::backup`] that reports its progress after each block.
    ///
    /// # Errors
    /// As there.
    pub fn backup_with_progress(
        &self,
        dir: impl AsRef<Path>,
        progress: &mut dyn FnMut(MaintenanceProgress),
    ) -> Result<BackupInfo> {
        let mut step = |now| {
            progress(now);
            ControlFlow::Continue(())
        };
        let mut backup = self.start_backup(dir)?;
        let _copied = backup.copy(&mut step)?;
        let info = backup.finish(&mut step)?;
        Ok(info.expect("the step does not break"))
    }

    /// Starts a backup that its caller can pace and cancel: captures the state, and links the
    /// files. [`Backup::copy`] and then [`Backup::finish`] do the rest.
    ///
    /// # Errors
    /// As [`Db::backup`].
    pub fn start_backup(&self, dir: impl AsRef<Path>) -> Result<Backup<'_>> {
        Backup::start(&self.inner, dir.as_ref())
    }

    /// Returns the options of a [`SortedWriter`] for files that this database ingests: on its disk,
    /// so with the modes of its files, and of their size.
    ///
    /// [`SortedWriter`]: crate::SortedWriter
    pub fn sorted_writer_options(&self) -> SortedWriterOptions {
        SortedWriterOptions::from(&self.inner.options)
    }

    /// Returns a check of the SSTable whose last check is the longest ago; `None` if no file is due,
    /// or another check is under way. The caller calls [`FileCheck::read`], then [`FileCheck::finish`].
    /// Each file is due once in the time `every`, and the checks are spread over that time. So a
    /// caller looks for the next one every minute or so, and at once after a check.
    ///
    /// The file `CHECKS` in the directory has the times of the checks, so that a restart does not
    /// begin anew. Files that are in quarantine or cannot be opened are not checked, and those of
    /// runs that merges leave out wait as these do.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # db.keyspace("app")?.table("users", Default::default())?.put(b"ada", b"1815")?;
    /// # db.flush()?;
    /// use std::{ops::ControlFlow, time::Duration};
    ///
    /// // With a time that is over for every file.
    /// let mut check = db.next_file_check(Duration::ZERO)?.expect("a file is due");
    /// check.read(&mut |_bytes| ControlFlow::Continue(()));
    /// assert!(check.finish()?);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OpenedReadOnly`]; [`Error::Io`], [`Error::DiskFull`] for the file `CHECKS`.
    pub fn next_file_check(&self, every: Duration) -> Result<Option<FileCheck<'_>>> {
        self.inner.next_file_check(every)
    }

    /// Counts what the snapshots of a keyspace, or of all keyspaces, pin: each alone and all
    /// together. Exact in bytes of keys and values, by one pass over the versions of each table
    /// that leaves the block cache alone. The files of a table cannot go while the pass reads it.
    ///
    /// `step` is called every few blocks with the bytes that were read. It may wait, to slow the
    /// pass down. It ends the pass by [`ControlFlow::Break`], and then the result is `None`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such keyspace; errors of reading the tables.
    pub fn snapshot_pins(
        &self,
        keyspace: Option<&str>,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<SnapshotPins>> {
        if let Some(name) = keyspace {
            self.inner.find_keyspace(name)?;
        }
        self.inner.snapshot_pins(keyspace, step)
    }

    /// What the database consists of, and what it has done since it was opened.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns what is wrong with the database. Unlike [`Db::stats`] it does
    /// not look at the disk, and takes little time.
    pub fn health(&self) -> Health {
        self.inner.health()
    }

    /// Measures requests from now on, for as long as the meter lives: their number,
    /// their latencies, their bytes. That costs those that are measured two looks at the
    /// clock.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let table = db.keyspace("k")?.table("t", Default::default())?;
    /// let mut meter = db.meter();
    /// table.put(b"ada", b"1815")?;
    /// let writes = meter.take().writes;
    /// assert_eq!((writes.count(), writes.bytes()), (1, 7));
    /// assert!(writes.quantile_us(0.99).unwrap() > 0.0);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn meter(&self) -> Meter {
        Meter::new(&self.inner.metering)
    }

    /// Verifies every file of the database as it is now: see
    /// [`Db::verify_all`].
    ///
    /// # Errors
    /// [`Error::Corruption`] names the first thing that is wrong.
    pub fn verify(&self) -> Result<VerifyReport> {
        let report = self.verify_all(|_| ())?;
        match report.findings.first() {
            Some(first) => Err(Error::corruption(
                &first.path,
                first.offset,
                first.detail.clone(),
            )),
            None => Ok(report),
        }
    }

    /// Verifies every file of the database as it is now, past every cache, and
    /// goes on behind what it finds: each SSTable's checksums, order, bounds and
    /// filter; the runs they make up; the snapshots; the log. Cost: every file
    /// read once, while the database goes on working. The quarantine of a file that is
    /// whole after all ends. No file is removed meanwhile, and
    /// no segment of the log.
    ///
    /// It calls `progress` after each block of an SSTable and each file, and drops it before it
    /// releases the files and the log. The release takes locks for which writers wait: if `progress`
    /// lowers the priority of this thread, its drop has to raise it again.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] after a failed write. What is wrong with the files is
    /// in the report.
    pub fn verify_all(
        &self,
        mut progress: impl FnMut(MaintenanceProgress),
    ) -> Result<VerifyReport> {
        let verified = self.verify_while(move |now| {
            progress(now);
            ControlFlow::Continue(())
        });
        Ok(verified?.expect("the step does not break"))
    }

    /// Verifies every file as [`Db::verify_all`] does, and calls `step` in place of `progress`; `step`
    /// may wait. Returns `None` as soon as `step` breaks. The quarantines that have ended by then stay
    /// ended.
    ///
    /// # Errors
    /// As [`Db::verify_all`].
    pub fn verify_while(
        &self,
        mut step: impl FnMut(MaintenanceProgress) -> ControlFlow<()>,
    ) -> Result<Option<VerifyReport>> {
        let lifted = self.inner.lift_quarantines()?;
        let capture = self.inner.capture()?;
        let report = verify_state(
            &self.inner.options,
            self.inner.dir(),
            &capture.state,
            &capture.segments,
            &mut step,
        );
        drop(step);
        Ok(report.map(|report| VerifyReport { lifted, ..report }))
    }
}

/// No merge begins while it lives: see [`Db::pause_merges`].
#[derive(Debug)]
#[must_use = "merges go on when it is dropped"]
pub struct MergePause {
    db: Arc<DbInner>,
}

impl Drop for MergePause {
    fn drop(&mut self) {
        self.db.resume_merges();
    }
}

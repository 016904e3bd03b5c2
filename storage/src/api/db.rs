//! The handle on a database.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Keyspace, SortedWriterOptions, Transaction, View, WriteBatch};
use crate::db::{DbInner, Event, FileCheck, Health, LargeGroup, SnapshotPins};
use crate::error::{Error, Result};
use crate::maintenance::{
    self, Backup, BackupInfo, LossReport, MaintenanceProgress, RestoreReport, RestoreStep,
    SpaceWatch, VerifyReport, has_database,
};
use crate::meter::Meter;
use crate::options::{Options, WriteOptions};
use crate::stats::Stats;

/// A database: keyspaces of tables in one directory, with one log and one order
/// of commits.
///
/// Clones share one open database. It closes when the last handle on it is dropped; keyspaces,
/// tables, snapshots, views and iterators are handles, too. A drop ignores errors: call
/// [`Db::sync`] before it to see them.
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
    /// Returns whether a directory has a database, which may be damaged or in use. The unfinished copy that
    /// a backup or a repair makes is no database: opening it fails with [`Error::Incomplete`], or with
    /// [`Error::Locked`] while the backup or the repair goes on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn exists(dir: impl AsRef<Path>, options: &Options) -> Result<bool> {
        has_database(&*options.disk, dir.as_ref())
    }

    /// Opens the database of a directory, or creates one there ([`Options::create_if_missing`]),
    /// and recovers it from a crash.
    ///
    /// # Errors
    /// [`Error::NoDatabase`], [`Error::Locked`], [`Error::Corruption`], [`Error::Incomplete`],
    /// [`Error::UnsupportedFormat`] or [`Error::Io`]. None of these loses data.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let inner = DbInner::open(dir.as_ref(), options)?;
        Ok(Self { inner })
    }

    /// Opens the database of a directory for reading only. Writes nothing at all, not even a lock
    /// file, so the directory may be read-only. Any number of processes may have the database open
    /// for reading at once. Replays the log into memory. Calls that would write fail with
    /// [`Error::OpenedReadOnly`].
    ///
    /// The handle shows the database as it was when it was opened. While the handle lives, no
    /// process can open the database for writing. In a directory without a `LOCK` file, for example
    /// a plain copy, only the directory itself is locked. On NFS this lock keeps away writers of
    /// the same machine only: the caller must keep away all others.
    ///
    /// If the directory is moved away while the handle lives, or another directory is put in its
    /// place, reads that have to open a file fail: the files at this path are not those of this
    /// database any more.
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
    /// [`Error::BeingWritten`] while the database is open for writing; otherwise as [`Db::open`].
    /// [`Options::create_if_missing`] has no effect.
    pub fn open_read_only(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let inner = DbInner::open_read_only(dir.as_ref(), options)?;
        Ok(Self { inner })
    }

    /// Returns the path of the directory, as the caller passed it when the database was opened.
    pub fn dir(&self) -> &Path {
        self.inner.dir()
    }

    /// Returns the keyspace of this name; creates it if it is absent.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.inner.open_or_create_keyspace(name)?;
        Ok(Keyspace::new(self.inner.clone(), name))
    }

    /// Returns the keyspace of this name.
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

    /// Returns the names of all keyspaces, ascending.
    pub fn keyspaces(&self) -> Vec<String> {
        self.inner.catalog().keyspace_names()
    }

    /// Calls `listener` with each later [`Event`]. `listener` must neither wait nor call the
    /// database, because it is called within writes and other operations, which may hold a lock.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// use std::time::Duration;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// db.on_event(move |event| {
    ///     if let ebb_storage::Event::SnapshotExpired { keyspace, name } = event {
    ///         drop(sender.send(format!("{keyspace}@{name}")));
    ///     }
    /// });
    /// let options = ebb_storage::SnapshotOptions {
    ///     expires_in: Some(Duration::from_millis(1)),
    ///     ..Default::default()
    /// };
    /// app.create_snapshot_with("job-7", options)?;
    /// assert_eq!(receiver.recv().unwrap(), "app@job-7");
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn on_event(&self, listener: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        self.inner.events.add(listener);
    }

    /// Calls `listener` with each group ([`MergeOperator::group`]) for which a flush or a merge
    /// writes more than `above_bytes` of keys and values. Each merge that rewrites the group
    /// reports it again, even if the output is not installed in the end. If several parts of a
    /// merge write a group, the bytes of all of them count, except those from before a restart.
    /// `listener` must neither wait nor call the database.
    ///
    /// [`MergeOperator::group`]: crate::MergeOperator::group
    pub fn on_large_group(
        &self,
        above_bytes: u64,
        listener: impl Fn(&LargeGroup<'_>) + Send + Sync + 'static,
    ) {
        self.inner.group_listeners.add(above_bytes, listener);
    }

    /// Commits a batch: all of it becomes visible at once, and survives a crash
    /// whole or not at all, over all its tables.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key, value or batch that is too large, an operand for a table
    /// without a merge operator, or a table of another database; [`Error::NotFound`] for a table that
    /// was dropped; [`Error::DiskFull`], [`Error::LowSpace`], [`Error::NoDescriptor`]: nothing is
    /// written.
    /// [`Error::ReadOnly`] after a failed write or fsync: whether the batch survives
    /// is then known only after reopening.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Commits a batch as [`Db::write`] does, with options.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.check_database(&batch)?;
        let (payload, tables) = batch.into_parts();
        self.inner.write(payload, &tables, options)
    }

    /// Commits a batch as [`Db::write_with`] does, even on a full disk: the batch is accepted below
    /// the low-water mark ([`Options::low_water_bytes`]), and may use the space that the database
    /// holds back (the file `RESERVE`). Use it only for small batches: those that free space, and
    /// those that must be written before space can be freed. A table that the batch truncates, by a
    /// range delete of all keys, is flushed soon, even if other flushes find no space. So its files
    /// are removed without another write.
    ///
    /// # Errors
    /// As [`Db::write`]; [`Error::DiskFull`] only if the space that is held back does not suffice, or
    /// if many truncations of a table wait for space already.
    pub fn write_freeing(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.check_database(&batch)?;
        let (payload, tables) = batch.into_parts();
        self.inner.write_freeing(payload, &tables, options)
    }

    /// Returns the low-water mark, in bytes: the free space that writes and merges leave on the
    /// disk of the database. It follows from [`Options::low_water_bytes`] and the size of the
    /// manifest. A program that also uses this disk for less important data should leave more bytes
    /// free than the mark, so that the database refuses no write because of this data.
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

    /// Returns a read view: all tables at this instant, for as long as the view lives.
    pub fn view(&self) -> View {
        View::now(self.inner.clone())
    }

    /// Begins a transaction, which reads at this instant.
    pub fn begin(&self) -> Transaction {
        self.begin_with(WriteOptions::default())
    }

    /// Begins a transaction as [`Db::begin`] does, with options for its commit.
    pub fn begin_with(&self, options: WriteOptions) -> Transaction {
        Transaction::begin(self.inner.clone(), options)
    }

    /// Returns the time by which readers that begin now judge expiry, in milliseconds since the
    /// Unix epoch. If the clock of [`Options::clock`] is set back while the database is open, this
    /// time stays where it was until the clock has caught up. Count expiries from this time, not
    /// from a clock of your own: an expiry that is counted from a clock that was set back may lie
    /// before this time, and then the entry has already expired when it is written.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use std::sync::Arc;
    /// # use ebb_storage::{Db, ManualClock, Options};
    /// let clock = ManualClock::at_ms(5_000);
    /// let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
    /// let db = Db::open(dir.path(), options)?;
    /// assert_eq!(db.now_ms(), 5_000);
    /// clock.set_ms(3_000);
    /// assert_eq!(db.now_ms(), 5_000);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    /// Returns the id of the database, 32 hexadecimal digits. No other database has the same id,
    /// not even a copy that a backup or a repair makes.
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

    /// Syncs the log. Once this returns, everything written before the call survives a crash of the
    /// machine.
    pub fn sync(&self) -> Result<()> {
        self.inner.wal.sync_all()
    }

    /// Writes all memtables to SSTables.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all()
    }

    /// Prevents merges from starting while the guard lives, for a time in which other work needs
    /// the disk. Merges under way go on, and [`Stats::compactions_running`] counts them. Flushes go
    /// on, too, so tables get more runs, reads become slower and no space is freed, but no writer
    /// waits for merges. Meanwhile [`Db::compact`] merges nothing.
    ///
    /// The guard keeps the database open, as a handle does. A panic drops the guard, too. With
    /// several guards, merges start again after the last one is dropped.
    pub fn pause_merges(&self) -> MergePause {
        self.inner.pause_merges();
        MergePause {
            db: self.inner.clone(),
        }
    }

    /// Merges runs until no merge is worth it. Also retries runs that earlier merges left out
    /// because they could not be read.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] if a run still cannot be read: all other merges are done
    /// then, and writes go on. [`Error::DiskFull`] once only merges are left that find no space for
    /// their output. Other errors of merges end the call at once.
    pub fn compact(&self) -> Result<()> {
        self.inner.compact_all()
    }

    /// Reads every SSTable, and restores those that are damaged, missing or unreadable from a
    /// backup of this database that has them whole, while readers and writers go on. A backup on
    /// the same file system shares the bytes, and so the damage, unless it was copied.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such directory; [`Error::InvalidRequest`] for one that is no
    /// backup; [`Error::Io`], [`Error::ReadOnly`], and [`Error::DiskFull`], also when the disk is about to be
    /// full ([`Db::watch_space`]): files that were restored before stay restored. It is no error if the backup
    /// lacks a file, or if the backup's copy is damaged or cannot be read: the report lists the file.
    pub fn restore(&self, backup: impl AsRef<Path>) -> Result<RestoreReport> {
        let restored = self.restore_while(backup, |_| ControlFlow::Continue(()));
        Ok(restored?.expect("nothing stops it"))
    }

    /// Restores files as [`Db::restore`] does, but can be paced and stopped. Calls `step` after each block
    /// that it reads, and before it takes locks for which requests wait: see [`RestoreStep`]. Returns
    /// `None` as soon as `step` breaks. Files that were restored before stay restored. Drops `step` before
    /// it removes the replaced files, which takes locks, too.
    ///
    /// A file is first read without a change of the system's cache, so that other reads stay fast. Only a
    /// file that is damaged there is read again from the disk.
    ///
    /// # Errors
    /// As [`Db::restore`].
    pub fn restore_while(
        &self,
        backup: impl AsRef<Path>,
        step: impl FnMut(RestoreStep) -> ControlFlow<()>,
    ) -> Result<Option<RestoreReport>> {
        maintenance::restore(&self.inner, backup.as_ref(), step)
    }

    /// Lists the data that is lost with the damaged, missing and unreadable files of a table if no
    /// backup has them. Reads every file of the table, and changes nothing. A block counts as lost
    /// only if two readings of it, both past all caches, failed.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such table; [`Error::Io`].
    pub fn list_lost(&self, keyspace: &str, table: &str) -> Result<LossReport> {
        maintenance::list_lost(&self.inner, keyspace, table)
    }

    /// Makes the loss of the data that [`Db::list_lost`] has listed permanent, so that the table works
    /// again, while readers and writers go on. Replaces each damaged file of the list by new files with
    /// the readable part of its data, or removes the file from the table if nothing in this part is
    /// needed. Afterwards no read fails because of these files, and merges no longer leave out their
    /// runs. Every readable version stays, for snapshots too. A key whose newest version is lost shows
    /// an older value, or none; if a deletion is lost, the deleted value shows again. Before a file is
    /// replaced, the [holds](Keyspace::hold_snapshot) of the table are released.
    ///
    /// A damaged file is kept in the folder `damaged` of the database's directory, if it can be
    /// linked there. Nothing reads the files of this folder; remove them at any time.
    ///
    /// `accepted` is the [`LossReport::token`] of the list. Returns `None`, and changes nothing, if
    /// [`Db::list_lost`] would return another list now. If it would return an empty list now, the
    /// returned report is empty, whatever `accepted` is. Each file is read once more to be rewritten.
    /// If the lost keys are then not those of the list, the file stays unchanged
    /// ([`FileLoss::is_rewritten`]).
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

    /// Makes a backup: a directory that opens as this database, with everything that was committed
    /// when the call began, snapshots included, and perhaps a prefix of the later commits. SSTables
    /// are hard-linked, so within a file system this takes the space of the WAL only; across file
    /// systems they are copied. Every block is read and checked. [`BackupInfo::damaged`] lists the
    /// files that are damaged, missing or unreadable; they do not fail the backup. Writers are not
    /// held up. An interrupted backup does not open as a database.
    ///
    /// The directory may have an older backup of this database. Its SSTables are verified, and those
    /// that are whole stay; all others and the log are linked or copied. The older backup is whole until
    /// the new one takes its place in one step, and only then are files removed. A backup with damage
    /// replaces no older one ([`BackupInfo::older_stays`]). Opening a backup for writing makes it a
    /// database of its own, which no other backup replaces.
    ///
    /// Links in a folder `.backup-1` (or another number) of the database's directory keep the files
    /// meanwhile, so the log is trimmed and runs are merged as always. Where files cannot be
    /// linked, the log grows until the backup ends.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a directory with other content, or with a backup from before
    /// this database was put back to an earlier state; [`Error::Locked`] for a directory that
    /// another process or thread is filling or reading; [`Error::ReadOnly`] after a failed write;
    /// [`Error::DiskFull`], also when the disk of the database is about to be full; [`Error::Io`].
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupInfo> {
        self.backup_with_progress(dir, &mut |_| ())
    }

    /// Makes a backup as [`Db::backup`] does, and calls `progress` after each piece of a file.
    ///
    /// # Errors
    /// As [`Db::backup`].
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

    /// Returns the options of a [`SortedWriter`] for files that this database will ingest. Two of
    /// them are those of this database: the file system, so that the files get the same permissions
    /// as the database's own files, and the file size. All other options have their defaults.
    ///
    /// [`SortedWriter`]: crate::SortedWriter
    pub fn sorted_writer_options(&self) -> SortedWriterOptions {
        SortedWriterOptions::from(&self.inner.options)
    }

    /// Returns a check of the SSTable whose last check is the longest ago; `None` if no file is due,
    /// another check is under way, or the database accepts no writes after a failed one. The caller
    /// calls [`FileCheck::read`], then [`FileCheck::finish`].
    /// Each file is due once in the time `every`, and the checks are spread over that time. So a
    /// caller looks for the next one every minute or so, and at once after a check.
    ///
    /// The file `CHECKS` in the directory has the times of the checks, so that a restart does not
    /// begin anew. Files that are in quarantine or cannot be opened are not checked. While merges
    /// leave out a run because it could not be read, the files of this run are not checked either.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # db.keyspace("app")?.table("users", Default::default())?.put(b"ada", b"1815")?;
    /// # db.flush()?;
    /// use std::{ops::ControlFlow, time::Duration};
    ///
    /// // Every file is due after a time of zero.
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

    /// Counts the bytes that the snapshots and holds of a keyspace, or of all keyspaces, pin (keep
    /// merges from freeing): those that each of them pins alone, and those that all of them pin
    /// together. Reads all versions of each table once, without filling the block cache, so the bytes
    /// of keys and values are exact. The files of a table cannot be removed while the pass reads it.
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

    /// Returns the structure of the database, and counters since it was opened. The cost grows with
    /// the number of tables, runs and snapshots together. [`Table::stats`](crate::Table::stats) and
    /// [`Db::file_bytes`] return parts of these statistics at a lower cost.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the bytes of the files of all tables, and of dropped tables that snapshots still
    /// cover.
    pub fn file_bytes(&self) -> u64 {
        self.inner.file_bytes()
    }

    /// Returns the problems of the database. Unlike [`Db::stats`], does not access the disk, and
    /// takes little time.
    pub fn health(&self) -> Health {
        self.inner.health()
    }

    /// Returns the damage to a copy of the manifest or of `CURRENT` that the opening of the database found. The
    /// content was read from the other copy, so nothing is lost. Unless the disk was full or the database was
    /// opened only to be read, both copies were then written again. A kill of the process while it created the
    /// database also leaves one copy of `CURRENT`.
    pub fn manifest_damage(&self) -> Vec<Error> {
        self.inner.manifest_damage()
    }

    /// Returns a meter. While the meter lives, it measures requests: their number, latencies and bytes.
    /// Each measured request reads the clock twice. So at a high rate (some 40,000 requests per second
    /// or more) only a random sample is measured, and the results are scaled up.
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
    /// [`Error::Corruption`] for the first damage.
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

    /// Verifies every file of the database as it is now, past every cache, and goes on after
    /// damage: each SSTable's checksums, order, bounds and filter; the runs of SSTables; the
    /// snapshots; the log; both copies of the manifest and of `CURRENT`. First reads the files in
    /// quarantine, and ends the quarantine of each that is whole. Then reads the files, while the
    /// database goes on working: first the log, which is not shortened until then, then the SSTables, of
    /// which none is removed until the end. If the log exceeds [`Options::wal_bytes_max`] before it was
    /// read, it is shortened, and the rest of it is not checked: see [`VerifyReport::wal_unchecked_bytes`].
    /// An SSTable is read again if the first reading finds damage. At the end, the damaged SSTables go into
    /// quarantine.
    ///
    /// Calls `progress` before the manifest is read, and then after each block of an SSTable, each
    /// piece of the log and each file. Drops `progress` before the release of the files and the log,
    /// which takes locks for which writers wait: if `progress` lowers the priority of this thread, its
    /// drop has to raise it again.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] after a failed write; [`Error::DiskFull`] when the disk is about to be full,
    /// because the verification keeps files that the database does not need any more. Damage of files is
    /// in the report.
    pub fn verify_all(
        &self,
        mut progress: impl FnMut(MaintenanceProgress),
    ) -> Result<VerifyReport> {
        let step = move |now| {
            progress(now);
            ControlFlow::Continue(())
        };
        let verified = self.verify_while(|| true, step);
        Ok(verified?.expect("nothing stops it"))
    }

    /// Verifies every file as [`Db::verify_all`] does, but can be stopped. First ends the
    /// quarantines that can end, and calls `goes_on` before each file in quarantine. Then verifies
    /// the files, and calls `step` in place of `progress`; `step` may wait. Returns `None` as soon
    /// as `goes_on` returns false or `step` breaks. The quarantines that have ended by then stay
    /// ended.
    ///
    /// `goes_on` must not lower the priority of the thread: a quarantine ends under locks for which
    /// writers wait.
    ///
    /// # Errors
    /// As [`Db::verify_all`].
    pub fn verify_while(
        &self,
        mut goes_on: impl FnMut() -> bool,
        step: impl FnMut(MaintenanceProgress) -> ControlFlow<()>,
    ) -> Result<Option<VerifyReport>> {
        maintenance::verify_online(&self.inner, &mut goes_on, step)
    }

    /// Returns a watch over the free space on the disk of the database, for work that keeps files or fills
    /// the disk. The work ends once [`SpaceWatch::check`] fails: when less than twice
    /// [`Options::low_water_bytes`] is free, or less than half of the space that is free now, if that is
    /// less. A backup, a restore and a verification look by themselves whenever they have read a part of a
    /// file. Where they wait, in the callbacks of their caller, the caller looks.
    pub fn watch_space(&self) -> SpaceWatch {
        SpaceWatch::new(&self.inner)
    }
}

/// A guard that keeps merges from starting: see [`Db::pause_merges`].
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

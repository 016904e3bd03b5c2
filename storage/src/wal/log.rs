//! The writing side: records are pushed in commit order, and reach the file and
//! the disk in groups.
//!
//! A push copies the record into a buffer (no system call). The first thread that then needs
//! its record written becomes the *writer* unless there is one: it takes the whole buffer and
//! writes it with one call, for all who pushed meanwhile. Syncing works the same way beside
//! it, so that an fsync does not hold up those who only need the bytes written.
//!
//! A group that finds no space is refused, and so is all that was pushed behind
//! it meanwhile: the segment is cut back, durably, to where it was good, so that
//! nothing refused can come back after a crash, and the next push starts afresh.
//! A group whose segment cannot be made is refused, too: for want of space, of a file
//! descriptor or of memory. After any other failed write, or a failed fsync, nothing
//! more is ever written: what the disk holds is uncertain (an fsync that fails
//! may have dropped the pages).

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::bounded_holds::{BoundedHold, BoundedHolds};
use super::progress::{Place, Progress};
use super::record::RecordHeader;
use super::segment_files::{SegmentFiles, WriteFailure};
use crate::error::{Error, Result};
use crate::key::{FileNumber, SeqNo};
use crate::log_store::LogStore;
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, spin_until};

/// A buffer of at most this capacity, in bytes, is kept for the next group of records. A larger one
/// is freed, so that a single large value does not occupy the memory for ever.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// A position in the log, in bytes of records since the start of the log, over all its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Lsn(pub(crate) u64);

/// The end of a pushed record, counted in the bytes of all records that were ever pushed. Refused records
/// count too, so that no two records share a position, though they may share an [`Lsn`]. The caller must wait
/// for it once, with [`Wal::write_to`], [`Wal::sync_to`] or [`Wal::sync_group`].
#[derive(Debug)]
#[must_use = "no other thread waits for the record, or gets the error if it is refused"]
pub(crate) struct Position(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct Wal {
    files: SegmentFiles,
    buffer: Mutex<Buffer>,
    progress: Mutex<Progress>,
    progressed: Condvar,
    /// The LSN of `Progress::durable`, readable without the lock.
    durable_lsn: AtomicU64,
    /// `Progress::writing`, readable without the lock.
    is_writing: AtomicBool,
    /// The number of guards that forbid the removal of segments, such as that of a backup. Not guarded
    /// by the lock of `progress`: a thread of low priority, which must not hold that lock, may drop a
    /// guard.
    holds: AtomicU64,
    /// The guards that do so only up to a size of the log, such as that of a verification.
    bounded_holds: BoundedHolds,
    listener: Listener,
}

/// A change in the ability of the log to accept records.
#[derive(Debug)]
pub(crate) enum WalEvent<'a> {
    /// A failure stopped all writes, with this cause. It happens once.
    Failed(&'a Arc<str>),
    /// Records were refused because there was no space in the named file or for it. After this
    /// event, further refusals are not reported until [`Self::DiskFreed`].
    DiskFull(&'a Path),
    /// Records were written, the first after records were refused for lack of space.
    DiskFreed,
}

type Callback = Box<dyn Fn(WalEvent<'_>) + Send + Sync>;

/// The callback for events of the log.
#[derive(Default)]
struct Listener(OnceLock<Callback>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// The [`Position`] of the last pushed record.
    end: u64,
    /// Number of records in `bytes`.
    records: u64,
    /// Whether a failure has ended all writes: records pushed from then on are dropped.
    closed: bool,
}

impl Wal {
    /// Continues the log of `dir` after `end` with the segment `next`; `old` are the existing
    /// segments (number, bytes), ascending. A segment is opened by the first write, never by this
    /// call.
    pub(crate) fn new(
        log_store: Arc<dyn LogStore>,
        dir: &Path,
        segment_bytes_max: u64,
        old: Vec<(FileNumber, u64)>,
        next: FileNumber,
        end: Lsn,
    ) -> Self {
        let bytes = old.iter().map(|(_, bytes)| bytes).sum();
        let end = Place {
            pushed: end.0,
            lsn: end.0,
        };
        Self {
            files: SegmentFiles::new(log_store, dir, segment_bytes_max, next, bytes),
            buffer: Mutex::new(Buffer {
                bytes: Vec::new(),
                end: end.pushed,
                records: 0,
                closed: false,
            }),
            progress: Mutex::new(Progress::new(end, old, next)),
            progressed: Condvar::new(),
            durable_lsn: AtomicU64::new(end.lsn),
            is_writing: AtomicBool::new(false),
            holds: AtomicU64::new(0),
            bounded_holds: BoundedHolds::new(),
            listener: Listener::default(),
        }
    }

    /// Sets the callback for events of the log. The callback runs while locks are held. Later calls
    /// of this method have no effect.
    pub(crate) fn on_event(&self, hear: impl Fn(WalEvent<'_>) + Send + Sync + 'static) {
        drop(self.listener.0.set(Box::new(hear)));
    }

    fn report(&self, event: WalEvent<'_>) {
        if let Some(hear) = self.listener.0.get() {
            hear(event);
        }
    }

    /// Appends a record to the buffer, and returns the position after the record. The caller holds
    /// the order lock, so that the log is in commit order. After a failure of the log the record is
    /// dropped, and the wait for the position returns the failure.
    pub(crate) fn push(&self, first: SeqNo, count: u32, payload: &[u8]) -> Position {
        let durable = self.durable_lsn.load(Ordering::Relaxed);
        let mut buffer = self.buffer.lock().unwrap();
        let durable = mutation::replace(durable, Mutation::OverestimateDurable, buffer.end);
        if buffer.closed {
            // The wait for this position returns the failure.
            return Position(buffer.end);
        }
        let before = buffer.bytes.len();
        RecordHeader::encode(&mut buffer.bytes, durable, first, count, payload);
        buffer.end += (buffer.bytes.len() - before) as u64;
        buffer.records += 1;
        Position(buffer.end)
    }

    /// Returns once the record that ends at `position`, and all records before it that were not
    /// refused, are in the file: they then survive a crash of the process.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there was no space for the record, [`Error::NoDescriptor`] when no
    /// segment could be opened for it or the system had no memory for it: the record is nowhere in
    /// the log then.
    /// [`Error::ReadOnly`] when a write or an fsync failed, now or earlier.
    pub(crate) fn write_to(&self, position: Position) -> Result<()> {
        self.written(position).map(drop)
    }

    /// Returns once the record that ends at `position`, and all records before it that were not
    /// refused, are durable: they then survive a crash of the machine.
    ///
    /// # Errors
    /// As [`Wal::write_to`].
    pub(crate) fn sync_to(&self, position: Position) -> Result<()> {
        let end = position.0;
        let progress = self.written(position)?;
        self.sync_up_to(end, progress)
    }

    /// Makes several records durable as [`Wal::sync_to`] does, with one sync for all. Returns the
    /// outcome of each, in their order.
    pub(crate) fn sync_group(&self, positions: Vec<Position>) -> Vec<Result<()>> {
        let end = positions.iter().map(|position| position.0).max();
        let Some(end) = end else { return Vec::new() };
        let synced = self
            .settled(end)
            .and_then(|progress| self.sync_up_to(end, progress));
        let mut progress = self.progress.lock().unwrap();
        let of = |position: Position| match (&synced, progress.take_refusal(position.0)) {
            (Err(e), _) => Err(e.clone()),
            (Ok(()), Some(refusal)) => Err(refusal),
            (Ok(()), None) => Ok(()),
        };
        positions.into_iter().map(of).collect()
    }

    /// Returns once everything that was pushed before `end`, and not refused, is durable.
    ///
    /// A sync that fails for lack of space stops the log, as any failed sync does. The system may
    /// have dropped pages of records that were acknowledged once they were written, so cutting
    /// records off is no remedy; nor is another sync, which would succeed without these pages.
    fn sync_up_to<'a>(&'a self, end: u64, mut progress: MutexGuard<'a, Progress>) -> Result<()> {
        loop {
            if progress.durable.pushed >= end {
                return Ok(());
            }
            progress.check()?;
            if progress.syncing || progress.writing {
                // A writer may be about to close the segment (and sync it).
                progress = self.wait(progress);
                continue;
            }
            // There is no writer, so the open segment is in its place. There is an open segment,
            // because closed segments are durable and `durable` is behind.
            let syncer = progress
                .segment
                .as_ref()
                .expect("undurable bytes are in the open segment")
                .syncer
                .clone();
            let target = progress.written;
            progress.syncing = true;
            drop(progress);
            let result = syncer.sync();
            progress = self.progress.lock().unwrap();
            progress.syncing = false;
            match result {
                Ok(()) => {
                    progress.syncs += 1;
                    self.set_durable(&mut progress, target);
                }
                Err(_) if mutation::is(Mutation::GoOnAfterFailedSync) => {}
                Err(e) => self.fail(&mut progress, &format!("fsync of the WAL failed: {e}")),
            }
            self.wake(&progress);
        }
    }

    /// Makes everything durable that has been pushed so far. Refused records are no error here:
    /// only the threads that pushed them get the error.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a write or an fsync failed, now or earlier.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let end = self.buffer.lock().unwrap().end;
        let progress = self.settled(end)?;
        self.sync_up_to(end, progress)
    }

    /// Closes the open segment and opens the next, so that all earlier ones can be deleted. Does
    /// nothing if the open segment is empty. If there is no space or no file descriptor for the next
    /// segment, this is no error: the next write tries again to open it.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a write or an fsync failed, now or earlier.
    pub(crate) fn roll(&self) -> Result<()> {
        let mut progress = self.progress.lock().unwrap();
        while progress.writing {
            progress = self.wait(progress);
        }
        progress.check()?;
        if progress
            .segment
            .as_ref()
            .is_none_or(|segment| segment.is_empty())
        {
            return Ok(());
        }
        let progress = self.write_group(progress, true)?;
        progress.check()
    }

    /// Returns the smallest segment number that a record pushed from now on can get.
    pub(crate) fn segment_number(&self) -> FileNumber {
        self.files.next_number()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Returns the bytes written since the log was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.files.written_bytes()
    }

    /// Returns the number of syncs of records since the log was opened. A sync counts once,
    /// however many threads waited for it.
    pub(crate) fn syncs(&self) -> u64 {
        self.progress.lock().unwrap().syncs
    }

    pub(crate) fn segments(&self) -> usize {
        let progress = self.progress.lock().unwrap();
        progress.closed.len() + usize::from(progress.segment.is_some())
    }

    /// Returns the number of the newest segment that certainly exists; if none does, the number of
    /// the next one.
    pub(crate) fn newest_segment(&self) -> FileNumber {
        let progress = self.progress.lock().unwrap();
        // The segment that a writer has taken out counts too: the result never goes back.
        let written = progress.written_segment.map(|(number, _)| number);
        let closed = || progress.closed.last().map(|(number, _)| *number);
        written.or_else(closed).unwrap_or(progress.next_segment)
    }

    /// Returns whether [`Self::delete_closed_below`] would delete anything: a closed segment is
    /// numbered below `floor`, and no guard keeps the segments.
    pub(crate) fn has_free_below(&self, floor: FileNumber) -> bool {
        let progress = self.progress.lock().unwrap();
        let mut closed = progress.closed.first().into_iter();
        closed.any(|(number, _)| *number < floor) && !self.is_held()
    }

    /// Deletes the closed segments numbered below `floor`, oldest first, so that no segment is ever
    /// missing between two others. While a [`SegmentHold`] or a [`BoundedHold`] keeps them, none is
    /// deleted; the next call after that deletes them.
    ///
    /// # Errors
    /// [`Error::DiskFull`] if there is no space to remove a segment; [`Error::Io`]. The segment
    /// stays, and the next call tries again.
    pub(crate) fn delete_closed_below(&self, floor: FileNumber) -> Result<()> {
        loop {
            let (number, bytes) = {
                let mut progress = self.progress.lock().unwrap();
                match progress.closed.first() {
                    Some(&(number, bytes)) if number < floor && !self.is_held() => {
                        progress.closed.remove(0);
                        (number, bytes)
                    }
                    _ => return Ok(()),
                }
            };
            if let Err(e) = self.files.remove(number, bytes) {
                let mut progress = self.progress.lock().unwrap();
                progress.closed.insert(0, (number, bytes));
                return Err(e);
            }
        }
    }

    /// Keeps all segments until the guard drops.
    ///
    /// A removal under way may still remove a segment that the manifest did not need when the removal
    /// began. So the caller reads the state of the manifest afterwards.
    pub(crate) fn hold_segments(&self) -> SegmentHold<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        SegmentHold(self)
    }

    /// Ends the [`BoundedHold`]s that exist. To be called when the log is longer than it may be.
    pub(crate) fn end_bounded_holds(&self) {
        self.bounded_holds.end();
    }

    /// Returns whether a [`SegmentHold`] or a [`BoundedHold`] keeps the segments.
    fn is_held(&self) -> bool {
        let is_held = self.holds.load(Ordering::Acquire) > 0 || self.bounded_holds.any();
        is_held && !mutation::is(Mutation::BackupHoldsNoLog)
    }

    /// Returns the number of the oldest segment that was not removed; if there is none, the number of the
    /// next one.
    pub(crate) fn oldest_segment(&self) -> FileNumber {
        let progress = self.progress.lock().unwrap();
        let closed = progress.closed.first().map(|(number, _)| *number);
        let written = progress.written_segment.map(|(number, _)| number);
        closed.or(written).unwrap_or(progress.next_segment)
    }

    /// Returns the segments, ascending, each with its length in bytes up to the end of the last
    /// record that was written: they contain everything acknowledged so far. The file of the last
    /// segment may be longer.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a write or an fsync failed earlier.
    pub(crate) fn written_segments(&self) -> Result<Vec<(FileNumber, u64)>> {
        let progress = self.progress.lock().unwrap();
        progress.check()?;
        let mut segments = progress.closed.clone();
        let last = segments.last().map(|(number, _)| *number);
        segments.extend(
            progress
                .written_segment
                .filter(|(open, _)| Some(*open) > last),
        );
        Ok(segments)
    }

    /// Waits until no write and no sync of the log is under way, or for `wait_max`; returns
    /// the time waited.
    pub(crate) fn wait_while_busy(&self, wait_max: Duration) -> Duration {
        let is_busy = |progress: &mut Progress| progress.writing || progress.syncing;
        let mut progress = self.progress.lock().unwrap();
        if !is_busy(&mut progress) {
            return Duration::ZERO;
        }
        let from = Instant::now();
        progress.waiting += 1;
        let waited = self
            .progressed
            .wait_timeout_while(progress, wait_max, is_busy);
        let (mut progress, _) = waited.unwrap();
        progress.waiting -= 1;
        from.elapsed()
    }

    /// Returns the cause of the failure that ended all writes; `None` without a failure.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.progress.lock().unwrap().failed.clone()
    }

    /// Makes the log refuse all records from now on, as after a failure with this cause.
    pub(crate) fn poison(&self, cause: &str) {
        let mut progress = self.progress.lock().unwrap();
        self.fail(&mut progress, cause);
        self.wake(&progress);
    }

    /// Waits until the record that ends at `position` is in the file. Returns the error if the record
    /// was refused.
    fn written(&self, position: Position) -> Result<MutexGuard<'_, Progress>> {
        let mut progress = self.settled(position.0)?;
        match progress.take_refusal(position.0) {
            Some(refusal) => Err(refusal),
            None => Ok(progress),
        }
    }

    /// Returns once every record up to the position `end` is in the file or refused.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a write or an fsync failed, now or earlier.
    fn settled(&self, end: u64) -> Result<MutexGuard<'_, Progress>> {
        let mut progress = self.progress.lock().unwrap();
        loop {
            // A failure refuses also what had been written before it: the commit is not
            // acknowledged, and only a reopening shows whether it survived.
            progress.check()?;
            if progress.written.pushed >= end {
                return Ok(progress);
            }
            if progress.writing {
                progress = match progress.waiting {
                    0 => self.spin_and_wait(progress),
                    _ => self.wait(progress),
                };
                continue;
            }
            progress = self.write_group(progress, false)?;
        }
    }

    /// Writes the pushed records. First closes the open segment if it is full or `closes` is true.
    /// The caller must be the only writer.
    ///
    /// # Errors
    /// The error of a sync that failed meanwhile. The outcome of the write itself is recorded in
    /// the progress.
    fn write_group<'a>(
        &'a self,
        mut progress: MutexGuard<'a, Progress>,
        closes: bool,
    ) -> Result<MutexGuard<'a, Progress>> {
        self.set_writing(&mut progress, true);
        let segment = progress.segment.take();
        // The syncer has its own handle, but must not sync a segment that
        // is being closed and count bytes of the next one as durable.
        while segment
            .as_ref()
            .is_some_and(|segment| closes || self.files.is_full(segment))
            && progress.syncing
        {
            progress = self.wait(progress);
        }
        if let Err(e) = progress.check() {
            // A sync that is tried again after a failed one may succeed without the data that
            // the first one lost.
            self.set_writing(&mut progress, false);
            progress.segment = segment;
            self.wake(&progress);
            return Err(e);
        }
        // Only a writer changes these two, so they stay valid without the lock.
        let written = progress.written;
        let next = progress.next_segment;
        let spare = std::mem::take(&mut progress.spare);
        drop(progress);

        // Only now, so that the group has all records that were pushed while this thread waited.
        let mut group = self.take_buffer(spare);
        let outcome = self
            .files
            .write_group(segment, closes, next, Lsn(written.lsn), &group.bytes);

        progress = self.progress.lock().unwrap();
        self.set_writing(&mut progress, false);
        // The segment was synced before it was closed, so all that was written before this group is
        // durable.
        if let Some(closed) = outcome.closed {
            progress.closed.push(closed);
            progress.syncs += 1;
            self.set_durable(&mut progress, written);
        }
        // A segment was begun, also if the group did not fit into it.
        if let Some(segment) = &outcome.segment
            && segment.number >= progress.next_segment
        {
            progress.next_segment = segment.number.next();
        }
        if let Some(segment) = &outcome.segment {
            progress.written_segment = Some((segment.number, segment.bytes));
        }
        progress.segment = outcome.segment;
        match outcome.result {
            Ok(()) => {
                progress.written = Place {
                    pushed: group.end,
                    lsn: written.lsn + group.bytes.len() as u64,
                };
                // A group without records needs no space.
                if group.records > 0 && std::mem::take(&mut progress.is_out_of_space) {
                    self.report(WalEvent::DiskFreed);
                }
            }
            Err(WriteFailure::Refused(error)) => self.refuse(&mut progress, &group, error),
            Err(WriteFailure::Failed(e)) => {
                self.fail(&mut progress, &format!("write to the WAL failed: {e}"));
            }
        }
        if group.bytes.capacity() <= SPARE_BYTES_MAX {
            group.bytes.clear();
            progress.spare = group.bytes;
        }
        self.wake(&progress);
        Ok(progress)
    }

    fn set_writing(&self, progress: &mut Progress, writing: bool) {
        progress.writing = writing;
        self.is_writing.store(writing, Ordering::Release);
    }

    /// Waits for the writer: spins for about as long as a write into the page cache takes, then
    /// sleeps until [`Wal::wake`]. Falling asleep takes longer than such a write, and so does
    /// waking, which costs the writer time. Only one thread may spin: others would take the
    /// writer's processor.
    fn spin_and_wait<'a>(&'a self, progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        drop(progress);
        let is_over = spin_until(|| !self.is_writing.load(Ordering::Acquire));
        let progress = self.progress.lock().unwrap();
        if is_over || !progress.writing {
            progress
        } else {
            self.wait(progress)
        }
    }

    /// Waits until [`Wal::wake`].
    fn wait<'a>(&self, mut progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        progress.waiting += 1;
        let mut progress = self.progressed.wait(progress).unwrap();
        progress.waiting -= 1;
        progress
    }

    /// Wakes the waiting threads, if there are any: an unneeded wake-up would still cost a
    /// system call on every commit.
    fn wake(&self, progress: &Progress) {
        if progress.waiting > 0 {
            self.progressed.notify_all();
        }
    }

    /// Returns the buffer of pushed records, and puts `empty` in its place for later ones.
    fn take_buffer(&self, empty: Vec<u8>) -> Buffer {
        let mut buffer = self.buffer.lock().unwrap();
        Buffer {
            bytes: std::mem::replace(&mut buffer.bytes, empty),
            records: std::mem::take(&mut buffer.records),
            ..*buffer
        }
    }

    /// Refuses a group of records for which there was no space or no descriptor, and the records
    /// pushed behind it. All records before the group are durable then: the segment was cut back to
    /// them and synced, or was synced when it was closed. But while another sync is under way, they
    /// count as durable only once that sync succeeds.
    fn refuse(&self, progress: &mut Progress, group: &Buffer, error: Error) {
        let mut buffer = self.buffer.lock().unwrap();
        buffer.bytes = Vec::new();
        let waiting = group.records + std::mem::take(&mut buffer.records);
        let to = buffer.end;
        drop(buffer);
        if waiting == 0 {
            return;
        }
        if let Error::DiskFull { path } = &error
            && !std::mem::replace(&mut progress.is_out_of_space, true)
        {
            self.report(WalEvent::DiskFull(path));
        }
        progress.refuse(to, waiting, error);
        // The system may have reported a failed write-back to a sync that is under way, and then
        // does not report it to the sync of the cut.
        if !progress.syncing {
            let written = progress.written;
            self.set_durable(progress, written);
        }
    }

    /// Makes the log refuse all records from now on. Locks the buffer while `progress` is locked;
    /// no other code takes the two locks in the opposite order.
    fn fail(&self, progress: &mut Progress, cause: &str) {
        if progress.failed.is_none() {
            let cause: Arc<str> = cause.into();
            progress.failed = Some(cause.clone());
            self.report(WalEvent::Failed(&cause));
        }
        let mut buffer = self.buffer.lock().unwrap();
        buffer.closed = true;
        buffer.bytes = Vec::new();
    }

    fn set_durable(&self, progress: &mut Progress, place: Place) {
        if place.pushed > progress.durable.pushed {
            progress.durable = place;
            self.durable_lsn.store(place.lsn, Ordering::Relaxed);
        }
    }
}

/// A guard that keeps all segments of the log from being deleted while it lives.
#[derive(Debug)]
pub(crate) struct SegmentHold<'a>(&'a Wal);

impl<'a> SegmentHold<'a> {
    /// Returns a guard in place of this one that keeps the segments only up to a size of the log.
    pub(crate) fn bounded(self) -> BoundedHold<'a> {
        // This guard drops after the new one is made.
        self.0.bounded_holds.hold()
    }
}

impl Drop for SegmentHold<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

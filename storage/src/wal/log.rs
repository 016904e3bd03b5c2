//! The writing side: records are pushed in commit order, and reach the file and
//! the disk in groups.
//!
//! A push copies the record into a buffer (no system call). Whoever then needs
//! it written becomes the *writer* unless there is one: it takes the whole
//! buffer and writes it with one call, for all who pushed meanwhile. Syncing
//! works the same way beside it, so that an fsync does not hold up those who
//! only need the bytes written.
//!
//! After a failed write or fsync nothing more is ever written: what the disk
//! holds is uncertain (an fsync that fails may have dropped the pages).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::record::{self, RecordHeader};
use crate::error::{Error, Result};
use crate::files::{self, FileNumber};
use crate::key::SeqNo;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::vfs::{SyncFile, Vfs, WriteFile};

/// A position in the log, in record bytes since its start (all segments).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Lsn(pub(crate) u64);

/// The log.
#[derive(Debug)]
pub(crate) struct Wal {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    segment_bytes_max: u64,
    buffer: Mutex<Buffer>,
    progress: Mutex<Progress>,
    progressed: Condvar,
    /// `Progress::durable`, readable without the lock.
    durable_lsn: AtomicU64,
    /// The number of the segment that the next written record goes to, or a
    /// smaller one.
    segment_number: AtomicU64,
    /// Bytes of all segments, readable without the lock.
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// The position after the last pushed record.
    end: Lsn,
    /// Set by a failure: what is pushed from then on is never written, and
    /// need not be kept.
    closed: bool,
}

#[derive(Debug)]
struct Progress {
    written: Lsn,
    durable: Lsn,
    writing: bool,
    syncing: bool,
    failed: Option<Arc<str>>,
    /// The open segment; the writer takes it out while it writes.
    segment: Option<OpenSegment>,
    /// The segment last written to, and its bytes up to the end of the last
    /// group that was written whole; known also while a writer is at work.
    written_segment: Option<(FileNumber, u64)>,
    /// How many ask that no segment goes.
    holds: usize,
    /// Closed segments that are still needed, oldest first, with their sizes.
    closed: Vec<(FileNumber, u64)>,
    next_segment: FileNumber,
}

#[derive(Debug)]
struct OpenSegment {
    number: FileNumber,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    syncer: Arc<dyn SyncFile>,
    bytes: u64,
}

impl Wal {
    /// Continues the log of `dir` after `end` with segment `next`; `old` are the
    /// segments that are there (number, bytes), ascending. A segment is opened
    /// by the first write, never by opening the log.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        segment_bytes_max: u64,
        old: Vec<(FileNumber, u64)>,
        next: FileNumber,
        end: Lsn,
    ) -> Self {
        let bytes = old.iter().map(|(_, bytes)| bytes).sum();
        Self {
            vfs,
            dir: dir.to_path_buf(),
            segment_bytes_max,
            buffer: Mutex::new(Buffer {
                bytes: Vec::new(),
                end,
                closed: false,
            }),
            progress: Mutex::new(Progress {
                written: end,
                durable: end,
                writing: false,
                syncing: false,
                failed: None,
                segment: None,
                written_segment: None,
                holds: 0,
                closed: old,
                next_segment: next,
            }),
            progressed: Condvar::new(),
            durable_lsn: AtomicU64::new(end.0),
            segment_number: AtomicU64::new(next.0),
            bytes: AtomicU64::new(bytes),
        }
    }

    /// Appends a record to the buffer; the caller holds the order lock, so that
    /// the log stands in commit order. Returns the position after it.
    pub(crate) fn push(&self, first: SeqNo, count: u32, payload: &[u8]) -> Lsn {
        let durable = self.durable_lsn.load(Ordering::Relaxed);
        let mut buffer = self.buffer.lock().unwrap();
        if buffer.closed {
            // Whoever waits for this position is told of the failure.
            return buffer.end;
        }
        let before = buffer.bytes.len();
        RecordHeader::encode(&mut buffer.bytes, durable, first, count, payload);
        buffer.end = Lsn(buffer.end.0 + (buffer.bytes.len() - before) as u64);
        buffer.end
    }

    /// Returns once everything before `lsn` is in the file: it then survives a
    /// crash of the process.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a write or an fsync failed, now or earlier.
    pub(crate) fn write_to(&self, lsn: Lsn) -> Result<()> {
        self.written(lsn).map(drop)
    }

    /// Returns once everything before `lsn` is durable: it then survives a
    /// crash of the machine.
    ///
    /// # Errors
    /// As [`Wal::write_to`].
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        let mut progress = self.written(lsn)?;
        loop {
            if progress.durable >= lsn {
                return Ok(());
            }
            check(&progress)?;
            if progress.syncing || progress.writing {
                // A writer may be about to close the segment (and sync it).
                progress = self.progressed.wait(progress).unwrap();
                continue;
            }
            // Nobody writes, so the open segment is in its place; there is one,
            // because closed segments are durable and `durable < lsn`.
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
                Ok(()) => self.set_durable(&mut progress, target),
                Err(e) => self.fail(&mut progress, &format!("fsync of the WAL failed: {e}")),
            }
            self.progressed.notify_all();
        }
    }

    /// Makes everything durable that has been pushed so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let end = self.buffer.lock().unwrap().end;
        self.sync_to(end)
    }

    /// The smallest segment number that a record pushed from now on can get.
    pub(crate) fn segment_number(&self) -> FileNumber {
        FileNumber(self.segment_number.load(Ordering::Acquire))
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        let progress = self.progress.lock().unwrap();
        progress.closed.len() + usize::from(progress.segment.is_some())
    }

    /// The newest segment that is there for certain; the next one without any.
    pub(crate) fn newest_segment(&self) -> FileNumber {
        let progress = self.progress.lock().unwrap();
        let open = progress.segment.as_ref().map(|segment| segment.number);
        let closed = || progress.closed.last().map(|(number, _)| *number);
        open.or_else(closed).unwrap_or(progress.next_segment)
    }

    /// Whether a closed segment is numbered below `floor`.
    pub(crate) fn has_closed_below(&self, floor: FileNumber) -> bool {
        self.progress
            .lock()
            .unwrap()
            .closed
            .first()
            .is_some_and(|(number, _)| *number < floor)
    }

    /// Deletes the closed segments numbered below `floor`, oldest first (so
    /// that what is left is always without a hole). While they are held, none
    /// goes; the next call makes up for it.
    pub(crate) fn delete_closed_below(&self, floor: FileNumber) -> Result<()> {
        loop {
            let number = {
                let mut progress = self.progress.lock().unwrap();
                match progress.closed.first() {
                    Some(&(number, bytes)) if number < floor && progress.holds == 0 => {
                        progress.closed.remove(0);
                        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                        number
                    }
                    _ => return Ok(()),
                }
            };
            let path = files::wal(&self.dir, number);
            self.vfs.remove(&path).map_err(Error::io("remove", &path))?;
        }
    }

    /// Keeps all segments until the guard drops.
    pub(crate) fn hold_segments(&self) -> SegmentHold<'_> {
        self.progress.lock().unwrap().holds += 1;
        SegmentHold(self)
    }

    /// The segments, ascending, each with its bytes up to the end of the last
    /// record that is written: everything acknowledged so far. The last one may
    /// grow beyond that.
    ///
    /// # Errors
    /// As [`Wal::write_to`].
    pub(crate) fn written_segments(&self) -> Result<Vec<(FileNumber, u64)>> {
        let progress = self.progress.lock().unwrap();
        check(&progress)?;
        let mut segments = progress.closed.clone();
        let last = segments.last().map(|(number, _)| *number);
        segments.extend(
            progress
                .written_segment
                .filter(|(open, _)| Some(*open) > last),
        );
        Ok(segments)
    }

    /// The cause of the failure after which nothing is written any more.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.progress.lock().unwrap().failed.clone()
    }

    /// Makes the log refuse everything from now on.
    pub(crate) fn poison(&self, cause: &str) {
        let mut progress = self.progress.lock().unwrap();
        self.fail(&mut progress, cause);
        self.progressed.notify_all();
    }

    fn written(&self, lsn: Lsn) -> Result<MutexGuard<'_, Progress>> {
        let mut progress = self.progress.lock().unwrap();
        loop {
            // A failure refuses also what had been written before it: the
            // commit is not acknowledged, and a reopening will tell.
            check(&progress)?;
            if progress.written >= lsn {
                return Ok(progress);
            }
            if progress.writing {
                progress = self.progressed.wait(progress).unwrap();
                continue;
            }
            progress.writing = true;
            let segment = progress.segment.take();
            // The syncer has its own handle, but must not sync a segment that
            // is being closed and count bytes of the next one as durable.
            while segment
                .as_ref()
                .is_some_and(|s| s.bytes >= self.segment_bytes_max)
                && progress.syncing
            {
                progress = self.progressed.wait(progress).unwrap();
            }
            let written = progress.written;
            let next = progress.next_segment;
            drop(progress);

            let group = self.take_buffer();
            let outcome = self.write_group(segment, next, written, &group);

            progress = self.progress.lock().unwrap();
            progress.writing = false;
            match outcome {
                Ok((segment, closed)) => {
                    if segment.number >= progress.next_segment {
                        progress.next_segment = segment.number.next();
                    }
                    if let Some(closed) = closed {
                        progress.closed.push(closed);
                        self.set_durable(&mut progress, written);
                    }
                    progress.written_segment = Some((segment.number, segment.bytes));
                    progress.segment = Some(segment);
                    progress.written = group.end;
                }
                Err(e) => self.fail(&mut progress, &format!("write to the WAL failed: {e}")),
            }
            self.progressed.notify_all();
        }
    }

    fn take_buffer(&self) -> Buffer {
        let mut buffer = self.buffer.lock().unwrap();
        Buffer {
            bytes: std::mem::take(&mut buffer.bytes),
            ..*buffer
        }
    }

    /// Appends a group to the open segment, after closing it when it is full.
    /// Returns the open segment and what was closed.
    fn write_group(
        &self,
        segment: Option<OpenSegment>,
        next: FileNumber,
        base: Lsn,
        group: &Buffer,
    ) -> Result<(OpenSegment, Option<(FileNumber, u64)>)> {
        let (mut segment, closed) = match segment {
            Some(segment) if segment.bytes < self.segment_bytes_max => (segment, None),
            Some(mut full) => {
                full.file.sync().map_err(Error::io("sync", &full.path))?;
                let closed = (full.number, full.bytes);
                (self.open_segment(next, base)?, Some(closed))
            }
            None => (self.open_segment(next, base)?, None),
        };
        segment
            .file
            .append(&group.bytes)
            .map_err(Error::io("write", &segment.path))?;
        segment.bytes += group.bytes.len() as u64;
        self.bytes
            .fetch_add(group.bytes.len() as u64, Ordering::Relaxed);
        Ok((segment, closed))
    }

    fn open_segment(&self, number: FileNumber, base: Lsn) -> Result<OpenSegment> {
        let path = files::wal(&self.dir, number);
        let mut file = self.vfs.create(&path).map_err(Error::io("create", &path))?;
        file.append(&record::encode_segment_header(number, base.0))
            .map_err(Error::io("write", &path))?;
        let syncer = Arc::from(file.syncer().map_err(Error::io("open", &path))?);
        self.vfs
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))?;
        // Only now: records pushed before may still go to this segment, never
        // to an earlier one.
        self.segment_number.store(number.0, Ordering::Release);
        self.bytes
            .fetch_add(record::SEGMENT_HEADER_BYTES as u64, Ordering::Relaxed);
        Ok(OpenSegment {
            number,
            path,
            file,
            syncer,
            bytes: record::SEGMENT_HEADER_BYTES as u64,
        })
    }

    /// Refuses everything from now on. Locks the buffer inside of `progress`,
    /// as nobody does the other way round.
    fn fail(&self, progress: &mut Progress, cause: &str) {
        progress.failed.get_or_insert_with(|| cause.into());
        let mut buffer = self.buffer.lock().unwrap();
        buffer.closed = true;
        buffer.bytes = Vec::new();
    }

    fn set_durable(&self, progress: &mut Progress, lsn: Lsn) {
        if lsn > progress.durable {
            progress.durable = lsn;
            self.durable_lsn.store(lsn.0, Ordering::Relaxed);
        }
    }
}

/// Keeps the log's segments where they are until it drops.
#[derive(Debug)]
pub(crate) struct SegmentHold<'a>(&'a Wal);

impl Drop for SegmentHold<'_> {
    fn drop(&mut self) {
        self.0.progress.lock().unwrap().holds -= 1;
    }
}

fn check(progress: &Progress) -> Result<()> {
    match &progress.failed {
        Some(cause) => Err(Error::ReadOnly {
            cause: cause.clone(),
        }),
        None => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::vfs::{FaultOp, MemVfs};

    /// Nobody writes the buffer after a failure, and each refused write left its
    /// record there: retries filled the memory.
    #[test]
    fn after_a_failure_records_are_refused_and_not_kept() {
        let (mem, dir) = (MemVfs::new(), Path::new("/db"));
        mem.create_dir_all(dir).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(mem.clone());
        let wal = Wal::new(vfs, dir, 1 << 20, Vec::new(), FileNumber(1), Lsn(0));
        let first = wal.push(SeqNo(1), 1, b"kept");
        wal.sync_to(first).unwrap();
        mem.fail_next(FaultOp::Append, 1, std::io::ErrorKind::StorageFull);
        for seq in 2..10 {
            let lsn = wal.push(SeqNo(seq), 1, &[0; 1000]);
            assert!(matches!(wal.write_to(lsn), Err(Error::ReadOnly { .. })));
        }
        assert!(wal.buffer.lock().unwrap().bytes.is_empty());
        assert!(matches!(wal.sync_to(first), Err(Error::ReadOnly { .. })));
    }
}

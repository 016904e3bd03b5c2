//! The files of the log, as its one writer fills them.
//!
//! ```text
//!   group ─► open segment ──full──► closed: synced as a whole
//!                                   next: made, header and name durable, then written to
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Lsn;
use super::record;
use crate::error::{Error, Result};
use crate::file_system::{self, SyncFile, WriteFile};
use crate::files;
use crate::key::FileNumber;
use crate::log_store::LogStore;
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicU64, Ordering};

/// The paths and the total size of the segments. The log itself keeps their list, and decides
/// who writes and who syncs.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    log_store: Arc<dyn LogStore>,
    dir: PathBuf,
    segment_bytes_max: u64,
    /// A lower bound of the number of the segment to which the next record is written.
    next_number: AtomicU64,
    bytes: AtomicU64,
    /// Bytes written since the opening, headers of segments included.
    written_bytes: AtomicU64,
}

/// The outcome of one attempt to write a group of records.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) segment: Option<OpenSegment>,
    /// The number and the length in bytes of the segment that was closed, and is now durable; `None` if no
    /// segment was closed.
    pub(super) closed: Option<(FileNumber, u64)>,
    pub(super) result: Result<(), WriteFailure>,
}

/// The reason why a group of records was not written.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// Nothing of the group of records is in the files, and the log accepts further writes.
    Refused(Error),
    /// The log accepts no more writes: after this error it is unknown what the segments contain.
    Failed(Error),
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) number: FileNumber,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    pub(super) syncer: Arc<dyn SyncFile>,
    /// Length in bytes up to the end of the last group that was written whole.
    pub(super) bytes: u64,
}

impl OpenSegment {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes <= record::SEGMENT_HEADER_BYTES as u64
    }
}

impl SegmentFiles {
    /// Creates the state without opening any file: `next` is the number of the segment that the
    /// first write makes, and `bytes` is the size of all existing segments together.
    pub(super) fn new(
        log_store: Arc<dyn LogStore>,
        dir: &Path,
        segment_bytes_max: u64,
        next: FileNumber,
        bytes: u64,
    ) -> Self {
        Self {
            log_store,
            dir: dir.to_path_buf(),
            segment_bytes_max,
            next_number: AtomicU64::new(next.0),
            bytes: AtomicU64::new(bytes),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the smallest segment number that a record pushed from now on can get.
    pub(super) fn next_number(&self) -> FileNumber {
        FileNumber(self.next_number.load(Ordering::Acquire))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes written since the opening.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the next group of records, which one call writes, goes to a new segment.
    pub(super) fn is_full(&self, segment: &OpenSegment) -> bool {
        segment.bytes >= self.segment_bytes_max
    }

    /// Removes a closed segment of size `bytes`. A segment that does not exist counts as removed.
    ///
    /// # Errors
    /// [`Error::DiskFull`] if the removal needs space and finds none, as on a file system that
    /// copies on write; [`Error::Io`]. The segment stays.
    pub(super) fn remove(&self, number: FileNumber, bytes: u64) -> Result<()> {
        let path = files::wal(&self.dir, number);
        let removed = file_system::gone(self.log_store.remove(&path));
        removed.map_err(Error::no_space_or_io("remove", &path))?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Appends a group to the open segment. If that segment is full, or if `closes`, closes it
    /// first, and appends the group to a new one.
    pub(super) fn write_group(
        &self,
        segment: Option<OpenSegment>,
        closes: bool,
        next: FileNumber,
        base: Lsn,
        group: &[u8],
    ) -> Outcome {
        let mut outcome = Outcome {
            segment,
            closed: None,
            result: Ok(()),
        };
        outcome.result = self.write_into(&mut outcome, closes, next, base, group);
        outcome
    }

    fn write_into(
        &self,
        outcome: &mut Outcome,
        closes: bool,
        next: FileNumber,
        base: Lsn,
        group: &[u8],
    ) -> Result<(), WriteFailure> {
        if let Some(full) = &mut outcome.segment
            && (closes || self.is_full(full))
        {
            // A sync that finds no space is a failure, too: see `Wal::sync_up_to`.
            mutation::unless(Mutation::CloseSegmentWithoutSync, || full.file.sync())
                .map_err(Error::io("sync", &full.path))
                .map_err(WriteFailure::Failed)?;
            outcome.closed = Some((full.number, full.bytes));
            outcome.segment = None;
        }
        let segment = match &mut outcome.segment {
            Some(segment) => segment,
            none => none.insert(self.open_segment(next, base)?),
        };
        if let Err(e) = segment.file.append(group) {
            let e = Error::no_space_or_io("write", &segment.path)(e);
            let refusal = e.into_refusal().map_err(WriteFailure::Failed)?;
            // What fitted goes, durably: a crash must not bring it back. If the cut finds no space
            // either, whole records of the refused group may stay, and the failed sync of the cut
            // may have dropped records that were acknowledged before. So it is a failure.
            mutation::unless(Mutation::LeaveRefusedRecord, || {
                self.log_store.truncate(&segment.path, segment.bytes)
            })
            .map_err(Error::io("cut back", &segment.path))
            .map_err(WriteFailure::Failed)?;
            return Err(WriteFailure::Refused(refusal));
        }
        segment.bytes += group.len() as u64;
        self.count_written(group.len() as u64);
        Ok(())
    }

    /// Makes a segment. If that fails for lack of space, a descriptor or memory, the segment is removed,
    /// which loses nothing, as it has no records yet; and the group of records that was to be
    /// written is refused.
    fn open_segment(&self, number: FileNumber, base: Lsn) -> Result<OpenSegment, WriteFailure> {
        let path = files::wal(&self.dir, number);
        let made = self.make_segment(&path, number, base);
        let (file, syncer) = made.map_err(|e| match e.into_refusal() {
            Ok(refusal) => {
                // The next try takes the same number, so that there is no hole;
                // what cannot be removed now is then overwritten. If no segment has a header, the
                // file stays: the manifest needs one of this number, unless the log is new.
                if self.bytes() > 0 || number == FileNumber::default() {
                    let _ = self.log_store.remove(&path);
                }
                WriteFailure::Refused(refusal)
            }
            Err(e) => WriteFailure::Failed(e),
        })?;
        // Only now: records pushed before may still go to this segment, never
        // to an earlier one.
        self.next_number.store(number.0, Ordering::Release);
        self.count_written(record::SEGMENT_HEADER_BYTES as u64);
        Ok(OpenSegment {
            number,
            path,
            file,
            syncer,
            bytes: record::SEGMENT_HEADER_BYTES as u64,
        })
    }

    fn make_segment(
        &self,
        path: &Path,
        number: FileNumber,
        base: Lsn,
    ) -> Result<(Box<dyn WriteFile>, Arc<dyn SyncFile>)> {
        let file = create_segment(&*self.log_store, &self.dir, number, base)?;
        let syncer = file.syncer().map_err(Error::io("open", path))?;
        Ok((file, Arc::from(syncer)))
    }

    fn count_written(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Creates a segment without records, with a durable header and a durable name. Replaces a file of
/// the same name.
///
/// # Errors
/// [`Error::DiskFull`], [`Error::Io`]; a part of the segment may exist then.
pub(crate) fn create_segment(
    log_store: &dyn LogStore,
    dir: &Path,
    number: FileNumber,
    base: Lsn,
) -> Result<Box<dyn WriteFile>> {
    let path = files::wal(dir, number);
    let mut file = log_store
        .create(&path)
        .map_err(Error::no_space_or_io("create", &path))?;
    file.append(&record::encode_segment_header(number, base.0))
        .map_err(Error::no_space_or_io("write", &path))?;
    // Before the name, and not by the sync of the first record: there may be no record for a long
    // time. All older segments may be removed meanwhile, and a crash must leave a log.
    file.sync().map_err(Error::no_space_or_io("sync", &path))?;
    mutation::unless(Mutation::SegmentWithoutDirSync, || log_store.sync_dir(dir))
        .map_err(Error::no_space_or_io("sync", dir))?;
    Ok(file)
}

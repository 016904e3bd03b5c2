//! The progress of the log, for all who wait for it: the ends of the written and of the
//! durable part, and the refused records.

use std::sync::Arc;

use super::segment_files::OpenSegment;
use crate::error::{Error, Result};
use crate::key::FileNumber;

/// A position in the log, as two counts of bytes of records. `pushed` counts all records that were
/// given to the log, refused ones too. `lsn` counts only records that are in the files. The two are
/// equal when the log is opened, and differ from the first refusal on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) pushed: u64,
    pub(super) lsn: u64,
}

/// The state of the threads that write and sync the log, guarded by one lock.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The position up to which every record given to the log is in the files, or was refused.
    pub(super) written: Place,
    pub(super) durable: Place,
    /// The refusals whose error some thread has not got yet, ascending by position. Each refusal is
    /// of at least one record for which a thread still waits, so the number of these records limits
    /// the length of the list.
    pub(super) refused: Vec<Refused>,
    /// Whether the last write of a group of records failed because the disk was full.
    pub(super) is_out_of_space: bool,
    pub(super) writing: bool,
    pub(super) syncing: bool,
    /// Syncs of segments since the opening.
    pub(super) syncs: u64,
    pub(super) failed: Option<Arc<str>>,
    /// The open segment; `None` before the first write, while a writer has taken it out, and after a
    /// segment was closed and the next one could not be made.
    pub(super) segment: Option<OpenSegment>,
    /// The segment that was last written to, and its length in bytes up to the end of the last group that was
    /// written as a whole. It is set also while a writer has taken `segment` out.
    pub(super) written_segment: Option<(FileNumber, u64)>,
    /// The number of threads that wait for `Wal::progressed`.
    pub(super) waiting: usize,
    /// Memory for the buffer of the next group of records, which are written by one call.
    pub(super) spare: Vec<u8>,
    /// The closed segments that are not removed yet, oldest first, with their sizes in bytes.
    pub(super) closed: Vec<(FileNumber, u64)>,
    pub(super) next_segment: FileNumber,
}

/// Records that were refused together: those that end behind the position `from`, up to `to`. All
/// threads that wait for these records get `error`. A later refusal may have another cause, so it
/// is not joined with this one.
#[derive(Debug)]
pub(super) struct Refused {
    from: u64,
    to: u64,
    /// The number of records whose threads have not got `error` yet.
    waiting: u64,
    error: Error,
}

impl Progress {
    /// Creates the progress of a log that ends at `end`, with these closed segments.
    pub(super) fn new(
        end: Place,
        closed: Vec<(FileNumber, u64)>,
        next_segment: FileNumber,
    ) -> Self {
        Self {
            written: end,
            durable: end,
            closed,
            next_segment,
            ..Self::default()
        }
    }

    /// Returns an error if the log takes no more records.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] after a failure.
    pub(super) fn check(&self) -> Result<()> {
        match &self.failed {
            Some(cause) => Err(Error::ReadOnly {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Refuses the `records` records, at least one, that were given to the log after the end of its
    /// written part: stores the error for the threads that wait for them. `to` is the end of the
    /// last of them, and becomes the end of the written part.
    pub(super) fn refuse(&mut self, to: u64, records: u64, error: Error) {
        let from = std::mem::replace(&mut self.written.pushed, to);
        self.refused.push(Refused {
            from,
            to,
            waiting: records,
            error,
        });
    }

    /// Returns the error for which the log refused the record that ends at `position`; `None` if it
    /// did not. Called once for each record, because the error is dropped once all threads have it.
    pub(super) fn take_refusal(&mut self, position: u64) -> Option<Error> {
        let holds = |refused: &Refused| refused.from < position && position <= refused.to;
        let at = self.refused.iter().position(holds)?;
        let refused = &mut self.refused[at];
        refused.waiting -= 1;
        Some(match refused.waiting {
            0 => self.refused.remove(at).error,
            _ => refused.error.clone(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    /// Regression: if records were refused while threads had not got the error of an earlier
    /// refusal yet, the later records got the error of the earlier refusal. A lack of file
    /// descriptors was reported as a full disk.
    #[test]
    fn each_refused_record_gets_the_error_of_its_own_refusal() {
        let mut progress = Progress::new(Place::default(), Vec::new(), FileNumber(1));
        let path = Path::new("/db/wal").to_path_buf();
        progress.refuse(20, 2, Error::DiskFull { path: path.clone() });
        let source = Arc::new(io::Error::other("too many open files"));
        progress.refuse(30, 1, Error::NoDescriptor { path, source });
        assert_eq!(progress.written.pushed, 30);
        assert!(matches!(
            progress.take_refusal(30),
            Some(Error::NoDescriptor { .. })
        ));
        for position in [10, 20] {
            assert!(matches!(
                progress.take_refusal(position),
                Some(Error::DiskFull { .. })
            ));
        }
        assert!(progress.refused.is_empty());
    }
}

//! The copied files of a backup whose bytes the disk is still writing.
//!
//! ```text
//!   copy 7.sst ─► copy 8.sst ─► sync 7.sst ─► copy 9.sst ...
//!            └─ the disk writes 7.sst ─┘
//! ```
//!
//! If each file were synced after its copy, the disk and the processor would wait for each other in
//! turn.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file_system::{WriteFile, sync_copied};

/// The largest number of copied files that wait for their sync while the next file is copied. Each
/// of them keeps a file descriptor open.
const FILES_MAX: usize = 1;

/// Copied files whose bytes may not be durable yet, with their paths, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    files: VecDeque<(PathBuf, Box<dyn WriteFile>)>,
    /// The first failure of a sync. All later calls return it, too: the bytes may be lost, and the
    /// system reports a failed sync only once.
    failure: Option<Error>,
}

impl Unsynced {
    /// Adds a file that was copied to `path`, and begins to write it to the disk.
    pub(super) fn add(&mut self, path: &Path, mut file: Box<dyn WriteFile>) {
        file.begin_sync();
        self.files.push_back((path.to_path_buf(), file));
    }

    /// Makes all files durable, except the file that was added last.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn sync_older(&mut self) -> Result<()> {
        self.sync_down_to(FILES_MAX)
    }

    /// Makes all files durable.
    ///
    /// # Errors
    /// As [`Self::sync_older`].
    pub(super) fn sync_all(&mut self) -> Result<()> {
        self.sync_down_to(0)
    }

    fn sync_down_to(&mut self, files_max: usize) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        while self.files.len() > files_max
            && let Some((path, mut file)) = self.files.pop_front()
        {
            let synced = sync_copied(&mut *file).map_err(Error::no_space_or_io("sync", &path));
            synced.inspect_err(|error| self.failure = Some(error.clone()))?;
        }
        Ok(())
    }
}

//! The two copies of a manifest, as they are on the disk.
//!
//! Each edit is written to both copies, and synced in both before the next one is written. So after
//! a crash the copies are equal, except that the last edit may be in only one of them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files;
use crate::key::FileNumber;
use crate::log_store::{LogStore, read_all};

#[derive(Debug)]
pub(super) struct ManifestCopy {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Copies {
    pub(super) number: FileNumber,
    pub(super) read: Vec<ManifestCopy>,
    /// The errors of the copies that cannot be read.
    pub(super) unreadable: Vec<Error>,
}

impl Copies {
    /// Reads both copies of the manifest with this number.
    ///
    /// # Errors
    /// [`Error::Io`] if a copy cannot be read for a cause other than the file: a lack of descriptors,
    /// memory or permission, or a directory that was moved.
    pub(super) fn read(log_store: &dyn LogStore, dir: &Path, number: FileNumber) -> Result<Self> {
        let (mut read, mut unreadable) = (Vec::new(), Vec::new());
        for path in files::manifests(dir, number) {
            match read_all(log_store, &path) {
                Ok(bytes) => read.push(ManifestCopy { path, bytes }),
                Err(error) if error.is_of_file() => unreadable.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            number,
            read,
            unreadable,
        })
    }

    /// Returns whether at least one copy of the manifest exists, readable or not.
    pub(super) fn exist(&self) -> bool {
        let mut unreadable = self.unreadable.iter();
        !self.read.is_empty() || unreadable.any(|error| !error.is_of_missing_file())
    }
}

/// Returns the most informative of the errors of several files that cannot be used. The error of
/// another format version comes first; the error of a missing file comes last.
///
/// # Panics
/// If `errors` is empty.
pub(super) fn most_telling(errors: Vec<Error>) -> Error {
    let rank = |error: &Error| match error {
        Error::UnsupportedFormat { .. } => 0,
        error if error.is_of_missing_file() => 2,
        _ => 1,
    };
    let most_telling = errors.into_iter().min_by_key(rank);
    most_telling.expect("no file is good")
}

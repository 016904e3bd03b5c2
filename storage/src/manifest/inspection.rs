//! A check of the files of a manifest that is in use.
//!
//! Edits wait while the files are opened, but not while they are read: a manifest only grows until
//! another one takes its place, and open files can still be read after that.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use super::copies::ManifestCopy;
use super::current::Current;
use super::replay::replay;
use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::files;
use crate::key::FileNumber;
use crate::log_store::LogStore;

/// The live manifest as it was at one moment, and the damage that was found so far.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    copies: Vec<OpenCopy>,
    /// The number of bytes that each copy must have; `None` if nothing was written since the
    /// opening of the database.
    written: Option<u64>,
    damage: Vec<Error>,
}

/// A copy of the manifest, open to be read.
#[derive(Debug)]
struct OpenCopy {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    bytes: u64,
}

impl Inspection {
    /// Reads CURRENT and its copy, and opens the copies of the manifest `live`. No edit may be made
    /// meanwhile. `written` is the number of bytes that each copy must have; `None` if nothing was
    /// written since the opening of the database. See [`Current::damage_beside`] for `is_exact`.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read for a cause other than the file: a lack of descriptors,
    /// memory or permission, or a directory that was moved.
    pub(super) fn begin(
        log_store: &dyn LogStore,
        dir: &Path,
        live: FileNumber,
        written: Option<u64>,
        is_exact: bool,
    ) -> Result<Self> {
        let current = Current::read(log_store, dir)?;
        let mut damage = current.damage_beside(log_store, dir, live, is_exact)?;
        let mut copies = Vec::new();
        for path in files::manifests(dir, live) {
            match OpenCopy::open(log_store, path) {
                Ok(copy) => copies.push(copy),
                Err(error) if error.is_of_file() => damage.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            copies,
            written,
            damage,
        })
    }

    /// Reads the copies, each by itself, and returns everything that is wrong with them, with CURRENT
    /// and with its copy.
    pub(crate) fn finish(self) -> Vec<Error> {
        let Self {
            copies,
            written,
            mut damage,
        } = self;
        let checked = copies.into_iter().map(|copy| copy.check(written));
        damage.extend(checked.filter_map(Result::err));
        damage
    }
}

impl OpenCopy {
    fn open(log_store: &dyn LogStore, path: PathBuf) -> Result<Self> {
        let file = log_store
            .open_read(&path)
            .map_err(Error::io("open", &path))?;
        let bytes = file.len().map_err(Error::io("read", &path))?;
        Ok(Self { path, file, bytes })
    }

    /// Reads and checks the copy up to the length that it had when it was opened. `written` is the
    /// length that it must have; `None` if nothing was written since the opening of the database.
    ///
    /// # Errors
    /// As [`replay`]; [`Error::Corruption`] also if the copy does not have exactly `written` bytes, or
    /// if its last edit cannot be read although `written` is given; [`Error::Io`].
    fn check(self, written: Option<u64>) -> Result<()> {
        let Self { path, file, bytes } = self;
        if let Some(written) = written.filter(|written| *written != bytes) {
            let detail = format!("it has {bytes} bytes, and {written} were written");
            return Err(Error::corruption(&path, bytes.min(written), detail));
        }
        // The disk is read, not the system's cache. If the cache keeps the file, it is read from there.
        let _ = file.forget_cached();
        let mut read = vec![0; bytes as usize];
        file.read_exact_at(&mut read, 0)
            .map_err(Error::io("read", &path))?;
        let copy = ManifestCopy { path, bytes: read };
        let end = replay(slice::from_ref(&copy))?.end as u64;
        // A crash may tear the last edit, but there was none since the manifest was begun.
        if written.is_some_and(|written| written != end) {
            let detail = "the last edit does not read";
            return Err(Error::corruption(&copy.path, end, detail));
        }
        Ok(())
    }
}

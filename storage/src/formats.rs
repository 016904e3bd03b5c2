//! The versions of everything that outlives the process, and the one rule about
//! them: a build knows one version of each format, and refuses every other one,
//! older or newer, before it has changed anything.
//!
//! The JSON parts of a format may contain the fields of this version and no others: a build
//! could not keep a field that it does not know.
//!
//! No version is frozen yet, so nothing here reads an older one. Once one is, an upgrade goes where
//! everything has been read while a database is opened, and nothing written yet ([`crate::db`],
//! `open`): it gets the old version by [`Format::check`], and writes the new one beside it.

use std::path::Path;

use crate::error::{Error, Result};

/// The format of a manifest: the catalog, the lists of runs, and the records of snapshots and
/// holds (a hold keeps the versions that a snapshot sees in one table).
pub(crate) const MANIFEST: Format = Format { version: 9 };
/// The format of a segment of the log, and of the content of its records.
pub(crate) const WAL: Format = Format { version: 5 };
/// The format of an SSTable.
pub(crate) const SSTABLE: Format = Format { version: 8 };
/// The format of the description of a pinned table for another process. (A pin prevents the removal of the
/// files that a table has at one moment.)
pub(crate) const PINNED_TABLE: Format = Format { version: 7 };

/// A file format: `version` is the one version of it that this build reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) version: u32,
}

impl Format {
    /// Checks that `found`, the version of the file at `path`, is the version of this build.
    ///
    /// # Errors
    /// `UnsupportedFormat` if it is another one.
    pub(crate) fn check(self, path: &Path, found: u32) -> Result<()> {
        if found == self.version {
            return Ok(());
        }
        Err(Error::UnsupportedFormat {
            path: path.to_path_buf(),
            found,
            supported: self.version,
        })
    }
}

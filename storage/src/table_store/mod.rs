//! The door for immutable tables: SSTables, each written once, found by a number that
//! is never used twice, read in ranges, and deleted.
//!
//! ```text
//!   create ─► append, sync ─► finish ─► open ─► read ranges ─► delete
//!   import ────────────────────┘
//! ```
//!
//! Nothing here asks for a directory, a rename or a lock: an object store can do all of
//! it. What grows or is replaced (the log, the manifest) goes through [`LogStore`](crate::LogStore).

mod link_folder;
mod link_or_copy;
mod local;
mod open_files;
mod table_files;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use link_folder::{Link, LinkFolder};
pub(crate) use link_or_copy::{Way, link, link_or_copy};
pub use local::LocalTables;
pub(crate) use open_files::{OpenFiles, Stage};
pub use table_files::TableFiles;

use crate::error::Result;
use crate::file_system::{ReadFile, WriteFile};

/// Where the tables of one database lie, and of no other one. By default that is the
/// database's directory ([`LocalTables`]); set another one in
/// [`Options::table_store`](crate::Options::table_store).
pub trait TableStore: Send + Sync + Debug {
    /// Which store it is, in a form by which another process finds it: see
    /// [`DetachedTable`](crate::DetachedTable).
    fn locator(&self) -> io::Result<String>;
    /// What errors call a table. It need not be a path of the file system.
    fn name(&self, number: u64) -> PathBuf;
    /// Begins a table. The number was used by none before, but perhaps for one that a
    /// crash left half written in another opening's name.
    fn create(&self, number: u64) -> io::Result<Box<dyn WriteFile>>;
    /// Takes a file of the local disk in, which never changes: by a second name for it
    /// where that can be, or by a copy. Its bytes are durable when this returns.
    ///
    /// # Errors
    /// [`Error::DiskFull`](crate::Error::DiskFull) names the new table,
    /// [`Error::Io`](crate::Error::Io) the file.
    fn import(&self, from: &Path, bytes: u64, number: u64) -> Result<Imported>;
    /// Has the tables that were written and synced, or imported, survive a crash by
    /// their numbers too.
    fn finish(&self) -> io::Result<()>;
    /// A table, to be read in ranges.
    fn open(&self, number: u64) -> io::Result<Arc<dyn ReadFile>>;
    /// The numbers of all tables, finished or not, in any order.
    fn list(&self) -> io::Result<Vec<u64>>;
    /// Deletes a table that nobody reads any more. It may go later: its number is not
    /// used again.
    fn delete(&self, number: u64) -> io::Result<()>;
    /// Bytes that more tables may take; `None` where nobody can tell.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Where a table is a file of the local disk, that file: it can get a second name
    /// in a backup.
    fn local_file(&self, number: u64) -> Option<PathBuf> {
        let _ = number;
        None
    }
}

/// How a file came to be a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// It is the same file.
    Linked,
    /// It is a copy.
    Copied,
}

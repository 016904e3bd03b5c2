//! The storage of immutable tables: SSTables, each written once, found by a number that no
//! other table ever has, read in ranges, and deleted.
//!
//! ```text
//!   create ─► append, sync ─► finish ─► open ─► read ranges ─► delete
//!   import ────────────────────┘
//! ```
//!
//! A table store needs no directories, renames or locks, so that an object store can
//! implement all of it. Files that grow or are replaced (the log, the manifest) go through
//! [`LogStore`](crate::LogStore).

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
pub(crate) use link_or_copy::{link, link_or_copy};
pub use local::LocalTables;
pub(crate) use open_files::{OpenFiles, Stage};
pub use table_files::TableFiles;

use crate::error::Result;
use crate::file_system::{ReadFile, WriteFile};

/// The storage of the tables of one database, and of no other one. By default that is the
/// database's directory ([`LocalTables`]); set another one in
/// [`Options::table_store`](crate::Options::table_store).
pub trait TableStore: Send + Sync + Debug {
    /// Returns the location of the store, in a form by which another process finds it: see
    /// [`DetachedTable`](crate::DetachedTable).
    fn locator(&self) -> io::Result<String>;
    /// Returns the name by which errors mention a table. It need not be a path of the file system.
    fn name(&self, number: u64) -> PathBuf;
    /// Creates the table `number`, and returns it open for writing. No other table ever had its
    /// number, except perhaps a half-written one that a crash left. If opening a table fails with
    /// [`io::ErrorKind::NotFound`], the same table may be created once more, from a backup.
    fn create(&self, number: u64) -> io::Result<Box<dyn WriteFile>>;
    /// Imports an immutable file of the local disk as a table: by a hard link where that is
    /// possible, or else by a copy. The table's bytes are durable when this returns.
    ///
    /// # Errors
    /// [`Error::DiskFull`](crate::Error::DiskFull) with the path of the new table,
    /// [`Error::Io`](crate::Error::Io) with that of the imported file.
    fn import(&self, from: &Path, bytes: u64, number: u64) -> Result<Imported>;
    /// Makes all tables that were written and synced, or imported, durable under their numbers: a
    /// crash after that loses none. (On a disk: syncs the directory.)
    fn finish(&self) -> io::Result<()>;
    /// Opens a table, to be read in ranges.
    fn open(&self, number: u64) -> io::Result<Arc<dyn ReadFile>>;
    /// Lists the numbers of all tables, finished or not, in any order.
    fn list(&self) -> io::Result<Vec<u64>>;
    /// Deletes a table that has no readers any more. The deletion may take effect later: as long as
    /// the table can be opened, its number is not used again.
    fn delete(&self, number: u64) -> io::Result<()>;
    /// Returns the number of free bytes for further tables; `None` if it is unknown.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Returns the path of a table if it is a file of the local disk, so that a backup can link it;
    /// otherwise `None`, the default.
    fn local_file(&self, number: u64) -> Option<PathBuf> {
        let _ = number;
        None
    }
}

/// The way in which a file, such as one that [`TableStore::import`] imports, was put under a new
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// The file was linked: the new name is a second name of it.
    Linked,
    /// The file was copied.
    Copied,
}

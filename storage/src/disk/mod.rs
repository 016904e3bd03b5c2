//! The interface of a disk that holds a whole database, and the disk of this machine.
//!
//! A [`Disk`] implements two interfaces: log and manifest use it as a [`LogStore`], tables in the
//! database's directory as [`TableFiles`]. There are two disks, [`LocalDisk`] and the simulated one
//! of [`crate::simulation`], and the same tests run on both.
//!
//! The engine uses a disk through two wrappers: a [`WatchedDisk`], which notes the calls under way, so
//! that those that hang are found, and around it a [`PatientDisk`], which waits for file descriptors, and
//! neither opens nor changes anything in a directory that has taken the place of the database's.

mod calls;
#[expect(clippy::disallowed_methods, reason = "the door to the disk")]
mod local;
#[expect(clippy::disallowed_methods, reason = "the door to the disk")]
mod locked_dir;
mod patient;
mod stuck;
#[cfg(test)]
mod tests;
mod watched;

pub(crate) use calls::DiskCalls;
pub use local::LocalDisk;
pub(crate) use patient::PatientDisk;
pub(crate) use stuck::StuckChange;
pub use stuck::{DiskCall, StuckCall};
pub(crate) use watched::{DiskWatch, LOOK_EVERY, WatchedDisk};

use crate::log_store::LogStore;
use crate::table_store::TableFiles;

/// A disk for the log and for tables. Every type with both interfaces is a `Disk`.
pub trait Disk: LogStore + TableFiles {}

impl<T: LogStore + TableFiles> Disk for T {}

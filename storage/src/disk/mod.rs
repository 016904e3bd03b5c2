//! A disk that holds a whole database, and the one of this machine.
//!
//! A [`Disk`] is what both doors ask for: log and manifest go to it as a
//! [`LogStore`], tables in the database's directory as [`TableFiles`]. There are two,
//! [`LocalDisk`] and the simulated one of [`crate::simulation`], and the same tests
//! hold for both.

#[expect(clippy::disallowed_methods, reason = "the door to the disk")]
mod local;
mod patient;
#[cfg(test)]
mod tests;

pub use local::LocalDisk;
pub(crate) use patient::PatientDisk;

use crate::log_store::LogStore;
use crate::table_store::TableFiles;

/// A disk for the log and for tables; whatever is both is one.
pub trait Disk: LogStore + TableFiles {}

impl<T: LogStore + TableFiles> Disk for T {}

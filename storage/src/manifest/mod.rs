//! The manifest: the catalog, the run lists, the bookmarks, as a log of edits.
//!
//! The content of the manifest is durable. Files in the directory that the manifest does not name
//! are orphans of a crash, and are removed. Each time that the database is opened for writing, a
//! new manifest begins with the whole state as its first record, so nothing is ever appended behind
//! a torn record.
//!
//! ```text
//!   Current ─► Copies ─► replay ─► State       an opening reads; two copies of everything
//!   Manifest::commit ─► both copies            each edit
//!   Manifest::inspect ─► Inspection            a verification, beside edits
//! ```

mod check;
mod copies;
mod current;
mod database_id;
#[cfg(any(all(test, not(loom)), feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod inspection;
mod log;
mod record;
mod replay;
mod salvage;
mod state;

pub(crate) use database_id::DatabaseId;
pub(crate) use inspection::Inspection;
pub(crate) use log::{Manifest, read_database_id};
pub(crate) use salvage::{SalvagedManifest, salvage_manifest};
pub(crate) use state::{BackupMark, Edit, FlushedTable, State, TableMeta};

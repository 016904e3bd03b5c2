//! The manifest: the catalog, the run lists, the bookmarks, as a log of edits.
//!
//! The content of the manifest is durable. SSTables that neither the manifest nor the log names are
//! orphans of a crash: an opening for writing removes them. A manifest of an earlier opening is never
//! appended to, since a torn record may be at its end: at the latest, the first edit after an opening
//! begins a new manifest, whose first record is the whole state.
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

//! Named snapshots and live views: what is recorded of them, and the registry of
//! what must be kept for them.

mod record;
mod registry;
mod snapshot_tables;
mod stored;

pub(crate) use record::{Bookmark, Bookmarks, SnapshotExpiry, SnapshotRecord};
pub(crate) use registry::{PinPoints, SnapshotRegistry};
pub(crate) use snapshot_tables::SnapshotTables;

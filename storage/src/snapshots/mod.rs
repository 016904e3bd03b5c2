//! Named snapshots and live views: what is recorded of them, and the registry of
//! what must be kept for them.

mod changes;
mod index;
mod lifetime;
mod record;
mod registry;

pub(crate) use changes::{SnapshotChanges, SnapshotOp};
pub(crate) use lifetime::{Lifetime, TableSpan};
pub(crate) use record::{Bookmark, Bookmarks, CoveredTable, SnapshotExpiry, SnapshotRecord};
pub(crate) use registry::{PinPoints, SnapshotRegistry};

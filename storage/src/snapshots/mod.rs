//! Named snapshots and live views: the records of snapshots, and the registry of the sequence
//! numbers whose versions must be kept.

mod changes;
mod index;
mod lifetime;
mod overview;
mod record;
mod registry;

pub(crate) use changes::{SnapshotChanges, SnapshotOp};
pub(crate) use lifetime::{Lifetime, TableSpan};
pub(crate) use overview::{SnapshotOverview, TableBookmarks};
pub(crate) use record::{Bookmark, Bookmarks, CoveredTable, SnapshotExpiry, SnapshotRecord};
pub(crate) use registry::{PinPoints, SnapshotRegistry};

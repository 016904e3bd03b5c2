//! Named snapshots and live views: what is recorded of them, and the registry of
//! what must be kept for them.

mod expiry_listeners;
mod record;
mod registry;

pub(crate) use expiry_listeners::ExpiryListeners;
pub(crate) use record::{Bookmark, Bookmarks, SnapshotExpiry, SnapshotRecord};
pub(crate) use registry::SnapshotRegistry;

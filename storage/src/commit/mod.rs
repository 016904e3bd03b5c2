//! How writes become commits: batches, numbers, visibility, conflicts.

mod batch;
mod conflicts;
mod footprint;
mod groups;
mod patience;
mod queue;

pub use batch::{MAX_KEY_BYTES, MAX_VALUE_BYTES, WriteBatch};
pub(crate) use batch::{
    Op, OpReader, check_lengths, encode_ingest, encode_snapshot_create, encode_snapshot_delete,
    encode_snapshot_expiry,
};
#[cfg(all(test, loom))]
pub(crate) use conflicts::Pruned;
pub(crate) use conflicts::{Clash, Conflicts};
pub(crate) use footprint::{Footprint, TableKey, split_table_key, table_key};
pub(crate) use groups::Groups;
pub(crate) use queue::{CommitQueue, Place, Ticket};

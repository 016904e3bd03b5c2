//! How writes become commits: batches, numbers, visibility.

mod batch;
mod queue;

pub use batch::{MAX_KEY_BYTES, MAX_VALUE_BYTES, WriteBatch};
pub(crate) use batch::{Op, OpReader, encode_snapshot_create, encode_snapshot_delete};
pub(crate) use queue::CommitQueue;

//! Operations on snapshots, as an edit of the manifest has them.
//!
//! An edit contains the operations since the last edit that contained some. So its size depends on
//! the number of these operations, and not on the number of snapshots.

use serde::{Deserialize, Serialize};

use super::{SnapshotExpiry, SnapshotRecord};
use crate::key::SeqNo;

/// An operation on the list of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SnapshotOp {
    Create(SnapshotRecord),
    /// Deletes the snapshot or hold of this id.
    Delete(u64),
    Expiry(SnapshotExpiry),
}

/// The operations on snapshots that an edit adds to the manifest. The manifest may have some of
/// them already, and skips those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotChanges {
    /// Once the edit with these operations is written, the manifest has all operations on snapshots
    /// up to this commit, so that the replay of the WAL skips them.
    pub(crate) as_of: SeqNo,
    /// The operations on snapshots, each with the sequence number of its commit, in ascending
    /// order.
    pub(crate) ops: Vec<(SeqNo, SnapshotOp)>,
}

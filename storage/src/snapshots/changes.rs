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
    /// Deletes the snapshot of this id.
    Delete(u64),
    Expiry(SnapshotExpiry),
}

/// The operations on snapshots since the manifest recorded the last ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotChanges {
    /// The commit up to which the manifest has all operations on snapshots once this edit is
    /// written.
    pub(crate) as_of: SeqNo,
    /// The operations, each with its commit, ascending.
    pub(crate) ops: Vec<(SeqNo, SnapshotOp)>,
}

//! The part of a merge operator that lets merges collect garbage by timestamps: for operators
//! whose values carry timestamps of their own.
//!
//! The engine orders by commit. An operator that orders by a user's timestamps keeps
//! deletions as values, and the engine cannot decide when one has served its time. The engine
//! supplies what it can, the other sources and the readers ([`PurgeContext`]); the operator
//! decides by its timestamps.

use serde::{Deserialize, Serialize};

use super::MergeOperator;
use crate::key::Kind;

/// Bounds of the timestamps in values, in the unit of the merge operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimestampBounds {
    /// The least; [`i64::MAX`] without any.
    pub least: i64,
    /// The greatest; [`i64::MIN`] without any.
    pub greatest: i64,
    /// When the last of it was deleted or expires, in seconds since the Unix epoch;
    /// [`i64::MAX`] when something never does, [`i64::MIN`] without any.
    pub greatest_local_time_s: i64,
}

impl TimestampBounds {
    /// The bounds of an empty set of timestamps.
    pub const NONE: Self = Self {
        least: i64::MAX,
        greatest: i64::MIN,
        greatest_local_time_s: i64::MIN,
    };

    /// Returns the bounds of both sets of values together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            greatest_local_time_s: self.greatest_local_time_s.max(other.greatest_local_time_s),
        }
    }
}

/// The group that a key belongs to. The keys of a group have a prefix that no other key
/// has. What the value of its *head* deletes it deletes of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'k> {
    /// The common prefix of the group's keys.
    pub prefix: &'k [u8],
    /// Whether the key is the head, which sorts before the others.
    pub is_head: bool,
}

/// The state of the table around one value that may be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeContext<'a> {
    /// The table, as `KEYSPACE.TABLE`.
    pub table: &'a str,
    /// The time of the earliest reader that can see the value, in milliseconds since the
    /// Unix epoch.
    pub read_time_ms: u64,
    /// The least timestamp of the key anywhere else, whether newer or older: memtables,
    /// runs, what is kept beside it for other readers. Of a head, that of the whole
    /// group, but for values that the same merge purges under this head.
    /// [`i64::MAX`] when there is nothing else, [`i64::MIN`] when it is not known.
    pub oldest_elsewhere: i64,
    /// The value of the group's head for the same readers, where this merge has it, as
    /// it was before it was purged itself. None for the head.
    pub head: Option<&'a [u8]>,
}

/// The outcome of a purge of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purged {
    /// The value stays unchanged.
    Kept,
    /// These bytes replace the value.
    Rewritten(Vec<u8>),
    /// The whole value goes.
    Gone,
}

/// The bounds of a version; `None` when they are not known.
pub(crate) fn timestamps_of(
    operator: &dyn MergeOperator,
    key: &[u8],
    kind: Kind,
    value: &[u8],
) -> Option<TimestampBounds> {
    match kind {
        Kind::Put | Kind::Merge => operator.timestamps(key, value),
        Kind::Delete => Some(TimestampBounds::NONE),
        Kind::ExpiringPut => None,
    }
}

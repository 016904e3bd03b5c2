//! The part of a merge operator that lets merges collect garbage by timestamps: for operators
//! whose values carry timestamps of their own.
//!
//! The engine orders by commit. An operator that orders by a user's timestamps keeps deletions as
//! values, and the engine cannot decide when a deletion is no longer needed. The engine supplies
//! the state of the other sources and of the readers ([`PurgeContext`]); the operator decides by
//! its timestamps.

use serde::{Deserialize, Serialize};

use super::MergeOperator;
use crate::key::Kind;

/// The smallest and the greatest of the timestamps in values, in the unit of the merge operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimestampBounds {
    /// The least timestamp in the values; [`i64::MAX`] if they have none.
    pub least: i64,
    /// The greatest timestamp in the values; [`i64::MIN`] if they have none.
    pub greatest: i64,
    /// The latest time at which any part of the values (a cell, for example) was deleted or
    /// expires, in seconds since the Unix epoch: a time of a clock, unlike the timestamps.
    /// [`i64::MAX`] if a part neither was deleted nor expires, [`i64::MIN`] if there are no values.
    pub greatest_local_time_s: i64,
}

impl TimestampBounds {
    /// The bounds of an empty set of timestamps.
    pub const NONE: Self = Self {
        least: i64::MAX,
        greatest: i64::MIN,
        greatest_local_time_s: i64::MIN,
    };

    /// Returns the bounds of all timestamps that `self` or `other` covers.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            greatest_local_time_s: self.greatest_local_time_s.max(other.greatest_local_time_s),
        }
    }
}

/// The group that a key belongs to. The keys of a group have a prefix that no other key has. The
/// value of one key, the *head*, can delete content of all keys of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'k> {
    /// The common prefix of the group's keys.
    pub prefix: &'k [u8],
    /// Whether the key is the head of the group: the key whose value can delete content of all keys
    /// of the group. The head sorts before the other keys.
    pub is_head: bool,
}

/// The facts by which a merge operator decides whether one value may be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeContext<'a> {
    /// The table, as `KEYSPACE.TABLE`.
    pub table: &'a str,
    /// The time of the earliest reader that can see the value, in milliseconds since the
    /// Unix epoch.
    pub read_time_ms: u64,
    /// A lower bound of the timestamps of the key's other versions, newer or older: those in
    /// memtables and in other runs, and those in this merge that are kept for other readers. If the
    /// key is the head of a [`Group`], a lower bound of the timestamps of the whole group, without
    /// the values that this merge purges together with the head. [`i64::MAX`] if there are no other
    /// versions, [`i64::MIN`] if their timestamps are not known.
    pub oldest_elsewhere: i64,
    /// The value of the head of the key's [`Group`], which can delete content of all keys of the
    /// group. It is the head's value as the readers of the purged value see it, not as this merge
    /// purges it. `None` if the key is the head, is in no group, or if this merge does not have the
    /// head.
    pub head: Option<&'a [u8]>,
}

/// The outcome of a purge of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purged {
    /// The value stays unchanged.
    Kept,
    /// These bytes replace the value.
    Rewritten(Vec<u8>),
    /// The whole value is removed.
    Gone,
}

/// Returns the bounds of the timestamps in a version; `None` if they are not known.
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

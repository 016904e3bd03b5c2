//! The condition under which a reader that goes from newer to older sources may stop early.
//!
//! A value that is ordered by timestamps of its own ([`MergeOperator::timestamps`]) may be decided
//! before all versions of its key are found: if the values found so far are newer than anything in
//! the sources that are left. Cassandra's readers stop so at the first SSTable that is older than
//! all that they found (`collectTimeOrderedData` of `SinglePartitionReadCommand`).
//!
//! [`MergeOperator::timestamps`]: super::MergeOperator::timestamps

use bytes::Bytes;

/// The values of some keys that a reader has found in newer sources (memtables and runs), before it
/// reads older ones.
#[derive(Debug, Clone, Copy)]
pub struct FoundSoFar<'f> {
    /// For each key, in the order of the keys, the value that results from the versions found so
    /// far. `None` if no version was found yet, or if the key was deleted, or its value expired.
    pub values: &'f [Option<Bytes>],
    /// An upper bound of the timestamps in the sources that are not read yet, whatever their keys:
    /// [`i64::MIN`] if no value there has a timestamp, [`i64::MAX`] if the timestamps are unknown.
    pub greatest_left: i64,
}

/// A condition under which a reader needs no older versions of its keys.
pub(crate) type IsEnough<'f> = &'f dyn Fn(&FoundSoFar<'_>) -> bool;

//! What a reader who goes from newer to older sources may end at.
//!
//! A value that is ordered by timestamps of its own ([`MergeOperator::timestamps`]) may be
//! decided before all versions of its key are found: by those that are newer than anything
//! in the sources that are left. Cassandra's readers stop so at the first SSTable that is
//! older than all that they found (`collectTimeOrderedData` of
//! `SinglePartitionReadCommand`).
//!
//! [`MergeOperator::timestamps`]: super::MergeOperator::timestamps

use bytes::Bytes;

/// What was found of some keys in newer sources, before older ones are read.
#[derive(Debug, Clone, Copy)]
pub struct FoundSoFar<'f> {
    /// For each key, in their order, what its versions so far make together; none where
    /// there are none, or the newest of them is a deletion.
    pub values: &'f [Option<Bytes>],
    /// No timestamp that was not looked at is above it, of these keys or any others. It is
    /// [`i64::MIN`] when nothing is left that has timestamps, [`i64::MAX`] when nothing is known.
    pub greatest_left: i64,
}

/// Says whether a reader needs no older versions of its keys.
pub(crate) type IsEnough<'f> = &'f dyn Fn(&FoundSoFar<'_>) -> bool;

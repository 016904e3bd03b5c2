//! What a row is made of, and which of two wins.
//!
//! The order of two cells is Cassandra 4.1's (`org.apache.cassandra.db.rows.Cells`,
//! `resolveRegular`), that of two markers its `LivenessInfo.supersedes`, that of two
//! deletions its `DeletionTime.supersedes`. Where Cassandra lets the argument order
//! decide, this order goes on, so that merging is commutative.
//!
//! Timestamps are the client's: microseconds since the Unix epoch by convention, any
//! number but [`i64::MIN`]. Local times and expiries are seconds since the Unix epoch.

use std::cmp::Ordering;

/// Deletes all that is not newer: of a partition, a range, a row or a collection.
///
/// The greater one supersedes: by timestamp, then by local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deletion {
    /// It deletes what has this timestamp or an older one.
    pub timestamp: i64,
    /// When it was made. It must outlive gc_grace from then on.
    pub local_time_s: i64,
}

impl Deletion {
    /// Whether it deletes what was written with this timestamp.
    pub fn deletes(self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }
}

/// Whether a deletion, if there is one, deletes what was written with this timestamp.
#[inline]
pub(super) fn is_shadowed(timestamp: i64, by: Option<Deletion>) -> bool {
    by.is_some_and(|deletion| deletion.deletes(timestamp))
}

/// For how long a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The time to live it was written with; never 0.
    pub ttl_s: u32,
    /// The first second at which it is gone.
    pub expiry_s: i64,
}

impl Expiry {
    /// Later expiry first. Cassandra knows no more than that; among equals the shorter
    /// time to live was written later.
    fn cmp(self, other: Self) -> Ordering {
        let key = |expiry: Self| (expiry.expiry_s, std::cmp::Reverse(expiry.ttl_s));
        key(self).cmp(&key(other))
    }

    /// Whether it is over at this time.
    #[inline]
    pub fn is_over(self, read_time_s: i64) -> bool {
        self.expiry_s <= read_time_s
    }
}

/// What becomes of a cell with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It stays.
    Permanent,
    /// It is a tombstone from its expiry on.
    Expiring(Expiry),
    /// It was deleted.
    Tombstone {
        /// When.
        local_time_s: i64,
    },
}

/// A value of one column, or of one element of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The client's timestamp.
    pub timestamp: i64,
    /// Until when it lives.
    pub lifetime: Lifetime,
    /// Its bytes in the native serialization of its type; empty for a tombstone.
    pub value: &'a [u8],
}

impl Cell<'_> {
    /// The greater of two cells of one place wins: the newer; a tombstone over an
    /// expiring cell over one that stays; the one that ends later; the greater value.
    pub fn reconcile(&self, other: &Self) -> Ordering {
        let rank = |lifetime: Lifetime| match lifetime {
            Lifetime::Permanent => 0,
            Lifetime::Expiring(_) => 1,
            Lifetime::Tombstone { .. } => 2,
        };
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| rank(self.lifetime).cmp(&rank(other.lifetime)))
            .then_with(|| match (self.lifetime, other.lifetime) {
                (Lifetime::Expiring(one), Lifetime::Expiring(two)) => one
                    .expiry_s
                    .cmp(&two.expiry_s)
                    .then_with(|| self.value.cmp(other.value))
                    .then_with(|| one.cmp(two)),
                (
                    Lifetime::Tombstone { local_time_s: one },
                    Lifetime::Tombstone { local_time_s: two },
                ) => one.cmp(&two),
                _ => self.value.cmp(other.value),
            })
    }

    /// Whether it has a value for a reader at this time, deletions aside.
    #[inline]
    pub fn is_live(&self, read_time_s: i64) -> bool {
        match self.lifetime {
            Lifetime::Permanent => true,
            Lifetime::Expiring(expiry) => !expiry.is_over(read_time_s),
            Lifetime::Tombstone { .. } => false,
        }
    }
}

/// One element of a collection that is not frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Which element: the map's key, the set's member, the place in the list or the field's
    /// number, as bytes whose order is that of the type.
    pub path: &'a [u8],
    /// The key or member as it was written, where `path` does not say (1.0 or 1.00).
    pub original: Option<&'a [u8]>,
    /// Its cell; the value of a set's element is empty.
    pub cell: Cell<'a>,
}

impl Element<'_> {
    /// The greater of two elements of one path wins.
    pub(super) fn reconcile(&self, other: &Self) -> Ordering {
        self.cell
            .reconcile(&other.cell)
            .then_with(|| self.original.cmp(&other.original))
    }
}

/// Says that the row exists, whatever its cells are: INSERT writes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The client's timestamp.
    pub timestamp: i64,
    /// Until when the row exists; none when it stays.
    pub expiry: Option<Expiry>,
}

impl Marker {
    /// The greater of two markers wins: the newer; an expiring one over one that stays;
    /// the one that ends later.
    pub fn reconcile(&self, other: &Self) -> Ordering {
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| match (self.expiry, other.expiry) {
                (Some(one), Some(two)) => one.cmp(two),
                (one, two) => one.is_some().cmp(&two.is_some()),
            })
    }

    /// Whether it is there for a reader at this time, deletions aside.
    #[inline]
    pub fn is_live(&self, read_time_s: i64) -> bool {
        self.expiry
            .is_none_or(|expiry| !expiry.is_over(read_time_s))
    }
}

/// The clustering as it was written, where the key does not say (1.0 or 1.00): bytes of
/// whoever made the key. The newer one wins, then the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Original<'a> {
    /// The client's timestamp.
    pub timestamp: i64,
    /// All clustering values.
    pub bytes: &'a [u8],
}

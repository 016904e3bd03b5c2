//! The components of a row, and the order that decides between two of them.
//!
//! The order of two cells is Cassandra 4.1's (`org.apache.cassandra.db.rows.Cells`,
//! `resolveRegular`); the order of two markers is `LivenessInfo.supersedes`, and the order of two
//! deletions is `DeletionTime.supersedes`. Where Cassandra lets the argument order decide, this
//! order continues with further criteria, so that merging is commutative.
//!
//! Timestamps come from the client: microseconds since the Unix epoch by convention, any number but
//! [`i64::MIN`]. Local times and expiries are seconds since the Unix epoch.

use std::cmp::Ordering;

/// A deletion of a partition, a range of rows, a row or a collection. It hides the content whose
/// timestamps are not greater than its own.
///
/// A deletion supersedes another one if its timestamp is greater, or if the timestamps are equal
/// and its local time is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deletion {
    /// The greatest timestamp of the writes that the deletion hides.
    pub timestamp: i64,
    /// The time of the deletion, in seconds since the Unix epoch. The deletion must be kept until
    /// gc_grace has passed since then.
    pub local_time_s: i64,
}

impl Deletion {
    /// Returns whether the deletion hides a write with this timestamp. It also hides a write that
    /// has the same timestamp as the deletion.
    pub fn deletes(self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }
}

/// Returns whether the deletion `by` hides a write with this timestamp; false if `by` is `None`.
#[inline]
pub(super) fn is_shadowed(timestamp: i64, by: Option<Deletion>) -> bool {
    by.is_some_and(|deletion| deletion.deletes(timestamp))
}

/// The time to live and the expiry of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The time to live that the write set, in seconds; never 0.
    pub ttl_s: u32,
    /// The first second at which the value no longer exists, in seconds since the Unix epoch.
    pub expiry_s: i64,
}

impl Expiry {
    /// Orders expiries by their time, Cassandra's only criterion. If the times are equal, the expiry
    /// with the shorter time to live, which was written later, is greater, so that different
    /// expiries never compare as equal.
    fn cmp(self, other: Self) -> Ordering {
        let key = |expiry: Self| (expiry.expiry_s, std::cmp::Reverse(expiry.ttl_s));
        key(self).cmp(&key(other))
    }

    /// Returns whether the value has expired at this time.
    #[inline]
    pub fn is_over(self, read_time_s: i64) -> bool {
        self.expiry_s <= read_time_s
    }
}

/// The kind of a cell: permanent, expiring or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// The cell does not expire.
    Permanent,
    /// The cell turns into a tombstone at its expiry.
    Expiring(Expiry),
    /// The cell is deleted.
    Tombstone {
        /// The time of the deletion by the server's clock, in seconds since the Unix epoch.
        local_time_s: i64,
    },
}

/// One write of a column with a single value, or of one element of a collection: a value, or a
/// tombstone that deletes an older value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The timestamp of the write, by convention in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// Whether the cell is permanent, expires or is deleted.
    pub lifetime: Lifetime,
    /// The value in the native serialization of its type; empty for a tombstone and for an element
    /// of a set.
    pub value: &'a [u8],
}

impl Cell<'_> {
    /// Compares two versions of one cell; the greater one wins. The greater timestamp decides
    /// first. If the timestamps are equal, a tombstone wins over an expiring cell, and an expiring
    /// cell over a permanent one. Of two cells of the same kind, the later expiry or deletion wins,
    /// then the greater value, then the shorter time to live.
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

    /// Returns whether the cell has a value at this time: it is neither a tombstone nor expired.
    /// Ignores deletions of the row or the collection, which may hide the cell.
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
    /// The key of a map's entry, the member of a set, the place of a list's element, or the index
    /// of a field in a user-defined type: the bytes by which the elements are sorted.
    pub path: &'a [u8],
    /// The key or member as it was written, if it cannot be decoded from `path`: the decimals 1.0 and
    /// 1.00 have the same path.
    pub original: Option<&'a [u8]>,
    /// The element's cell; its value is empty in a set.
    pub cell: Cell<'a>,
}

impl Element<'_> {
    /// Compares two versions of one element; the greater one wins. Their cells decide first, then
    /// the bytes of their originals. An element with an original is greater than one without.
    pub(super) fn reconcile(&self, other: &Self) -> Ordering {
        self.cell
            .reconcile(&other.cell)
            .then_with(|| self.original.cmp(&other.original))
    }
}

/// A marker that the row exists, independent of its cells: INSERT writes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The timestamp of the write, by convention in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// The expiry of the marker, from the TTL of the write; `None` if the write had no TTL.
    pub expiry: Option<Expiry>,
}

impl Marker {
    /// Compares two markers; the greater one wins. The greater timestamp decides first. If the
    /// timestamps are equal, an expiring marker wins over a permanent one, and of expiring ones the
    /// later expiry, then the shorter time to live.
    pub fn reconcile(&self, other: &Self) -> Ordering {
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| match (self.expiry, other.expiry) {
                (Some(one), Some(two)) => one.cmp(two),
                (one, two) => one.is_some().cmp(&two.is_some()),
            })
    }

    /// Returns whether the marker exists at this time: it has not expired. Ignores deletions of the
    /// row, which may hide the marker.
    #[inline]
    pub fn is_live(&self, read_time_s: i64) -> bool {
        self.expiry
            .is_none_or(|expiry| !expiry.is_over(read_time_s))
    }
}

/// The clustering as it was written, if it cannot be decoded from the key: the decimals 1.0 and
/// 1.00 have the same key. Of two versions, the one with the greater timestamp wins; if their
/// timestamps are equal, the one with the greater bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Original<'a> {
    /// The timestamp of the write, by convention in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// All clustering values, in an encoding that the writer and the readers of the table agree on:
    /// this module only compares the bytes.
    pub bytes: &'a [u8],
}

//! Partition and clustering keys whose bytes sort as CQL sorts the values.
//!
//! ```text
//! schema key   00                                    before all partitions
//! index entry  least token | index | value | row     after it, before all partitions
//! partition    token: 8 | length: 2 | partition key  the token's sign flipped, big endian
//! header       partition | 00                        before all rows of its partition
//! row          partition | 01 | clustering columns   each in its ordered form
//! ```
//!
//! Within a table the engine's order of these keys is CQL's: by token, then by clustering
//! columns, each in its direction. The ordered form of a value ([`ordered`]) says where it
//! ends, so a prefix of the columns is a prefix of the bytes, and what begins with it is one
//! range. The book draws it under Formats, CQL rows.
//!
//! ```text
//! layout     a table's keys, from values and back
//! entry      an index's entries
//! slice      what restrictions select, as byte ranges
//! partition  the partition key and its token
//! ordered    one value as bytes in its order
//! murmur3    Cassandra's hash
//! ```

mod entry;
mod layout;
mod murmur3;
pub mod ordered;
mod partition;
mod slice;
#[cfg(test)]
mod tests;

pub use entry::{
    EntryKey, FORM_LEN_MAX, PARTITIONS_START, entries_of_indexes, entry_prefix, is_index_entry,
};
pub use layout::{
    ClusteringColumn, DecodedKey, KeyLayout, Order, Place, ROW, header_key, partition_prefix,
};
pub use murmur3::hash3_x64_128;
pub use partition::{PartitionKey, Token};
pub use slice::{ByteRange, SliceBound, end_of_prefix, token_range};

use crate::types::TypeError;

/// The key of a table's first record, its schema. No partition lies before it.
pub const SCHEMA_KEY: &[u8] = &[0];

/// The longest partition key, and the longest sum of a row's clustering values, in bytes.
/// With both at their longest a key of the engine stays below its 256 KiB: the ordered form
/// at most doubles a value.
pub const KEY_LEN_MAX: usize = 65_535;

/// A key that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A partition key of one column whose value is empty.
    #[error("Key may not be empty")]
    Empty,
    /// A partition key beyond [`KEY_LEN_MAX`].
    #[error("Key length of {0} is longer than maximum of 65535")]
    TooLong(usize),
    /// Clustering values beyond [`KEY_LEN_MAX`].
    #[error("The sum of all clustering columns is too long ({0} > 65535)")]
    ClusteringTooLong(usize),
    /// A value that its type refuses.
    #[error(transparent)]
    Value(#[from] TypeError),
    /// A key of the engine that this table cannot have written.
    #[error("corrupt key: {what} at byte {at} of {len}")]
    Corrupt {
        /// What was found.
        what: &'static str,
        /// Where.
        at: usize,
        /// How long the key is.
        len: usize,
    },
}

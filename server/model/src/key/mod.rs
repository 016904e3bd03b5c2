//! Partition and clustering keys whose bytes sort as CQL sorts the values.
//!
//! ```text
//! schema key   00                                    before all partitions
//! index entry  least token | index | value | row     after the schema, before all partitions
//! partition    token: 8 | length: 2 | partition key  the token's sign flipped, big endian
//! header       partition | 00                        before all rows of its partition
//! row          partition | 01 | clustering columns   each in its ordered form
//! ```
//!
//! Within a table the engine's order of these keys is CQL's: by token, then by clustering columns,
//! each in its direction. The ordered form of a value ([`ordered`]) marks its own end, so the
//! encoding of the first columns is a prefix of the encoding of all, and all keys with this prefix
//! form one range. The book draws the layout under Formats, CQL rows.
//!
//! ```text
//! layout     the keys of a table: encoding and decoding
//! entry      the entries of an index
//! slice      restrictions on keys as byte ranges
//! partition  the partition key and its token
//! ordered    one value as bytes that sort like the value
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

/// The key of a table's first record, its schema. It is less than every key of a partition.
pub const SCHEMA_KEY: &[u8] = &[0];

/// The maximal length in bytes of a partition key, and of the sum of a row's clustering values.
/// With both at their maximum a key stays below the engine's limit of 256 KiB: the partition key is
/// stored unchanged, and the ordered forms of the clustering values take about twice their length at
/// most.
pub const KEY_LEN_MAX: usize = 65_535;

/// The error of a key that cannot be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The partition key has one column, whose value is empty.
    #[error("Key may not be empty")]
    Empty,
    /// The partition key is longer than [`KEY_LEN_MAX`].
    #[error("Key length of {0} is longer than maximum of 65535")]
    TooLong(usize),
    /// The clustering values of a row are together longer than [`KEY_LEN_MAX`].
    #[error("The sum of all clustering columns is too long ({0} > 65535)")]
    ClusteringTooLong(usize),
    /// A value is invalid for its type.
    #[error(transparent)]
    Value(#[from] TypeError),
    /// The engine returned a key that no table with this layout can have.
    #[error("corrupt key: {what} at byte {at} of {len}")]
    Corrupt {
        /// The kind of damage.
        what: &'static str,
        /// The offset of the damage in bytes.
        at: usize,
        /// The length of the key.
        len: usize,
    },
}

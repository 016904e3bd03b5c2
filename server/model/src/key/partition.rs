//! The partition key and its token.

use super::murmur3::hash3_x64_128;
use super::{KEY_LEN_MAX, KeyError};

/// The position of a partition on the ring: the first half of Cassandra's Murmur3 hash. No
/// partition has [`Token::MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The token before all partitions, where drivers begin to scan.
    pub const MIN: Self = Self(i64::MIN);
    /// The greatest token of a partition.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the token of a partition key. The least hash maps to the greatest token, because the
    /// least token means "before all". An empty key, which no partition has, maps to the least
    /// token.
    pub fn of(partition_key: &[u8]) -> Self {
        if partition_key.is_empty() {
            return Self::MIN;
        }
        match hash3_x64_128(partition_key).0 as i64 {
            i64::MIN => Self::MAX,
            token => Self(token),
        }
    }

    /// Encodes the token as eight bytes that sort as tokens do.
    pub fn to_ordered(self) -> [u8; 8] {
        (self.0 as u64 ^ 1 << 63).to_be_bytes()
    }

    /// Decodes the result of [`to_ordered`](Self::to_ordered).
    pub fn from_ordered(bytes: [u8; 8]) -> Self {
        Self((u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
    }
}

/// A partition key in Cassandra's serialization: the value of a single column unchanged; for
/// several columns each value as length (16 bits), bytes, and a zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    bytes: Vec<u8>,
    token: Token,
}

impl PartitionKey {
    /// Serializes one value for each column of the partition key.
    ///
    /// # Errors
    /// [`KeyError::Empty`] if the only value is empty; [`KeyError::TooLong`].
    pub fn new(values: &[&[u8]]) -> Result<Self, KeyError> {
        let bytes = match values {
            [value] => value.to_vec(),
            _ => {
                let mut bytes = Vec::with_capacity(values.iter().map(|v| v.len() + 3).sum());
                for value in values {
                    let len =
                        u16::try_from(value.len()).map_err(|_| KeyError::TooLong(value.len()))?;
                    bytes.extend(len.to_be_bytes());
                    bytes.extend(*value);
                    bytes.push(0);
                }
                bytes
            }
        };
        Self::from_bytes(bytes)
    }

    /// Creates a partition key from its serialized form.
    ///
    /// # Errors
    /// [`KeyError::Empty`], [`KeyError::TooLong`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, KeyError> {
        match bytes.len() {
            0 => Err(KeyError::Empty),
            len if len > KEY_LEN_MAX => Err(KeyError::TooLong(len)),
            _ => Ok(Self {
                token: Token::of(&bytes),
                bytes,
            }),
        }
    }

    /// Returns the serialized form, at most [`KEY_LEN_MAX`] bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the token of the partition.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the prefix of all keys of the partition.
    pub fn prefix(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + 2 + self.bytes.len() + 1);
        out.extend(self.token.to_ordered());
        out.extend((self.bytes.len() as u16).to_be_bytes());
        out.extend(&self.bytes);
        out
    }
}

/// Splits a serialized partition key into the values of its `columns` columns; `None` if the bytes
/// are no such key.
pub(super) fn split(bytes: &[u8], columns: usize) -> Option<Vec<&[u8]>> {
    if columns == 1 {
        return Some(vec![bytes]);
    }
    let mut rest = bytes;
    let mut values = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let (value, after) = after.split_at_checked(u16::from_be_bytes(*len).into())?;
        rest = after.strip_prefix(&[0])?;
        values.push(value);
    }
    rest.is_empty().then_some(values)
}

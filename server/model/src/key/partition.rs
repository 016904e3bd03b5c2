//! The partition key and its token.

use super::murmur3::hash3_x64_128;
use super::{KEY_LEN_MAX, KeyError};

/// Where a partition lies on the ring: Cassandra's Murmur3, first half. A partition never has
/// [`Token::MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Before all partitions: where drivers begin to scan.
    pub const MIN: Self = Self(i64::MIN);
    /// The last token that a partition may have.
    pub const MAX: Self = Self(i64::MAX);

    /// The token of a partition key. The least hash counts as the greatest, for the least
    /// means "before all".
    pub fn of(partition_key: &[u8]) -> Self {
        if partition_key.is_empty() {
            return Self::MIN;
        }
        match hash3_x64_128(partition_key).0 as i64 {
            i64::MIN => Self::MAX,
            token => Self(token),
        }
    }

    /// Eight bytes that sort as tokens do.
    pub fn to_ordered(self) -> [u8; 8] {
        (self.0 as u64 ^ 1 << 63).to_be_bytes()
    }

    /// What [`to_ordered`](Self::to_ordered) made, back.
    pub fn from_ordered(bytes: [u8; 8]) -> Self {
        Self((u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
    }
}

/// A partition key as Cassandra serializes it: the value of a single column as it is; of
/// several each as length (16 bits), bytes, and a zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    bytes: Vec<u8>,
    token: Token,
}

impl PartitionKey {
    /// From one value for each column of the partition key.
    ///
    /// # Errors
    /// [`KeyError::Empty`] where the only value is empty, [`KeyError::TooLong`].
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

    /// From its serialized form.
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

    /// The serialized form, at most [`KEY_LEN_MAX`] bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// What all keys of the partition begin with.
    pub fn prefix(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + 2 + self.bytes.len() + 1);
        out.extend(self.token.to_ordered());
        out.extend((self.bytes.len() as u16).to_be_bytes());
        out.extend(&self.bytes);
        out
    }
}

/// The values of a serialized partition key of `columns` columns.
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

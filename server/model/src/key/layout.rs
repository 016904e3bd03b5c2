//! The keys of a table: encoding of values, and decoding.

use std::convert::Infallible;
use std::fmt;

use super::ordered::{self, DecodeError, Malformed, Reader};
use super::partition::split;
use super::{ByteRange, KEY_LEN_MAX, KeyError, PartitionKey, Token};
use crate::types::{Charge, CqlType, TypeError};

/// The byte after a partition's prefix in the key of its header, the stored entry with its deletions
/// and static columns.
const HEADER: u8 = 0;
/// The byte after a partition's prefix in the key of a row.
pub const ROW: u8 = 1;

/// Returns the key of the header of the partition whose keys begin with `prefix`. The header is the
/// stored entry with the partition's deletions and static columns; its key sorts before those of the
/// rows.
pub fn header_key(prefix: &[u8]) -> Vec<u8> {
    [prefix, &[HEADER]].concat()
}

/// Returns the prefix that all keys of a partition share. `key` may be any bytes that begin with this
/// prefix; the result is `None` if it is shorter than the prefix.
pub fn partition_prefix(key: &[u8]) -> Option<&[u8]> {
    let (token, rest) = key.split_first_chunk::<8>()?;
    let (len, _) = rest.split_first_chunk::<2>()?;
    key.get(..token.len() + len.len() + usize::from(u16::from_be_bytes(*len)))
}

/// The sort order of a clustering column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The least value first.
    #[default]
    Asc,
    /// The greatest value first, and empty values last.
    Desc,
}

/// Prints the order as in CQL.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asc => "ASC",
            Self::Desc => "DESC",
        })
    }
}

/// The properties of a clustering column that the encoding of keys depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringColumn {
    /// The type. Collections are frozen, and durations are not allowed.
    pub ty: CqlType,
    /// The sort order of the column.
    pub order: Order,
}

/// The types and orders of the key columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLayout {
    partition: Vec<CqlType>,
    clustering: Vec<ClusteringColumn>,
}

/// The parts of a stored key of a partition: of its header or of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedKey<'a> {
    /// The prefix of all keys of the partition.
    pub prefix: &'a [u8],
    /// The partition's token.
    pub token: Token,
    /// The serialized partition key.
    pub partition_key: &'a [u8],
    /// The part of the partition that has the key: its header (static columns and deletions), or a
    /// row.
    pub place: Place<'a>,
}

/// The part of a partition that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// The header of the partition: its static columns and deletions.
    Header,
    /// A row, by its encoded clustering columns.
    Row(&'a [u8]),
}

impl<'a> DecodedKey<'a> {
    /// Splits a key into its parts, without a layout. The clustering columns stay encoded, see
    /// [`KeyLayout::clustering_values`].
    ///
    /// # Errors
    /// [`KeyError::Corrupt`].
    pub fn read(key: &'a [u8]) -> Result<Self, KeyError> {
        let corrupt = |what, at| KeyError::Corrupt {
            what,
            at,
            len: key.len(),
        };
        let cut = || corrupt("it is cut off", key.len());
        let (token, rest) = key.split_first_chunk::<8>().ok_or_else(cut)?;
        let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (partition_key, rest) = rest.split_at_checked(len).ok_or_else(cut)?;
        let (prefix, _) = key.split_at(8 + 2 + len);
        let place = match rest {
            [] => return Err(cut()),
            [HEADER] => Place::Header,
            [ROW, clustering @ ..] => Place::Row(clustering),
            _ => return Err(corrupt("neither a header nor a row", prefix.len())),
        };
        Ok(Self {
            prefix,
            token: Token::from_ordered(*token),
            partition_key,
            place,
        })
    }
}

impl KeyLayout {
    /// Creates a layout from the types of the partition key and the clustering columns, in their
    /// order.
    pub fn new(partition: Vec<CqlType>, clustering: Vec<ClusteringColumn>) -> Self {
        Self {
            partition,
            clustering,
        }
    }

    /// Returns the types of the partition key.
    pub fn partition(&self) -> &[CqlType] {
        &self.partition
    }

    /// Returns the clustering columns.
    pub fn clustering(&self) -> &[ClusteringColumn] {
        &self.clustering
    }

    /// Builds a partition key from validated values, one for each of its columns.
    ///
    /// # Errors
    /// The errors of [`PartitionKey::new`]; [`KeyError::Value`] if the number of values is not the
    /// number of columns.
    pub fn partition_key(&self, values: &[&[u8]]) -> Result<PartitionKey, KeyError> {
        self.count("partition", values, self.partition.len())?;
        PartitionKey::new(values)
    }

    /// Splits a serialized partition key into the values of its columns.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`].
    pub fn partition_values<'a>(&self, key: &'a [u8]) -> Result<Vec<&'a [u8]>, KeyError> {
        split(key, self.partition.len()).ok_or(KeyError::Corrupt {
            what: "a partition key of other columns",
            at: 0,
            len: key.len(),
        })
    }

    /// Appends the ordered forms of the values of all clustering columns, or of only the first ones.
    /// The bytes of a descending column are inverted.
    ///
    /// # Errors
    /// [`KeyError::ClusteringTooLong`]; [`KeyError::Value`] for a value that is invalid for its type,
    /// or for more values than columns.
    pub fn encode_clustering(&self, values: &[&[u8]], out: &mut Vec<u8>) -> Result<(), KeyError> {
        if values.len() > self.clustering.len() {
            self.count("clustering", values, self.clustering.len())?;
        }
        let sum: usize = values.iter().map(|v| v.len()).sum();
        if sum > KEY_LEN_MAX {
            return Err(KeyError::ClusteringTooLong(sum));
        }
        for (column, value) in self.clustering.iter().zip(values) {
            let start = out.len();
            ordered::encode(&column.ty, value, out)?;
            if column.order == Order::Desc {
                out[start..].iter_mut().for_each(|b| *b = !*b);
            }
        }
        Ok(())
    }

    /// Returns whether a clustering value can be decoded from its key: see
    /// [`ordered::is_reconstructible`]. If not, the row stores the value.
    pub fn is_reconstructible(&self, column: usize, value: &[u8]) -> bool {
        ordered::is_reconstructible(&self.clustering[column].ty, value)
    }

    /// Returns whether every clustering value can be decoded from its key.
    pub fn is_always_reconstructible(&self) -> bool {
        let mut columns = self.clustering.iter();
        columns.all(|column| ordered::always_reconstructible(&column.ty))
    }

    /// Decodes the clustering columns to one value each. A value that is not
    /// [reconstructible](ordered::is_reconstructible) decodes to another value that compares as
    /// equal.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`].
    pub fn clustering_values(&self, encoded: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
        match self.try_clustering_values(encoded, &mut |_| Ok::<_, Infallible>(())) {
            Ok(values) => Ok(values),
            Err(DecodeError::Damaged(error)) => Err(error),
        }
    }

    /// Decodes the clustering columns like [`clustering_values`](Self::clustering_values). Reports
    /// the work to the callback `charge` as [`ordered::decode`] does, so that `charge` can end it.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`]; the error of `charge`.
    pub fn try_clustering_values<E>(
        &self,
        encoded: &[u8],
        charge: Charge<'_, E>,
    ) -> Result<Vec<Vec<u8>>, DecodeError<KeyError, E>> {
        let corrupt = |malformed| corrupt(malformed, encoded);
        let mut reader = Reader::new(encoded, false);
        let mut values = Vec::with_capacity(self.clustering.len());
        for column in &self.clustering {
            reader.set_inverted(column.order == Order::Desc);
            let value = ordered::decode(&column.ty, &mut reader, charge);
            values.push(value.map_err(|error| error.map_damage(corrupt))?);
        }
        if reader.at() < encoded.len() {
            return Err(DecodeError::Damaged(corrupt(Malformed {
                what: "more than the clustering columns",
                at: reader.at(),
            })));
        }
        Ok(values)
    }

    /// Returns the ordered form of the clustering column at `position`, as [`ordered::encode`]
    /// writes it. Does not decode the value, because this would take milliseconds for a long
    /// decimal.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`].
    pub fn clustering_form(&self, encoded: &[u8], position: usize) -> Result<Vec<u8>, KeyError> {
        let mut reader = Reader::new(encoded, false);
        let (mut form, mut is_inverted) = (0..0, false);
        for column in &self.clustering[..=position] {
            let start = reader.at();
            is_inverted = column.order == Order::Desc;
            reader.set_inverted(is_inverted);
            let skipped = ordered::skip(&column.ty, &mut reader);
            skipped.map_err(|malformed| corrupt(malformed, encoded))?;
            form = start..reader.at();
        }
        let mut form = encoded[form].to_vec();
        if is_inverted {
            form.iter_mut().for_each(|b| *b = !*b);
        }
        Ok(form)
    }

    /// Returns the key of a row.
    ///
    /// # Errors
    /// The errors of [`encode_clustering`](Self::encode_clustering), and [`KeyError::Value`] if a
    /// clustering value is missing.
    pub fn row_key(&self, partition: &PartitionKey, values: &[&[u8]]) -> Result<Vec<u8>, KeyError> {
        self.count("clustering", values, self.clustering.len())?;
        let mut key = partition.prefix();
        key.push(ROW);
        self.encode_clustering(values, &mut key)?;
        Ok(key)
    }

    fn count(&self, kind: &str, values: &[&[u8]], columns: usize) -> Result<(), KeyError> {
        if values.len() == columns {
            return Ok(());
        }
        Err(KeyError::Value(TypeError::new(format!(
            "Expected {columns} values for the {kind} columns but got {}",
            values.len()
        ))))
    }
}

fn corrupt(Malformed { what, at }: Malformed, encoded: &[u8]) -> KeyError {
    KeyError::Corrupt {
        what,
        at,
        len: encoded.len(),
    }
}

impl PartitionKey {
    /// Returns the key of the partition's header, the stored entry with its deletions and static
    /// columns.
    pub fn header_key(&self) -> Vec<u8> {
        let mut key = self.prefix();
        key.push(HEADER);
        key
    }

    /// Returns the range of all keys of the partition, header and rows.
    pub fn range(&self) -> ByteRange {
        ByteRange::of_prefix(self.prefix())
    }

    /// Returns the range of the keys of rows whose encoded clusterings lie in a range.
    pub fn rows_in(&self, clusterings: &ByteRange) -> ByteRange {
        let prefix = self.prefix();
        let key_of = |clustering: &[u8]| [&prefix[..], &[ROW], clustering].concat();
        ByteRange {
            from: key_of(&clusterings.from),
            to: match &clusterings.to {
                Some(to) => Some(key_of(to)),
                None => ByteRange::of_prefix(key_of(&[])).to,
            },
        }
    }
}

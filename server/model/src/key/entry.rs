//! Keys of the entries of secondary indexes.
//!
//! ```text
//! entry   00 × 8 | index: 4 | length: 1 | value's form           | key of the row or header
//!         00 × 8 | index: 4 | ff        | hash of the form: 16   | key of the row or header
//! ```
//!
//! No partition has the minimal token, so entries come after the schema's key and before all
//! partitions of their table. The entries of one value form one range, in the order of the rows: by
//! token, then by clustering. A form of more than [`FORM_LEN_MAX`] bytes is hashed. Hashes may
//! collide, so a reader checks the value in the row itself.

use super::murmur3::hash3_x64_128;
use super::{ByteRange, KeyError, Token};

/// The maximal length, in bytes, of the ordered form of an indexed value (bytes that sort as the
/// values do) in the key of an index entry. A hash replaces longer forms. The key of an entry also
/// contains the key of a row, and must stay below the engine's limit of 256 KiB even with the
/// longest one.
pub const FORM_LEN_MAX: usize = 64;

/// The length byte of an entry's key that contains the hash of the value's ordered form instead of
/// the form.
const HASHED: u8 = 0xff;

const HEAD_LEN: usize = 8 + 4;

/// The start of the range of all keys of partitions: the encoding of the least token that a
/// partition can have. Only the schema and entries of indexes have lesser keys.
pub const PARTITIONS_START: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 1];

/// Returns whether a key belongs to an index entry.
pub fn is_index_entry(key: &[u8]) -> bool {
    key.starts_with(&Token::MIN.to_ordered())
}

/// Returns the range of all entries of the indexes with ids from `from` to before `to`.
pub fn entries_of_indexes(from: u32, to: u32) -> ByteRange {
    ByteRange {
        from: head(from),
        to: Some(head(to)),
    }
}

/// Returns the prefix that the keys of all entries for one value share in the index with the id
/// `index`. `form` is the value's ordered form, or a concatenation of several. Values with long
/// forms share the prefix if the hashes of their forms collide.
pub fn entry_prefix(index: u32, form: &[u8]) -> Vec<u8> {
    let mut key = head(index);
    if form.len() <= FORM_LEN_MAX {
        key.push(form.len() as u8);
        key.extend(form);
    } else {
        let (high, low) = hash3_x64_128(form);
        key.push(HASHED);
        key.extend(high.to_be_bytes());
        key.extend(low.to_be_bytes());
    }
    key
}

fn head(index: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(HEAD_LEN + 1 + FORM_LEN_MAX);
    key.extend(Token::MIN.to_ordered());
    key.extend(index.to_be_bytes());
    key
}

/// The parts of the key of a secondary index's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryKey<'a> {
    /// The id of the index.
    pub index: u32,
    /// The prefix that the keys of all entries for the same indexed value share: see
    /// [`entry_prefix`].
    pub prefix: &'a [u8],
    /// The key of the row that has or had the value; for a static column, the key of the
    /// partition's header, which contains the static columns.
    pub row_key: &'a [u8],
}

impl<'a> EntryKey<'a> {
    /// Splits the key of an index entry into its parts. The last part, the key of the row, is not
    /// checked.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`].
    pub fn read(key: &'a [u8]) -> Result<Self, KeyError> {
        let corrupt = |what| KeyError::Corrupt {
            what,
            at: 0,
            len: key.len(),
        };
        let cut = || corrupt("the entry of an index is cut off");
        if !is_index_entry(key) {
            return Err(corrupt("no entry of an index"));
        }
        let (index, rest) = key[8..].split_first_chunk::<4>().ok_or_else(cut)?;
        let (&len, _) = rest.split_first().ok_or_else(cut)?;
        let len = match len {
            HASHED => 16,
            len if usize::from(len) <= FORM_LEN_MAX => usize::from(len),
            _ => return Err(corrupt("an entry of an index with too long a value")),
        };
        let at = HEAD_LEN + 1 + len;
        let (prefix, row_key) = key.split_at_checked(at).ok_or_else(cut)?;
        Ok(Self {
            index: u32::from_be_bytes(*index),
            prefix,
            row_key,
        })
    }
}

//! The index of a data file: the keys of some of its rows, in the order of the rows.
//!
//! Nothing in an Iceberg table leads from a key to a row: the order of rows is that of CQL's tokens, which
//! are no column. So a publisher keeps an index beside each data file of the newest publication, outside of
//! the table:
//!
//! ```text
//!   KEYSPACE/TABLE/data/NAME.parquet            the data file
//!   _ebb/.index/KEYSPACE/TABLE/NAME.idx         its index; no keyspace has a dot in its name
//! ```
//!
//! The book describes the format (`docs/src/formats/row-index.md`). An index has at most 3% of the size of
//! its file. Without one, the same keys are found by reading the columns of the key: an index that is lost,
//! damaged, or too large for a small file costs time only.

use bytes::Bytes;
use object_store::path::Path;

use crate::iceberg::manifest::DataFile;
use crate::target::{Target, TargetError};

/// The folder of all indexes in a target.
const FOLDER: &str = "_ebb/.index";

/// The first bytes of an index. The digits are the version of the format.
const MAGIC: &[u8; 8] = b"ebbidx01";

/// The size of an index without its keys and checksum, in bytes: the version of the format, three integers,
/// and the number of keys.
const HEAD_BYTES: usize = MAGIC.len() + 3 * 8 + 4;

/// The size of the checksum at the end, in bytes.
const CRC_BYTES: usize = 4;

/// The size of the length in front of each key, in bytes.
const LENGTH_BYTES: usize = 4;

/// The least distance, in rows, between two rows whose keys an index has. The distance is doubled until all
/// keys together take no more than [`KEY_BYTES_MAX`]. A smaller distance would not make lookups faster,
/// because a reader decodes a page of some thousand rows anyway.
const STRIDE_MIN: u64 = 256;

/// The greatest size of all keys of an index together, in bytes. Each writer and each reader of a data file
/// holds these keys in memory.
const KEY_BYTES_MAX: usize = 256 << 10;

/// The greatest size of an index, in percent of the size of its data file.
const PERCENT_MAX: u64 = 3;

/// The index of a data file: the keys of every `stride`-th row, beginning with the first, and of the last
/// row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowIndex {
    rows: u64,
    stride: u64,
    /// The keys of every `stride`-th row, ascending; at least one.
    keys: Vec<Box<[u8]>>,
    last: Box<[u8]>,
}

/// A builder of the index of a data file. While the file is written or read, it gets the keys of all rows.
#[derive(Debug)]
pub(crate) struct RowIndexBuilder {
    rows: u64,
    stride: u64,
    keys: Vec<Box<[u8]>>,
    key_bytes: usize,
    last: Vec<u8>,
}

/// A contiguous range of rows of a file.
pub(crate) type Rows = std::ops::Range<u64>;

impl RowIndexBuilder {
    pub(crate) fn new() -> Self {
        Self {
            rows: 0,
            stride: STRIDE_MIN,
            keys: Vec::new(),
            key_bytes: 0,
            last: Vec::new(),
        }
    }

    /// Appends the key of the next row. Returns false, and changes nothing, if the key is not above the one
    /// before it.
    pub(crate) fn append(&mut self, key: &[u8]) -> bool {
        if self.rows > 0 && *key <= *self.last {
            return false;
        }
        if self.rows.is_multiple_of(self.stride) {
            self.keys.push(key.into());
            self.key_bytes += key.len() + LENGTH_BYTES;
            while self.key_bytes > KEY_BYTES_MAX && self.keys.len() > 1 {
                thin(&mut self.keys, &mut self.stride);
                self.key_bytes = key_bytes(&self.keys);
            }
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.rows += 1;
        true
    }

    /// Returns the index of a file of `rows` rows; `None` if `rows` is 0, or is not the number of appended keys.
    pub(crate) fn finish(self, rows: u64) -> Option<RowIndex> {
        let is_whole = rows > 0 && self.rows == rows;
        is_whole.then(|| RowIndex {
            rows,
            stride: self.stride,
            keys: self.keys,
            last: self.last.into(),
        })
    }
}

/// Drops every second key of an index that would become too large, and doubles `stride`, the number
/// of rows from one key to the next.
fn thin(keys: &mut Vec<Box<[u8]>>, stride: &mut u64) {
    let mut place = 0_usize;
    keys.retain(|_| {
        place += 1;
        place % 2 == 1
    });
    *stride = stride.saturating_mul(2);
}

fn key_bytes(keys: &[Box<[u8]>]) -> usize {
    keys.iter().map(|key| key.len() + LENGTH_BYTES).sum()
}

impl RowIndex {
    /// Returns the key of the first row.
    pub(crate) fn first(&self) -> &[u8] {
        &self.keys[0]
    }

    /// Returns the key of the last row.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Returns the range of rows in which the row of `key` lies, if there is such a row; `None` if the file cannot
    /// have it.
    pub(crate) fn rows_around(&self, key: &[u8]) -> Option<Rows> {
        if *key > *self.last {
            return None;
        }
        let above = self.keys.partition_point(|of| **of <= *key);
        let start = above.checked_sub(1)? as u64 * self.stride;
        Some(start..self.rows.min(start.saturating_add(self.stride)))
    }

    /// Returns the key of row number `row`; `None` if the index does not have it.
    pub(crate) fn key_of(&self, row: u64) -> Option<&[u8]> {
        let has_key = row.is_multiple_of(self.stride);
        let place = usize::try_from(row / self.stride)
            .ok()
            .filter(|_| has_key)?;
        self.keys.get(place).map(|key| &**key)
    }

    /// Stores the index of the data file `file`, and replaces an earlier one. Leaves out keys of an index
    /// that would be too large. Stores nothing if even two keys are too large, or if the name of the file is
    /// not one that ebb gives.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub fn store(&self, target: &Target, file: &DataFile) -> Result<(), TargetError> {
        let name = target.name(&file.file_path).and_then(name);
        match name.zip(self.encode(size_of(file))) {
            Some((name, bytes)) => target.replace(&name, bytes),
            None => Ok(()),
        }
    }

    /// Reads the index of a data file; `None` if there is none, if it is damaged, or if it is that of another
    /// file.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn load(target: &Target, file: &DataFile) -> Result<Option<Self>, TargetError> {
        let Some(name) = target.name(&file.file_path).and_then(name) else {
            return Ok(None);
        };
        let bytes = target.read(&name)?;
        Ok(bytes.and_then(|bytes| Self::of(&bytes, file)))
    }

    /// Reads the indexes of data files, many at once. Calls `take` with the position of each data file in
    /// `files` and its index, and returns the results. Skips indexes that are missing or damaged.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn load_each<T>(
        target: &Target,
        files: &[&DataFile],
        take: impl Fn(usize, &Self) -> T,
    ) -> Result<Vec<T>, TargetError> {
        let named = files.iter().enumerate().filter_map(|(place, file)| {
            let name = target.name(&file.file_path).and_then(name)?;
            Some((place, Path::from(name)))
        });
        let (places, keys): (Vec<usize>, Vec<Path>) = named.unzip();
        let taken = target.get_each(&keys, |at, bytes| {
            let place = places[at];
            let index = Self::of(&bytes?, files[place])?;
            Some(take(place, &index))
        });
        Ok(taken?.into_iter().flatten().collect())
    }

    /// Decodes the index of a data file; `None` if the bytes are damaged, or are the index of another file.
    fn of(bytes: &[u8], file: &DataFile) -> Option<Self> {
        let index = Self::decode(bytes, size_of(file))?;
        (i64::try_from(index.rows) == Ok(file.record_count)).then_some(index)
    }

    /// Returns the bytes of the index of a file that has the size `file_bytes`. Leaves out keys of an index
    /// that would otherwise be larger than [`PERCENT_MAX`] of this size; `None` if there is no room for two
    /// keys.
    fn encode(&self, file_bytes: u64) -> Option<Bytes> {
        let room = file_bytes / 100 * PERCENT_MAX;
        let (mut keys, mut stride) = (self.keys.clone(), self.stride);
        let own = HEAD_BYTES + CRC_BYTES + LENGTH_BYTES + self.last.len();
        let mut length = own + key_bytes(&keys);
        while length as u64 > room {
            if keys.len() == 1 {
                return None;
            }
            thin(&mut keys, &mut stride);
            length = own + key_bytes(&keys);
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(MAGIC);
        for number in [self.rows, file_bytes, stride] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&u32::try_from(keys.len()).ok()?.to_le_bytes());
        for key in keys.iter().chain([&self.last]) {
            bytes.extend_from_slice(&u32::try_from(key.len()).ok()?.to_le_bytes());
            bytes.extend_from_slice(key);
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        Some(bytes.into())
    }

    /// Decodes the index of a file that has the size `file_bytes`; `None` if the bytes are no such index.
    fn decode(bytes: &[u8], file_bytes: u64) -> Option<Self> {
        let (content, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut left = content.strip_prefix(MAGIC)?;
        let mut number = || Some(u64::from_le_bytes(*take(&mut left)?));
        let (rows, of_file, stride) = (number()?, number()?, number()?);
        let count = u32::from_le_bytes(*take(&mut left)?);
        let is_whole = of_file == file_bytes
            && rows > 0
            && stride > 0
            && rows.div_ceil(stride) == u64::from(count);
        let mut key = || {
            let length = u32::from_le_bytes(*take(&mut left)?) as usize;
            let (key, rest) = left.split_at_checked(length)?;
            left = rest;
            Some(Box::<[u8]>::from(key))
        };
        let keys: Option<Vec<_>> = (0..count).map(|_| key()).collect();
        let (keys, last) = (keys?, key()?);
        let is_ascending = keys.is_sorted_by(|a, b| a < b) && keys.last()? <= &last;
        (is_whole && is_ascending && left.is_empty()).then_some(Self {
            rows,
            stride,
            keys,
            last,
        })
    }
}

/// Removes the first `N` bytes from `left` and returns them; `None` if there are fewer.
fn take<'b, const N: usize>(left: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (taken, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(taken)
}

fn size_of(file: &DataFile) -> u64 {
    u64::try_from(file.file_size_in_bytes).unwrap_or(0)
}

/// Returns the folder, in the target, of the indexes of a table.
pub(crate) fn folder(table: &str) -> String {
    format!("{FOLDER}/{table}")
}

/// Returns the name of the index of a data file; `None` if `data_file` does not have the form of names that ebb
/// gives to data files.
pub(crate) fn name(data_file: &str) -> Option<String> {
    let (table, file) = data_file.rsplit_once("/data/")?;
    let file = file.strip_suffix(".parquet")?;
    Some(format!("{}/{file}.idx", folder(table)))
}

#[cfg(test)]
mod tests {
    use ebb_model::types::Hex;

    use super::*;

    fn key(row: u64) -> Vec<u8> {
        (row * 3).to_be_bytes().to_vec()
    }

    fn index(rows: u64) -> RowIndex {
        let mut builder = RowIndexBuilder::new();
        assert!((0..rows).all(|row| builder.append(&key(row))));
        builder.finish(rows).unwrap()
    }

    #[test]
    fn a_key_leads_to_the_rows_around_it() {
        let rows = 10_000;
        let index = index(rows);
        assert_eq!(
            (index.first(), index.last()),
            (&key(0)[..], &key(rows - 1)[..])
        );
        for row in 0..rows {
            let around = index.rows_around(&key(row)).unwrap();
            assert!(
                around.contains(&row) && around.end <= rows,
                "{row}: {around:?}"
            );
            assert!(around.end - around.start <= STRIDE_MIN);
            assert!(index.key_of(row).is_none_or(|of| of == key(row)));
        }
        assert_eq!(index.key_of(STRIDE_MIN), Some(&key(STRIDE_MIN)[..]));
        // Between two rows, and beyond the last one.
        let between = (3 * STRIDE_MIN + 1).to_be_bytes();
        assert_eq!(index.rows_around(&between).unwrap().start, STRIDE_MIN);
        assert_eq!(index.rows_around(&key(rows)), None);
        assert_eq!(index.rows_around(b""), None);
    }

    #[test]
    fn keys_are_bounded_in_memory_and_in_their_part_of_the_file() {
        let mut builder = RowIndexBuilder::new();
        let long = |row: u64| [&key(row)[..], &[7; 2000]].concat();
        let rows = 400 * STRIDE_MIN;
        for row in 0..rows {
            assert!(builder.append(&long(row)));
            assert!(builder.key_bytes <= KEY_BYTES_MAX);
        }
        let index = builder.finish(rows).unwrap();
        assert!(index.rows_around(&long(77_777)).unwrap().contains(&77_777));
        for file_bytes in [1 << 30, 4 << 20, 600_000] {
            let bytes = index.encode(file_bytes).unwrap();
            assert!(bytes.len() as u64 <= file_bytes * 3 / 100);
            let stored = RowIndex::decode(&bytes, file_bytes).unwrap();
            assert!(stored.rows_around(&long(77_777)).unwrap().contains(&77_777));
            assert_eq!(stored.last(), long(rows - 1));
        }
        assert_eq!(index.encode(100_000), None);
    }

    #[test]
    fn keys_that_do_not_ascend_and_rows_without_keys_are_noticed() {
        let mut builder = RowIndexBuilder::new();
        assert!(builder.append(b"") && builder.append(b"b"));
        assert!(!builder.append(b"b") && !builder.append(b"a"));
        assert!(builder.append(b"ba"));
        assert!(builder.finish(4).is_none());
        assert!(RowIndexBuilder::new().finish(0).is_none());
    }

    #[test]
    fn an_index_with_any_bit_flipped_or_cut_is_none() {
        let index = index(1_000);
        let bytes = index.encode(1 << 20).unwrap();
        assert_eq!(RowIndex::decode(&bytes, 1 << 20).as_ref(), Some(&index));
        assert_eq!(RowIndex::decode(&bytes, 1 << 21), None);
        for at in 0..bytes.len() {
            assert_eq!(RowIndex::decode(&bytes[..at], 1 << 20), None);
            for bit in 0..8 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                assert_eq!(RowIndex::decode(&flipped, 1 << 20), None, "{at}, {bit}");
            }
        }
        assert_eq!(RowIndex::decode(b"", 0), None);
    }

    #[test]
    fn the_example_of_the_book_is_written() {
        let mut builder = RowIndexBuilder::new();
        assert!(builder.append(b"a") && builder.append(b"bc"));
        let bytes = builder.finish(2).unwrap().encode(4096).unwrap();
        let book = include_str!("../../../docs/src/formats/row-index.md");
        let (_, example) = book.split_once("```text\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        // Each line has hexadecimal numbers, three spaces, and words.
        let digits = example.lines().flat_map(|line| {
            let (numbers, _) = line.split_once("   ").unwrap();
            numbers.chars().filter(|c| *c != ' ')
        });
        let expected = Hex(&bytes).to_string();
        assert_eq!(digits.collect::<String>(), expected);
    }

    #[test]
    fn an_index_lies_outside_of_the_table() {
        assert_eq!(
            name("ks/t/data/ebb-3-a-0-1.parquet").as_deref(),
            Some("_ebb/.index/ks/t/ebb-3-a-0-1.idx")
        );
        assert_eq!(name("ks/t/metadata/x.avro"), None);
        assert_eq!(folder("ks/t"), "_ebb/.index/ks/t");
    }
}

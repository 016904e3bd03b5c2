//! Avro container files (specification 1.11), as far as Iceberg's manifests need them.
//!
//! Iceberg's readers look for attributes such as `field-id` and `logicalType` in the schema that the
//! file carries. The Rust library for Avro writes the schema anew and leaves out some of them, so the
//! schema is written here as it is: records of one type in one block, compressed by deflate.
//!
//! Other engines order the fields of their records differently and have more of them. So a file is
//! decoded by the schema that it carries ([`schema`]), and a reader finds the fields of a record by
//! their ids ([`value`]). Bytes from a file are untrusted: they are an error, never a panic.

mod schema;
mod value;

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use self::schema::Schema;
use self::value::VALUES_MAX;
pub(super) use self::value::{Record, Value};

const MAGIC: &[u8; 4] = b"Obj\x01";

/// The marker between blocks. Other writers choose one at random for each file, so that readers that begin in
/// the middle of a file can find the next block. Manifests are read from their beginnings, so ebb always uses
/// the same marker.
const SYNC: &[u8; 16] = b"ebb-publish-sync";

/// The largest size of a decompressed block, in bytes. The block of a manifest of a million files is smaller.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// The largest size of all decompressed blocks together, as a multiple of the size of their file. Manifests whose
/// entries differ only by a number in the name of the file reach 160. Deflate reaches 1032 with bytes that are all
/// zero.
const INFLATION_MAX: u64 = 256;

/// The number of values that a file may have for each byte of its decompressed blocks, in addition
/// to [`VALUES_MAX`]. Without this limit, values that take no bytes could keep the reader of a
/// small file busy for days. In manifests, no part has more than two values per byte, except for a
/// few records per entry, which have no bytes of their own. An absent value is two values in one
/// byte (a union and a null), and a column's count or bound is three in at least two bytes.
const VALUES_PER_BYTE_MAX: usize = 4;

/// The reason why an Avro container file cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AvroError(Cow<'static, str>);

impl AvroError {
    pub(super) fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

type Result<T> = std::result::Result<T, AvroError>;

/// Returns a container file of `records`. `header` are the entries of its header besides the schema and the
/// codec.
pub(super) fn container(schema: &str, header: &[(&str, String)], records: &[Encoder]) -> Vec<u8> {
    let mut head = Encoder::default();
    head.bytes.extend_from_slice(MAGIC);
    let codec = [("avro.schema", schema), ("avro.codec", "deflate")];
    let header = header.iter().map(|(name, value)| (*name, value.as_str()));
    let entries: Vec<(&str, &str)> = codec.into_iter().chain(header).collect();
    head.array(&entries, |head, (name, value)| {
        head.string(name);
        head.string(value);
    });
    head.bytes.extend_from_slice(SYNC);
    if !records.is_empty() {
        let mut block = DeflateEncoder::new(Vec::new(), Compression::default());
        let written = records
            .iter()
            .try_for_each(|record| block.write_all(&record.bytes));
        let block = written.and_then(|()| block.finish());
        head.long(records.len() as i64);
        head.blob(&block.expect("a vector takes all bytes"));
        head.bytes.extend_from_slice(SYNC);
    }
    head.bytes
}

/// Reads a container file of any writer. Calls `record` with each of its records, and returns the
/// results. The memory and the time are in proportion to the size of the file: a small file that
/// would need much more is an error.
///
/// # Errors
/// If the bytes are no such file, if its codec is neither null nor deflate, if the blocks are too
/// large after decompression, or if the file has more records than bytes, or too many values; the
/// error of `record`.
pub(super) fn records<T>(
    bytes: &[u8],
    mut record: impl FnMut(&Record<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut file = Decoder { bytes };
    if file.take(MAGIC.len())? != MAGIC {
        return Err(AvroError::new("it is no Avro container file"));
    }
    // A file that names no codec is not compressed.
    let (mut schema, mut codec) = (None, &b"null"[..]);
    file.items(|file| {
        let (name, value) = (file.blob()?, file.blob()?);
        match name {
            b"avro.schema" => schema = Some(value),
            b"avro.codec" => codec = value,
            _ => {}
        }
        Ok(())
    })?;
    let schema = schema.ok_or_else(|| AvroError::new("it has no schema"))?;
    let schema = Schema::parse(schema)?;
    let is_deflated = match codec {
        b"null" => false,
        b"deflate" => true,
        other => {
            return Err(AvroError::new(format!(
                "its codec is {}, and only null and deflate are read",
                String::from_utf8_lossy(other)
            )));
        }
    };
    // Each writer has its own.
    let sync = file.take(SYNC.len())?;
    let mut inflated_left = INFLATION_MAX * bytes.len() as u64;
    let mut values_left = VALUES_MAX;
    let mut records = Vec::new();
    while !file.bytes.is_empty() {
        let (count, packed) = (file.long()?, file.blob()?);
        let block = if is_deflated {
            let block = inflate(packed, BLOCK_BYTES_MAX.min(inflated_left))?;
            inflated_left -= block.len() as u64;
            Cow::Owned(block)
        } else {
            Cow::Borrowed(packed)
        };
        let values_more = VALUES_PER_BYTE_MAX.saturating_mul(block.len());
        values_left = values_left.saturating_add(values_more);
        let mut block = Decoder { bytes: &block };
        // A negative count reads no records: the bytes of the block are then too many.
        for _ in 0..count {
            // A record names a file, and no two name the same. However well such records are compressed, each
            // takes more than two bytes.
            if records.len() == bytes.len() {
                return Err(AvroError::new("it has more records than bytes"));
            }
            let before = block.bytes.len();
            records.push(record(&schema.decode(&mut block, &mut values_left)?)?);
            // A manifest has no such records. The check above, too, would end a wrong count of
            // them, but only after as many records as the file has bytes.
            if block.bytes.len() == before {
                return Err(AvroError::new("a record has no bytes"));
            }
        }
        if !block.bytes.is_empty() || file.take(sync.len())? != sync {
            return Err(AvroError::new("a block has more bytes than its records"));
        }
    }
    Ok(records)
}

/// Decompresses a block, which may have at most `bytes_max` bytes afterwards.
fn inflate(packed: &[u8], bytes_max: u64) -> Result<Vec<u8>> {
    let mut block = Vec::new();
    let mut inflated = DeflateDecoder::new(packed).take(bytes_max + 1);
    let read = inflated.read_to_end(&mut block);
    read.map_err(|_| AvroError::new("a block cannot be decompressed"))?;
    if block.len() as u64 > bytes_max {
        return Err(AvroError::new(
            "its blocks are too large once they are decompressed",
        ));
    }
    Ok(block)
}

/// Returns a container file with one block, which is not compressed. Its header names the codec
/// `codec`, which may be a codec that compresses. With `None`, the header names no codec.
#[cfg(test)]
pub(super) fn stored(codec: Option<&str>, schema: &str, records: &[Encoder]) -> Vec<u8> {
    let mut file = Encoder::default();
    file.bytes.extend_from_slice(MAGIC);
    let codec = codec.map(|codec| ("avro.codec", codec));
    let entries: Vec<_> = codec.into_iter().chain([("avro.schema", schema)]).collect();
    file.array(&entries, |file, (name, value)| {
        file.string(name);
        file.string(value);
    });
    file.bytes.extend_from_slice(SYNC);
    file.long(records.len() as i64);
    let block: Vec<u8> = records.iter().flat_map(|r| r.bytes.clone()).collect();
    file.blob(&block);
    file.bytes.extend_from_slice(SYNC);
    file.bytes
}

/// A record, or a part of a file, that is being encoded.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Appends an `int` or a `long`, in zigzag encoding, as a varint.
    pub(super) fn long(&mut self, value: i64) {
        let mut left = ((value << 1) ^ (value >> 63)) as u64;
        while left >= 0x80 {
            self.bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        self.bytes.push(left as u8);
    }

    pub(super) fn blob(&mut self, value: &[u8]) {
        self.long(value.len() as i64);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn string(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    /// Appends a value of a union of null and another type, in this order. `write` encodes a value of the
    /// other type.
    pub(super) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.long(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn array<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        if !items.is_empty() {
            self.long(items.len() as i64);
            items.iter().for_each(|item| write(self, item));
        }
        self.long(0);
    }
}

/// A decoder of a file or of a block. `bytes` is the part that it has not decoded yet.
#[derive(Debug)]
struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let split = self.bytes.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| AvroError::new("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(AvroError::new("an integer has more than 64 bits"))
    }

    fn blob(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.long()?);
        self.take(length.map_err(|_| AvroError::new("a length is negative"))?)
    }

    /// Calls `item` to decode each item of an array, or each entry of a map.
    ///
    /// # Errors
    /// If an item has no bytes, or if the bytes end too early; the errors of `item`.
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The size of the block in bytes follows.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let before = self.bytes.len();
                item(self)?;
                // Otherwise a wrong count of items without bytes would keep this loop busy for years.
                if self.bytes.len() == before {
                    return Err(AvroError::new("an item has no bytes"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[
        {"name":"value","type":"long","field-id":1},
        {"name":"positive","type":["null","long"],"field-id":2},
        {"name":"words","type":{"type":"array","items":"string"},"field-id":3}]}"#;

    fn encoded(value: i64) -> Encoder {
        let mut record = Encoder::default();
        record.long(value);
        record.optional(Some(value).filter(|v| *v > 0), Encoder::long);
        record.array(&["a", "bc"], |record, text| record.string(text));
        record
    }

    fn file() -> Vec<u8> {
        let values = [0, 1, -1, 63, -65, i64::MAX, i64::MIN];
        container(
            SCHEMA,
            &[("name", "value".to_owned())],
            &values.map(encoded),
        )
    }

    type Read = (i64, Option<i64>, usize);

    fn read(bytes: &[u8]) -> Result<Vec<Read>> {
        records(bytes, |record| {
            let words = record.optional_array(3)?.map_or(0, <[Value<'_>]>::len);
            Ok((record.long(1)?, record.optional_long(2)?, words))
        })
    }

    #[test]
    fn records_come_back() {
        let records = read(&file()).unwrap();
        assert_eq!(records.len(), 7);
        assert_eq!(records[4], (-65, None, 2));
        assert_eq!(records[5], (i64::MAX, Some(i64::MAX), 2));
        assert_eq!(read(&container(SCHEMA, &[], &[])), Ok(Vec::new()));
    }

    #[test]
    fn a_file_without_compression_is_read_and_another_codec_is_refused_by_its_name() {
        for codec in [None, Some("null")] {
            assert_eq!(
                read(&stored(codec, SCHEMA, &[encoded(3)])),
                Ok(vec![(3, Some(3), 2)])
            );
        }
        let error = read(&stored(Some("snappy"), SCHEMA, &[encoded(3)])).unwrap_err();
        assert!(error.to_string().contains("its codec is snappy"), "{error}");
    }

    #[test]
    fn blocks_that_are_only_together_too_large_after_decompression_are_refused() {
        let mut record = Encoder::default();
        record.long(0);
        record.optional(None, Encoder::long);
        let word = "0".repeat(1_000_000);
        record.array(&[word], |record, text| record.string(text));
        let head = container(SCHEMA, &[], &[]);
        let file = container(SCHEMA, &[], &[record]);
        let file = [&head[..], &file[head.len()..].repeat(10)].concat();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("its blocks are too large"), "{error}");
    }

    /// Regression: only the values of each single record were limited. A manifest of some megabytes
    /// whose records each had a million values without bytes kept a reader busy for days.
    #[test]
    fn records_that_only_together_have_too_many_values_are_refused() {
        // Each type of records has twice as many nulls as the one before, and none has bytes.
        let (mut ty, mut name) = ("\"null\"".to_owned(), "\"null\"".to_owned());
        for at in 0..10 {
            ty = format!(
                r#"{{"type":"record","name":"r{at}","fields":[
                {{"name":"a","type":{ty}}},{{"name":"b","type":{name}}}]}}"#
            );
            name = format!("\"r{at}\"");
        }
        let schema = format!(
            r#"{{"type":"record","name":"r","fields":[
            {{"name":"value","type":"long","field-id":1}},{{"name":"all","type":{ty}}}]}}"#
        );
        let read = |count: usize| {
            let encoded = |_| {
                let mut record = Encoder::default();
                record.long(7);
                record
            };
            let encoded: Vec<Encoder> = (0..count).map(encoded).collect();
            records(&stored(None, &schema, &encoded), |record| record.long(1))
        };
        assert_eq!(read(100), Ok(vec![7; 100]));
        let error = read(1000).unwrap_err().to_string();
        assert!(error.contains("too many values"), "{error}");
    }

    #[test]
    fn bytes_that_are_cut_or_flipped_are_no_panic_and_give_no_part_of_a_block() {
        let file = file();
        for at in 0..file.len() {
            // A file that ends right after its header has no records.
            assert!(read(&file[..at]).is_ok_and(|r| r.is_empty()) || read(&file[..at]).is_err());
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                let _ = read(&flipped);
            }
        }
    }
}

//! Avro container files (specification 1.11), as far as Iceberg's manifests need them: records of
//! one type in one block, compressed by deflate.
//!
//! Iceberg's readers look for attributes such as `field-id` and `logicalType` in the schema that the
//! file carries. The Rust library for Avro writes the schema anew and leaves out some of them, so the
//! schema is written here as it is.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

const MAGIC: &[u8; 4] = b"Obj\x01";

/// The bytes between blocks. They differ from file to file only for readers that look for them in the
/// middle of a file, which have no use here.
const SYNC: &[u8; 16] = b"ebb-publish-sync";

/// The size of a decompressed block at most. A manifest of a million files is smaller.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Bytes that are no container file of the expected records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AvroError(&'static str);

type Result<T> = std::result::Result<T, AvroError>;

/// Returns a container file of `records`, each encoded by [`Encoder`]. `header` are its entries beside
/// the schema and the codec.
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

/// Reads a container file whose records `record` decodes.
///
/// # Errors
/// If the bytes are no such file.
pub(super) fn records<T>(
    bytes: &[u8],
    mut record: impl FnMut(&mut Decoder<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut file = Decoder { bytes };
    if file.take(MAGIC.len())? != MAGIC {
        return Err(AvroError("it is no Avro container file"));
    }
    let mut is_deflate = false;
    file.array(|file| {
        let (name, value) = (file.blob()?, file.blob()?);
        is_deflate |= name == b"avro.codec" && value == b"deflate";
        Ok(())
    })?;
    if !is_deflate {
        return Err(AvroError("its codec is not deflate"));
    }
    let sync = file.take(SYNC.len())?;
    let mut records = Vec::new();
    while !file.bytes.is_empty() {
        let count = file.long()?;
        let mut block = Vec::new();
        let mut inflated = DeflateDecoder::new(file.blob()?).take(BLOCK_BYTES_MAX);
        let read = inflated.read_to_end(&mut block);
        read.map_err(|_| AvroError("a block cannot be decompressed"))?;
        let mut block = Decoder { bytes: &block };
        for _ in 0..count {
            records.push(record(&mut block)?);
        }
        if !block.bytes.is_empty() || file.take(sync.len())? != sync {
            return Err(AvroError("a block has more bytes than its records"));
        }
    }
    Ok(records)
}

/// A record, or a part of a file, that is being encoded.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Appends an `int` or a `long`, zigzag in groups of seven bits.
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

    /// Appends a value of a union of null and something else.
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

/// The rest of a file or of a block.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let split = self.bytes.split_at_checked(count);
        let (taken, rest) = split.ok_or(AvroError("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn long(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(AvroError("an integer has more than 64 bits"))
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        let value = self.long()?.try_into();
        value.map_err(|_| AvroError("an integer has more than 32 bits"))
    }

    pub(super) fn blob(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.long()?);
        self.take(length.map_err(|_| AvroError("a length is negative"))?)
    }

    pub(super) fn string(&mut self) -> Result<String> {
        let text = String::from_utf8(self.blob()?.to_vec());
        text.map_err(|_| AvroError("a text is not UTF-8"))
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.long()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(AvroError("a union has no such branch")),
        }
    }

    pub(super) fn array<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(items);
            }
            if count < 0 {
                // The size of the block in bytes follows.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let before = self.bytes.len();
                items.push(read(self)?);
                if self.bytes.len() == before {
                    return Err(AvroError("an item has no bytes"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let values = [0, 1, -1, 63, -65, i64::MAX, i64::MIN];
        let records = values.map(|value| {
            let mut record = Encoder::default();
            record.long(value);
            record.optional(Some(value).filter(|v| *v > 0), Encoder::long);
            record.array(&["a", "bc"], |record, text| record.string(text));
            record
        });
        container("\"long\"", &[("name", "value".to_owned())], &records)
    }

    type Record = (i64, Option<i64>, Vec<String>);

    fn read(bytes: &[u8]) -> Result<Vec<Record>> {
        records(bytes, |record| {
            Ok((
                record.long()?,
                record.optional(Decoder::long)?,
                record.array(Decoder::string)?,
            ))
        })
    }

    #[test]
    fn records_come_back() {
        let records = read(&file()).unwrap();
        assert_eq!(records.len(), 7);
        assert_eq!(records[4].0, -65);
        assert_eq!(records[5].1, Some(i64::MAX));
        assert_eq!(records[6].2, ["a", "bc"]);
        assert_eq!(read(&container("\"long\"", &[], &[])), Ok(Vec::new()));
    }

    #[test]
    fn bytes_that_are_cut_or_flipped_are_no_panic_and_give_no_part_of_a_block() {
        let file = file();
        for at in 0..file.len() {
            // A file that ends behind its header has no records.
            assert!(read(&file[..at]).is_ok_and(|r| r.is_empty()) || read(&file[..at]).is_err());
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                let _ = read(&flipped);
            }
        }
    }
}

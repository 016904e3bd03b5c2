//! A sorted run on disk: what a spill or a merge writes.
//!
//! One segment per partition, each a sequence of blocks. Integers are
//! little-endian.
//!
//! ```text
//! block    ┌──────────────┬──────────────┬───────────────┬─────────────────┐
//!          │ raw length 4 │ stored len 4 │ xxh3 of data 8│ data, lz4 block │
//!          └──────────────┴──────────────┴───────────────┴─────────────────┘
//! raw      ┌─────────────┬───────────────┬─────┬───────┐
//!          │ key length 4│ value length 4│ key │ value │  ...
//!          └─────────────┴───────────────┴─────┴───────┘
//! ```
//!
//! Runs do not outlive their job, so the format has no version.

use super::error::TaskError;
use super::sorted::Sorted;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A block is closed when its records reach this many bytes. A longer record
/// makes a longer block.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

const HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 8;

/// A stretch of a file that holds sorted records of one partition.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub path: Arc<PathBuf>,
    pub offset: u64,
    pub length: u64,
}

/// A finished run: a segment per partition.
#[derive(Debug)]
pub(super) struct Run {
    pub segments: Vec<Segment>,
    /// Records in all segments.
    pub records: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Writes a run, segment by segment.
pub(super) struct RunWriter {
    path: Arc<PathBuf>,
    file: BufWriter<File>,
    raw: Vec<u8>,
    stored: Vec<u8>,
    run: Run,
    segment_from: u64,
}

impl RunWriter {
    pub fn create(path: PathBuf) -> Result<Self, TaskError> {
        let file = File::create_new(&path).map_err(TaskError::io(format!(
            "creating spill file {}",
            path.display()
        )))?;
        Ok(Self {
            path: Arc::new(path),
            file: BufWriter::new(file),
            raw: Vec::with_capacity(BLOCK_BYTES),
            stored: Vec::new(),
            run: Run {
                segments: Vec::new(),
                records: 0,
                bytes: 0,
            },
            segment_from: 0,
        })
    }

    /// Adds a record to the present segment; keys ascend.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let too_long = || TaskError::failed("a record is 4 GiB long or longer");
        for part in [key, value] {
            let length = u32::try_from(part.len()).map_err(|_| too_long())?;
            self.raw.extend_from_slice(&length.to_le_bytes());
        }
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(value);
        self.run.records += 1;
        if self.raw.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Ends the present partition's segment and starts the next.
    pub fn end_segment(&mut self) -> Result<(), TaskError> {
        self.end_block()?;
        self.run.segments.push(Segment {
            path: Arc::clone(&self.path),
            offset: self.segment_from,
            length: self.run.bytes - self.segment_from,
        });
        self.segment_from = self.run.bytes;
        Ok(())
    }

    /// Writes everything out. Not synced: a crash ends the job anyway.
    pub fn finish(mut self) -> Result<Run, TaskError> {
        self.file.flush().map_err(TaskError::io(format!(
            "writing spill file {}",
            self.path.display()
        )))?;
        Ok(self.run)
    }

    fn end_block(&mut self) -> Result<(), TaskError> {
        if self.raw.is_empty() {
            return Ok(());
        }
        self.stored
            .resize(get_maximum_output_size(self.raw.len()), 0);
        let stored_len = compress_into(&self.raw, &mut self.stored).map_err(TaskError::failed)?;
        let stored = &self.stored[..stored_len];
        let length = |n: usize| {
            u32::try_from(n).map_err(|_| TaskError::failed("a record is 4 GiB long or longer"))
        };
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&length(self.raw.len())?.to_le_bytes());
        header[4..8].copy_from_slice(&length(stored_len)?.to_le_bytes());
        header[8..16].copy_from_slice(&xxh3_64(stored).to_le_bytes());
        (self
            .file
            .write_all(&header)
            .and_then(|()| self.file.write_all(stored)))
        .map_err(TaskError::io(format!(
            "writing spill file {}",
            self.path.display()
        )))?;
        self.run.bytes += (HEADER_BYTES + stored_len) as u64;
        self.raw.clear();
        Ok(())
    }
}

/// A cursor over a segment; holds one block in memory.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: File,
    path: Arc<PathBuf>,
    offset: u64,
    end: u64,
    stored: Vec<u8>,
    raw: Vec<u8>,
    /// The record under the cursor: start of its key, its value, and its end.
    at: Option<[usize; 3]>,
}

impl SegmentReader {
    /// Opens a segment, with the cursor on its first record.
    pub fn open(segment: &Segment) -> Result<Self, TaskError> {
        let file = File::open(&*segment.path).map_err(TaskError::io(format!(
            "opening spill file {}",
            segment.path.display()
        )))?;
        let mut reader = Self {
            file,
            path: Arc::clone(&segment.path),
            offset: segment.offset,
            end: segment.offset + segment.length,
            stored: Vec::new(),
            raw: Vec::new(),
            at: None,
        };
        reader.seek_record(0)?;
        Ok(reader)
    }

    /// Puts the cursor on the record that starts at `from` in the present
    /// block, or on the first of the next.
    fn seek_record(&mut self, from: usize) -> Result<(), TaskError> {
        let mut from = from;
        if from == self.raw.len() {
            if self.offset == self.end {
                self.at = None;
                return Ok(());
            }
            self.read_block()?;
            from = 0;
        }
        let length_at = |at: usize| {
            let bytes = self.raw.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        // The checksum held, so a record that does not add up is our own fault.
        let lengths = length_at(from).zip(length_at(from + 4));
        let (key_len, value_len) = lengths.expect("a block holds whole records");
        let key = from + RECORD_HEADER_BYTES;
        self.at = Some([key, key + key_len, key + key_len + value_len]);
        Ok(())
    }

    fn read_block(&mut self) -> Result<(), TaskError> {
        let block_at = self.offset;
        let mut header = [0; HEADER_BYTES];
        self.read_exact_at(&mut header)?;
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (raw_len, stored_len) = (number(0) as usize, number(4) as usize);
        let expected = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        let path = Arc::clone(&self.path);
        let corrupt = |found| TaskError::Corrupt {
            path: path.to_path_buf(),
            offset: block_at,
            found,
            expected,
        };
        // A damaged length must not make us allocate what it says.
        if stored_len as u64 > self.end - self.offset
            || raw_len > stored_len.saturating_mul(256).max(BLOCK_BYTES)
        {
            return Err(corrupt(xxh3_64(&header)));
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(stored_len, 0);
        self.read_exact_at(&mut stored)?;
        let found = xxh3_64(&stored);
        if found != expected {
            return Err(corrupt(found));
        }
        self.raw.resize(raw_len, 0);
        match decompress_into(&stored, &mut self.raw) {
            Ok(length) if length == raw_len => {}
            _ => return Err(corrupt(found)),
        }
        self.stored = stored;
        Ok(())
    }

    fn read_exact_at(&mut self, buffer: &mut [u8]) -> Result<(), TaskError> {
        let read = self.file.read_exact_at(buffer, self.offset);
        read.map_err(TaskError::io(format!(
            "reading spill file {} at byte {}",
            self.path.display(),
            self.offset
        )))?;
        self.offset += buffer.len() as u64;
        Ok(())
    }
}

impl Sorted for SegmentReader {
    fn current(&self) -> Option<(&[u8], &[u8])> {
        let [key, value, end] = self.at?;
        Some((&self.raw[key..value], &self.raw[value..end]))
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        let [_, _, end] = self.at.expect("not at the end");
        self.seek_record(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Row;

    fn records(reader: &mut SegmentReader) -> Result<Vec<Row>, TaskError> {
        let mut all = Vec::new();
        while let Some((key, value)) = reader.current() {
            all.push((key.to_vec(), value.to_vec()));
            reader.advance()?;
        }
        Ok(all)
    }

    /// Partition 0 spans blocks and has a record longer than one, 1 is empty.
    fn write(directory: &std::path::Path) -> (Run, Vec<Row>) {
        let mut writer = RunWriter::create(directory.join("run")).unwrap();
        let mut expected: Vec<Row> = (0..3000_u32)
            .map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; n as usize % 40]))
            .collect();
        expected.push((vec![255; 5], vec![7; 3 * BLOCK_BYTES]));
        for (key, value) in &expected {
            writer.push(key, value).unwrap();
        }
        writer.end_segment().unwrap();
        writer.end_segment().unwrap();
        writer.push(b"", b"").unwrap();
        writer.end_segment().unwrap();
        (writer.finish().unwrap(), expected)
    }

    #[test]
    fn segments_give_back_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let (run, expected) = write(directory.path());
        assert_eq!(run.records, 3002);
        let read = |partition: usize| {
            records(&mut SegmentReader::open(&run.segments[partition]).unwrap()).unwrap()
        };
        assert_eq!(read(0), expected);
        assert_eq!(read(1), []);
        assert_eq!(read(2), [(Vec::new(), Vec::new())]);
    }

    #[test]
    fn every_damaged_byte_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (run, expected) = write(directory.path());
        let path = directory.path().join("run");
        let good = std::fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(97).chain(0..HEADER_BYTES) {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, bad).unwrap();
            let result = (0..3).try_fold(Vec::new(), |mut all, partition| {
                all.extend(records(&mut SegmentReader::open(
                    &run.segments[partition],
                )?)?);
                Ok::<_, TaskError>(all)
            });
            let error = result.expect_err("damage must be noticed");
            assert!(
                error.to_string().contains("spill file"),
                "byte {at}: {error}"
            );
        }
        assert_eq!(expected.len(), 3001);
    }
}

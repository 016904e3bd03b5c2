//! A sorted run on disk: the output of a spill or a merge.
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
//! The checksum covers the lengths, too. If the stored length equals the raw length, the data are
//! not compressed: when compression does not halve a block, the next ones are stored raw. A file
//! that is read once and then removed is not worth more effort: in a sort whose records shrank by
//! three tenths, compression took three tenths of the CPU time.
//!
//! Runs do not outlive their job, so the format has no version. A run without
//! records has no file.

use super::open_files::open_patiently;
use super::sorted::Sorted;
use crate::runtime::error::TaskError;
use crate::runtime::owner_only;
use crate::runtime::spill_space::{SpillGrant, SpillSpace};
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bounds of the size of a block. Within these bounds a block is a 64th of the task's memory. So a
/// merge, which holds a block of each run, raw and compressed, in half of the memory, reads about 16
/// runs at once.
const BLOCK_BYTES_MIN: usize = 1 << 10;
const BLOCK_BYTES_MAX: usize = 16 << 10;

/// The longest record of a run takes at most the memory of a task divided by this number. So a
/// fifth of the memory holds the block of the longest record, raw and compressed.
const RECORDS_PER_MEMORY_MIN: usize = 10;

/// Refuses a record of `record_bytes`, key and value, that is too long for a task with
/// `memory_bytes`.
///
/// # Errors
/// If the record is longer than a tenth of the memory.
pub(in crate::runtime) fn check_record_bytes(
    record_bytes: usize,
    memory_bytes: usize,
) -> Result<(), TaskError> {
    let record_bytes_max = memory_bytes / RECORDS_PER_MEMORY_MIN;
    if record_bytes <= record_bytes_max {
        return Ok(());
    }
    Err(TaskError::failed(format!(
        "a map or a combiner emitted a record of {record_bytes} bytes; with {memory_bytes} bytes \
         of memory for a task it may have {record_bytes_max}: emit smaller records, or give \
         tasks more memory"
    )))
}

/// After a block that compression did not halve, this many blocks are stored raw. Then compression
/// is tried again. So, while it does not pay, one block in sixteen is compressed in vain.
const RAW_BLOCKS: u32 = 15;

const HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 8;

/// A part of a file with the sorted records of one partition.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Segment {
    pub path: Arc<PathBuf>,
    pub offset: u64,
    pub length: u64,
    pub records: u64,
    /// Length of the longest block before compression, in bytes.
    pub block_bytes_max: usize,
}

/// Returns the checksum of a block, over the lengths in `header` and the data.
fn checksum(header: &[u8], data: &[u8]) -> u64 {
    let lengths = header[..8]
        .try_into()
        .expect("a header begins with lengths");
    xxh3_64_with_seed(data, u64::from_le_bytes(lengths))
}

/// A complete run: a file of sorted records that a map has spilled or a merge has written. The run
/// of a map has a segment per partition (reduce), in their order.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Run {
    pub segments: Vec<Segment>,
    /// The number of records in all segments.
    pub records: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl Run {
    /// Moves the run's file, if it has one, to `path`, in the same file system.
    pub fn move_to(&mut self, path: PathBuf) -> Result<(), TaskError> {
        let path = Arc::new(path);
        if let Some(segment) = self.segments.first().filter(|_| self.bytes > 0) {
            let (from, to) = (segment.path.display(), path.display());
            std::fs::rename(&*segment.path, &*path)
                .map_err(TaskError::io(format!("moving spill file {from} to {to}")))?;
        }
        for segment in &mut self.segments {
            segment.path = Arc::clone(&path);
        }
        Ok(())
    }
}

impl Segment {
    fn starting(path: &Arc<PathBuf>, offset: u64) -> Self {
        Self {
            path: Arc::clone(path),
            offset,
            ..Self::default()
        }
    }

    /// Opens the segment's file for [`SegmentReader::new`].
    pub fn open_file(&self) -> Result<File, TaskError> {
        File::open(&*self.path).map_err(TaskError::io(format!(
            "opening spill file {}",
            self.path.display()
        )))
    }
}

/// A writer of a run, segment by segment.
pub(in crate::runtime) struct RunWriter {
    path: Arc<PathBuf>,
    /// The file, created for the first block.
    file: Option<File>,
    grant: SpillGrant,
    memory_bytes: usize,
    /// The number of record bytes at which a block is closed. A longer record makes a longer block.
    block_bytes: usize,
    raw: Vec<u8>,
    /// Header and data of the block that is being written.
    stored: Vec<u8>,
    table: CompressTable,
    /// The number of blocks to be stored raw before the next attempt to compress one.
    raw_blocks_left: u32,
    run: Run,
    segment: Segment,
}

impl RunWriter {
    /// Creates a writer of a run at `path`, which must not exist, for a task with `memory_bytes`.
    /// The blocks are so small that a merge can hold a block of each of several runs in memory. The
    /// writer takes the bytes of the run from `space`.
    pub fn new(path: PathBuf, memory_bytes: usize, space: &SpillSpace) -> Self {
        let path = Arc::new(path);
        Self {
            segment: Segment::starting(&path, 0),
            path,
            file: None,
            grant: space.grant(),
            memory_bytes,
            block_bytes: (memory_bytes / 64).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
            raw: Vec::new(),
            stored: Vec::new(),
            table: CompressTable::default(),
            raw_blocks_left: 0,
            run: Run::default(),
        }
    }

    /// Adds a record to the present segment. Its key must not be smaller than that of the segment's
    /// last record.
    ///
    /// # Errors
    /// If the record is too long for the task's memory, there is no space for it, or writing fails.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        check_record_bytes(key.len() + value.len(), self.memory_bytes)?;
        let too_long = || TaskError::failed("a record is 4 GiB long or longer");
        for part in [key, value] {
            let length = u32::try_from(part.len()).map_err(|_| too_long())?;
            self.raw.extend_from_slice(&length.to_le_bytes());
        }
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(value);
        self.segment.records += 1;
        if self.raw.len() >= self.block_bytes {
            self.end_block()?;
        }
        Ok(())
    }

    /// Ends the present partition's segment and starts the next.
    pub fn end_segment(&mut self) -> Result<(), TaskError> {
        self.end_block()?;
        let next = Segment::starting(&self.path, self.run.bytes);
        let mut segment = std::mem::replace(&mut self.segment, next);
        segment.length = self.run.bytes - segment.offset;
        self.run.records += segment.records;
        self.run.segments.push(segment);
        Ok(())
    }

    /// Returns the run. The file is complete but not synced: a crash ends the job anyway.
    pub fn finish(self) -> Run {
        self.run
    }

    /// Writes the records since the last block as a block, and creates the file for the first one.
    fn end_block(&mut self) -> Result<(), TaskError> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let stored_max = get_maximum_output_size(self.raw.len());
        // Only grows, so that it is not zeroed for each block.
        if self.stored.len() < HEADER_BYTES + stored_max {
            self.stored.resize(HEADER_BYTES + stored_max, 0);
        }
        let (header, data) = self.stored.split_at_mut(HEADER_BYTES);
        let raw_len = self.raw.len();
        // Data that compression does not halve is not worth its CPU time; neighbouring blocks are
        // likely to be alike.
        let stored_len = if self.raw_blocks_left > 0 {
            self.raw_blocks_left -= 1;
            raw_len
        } else {
            let compressed = compress_into_with_table(&self.raw, data, &mut self.table);
            let compressed_len = compressed.map_err(TaskError::failed)?;
            if compressed_len > raw_len / 2 {
                self.raw_blocks_left = RAW_BLOCKS;
            }
            // Equal lengths mean raw data, so compressed data that did not shrink is dropped.
            compressed_len.min(raw_len)
        };
        if stored_len == raw_len {
            data[..raw_len].copy_from_slice(&self.raw);
        }
        let length = |n: usize| {
            u32::try_from(n).map_err(|_| TaskError::failed("a record is 4 GiB long or longer"))
        };
        header[0..4].copy_from_slice(&length(raw_len)?.to_le_bytes());
        header[4..8].copy_from_slice(&length(stored_len)?.to_le_bytes());
        let sum = checksum(header, &data[..stored_len]);
        header[8..16].copy_from_slice(&sum.to_le_bytes());
        let block = &self.stored[..HEADER_BYTES + stored_len];
        let file = match &mut self.file {
            Some(file) => file,
            empty => {
                let path = self.path.as_path();
                let context = || format!("creating spill file {}", path.display());
                let create = || owner_only::create_new(path).map_err(TaskError::io(context()));
                empty.insert(open_patiently(create)?)
            }
        };
        // Before the write, so that all jobs together never exceed the space; and after the file was
        // created, because the free space is that of the file system of its path.
        self.grant.take(&self.path, block.len() as u64)?;
        file.write_all(block).map_err(TaskError::io(format!(
            "writing spill file {}",
            self.path.display()
        )))?;
        self.run.bytes += block.len() as u64;
        self.segment.block_bytes_max = self.segment.block_bytes_max.max(raw_len);
        self.raw.clear();
        Ok(())
    }
}

/// A cursor over a segment, with one block in memory.
#[derive(Debug)]
pub(in crate::runtime) struct SegmentReader {
    file: File,
    path: Arc<PathBuf>,
    /// Offset of the next block.
    offset: u64,
    end: u64,
    /// The next block's header, read together with the block before it.
    header: [u8; HEADER_BYTES],
    stored: Vec<u8>,
    raw: Vec<u8>,
    /// The record under the cursor: the positions of its key, of its value and of its end in the
    /// block; `None` at the end of the segment.
    at: Option<[usize; 3]>,
}

impl SegmentReader {
    /// Creates a reader of a segment from the segment's open file, with the cursor on the first record.
    pub fn new(segment: &Segment, file: File) -> Result<Self, TaskError> {
        let mut reader = Self {
            file,
            path: Arc::clone(&segment.path),
            offset: segment.offset,
            end: segment.offset + segment.length,
            header: [0; HEADER_BYTES],
            stored: Vec::new(),
            raw: Vec::new(),
            at: None,
        };
        if segment.length > 0 {
            let mut header = [0; HEADER_BYTES];
            reader.read_exact_at(&mut header, segment.offset)?;
            reader.header = header;
        }
        reader.seek_record(0)?;
        Ok(reader)
    }

    /// Moves the cursor to the record at `from` in the present block. If the block ends there,
    /// moves it to the first record of the next block, or to the end of the segment if there is
    /// none.
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
        // The checksum is right, so an inconsistent record is a bug in this module.
        let lengths = length_at(from).zip(length_at(from + 4));
        let (key_len, value_len) = lengths.expect("a block holds whole records");
        let key = from + RECORD_HEADER_BYTES;
        self.at = Some([key, key + key_len, key + key_len + value_len]);
        Ok(())
    }

    fn read_block(&mut self) -> Result<(), TaskError> {
        let block_at = self.offset;
        let header = self.header;
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
        let data_at = block_at + HEADER_BYTES as u64;
        let left = self.end.saturating_sub(data_at);
        // A damaged length must not cause a large allocation.
        if stored_len as u64 > left || raw_len > stored_len.saturating_mul(256).max(BLOCK_BYTES_MAX)
        {
            return Err(corrupt(xxh3_64(&header)));
        }
        let is_last = stored_len as u64 == left;
        let mut stored = std::mem::take(&mut self.stored);
        let next_header_len = if is_last { 0 } else { HEADER_BYTES };
        stored.resize(stored_len + next_header_len, 0);
        self.read_exact_at(&mut stored, data_at)?;
        let (data, next_header) = stored.split_at(stored_len);
        self.header[..next_header_len].copy_from_slice(next_header);
        let found = checksum(&header, data);
        if found != expected {
            return Err(corrupt(found));
        }
        self.raw.resize(raw_len, 0);
        if raw_len == stored_len {
            self.raw.copy_from_slice(data);
        } else {
            match decompress_into(data, &mut self.raw) {
                Ok(length) if length == raw_len => {}
                _ => return Err(corrupt(found)),
            }
        }
        self.offset = data_at + stored_len as u64;
        self.stored = stored;
        Ok(())
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> Result<(), TaskError> {
        let read = self.file.read_exact_at(buffer, at);
        read.map_err(TaskError::io(format!(
            "reading spill file {} at byte {at}",
            self.path.display(),
        )))
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
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The memory of a task for which blocks have the maximal length.
    const MEMORY_BYTES: usize = 64 * BLOCK_BYTES_MAX;

    fn run_writer(path: PathBuf, memory_bytes: usize) -> RunWriter {
        RunWriter::new(path, memory_bytes, &SpillSpace::default())
    }

    fn records(segment: &Segment) -> Result<Vec<Row>, TaskError> {
        let mut reader = SegmentReader::new(segment, segment.open_file()?)?;
        let mut all = Vec::new();
        while let Some((key, value)) = reader.current() {
            all.push((key.to_vec(), value.to_vec()));
            reader.advance()?;
        }
        Ok(all)
    }

    /// Writes a run of three partitions: 0 spans blocks and has a record longer than a block, 1 is
    /// empty, 2 has one empty record. Returns the run and the rows of partition 0.
    fn write(directory: &std::path::Path) -> (Run, Vec<Row>) {
        let mut writer = run_writer(directory.join("run"), MEMORY_BYTES);
        let mut expected: Vec<Row> = (0..3000_u32)
            .map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; n as usize % 40]))
            .collect();
        expected.push((vec![255; 5], vec![7; 3 * BLOCK_BYTES_MAX]));
        for (key, value) in &expected {
            writer.push(key, value).unwrap();
        }
        writer.end_segment().unwrap();
        writer.end_segment().unwrap();
        writer.push(b"", b"").unwrap();
        writer.end_segment().unwrap();
        (writer.finish(), expected)
    }

    #[test]
    fn segments_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let (run, expected) = write(directory.path());
        assert_eq!(run.records, 3002);
        let of = |segment: &Segment| (segment.records, segment.block_bytes_max);
        let sizes: Vec<_> = run.segments.iter().map(of).collect();
        assert!(sizes[0].0 == 3001 && sizes[0].1 > 3 * BLOCK_BYTES_MAX);
        assert_eq!(sizes[1..], [(0, 0), (1, RECORD_HEADER_BYTES)]);
        let read = |partition: usize| records(&run.segments[partition]).unwrap();
        assert_eq!(read(0), expected);
        assert_eq!(read(1), []);
        assert_eq!(read(2), [(Vec::new(), Vec::new())]);
    }

    #[test]
    fn text_is_compressed_and_noise_is_stored_raw() {
        let test = "text_is_compressed_and_noise_is_stored_raw";
        for_seeds(test, 1, |seed| {
            let directory = tempfile::tempdir().unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let noise: Vec<Vec<u8>> = (0..2000_u32)
                .map(|n| {
                    let mut value = n.to_be_bytes().to_vec();
                    value.resize(200, 0);
                    rng.fill(&mut value[4..]);
                    value
                })
                .collect();
            let text = (0..2000_u32).map(|n| format!("{n:08} is a number of eight digits"));
            let text: Vec<Vec<u8>> = text.map(String::into_bytes).collect();
            let mut written = Vec::new();
            for (name, keys) in [("noise", &noise), ("text", &text)] {
                let mut writer = run_writer(directory.path().join(name), MEMORY_BYTES);
                let mut raw_bytes = 0;
                for key in keys {
                    writer.push(key, b"").unwrap();
                    raw_bytes += (key.len() + RECORD_HEADER_BYTES) as u64;
                }
                writer.end_segment().unwrap();
                let run = writer.finish();
                let read = records(&run.segments[0]).unwrap();
                assert!(read.iter().map(|(key, _)| key).eq(keys));
                written.push(run.bytes as f64 / raw_bytes as f64);
            }
            let [noise, text] = written[..] else {
                unreachable!("two runs")
            };
            // Compression removes the zeros of the numbers from the first block.
            assert!((0.98..1.01).contains(&noise), "{noise}");
            assert!(text < 0.5, "{text}");
        });
    }

    #[test]
    fn a_record_that_is_too_long_for_the_memory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = run_writer(directory.path().join("run"), 10_000);
        writer.push(b"k", &[0; 999]).unwrap();
        let error = writer.push(b"ke", &[0; 999]).unwrap_err().to_string();
        assert!(
            error.contains("1001 bytes") && error.contains("may have 1000"),
            "{error}"
        );
    }

    #[test]
    fn a_run_without_records_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = run_writer(directory.path().join("run"), MEMORY_BYTES);
        writer.end_segment().unwrap();
        let run = writer.finish();
        assert_eq!((run.records, run.bytes, run.segments[0].length), (0, 0, 0));
        assert!(!directory.path().join("run").exists());
    }

    #[test]
    fn every_damaged_byte_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (run, expected) = write(directory.path());
        let path = directory.path().join("run");
        let good = std::fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(97).chain(0..2 * HEADER_BYTES) {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, bad).unwrap();
            let result: Result<Vec<_>, TaskError> = run.segments.iter().map(records).collect();
            let error = result.expect_err("damage must be an error");
            assert!(
                error.to_string().contains("spill file"),
                "byte {at}: {error}"
            );
        }
        assert_eq!(expected.len(), 3001);
    }
}

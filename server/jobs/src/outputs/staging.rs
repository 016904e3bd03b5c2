//! Rows in a temporary file, before a commit or before the next job of a chain reads them. A file
//! without a name disappears when its handle is closed, also by a crash. A file with a name can be
//! opened by other processes, and is deleted with the last handle in this one.
//!
//! Rows are sorted one buffer at a time, so the file is a sequence of sorted runs: one run
//! if the rows came in order, as those of a reduce task do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_scheduler::runtime::{RecordSink, Row, TaskError};
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};

/// The length of the header of a row in the file, in bytes. A row has this form:
///
/// ```text
///   key length, u32 LE | value length, u32 LE | key | value
/// ```
const HEADER_BYTES: usize = 8;

/// The size in bytes of the buffer of a writer that does not sort rows.
const BUFFER_BYTES: usize = 64 << 10;

/// The size of reads from a run, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A writer of rows to a file. The rows come in any order, and the writer sorts as many at a time
/// as fit into its buffer, so that the file consists of sorted runs. A writer of
/// [`create_unsorted`](Self::create_unsorted) does not sort.
#[derive(Debug)]
pub(super) struct StagingWriter {
    file: BufWriter<File>,
    name: Option<TempPath>,
    file_bytes: u64,
    runs: Vec<Range<u64>>,
    /// The last key of the last run that was written.
    last_key: Vec<u8>,
    /// The rows that are not yet written to the file.
    buffer: Vec<Row>,
    buffered_bytes: usize,
    buffer_bytes_max: usize,
    /// True if the rows of a buffer are sorted before they are written.
    is_sorted: bool,
}

impl StagingWriter {
    /// Creates an empty file without a name in `directory`. The writer sorts about
    /// `buffer_bytes_max` bytes of rows at a time.
    pub(super) fn create(directory: &Path, buffer_bytes_max: usize) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        Ok(Self::on(file, None, buffer_bytes_max))
    }

    /// Creates a file as [`create`](Self::create) does, but with a name, so that other processes
    /// can open it by the result of [`StagedRows::description`].
    pub(super) fn create_named(directory: &Path, buffer_bytes_max: usize) -> io::Result<Self> {
        let (file, name) = NamedTempFile::with_prefix_in("rows-", directory)?.into_parts();
        Ok(Self::on(file, Some(name), buffer_bytes_max))
    }

    /// Creates a file without a name for rows that stay in the order written. They are not sorted,
    /// so [`merge`] must not be used for them.
    pub(super) fn create_unsorted(directory: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        let mut writer = Self::on(file, None, BUFFER_BYTES);
        writer.is_sorted = false;
        Ok(writer)
    }

    fn on(file: File, name: Option<TempPath>, buffer_bytes_max: usize) -> Self {
        Self {
            file: BufWriter::new(file),
            name,
            file_bytes: 0,
            runs: Vec::new(),
            last_key: Vec::new(),
            buffer: Vec::new(),
            buffered_bytes: 0,
            buffer_bytes_max,
            is_sorted: true,
        }
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.buffered_bytes += key.len() + value.len() + size_of::<Row>();
        self.buffer.push((key.to_vec(), value.to_vec()));
        if self.buffered_bytes >= self.buffer_bytes_max {
            self.write_buffer()?;
        }
        Ok(())
    }

    /// Writes the remaining rows to the file, and returns all rows.
    pub(super) fn finish(mut self) -> io::Result<StagedRows> {
        self.write_buffer()?;
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        Ok(StagedRows {
            file: Arc::new(file),
            name: self.name.map(Arc::new),
            runs: self.runs,
        })
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        // A stable sort: of rows with the same key the last one written stays the last.
        if self.is_sorted {
            self.buffer.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        let Some((first, _)) = self.buffer.first() else {
            return Ok(());
        };
        let goes_on = !self.is_sorted || *first >= self.last_key;
        let start = self.file_bytes;
        for (key, value) in &self.buffer {
            self.file.write_all(&length(key)?.to_le_bytes())?;
            self.file.write_all(&length(value)?.to_le_bytes())?;
            self.file.write_all(key)?;
            self.file.write_all(value)?;
            self.file_bytes += (HEADER_BYTES + key.len() + value.len()) as u64;
        }
        match self.runs.last_mut().filter(|_| goes_on) {
            Some(run) => run.end = self.file_bytes,
            None => self.runs.push(start..self.file_bytes),
        }
        if let Some((last, _)) = self.buffer.pop() {
            self.last_key = last;
        }
        self.buffer.clear();
        self.buffered_bytes = 0;
        Ok(())
    }
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    let too_long = |_| io::Error::other("a key or value of 4 GiB or more");
    u32::try_from(bytes.len()).map_err(too_long)
}

/// The rows that one writer wrote to a file.
#[derive(Debug, Clone)]
pub(super) struct StagedRows {
    file: Arc<File>,
    /// The name of the file, if it has one. When the last clone is dropped, the file is removed.
    name: Option<Arc<TempPath>>,
    runs: Vec<Range<u64>>,
}

/// The description with which another process opens the rows in a file: the file's path, and the
/// ranges of its runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowsDescription {
    path: PathBuf,
    runs: Vec<Range<u64>>,
}

impl RowsDescription {
    /// Opens the rows that another process described. Only that process removes the file.
    pub(super) fn open(self) -> Result<StagedRows, TaskError> {
        let file = File::open(&self.path);
        let file = file.map_err(TaskError::io(format!("opening {}", self.path.display())))?;
        Ok(StagedRows {
            file: Arc::new(file),
            name: None,
            runs: self.runs,
        })
    }
}

impl StagedRows {
    /// Returns the path of the file and the ranges of its runs. Another process opens the rows by
    /// them: see [`RowsDescription::open`]. `None` if the file was created without a name, so
    /// that no other process can open it. The file exists until the last clone of these rows is
    /// dropped.
    pub(super) fn description(&self) -> Option<RowsDescription> {
        let name = self.name.as_ref()?;
        Some(RowsDescription {
            path: name.to_path_buf(),
            runs: self.runs.clone(),
        })
    }

    /// Returns the size of the rows in the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Passes all rows to `row`, run by run, so that rows ascend by key only within a run.
    pub(super) fn for_each(&self, row: RecordSink<'_>) -> Result<(), TaskError> {
        self.for_each_up_to(u64::MAX, row)
    }

    /// Passes the first `rows_max` rows of the file to `row`, run by run.
    pub(super) fn for_each_up_to(
        &self,
        rows_max: u64,
        row: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let mut left = rows_max;
        for run in &self.runs {
            let mut run = RunReader::new(self.file.clone(), run.clone());
            let unread = || TaskError::io("reading rows from a temporary file");
            while left > 0
                && let Some((key, value)) = run.next().map_err(unread())?
            {
                left -= 1;
                row(&key, &value)?;
            }
        }
        Ok(())
    }
}

/// Passes the rows of several writers to `row`, ascending by key. If rows have the same key, only
/// the last one is passed: that of the writer that comes later in `staged`. If one writer wrote
/// them, it is the row that was written later.
pub(super) fn merge(
    staged: impl IntoIterator<Item = StagedRows>,
    row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    merge_with(staged, row, |_, _, _| Ok(()))
}

/// Passes rows as [`merge`] does, but combines rows with the same key: `unite` receives the key,
/// the value of the earlier row, and the value of the later row, which it may change.
pub(super) fn merge_with(
    staged: impl IntoIterator<Item = StagedRows>,
    mut row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut unite: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let unread = || TaskError::io("reading the rows that wait for the commit");
    let runs = staged.into_iter().flat_map(|rows| {
        let reader = move |run| RunReader::new(rows.file.clone(), run);
        rows.runs.into_iter().map(reader)
    });
    let mut runs: Vec<_> = runs.collect();
    // Ordered by key, then by the place of the run. The value plays no part, because the
    // heap has one row of each run.
    let mut heads = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        if let Some((key, value)) = run.next().map_err(unread())? {
            heads.push(Reverse((key, at, value)));
        }
    }
    let mut pending: Option<Row> = None;
    while let Some(Reverse((key, at, value))) = heads.pop() {
        if let Some((key, value)) = runs[at].next().map_err(unread())? {
            heads.push(Reverse((key, at, value)));
        }
        let mut next = (key, value);
        match pending.take() {
            Some((before, last)) if before == next.0 => unite(&before, &last, &mut next.1)?,
            Some((before, last)) => row(&before, &last)?,
            None => {}
        }
        pending = Some(next);
    }
    pending.map_or(Ok(()), |(key, value)| row(&key, &value))
}

/// A reader of one sorted run of rows (a part of a file), from its start.
struct RunReader {
    from: BufReader<Part>,
}

/// A byte range of a file. Other readers of the same file read other ranges.
struct Part {
    file: Arc<File>,
    left: Range<u64>,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.left.start)?;
        self.left.start += read as u64;
        Ok(read)
    }
}

impl RunReader {
    fn new(file: Arc<File>, run: Range<u64>) -> Self {
        let part = Part { file, left: run };
        Self {
            from: BufReader::with_capacity(READ_BYTES, part),
        }
    }

    fn next(&mut self) -> io::Result<Option<Row>> {
        if self.from.fill_buf()?.is_empty() {
            return if self.from.get_ref().left.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        let mut lengths = [[0; HEADER_BYTES / 2]; 2];
        for length in &mut lengths {
            self.from.read_exact(length)?;
        }
        let lengths = lengths.map(|bytes| u32::from_le_bytes(bytes) as usize);
        let unread = &self.from.get_ref().left;
        let left_bytes = self.from.buffer().len() as u64 + (unread.end - unread.start);
        // The lengths are checked before memory is reserved for a row that may not be
        // there.
        if lengths.iter().map(|&bytes| bytes as u64).sum::<u64>() > left_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a row that is longer than its run",
            ));
        }
        let [mut key, mut value] = lengths.map(|bytes| vec![0; bytes]);
        self.from.read_exact(&mut key)?;
        self.from.read_exact(&mut value)?;
        Ok(Some((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};

    use super::*;

    fn merged(staged: Vec<StagedRows>) -> Vec<Row> {
        let mut rows = Vec::new();
        let add = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        merge(staged, add).unwrap();
        rows
    }

    #[test]
    fn rows_in_any_order_come_sorted_and_the_last_of_a_key_counts() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..50 {
            println!("seed {seed}");
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut staged, mut expected) = (Vec::new(), BTreeMap::new());
            for _ in 0..rng.random_range(0..4) {
                let buffer_bytes = rng.random_range(1..3000);
                let mut writer = StagingWriter::create(dir.path(), buffer_bytes).unwrap();
                for _ in 0..rng.random_range(0..200) {
                    let key = vec![b'k'; rng.random_range(0..40)];
                    let value =
                        rng.random::<u64>().to_le_bytes()[..rng.random_range(0..8)].to_vec();
                    writer.push(&key, &value).unwrap();
                    expected.insert(key, value);
                }
                staged.push(writer.finish().unwrap());
            }
            assert_eq!(merged(staged), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_in_order_are_one_run_however_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        for i in 0..1000u32 {
            writer.push(&i.to_be_bytes(), b"v").unwrap();
        }
        let rows = writer.finish().unwrap();
        assert_eq!(rows.runs.len(), 1);
        assert_eq!(merged(vec![rows]).len(), 1000);
    }

    #[test]
    fn rows_are_read_by_their_name_while_they_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create_named(dir.path(), 100).unwrap();
        for i in 0..100u32 {
            writer.push(&(i % 10).to_be_bytes(), b"v").unwrap();
        }
        let rows = writer.finish().unwrap();
        let again = rows.description().unwrap().open().unwrap();
        assert_eq!(merged(vec![again.clone()]), merged(vec![rows.clone()]));
        let description = rows.description().unwrap();
        drop(again);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(rows);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = description.open().unwrap_err().to_string();
        assert!(error.contains("opening"), "{error}");
        drop(StagingWriter::create_named(dir.path(), 100).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_row_with_a_length_beyond_its_run_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        writer.push(b"key", b"value").unwrap();
        let rows = writer.finish().unwrap();
        rows.file.write_all_at(&[0xff; HEADER_BYTES], 0).unwrap();
        let error = merge([rows], |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("longer than its run"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        writer.push(b"key", b"value").unwrap();
        let rows = writer.finish().unwrap();
        rows.file.set_len(0).unwrap();
        assert!(merge([rows], |_, _| Ok(())).is_err());
    }
}

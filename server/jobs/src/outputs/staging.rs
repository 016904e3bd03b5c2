//! Rows in a temporary file, before a commit or before the next job of a chain reads them. Finished
//! files are closed, because a job may have 10,000 of them. A file is removed when its rows are
//! dropped. If the process is killed before, the file stays until its folder is removed.
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

use ebb_scheduler::runtime::{Checkpoint, RecordSink, Row, TaskError};
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};

use super::spill_place::SpillPlace;

/// The length of the header of a row in the file, in bytes. A row has this form:
///
/// ```text
///   key length, u32 LE | value length, u32 LE | key | value
/// ```
const HEADER_BYTES: usize = 8;

/// The size in bytes of the buffer of a writer that does not sort rows.
const BUFFER_BYTES: usize = 64 << 10;

/// The size of reads from a run, in bytes; in a merge of many runs it is less, but at least
/// `READ_BYTES_MIN`.
const READ_BYTES: usize = 64 << 10;
const READ_BYTES_MIN: usize = 16 << 10;

/// The memory of a merge, in bytes: a read buffer and a row for each run. It is as much as a task
/// has for its records by default.
const MERGE_BYTES: usize = 16 << 20;

/// The number of runs that are merged at once even if their rows are so long that they take more
/// than `MERGE_BYTES`: with fewer runs, a merge would copy the rows too often.
const FAN_IN_MIN: usize = 8;

/// A writer of rows to a file. The rows come in any order, and the writer sorts as many at a time
/// as fit into its buffer, so that the file consists of sorted runs. A writer of
/// [`create_unsorted`](Self::create_unsorted) does not sort.
#[derive(Debug)]
pub(super) struct StagingWriter {
    file: BufWriter<NamedTempFile>,
    file_bytes: u64,
    runs: Vec<Range<u64>>,
    row_bytes_max: usize,
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
    /// Creates an empty file in `directory`. The writer sorts about `buffer_bytes_max` bytes of
    /// rows at a time.
    pub(super) fn create(directory: &Path, buffer_bytes_max: usize) -> io::Result<Self> {
        let file = NamedTempFile::with_prefix_in("rows-", directory)?;
        Ok(Self {
            file: BufWriter::new(file),
            file_bytes: 0,
            runs: Vec::new(),
            row_bytes_max: 0,
            last_key: Vec::new(),
            buffer: Vec::new(),
            buffered_bytes: 0,
            buffer_bytes_max,
            is_sorted: true,
        })
    }

    /// Creates a file for rows that stay in the order written. They are not sorted, so [`merge`]
    /// must not be used for them unless they come in the order of their keys.
    pub(super) fn create_unsorted(directory: &Path) -> io::Result<Self> {
        let mut writer = Self::create(directory, BUFFER_BYTES)?;
        writer.is_sorted = false;
        Ok(writer)
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let row_bytes = key.len() + value.len();
        self.row_bytes_max = self.row_bytes_max.max(row_bytes);
        self.buffered_bytes += row_bytes + size_of::<Row>();
        self.buffer.push((key.to_vec(), value.to_vec()));
        if self.buffered_bytes >= self.buffer_bytes_max {
            self.write_buffer()?;
        }
        Ok(())
    }

    /// Writes the remaining rows to the file, closes it, and returns all rows.
    pub(super) fn finish(mut self) -> io::Result<StagedRows> {
        self.write_buffer()?;
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        Ok(StagedRows {
            file: Arc::new(file.into_temp_path()),
            runs: self.runs,
            row_bytes_max: self.row_bytes_max,
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
    /// The file, which is not open. When the last clone is dropped, the file is removed.
    file: Arc<TempPath>,
    runs: Vec<Range<u64>>,
    /// The length of the longest row, key and value, in bytes.
    row_bytes_max: usize,
}

/// The description with which another process reads the rows in a file: the file's path, and the
/// ranges of its runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowsDescription {
    path: PathBuf,
    runs: Vec<Range<u64>>,
}

impl RowsDescription {
    /// Passes all rows to `row`, run by run, so that rows ascend by key only within a run. The rows
    /// may belong to another process. Only that process removes the file.
    pub(super) fn for_each(&self, row: RecordSink<'_>) -> Result<(), TaskError> {
        for_each_up_to(&self.path, &self.runs, u64::MAX, row)
    }
}

impl StagedRows {
    /// Returns the sorted runs of the rows, in the order in which they were written.
    fn into_runs(self) -> impl Iterator<Item = Part> {
        let Self { file, runs, .. } = self;
        runs.into_iter().map(move |left| Part {
            file: PartFile::Closed(Arc::clone(&file)),
            left,
        })
    }

    /// Returns the description by which another process reads the rows. The file exists until the
    /// last clone of these rows is dropped.
    pub(super) fn description(&self) -> RowsDescription {
        RowsDescription {
            path: self.file.to_path_buf(),
            runs: self.runs.clone(),
        }
    }

    /// Returns the size of the rows in the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Passes the first `rows_max` rows of the file to `row`, run by run.
    pub(super) fn for_each_up_to(
        &self,
        rows_max: u64,
        row: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        for_each_up_to(&self.file, &self.runs, rows_max, row)
    }
}

/// Passes the first `rows_max` rows in the file at `path`, which has the runs `runs`, to `row`.
fn for_each_up_to(
    path: &Path,
    runs: &[Range<u64>],
    rows_max: u64,
    row: RecordSink<'_>,
) -> Result<(), TaskError> {
    let file = File::open(path);
    let file = file.map_err(TaskError::io(format!("opening {}", path.display())))?;
    let file = Arc::new(file);
    let mut left = rows_max;
    for run in runs {
        let part = Part {
            file: PartFile::Open(Arc::clone(&file)),
            left: run.clone(),
        };
        let mut run = RunReader::new(part, READ_BYTES);
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

/// Passes the rows of several writers to `row`, ascending by key. If rows have the same key, only
/// the last one is passed: that of the writer that comes later in `staged`. If one writer wrote
/// them, it is the row that was written later. Rows that are too many for one pass are merged into
/// files in `place` before.
pub(super) fn merge(
    place: &SpillPlace,
    staged: impl IntoIterator<Item = StagedRows>,
    row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    merge_with(place, staged, &|| Ok(()), row, |_, _, _| Ok(()))
}

/// Passes rows as [`merge`] does, but combines rows with the same key: `unite` receives the key,
/// the value of the earlier row, and the value of the later row, which it may change. It must not
/// matter which of several neighbours with the same key are combined first. `checkpoint` is called
/// for each row that is not yet passed to `row` but merged into a file; its error ends the merge.
pub(super) fn merge_with(
    place: &SpillPlace,
    staged: impl IntoIterator<Item = StagedRows>,
    checkpoint: Checkpoint<'_>,
    row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut unite: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let (mut runs, mut row_bytes_max) = (Vec::new(), 0);
    for rows in staged {
        row_bytes_max = row_bytes_max.max(rows.row_bytes_max);
        runs.extend(rows.into_runs());
    }
    let bounds = Bounds::of(row_bytes_max);
    let runs = narrowed(place, runs, bounds, checkpoint, &mut unite)?;
    merge_at_once(runs, bounds, row, unite)
}

/// The bounds of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    /// The number of runs that may be merged at once, at least two.
    runs_max: usize,
    /// The length of the longest row, key and value, in bytes.
    row_bytes_max: usize,
}

impl Bounds {
    /// Returns the bounds with which a merge of rows of at most `row_bytes_max` bytes fits into
    /// `MERGE_BYTES`.
    fn of(row_bytes_max: usize) -> Self {
        let runs_max = MERGE_BYTES / READ_BYTES_MIN.saturating_add(row_bytes_max);
        Self {
            runs_max: runs_max.max(FAN_IN_MIN),
            row_bytes_max,
        }
    }

    /// Returns the size in bytes of reads from each of `runs` runs that are merged at once.
    fn read_bytes(self, runs: usize) -> usize {
        let run_bytes = MERGE_BYTES / runs.max(1);
        let left_bytes = run_bytes.saturating_sub(self.row_bytes_max);
        left_bytes.clamp(READ_BYTES_MIN, READ_BYTES)
    }
}

/// Merges neighbouring runs into longer ones, in files in `place`, until they may be merged at
/// once. See [`merge_with`] for `checkpoint` and `unite`.
fn narrowed<U>(
    place: &SpillPlace,
    mut runs: Vec<Part>,
    bounds: Bounds,
    checkpoint: Checkpoint<'_>,
    unite: &mut U,
) -> Result<Vec<Part>, TaskError>
where
    U: FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
{
    let unwritten = || TaskError::io("writing rows to a temporary file");
    let directory = place.directory();
    let runs_max = bounds.runs_max;
    while runs.len() > runs_max {
        let mut surplus = runs.len() - runs_max;
        let mut left = runs.into_iter();
        runs = Vec::new();
        // A merge of n runs leaves n - 1 fewer. Runs that need not be merged are not copied.
        while surplus > 0 {
            let group: Vec<Part> = left.by_ref().take(runs_max.min(surplus + 1)).collect();
            if group.len() < 2 {
                // The last run of this pass.
                runs.extend(group);
                break;
            }
            surplus -= group.len() - 1;
            // The rows come in order, so the file is a single run.
            let writer = StagingWriter::create_unsorted(directory);
            let mut writer = writer.map_err(unwritten())?;
            let mut grant = place.grant();
            let write = |key: &[u8], value: &[u8]| {
                checkpoint()?;
                grant.take(directory, (key.len() + value.len()) as u64)?;
                writer.push(key, value).map_err(unwritten())
            };
            merge_at_once(group, bounds, write, &mut *unite)?;
            let merged = writer.finish().map_err(unwritten())?;
            runs.extend(merged.into_runs());
        }
        runs.extend(left);
    }
    Ok(runs)
}

/// Passes the rows of runs to `row` as [`merge_with`] does, and reads all runs at the same time.
fn merge_at_once(
    runs: Vec<Part>,
    bounds: Bounds,
    mut row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut unite: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let unread = || TaskError::io("reading the rows that wait for the commit");
    let read_bytes = bounds.read_bytes(runs.len());
    let reader = |run| RunReader::new(run, read_bytes);
    let mut runs: Vec<RunReader> = runs.into_iter().map(reader).collect();
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
    file: PartFile,
    left: Range<u64>,
}

/// The file of a part.
enum PartFile {
    /// A file that stays open, because its runs are read one after the other.
    Open(Arc<File>),
    /// A file that is opened for each read. A merge reads up to a thousand files at once, and if
    /// all were open, clients might get no connections. Opening a file costs little beside the
    /// processing of the rows of one read.
    Closed(Arc<TempPath>),
}

impl PartFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Open(file) => file.read_at(buffer, offset),
            Self::Closed(path) => File::open(&**path)?.read_at(buffer, offset),
        }
    }
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
    /// Creates a reader of `run` that reads `read_bytes` at a time.
    fn new(run: Part, read_bytes: usize) -> Self {
        Self {
            from: BufReader::with_capacity(read_bytes, run),
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
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::fs;

    use rand::{RngExt, SeedableRng};

    use super::*;

    fn merged(staged: Vec<StagedRows>) -> Vec<Row> {
        let mut rows = Vec::new();
        let add = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        // So few runs are merged in one pass, which makes no file.
        merge(&SpillPlace::from("unused"), staged, add).unwrap();
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

    /// Regression: all runs were read at once, each with a buffer and a row in memory, so the
    /// memory of a commit grew with its rows.
    #[test]
    fn many_runs_are_merged_in_passes_that_read_few_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = SpillPlace::from(dir.path());
        let (mut staged, mut expected) = (Vec::new(), BTreeMap::new());
        for value in [b"first", b"later", b"final"] {
            // The keys descend, and no buffer holds two rows: each row is a run.
            let mut writer = StagingWriter::create(dir.path(), 1).unwrap();
            for key in (0..20_u8).rev() {
                writer.push(&[key], value).unwrap();
                expected.insert(vec![key], value.to_vec());
            }
            staged.push(writer.finish().unwrap());
        }
        let united = Cell::new(0);
        let mut unite = |_: &[u8], _: &[u8], _: &mut Vec<u8>| {
            united.set(united.get() + 1);
            Ok(())
        };
        for runs_max in [2, 7, 59, 60] {
            let bounds = Bounds {
                runs_max,
                ..Bounds::of(6)
            };
            let all = staged.iter().cloned();
            let runs: Vec<Part> = all.flat_map(StagedRows::into_runs).collect();
            assert_eq!(runs.len(), 60);
            let runs = narrowed(&place, runs, bounds, &|| Ok(()), &mut unite).unwrap();
            assert!(runs.len() <= runs_max, "{} of {runs_max}", runs.len());
            let mut rows = BTreeMap::new();
            let add = |key: &[u8], value: &[u8]| {
                rows.insert(key.to_vec(), value.to_vec());
                Ok(())
            };
            merge_at_once(runs, bounds, add, &mut unite).unwrap();
            assert_eq!(rows, expected, "{runs_max}");
            assert_eq!(united.take(), 40, "each earlier row once");
        }
    }

    #[test]
    fn a_merge_of_files_can_be_ended_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 1).unwrap();
        for key in [b"c", b"b", b"a"] {
            writer.push(key, b"value").unwrap();
        }
        let runs = writer.finish().unwrap().into_runs().collect();
        let bounds = Bounds {
            runs_max: 2,
            row_bytes_max: 6,
        };
        let cancel = || -> Result<(), TaskError> { Err(TaskError::Cancelled) };
        let place = SpillPlace::from(dir.path());
        let ended = narrowed(&place, runs, bounds, &cancel, &mut |_, _, _| Ok(()));
        assert!(matches!(ended.err(), Some(TaskError::Cancelled)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_merge_has_as_many_runs_and_reads_as_much_as_the_memory_has_room_for() {
        let runs_max = |row_bytes| Bounds::of(row_bytes).runs_max;
        assert_eq!([0, 1 << 20, 1 << 30].map(runs_max), [1024, 15, FAN_IN_MIN]);
        for row_bytes in (0..1 << 20).step_by(1000) {
            let bounds = Bounds::of(row_bytes);
            for runs in 1..=bounds.runs_max {
                let read_bytes = bounds.read_bytes(runs);
                assert!((READ_BYTES_MIN..=READ_BYTES).contains(&read_bytes));
                assert!(runs * (read_bytes + row_bytes) <= MERGE_BYTES);
            }
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
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        for i in 0..100u32 {
            writer.push(&(i % 10).to_be_bytes(), b"v").unwrap();
        }
        let rows = writer.finish().unwrap();
        let description = rows.description();
        let (mut read, mut read_again) = (Vec::new(), Vec::new());
        let mut add = |key: &[u8], _: &[u8]| {
            read.push(key.to_vec());
            Ok(())
        };
        rows.for_each_up_to(u64::MAX, &mut add).unwrap();
        let mut add_again = |key: &[u8], _: &[u8]| {
            read_again.push(key.to_vec());
            Ok(())
        };
        description.for_each(&mut add_again).unwrap();
        assert_eq!((read.len(), read_again), (100, read));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(rows);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = description.for_each(&mut |_, _| Ok(())).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("opening"), "{error}");
        drop(StagingWriter::create(dir.path(), 100).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_row_with_a_length_beyond_its_run_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        writer.push(b"key", b"value").unwrap();
        let rows = writer.finish().unwrap();
        let file = File::options().write(true).open(&*rows.file).unwrap();
        file.write_all_at(&[0xff; HEADER_BYTES], 0).unwrap();
        let place = SpillPlace::from(dir.path());
        let error = merge(&place, [rows], |_, _| Ok(())).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("longer than its run"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        writer.push(b"key", b"value").unwrap();
        let rows = writer.finish().unwrap();
        let file = File::options().write(true).open(&*rows.file).unwrap();
        file.set_len(0).unwrap();
        let place = SpillPlace::from(dir.path());
        assert!(merge(&place, [rows], |_, _| Ok(())).is_err());
    }
}

//! Rows in a temporary file, before a commit or before the next job of a chain reads them. Finished
//! files are closed, because a job may have 10,000 of them. A file is removed when its rows are
//! dropped. If the process is killed before, the file stays until its folder is removed.
//!
//! Rows are sorted one buffer at a time, so the file is a sequence of sorted runs: one run
//! if the rows came in order, as those of a reduce task do. A row has this form:
//!
//! ```text
//!   key length, u32 LE | value length, u32 LE | key | value
//! ```

mod merge;
mod reader;

use std::fs::File;
use std::io::{self, BufWriter, Read, Take, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_scheduler::runtime::{RecordSink, Row, TaskError};
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};

pub(super) use self::merge::{merge, merge_with};
use self::reader::{ClosedFile, RowReader};

/// The length of the two lengths before a row in the file, in bytes.
const HEADER_BYTES: usize = 8;

/// The size in bytes of the buffer of a writer that does not sort rows.
const BUFFER_BYTES: usize = 64 << 10;

/// The size of reads from a file, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A writer of rows to a file. The rows come in any order, and the writer sorts as many at a time
/// as fit into its buffer, so that the file consists of sorted runs. A writer of
/// [`create_unsorted`](Self::create_unsorted) does not sort.
#[derive(Debug)]
pub(super) struct StagingWriter {
    file: BufWriter<NamedTempFile>,
    file_bytes: u64,
    /// The sorted runs of the file, in their order, without gaps.
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
/// size of the rows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowsDescription {
    path: PathBuf,
    bytes: u64,
}

impl RowsDescription {
    /// Passes all rows to `row`, run by run, so that rows ascend by key only within a run. The rows
    /// may belong to another process. Only that process removes the file.
    pub(super) fn for_each(&self, row: RecordSink<'_>) -> Result<(), TaskError> {
        for_each_up_to(&self.path, self.bytes, u64::MAX, row)
    }
}

impl StagedRows {
    /// Returns the sorted runs of the rows, in the order in which they were written.
    fn into_runs(self) -> impl Iterator<Item = Take<ClosedFile>> {
        let Self { file, runs, .. } = self;
        runs.into_iter()
            .map(move |run| ClosedFile::new(&file, run.start).take(run.end - run.start))
    }

    /// Returns the description by which another process reads the rows. The file exists until the
    /// last clone of these rows is dropped.
    pub(super) fn description(&self) -> RowsDescription {
        RowsDescription {
            path: self.file.to_path_buf(),
            bytes: self.bytes(),
        }
    }

    /// Returns the size of the rows in the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Passes the first `rows_max` rows of the file to `row`, run by run.
    pub(super) fn for_each_up_to(
        &self,
        rows_max: u64,
        row: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        for_each_up_to(&self.file, self.bytes(), rows_max, row)
    }
}

/// Passes the first `rows_max` rows in the first `bytes` bytes of the file at `path` to `row`.
fn for_each_up_to(
    path: &Path,
    bytes: u64,
    rows_max: u64,
    row: RecordSink<'_>,
) -> Result<(), TaskError> {
    let file = File::open(path);
    let file = file.map_err(TaskError::io(format!("opening {}", path.display())))?;
    let mut rows = RowReader::new(file.take(bytes), READ_BYTES);
    for _ in 0..rows_max {
        let read = rows.next();
        let read = read.map_err(TaskError::io("reading rows from a temporary file"))?;
        let Some((key, value)) = read else {
            break;
        };
        row(&key, &value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::outputs::spill_place::SpillPlace;

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
    fn a_row_with_a_length_beyond_its_run_and_a_file_that_was_cut_are_errors() {
        type Damage = fn(&File) -> io::Result<()>;
        let cases: [(Damage, &str); 2] = [
            (
                |file| file.write_all_at(&[0xff; HEADER_BYTES], 0),
                "longer than its run",
            ),
            (|file| file.set_len(0), "unexpected end of file"),
        ];
        for (damage, expected) in cases {
            let dir = tempfile::tempdir().unwrap();
            let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
            writer.push(b"key", b"value").unwrap();
            let rows = writer.finish().unwrap();
            damage(&File::options().write(true).open(&*rows.file).unwrap()).unwrap();
            let place = SpillPlace::from(dir.path());
            let error = merge(&place, [rows], |_, _| Ok(())).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

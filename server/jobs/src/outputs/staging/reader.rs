//! The rows in a range of a file, such as a sorted run.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ebb_scheduler::runtime::Row;
use tempfile::TempPath;

use super::HEADER_BYTES;

/// A reader of the rows in a range of a file, from the start of the range.
pub(super) struct RowReader<R> {
    from: BufReader<Take<R>>,
}

impl<R: Read> RowReader<R> {
    /// Creates a reader of `range` that reads `read_bytes` at a time.
    pub(super) fn new(range: Take<R>, read_bytes: usize) -> Self {
        Self {
            from: BufReader::with_capacity(read_bytes, range),
        }
    }

    /// Returns the next row; `None` at the end of the range.
    ///
    /// # Errors
    /// If the file cannot be read, ends within the range, or has a row that ends beyond the range.
    pub(super) fn next(&mut self) -> io::Result<Option<Row>> {
        if self.from.fill_buf()?.is_empty() {
            return if self.from.get_ref().limit() == 0 {
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
        let left_bytes = self.from.buffer().len() as u64 + self.from.get_ref().limit();
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

/// The bytes of a file from a place on. The file is opened for each read: a merge reads up to a
/// thousand files at once, and if all were open, clients might get no connections. Opening a file
/// costs little beside the processing of the rows of one read.
pub(super) struct ClosedFile {
    path: Arc<TempPath>,
    at: u64,
}

impl ClosedFile {
    pub(super) fn new(path: &Arc<TempPath>, at: u64) -> Self {
        let path = Arc::clone(path);
        Self { path, at }
    }
}

impl Read for ClosedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = File::open(&*self.path)?.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

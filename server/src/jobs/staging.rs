//! Rows that wait for a commit, in a temporary file that has no name: it goes
//! with its handle, after a crash too.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// A row as it stands in the file:
///
/// ```text
///   key length, u32 LE | value length, u32 LE | key | value
/// ```
const HEADER_BYTES: usize = 8;

/// Takes rows.
#[derive(Debug)]
pub(super) struct StagingWriter {
    file: BufWriter<File>,
    rows: u64,
}

impl StagingWriter {
    /// An empty file in `directory`.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(directory)?),
            rows: 0,
        })
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let length = |bytes: &[u8]| {
            let too_long = |_| io::Error::other("a key or value of 4 GiB or more");
            u32::try_from(bytes.len()).map_err(too_long)
        };
        self.file.write_all(&length(key)?.to_le_bytes())?;
        self.file.write_all(&length(value)?.to_le_bytes())?;
        self.file.write_all(key)?;
        self.file.write_all(value)?;
        self.rows += 1;
        Ok(())
    }

    /// No more rows come.
    pub(super) fn finish(self) -> io::Result<StagedRows> {
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        Ok(StagedRows {
            file,
            rows: self.rows,
        })
    }
}

/// Rows in the order in which they were written.
#[derive(Debug)]
pub(super) struct StagedRows {
    file: File,
    rows: u64,
}

impl StagedRows {
    /// Hands every row, key and value, to `row`.
    pub(super) fn for_each(mut self, mut row: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        self.file.rewind()?;
        let mut reader = BufReader::new(self.file);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..self.rows {
            let mut header = [0; HEADER_BYTES];
            reader.read_exact(&mut header)?;
            let (key_bytes, value_bytes) = header.split_at(4);
            let length = |bytes: &[u8]| {
                u32::from_le_bytes(bytes.try_into().expect("half a header")) as usize
            };
            key.resize(length(key_bytes), 0);
            value.resize(length(value_bytes), 0);
            reader.read_exact(&mut key)?;
            reader.read_exact(&mut value)?;
            row(&key, &value);
        }
        Ok(())
    }
}

//! Sorts rows in bounded memory: one buffer at a time, and the sorted runs go to a temporary file.
//! The file's name is removed as soon as it is open, so the space is freed when the last handle is
//! closed, even after a crash.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_storage::{FileSystem, ReadFile, WriteFile};

/// The origin of a row. Rows with the same key are ordered by their origins: by file, then by line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    /// The index of the file in the load.
    pub(super) file: u32,
    /// The line in which the row begins.
    pub(super) line: u64,
}

/// The length of the header before the key and the value of a row in the temporary file:
///
/// ```text
///   key length, u32 LE | value length, u32 LE | file, u32 LE | line, u64 LE
/// ```
const HEADER_BYTES: usize = 20;

/// A sorter of rows that come in any order.
pub(super) struct Sorter {
    disk: Arc<dyn FileSystem>,
    path: PathBuf,
    bytes_max: usize,
    /// The keys and values of rows that are not in a run yet.
    bytes: Vec<u8>,
    rows: Vec<Slot>,
    file: Option<RunFile>,
    file_bytes: u64,
    runs: Vec<Range<u64>>,
}

/// The place of a row's key and value in the sorter's `bytes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
    origin: Origin,
}

impl Slot {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at..][..self.key_bytes as usize]
    }

    fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at + self.key_bytes as usize..][..self.value_bytes as usize]
    }
}

impl Sorter {
    /// Creates a sorter that sorts about `bytes_max` bytes of rows at a time. If there are more, it writes
    /// sorted runs to a file that it creates at `path` of `disk`, where no file may exist. The name of the
    /// file is removed at once, so nothing is left at `path` after any call.
    pub(super) fn new(disk: Arc<dyn FileSystem>, path: PathBuf, bytes_max: usize) -> Self {
        Self {
            disk,
            path,
            bytes_max,
            bytes: Vec::new(),
            rows: Vec::new(),
            file: None,
            file_bytes: 0,
            runs: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the file of the runs cannot be created or written.
    ///
    /// # Panics
    /// For a key or value of 4 GiB or more.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8], origin: Origin) -> io::Result<()> {
        let held = self.bytes.len() + self.rows.len() * size_of::<Slot>();
        if held > 0 && held + key.len() + value.len() + size_of::<Slot>() > self.bytes_max {
            self.write_run()?;
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("rows are smaller");
        self.rows.push(Slot {
            at: self.bytes.len(),
            key_bytes: length(key),
            value_bytes: length(value),
            origin,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Ends the input and returns the sorted runs. If no file was needed, there is one run in
    /// memory.
    ///
    /// # Errors
    /// See [`Sorter::push`].
    pub(super) fn finish(mut self) -> io::Result<Vec<Run>> {
        if self.file.is_some() {
            self.write_run()?;
        } else {
            self.sort();
        }
        let Some(file) = self.file else {
            return Ok(vec![Run::Memory {
                bytes: self.bytes,
                rows: self.rows.into_iter(),
                current: None,
            }]);
        };
        let RunFile { writer, reader } = file;
        writer.into_inner().map_err(|error| error.into_error())?;
        let run = |left| {
            let file = reader.clone();
            Run::File {
                reader: BufReader::new(Part { file, left }),
                value_bytes: 0,
            }
        };
        Ok(self.runs.into_iter().map(run).collect())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let by = |a: &Slot, b: &Slot| (a.key(bytes), a.origin).cmp(&(b.key(bytes), b.origin));
        self.rows.sort_unstable_by(by);
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(RunFile::create(&*self.disk, &self.path)?),
        };
        let file = &mut file.writer;
        let start = self.file_bytes;
        for row in &self.rows {
            file.write_all(&row.key_bytes.to_le_bytes())?;
            file.write_all(&row.value_bytes.to_le_bytes())?;
            file.write_all(&row.origin.file.to_le_bytes())?;
            file.write_all(&row.origin.line.to_le_bytes())?;
            let row_bytes = row.key_bytes as usize + row.value_bytes as usize;
            // Key and value are adjacent.
            file.write_all(&self.bytes[row.at..][..row_bytes])?;
            self.file_bytes += (HEADER_BYTES + row_bytes) as u64;
        }
        self.runs.push(start..self.file_bytes);
        self.rows.clear();
        self.bytes.clear();
        Ok(())
    }
}

/// The file of the sorted runs. Its name was removed when it was created, so the system frees the space once
/// the file is closed.
struct RunFile {
    writer: BufWriter<AppendWriter>,
    reader: Arc<dyn ReadFile>,
}

impl RunFile {
    fn create(disk: &dyn FileSystem, path: &Path) -> io::Result<Self> {
        let file = disk.create(path)?;
        let reader = disk.open_read(path);
        disk.remove(path)?;
        Ok(Self {
            writer: BufWriter::new(AppendWriter(file)),
            reader: reader?,
        })
    }
}

/// Implements [`Write`] for a file of the store's file system, by appending to it.
struct AppendWriter(Box<dyn WriteFile>);

impl Write for AppendWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A row of a run. Its value is empty until the caller of [`Run::next_key`] has set it.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SortedRow {
    pub(super) key: Vec<u8>,
    pub(super) origin: Origin,
    pub(super) value: Vec<u8>,
}

/// Rows ordered by key, then by origin, which can be read once.
pub(super) enum Run {
    Memory {
        bytes: Vec<u8>,
        rows: std::vec::IntoIter<Slot>,
        /// The row that [`Run::next_key`] returned last.
        current: Option<Slot>,
    },
    File {
        reader: BufReader<Part>,
        /// The length of the value of the row that [`Run::next_key`] returned last.
        value_bytes: usize,
    },
}

impl Run {
    /// Gives a run in a file a read buffer of `bytes`. A run in memory stays unchanged. Must be
    /// called before the first row is read.
    pub(super) fn with_buffer(self, bytes: usize) -> Self {
        match self {
            Self::Memory { .. } => self,
            Self::File {
                reader,
                value_bytes,
            } => Self::File {
                reader: BufReader::with_capacity(bytes, reader.into_inner()),
                value_bytes,
            },
        }
    }

    /// Returns the next row without its value; `None` at the end. Before the next call, the caller
    /// must read the value by [`Self::read_value`]. The value comes separately because a merge
    /// holds the next row of each run, and all their values might not fit into memory.
    pub(super) fn next_key(&mut self) -> io::Result<Option<SortedRow>> {
        match self {
            Self::Memory {
                bytes,
                rows,
                current,
            } => {
                let row = rows.next();
                *current = row;
                Ok(row.map(|row| SortedRow {
                    key: row.key(bytes).to_vec(),
                    origin: row.origin,
                    value: Vec::new(),
                }))
            }
            Self::File {
                reader,
                value_bytes,
            } => {
                if reader.buffer().is_empty() && reader.get_ref().left.is_empty() {
                    return Ok(None);
                }
                let mut number = [0; 4];
                let mut u32 = || {
                    reader.read_exact(&mut number)?;
                    Ok::<_, io::Error>(u32::from_le_bytes(number))
                };
                let (key_bytes, value_length, file) = (u32()?, u32()?, u32()?);
                let mut line = [0; 8];
                reader.read_exact(&mut line)?;
                let line = u64::from_le_bytes(line);
                let mut row = SortedRow {
                    key: vec![0; key_bytes as usize],
                    origin: Origin { file, line },
                    value: Vec::new(),
                };
                reader.read_exact(&mut row.key)?;
                *value_bytes = value_length as usize;
                Ok(Some(row))
            }
        }
    }

    /// Returns the value of the row that [`Self::next_key`] returned last. Must be called once for
    /// each row.
    pub(super) fn read_value(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory { bytes, current, .. } => {
                let value = current.take().map(|row| row.value(bytes).to_vec());
                Ok(value.unwrap_or_default())
            }
            Self::File {
                reader,
                value_bytes,
            } => {
                let mut value = vec![0; *value_bytes];
                reader.read_exact(&mut value)?;
                Ok(value)
            }
        }
    }
}

/// A reader of one part of a file. Readers of other parts share the open file.
pub(super) struct Part {
    file: Arc<dyn ReadFile>,
    left: Range<u64>,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let room = left.min(buffer.len());
        let read = &mut buffer[..room];
        self.file.read_exact_at(read, self.left.start)?;
        self.left.start += room as u64;
        Ok(room)
    }
}

//! A file that is copied while it is read.
//!
//! ```text
//!   check of the blocks ◄─┬─ a piece ◄─ SSTable of the database
//!                 copy ◄──┘
//! ```
//!
//! So an SSTable is read once, and its blocks are checked in the buffer that is written to the copy.
//! Reading the copy again would take as much CPU time as reading the SSTable. It would not show
//! whether the disk has written the copy correctly, because the copy is still in the system's cache.

use std::io;
use std::sync::Arc;

use crate::file_system::{ReadFile, WriteFile};
use crate::sync::Mutex;

/// A file that appends the bytes that are read from it to a copy. A read appends only those bytes
/// that continue the copy without a gap, so the copy always has the beginning of the file.
#[derive(Debug)]
pub(super) struct TeeFile {
    source: Arc<dyn ReadFile>,
    copy: Mutex<PartialCopy>,
}

#[derive(Debug)]
struct PartialCopy {
    file: Box<dyn WriteFile>,
    bytes: u64,
    /// The first failure to append. Nothing may be appended after it, because an unknown part of
    /// the bytes may have been written.
    failure: Option<io::Error>,
}

impl TeeFile {
    /// Creates a tee from `source` to the empty file `copy`.
    pub(super) fn new(source: Arc<dyn ReadFile>, copy: Box<dyn WriteFile>) -> Self {
        Self {
            source,
            copy: Mutex::new(PartialCopy {
                file: copy,
                bytes: 0,
                failure: None,
            }),
        }
    }

    /// Returns the copy, and its length: the copy has this many bytes from the start of the source.
    ///
    /// # Errors
    /// The first failure to append to the copy. The read that met it failed, and so did every later
    /// read.
    pub(super) fn into_copy(self) -> io::Result<(Box<dyn WriteFile>, u64)> {
        let copy = self.copy.into_inner().unwrap();
        match copy.failure {
            Some(failure) => Err(failure),
            None => Ok((copy.file, copy.bytes)),
        }
    }

    fn append(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.copy.lock().unwrap().append(bytes, offset)
    }
}

impl PartialCopy {
    /// Appends those of `bytes` that directly follow the bytes copied so far, if there are any.
    /// `offset` is the position of `bytes` in the source.
    fn append(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.kind().into());
        }
        let copied = self.bytes.checked_sub(offset);
        let copied = copied.and_then(|copied| usize::try_from(copied).ok());
        let more = copied.and_then(|copied| bytes.get(copied..));
        let more = more.unwrap_or_default();
        if more.is_empty() {
            return Ok(());
        }
        if let Err(failure) = self.file.append(more) {
            let kind = failure.kind();
            self.failure = Some(failure);
            return Err(kind.into());
        }
        self.bytes += more.len() as u64;
        Ok(())
    }
}

impl ReadFile for TeeFile {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.source.read_exact_at(bytes, offset)?;
        self.append(bytes, offset)
    }

    fn read_once_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.source.read_once_exact_at(bytes, offset)?;
        self.append(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.source.len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::{FaultOp, MemDisk};

    /// Creates a tee from a file with these bytes to the new file "/copy".
    fn tee(mem: &MemDisk, bytes: &[u8]) -> TeeFile {
        let source = Path::new("/source");
        mem.create(source).unwrap().append(bytes).unwrap();
        let copy = mem.create(Path::new("/copy")).unwrap();
        TeeFile::new(mem.open_read(source).unwrap(), copy)
    }

    #[test]
    fn bytes_that_follow_the_copied_part_are_appended_once() {
        let mem = MemDisk::new();
        let tee = tee(&mem, b"0123456789");
        let read = |offset: u64, bytes: &mut [u8]| tee.read_once_exact_at(bytes, offset).unwrap();
        // The footer comes first, then the header, then overlapping pieces of blocks.
        read(8, &mut [0; 2]);
        read(0, &mut [0; 2]);
        read(2, &mut [0; 3]);
        read(4, &mut [0; 3]);
        read(1, &mut [0; 2]);
        read(8, &mut [0; 2]);
        let (_, bytes) = tee.into_copy().unwrap();
        assert_eq!(bytes, 7);
        assert_eq!(mem.read_all("/copy").unwrap(), b"0123456");
    }

    #[test]
    fn nothing_is_appended_after_a_failure() {
        let mem = MemDisk::new();
        let tee = tee(&mem, b"0123456789");
        let read = |bytes: &mut [u8]| tee.read_exact_at(bytes, 0);
        mem.fail_next(FaultOp::Append, 1, io::ErrorKind::StorageFull);
        assert!(read(&mut [0; 8]).is_err());
        // A reader reads a single block if a large piece fails.
        assert!(read(&mut [0; 4]).is_err());
        let failure = tee.into_copy().unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::StorageFull);
    }
}

//! Copying a file through an open [`FileSystem`].

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::OnceLock;

use super::{FileSystem, ReadFile, WriteFile, is_fault_of_file};
use crate::mutation::{self, Mutation};

/// The size of the buffer, in bytes. A larger buffer copies no faster, and it costs memory even
/// after it is freed, because the allocator keeps a part of it.
const BUFFER_BYTES: usize = 128 << 10;

/// The unit in which [`OrZeros`] gives up bytes: a page of memory, which is no smaller than the
/// sectors of a disk.
const PIECE_BYTES: u64 = 4096;

/// Copies the first `len` bytes of a file into a new one, and makes the new file's bytes durable,
/// but not its name: the caller has to call [`FileSystem::sync_dir`].
///
/// # Errors
/// `ErrorKind::UnexpectedEof` if `from` has fewer than `len` bytes, and the errors of the file
/// system. After an error, the incomplete new file stays.
pub(crate) fn copy(disk: &dyn FileSystem, from: &Path, to: &Path, len: u64) -> io::Result<()> {
    let (source, mut target) = (disk.open_read(from)?, disk.create(to)?);
    let mut step = |_: u64| ControlFlow::Continue(());
    let _done = copy_in_steps(&*source, &mut *target, 0..len, &mut step)?;
    sync_copied(&mut *target)
}

/// Makes the bytes of a copied file durable.
pub(crate) fn sync_copied(target: &mut dyn WriteFile) -> io::Result<()> {
    mutation::unless(Mutation::CopyWithoutSync, || target.sync())
}

/// Appends a part of a file to `target`. Calls `step` after each piece with its length. If `step`
/// returns `Break`, ends early and returns `Break`. The bytes that are read do not stay in the
/// system's cache. The bytes in `target` are not durable before [`sync_copied`].
pub(crate) fn copy_in_steps(
    source: &dyn ReadFile,
    target: &mut dyn WriteFile,
    part: Range<u64>,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    read_in_steps(source, part, &mut |piece| {
        target.append(piece)?;
        Ok(step(piece.len() as u64))
    })
}

/// Reads a part of a file, and calls `step` with each piece. If `step` returns `Break`, ends early
/// and returns `Break`. The bytes that are read do not stay in the system's cache.
///
/// # Errors
/// The errors of the file (`ErrorKind::UnexpectedEof` if it ends before the part does) and of
/// `step`.
pub(crate) fn read_in_steps(
    source: &dyn ReadFile,
    part: Range<u64>,
    step: &mut dyn FnMut(&[u8]) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let left = |at: u64| usize::try_from(part.end.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut at = part.start;
    let mut buffer = vec![0; BUFFER_BYTES.min(left(at))];
    while at < part.end {
        let block = buffer.len().min(left(at));
        source.read_once_exact_at(&mut buffer[..block], at)?;
        at += block as u64;
        if step(&buffer[..block])?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A file that returns zeros in place of bytes that cannot be read. If a read fails, its pieces of
/// 4 KiB are read one by one, and each piece that fails again becomes zeros. Reads still fail for
/// causes that are no fault of the file (see [`is_fault_of_file`]): a later read may succeed.
#[derive(Debug)]
pub(crate) struct OrZeros<'a> {
    file: &'a dyn ReadFile,
    /// The first failure for which a read returned zeros.
    failure: OnceLock<io::Error>,
}

impl<'a> OrZeros<'a> {
    pub(crate) fn new(file: &'a dyn ReadFile) -> Self {
        Self {
            file,
            failure: OnceLock::new(),
        }
    }

    /// Returns the first failure for which a read returned zeros; `None` if no read did.
    pub(crate) fn into_failure(self) -> Option<io::Error> {
        self.failure.into_inner()
    }

    /// Fills `buf` by `read`, or by zeros where `read` fails. `read` fills a buffer with the bytes
    /// of the file from an offset on. `offset` is that of `buf`.
    fn fill(
        &self,
        buf: &mut [u8],
        offset: u64,
        read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        match read(buf, offset) {
            Err(error) if is_fault_of_file(&error) => {}
            done => return done,
        }
        let mut from = 0;
        while from < buf.len() {
            let at = offset + from as u64;
            // Sectors and pages begin at multiples of their length.
            let to = buf
                .len()
                .min(from + (PIECE_BYTES - at % PIECE_BYTES) as usize);
            let piece = &mut buf[from..to];
            match read(piece, at) {
                Err(error) if is_fault_of_file(&error) => {
                    piece.fill(0);
                    let _ = self.failure.set(error);
                }
                done => done?,
            }
            from = to;
        }
        Ok(())
    }
}

impl ReadFile for OrZeros<'_> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.fill(buf, offset, |buf, at| self.file.read_exact_at(buf, at))
    }

    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.fill(buf, offset, |buf, at| self.file.read_once_exact_at(buf, at))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A file of three pages of sevens. Reads of the byte 5000 fail with the error of this number.
    #[derive(Debug)]
    struct Bad(i32);

    impl ReadFile for Bad {
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            if (offset..offset + buf.len() as u64).contains(&5000) {
                return Err(io::Error::from_raw_os_error(self.0));
            }
            buf.fill(7);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(3 * PIECE_BYTES)
        }
    }

    #[test]
    fn only_the_page_that_cannot_be_read_becomes_zeros() {
        const EIO: i32 = 5;
        let mut read = vec![1; 12_188];
        let bad = Bad(EIO);
        let file = OrZeros::new(&bad);
        file.read_once_exact_at(&mut read, 100).unwrap();
        let is_zero = |(at, byte): (usize, &u8)| match at + 100 {
            4096..8192 => *byte == 0,
            _ => *byte == 7,
        };
        assert!(read.iter().enumerate().all(is_zero));
        assert_eq!(file.into_failure().unwrap().raw_os_error(), Some(EIO));
    }

    #[test]
    fn bytes_that_may_be_readable_later_do_not_become_zeros() {
        const EMFILE: i32 = 24;
        let bad = Bad(EMFILE);
        let file = OrZeros::new(&bad);
        let read = file.read_exact_at(&mut [0; 8192], 0);
        assert_eq!(read.unwrap_err().raw_os_error(), Some(EMFILE));
        assert!(file.into_failure().is_none());
    }
}

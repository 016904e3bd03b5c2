//! The bytes of a file, a pipe or standard input, unpacked where they are gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::CancelledRead;
use super::format::GZIP_MAGIC;
use super::walk::TextFile;

/// What is read at a time.
const READ_BYTES: usize = 128 << 10;

/// Between two looks at whether the load is cancelled, while a pipe has nothing to say.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a reader tells of and asks while it reads.
pub(super) struct ReadWatch<'a> {
    /// Bytes read so far, before unpacking; of all files.
    pub(super) bytes: &'a AtomicU64,
    /// Whether the load is to end.
    pub(super) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Opens a file for reading once from its start.
///
/// # Errors
/// When it cannot be opened, or its first bytes cannot be read.
pub(super) fn open<'a>(
    file: &TextFile,
    watch: &'a ReadWatch<'a>,
) -> io::Result<Box<dyn BufRead + 'a>> {
    let from: Box<dyn Read> = match (file.is_stdin(), file.is_stream) {
        // Not locked, not buffered: nobody else reads it.
        (true, _) => Box::new(Patient::new(
            io::stdin().as_fd().try_clone_to_owned()?,
            watch,
        )),
        (false, true) => Box::new(Patient::new(File::open(&file.path)?.into(), watch)),
        (false, false) => Box::new(File::open(&file.path)?),
    };
    let mut reader = BufReader::with_capacity(READ_BYTES, Watched { from, watch });
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        let unpacked = MultiGzDecoder::new(reader);
        return Ok(Box::new(BufReader::with_capacity(READ_BYTES, unpacked)));
    }
    Ok(Box::new(reader))
}

/// Counts what is read, and fails once the load is cancelled.
struct Watched<'a> {
    from: Box<dyn Read + 'a>,
    watch: &'a ReadWatch<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.watch.is_cancelled)() {
            return Err(CancelledRead::error());
        }
        let read = self.from.read(buffer)?;
        self.watch.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads what may keep it waiting: a terminal or a pipe. It looks up now and then, so that
/// a load that waits can be cancelled.
struct Patient<'a> {
    from: File,
    watch: &'a ReadWatch<'a>,
}

impl<'a> Patient<'a> {
    fn new(from: std::os::fd::OwnedFd, watch: &'a ReadWatch<'a>) -> Self {
        let from = File::from(from);
        Self { from, watch }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = Timespec::try_from(LOOK_EVERY).map_err(io::Error::other)?;
        loop {
            if (self.watch.is_cancelled)() {
                return Err(CancelledRead::error());
            }
            let mut from = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut from, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.from.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::AtomicBool;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    fn read(content: &[u8]) -> io::Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content).unwrap();
        let (bytes, file) = (AtomicU64::new(0), TextFile::new(path, content.len() as u64));
        let watch = ReadWatch {
            bytes: &bytes,
            is_cancelled: &|| false,
        };
        let mut all = Vec::new();
        open(&file, &watch)?.read_to_end(&mut all)?;
        assert_eq!(bytes.into_inner(), content.len() as u64);
        Ok(all)
    }

    #[test]
    fn gzip_is_unpacked_whatever_the_name_and_however_many_members() {
        assert_eq!(read(b"plain").unwrap(), b"plain");
        assert_eq!(read(b"").unwrap(), b"");
        let packed = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(read(&packed).unwrap(), b"one\ntwo\n");
        assert!(read(&packed[..packed.len() - 3]).is_err());
        assert!(read(&[&packed[..], b"rubbish"].concat()).is_err());
    }

    #[test]
    fn a_reader_that_waits_for_a_pipe_can_be_cancelled() {
        let (from, _to) = io::pipe().unwrap();
        let (bytes, cancelled) = (AtomicU64::new(0), AtomicBool::new(false));
        let watch = ReadWatch {
            bytes: &bytes,
            is_cancelled: &|| cancelled.load(Ordering::Relaxed),
        };
        std::thread::scope(|scope| {
            let mut pipe = Patient::new(from.into(), &watch);
            let waiting = scope.spawn(move || pipe.read(&mut [0; 10]));
            cancelled.store(true, Ordering::Relaxed);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.get_ref().unwrap().is::<CancelledRead>(), "{error}");
        });
    }
}

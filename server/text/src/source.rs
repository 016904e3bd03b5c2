//! The bytes of a file, a pipe or standard input, decompressed if they are gzip.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use super::error::{CancelledRead, Problem};
use super::reader::{Content, START_BYTES, gunzip};
use super::walk::TextFile;

/// The time between two checks for cancellation while a pipe has no data.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The progress and cancellation of a load, as its readers use them.
pub(super) struct ReadWatch<'a> {
    /// The counter to which readers add the number of bytes that they read, before decompression.
    pub(super) bytes: &'a AtomicU64,
    /// Returns whether the load is cancelled.
    pub(super) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Opens a file for a single reading from its start. Returns its text, decompressed.
///
/// # Errors
/// If it cannot be opened, if its first bytes cannot be read, or if its format is not readable.
pub(super) fn open<'a>(
    file: &TextFile,
    watch: &'a ReadWatch<'a>,
) -> Result<Box<dyn Read + 'a>, Problem> {
    let failed = |error| Problem::io(1, error);
    let mut watched = WatchedReader {
        from: opened(file, watch).map_err(failed)?,
        watch,
    };
    // A single read of a pipe may return fewer bytes.
    let mut start = Vec::with_capacity(START_BYTES);
    let mut first = watched.by_ref().take(START_BYTES as u64);
    first.read_to_end(&mut start).map_err(failed)?;
    let content = Content::of_start(&start)?;
    let text = Cursor::new(start).chain(watched);
    Ok(match content {
        Content::Plain => Box::new(text),
        Content::Gzip => Box::new(gunzip(text)),
    })
}

fn opened<'a>(file: &TextFile, watch: &'a ReadWatch<'a>) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match (file.is_stdin(), file.is_stream) {
        // Neither locked nor buffered: nothing else reads standard input.
        (true, _) => {
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            let from = File::from(stdin);
            Box::new(CancellableReader { from, watch })
        }
        (false, true) => {
            // Without NONBLOCK, opening a named pipe would wait until a writer opens it, and this
            // wait could not be cancelled.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let from = File::from(rustix::fs::open(&file.path, flags, Mode::empty())?);
            Box::new(CancellableReader { from, watch })
        }
        (false, false) => Box::new(File::open(&file.path)?),
    })
}

/// A reader that counts bytes, and fails once the load is cancelled.
struct WatchedReader<'a> {
    from: Box<dyn Read + 'a>,
    watch: &'a ReadWatch<'a>,
}

impl Read for WatchedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.watch.is_cancelled)() {
            return Err(CancelledRead::error());
        }
        let read = self.from.read(buffer)?;
        self.watch.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A reader of a terminal or a pipe, which may have no data. It checks for cancellation regularly,
/// so that a waiting load can be cancelled.
struct CancellableReader<'a> {
    from: File,
    watch: &'a ReadWatch<'a>,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = Timespec::try_from(CHECK_EVERY).map_err(io::Error::other)?;
        loop {
            if (self.watch.is_cancelled)() {
                return Err(CancelledRead::error());
            }
            let mut from = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut from, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => match self.from.read(buffer) {
                    // Another reader of the pipe has taken the data.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Cause;
    use super::*;
    use std::io::Write;
    use std::process::Command;
    use std::sync::atomic::AtomicBool;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    fn read(content: &[u8]) -> Result<Vec<u8>, Problem> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content).unwrap();
        let (bytes, file) = (AtomicU64::new(0), TextFile::new(path, content.len() as u64));
        let watch = ReadWatch {
            bytes: &bytes,
            is_cancelled: &|| false,
        };
        let mut all = Vec::new();
        let text = open(&file, &watch)?.read_to_end(&mut all);
        text.map_err(|error| Problem::io(1, error))?;
        assert_eq!(bytes.into_inner(), content.len() as u64);
        Ok(all)
    }

    #[test]
    fn gzip_is_unpacked_for_any_name_and_any_number_of_members() {
        assert_eq!(read(b"plain").unwrap(), b"plain");
        assert_eq!(read(b"").unwrap(), b"");
        let packed = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(read(&packed).unwrap(), b"one\ntwo\n");
        assert!(read(&packed[..packed.len() - 3]).is_err());
        assert!(read(&[&packed[..], b"rubbish"].concat()).is_err());
        let foreign = read(b"\x28\xb5\x2f\xfd and so on").unwrap_err();
        assert!(
            format!("{foreign:?}").contains("format zstd"),
            "{foreign:?}"
        );
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
            let mut pipe = CancellableReader {
                from: File::from(std::os::fd::OwnedFd::from(from)),
                watch: &watch,
            };
            let waiting = scope.spawn(move || pipe.read(&mut [0; 10]));
            cancelled.store(true, Ordering::Relaxed);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.get_ref().unwrap().is::<CancelledRead>(), "{error}");
        });
    }

    /// Regression: before a writer had opened the pipe, a load of a named pipe could neither be
    /// cancelled nor end because of an error of another file.
    #[test]
    fn a_named_pipe_is_read_to_its_end_and_without_a_writer_the_load_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let file = TextFile {
            is_stream: true,
            ..TextFile::new(path.clone(), 0)
        };
        let read = |is_cancelled: bool| -> Result<Vec<u8>, Problem> {
            let bytes = AtomicU64::new(0);
            let watch = ReadWatch {
                bytes: &bytes,
                is_cancelled: &|| is_cancelled,
            };
            let mut all = Vec::new();
            let text = open(&file, &watch)?.read_to_end(&mut all);
            text.map_err(|error| Problem::io(1, error))?;
            Ok(all)
        };
        let problem = read(true).unwrap_err();
        assert!(matches!(problem.what, Cause::Cancelled), "{problem:?}");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| std::fs::write(&path, "one\ntwo\n"));
            assert_eq!(read(false).unwrap(), b"one\ntwo\n");
            writer.join().unwrap().unwrap();
        });
    }
}

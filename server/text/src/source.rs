//! The bytes of a file, a pipe or standard input, unpacked where they are gzip.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::{CancelledRead, Problem};
use super::reader::{Content, START_BYTES, gunzip};
use super::walk::TextFile;

/// Between two looks at whether the load is cancelled, while a pipe has nothing to say.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a reader tells of and asks while it reads.
pub(super) struct ReadWatch<'a> {
    /// Bytes read so far, before unpacking; of all files.
    pub(super) bytes: &'a AtomicU64,
    /// Whether the load is to end.
    pub(super) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Opens a file for reading once from its start. Returns its text, unpacked.
///
/// # Errors
/// When it cannot be opened, its first bytes cannot be read, or they are those of a format that is
/// not read.
pub(super) fn open<'a>(
    file: &TextFile,
    watch: &'a ReadWatch<'a>,
) -> Result<Box<dyn Read + 'a>, Problem> {
    let failed = |error| Problem::io(1, error);
    let mut watched = Watched {
        from: opened(file, watch).map_err(failed)?,
        watch,
    };
    // A pipe may give less at a time.
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
        // Not locked, not buffered: nothing else reads it.
        (true, _) => {
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            let from = File::from(stdin);
            Box::new(Patient { from, watch })
        }
        (false, true) => {
            let from = File::open(&file.path)?;
            Box::new(Patient { from, watch })
        }
        (false, false) => Box::new(File::open(&file.path)?),
    })
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
    fn gzip_is_unpacked_whatever_the_name_and_however_many_members() {
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
            let mut pipe = Patient {
                from: File::from(std::os::fd::OwnedFd::from(from)),
                watch: &watch,
            };
            let waiting = scope.spawn(move || pipe.read(&mut [0; 10]));
            cancelled.store(true, Ordering::Relaxed);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.get_ref().unwrap().is::<CancelledRead>(), "{error}");
        });
    }
}

//! The resource use of a thread, as the kernel counts it in `schedstat` and `io` under
//! `/proc`.
//!
//! Both sides of co-location read these files: a lease for its own threads, the load
//! monitor for all threads of the process. So they deduct the same numbers from each other.

use std::fs::File;
use std::io;
use std::ops::{AddAssign, Sub};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The size of the buffer for reading a thread's `schedstat` or `io`, in bytes: more than either
/// file has.
const FILE_BYTES_MAX: usize = 512;

/// The resource use of one thread, or the sum over several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUse {
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// The time that the thread was ready to run and had no core, in nanoseconds.
    pub waited_ns: u64,
    /// Bytes read from the disk or written to it; a write counts when it reaches the page
    /// cache. 0 where the kernel does not count them.
    pub disk_bytes: u64,
}

impl Sub for ThreadUse {
    type Output = Self;

    /// Subtracts each number of `before`; where the result would be negative, it is 0.
    fn sub(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            disk_bytes: self.disk_bytes.saturating_sub(before.disk_bytes),
        }
    }
}

impl AddAssign for ThreadUse {
    fn add_assign(&mut self, more: Self) {
        self.cpu_ns += more.cpu_ns;
        self.waited_ns += more.waited_ns;
        self.disk_bytes += more.disk_bytes;
    }
}

/// The open files with a thread's resource use: to read them again takes one system call
/// each, while opening and closing them would take two more.
#[derive(Debug)]
pub struct ThreadFiles {
    schedstat: File,
    /// The file `io` of the thread; `None` if the kernel has no I/O accounting, or denies access to it.
    io: Option<File>,
}

impl ThreadFiles {
    /// Opens the files of the thread with this directory, such as `/proc/self/task/17`.
    ///
    /// # Errors
    /// When the thread has ended, the system is not Linux, or the process has as many files open as
    /// it may. It is no error if the kernel does not show the file `io` to this process.
    pub fn open(thread: &Path) -> io::Result<Self> {
        let schedstat = File::open(thread.join("schedstat"))?;
        let io = match File::open(thread.join("io")) {
            Ok(io) => Some(io),
            Err(error) if is_not_shown(&error) => None,
            // For example, too many open files. Without the file, a later read would count the bytes of all
            // of the thread's life as those of a short time.
            Err(error) => return Err(error),
        };
        Ok(Self { schedstat, io })
    }

    /// Returns the resources that the thread has used so far.
    ///
    /// # Errors
    /// If the thread has ended, or the text is not what the kernel writes. A later thread with the
    /// same id is never read.
    pub fn read(&self) -> io::Result<ThreadUse> {
        let mut used = self.read_cpu()?;
        if let Some(io) = &self.io {
            let mut buffer = [0; FILE_BYTES_MAX];
            used.disk_bytes = parse_io(read_from_start(io, &mut buffer)?);
        }
        Ok(used)
    }

    /// Returns the use without the bytes that the thread read and wrote, in one system
    /// call.
    ///
    /// # Errors
    /// As [`ThreadFiles::read`].
    pub fn read_cpu(&self) -> io::Result<ThreadUse> {
        let mut buffer = [0; FILE_BYTES_MAX];
        let schedstat = read_from_start(&self.schedstat, &mut buffer)?;
        let [cpu_ns, waited_ns] = parse_schedstat(schedstat).ok_or_else(|| {
            let said = "schedstat does not begin with two numbers";
            io::Error::new(io::ErrorKind::InvalidData, said)
        })?;
        Ok(ThreadUse {
            cpu_ns,
            waited_ns,
            disk_bytes: 0,
        })
    }
}

/// Returns whether this error of opening a file means that the kernel does not show it to this process.
fn is_not_shown(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// Reads a file that the kernel generates anew for each read at offset 0.
fn read_from_start<'a>(file: &File, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..length])
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl ThreadUse {
    /// Returns the use of the thread with this directory, such as `/proc/self/task/17`.
    ///
    /// # Errors
    /// As [`ThreadFiles::open`] and [`ThreadFiles::read`].
    pub fn read(thread: &Path) -> io::Result<Self> {
        ThreadFiles::open(thread)?.read()
    }

    /// Returns the use of the calling thread.
    ///
    /// # Errors
    /// As [`ThreadFiles::open`] and [`ThreadFiles::read`].
    pub fn of_this_thread() -> io::Result<Self> {
        Self::read(Path::new("/proc/thread-self"))
    }
}

/// Parses the time on a core and the time waiting for one, in nanoseconds; `None` if the text does
/// not begin with two numbers.
fn parse_schedstat(text: &str) -> Option<[u64; 2]> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// Parses the bytes that were fetched from the disk and those that are to be written to it, and
/// returns their sum. A number that is missing or invalid counts as 0.
fn parse_io(text: &str) -> u64 {
    let number = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let counted = ["read_bytes", "write_bytes"].map(|name| number(name).unwrap_or(0));
    counted[0].saturating_add(counted[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::wait;

    #[test]
    fn the_text_of_the_kernel_is_parsed() {
        assert_eq!(parse_schedstat("120 7 3\n"), Some([120, 7]));
        for bad in ["", "120", "x 7 3", "-1 2 3"] {
            assert_eq!(parse_schedstat(bad), None, "{bad:?}");
        }
        let io = "rchar: 1\nwchar: 2\nsyscr: 3\nread_bytes: 40\nwrite_bytes: 500\n\
                  cancelled_write_bytes: 6\n";
        assert_eq!(parse_io(io), 540);
        assert_eq!(parse_io(""), 0);
        assert_eq!(parse_io("read_bytes: much\nwrite_bytes: 5"), 5);
    }

    #[test]
    fn open_files_show_what_the_thread_uses_until_it_ends() {
        let (send, files) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let files = ThreadFiles::open(Path::new("/proc/thread-self")).unwrap();
            let before = files.read().unwrap();
            let mut after = before;
            while after.cpu_ns == before.cpu_ns {
                after = files.read_cpu().unwrap();
            }
            send.send((files, after)).unwrap();
            let _ = ended.recv();
        });
        let (files, after) = files.recv().unwrap();
        assert!(files.read().unwrap().cpu_ns >= after.cpu_ns);
        drop(end);
        thread.join().unwrap();
        wait::until("the kernel to remove the thread", || {
            files.read_cpu().is_err()
        });
        assert!(files.read().is_err());
    }
}

//! The resource use of the threads of this process by class, as the kernel counts it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use ebb_threads::{ThreadFiles, ThreadUse};
use rustix::io::Errno;

/// The name that the scheduler's runtime gives to threads that run tasks.
pub(super) const ANALYTICS_THREAD: &str = "ebb-task";
const THREADS: &str = "/proc/self/task";

/// The number of samples at which a thread's name is read. Reading it once is not enough: a thread
/// gets its name a moment after it starts, and until then has its creator's.
const NAMES_READ: u8 = 2;

/// The maximal number of threads whose files stay open between samples. Open files save two of
/// three system calls, but count towards the limit of open files of the process, often about a
/// thousand.
const OPEN_MAX: usize = 64;

/// A thread at the last sample.
#[derive(Debug)]
struct Thread {
    /// The open files of the thread in `/proc`; `None` if [`OPEN_MAX`] threads were listed before it when
    /// it was first read, or if they could not be read then.
    files: Option<ThreadFiles>,
    /// The CPU and disk use of the thread, from its start until the counters were last read.
    used: ThreadUse,
    /// False if the counters could not be read at the last sample, so that `used` is older, or 0.
    is_current: bool,
    runs_analytics: bool,
    /// The number of times that the thread's name was read.
    names_read: u8,
}

/// The threads of this process at the last sample, by id.
#[derive(Debug)]
pub(super) struct Threads(HashMap<u32, Thread>);

impl Threads {
    /// Finds the existing threads.
    ///
    /// # Errors
    /// If the kernel does not list them.
    pub(super) fn find() -> io::Result<Self> {
        let mut threads = Self(HashMap::new());
        threads.sample()?;
        Ok(threads)
    }

    /// Returns the CPU and disk use of transactional threads, and that of analytics threads, since the last
    /// sample. The use of threads that have ended since then is missed.
    ///
    /// # Errors
    /// See [`Threads::find`].
    pub(super) fn sample(&mut self) -> io::Result<[ThreadUse; 2]> {
        let mut threads = HashMap::with_capacity(self.0.len());
        let mut used_by_class = [ThreadUse::default(); 2];
        for entry in fs::read_dir(THREADS)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let folder = entry.path();
            // If the thread of the last sample has ended, the id belongs to a new thread.
            let again = (self.0.remove(&id)).and_then(|thread| thread.again(&folder));
            let keep_open = threads.len() < OPEN_MAX;
            let found = again.or_else(|| Thread::first(&folder, keep_open));
            // A thread may end between the listing and the reading.
            let Some((mut thread, used)) = found else {
                continue;
            };
            if thread.names_read < NAMES_READ {
                thread.read_name(&folder);
            }
            used_by_class[usize::from(thread.runs_analytics)] += used;
            threads.insert(id, thread);
        }
        self.0 = threads;
        Ok(used_by_class)
    }
}

impl Thread {
    /// Reads a thread that was not in the last sample, and returns it with its use until now; `None` if it
    /// has ended.
    fn first(folder: &Path, keep_open: bool) -> Option<(Self, ThreadUse)> {
        let opened = ThreadFiles::open(folder);
        let read = opened.and_then(|files| Ok((files.read()?, Some(files))));
        let (used, files, is_current) = match read {
            Ok((used, files)) => (used, files.filter(|_| keep_open), true),
            Err(error) if has_ended(&error) => return None,
            Err(_) => (ThreadUse::default(), None, false),
        };
        let thread = Self {
            files,
            used,
            is_current,
            runs_analytics: false,
            names_read: 0,
        };
        Some((thread, used))
    }

    /// Reads the thread again, and returns it with its use since the last sample; `None` if the thread has
    /// ended, or if the id now belongs to a new thread. The use is 0 if the counters cannot be read now. It
    /// is also 0 if they could not be read at the last sample, because it would cover more than one sample.
    fn again(self, folder: &Path) -> Option<(Self, ThreadUse)> {
        let read = match &self.files {
            Some(files) => files.read(),
            None => ThreadUse::read(folder),
        };
        let now = match read {
            // A thread that has used less than before is a new one with the same id.
            Ok(now) if now.cpu_ns < self.used.cpu_ns => return None,
            Ok(now) => now,
            Err(error) if has_ended(&error) => return None,
            // For example, the process has as many files open as it may.
            Err(_) => {
                let unread = Self {
                    is_current: false,
                    ..self
                };
                return Some((unread, ThreadUse::default()));
            }
        };
        let used = if self.is_current {
            now - self.used
        } else {
            ThreadUse::default()
        };
        let thread = Self {
            used: now,
            is_current: true,
            ..self
        };
        Some((thread, used))
    }

    /// Reads the name of the thread, which shows whether it runs analytics.
    fn read_name(&mut self, folder: &Path) {
        if let Ok(name) = fs::read_to_string(folder.join("comm")) {
            self.runs_analytics = name.trim() == ANALYTICS_THREAD;
            self.names_read += 1;
        }
    }
}

/// Returns whether this error of opening or reading a thread's file means that the thread has ended.
fn has_ended(error: &io::Error) -> bool {
    let ended = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| ended.contains(&code))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use ebb_test_support::wait;

    use super::*;
    use crate::busy_thread::BusyThread;

    /// Regression: after a sample in which a thread's files could not be opened, all of the thread's life
    /// counted as the use of one sample.
    #[test]
    fn a_thread_that_cannot_be_read_for_some_time_adds_no_use_of_that_time() {
        let dir = tempfile::tempdir().unwrap();
        let [schedstat, io] = ["schedstat", "io"].map(|name| dir.path().join(name));
        let set = |cpu_ns: u64, disk_bytes: u64| {
            fs::write(&schedstat, format!("{cpu_ns} 7 3\n")).unwrap();
            fs::write(&io, format!("read_bytes: {disk_bytes}\n")).unwrap();
        };
        let again = |thread: Thread| {
            let (thread, used) = thread.again(dir.path()).unwrap();
            (thread, (used.cpu_ns, used.disk_bytes))
        };
        set(1000, 40);
        let (thread, used) = Thread::first(dir.path(), false).unwrap();
        assert_eq!((used.cpu_ns, used.disk_bytes), (1000, 40));
        set(1200, 41);
        let (thread, used) = again(thread);
        assert_eq!(used, (200, 1));
        // A link to itself cannot be opened, as no file can be when the process has too many open.
        fs::remove_file(&schedstat).unwrap();
        symlink("schedstat", &schedstat).unwrap();
        let (unread, used) = Thread::first(dir.path(), false).unwrap();
        assert_eq!((used, unread.is_current), (ThreadUse::default(), false));
        let (thread, used) = again(thread);
        assert_eq!(used, (0, 0));
        fs::remove_file(&schedstat).unwrap();
        set(9000, 50);
        assert_eq!(again(unread).1, (0, 0));
        let (thread, used) = again(thread);
        assert_eq!(used, (0, 0));
        set(9100, 52);
        let (thread, used) = again(thread);
        assert_eq!(used, (100, 2));

        // The file with the bytes cannot be opened.
        set(9300, 53);
        fs::remove_file(&io).unwrap();
        symlink("io", &io).unwrap();
        let (unread, used) = Thread::first(dir.path(), false).unwrap();
        assert_eq!((used, unread.is_current), (ThreadUse::default(), false));
        let (thread, used) = again(thread);
        assert_eq!(used, (0, 0));
        fs::remove_file(&io).unwrap();
        set(9400, 55);
        assert_eq!(again(unread).1, (0, 0));
        let (thread, used) = again(thread);
        assert_eq!(used, (0, 0));
        set(9500, 58);
        let (thread, used) = again(thread);
        assert_eq!(used, (100, 3));
        fs::remove_file(&schedstat).unwrap();
        assert!(thread.again(dir.path()).is_none(), "it has ended");
        // The error of a read from a file of a thread that has ended.
        assert!(has_ended(&Errno::SRCH.into()));
    }

    #[test]
    fn a_busy_thread_counts_for_its_class() {
        // Other tests run at the same time and are counted too, so the use of the threads with one
        // name is looked up by name.
        for (name, analytics) in [("ebb-load", false), (ANALYTICS_THREAD, true)] {
            let busy = BusyThread::start(name);
            let mut threads = Threads::find().unwrap();
            let mut used_ns = 0;
            wait::until("the busy thread to be seen", || {
                used_ns += threads.sample().unwrap()[usize::from(analytics)].cpu_ns;
                used_ns >= 5_000_000
            });
            let named = |(id, thread): (&u32, &Thread)| {
                let comm = fs::read_to_string(Path::new(THREADS).join(format!("{id}/comm")));
                let is_it = comm.is_ok_and(|comm| comm.trim() == name);
                is_it.then_some(thread.runs_analytics)
            };
            let found = threads.0.iter().find_map(named);
            assert_eq!(found, Some(analytics), "{name}");
            drop(busy);
        }
    }
}

//! The resource use of the threads of this process by class, as the kernel counts it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use ebb_threads::{ThreadFiles, ThreadUse};

/// The name that the scheduler's runtime gives to threads that run tasks.
pub(super) const ANALYTICS_THREAD: &str = "ebb-task";
const THREADS: &str = "/proc/self/task";

/// The number of samples at which a thread's name is read. Reading it once is not enough: a thread
/// gets its name a moment after it starts, and until then has its creator's.
const NAMES_READ: u8 = 2;

/// The maximal number of threads whose files stay open, which saves two system calls of three; a
/// process may have a thousand files open.
const OPEN_MAX: usize = 64;

/// A thread at the last sample.
#[derive(Debug)]
struct Thread {
    /// The open files of the thread in `/proc`; `None` if [`OPEN_MAX`] other threads already had
    /// open files.
    files: Option<ThreadFiles>,
    used: ThreadUse,
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

    /// Returns the use of transactional and of analytics threads since the last sample. Threads
    /// that have ended since are missed.
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
            // A thread may end between the listing and the reading. If the files of the last sample
            // cannot be read, the id belongs to a new thread.
            let before = (self.0.remove(&id)).and_then(|thread| thread.again(&folder));
            let was = before
                .as_ref()
                .map_or(ThreadUse::default(), |(_, was)| *was);
            let keep_open = threads.len() < OPEN_MAX;
            let found = before.map(|(thread, _)| thread);
            let found = found.or_else(|| Thread::first(&folder, keep_open));
            let Some(mut thread) = found else {
                continue;
            };
            if thread.names_read < NAMES_READ {
                thread.runs_analytics = runs_analytics(&folder);
                thread.names_read += 1;
            }
            used_by_class[usize::from(thread.runs_analytics)] += thread.used - was;
            threads.insert(id, thread);
        }
        self.0 = threads;
        Ok(used_by_class)
    }
}

impl Thread {
    /// Reads a thread that was not in the last sample; `None` if it has ended.
    fn first(folder: &Path, keep_open: bool) -> Option<Self> {
        let files = ThreadFiles::open(folder).ok()?;
        Some(Self {
            used: files.read().ok()?,
            files: keep_open.then_some(files),
            runs_analytics: false,
            names_read: 0,
        })
    }

    /// Reads the thread again, and returns it with its use until now, and its use at the last
    /// sample; `None` if it has ended.
    fn again(self, folder: &Path) -> Option<(Self, ThreadUse)> {
        let used = match &self.files {
            Some(files) => files.read().ok()?,
            // A thread that has used less than before is a new one with the same id.
            None => (ThreadUse::read(folder).ok()).filter(|now| now.cpu_ns >= self.used.cpu_ns)?,
        };
        let before = self.used;
        Some((Self { used, ..self }, before))
    }
}

fn runs_analytics(thread: &Path) -> bool {
    fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == ANALYTICS_THREAD)
}

#[cfg(test)]
mod tests {
    use ebb_test_support::wait;

    use super::*;
    use crate::busy_thread::BusyThread;

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

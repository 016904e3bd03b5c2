//! The table cache: limits the number of tables that are open at once.
//!
//! A read of a closed table opens it again, and another table that was not read for a while is
//! closed. Readers of an open table take no lock. A reader keeps the file open that it reads, so a
//! few more may be open for a moment.
//!
//! No thread waits for the locks of the lists of open tables and of spare descriptors: a thread of a
//! job, which the kernel may stop for seconds, takes them as well as a thread of a request. A reader
//! that does not get the lock of the open tables reads from a file of its own, and closes it
//! afterwards.
//!
//! The table to close is chosen by a clock (Corbató 1968): the tables are in a ring, and the hand
//! takes the first one that was not read since the hand last passed it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use super::TableStore;
use crate::file_system::ReadFile;

/// The entries of tables that no longer exist are removed from `ring` (the list of open tables)
/// once it has more than 2 * the number of open tables + this many entries. So the cost of a
/// removal is shared by many additions.
const GONE_MAX: usize = 64;

/// The descriptors that are held for calls that write: a new segment of the log needs three at once, for the
/// file, for its second handle, and for the sync of its name. (The local disk needs none for the sync, because
/// the directory is open for its lock; other disks may.)
const SPARES: usize = 4;

/// The number of tries to get the lock of `ring`. They take about as long as the lock is usually held.
const RING_TRIES: usize = 100;

#[derive(Debug)]
pub(crate) struct OpenFiles {
    max: usize,
    open: AtomicUsize,
    /// The open tables, and some tables that no longer exist, in the order in which the clock's
    /// hand passes them. Locked by `try_ring` only.
    ring: Mutex<VecDeque<Weak<TableFile>>>,
    /// Files that are open only to reserve descriptors: they are closed when a call that writes
    /// finds no free descriptor. No thread waits for the lock, as for that of `ring`.
    spares: Mutex<Vec<Arc<dyn ReadFile>>>,
    stage: AtomicU8,
    waited_us: AtomicU64,
}

/// The stage of the tables' database, which decides how long calls wait for descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The database is being opened: a call that finds no free descriptor fails after some seconds of
    /// tries.
    Opening,
    /// The database is open: calls that write wait for a descriptor, however long.
    Open,
    /// The database is being closed: no call waits.
    Closing,
}

impl OpenFiles {
    /// Creates a cache with at most `max` open tables, at least one. With `None` the maximum is
    /// half of the files that the process may open, because the program has sockets and files too.
    pub(crate) fn new(max: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            max: max.unwrap_or_else(half_of_limit).max(1),
            open: AtomicUsize::new(0),
            ring: Mutex::default(),
            spares: Mutex::default(),
            stage: AtomicU8::new(Stage::Opening as u8),
            waited_us: AtomicU64::new(0),
        })
    }

    /// Opens a table. The cache may close its file, and opens it again at the next read.
    pub(crate) fn open(
        self: &Arc<Self>,
        tables: &Arc<dyn TableStore>,
        number: u64,
    ) -> io::Result<Arc<TableFile>> {
        let file = Arc::new_cyclic(|me| TableFile {
            me: me.clone(),
            tables: tables.clone(),
            number,
            files: self.clone(),
            opened: ArcSwapOption::empty(),
            was_read: AtomicBool::new(false),
        });
        file.open()?;
        Ok(file)
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        if stage == Stage::Closing {
            self.give_up_spares();
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        let stages = [Stage::Opening, Stage::Open, Stage::Closing];
        stages[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    /// Adds the time of a wait for a file descriptor.
    pub(crate) fn note_wait(&self, time: Duration) {
        let us = time.as_micros() as u64;
        self.waited_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns about how long callers waited for file descriptors, in microseconds.
    pub(crate) fn waited_us(&self) -> u64 {
        self.waited_us.load(Ordering::Relaxed)
    }

    /// Locks the list of open tables; `None` if another thread holds the lock for long.
    fn try_ring(&self) -> Option<MutexGuard<'_, VecDeque<Weak<TableFile>>>> {
        for _ in 0..RING_TRIES {
            match self.ring.try_lock() {
                Ok(ring) => return Some(ring),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// Closes a quarter of the open tables, rounded up, to free descriptors for other files. Closes none
    /// while another thread holds the list of open tables: the caller tries again.
    pub(crate) fn make_room(&self) {
        let Some(mut ring) = self.try_ring() else {
            return;
        };
        let open = self.open.load(Ordering::Relaxed);
        let closed = self.close_down_to(open - open.div_ceil(4), &mut ring);
        drop(ring);
        drop(closed);
    }

    /// Calls `open` until enough files are held as spare descriptors, or until a call fails. Calls it not
    /// at all while another thread holds the list of spare descriptors.
    pub(crate) fn hold_spares(&self, open: impl Fn() -> io::Result<Arc<dyn ReadFile>>) {
        let Ok(mut spares) = self.spares.try_lock() else {
            return;
        };
        while spares.len() < SPARES
            && let Ok(file) = open()
        {
            spares.push(file);
        }
    }

    /// Closes the spare descriptors, until they are held again. Closes none while another thread holds
    /// the list of them: the caller tries again.
    pub(crate) fn give_up_spares(&self) {
        let Ok(mut spares) = self.spares.try_lock() else {
            return;
        };
        let closed = std::mem::take(&mut *spares);
        drop(spares);
        drop(closed);
    }

    /// Closes tables until at most `max` are open, and returns their files, which the caller drops
    /// after it has released the lock.
    fn close_down_to(&self, max: usize, ring: &mut VecDeque<Weak<TableFile>>) -> Vec<Arc<Opened>> {
        let mut closed = Vec::new();
        // Each is passed at most twice.
        for _ in 0..2 * ring.len() {
            if self.open.load(Ordering::Relaxed) <= max {
                break;
            }
            let Some(file) = ring.pop_front() else { break };
            let Some(table) = file.upgrade() else {
                continue;
            };
            if table.was_read.swap(false, Ordering::Relaxed) {
                ring.push_back(file);
            } else if let Some(opened) = table.opened.swap(None) {
                self.open.fetch_sub(1, Ordering::Relaxed);
                closed.push(opened);
            }
        }
        closed
    }
}

fn half_of_limit() -> usize {
    const AT_LEAST: u64 = 16;
    const AT_MOST: u64 = 1 << 20;
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let limit = Some(512);
    limit.map_or(AT_MOST, |limit| (limit / 2).clamp(AT_LEAST, AT_MOST)) as usize
}

/// A table of a store, open or not.
#[derive(Debug)]
pub(crate) struct TableFile {
    me: Weak<Self>,
    tables: Arc<dyn TableStore>,
    number: u64,
    files: Arc<OpenFiles>,
    opened: ArcSwapOption<Opened>,
    /// Whether the file was read since the hand of the clock last passed it.
    was_read: AtomicBool,
}

#[derive(Debug)]
struct Opened(Arc<dyn ReadFile>);

impl TableFile {
    /// Opens the file and adds it to the open ones, unless the list of these is locked: then the file is
    /// open only while the caller has it.
    fn open(&self) -> io::Result<Arc<Opened>> {
        let opened = Arc::new(Opened(self.tables.open(self.number)?));
        let Some(mut ring) = self.files.try_ring() else {
            return Ok(opened);
        };
        if let Some(earlier) = self.opened.load_full() {
            return Ok(earlier);
        }
        let closed = self.files.close_down_to(self.files.max - 1, &mut ring);
        // Not for this one read, but from the next on: one that is read once goes first.
        self.was_read.store(false, Ordering::Relaxed);
        self.opened.store(Some(opened.clone()));
        self.files.open.fetch_add(1, Ordering::Relaxed);
        ring.push_back(self.me.clone());
        // Those that went while they were open left their places.
        if ring.len() > 2 * self.files.open.load(Ordering::Relaxed) + GONE_MAX {
            ring.retain(|file| file.strong_count() > 0);
        }
        drop(ring);
        drop(closed);
        Ok(opened)
    }

    fn with<T>(&self, read: impl FnOnce(&dyn ReadFile) -> io::Result<T>) -> io::Result<T> {
        if let Some(opened) = &*self.opened.load() {
            // Read by others too: not written to each time.
            if !self.was_read.load(Ordering::Relaxed) {
                self.was_read.store(true, Ordering::Relaxed);
            }
            return read(&*opened.0);
        }
        read(&*self.open()?.0)
    }
}

impl ReadFile for TableFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|file| file.read_exact_at(buf, offset))
    }

    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|file| file.read_once_exact_at(buf, offset))
    }

    fn forget_cached(&self) -> io::Result<()> {
        self.with(|file| file.forget_cached())
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| file.len())
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.opened.swap(None).is_some() {
            self.files.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::Path;
    use std::thread;

    use ebb_test_support::wait::until;

    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;
    use crate::table_store::LocalTables;

    fn tables(count: u64) -> Arc<dyn TableStore> {
        let disk = MemDisk::new();
        disk.create_dir_all(Path::new("/db")).unwrap();
        let tables = LocalTables::new(Arc::new(disk), "/db");
        for number in 1..=count {
            let mut file = tables.create(number).unwrap();
            file.append(&[number as u8; 10]).unwrap();
        }
        Arc::new(tables)
    }

    fn first_byte(file: &TableFile) -> u8 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 3).unwrap();
        byte[0]
    }

    #[test]
    fn open_files_keep_within_the_limit_and_all_can_be_read() {
        let tables = tables(20);
        let files = OpenFiles::new(Some(4));
        let all: Vec<_> = (1..=20).map(|n| files.open(&tables, n).unwrap()).collect();
        for _ in 0..3 {
            for file in &all {
                assert_eq!(u64::from(first_byte(file)), file.number);
                assert!(files.open.load(Ordering::Relaxed) <= 4);
            }
        }
        files.make_room();
        assert_eq!(files.open.load(Ordering::Relaxed), 3);
        drop(all);
        assert_eq!(files.open.load(Ordering::Relaxed), 0);
        files.make_room();
        assert_eq!(files.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_that_is_read_often_stays_open() {
        let tables = tables(20);
        let files = OpenFiles::new(Some(4));
        let all: Vec<_> = (1..=20).map(|n| files.open(&tables, n).unwrap()).collect();
        first_byte(&all[0]);
        first_byte(&all[0]);
        let opened = all[0].opened.load_full().unwrap();
        for file in &all[1..] {
            first_byte(file);
            first_byte(&all[0]);
        }
        assert!(Arc::ptr_eq(&opened, &all[0].opened.load_full().unwrap()));
    }

    /// Merges replace tables for ever. Few databases have as many tables as may be open at once, so
    /// the places of tables that no longer exist must be freed before that limit is reached.
    #[test]
    fn tables_that_are_gone_leave_nothing_behind() {
        let tables = tables(20);
        let files = OpenFiles::new(None);
        for i in 0..10_000 {
            first_byte(&files.open(&tables, i % 20 + 1).unwrap());
        }
        assert_eq!(files.open.load(Ordering::Relaxed), 0);
        let places = files.ring.lock().unwrap().len();
        assert!(places <= 2 * GONE_MAX, "{places} places");
    }

    /// Regression: while the kernel stopped a thread of a job that held the lock, requests that opened a
    /// table waited, and so did commits that needed a descriptor.
    #[test]
    fn no_thread_waits_for_the_lock_of_the_open_tables() {
        let tables = tables(20);
        let files = OpenFiles::new(Some(4));
        let all: Vec<_> = (1..=20).map(|n| files.open(&tables, n).unwrap()).collect();
        thread::scope(|scope| {
            let (ring, spares) = (files.ring.lock().unwrap(), files.spares.lock().unwrap());
            let reader = scope.spawn(|| {
                for file in &all {
                    assert_eq!(u64::from(first_byte(file)), file.number);
                }
                files.make_room();
                files.give_up_spares();
            });
            until("the reads", || reader.is_finished());
            drop((ring, spares));
        });
        assert_eq!(files.open.load(Ordering::Relaxed), 4);
        files.make_room();
        assert_eq!(files.open.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn many_threads_read_more_tables_than_are_open() {
        let tables = tables(20);
        let files = OpenFiles::new(Some(3));
        let all: Vec<_> = (1..=20).map(|n| files.open(&tables, n).unwrap()).collect();
        thread::scope(|scope| {
            for thread in 0..4 {
                let all = &all;
                scope.spawn(move || {
                    for i in 0..2000 {
                        let file = &all[(i * (thread + 3) + i / 7) % all.len()];
                        assert_eq!(u64::from(first_byte(file)), file.number);
                    }
                });
            }
        });
        assert!(files.open.load(Ordering::Relaxed) <= 3);
        let open = all.iter().filter(|file| file.opened.load().is_some());
        assert_eq!(open.count(), files.open.load(Ordering::Relaxed));
    }
}

//! The calls to the disk that are under way, for a thread that looks whether one of them hangs.
//!
//! A call from which the kernel does not return cannot report itself. So each call notes its start
//! and its end in a slot of a small table, and [`DiskWatch`](super::DiskWatch) compares the slots
//! of one look with those of the look before. A note costs a call two atomic operations on a cache
//! line that hardly any other thread uses, and no look at a clock: the watch has the times.

use std::array;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossbeam_utils::CachePadded;

use super::stuck::DiskCall;

/// The number of slots in the table of calls under way. Each slot has the note of one call. A call
/// that finds no free slot is made without a note. A disk that hangs is found nevertheless, because
/// the calls with notes hang as well.
const SLOTS: usize = 128;
/// The number of slots, in the table of calls under way, that a call tries to take for its note. If
/// none of them is free, the call is made without a note.
const TRIES: usize = 4;

/// The number of lists of names. A thread that finds one of them locked takes the next one.
const NAME_LISTS: usize = 64;
/// A list of names is cleared of closed files once it has twice as many names as after the last time, and
/// this many more. So the cost is shared by many additions.
const CLOSED_MAX: usize = 16;

/// The number of bits of a [`Note`] that hold the number of the file.
const FILE_BITS: u32 = 40;
/// The number of bits of a [`Note`] that hold the low bits of the number of calls that the thread has made.
const COUNT_BITS: u32 = 22;

/// The content of a slot, in the table of calls under way, during a call: the kind of the call, the
/// low bits of the number of calls that the thread has made, and the number of the file. Two calls
/// of a thread that follow each other in a slot differ in that count. A note is never 0, because no
/// kind is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note(u64);

impl Note {
    pub(super) fn new(call: DiskCall, count: u64, file: u64) -> Self {
        let bits = |number: u64, bits: u32| number & ((1 << bits) - 1);
        let count = bits(count, COUNT_BITS) << FILE_BITS;
        let call = (call as u64) << (FILE_BITS + COUNT_BITS);
        Self(call | count | bits(file, FILE_BITS))
    }

    pub(super) fn call(self) -> DiskCall {
        match self.0 >> (FILE_BITS + COUNT_BITS) {
            kind if kind == DiskCall::Read as u64 => DiskCall::Read,
            kind if kind == DiskCall::Write as u64 => DiskCall::Write,
            _ => DiskCall::Sync,
        }
    }

    /// Returns the number of the file, for a lookup of its path in a list of [`Names`].
    fn file(self) -> u64 {
        self.0 & ((1 << FILE_BITS) - 1)
    }
}

/// The number of threads that have made a call.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The slot, in the table of calls under way, that this thread tries first, and the number of
    /// calls that this thread has made.
    static THREAD: (usize, Cell<u64>) = (THREADS.fetch_add(1, Ordering::Relaxed), Cell::new(0));
}

/// The calls under way on the disk of one database.
#[derive(Debug)]
pub(crate) struct DiskCalls {
    /// The slots of the table of calls under way. A slot has the bits of a [`Note`], which
    /// describes one call, or is 0 while it is free.
    slots: [CachePadded<AtomicU64>; SLOTS],
    /// The number that the last file got. A number is never used again.
    last_file: AtomicU64,
    /// The paths of the open files. The name of a file is in the list that its number chooses. No thread that
    /// opens or closes a file waits for one of these locks: the kernel may stop a thread of a job, which
    /// opens files as well, while it holds one.
    names: [Mutex<Names>; NAME_LISTS],
}

/// The paths of open files, and of some that are closed, by the numbers under which the notes mention
/// them. Each path belongs to its [`NotedFile`], so that a file is closed without a lock.
#[derive(Debug, Default)]
struct Names {
    paths: HashMap<u64, Weak<Path>>,
    /// The number of paths at which those of closed files are removed.
    clear_at: usize,
}

impl Names {
    fn add(&mut self, number: u64, path: &Arc<Path>) {
        if self.paths.len() >= self.clear_at {
            self.paths.retain(|_, path| path.strong_count() > 0);
            self.clear_at = 2 * self.paths.len() + CLOSED_MAX;
        }
        self.paths.insert(number, Arc::downgrade(path));
    }
}

impl DiskCalls {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slots: array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
            last_file: AtomicU64::new(0),
            names: array::from_fn(|_| Mutex::default()),
        })
    }

    /// Gives a file a number, which the notes of calls on the file contain. If all lists of names are
    /// locked, the file has no name, and a call on it that hangs is not reported.
    pub(super) fn file(self: &Arc<Self>, path: &Path) -> NotedFile {
        let path = Arc::<Path>::from(path);
        let mut number = 0;
        for _ in 0..NAME_LISTS {
            number = self.last_file.fetch_add(1, Ordering::Relaxed) + 1;
            if let Ok(mut names) = self.names_of(number).try_lock() {
                names.add(number, &path);
                break;
            }
        }
        NotedFile {
            calls: self.clone(),
            number,
            _path: path,
        }
    }

    fn names_of(&self, number: u64) -> &Mutex<Names> {
        &self.names[number as usize % NAME_LISTS]
    }

    /// Returns the calls under way, each as the index of its slot and its note.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (usize, Note)> {
        let notes = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        let taken = notes.enumerate().filter(|(_, note)| *note != 0);
        taken.map(|(slot, note)| (slot, Note(note)))
    }

    /// Returns the path of the file of a call; `None` if the call has ended meanwhile and the file
    /// is closed.
    pub(super) fn path(&self, note: Note) -> Option<PathBuf> {
        let names = self.names_of(note.file()).lock();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        let path = names.paths.get(&note.file())?.upgrade()?;
        Some(path.to_path_buf())
    }

    /// Notes a call in a free slot near the one that this thread tries first; the slot is free
    /// again once the result is dropped. `None` if the thread finds no free slot.
    fn note(&self, call: DiskCall, file: u64) -> Option<NotedCall<'_>> {
        let (first, count) = THREAD.with(|(first, calls)| {
            calls.set(calls.get().wrapping_add(1));
            (*first, calls.get())
        });
        let note = Note::new(call, count, file).0;
        let mut near = (0..TRIES).map(|nth| &*self.slots[first.wrapping_add(nth) % SLOTS]);
        let taken = near.find(|slot| {
            slot.load(Ordering::Relaxed) == 0
                && (slot.compare_exchange(0, note, Ordering::Relaxed, Ordering::Relaxed)).is_ok()
        });
        taken.map(NotedCall)
    }
}

/// The slot, in the table of calls under way, that has the note of a call. Dropping this frees the
/// slot.
struct NotedCall<'a>(&'a AtomicU64);

impl Drop for NotedCall<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A file whose calls are noted while they are under way. Its path is registered for the notes
/// until this is dropped.
#[derive(Debug)]
pub(super) struct NotedFile {
    calls: Arc<DiskCalls>,
    number: u64,
    /// Keeps the path for the list of names, which has a weak reference only.
    _path: Arc<Path>,
}

impl NotedFile {
    /// Makes a call on the file, with a note while it is under way.
    pub(super) fn noted<T>(&self, call: DiskCall, make: impl FnOnce() -> T) -> T {
        let _noted = self.calls.note(call, self.number);
        make()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ebb_test_support::wait::until;

    use super::*;

    fn under_way(calls: &DiskCalls) -> Vec<(DiskCall, PathBuf)> {
        let notes = calls.under_way().map(|(_, note)| note);
        let named = notes.map(|note| (note.call(), calls.path(note).unwrap()));
        named.collect()
    }

    #[test]
    fn a_call_is_noted_with_its_file_while_it_is_under_way() {
        let calls = DiskCalls::new();
        let [log, table] = ["wal-000001.log", "000002.sst"].map(|name| calls.file(name.as_ref()));
        assert!(under_way(&calls).is_empty());
        log.noted(DiskCall::Sync, || {
            table.noted(DiskCall::Read, || {
                let found = under_way(&calls);
                assert_eq!(found.len(), 2);
                assert!(found.contains(&(DiskCall::Sync, "wal-000001.log".into())));
                assert!(found.contains(&(DiskCall::Read, "000002.sst".into())));
            });
            assert_eq!(under_way(&calls).len(), 1);
        });
        assert!(under_way(&calls).is_empty());
    }

    #[test]
    fn equal_calls_that_follow_each_other_differ() {
        let calls = DiskCalls::new();
        let file = calls.file("f".as_ref());
        let call = || file.noted(DiskCall::Write, || calls.under_way().next().unwrap());
        assert_ne!(call(), call());
    }

    #[test]
    fn calls_beyond_the_slots_are_made_and_not_noted() {
        fn nested(file: &NotedFile, deeper: usize) -> usize {
            file.noted(DiskCall::Read, || match deeper {
                0 => file.calls.under_way().count(),
                deeper => nested(file, deeper - 1),
            })
        }
        let calls = DiskCalls::new();
        assert_eq!(nested(&calls.file("f".as_ref()), 2 * TRIES), TRIES);
        assert_eq!(calls.under_way().count(), 0);
    }

    #[test]
    fn closed_files_leave_few_names_behind() {
        let calls = DiskCalls::new();
        let open: Vec<_> = (0..1000).map(|_| calls.file("open".as_ref())).collect();
        for _ in 0..20_000 {
            drop(calls.file("closed".as_ref()));
        }
        let names = calls.names.iter().map(|names| names.lock().unwrap());
        let left: usize = names.map(|names| names.paths.len()).sum();
        let left_max = 2 * open.len() + NAME_LISTS * (CLOSED_MAX + 1);
        assert!(left <= left_max, "{left} names");
        for file in &open {
            file.noted(DiskCall::Read, || {
                assert_eq!(under_way(&calls), [(DiskCall::Read, "open".into())]);
            });
        }
    }

    /// Regression: while the kernel stopped a thread of a job that held the lock of the names, a commit
    /// could not open its segment of the log.
    #[test]
    fn no_thread_waits_for_the_names_to_open_or_close_a_file() {
        let calls = DiskCalls::new();
        let closed = calls.file("closed".as_ref());
        let held = calls.names_of(closed.number).lock().unwrap();
        let next = calls.names_of(closed.number + 1).lock().unwrap();
        let opening = calls.clone();
        let opened = std::thread::spawn(move || {
            drop(closed);
            let files: Vec<_> = (0..2 * NAME_LISTS)
                .map(|_| opening.file("open".as_ref()))
                .collect();
            files
        });
        until("the files to be open", || opened.is_finished());
        drop((held, next));
        for file in opened.join().unwrap() {
            file.noted(DiskCall::Sync, || {
                assert_eq!(under_way(&calls), [(DiskCall::Sync, "open".into())]);
            });
        }
        // A file without a name is read and written all the same.
        let all: Vec<_> = calls
            .names
            .iter()
            .map(|names| names.lock().unwrap())
            .collect();
        let nameless = calls.file("f".as_ref());
        drop(all);
        nameless.noted(DiskCall::Sync, || {
            let note = calls.under_way().next().unwrap().1;
            assert_eq!(calls.path(note), None);
        });
    }

    #[test]
    fn a_note_keeps_the_low_bits_of_the_count_and_of_the_file() {
        for call in [DiskCall::Read, DiskCall::Write, DiskCall::Sync] {
            let note = Note::new(call, u64::MAX, 7);
            assert_eq!((note.call(), note.file()), (call, 7));
            let note = Note::new(call, 0, u64::MAX);
            assert_eq!((note.call(), note.file()), (call, (1 << FILE_BITS) - 1));
        }
    }
}

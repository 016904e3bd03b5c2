//! The audit log of a database: logins and changes with their principals, as lines of JSON in the
//! file `audit.log` of its directory. Writes of rows, if they are noted, are in `audit-writes.log`.
//!
//! ```text
//!   change ─ begin ─> line `begun` ─> the change is made ─ end ─> line with the result ─> response
//!   login, write of rows ─ note ─> queue ─ thread `ebb-audit` ─> line
//! ```
//!
//! The entry of a change is written before the change is made, so that a crash hides no change. One
//! entry after the change would hide those that a crash follows, and a failed write would come too
//! late to stop the change. A change without a second entry has an unknown result. Entries survive
//! the end of the process, but are not synced: a loss of power may take the latest.
//!
//! A change whose entry cannot be written is not made. The file holds space back behind its end, so
//! that entries can be written on a full disk. Once that space is used up, changes that free
//! space are made without entries: otherwise the disk would stay full. (The reserve of the store is
//! no place for entries, because the operations that free space use it up.)
//!
//! Logins are queued, because the threads that serve clients must not wait for the disk. Refused
//! logins are bounded, and the next entry counts those that were left out: a client without
//! credentials could otherwise push everything else out of the kept files within seconds.
//!
//! Writes of rows have one entry, after the write, which waits in the queue. An entry before each write
//! would double the cost of a write, and a full disk would stop the load. Entries for which the queue has no
//! room, or that cannot be written, are dropped, counted and logged. They have a file and a queue of their
//! own: a load writes more in a minute than the files keep, and would push out everything else.
//!
//! | file | contents |
//! | --- | --- |
//! | `entry` | the contents of a line |
//! | `file` | the file, which several processes write |

mod entry;
mod file;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use ebb_jobs::Failure;
use ebb_jobs::history::now_unix_ms;
use serde::Serialize;

pub use self::entry::{Entry, EntryKind};
use self::entry::{REFUSED_TEXT_BYTES_MAX, TEXT_BYTES_MAX};
use self::file::{AuditFile, FILE_BYTES_MAX};
use crate::rates::Rates;

/// The name of the log file.
const FILE: &str = "audit.log";
/// The name of the log file of writes of rows.
const WRITES_FILE: &str = "audit-writes.log";
/// The greatest length of the queue of lines that wait to be written, in bytes.
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// The limits on entries about refused logins: how many at once, and how many per second in the
/// long run. In the worst case, the entries take 15 megabytes a day: names may consist of control
/// characters, which JSON shows as six bytes each. The same two limits apply to the lines of the
/// server's ordinary log that report that entries cannot be written.
const BOUND: (f64, f64) = (100.0, 0.1);

/// The audit log of a database, or that of its writes of rows.
#[derive(Debug)]
pub struct AuditLog {
    name: &'static str,
    /// The file of the log. Its lock is taken before that of the queue.
    file: Mutex<AuditFile>,
    /// Lines that wait to be written.
    queue: Mutex<Vec<u8>>,
    /// Wakes the thread that writes the queue; `None` in a process without that thread.
    wake: Option<SyncSender<()>>,
    last_id: AtomicU64,
    bounds: Rates<Bounded>,
    /// The number of refused logins without an entry since the last refused login that has one.
    left_out: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Bounded {
    Refusal,
    Loss,
}

/// A change under way, which has two entries. The first one was written before the change, unless the disk
/// was full; the second one will have the result. If this is dropped without a call of [`end`](Self::end),
/// the result is `panicked`, or `unknown` if the change was abandoned.
#[derive(Debug)]
#[must_use = "the result of the change needs an entry, too"]
pub struct Begun {
    log: Arc<AuditLog>,
    id: u64,
    has_ended: bool,
    /// The entry that [`end`](Self::end) writes. The caller may add facts that only the result of the change
    /// shows.
    pub entry: Entry,
}

impl Begun {
    /// Writes the entry with the result of the change. If that fails, the entry is counted as lost, and the
    /// failure is logged.
    pub fn end(mut self, result: &str) {
        self.has_ended = true;
        let line = line(self.id, &self.entry, result, 0);
        if let Err(error) = self.log.write(&line) {
            self.log.lose(1, &error);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let result = if thread::panicking() {
            "panicked"
        } else {
            "unknown"
        };
        // The thread of a dropped request must not wait for the disk.
        self.log.queue(&line(self.id, &self.entry, result, 0));
        if self.log.wake.is_none() {
            self.log.flush();
        }
    }
}

impl AuditLog {
    /// Returns the audit log of the database in `data`, for a process that only makes changes, such as a
    /// command. It has no thread for queued entries (those of logins and of writes of rows): the next entry
    /// of a change, or [`flush`](Self::flush), writes them.
    pub fn of(data: &Path) -> Self {
        Self::named(data, FILE)
    }

    fn named(data: &Path, name: &'static str) -> Self {
        Self {
            name,
            file: Mutex::new(AuditFile::new(data.join(name), FILE_BYTES_MAX)),
            queue: Mutex::default(),
            wake: None,
            // No other process has given the same ids, unless it made a thousand changes in each
            // millisecond.
            last_id: AtomicU64::new(now_unix_ms() << 10),
            bounds: Rates::new(BOUND.0, BOUND.1),
            left_out: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Returns the audit log of the database in `data`, with a thread that writes queued entries.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub fn start(data: &Path) -> io::Result<Arc<Self>> {
        Self::of(data).started()
    }

    /// Returns the audit log of writes of rows for the database in `data`, with a thread that writes queued
    /// entries.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub fn start_of_writes(data: &Path) -> io::Result<Arc<Self>> {
        Self::named(data, WRITES_FILE).started()
    }

    fn started(self) -> io::Result<Arc<Self>> {
        let (wake, woken) = sync_channel(1);
        let log = Arc::new(Self {
            wake: Some(wake),
            ..self
        });
        let weak = Arc::downgrade(&log);
        let write = move || {
            // An error means that the log was dropped.
            while woken.recv().is_ok() {
                if let Some(log) = weak.upgrade() {
                    log.flush();
                }
            }
        };
        let thread = thread::Builder::new().name("ebb-audit".to_owned());
        thread.spawn(write)?;
        Ok(log)
    }

    /// Writes the entry of a change that is about to be made.
    ///
    /// # Errors
    /// When the entry cannot be written, which is logged: the caller must not make the change. If the disk is
    /// full and `even_if_full` is set, as for a change that frees space, this succeeds without an entry; the
    /// lost entry is counted and logged.
    pub fn begin(self: &Arc<Self>, entry: Entry, even_if_full: bool) -> io::Result<Begun> {
        let entry = entry.shortened(TEXT_BYTES_MAX);
        let id = self.next_id();
        if let Err(error) = self.write(&line(id, &entry, "begun", 0)) {
            let is_made = even_if_full && Failure::of(&error) == Failure::DiskFull;
            self.lose(u64::from(is_made), &error);
            if !is_made {
                return Err(error);
            }
        }
        Ok(Begun {
            log: Arc::clone(self),
            id,
            has_ended: false,
            entry,
        })
    }

    /// Queues an entry about a login. Never waits for the disk; if too many entries are queued, this one is
    /// lost.
    pub fn note_login(&self, entry: Entry) {
        let entry = entry.shortened(TEXT_BYTES_MAX);
        self.queue(&line(self.next_id(), &entry, "done", 0));
    }

    /// Queues an entry about a write of rows, with its result. Never waits for the disk; if too many entries
    /// are queued, this one is lost.
    pub fn note_write(&self, entry: Entry, result: &str) {
        let entry = entry.shortened(TEXT_BYTES_MAX);
        self.queue(&line(self.next_id(), &entry, result, 0));
    }

    /// Queues an entry about a refused login, unless there were too many such logins lately. Never waits for
    /// the disk; if too many entries are queued, this one is lost.
    pub fn note_refusal(&self, entry: Entry) {
        if self.bounds.take(Bounded::Refusal, Instant::now()).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let entry = entry.shortened(REFUSED_TEXT_BYTES_MAX);
        self.queue(&line(self.next_id(), &entry, "refused", left_out));
    }

    /// Writes the queued lines to the file. If that fails, their entries are counted as lost, and the failure
    /// is logged.
    pub fn flush(&self) {
        self.write_queued(&mut lock(&self.file));
    }

    /// Returns the number of entries that are missing in the log, because they could not be written. A change
    /// that was refused because its first entry could not be written does not count: it was not made.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
        self.write_queued(&mut file);
        file.append(line)
    }

    fn write_queued(&self, file: &mut AuditFile) {
        let lines = std::mem::take(&mut *lock(&self.queue));
        if !lines.is_empty()
            && let Err(error) = file.append(&lines)
        {
            let entries = lines.iter().filter(|byte| **byte == b'\n').count();
            self.lose(entries as u64, &error);
        }
    }

    fn queue(&self, line: &[u8]) {
        let mut queue = lock(&self.queue);
        if queue.len() + line.len() > QUEUED_BYTES_MAX {
            drop(queue);
            return self.lose(1, &"more entries come than can be written");
        }
        queue.extend_from_slice(line);
        drop(queue);
        if let Some(wake) = &self.wake {
            // If it is full, the thread will find this line, too.
            let _ = wake.try_send(());
        }
    }

    /// Adds `lost` to the number of lost entries, and logs at a limited rate that entries cannot be written.
    /// `lost` is 0 if the change is not made because its entry cannot be written: then no change lacks an
    /// entry.
    fn lose(&self, lost: u64, cause: &dyn Display) {
        self.lost.fetch_add(lost, Ordering::Relaxed);
        if self.bounds.take(Bounded::Loss, Instant::now()).is_ok() {
            let (lost, name) = (self.lost(), self.name);
            tracing::error!(target: "server", lost, "{name} cannot be written: {cause}");
        }
    }
}

fn line(id: u64, entry: &Entry, result: &str, left_out: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        at_unix_ms: u64,
        id: u64,
        result: &'a str,
        #[serde(flatten)]
        entry: &'a Entry,
        /// The number of refused logins without an entry since the last refused login that has one; `None` if
        /// there are none.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u64>,
    }
    let line = Line {
        at_unix_ms: now_unix_ms(),
        id,
        result,
        entry,
        left_out: (left_out > 0).then_some(left_out),
    };
    let mut line = serde_json::to_vec(&line).expect("an entry has text keys only");
    line.push(b'\n');
    line
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

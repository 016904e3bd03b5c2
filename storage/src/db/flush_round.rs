//! A round of flushes: several threads write memtables of different tables, and the new runs are
//! installed together.
//!
//! ```text
//!   waiting ─► write_oldest, in each thread ─► written ─► install: one sync of each kind
//!      ▲                                                     │
//!      └──── the next memtable of the same table ◄───────────┘
//! ```
//!
//! The flush of a tiny table costs the sync of its file, and a share of the other syncs. Most of
//! the time a thread waits for the disk, so a second one helps on one processor too.
//!
//! Invariant: at most one memtable of a table at a time is being written or waits to be installed.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::flush::{Written, install, write_oldest};
use super::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::TableId;
use crate::sync::{Condvar, Mutex};

/// A round of flushes (of several tables) installs its runs once they come from this many
/// memtables, or have [`INSTALL_BYTES`] together, or no memtable waits to be written. The runs that
/// are installed together share the syncs of the installation.
const INSTALL_TABLES: usize = 64;
/// A round of flushes (of several tables) installs its runs once they have this many bytes
/// together: see [`INSTALL_TABLES`].
const INSTALL_BYTES: u64 = 4 << 20;

/// The round of flushes that is under way, if one is.
#[derive(Debug, Default)]
pub(super) struct FlushRound {
    inside: Mutex<Inside>,
    /// Notified when a thread leaves the round of flushes.
    left: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    is_open: bool,
    /// The number of threads that work on the round of flushes.
    working: usize,
    waiting: VecDeque<Arc<TableCore>>,
    /// Tables with a memtable that waits for its flush, is being written, or was written and is not
    /// installed yet.
    busy: HashSet<TableId>,
    written: Vec<Written>,
    failed: Option<Error>,
}

/// The work of one thread on a round of flushes (several threads write memtables together).
struct Worker<'a>(&'a Engine);

impl Engine {
    /// Flushes all frozen memtables, also those that are frozen meanwhile. The caller holds the
    /// lock `flushing`.
    ///
    /// # Errors
    /// The first failure of any thread that worked on the round of flushes.
    pub(super) fn flush_round(&self) -> Result<()> {
        let round = &self.flush_round;
        {
            let mut inside = round.inside.lock().unwrap();
            *inside = Inside {
                is_open: true,
                working: 1,
                ..Inside::default()
            };
        }
        Worker(self).work();
        let inside = round.inside.lock().unwrap();
        let is_worked_on = |inside: &mut Inside| inside.working > 0;
        let mut inside = round.left.wait_while(inside, is_worked_on).unwrap();
        inside.is_open = false;
        match inside.failed.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Works on the round of flushes that another thread has begun, if there is one with memtables
    /// left to write. That thread reports the outcome.
    pub(super) fn help_flush(&self) {
        let mut inside = self.flush_round.inside.lock().unwrap();
        if inside.is_open && !inside.waiting.is_empty() {
            inside.working += 1;
            drop(inside);
            Worker(self).work();
        }
    }
}

impl Worker<'_> {
    /// Writes and installs memtables until none is left for this thread, or the round of flushes
    /// has failed. At the end installs whatever is written and not installed yet.
    fn work(self) {
        while let Some(table) = self.next() {
            let outcome = write_oldest(self.0, &table);
            let batch = self.note(&table, outcome);
            self.install(batch);
        }
        let batch = std::mem::take(&mut self.lock().written);
        self.install(batch);
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Inside> {
        self.0.flush_round.inside.lock().unwrap()
    }

    /// Returns the next table with a memtable to write; `None` if there is none, or the round of
    /// flushes has failed. Requests another thread if more tables wait.
    fn next(&self) -> Option<Arc<TableCore>> {
        let mut inside = self.lock();
        if inside.failed.is_some() {
            return None;
        }
        if inside.waiting.is_empty() {
            drop(inside);
            let mut found = self.0.tables();
            found.retain(|table| !table.peek().frozen.is_empty());
            inside = self.lock();
            for table in found {
                if inside.busy.insert(table.id) {
                    inside.waiting.push_back(table);
                }
            }
        }
        let next = inside.waiting.pop_front();
        if !inside.waiting.is_empty() && inside.working < self.0.options.flush_threads {
            self.0.signal.help_flush();
        }
        next
    }

    /// Records the outcome of writing a memtable of `table`. Returns the written memtables that the
    /// caller must install: none until there are enough of them, or no memtable waits to be
    /// written.
    fn note(&self, table: &TableCore, outcome: Result<Option<Written>>) -> Vec<Written> {
        let mut inside = self.lock();
        match outcome {
            Ok(Some(written)) => inside.written.push(written),
            Ok(None) => {
                inside.busy.remove(&table.id);
            }
            Err(e) => {
                inside.failed.get_or_insert(e);
            }
        }
        let bytes: u64 = inside.written.iter().map(Written::bytes).sum();
        let is_due = inside.waiting.is_empty()
            || inside.written.len() >= INSTALL_TABLES
            || bytes >= INSTALL_BYTES;
        if is_due {
            std::mem::take(&mut inside.written)
        } else {
            Vec::new()
        }
    }

    fn install(&self, batch: Vec<Written>) {
        if batch.is_empty() {
            return;
        }
        let outcome = install(self.0, &batch);
        let mut inside = self.lock();
        match outcome {
            Ok(()) => {
                // A dropped table keeps its memtable, and is not written again in this round.
                for written in batch.iter().filter(|written| written.is_seen()) {
                    inside.busy.remove(&written.table());
                }
            }
            Err(e) => {
                inside.failed.get_or_insert(e);
            }
        }
        drop(inside);
        drop(batch);
        self.0.add_up_memtables();
        self.0.write_stall.work_ended();
        self.0.signal.compact();
    }
}

impl Drop for Worker<'_> {
    /// Leaves the round of flushes, also after a panic, so that the thread that has begun the round
    /// does not wait for ever.
    fn drop(&mut self) {
        let inside = self.0.flush_round.inside.lock();
        let mut inside = inside.unwrap_or_else(|poisoned| poisoned.into_inner());
        inside.working -= 1;
        self.0.flush_round.left.notify_all();
    }
}

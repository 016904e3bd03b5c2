//! Loom models of [`MemtableMemory`] with the stall at which writers wait for it: see
//! `loom_models`.

use std::time::Duration;

use super::*;
use crate::db::write_stall::{Admission, Backlog, WriteStall};
use crate::error::Result;
use crate::loom_models::{explore, spawn};

const BUDGET_BYTES: usize = 8;

/// A store with one frozen memtable, which takes the whole budget of all memtables.
struct Store {
    stall: WriteStall,
    memory: MemtableMemory,
    frozen_bytes: AtomicU64,
}

impl Store {
    fn new() -> Self {
        let store = Self {
            stall: WriteStall::new(1),
            memory: MemtableMemory::new(BUDGET_BYTES, 3),
            frozen_bytes: AtomicU64::new(BUDGET_BYTES as u64),
        };
        store.memory.add_up(|| Some(store.sizes()));
        store
    }

    fn sizes(&self) -> Vec<Sizes> {
        let frozen_bytes = self.frozen_bytes.load(Ordering::SeqCst);
        vec![Sizes {
            open_bytes: 0,
            frozen_bytes,
            frozen: usize::from(frozen_bytes > 0),
        }]
    }

    fn flush(&self) {
        self.frozen_bytes.store(0, Ordering::SeqCst);
        self.memory.add_up(|| Some(self.sizes()));
        self.stall.work_ended();
    }
}

impl Backlog for Store {
    fn look(&self) -> Result<Admission> {
        Ok(if self.memory.pressure() >= 1.0 {
            Admission::Stalled
        } else {
            Admission::Free
        })
    }

    /// Requests no flush: one is under way in another thread of the model.
    fn ask(&self) {}

    fn throttle_wait_max(&self) -> Duration {
        Duration::MAX
    }

    fn waits(&self, _: Admission) {}
}

/// Runs a writer that waits for memory beside a flush that frees all of it, and beside a thread
/// that calls `another`.
fn flush_beside(another: impl Fn(&Store) + Copy + Send + Sync + 'static) {
    explore(move || {
        let store = Arc::new(Store::new());
        let other = spawn(&store, another);
        let flusher = spawn(&store, Store::flush);
        store.stall.admit(&*store).map(drop).unwrap();
        other.join().unwrap();
        flusher.join().unwrap();
    });
}

/// A writer that waits for memory is admitted after the flush, also if another thread adds up the
/// sizes of the memtables meanwhile.
#[test]
fn loom_memory_that_was_flushed_lets_writers_pass() {
    for log_bytes in [0, 2 * LOOK_BYTES_MIN] {
        flush_beside(move |store| {
            let look = || Some(((), store.sizes()));
            drop(store.memory.add_up_if_due(log_bytes, look));
        });
    }
}

/// If the thread that adds up the memory loses its core, the other writers must not write without a
/// bound. So a writer that finds the sum long due waits for that thread, and then adds the memory
/// up itself.
#[test]
fn loom_a_writer_waits_where_the_sum_is_long_due() {
    explore(|| {
        let store = Arc::new(Store::new());
        let other = spawn(&store, |store| {
            store.memory.add_up(|| Some(store.sizes()));
        });
        let look = || Some(((), store.sizes()));
        let added_up = store.memory.add_up_if_due(2 * LOOK_BYTES_MIN, look);
        assert!(added_up.is_some());
        other.join().unwrap();
    });
}

/// Deliberate fault: a thread stores a sum from before the flush after the flushing thread stored
/// its own.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_memory_noted_without_the_lock_is_caught() {
    flush_beside(|store| store.memory.note(&store.sizes()));
}

//! The memory of all memtables of a database: one budget, however many tables there are.
//!
//! ```text
//!   0 ──────── 3/8 ─── 1/2 ─────────── 3/4 ─────────── 1   of the budget
//!              ▲ until │ open memtables  │ writers are    │ writers
//!              └───────┘ are frozen,     └─ throttled ────┘ stall
//!                        the largest first
//! ```
//!
//! The largest first, because a flush of few bytes costs about as much as one of many. (The write
//! buffer manager of RocksDB does the same.) Frozen memtables may take as much again while they
//! are flushed.
//!
//! Each time a small part of the budget was written to the log, one writer adds up the memory of
//! all memtables. A thread that has flushed does so too, before it wakes waiting writers. Other
//! writers wait for the thread that adds up only once a second such part was written meanwhile:
//! if that thread lost its core, they could write without a bound. To be admitted, a writer reads
//! one number. Flushed memtables that readers still hold do not count: a writer that waited for
//! them might wait for itself.

#[cfg(all(test, loom))]
mod loom_models;

use std::cmp::Reverse;
use std::sync::Arc;

use super::write_throttling::Limit;
use super::{Engine, TableCore};
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::TableVersion;

/// The memory of all memtables is added up again each time the log has grown by 1 / `LOOK_FRACTION`
/// of the budget, or by [`LOOK_BYTES_MIN`] if that is more. In between, writers may exceed the
/// budget by about as much, so the log may grow only by a small part of the budget.
const LOOK_FRACTION: u64 = 128;
const LOOK_BYTES_MIN: u64 = 64 << 10;

/// An open memtable is frozen for the sake of the budget only if it has at least the average size
/// of the open memtables divided by this number: the flush of a smaller one would gain next to
/// nothing.
const WORTH_FRACTION: u64 = 2;

/// The budget of all memtables, and their size when it was last added up.
#[derive(Debug)]
pub(super) struct MemtableMemory {
    budget_bytes: u64,
    /// If a table has this many frozen memtables, its open memtable is not frozen for the sake of
    /// the budget: one more frozen memtable would only hold up the writers of the table.
    frozen_max: usize,
    /// The bytes of all memtables when they were last added up, which decide how much writers are
    /// slowed. 0 if no memtable was frozen then: open memtables are not flushed, and writers would
    /// wait in vain.
    pressing_bytes: AtomicU64,
    /// Locked while the sizes of the memtables are read and their sum is stored, so that an older
    /// sum never replaces a newer one. Never held during an fsync, because writers wait for it.
    adding_up: Mutex<()>,
    /// The length of the log at which a writer adds the memory up again.
    look_at: AtomicU64,
}

/// The sizes of the memtables of a table, or of all tables.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    open_bytes: u64,
    frozen_bytes: u64,
    frozen: usize,
}

impl Sizes {
    fn of(version: &TableVersion) -> Self {
        let frozen = version.frozen.iter();
        Self {
            open_bytes: version.memtable.bytes() as u64,
            frozen_bytes: frozen.map(|memtable| memtable.bytes() as u64).sum(),
            frozen: version.frozen.len(),
        }
    }

    fn sum(tables: &[Self]) -> Self {
        tables.iter().fold(Self::default(), |sum, table| Self {
            open_bytes: sum.open_bytes + table.open_bytes,
            frozen_bytes: sum.frozen_bytes + table.frozen_bytes,
            frozen: sum.frozen + table.frozen,
        })
    }
}

impl MemtableMemory {
    /// Returns a budget for tables that may each have `frozen_memtables_max` frozen memtables.
    pub(super) fn new(budget_bytes: usize, frozen_memtables_max: usize) -> Self {
        Self {
            budget_bytes: budget_bytes as u64,
            frozen_max: frozen_memtables_max / 2 + 1,
            pressing_bytes: AtomicU64::new(0),
            adding_up: Mutex::default(),
            look_at: AtomicU64::new(0),
        }
    }

    /// Returns the pressure of the memory on all writers, from 0 (none) to 1 (writers wait until
    /// something is flushed).
    fn pressure(&self) -> f64 {
        let hard = self.budget_bytes as f64;
        let limit = Limit {
            soft: hard * 0.75,
            hard,
        };
        limit.pressure(self.pressing_bytes.load(Ordering::Relaxed) as f64)
    }

    /// Returns the positions in `tables` of the tables whose open memtables are to be frozen, the
    /// largest first. Returns none while all open memtables together take at most half of the
    /// budget. Otherwise returns as many as it takes to bring the open memtables down to 3/8 of the
    /// budget, but no table with a small open memtable ([`WORTH_FRACTION`]) or with `frozen_max`
    /// frozen ones.
    fn to_freeze(&self, tables: &[Sizes]) -> Vec<usize> {
        let open_bytes = Sizes::sum(tables).open_bytes;
        if open_bytes <= self.budget_bytes / 2 || mutation::is(Mutation::FreezeOnlyFullMemtables) {
            return Vec::new();
        }
        let worth_bytes = (open_bytes / tables.len() as u64 / WORTH_FRACTION).max(1);
        let is_worth_it = |&at: &usize| {
            let Sizes {
                open_bytes, frozen, ..
            } = tables[at];
            open_bytes >= worth_bytes && frozen < self.frozen_max
        };
        let mut order: Vec<_> = (0..tables.len()).filter(is_worth_it).collect();
        order.sort_by_key(|&at| Reverse(tables[at].open_bytes));
        let mut excess_bytes = open_bytes - self.budget_bytes / 8 * 3;
        let is_needed = |&at: &usize| {
            let is_needed = excess_bytes > 0;
            excess_bytes = excess_bytes.saturating_sub(tables[at].open_bytes);
            is_needed
        };
        order.into_iter().take_while(is_needed).collect()
    }

    fn step_bytes(&self) -> u64 {
        (self.budget_bytes / LOOK_FRACTION).max(LOOK_BYTES_MIN)
    }

    /// Returns whether the log, with `log_bytes` now, has grown enough for the memory of all
    /// memtables to be added up again.
    fn is_due(&self, log_bytes: u64) -> bool {
        log_bytes >= self.look_at.load(Ordering::Relaxed)
    }

    /// Adds up the sizes of memtables that `look` returns, and stores the sum. If another thread is
    /// adding up, waits for it first. Returns false if `look` returns `None`.
    fn add_up(&self, look: impl FnOnce() -> Option<Vec<Sizes>>) -> bool {
        let _one = self.adding_up.lock().unwrap();
        look().inspect(|sizes| self.note(sizes)).is_some()
    }

    /// Adds up the sizes that `look` returns, if enough has been written to the log since the last
    /// sum, and returns what `look` returned; `log_bytes` is the present size of the log. If
    /// another thread is adding up, this leaves the work to that thread, or waits for it if the sum
    /// is overdue. Returns `None` if no sum is due, if the work was left to the other thread, or if
    /// `look` returns `None`.
    fn add_up_if_due<T>(
        &self,
        log_bytes: u64,
        look: impl FnOnce() -> Option<(T, Vec<Sizes>)>,
    ) -> Option<(T, Vec<Sizes>)> {
        if !self.is_due(log_bytes) {
            return None;
        }
        let _one = if self.is_due(log_bytes.saturating_sub(self.step_bytes())) {
            self.adding_up.lock().unwrap()
        } else {
            self.adding_up.try_lock().ok()?
        };
        // Another thread may have done it meanwhile.
        if !self.is_due(log_bytes) {
            return None;
        }
        let (tables, sizes) = look()?;
        self.note(&sizes);
        let look_at = log_bytes + self.step_bytes();
        self.look_at.store(look_at, Ordering::Relaxed);
        Some((tables, sizes))
    }

    /// Stores the sum of the sizes of all tables' memtables; `adding_up` must have been locked
    /// before the sizes were read.
    fn note(&self, tables: &[Sizes]) {
        let all = Sizes::sum(tables);
        let pressing_bytes = match all.frozen {
            _ if mutation::is(Mutation::MemtablesBeyondBudget) => 0,
            0 => 0,
            _ => all.open_bytes + all.frozen_bytes,
        };
        self.pressing_bytes.store(pressing_bytes, Ordering::Relaxed);
    }
}

impl Engine {
    pub(super) fn memtable_budget_bytes(&self) -> u64 {
        self.memtable_memory.budget_bytes
    }

    /// Returns the pressure of the memory of all memtables on all writers, from 0 to 1. This costs
    /// one atomic load.
    pub(super) fn memory_pressure(&self) -> f64 {
        self.memtable_memory.pressure()
    }

    pub(super) fn memtable_bytes(&self) -> u64 {
        let all = Sizes::sum(&sizes_of(self.catalog.read().unwrap().tables()));
        all.open_bytes + all.frozen_bytes
    }

    /// Adds up the memory of all memtables. For threads that flush: it may wait for an fsync.
    pub(super) fn add_up_memtables(&self) {
        let look = || Some(sizes_of(self.catalog.try_read().ok()?.tables()));
        while !self.memtable_memory.add_up(look) {
            // Waits until the change of the catalog is done.
            drop(self.catalog.read().unwrap());
        }
    }

    /// Adds up the memory of all memtables after some of it was freed, and wakes the waiting
    /// writers, so that each checks again whether its write may go on. May wait for an fsync.
    pub(super) fn note_freed_memory(&self) {
        self.add_up_memtables();
        self.write_stall.look_again();
    }

    /// Called after each commit. If the memory of all memtables is due to be added up and is too
    /// large, freezes the largest open memtables. Returns true if it has frozen any, so that there
    /// is something to flush.
    pub(super) fn freeze_largest(&self) -> bool {
        let memory = &self.memtable_memory;
        // A change of the catalog holds the lock during an fsync, and no writer may wait for that.
        // The next commit tries again.
        let look = || {
            let catalog = self.catalog.try_read().ok()?;
            let tables: Vec<Arc<TableCore>> = catalog.tables().cloned().collect();
            drop(catalog);
            let sizes = sizes_of(&tables);
            Some((tables, sizes))
        };
        let Some((tables, sizes)) = memory.add_up_if_due(self.wal.written_bytes(), look) else {
            return false;
        };
        let mut has_frozen = false;
        for at in memory.to_freeze(&sizes) {
            has_frozen |= self.rotate(&tables[at], 0);
        }
        has_frozen
    }
}

fn sizes_of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableCore>>) -> Vec<Sizes> {
    let sizes = tables.into_iter().map(|table| Sizes::of(&table.peek()));
    sizes.collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn open(open_bytes: u64) -> Sizes {
        Sizes {
            open_bytes,
            ..Sizes::default()
        }
    }

    fn frozen(open_bytes: u64, frozen: usize) -> Sizes {
        Sizes {
            open_bytes,
            frozen_bytes: 100 * frozen as u64,
            frozen,
        }
    }

    #[test]
    fn the_largest_are_frozen_from_a_half_of_the_budget_down_to_three_eighths() {
        let memory = MemtableMemory::new(800, 3);
        for (tables, to_freeze) in [
            (vec![], vec![]),
            (vec![open(400)], vec![]),
            // One alone is larger than all may be.
            (vec![open(2000)], vec![0]),
            (vec![open(401)], vec![0]),
            (vec![open(100), open(301)], vec![1]),
            (vec![open(200), open(201), open(0)], vec![1]),
            (vec![open(90), open(150), open(160), open(100)], vec![2, 1]),
            // The small ones would not help, and those of the large one have to be flushed.
            (vec![open(10), open(10), frozen(500, 2)], vec![]),
            (vec![open(10), open(10), frozen(500, 1)], vec![2]),
            (vec![open(300), open(10), frozen(500, 2)], vec![0]),
        ] {
            assert_eq!(memory.to_freeze(&tables), to_freeze, "{tables:?}");
        }
        let impatient = MemtableMemory::new(800, 0);
        assert_eq!(impatient.to_freeze(&[frozen(500, 0)]), [0]);
        assert!(impatient.to_freeze(&[frozen(500, 1)]).is_empty());
    }

    /// Memtables are frozen until the open ones take at most 3/8 of the budget, whatever the number
    /// and the sizes of the tables.
    #[test]
    fn as_many_are_frozen_as_have_to_be() {
        let memory = MemtableMemory::new(1 << 20, 3);
        for tables in [1, 2, 7, 200, 10_000] {
            for power in [0, 1, 4] {
                let part = |i: u64| (i + 1).pow(power) as f64;
                let all: f64 = (0..tables).map(part).sum();
                let sizes: Vec<_> = (0..tables)
                    .map(|i| open((700_000.0 * part(i) / all) as u64))
                    .collect();
                let to_freeze = memory.to_freeze(&sizes);
                let freed: u64 = to_freeze.iter().map(|&at| sizes[at].open_bytes).sum();
                let left = Sizes::sum(&sizes).open_bytes - freed;
                assert!(left <= (1 << 20) / 8 * 3, "{left} of {tables}, {power}");
            }
        }
    }

    #[test]
    fn writers_are_slowed_from_three_quarters_of_the_budget_if_something_is_frozen() {
        let memory = MemtableMemory::new(800, 3);
        for (sizes, pressure) in [
            (open(5000), 0.0),
            (frozen(300, 3), 0.0),
            (frozen(400, 3), 0.5),
            (frozen(500, 3), 1.0),
            (frozen(5000, 1), 1.0),
            (open(0), 0.0),
        ] {
            assert!(memory.add_up(|| Some(vec![sizes])));
            assert_eq!(memory.pressure(), pressure, "{sizes:?}");
        }
    }

    #[test]
    fn the_memory_is_added_up_again_when_enough_was_written() {
        let memory = MemtableMemory::new(128 << 20, 3);
        let look = |log_bytes| {
            let look = || Some(((), vec![frozen(1, 1)]));
            memory.add_up_if_due(log_bytes, look).is_some()
        };
        assert!(memory.add_up_if_due::<()>(0, || None).is_none());
        assert!(look(0), "nothing was seen before");
        assert!(!look((1 << 20) - 1));
        assert!(look(1 << 20));
        assert!(!look(1 << 20));
        let held = memory.adding_up.lock().unwrap();
        assert!(!look((3 << 20) - 1), "another thread adds up");
        drop(held);
        assert!(look((3 << 20) - 1));
    }
}

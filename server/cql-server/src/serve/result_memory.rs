//! The memory of results that are written or wait for their clients, over all connections.
//!
//! The memory is counted in units. A scan takes a page of them when it begins, so that a queued scan
//! holds none, and more pages while its result grows. The result of another read takes none before
//! it is large.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::call::Interrupt;

/// The interval at which a thread that waits for a free page tries again without a notification,
/// and checks whether its request is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The unit in which memory is counted. It is smaller than a page, so that many results of less
/// than a page do not each take a page.
pub(super) const UNIT_BYTES: usize = 64 << 10;

/// The number of units in a page, the memory that a scan takes before it runs.
pub(super) const PAGE_UNITS: usize = 16;

/// The memory, counted in units, for all results that are written or wait for their clients.
///
/// Threads of scans, possibly in the kernel's idle class, wait for pages, and threads of
/// connections free them. A connection's thread takes no lock to free a page, because a thread of
/// the idle class may hold the lock while it has no core. So a notification may be lost, and a
/// waiting thread looks again every [`LOOK_EVERY`].
#[derive(Debug)]
pub(super) struct ResultPool {
    free_units: AtomicUsize,
    /// The number of units that are reserved for the first pages of results. Large results leave
    /// these units free for other clients, even if the clients of the large results do not read.
    /// Half of them are for scans alone: a scan waits until a whole page is free, and smaller
    /// results would take each unit before that.
    reserved_units: usize,
    sleeping: Mutex<()>,
    /// Wakes threads that wait for a free page of memory.
    freed: Condvar,
}

impl ResultPool {
    pub(super) fn new(pages: usize) -> Arc<Self> {
        Arc::new(Self {
            free_units: AtomicUsize::new(pages * PAGE_UNITS),
            reserved_units: pages / 4 * PAGE_UNITS,
            sleeping: Mutex::new(()),
            freed: Condvar::new(),
        })
    }

    /// Returns whether less than a page is free, besides what is reserved for the first pages of
    /// results.
    pub(super) fn is_short(&self) -> bool {
        self.free_units.load(Ordering::Relaxed) < self.reserved_units + PAGE_UNITS
    }

    /// Takes `units` units if at least `left` units stay free. Returns false, and takes none,
    /// otherwise.
    fn take(&self, units: usize, left: usize) -> bool {
        let enough = |free: usize| free.checked_sub(units).filter(|rest| *rest >= left);
        let order = Ordering::SeqCst;
        self.free_units.fetch_update(order, order, enough).is_ok()
    }

    fn give_back(&self, units: usize) {
        if units > 0 {
            self.free_units.fetch_add(units, Ordering::SeqCst);
            self.freed.notify_all();
        }
    }
}

/// The units of memory that one result has taken. Dropping this frees them.
#[derive(Debug)]
pub(super) struct ResultPages {
    pool: Arc<ResultPool>,
    units: Cell<usize>,
}

impl ResultPages {
    pub(super) fn none(pool: &Arc<ResultPool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            units: Cell::new(0),
        }
    }

    /// Takes a page for the result of a request, and waits until one is free. If the request ends
    /// meanwhile by `interrupt`, takes none: its client has an error already or is gone. Pages
    /// become free when a client reads its result, or is disconnected because it does not read.
    pub(super) fn wait_for_page(&mut self, interrupt: &Interrupt) {
        while !self.pool.take(PAGE_UNITS, 0) {
            if interrupt.is_over(Instant::now()) {
                return;
            }
            let sleeping = self.pool.sleeping.lock();
            let sleeping = sleeping.unwrap_or_else(PoisonError::into_inner);
            drop(self.pool.freed.wait_timeout(sleeping, LOOK_EVERY));
        }
        self.units.set(self.units.get() + PAGE_UNITS);
    }

    /// Takes free units, without waiting, until the result holds `units` of them. Returns false,
    /// and takes none, if too few are free.
    pub(super) fn try_grow(&self, units: usize) -> bool {
        let more = units.saturating_sub(self.units.get());
        let left = if units > PAGE_UNITS {
            self.pool.reserved_units
        } else {
            self.pool.reserved_units / 2
        };
        if more > 0 && !self.pool.take(more, left) {
            return false;
        }
        self.units.set(self.units.get() + more);
        true
    }

    /// Frees the units beyond the first `units`.
    pub(super) fn shrink(&self, units: usize) {
        let kept = self.units.get().min(units);
        self.pool.give_back(self.units.replace(kept) - kept);
    }
}

impl Drop for ResultPages {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::thread;

    use ebb_test_support::wait::HANG;

    use super::*;
    use crate::testing::never;

    #[test]
    fn a_result_takes_all_its_pages_or_none_and_frees_them() {
        let pool = ResultPool::new(8);
        let mut large = ResultPages::none(&pool);
        large.wait_for_page(&never());
        assert!(large.try_grow(5 * PAGE_UNITS));
        // The result has two pages already.
        assert!(large.try_grow(2 * PAGE_UNITS));
        let other = ResultPages::none(&pool);
        assert!(!other.try_grow(2 * PAGE_UNITS), "one of them is reserved");
        assert!(!pool.is_short(), "nothing was taken");
        assert!(other.try_grow(PAGE_UNITS));
        assert!(pool.is_short());
        drop(large);
        assert!(other.try_grow(6 * PAGE_UNITS));
        other.shrink(7 * PAGE_UNITS);
        other.shrink(PAGE_UNITS);
        assert!(ResultPages::none(&pool).try_grow(5 * PAGE_UNITS));
    }

    /// Regression: each result of 64 KiB counted as a page, so that a few hundred clients that read
    /// such results through slow networks took all memory, and others were refused.
    #[test]
    fn a_page_is_enough_for_many_small_results() {
        let pool = ResultPool::new(8);
        let small = (0..6 * PAGE_UNITS).map(|_| ResultPages::none(&pool));
        let small: Vec<_> = small.collect();
        assert!(small.iter().all(|small| small.try_grow(1)));
        assert!(pool.is_short());
        drop(small);
        assert!(!pool.is_short());
    }

    #[test]
    fn small_results_leave_pages_to_scans() {
        let pool = ResultPool::new(8);
        let small = (0..8 * PAGE_UNITS).map(|_| ResultPages::none(&pool));
        let small: Vec<_> = small.collect();
        let held = small.iter().filter(|small| small.try_grow(1)).count();
        assert_eq!(held, 7 * PAGE_UNITS);
        let mut scan = ResultPages::none(&pool);
        scan.wait_for_page(&never().stopped_by(Arc::new(AtomicBool::new(true))));
        assert_eq!(scan.units.get(), PAGE_UNITS);
    }

    /// Regression: a client that did not read a large result took the memory of all scans.
    #[test]
    fn a_large_result_leaves_pages_to_small_ones() {
        let pool = ResultPool::new(8);
        let large = ResultPages::none(&pool);
        assert!(!large.try_grow(7 * PAGE_UNITS));
        assert!(large.try_grow(6 * PAGE_UNITS));
        for _ in 0..2 {
            let mut small = ResultPages::none(&pool);
            small.wait_for_page(&never());
            assert_eq!(small.units.get(), PAGE_UNITS);
        }
    }

    #[test]
    fn a_freed_page_goes_to_a_waiting_thread() {
        let pool = ResultPool::new(1);
        let first = ResultPages::none(&pool);
        assert!(first.try_grow(PAGE_UNITS));
        let mut second = ResultPages::none(&pool);
        let waits = thread::spawn(move || {
            second.wait_for_page(&never());
            second.units.get()
        });
        drop(first);
        assert_eq!(waits.join().unwrap(), PAGE_UNITS);
    }

    #[test]
    fn a_wait_ends_at_the_deadline_without_a_page() {
        let pool = ResultPool::new(0);
        let mut pages = ResultPages::none(&pool);
        let now = Instant::now(); // clock: an interrupt begins at an instant
        pages.wait_for_page(&Interrupt::new(now, Duration::ZERO, Arc::default()));
        assert_eq!(pages.units.get(), 0);
    }

    /// Regression: a killed scan kept its thread until its timeout, and its user's next scan
    /// waited.
    #[test]
    fn a_wait_ends_when_the_request_is_stopped() {
        let mut pages = ResultPages::none(&ResultPool::new(0));
        let is_stopped = Arc::new(AtomicBool::default());
        let interrupt = never().stopped_by(is_stopped.clone());
        let (ends, ended) = channel();
        thread::spawn(move || {
            pages.wait_for_page(&interrupt);
            ends.send(pages.units.get())
        });
        is_stopped.store(true, Ordering::Relaxed);
        assert_eq!(ended.recv_timeout(HANG), Ok(0));
    }
}

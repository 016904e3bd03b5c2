//! The memory of results that wait for their clients, over all connections: of requests that ran on
//! other threads than that of their connection.
//!
//! The memory is counted in pages. A scan takes one page when it begins, so that a queued scan
//! holds none, and the other pages once the size of its result is known.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::call::Interrupt;

/// The interval at which a thread that waits for a free page tries again without a notification,
/// and checks whether its request is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The memory, counted in pages, for all results that wait for their clients.
///
/// Threads of scans, possibly in the kernel's idle class, wait for pages, and threads of
/// connections free them. A connection's thread takes no lock to free a page, because a thread of
/// the idle class may hold the lock while it has no core. So a notification may be lost, and a
/// waiting thread looks again every [`LOOK_EVERY`].
#[derive(Debug)]
pub(super) struct ResultPool {
    free_pages: AtomicUsize,
    /// The number of pages that are reserved for the first pages of results. Large results leave
    /// these pages free for other clients, even if the clients of the large results do not read.
    reserved_pages: usize,
    sleeping: Mutex<()>,
    /// Wakes threads that wait for a free page of memory.
    freed: Condvar,
}

impl ResultPool {
    pub(super) fn new(pages: usize) -> Arc<Self> {
        Arc::new(Self {
            free_pages: AtomicUsize::new(pages),
            reserved_pages: pages / 4,
            sleeping: Mutex::new(()),
            freed: Condvar::new(),
        })
    }

    /// Returns whether the only free pages are those reserved for the first pages of results.
    pub(super) fn is_short(&self) -> bool {
        self.free_pages.load(Ordering::Relaxed) <= self.reserved_pages
    }

    /// Takes `pages` pages if at least `left` pages stay free. Returns false, and takes none,
    /// otherwise.
    fn take(&self, pages: usize, left: usize) -> bool {
        let enough = |free: usize| free.checked_sub(pages).filter(|rest| *rest >= left);
        let order = Ordering::SeqCst;
        self.free_pages.fetch_update(order, order, enough).is_ok()
    }
}

/// The pages that one result has taken. Dropping this frees them.
#[derive(Debug)]
pub(super) struct ResultPages {
    pool: Arc<ResultPool>,
    pages: usize,
}

impl ResultPages {
    pub(super) fn none(pool: &Arc<ResultPool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            pages: 0,
        }
    }

    /// Takes a page for the result of a request, and waits until one is free. If the request ends
    /// meanwhile by `interrupt`, takes none: its client has an error already or is gone. Pages
    /// become free when a client reads its result, or is disconnected because it does not read.
    pub(super) fn wait_for_page(&mut self, interrupt: &Interrupt) {
        while !self.pool.take(1, 0) {
            if interrupt.is_over(Instant::now()) {
                return;
            }
            let sleeping = self.pool.sleeping.lock();
            let sleeping = sleeping.unwrap_or_else(PoisonError::into_inner);
            drop(self.pool.freed.wait_timeout(sleeping, LOOK_EVERY));
        }
        self.pages += 1;
    }

    /// Takes free pages, without waiting, until the result holds `pages` of them. Returns false,
    /// and takes none, if too few are free.
    pub(super) fn try_grow(&mut self, pages: usize) -> bool {
        let more = pages.saturating_sub(self.pages);
        let left = if pages > 1 {
            self.pool.reserved_pages
        } else {
            0
        };
        if more > 0 && !self.pool.take(more, left) {
            return false;
        }
        self.pages += more;
        true
    }
}

impl Drop for ResultPages {
    fn drop(&mut self) {
        if self.pages > 0 {
            self.pool.free_pages.fetch_add(self.pages, Ordering::SeqCst);
            self.pool.freed.notify_all();
        }
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
        assert!(large.try_grow(5));
        // The result has two pages already.
        assert!(large.try_grow(2));
        let mut other = ResultPages::none(&pool);
        assert!(!other.try_grow(2), "one of them is reserved");
        assert!(!pool.is_short(), "nothing was taken");
        assert!(other.try_grow(1));
        assert!(pool.is_short());
        drop(large);
        assert!(other.try_grow(6));
    }

    /// Regression: a client that did not read a large result took the memory of all scans.
    #[test]
    fn a_large_result_leaves_pages_to_small_ones() {
        let pool = ResultPool::new(8);
        let mut large = ResultPages::none(&pool);
        assert!(!large.try_grow(7));
        assert!(large.try_grow(6));
        for _ in 0..2 {
            let mut small = ResultPages::none(&pool);
            small.wait_for_page(&never());
            assert_eq!(small.pages, 1);
        }
    }

    #[test]
    fn a_freed_page_goes_to_a_waiting_thread() {
        let pool = ResultPool::new(1);
        let mut first = ResultPages::none(&pool);
        assert!(first.try_grow(1));
        let mut second = ResultPages::none(&pool);
        let waits = thread::spawn(move || {
            second.wait_for_page(&never());
            second.pages
        });
        drop(first);
        assert_eq!(waits.join().unwrap(), 1);
    }

    #[test]
    fn a_wait_ends_at_the_deadline_without_a_page() {
        let pool = ResultPool::new(0);
        let mut pages = ResultPages::none(&pool);
        let now = Instant::now(); // clock: an interrupt begins at an instant
        pages.wait_for_page(&Interrupt::new(now, Duration::ZERO, Arc::default()));
        assert_eq!(pages.pages, 0);
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
            ends.send(pages.pages)
        });
        is_stopped.store(true, Ordering::Relaxed);
        assert_eq!(ended.recv_timeout(HANG), Ok(0));
    }
}

//! The commit queue: sequence numbers are given in order, work is done
//! concurrently, results become visible in order.
//!
//! ```text
//!   enter ──► [order lock: numbers, WAL bytes pushed, memtables pinned]
//!     │
//!     ├─ write the WAL          (groups form: one writes for all that wait)
//!     ├─ insert into memtables  (concurrently)
//!     ▼
//!   publish ─► visible = the last number before which nothing is unfinished
//! ```
//!
//! Invariant: when `visible()` returns `S`, every operation numbered `<= S` is in its memtable (or
//! failed, and is in none), so a reader at `S` sees each batch whole or not at all. A commit
//! returns only once it is visible itself, so a writer reads its own writes.

use std::collections::VecDeque;
use std::convert::Infallible;

use crate::key::SeqNo;
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, spin_until};

/// Gives sequence numbers to commits, and makes the commits visible in order.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    order: Mutex<Order>,
    visible: AtomicU64,
    advanced: Condvar,
}

#[derive(Debug)]
struct Order {
    /// The sequence number that the next operation gets.
    next: SeqNo,
    /// Commits that entered and are not visible yet, oldest first.
    pending: VecDeque<Pending>,
    /// The number of commits that have left `pending` since the queue was created. It is also the
    /// [`Place`] of the first commit in `pending`.
    popped: u64,
    /// The number of threads that wait for `advanced`. Without this number, every commit would make
    /// a system call to wake no thread.
    waiting: usize,
}

#[derive(Debug)]
struct Pending {
    last: SeqNo,
    finished: bool,
}

/// The place of a commit in the order of commits: the number of commits that entered the queue
/// before it since the queue was created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place(u64);

/// The ticket of a commit that has got its sequence numbers. The commit has to be ended: with
/// [`Ticket::publish`], or with [`Ticket::was_finished`] if another thread finished it. If the
/// commit fails or panics, the drop of the ticket marks the commit as finished, so that later
/// commits do not wait for it. No operation in a memtable has the numbers of a failed commit.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    queue: &'a CommitQueue,
    place: Place,
    first: SeqNo,
    last: SeqNo,
}

impl CommitQueue {
    /// Returns a queue whose next number follows `last`.
    pub(crate) fn new(last: SeqNo) -> Self {
        Self {
            order: Mutex::new(Order {
                next: last.next(),
                pending: VecDeque::new(),
                popped: 0,
                waiting: 0,
            }),
            visible: AtomicU64::new(last.0),
            advanced: Condvar::new(),
        }
    }

    /// Takes `count` sequence numbers (at least 1) and a place in the order of commits. Returns the
    /// ticket for them and the result of `log`. `log` runs under the order lock with the first
    /// number: its effects (pushing the WAL record, pinning memtables, registering a snapshot)
    /// happen in commit order.
    pub(crate) fn enter<R>(&self, count: u64, log: impl FnOnce(SeqNo) -> R) -> (Ticket<'_>, R) {
        let entered = self.try_enter(count, |first| Ok::<_, Infallible>(log(first)));
        entered.unwrap_or_else(|never| match never {})
    }

    /// Like [`CommitQueue::enter`], but `log` may return an error (a transaction in conflict, a
    /// dropped table). The commit then gets no number, and `log` must have changed nothing.
    pub(crate) fn try_enter<R, E>(
        &self,
        count: u64,
        log: impl FnOnce(SeqNo) -> Result<R, E>,
    ) -> Result<(Ticket<'_>, R), E> {
        debug_assert!(count >= 1);
        let mut order = self.order.lock().unwrap();
        let first = order.next;
        let result = log(first)?;
        let last = SeqNo(first.0 + count - 1);
        order.next = last.next();
        let index = order.popped + order.pending.len() as u64;
        order.pending.push_back(Pending {
            last,
            finished: false,
        });
        if mutation::is(Mutation::VisibleAtEntry) {
            self.visible.store(last.0, Ordering::Release);
        }
        let ticket = Ticket {
            queue: self,
            place: Place(index),
            first,
            last,
        };
        Ok((ticket, result))
    }

    /// Calls `f` with the number that the next commit will take, under the order lock: no commit
    /// enters meanwhile. For steps that must lie between two commits, such as a switch of
    /// memtables.
    pub(crate) fn pause<R>(&self, f: impl FnOnce(SeqNo) -> R) -> R {
        let order = self.order.lock().unwrap();
        f(order.next)
    }

    /// Returns the largest number up to which every commit is finished: its operations are in their
    /// memtables, or it failed.
    pub(crate) fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Waits until every commit numbered `<= seq` is finished.
    pub(crate) fn wait_visible(&self, seq: SeqNo) {
        if self.visible() >= seq || spin_until(|| self.visible() >= seq) {
            return;
        }
        let mut order = self.order.lock().unwrap();
        order.waiting += 1;
        while self.visible() < seq {
            order = self.advanced.wait(order).unwrap();
        }
        order.waiting -= 1;
    }

    /// Marks these commits as finished: their operations are in their memtables, or the commits
    /// failed. Their tickets must then be ended with [`Ticket::was_finished`].
    pub(crate) fn finish(&self, places: impl IntoIterator<Item = Place>) {
        let mut order = self.order.lock().unwrap();
        let mut visible = None;
        for Place(index) in places {
            let at = (index - order.popped) as usize;
            order.pending[at].finished = true;
            if mutation::is(Mutation::PublishOutOfOrder) {
                visible = Some(order.pending[at].last);
            }
        }
        while order.pending.front().is_some_and(|front| front.finished) {
            visible = order.pending.pop_front().map(|front| front.last);
            order.popped += 1;
        }
        if let Some(last) = visible {
            self.visible.store(last.0, Ordering::Release);
            if order.waiting > 0 {
                self.advanced.notify_all();
            }
        }
    }
}

impl Ticket<'_> {
    pub(crate) fn first(&self) -> SeqNo {
        self.first
    }

    pub(crate) fn last(&self) -> SeqNo {
        self.last
    }

    /// Returns the commit's place in the order. By this place another thread can finish the commit.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Drops the ticket of a commit that another thread has finished.
    pub(crate) fn was_finished(self) {
        std::mem::forget(self);
    }

    /// Marks the commit as finished, and waits until its operations are visible. To be called once
    /// they are in their memtables.
    pub(crate) fn publish(self) {
        let (queue, last) = (self.queue, self.last);
        drop(self);
        if !mutation::is(Mutation::ReturnBeforeVisible) {
            queue.wait_visible(last);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.queue.finish([self.place]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_visible_in_order_though_finished_out_of_order() {
        let queue = CommitQueue::new(SeqNo(10));
        let (a, first_a) = queue.enter(2, |first| first);
        let (b, first_b) = queue.enter(1, |first| first);
        assert_eq!((first_a, first_b), (SeqNo(11), SeqNo(13)));
        drop(b);
        assert_eq!(queue.visible(), SeqNo(10));
        a.publish();
        assert_eq!(queue.visible(), SeqNo(13));
    }

    #[test]
    fn a_refused_commit_takes_no_number() {
        let queue = CommitQueue::new(SeqNo(10));
        let refused = queue.try_enter(2, |_| Err::<(), _>("no"));
        assert_eq!(refused.map(drop), Err("no"));
        queue
            .enter(1, |first| assert_eq!(first, SeqNo(11)))
            .0
            .publish();
        assert_eq!(queue.visible(), SeqNo(11));
    }
}

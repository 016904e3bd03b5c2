//! Visibility of commits: the commit queue.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{explore, spawn};
use crate::commit::CommitQueue;
use crate::key::SeqNo;

/// A commit queue, and the sequence numbers that were inserted into the memtable.
struct Commits {
    queue: CommitQueue,
    inserted: [AtomicBool; 7],
    /// The last sequence number of the batch that was inserted most recently, visible or not. Only
    /// the reader of a deliberate fault reads up to it.
    newest: AtomicU64,
}

impl Commits {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(0)),
            inserted: Default::default(),
            newest: AtomicU64::new(0),
        })
    }

    /// Commits a batch of two versions.
    fn write(&self) {
        let (ticket, first) = self.queue.enter(2, |first| first);
        for seq in [first, first.next()] {
            self.inserted[seq.0 as usize].store(true, Ordering::Relaxed);
        }
        self.newest.store(first.next().0, Ordering::Release);
        ticket.publish();
        assert!(self.queue.visible() >= first.next(), "reads its own writes");
    }

    fn assert_whole(&self, visible: u64) {
        assert!(visible.is_multiple_of(2), "half a batch is visible");
        for seq in 1..=visible as usize {
            let inserted = self.inserted[seq].load(Ordering::Relaxed);
            assert!(inserted, "{seq} of {visible} is visible and not there");
        }
    }
}

/// Although writers finish in any order, a reader at `visible()` finds all versions up to this
/// number.
#[test]
fn loom_a_reader_sees_each_batch_whole() {
    explore(|| {
        let commits = Commits::new();
        let writers = [(); 2].map(|()| spawn(&commits, Commits::write));
        commits.assert_whole(commits.queue.visible().0);
        for writer in writers {
            writer.join().unwrap();
        }
        commits.assert_whole(commits.queue.visible().0);
        assert_eq!(commits.queue.visible(), SeqNo(4));
    });
}

/// Deliberate fault: a writer makes its own number visible before older commits are done.
#[test]
#[should_panic(expected = "is visible and not there")]
fn loom_publishing_out_of_order_is_caught() {
    explore(|| {
        let commits = Commits::new();
        for _ in 0..2 {
            spawn(&commits, Commits::write);
        }
        commits.assert_whole(commits.newest.load(Ordering::Acquire));
    });
}

/// A commit that fails leaves the queue, and the commit behind it becomes visible.
#[test]
fn loom_an_abandoned_commit_delays_no_other() {
    explore(|| {
        let commits = Commits::new();
        let failing = spawn(&commits, |commits| drop(commits.queue.enter(2, |_| ())));
        let (ticket, last) = commits.queue.enter(1, |first| first);
        ticket.publish();
        assert!(commits.queue.visible() >= last);
        failing.join().unwrap();
        assert_eq!(commits.queue.visible(), SeqNo(3));
    });
}

/// Deliberate fault: a commit that fails keeps its place in the queue, so no later commit becomes
/// visible.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_place_kept_for_ever_is_caught() {
    explore(|| {
        let commits = Commits::new();
        let failing = spawn(&commits, |commits| {
            std::mem::forget(commits.queue.enter(2, |_| ()));
        });
        commits.queue.enter(1, |_| ()).0.publish();
        failing.join().unwrap();
    });
}

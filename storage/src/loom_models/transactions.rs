//! First committer wins, for transactions that begin and commit at the same time.

use std::sync::Arc;

use loom::sync::Mutex;

use super::{TABLE, explore, spawn};
use crate::commit::{Clash, CommitQueue, Conflicts, Pruned, WriteSet, table_key};
use crate::key::SeqNo;

/// A model of one key, with all versions that were ever written of it.
struct Register {
    queue: CommitQueue,
    conflicts: Conflicts,
    versions: Mutex<Vec<Version>>,
}

struct Version {
    seq: SeqNo,
    /// The version that the writing transaction had read; `None` for a plain write.
    read: Option<SeqNo>,
}

impl Register {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(0)),
            conflicts: Conflicts::new(),
            versions: Mutex::new(Vec::new()),
        })
    }

    fn write_set() -> WriteSet {
        WriteSet::of_keys([table_key(TABLE, b"x")])
    }

    fn write(&self) {
        let (ticket, pruned) = self.queue.enter(1, |seq| self.record(seq));
        drop(pruned);
        self.insert(ticket.first(), None);
        ticket.publish();
    }

    fn record(&self, seq: SeqNo) -> Option<Pruned> {
        let needed = self.conflicts.is_needed();
        needed.then(|| self.conflicts.record(seq, Self::write_set()))
    }

    fn insert(&self, seq: SeqNo, read: Option<SeqNo>) {
        self.versions.lock().unwrap().push(Version { seq, read });
    }

    fn begin(&self) -> SeqNo {
        let at = self.queue.pause(|next| {
            let last = SeqNo(next.0 - 1);
            self.conflicts.begin(last);
            last
        });
        self.queue.wait_visible(at);
        at
    }

    fn newest_at(&self, at: SeqNo) -> SeqNo {
        let versions = self.versions.lock().unwrap();
        let seqs = versions.iter().map(|version| version.seq);
        seqs.filter(|seq| *seq <= at).max().unwrap_or(SeqNo::ZERO)
    }

    /// Reads the key as of the sequence number `at`, at which the transaction began, and writes it.
    /// Returns whether the transaction committed; false if it was refused because of a conflict.
    fn update(&self, at: SeqNo) -> bool {
        let read = self.newest_at(at);
        let entered = self.queue.try_enter(1, |seq| {
            self.conflicts
                .check(at, &Self::write_set(), &WriteSet::default())?;
            Ok::<_, Clash>(self.record(seq))
        });
        let committed = entered.is_ok();
        if let Ok((ticket, pruned)) = entered {
            drop(pruned);
            self.insert(ticket.first(), Some(read));
            ticket.publish();
        }
        self.conflicts.end(at);
        committed
    }

    /// Asserts that each transaction that committed had read the version directly before its own.
    fn assert_nothing_lost(&self) {
        let mut versions = self.versions.lock().unwrap();
        versions.sort_by_key(|version| version.seq);
        let mut before = SeqNo::ZERO;
        for version in versions.iter() {
            let read = version.read.unwrap_or(before);
            assert_eq!(read, before, "the update at {before} is lost");
            before = version.seq;
        }
    }
}

/// Runs a plain write and two transactions on one key.
fn race(update: impl Fn(&Register) -> bool + Copy + Send + Sync + 'static) {
    explore(move || {
        let register = Register::new();
        let writer = spawn(&register, Register::write);
        let other = spawn(&register, update);
        update(&register);
        writer.join().unwrap();
        other.join().unwrap();
        register.assert_nothing_lost();
        assert!(!register.conflicts.is_needed(), "no transaction is left");
    });
}

/// No update is lost, and transactions that run one after the other all commit.
#[test]
fn loom_no_update_is_lost_among_transactions() {
    race(|register| register.update(register.begin()));
    explore(|| {
        let register = Register::new();
        assert!(register.update(register.begin()));
        assert!(register.update(register.begin()));
    });
}

/// Deliberate fault: a transaction first looks up the last visible commit, and registers only
/// afterwards. Commits in between do not record their keys for the check of conflicts.
#[test]
#[should_panic(expected = "is lost")]
fn loom_a_transaction_registered_behind_its_number_is_caught() {
    race(|register| {
        let at = register.queue.visible();
        register.conflicts.begin(at);
        register.update(at)
    });
}

/// Deliberate fault: a transaction begins at the last visible commit, not at the last numbered one.
/// A commit under way already has a greater number, but its keys were not recorded, because there
/// was no transaction yet.
#[test]
#[should_panic(expected = "is lost")]
fn loom_a_transaction_that_overlooks_commits_under_way_is_caught() {
    race(|register| {
        let at = register.queue.pause(|_| {
            let at = register.queue.visible();
            register.conflicts.begin(at);
            at
        });
        register.update(at)
    });
}

/// Deliberate fault: the transaction validates before it takes the order lock, so another commit
/// may come in between.
#[test]
#[should_panic(expected = "is lost")]
fn loom_a_validation_outside_of_the_order_lock_is_caught() {
    race(|register| {
        let at = register.begin();
        let read = register.newest_at(at);
        let write_set = Register::write_set();
        let checked = register
            .conflicts
            .check(at, &write_set, &WriteSet::default());
        let valid = checked.is_ok();
        if valid {
            let (ticket, pruned) = register.queue.enter(1, |seq| register.record(seq));
            drop(pruned);
            register.insert(ticket.first(), Some(read));
            ticket.publish();
        }
        register.conflicts.end(at);
        valid
    });
}

//! The switch to a new memtable, and the folding of operands, each beside writers.

use std::sync::Arc;

use super::{TABLE, explore, spawn};
use crate::commit::CommitQueue;
use crate::db::TableCore;
use crate::key::{FileNumber, Kind, ReadTime, SeqNo};
use crate::memtable::Memtable;
use crate::read::{MergeOperators, Merger};
use crate::snapshots::Lifetime;
use crate::version::{Lookup, TableVersion};

/// A model of a table's memtables: each commit writes one version of the same key.
struct Writes {
    queue: CommitQueue,
    table: Arc<TableCore>,
}

impl Writes {
    /// Returns the model after its first commit, number 1.
    fn new() -> Arc<Self> {
        let writes = Arc::new(Self {
            queue: CommitQueue::new(SeqNo(0)),
            table: TableCore::new(
                0,
                TABLE,
                ("app", "users"),
                Lifetime::default(),
                Default::default(),
                &MergeOperators::none(),
                TableVersion::new(Memtable::default(), Vec::new()),
            ),
        });
        writes.write();
        writes
    }

    fn pin(&self) -> Arc<Memtable> {
        let memtable = self.table.peek().memtable.clone();
        memtable.note_segment(FileNumber(1));
        memtable
    }

    /// Writes as the engine does: takes the open memtable under the same lock (the order lock) under
    /// which the commit gets its number.
    fn write(&self) {
        let (ticket, memtable) = self.queue.enter(1, |_| self.pin());
        memtable.insert(b"k", ticket.first(), Kind::Put, b"");
        drop(memtable);
        ticket.publish();
    }

    /// Switches to a new memtable, and reads the frozen memtable as a flush does.
    fn rotate_and_flush(&self) {
        let rotate = |next: SeqNo| {
            let end = SeqNo(next.0 - 1);
            self.table.update(|version| version.rotated(end));
            end
        };
        let end = self.queue.pause(rotate);
        self.queue.wait_visible(end);
        let frozen = self.table.version().frozen[0].clone();
        assert_eq!(frozen.end_seq(), Some(end));
        let seqs: Vec<_> = frozen.iter().map(|entry| entry.seq().0).collect();
        let expected: Vec<_> = (1..=end.0).rev().collect();
        assert_eq!(seqs, expected, "the frozen memtable is not what it says");
    }
}

fn switch_beside_writers(write: impl Fn(&Writes) + Copy + Send + Sync + 'static) {
    explore(move || {
        let writes = Writes::new();
        let writer = spawn(&writes, write);
        writes.rotate_and_flush();
        writer.join().unwrap();
        let version = writes.table.version();
        let all = version.memtable.len() + version.frozen[0].len();
        assert_eq!(all, 2, "a version is in no memtable");
    });
}

/// Once the last sequence number of a frozen memtable is visible, the memtable has every version up
/// to this number, and no version above it.
#[test]
fn loom_a_frozen_memtable_has_all_up_to_its_end() {
    switch_beside_writers(Writes::write);
}

/// Deliberate fault: a writer takes the memtable before its commit has a sequence number. If the
/// table switches to a new memtable in between, the commit gets a number above the last number of
/// the frozen memtable.
#[test]
#[should_panic(expected = "is not what it says")]
fn loom_a_memtable_pinned_before_the_order_lock_is_caught() {
    switch_beside_writers(|writes| {
        let memtable = writes.pin();
        let (ticket, ()) = writes.queue.enter(1, |_| ());
        memtable.insert(b"k", ticket.first(), Kind::Put, b"");
        ticket.publish();
    });
}

/// A table whose every commit is one operand, beside a reader that stores folded operands in the
/// memtable.
struct Operands {
    queue: CommitQueue,
    table: TableVersion,
    merger: Merger,
}

impl Operands {
    fn new() -> Arc<Self> {
        let operators = MergeOperators::default();
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(0)),
            table: TableVersion::new(Memtable::default(), Vec::new()),
            merger: Merger::new("app.users".into(), Some("append"), &operators),
        })
    }

    /// Commits an operand, and calls `meanwhile` before the commit is published.
    fn write(&self, meanwhile: impl FnOnce()) {
        let (ticket, ()) = self.queue.enter(1, |_| ());
        let seq = ticket.first();
        (self.table.memtable).insert(b"k", seq, Kind::Merge, &[seq.0 as u8]);
        meanwhile();
        ticket.publish();
    }

    fn read(&self, seq: SeqNo) -> Vec<u8> {
        let mut lookup = Lookup::new(b"k", ReadTime::At(0));
        let lookups = std::slice::from_mut(&mut lookup);
        self.table.get(lookups, seq, &self.merger, None).unwrap();
        let value = lookup.finish(&self.merger).unwrap();
        value.map_or(Vec::new(), |value| value.to_vec())
    }
}

fn folds_beside_a_writer(number: impl Fn(&Operands) -> SeqNo + Send + Sync + 'static) {
    explore(move || {
        let operands = Operands::new();
        operands.write(|| ());
        let writer = spawn(&operands, |operands| operands.write(|| ()));
        operands.write(|| drop(operands.read(number(&operands))));
        operands.read(operands.queue.visible());
        writer.join().unwrap();
        let all: Vec<_> = operands.read(operands.queue.visible());
        assert_eq!(all, [1, 2, 3], "an operand is not in the fold");
    });
}

/// A reader merges the operands that it sees, and stores the result (a fold) in the memtable,
/// beside a writer. A fold must be complete: no operand with a sequence number up to that of the
/// read may be inserted after it.
#[test]
fn loom_a_fold_has_all_that_it_stands_for() {
    folds_beside_a_writer(|operands| operands.queue.visible());
}

/// Deliberate fault: a reader merges operands, and stores the result (a fold) in the memtable,
/// although the operands of earlier commits are not in the memtable yet.
#[test]
#[should_panic(expected = "an operand is not in the fold")]
fn loom_a_fold_of_what_is_not_decided_is_caught() {
    folds_beside_a_writer(|_| SeqNo::MAX);
}

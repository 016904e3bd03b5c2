//! Flushes keep the versions that snapshots and views need, also those that are created meanwhile.

use std::sync::Arc;

use loom::sync::Mutex;

use super::{TABLE, explore, span, spawn};
use crate::commit::CommitQueue;
use crate::compaction::Retain;
use crate::key::{Boundaries, Kind, ReadPoint, SeqNo, Version};
use crate::read::{MergeOperators, Merger};
use crate::snapshots::{Bookmarks, CoveredTable, SnapshotOp, SnapshotRecord, SnapshotRegistry};

/// A model of one key of one table. Every write adds a version; `versions` stands for the memtable
/// and the runs together, which readers search.
struct OneKey {
    queue: CommitQueue,
    snapshots: SnapshotRegistry,
    versions: Mutex<Vec<SeqNo>>,
}

impl OneKey {
    /// Returns the model with version 1 of the key written.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(1)),
            snapshots: SnapshotRegistry::new(Bookmarks::default()),
            versions: Mutex::new(vec![SeqNo(1)]),
        })
    }

    fn write(&self) {
        let (ticket, seq) = self.queue.enter(1, |first| first);
        self.versions.lock().unwrap().push(seq);
        ticket.publish();
    }

    /// Returns the versions that a flush reads: waits until the last sequence number that was given
    /// to a commit is visible, and returns all versions up to this number.
    fn fix_input(&self) -> Vec<SeqNo> {
        let end = self.queue.pause(|next| SeqNo(next.0 - 1));
        self.queue.wait_visible(end);
        let mut input = self.versions.lock().unwrap().clone();
        input.retain(|seq| *seq <= end);
        input
    }

    /// Does the rest of a flush: drops the versions of `input` that no reader needs. Readers read at
    /// one of the `boundaries`, or above all of them.
    fn install(&self, input: &[SeqNo], boundaries: &Boundaries) {
        let mut kept: Vec<_> = input
            .iter()
            .map(|&seq| Version {
                seq,
                kind: Kind::Put,
                value: bytes::Bytes::new(),
            })
            .collect();
        kept.sort_by_key(|version| std::cmp::Reverse(version.seq));
        let merger = Merger::new("app.users".into(), None, &MergeOperators::none());
        let retain = Retain {
            boundaries,
            merger: &merger,
        };
        retain.versions(b"k", &mut kept, &[], true);
        let kept = |seq: &SeqNo| kept.iter().any(|version| version.seq == *seq);
        let mut versions = self.versions.lock().unwrap();
        versions.retain(|seq| !input.contains(seq) || kept(seq));
    }

    fn flush(&self) {
        let input = self.fix_input();
        self.install(&input, &self.snapshots.boundaries(span(), 0));
    }

    fn newest_at(&self, at: SeqNo) -> Option<SeqNo> {
        let versions = self.versions.lock().unwrap();
        versions.iter().copied().filter(|seq| *seq <= at).max()
    }
}

pub(super) fn record() -> SnapshotRecord {
    SnapshotRecord {
        table: Some(CoveredTable {
            id: TABLE,
            name: "users".into(),
        }),
        ..SnapshotRecord::example(1)
    }
}

/// Calls `act` while one thread writes the key and another one calls `flush`. When all three are
/// done, calls `look` with the result of `act`.
fn beside_a_write<T>(
    flush: impl Fn(&OneKey) + Copy + Send + Sync + 'static,
    act: impl Fn(&OneKey) -> T + Copy + Send + Sync + 'static,
    look: impl Fn(&OneKey, T) + Copy + Send + Sync + 'static,
) {
    explore(move || {
        let key = OneKey::new();
        let writer = spawn(&key, OneKey::write);
        let flush = spawn(&key, flush);
        let outcome = act(&key);
        writer.join().unwrap();
        flush.join().unwrap();
        look(&key, outcome);
    });
}

/// Creates a snapshot while a writer and a flush are under way, and checks that the version that
/// the snapshot sees is there afterwards.
fn snapshot_beside_a_flush(create: impl Fn(&OneKey) -> SeqNo + Copy + Send + Sync + 'static) {
    beside_a_write(OneKey::flush, create, |key, snapshot| {
        // The writer's version is 2 or 3, the snapshot's number the other.
        let expected = if snapshot == SeqNo(3) { 2 } else { 1 };
        assert_eq!(
            key.newest_at(snapshot),
            Some(SeqNo(expected)),
            "the version of the snapshot at {snapshot} is gone"
        );
    });
}

/// The versions that a snapshot sees exist when its creation returns, and stay, whatever runs at
/// the same time.
#[test]
fn loom_a_flush_keeps_what_a_snapshot_created_meanwhile_sees() {
    snapshot_beside_a_flush(|key| {
        let register = |seq| key.snapshots.apply(seq, SnapshotOp::Create(record()));
        let (ticket, ()) = key.queue.enter(1, register);
        let seq = ticket.first();
        ticket.publish();
        seq
    });
}

/// Deliberate fault: the number at which a snapshot reads (its bookmark) is registered only when
/// the commit that creates the snapshot is visible. A flush in between may drop versions of the
/// snapshot.
#[test]
#[should_panic(expected = "is gone")]
fn loom_a_bookmark_registered_after_the_order_lock_is_caught() {
    snapshot_beside_a_flush(|key| {
        let (ticket, ()) = key.queue.enter(1, |_| ());
        let seq = ticket.first();
        ticket.publish();
        key.snapshots.apply(seq, SnapshotOp::Create(record()));
        seq
    });
}

/// Takes a view (a reader at a fixed sequence number) while a writer and a flush are under way, and
/// checks at once that the version that the view sees is there.
fn view_beside_a_flush(
    register: impl Fn(&OneKey) -> ReadPoint + Copy + Send + Sync + 'static,
    flush: impl Fn(&OneKey) + Copy + Send + Sync + 'static,
) {
    let read = move |key: &OneKey| {
        let view = register(key);
        // Every number is a version of this key.
        let (found, at) = (key.newest_at(view.seq), view.seq);
        assert_eq!(found, Some(at), "the version at {at} is gone");
        key.snapshots.release_view(view);
    };
    beside_a_write(flush, read, |_, ()| ());
}

fn point(seq: SeqNo) -> ReadPoint {
    ReadPoint {
        seq,
        read_time_ms: 0,
    }
}

fn register_at_once(key: &OneKey) -> ReadPoint {
    key.snapshots.register_view(|| point(key.queue.visible()))
}

/// The versions that a view sees stay while it is registered.
#[test]
fn loom_a_flush_keeps_what_a_view_taken_meanwhile_sees() {
    view_beside_a_flush(register_at_once, OneKey::flush);
}

/// Deliberate fault: a view loads the visible number and registers it in two steps. A flush in
/// between drops versions that the view sees.
#[test]
#[should_panic(expected = "is gone")]
fn loom_a_view_loaded_then_registered_is_caught() {
    view_beside_a_flush(
        |key| {
            let seq = key.queue.visible();
            key.snapshots.register_view(|| point(seq))
        },
        OneKey::flush,
    );
}

/// Deliberate fault: a flush reads the boundaries (the sequence numbers at which readers read)
/// before it fixes its input. A view may begin in between.
#[test]
#[should_panic(expected = "is gone")]
fn loom_boundaries_read_before_the_input_is_fixed_are_caught() {
    view_beside_a_flush(register_at_once, |key| {
        let boundaries = key.snapshots.boundaries(span(), 0);
        let input = key.fix_input();
        key.install(&input, &boundaries);
    });
}

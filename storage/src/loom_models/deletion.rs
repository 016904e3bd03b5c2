//! The deletion of a snapshot beside a merge that no longer keeps the snapshot's versions.

use std::sync::Arc;

use super::counting_disk::{CountingDisk, log};
use super::snapshots::record;
use super::{explore, span, spawn};
use crate::commit::CommitQueue;
use crate::key::SeqNo;
use crate::snapshots::{Bookmarks, SnapshotOp, SnapshotRegistry};
use crate::wal::Wal;

/// A model of a database with one snapshot, whose deletion is recorded in `wal`.
struct Deletion {
    queue: CommitQueue,
    snapshots: SnapshotRegistry,
    wal: Wal,
    disk: CountingDisk,
}

impl Deletion {
    fn new() -> Arc<Self> {
        let disk = CountingDisk::default();
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        snapshots.apply(SeqNo(1), SnapshotOp::Create(record()));
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(1)),
            snapshots,
            wal: log(&disk, 1 << 20),
            disk,
        })
    }

    /// Deletes the snapshot by the engine's steps: first writes the record of the deletion to the
    /// log, and then unregisters the snapshot, so that its versions may be dropped.
    fn delete(&self) {
        let (ticket, lsn) = self.queue.enter(1, |seq| self.wal.push(seq, 1, b"delete"));
        self.wal.write_to(lsn).unwrap();
        self.snapshots.apply(ticket.first(), SnapshotOp::Delete(1));
        ticket.publish();
    }

    /// Takes the steps of a merge after it has chosen its input and before it edits the manifest:
    /// reads which snapshots need versions, then syncs the log.
    fn merge(&self) {
        let kept = self.snapshots.bookmark_seqs(span());
        self.wal.sync_all().unwrap();
        if kept.is_empty() {
            let synced = self.disk.total(|file| &file.synced);
            assert!(synced > 0, "a merge relies on a deletion that may be lost");
        }
    }
}

fn deletion_beside_a_merge(
    delete: impl Fn(&Deletion) + Copy + Send + Sync + 'static,
    merge: impl Fn(&Deletion) + Copy + Send + Sync + 'static,
) {
    explore(move || {
        let deletion = Deletion::new();
        let deleting = spawn(&deletion, delete);
        merge(&deletion);
        deleting.join().unwrap();
        assert!(deletion.snapshots.bookmark_seqs(span()).is_empty());
    });
}

/// Before a merge that drops the versions of a deleted snapshot becomes durable, the deletion of the
/// snapshot is durable.
#[test]
fn loom_a_merge_that_relies_on_a_deletion_makes_it_durable() {
    deletion_beside_a_merge(Deletion::delete, Deletion::merge);
}

/// Deliberate fault: a snapshot is removed from the registry before the record of its deletion is
/// put into the log.
#[test]
#[should_panic(expected = "may be lost")]
fn loom_a_bookmark_removed_before_its_record_is_pushed_is_caught() {
    deletion_beside_a_merge(
        |deletion| {
            let (ticket, lsn) = deletion.queue.enter(1, |seq| {
                deletion.snapshots.apply(seq, SnapshotOp::Delete(1));
                deletion.wal.push(seq, 1, b"delete")
            });
            deletion.wal.write_to(lsn).unwrap();
            ticket.publish();
        },
        Deletion::merge,
    );
}

/// Deliberate fault: the merge syncs the log first and reads the bookmarks afterwards.
#[test]
#[should_panic(expected = "may be lost")]
fn loom_bookmarks_read_after_the_sync_are_caught() {
    deletion_beside_a_merge(Deletion::delete, |deletion| {
        deletion.wal.sync_all().unwrap();
        if deletion.snapshots.bookmark_seqs(span()).is_empty() {
            let synced = deletion.disk.total(|file| &file.synced);
            assert!(synced > 0, "a merge relies on a deletion that may be lost");
        }
    });
}

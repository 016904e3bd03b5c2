//! Group commit: what an acknowledgement says.

use std::sync::Arc;

use loom::thread;

use super::counting_disk::{CountingDisk, log};
use super::explore;
use crate::commit::CommitQueue;
use crate::key::SeqNo;

/// Two commits, one of which is to be synced and the other only written.
fn group_commit(segment_bytes_max: u64, lies: bool) {
    explore(move || {
        let mut disk = CountingDisk::default();
        disk.lies = lies;
        let wal = log(&disk, segment_bytes_max);
        let log = Arc::new((CommitQueue::new(SeqNo(0)), wal, disk));
        let commit = |sync: bool| {
            let log = log.clone();
            move || {
                let (queue, wal, disk) = &*log;
                let (ticket, lsn) = queue.enter(1, |seq| wal.push(seq, 1, b"record"));
                if sync {
                    wal.sync_to(lsn).unwrap();
                    let synced = disk.total(|file| &file.synced);
                    assert!(synced >= lsn.0, "{} acknowledged, {synced} synced", lsn.0);
                } else {
                    wal.write_to(lsn).unwrap();
                    let written = disk.total(|file| &file.appended);
                    assert!(written >= lsn.0, "{} acknowledged, {written} there", lsn.0);
                }
                ticket.publish();
            }
        };
        let writer = thread::spawn(commit(false));
        let syncer = thread::spawn(commit(true));
        writer.join().unwrap();
        syncer.join().unwrap();
    });
}

/// Whoever is told that a record is written or synced finds it so, whoever did
/// the work.
#[test]
fn loom_a_group_commit_acknowledges_what_is_on_the_disk() {
    group_commit(1 << 20, false);
}

/// The same when each record closes the segment before it.
#[test]
fn loom_a_group_commit_over_segments_acknowledges_what_is_on_the_disk() {
    group_commit(1, false);
}

/// Broken: an fsync that only says so.
#[test]
#[should_panic(expected = "acknowledged")]
fn loom_an_acknowledgement_without_a_sync_is_caught() {
    group_commit(1 << 20, true);
}

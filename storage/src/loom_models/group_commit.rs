//! Group commit: the guarantees of an acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::thread;

use super::counting_disk::{CountingDisk, SEGMENT_HEADER_BYTES, log};
use super::explore;
use crate::commit::{CommitQueue, Groups, Place};
use crate::error::Error;
use crate::key::SeqNo;
use crate::wal::Position;

/// Runs two commits, one of which is to be synced and the other only written. With `lies`, an fsync
/// returns success without any effect.
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
                let (ticket, position) = queue.enter(1, |seq| wal.push(seq, 1, b"record"));
                let end = position.0;
                if sync {
                    wal.sync_to(position).unwrap();
                    let synced = disk.total(|file| &file.synced);
                    assert!(synced >= end, "{end} acknowledged, {synced} synced");
                } else {
                    wal.write_to(position).unwrap();
                    let written = disk.total(|file| &file.appended);
                    assert!(written >= end, "{end} acknowledged, {written} there");
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

/// A record acknowledged as written is written, and one acknowledged as synced is synced, whichever
/// thread did the work.
#[test]
fn loom_a_group_commit_acknowledges_what_is_on_the_disk() {
    group_commit(1 << 20, false);
}

/// In a log whose segments take one record each, a record acknowledged as written is written, and
/// one acknowledged as synced is synced.
#[test]
fn loom_a_group_commit_over_segments_acknowledges_what_is_on_the_disk() {
    group_commit(1, false);
}

/// Deliberate fault: an fsync that returns success without any effect.
#[test]
#[should_panic(expected = "acknowledged")]
fn loom_an_acknowledgement_without_a_sync_is_caught() {
    group_commit(1 << 20, true);
}

/// Runs three writers, each with a commit of two sequence numbers. They wait for the disk in
/// groups: while the first writer syncs, the other two may join one group. With `lies`, an fsync
/// returns success without any effect.
fn in_groups(lies: bool) {
    explore(move || {
        let mut disk = CountingDisk::default();
        disk.lies = lies;
        let wal = log(&disk, 1 << 20);
        let store = Arc::new((CommitQueue::new(SeqNo(0)), Groups::new(), wal, disk));
        let commit = || {
            let store = store.clone();
            move || {
                let (queue, groups, wal, disk) = &*store;
                let (ticket, position) = queue.enter(2, |seq| wal.push(seq, 2, b"record"));
                let (end, last) = (position.0, ticket.last());
                let seat = groups.join((position, ticket.place()));
                let sync = |members: Vec<(Position, Place)>| {
                    let (positions, places): (Vec<_>, Vec<_>) = members.into_iter().unzip();
                    (places, wal.sync_group(positions))
                };
                let finish = |(places, synced): (Vec<Place>, _)| {
                    queue.finish(places);
                    synced
                };
                groups.wait(seat, sync, finish).unwrap();
                ticket.was_finished();
                let synced = disk.total(|file| &file.synced);
                assert!(synced >= end, "{end} acknowledged, {synced} synced");
                queue.wait_visible(last);
                assert!(queue.visible() >= last);
            }
        };
        let writers = [thread::spawn(commit()), thread::spawn(commit())];
        commit()();
        for writer in writers {
            writer.join().unwrap();
        }
        let (queue, ..) = &*store;
        assert_eq!(queue.visible(), SeqNo(6), "a commit is left behind");
    });
}

/// Each writer of a group wakes, with its commit durable and visible, whichever thread leads.
#[test]
fn loom_a_leader_commits_for_its_group() {
    in_groups(false);
}

/// Deliberate fault: the leader's fsync returns success without any effect.
#[test]
#[should_panic(expected = "acknowledged")]
fn loom_a_leader_without_a_sync_is_caught() {
    in_groups(true);
}

const RECORD_HEADER_BYTES: u64 = 28;

/// Runs a large and a small commit at the same time, then a third one. At first, the disk has no
/// space for the large commit; if the log writes both together, the small one is refused, too. There
/// is space for the third. With `lies`, the truncation that should remove a refused record from the
/// log returns success without any effect (and so do syncs).
fn no_space(lies: bool) {
    explore(move || {
        let full = Arc::new(AtomicBool::new(true));
        let mut disk = CountingDisk::default();
        disk.lies = lies;
        disk.full = Some((SEGMENT_HEADER_BYTES as usize + 8, full.clone()));
        let wal = log(&disk, 1 << 20);
        let log = Arc::new((CommitQueue::new(SeqNo(0)), wal));
        // The bytes that an acknowledged commit has in the log.
        let commit = |payload: &'static [u8], sync: bool| {
            let log = log.clone();
            move || {
                let (queue, wal) = &*log;
                let (ticket, position) = queue.enter(1, |seq| wal.push(seq, 1, payload));
                let outcome = if sync {
                    wal.sync_to(position)
                } else {
                    wal.write_to(position)
                };
                match outcome {
                    Ok(()) => ticket.publish(),
                    Err(Error::DiskFull { .. }) => return 0,
                    Err(e) => panic!("{e}"),
                }
                RECORD_HEADER_BYTES + payload.len() as u64
            }
        };
        let large = thread::spawn(commit(b"a long record", true));
        let small = thread::spawn(commit(b"short", false));
        let (large, small) = (large.join().unwrap(), small.join().unwrap());
        assert_eq!(large, 0);
        full.store(false, Ordering::Relaxed);
        let last = commit(b"a long record", true)();
        assert!(last > 0, "there is space");
        let there = disk.total(|file| &file.appended);
        assert_eq!(
            there,
            small + last,
            "what is refused is there, or the rest is not"
        );
        assert_eq!(disk.total(|file| &file.synced), there);
    });
}

/// If there is no space for a record, nothing of it stays in the file, and the thread that pushed it
/// gets the error. An acknowledged record is in the file.
#[test]
fn loom_a_record_without_space_is_refused_and_others_are_written() {
    no_space(false);
}

/// Deliberate fault: the truncation that should remove a partly written record has no effect, so a
/// part of a refused commit stays in the file.
#[test]
#[should_panic(expected = "what is refused is there")]
fn loom_a_cut_without_effect_is_caught() {
    no_space(true);
}

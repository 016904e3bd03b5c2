use ebb_test_support::wait::until;

use super::*;
use crate::file_system::FileSystem;
use crate::files;
use crate::key::NUMBER_MAX;
use crate::simulation::{FaultOp, MemDisk};

const DIR: &str = "/db";

fn log(segment_bytes_max: u64) -> (MemDisk, Wal) {
    let mem = MemDisk::new();
    mem.create_dir_all(Path::new(DIR)).unwrap();
    let disk: Arc<dyn LogStore> = Arc::new(mem.clone());
    let (dir, next) = (Path::new(DIR), FileNumber(1));
    let wal = Wal::new(disk, dir, segment_bytes_max, Vec::new(), next, Lsn(0));
    (mem, wal)
}

/// Returns, for each record that a recovery finds, the sequence number of its first operation.
fn recovered(mem: &MemDisk) -> Vec<u64> {
    let all = FileNumber(1)..FileNumber(NUMBER_MAX);
    let segments = super::super::segments(mem, Path::new(DIR), all).unwrap();
    let (mut found, mut base) = (Vec::new(), None);
    for (i, segment) in segments.iter().enumerate() {
        let last = i + 1 == segments.len();
        let replayed = super::super::replay_segment(mem, segment, last, base, |first, _, _, _| {
            found.push(first.0);
            Ok(())
        });
        base = Some(replayed.unwrap().end);
    }
    found
}

/// Regression: after a failure there is no writer to empty the buffer, and each refused write left
/// its record there: retries filled the memory.
#[test]
fn after_a_failure_records_are_refused_and_not_kept() {
    let (mem, wal) = log(1 << 20);
    wal.sync_to(wal.push(SeqNo(1), 1, b"kept")).unwrap();
    mem.fail_next(FaultOp::Append, 1, std::io::ErrorKind::Other);
    for seq in 2..10 {
        let outcome = wal.write_to(wal.push(SeqNo(seq), 1, &[0; 1000]));
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })));
    }
    assert!(wal.buffer.lock().unwrap().bytes.is_empty());
    assert!(matches!(wal.sync_all(), Err(Error::ReadOnly { .. })));
}

/// Regression: a full disk was a failed write like any other: the database took no more writes
/// until it was opened again, however much space there was.
#[test]
fn a_record_without_space_is_refused_and_the_next_is_written() {
    for (segment_bytes_max, seed) in [(1 << 20, 1), (100, 2)] {
        let (mem, wal) = log(segment_bytes_max);
        let mut kept = Vec::new();
        for seq in 1..=40 {
            let full = seq % 4 >= 2;
            // Room for part of the record, or of a segment's header.
            let room = mem.used_bytes() + seq;
            mem.set_capacity_bytes(full.then_some(room));
            let position = wal.push(SeqNo(seq), 1, &[seq as u8; 50]);
            let behind = wal.push(SeqNo(seq + 100), 1, &[seq as u8; 50]);
            let sync = seq % 3 == 0;
            let outcome = if sync {
                wal.sync_to(position)
            } else {
                wal.write_to(position)
            };
            if full {
                assert!(matches!(outcome, Err(Error::DiskFull { .. })), "{seq}");
                let outcome = wal.write_to(behind);
                assert!(matches!(outcome, Err(Error::DiskFull { .. })), "{seq}");
                wal.sync_all().unwrap();
                assert!(mem.used_bytes() <= room);
            } else {
                outcome.unwrap();
                wal.write_to(behind).unwrap();
                kept.extend([seq, seq + 100]);
            }
            assert!(wal.progress.lock().unwrap().refused.is_empty());
            assert_eq!(recovered(&mem), kept);
        }
        assert!(wal.failure().is_none());
        let bytes = |number| {
            mem.file_len(files::wal(Path::new(DIR), number))
                .unwrap_or(0)
        };
        let on_disk: u64 = (1..200).map(|number| bytes(FileNumber(number))).sum();
        assert_eq!(wal.bytes(), on_disk);
        wal.sync_all().unwrap();
        mem.restart(seed);
        assert_eq!(recovered(&mem), kept);
    }
}

/// Every thread that waits for a refused record gets the error, even if the thread begins to wait only
/// after a later record was written.
#[test]
fn a_record_that_was_refused_stays_so_whatever_is_written_after_it() {
    let (mem, wal) = log(1 << 20);
    wal.write_to(wal.push(SeqNo(1), 1, b"before")).unwrap();
    mem.fail_next(FaultOp::Append, 1, std::io::ErrorKind::QuotaExceeded);
    let refused = [2, 3].map(|seq| wal.push(SeqNo(seq), 1, b"refused"));
    // Writes for all who wait; that nothing of theirs stays is no failure.
    wal.sync_all().unwrap();
    wal.sync_to(wal.push(SeqNo(4), 1, b"after")).unwrap();
    for position in refused {
        assert!(matches!(wal.sync_to(position), Err(Error::DiskFull { .. })));
    }
    assert_eq!(recovered(&mem), [1, 4]);
}

/// If cutting an unfinished record off the end of the log fails, it is unknown what is left of the
/// record, so the log accepts no more writes.
#[test]
fn a_cut_that_fails_is_a_failure_for_good() {
    let (mem, wal) = log(1 << 20);
    wal.write_to(wal.push(SeqNo(1), 1, b"before")).unwrap();
    mem.fail_next(FaultOp::Append, 1, std::io::ErrorKind::StorageFull);
    mem.fail_next(FaultOp::Truncate, 1, std::io::ErrorKind::Other);
    for seq in 2..4 {
        let outcome = wal.write_to(wal.push(SeqNo(seq), 1, b"refused"));
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })));
    }
}

/// Regression: a record was refused only if the append found no space. If another call that makes a
/// new segment found none, all writes stopped.
#[test]
fn a_record_whose_segment_finds_no_space_in_any_call_is_refused() {
    for (op, nth) in [
        (FaultOp::Create, 1),
        (FaultOp::Append, 1),
        // The first sync is that of the full segment.
        (FaultOp::Sync, 2),
        (FaultOp::SyncDir, 1),
    ] {
        let (mem, wal) = log(100);
        wal.sync_to(wal.push(SeqNo(1), 1, &[1; 100])).unwrap();
        mem.fail_next(op, nth, std::io::ErrorKind::StorageFull);
        let outcome = wal.sync_to(wal.push(SeqNo(2), 1, b"refused"));
        assert!(matches!(outcome, Err(Error::DiskFull { .. })), "{op:?}");
        wal.sync_to(wal.push(SeqNo(3), 1, b"kept")).unwrap();
        mem.restart(1);
        assert_eq!(recovered(&mem), [1, 3], "{op:?}");
    }
}

#[test]
fn a_header_that_fails_to_sync_ends_all_writes() {
    let (mem, wal) = log(100);
    wal.sync_to(wal.push(SeqNo(1), 1, &[1; 100])).unwrap();
    // The first sync is that of the full segment.
    mem.fail_next(FaultOp::Sync, 2, std::io::ErrorKind::Other);
    for seq in 2..4 {
        let outcome = wal.write_to(wal.push(SeqNo(seq), 1, b"refused"));
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })), "{seq}");
    }
    mem.restart(1);
    assert_eq!(recovered(&mem), [1]);
}

/// On a file system that copies on write, removing a file takes space, too.
#[test]
fn a_segment_that_finds_no_space_to_be_removed_is_removed_later() {
    let (mem, wal) = log(100);
    for seq in 1..=3 {
        wal.write_to(wal.push(SeqNo(seq), 1, &[0; 100])).unwrap();
    }
    let (floor, bytes) = (wal.newest_segment(), wal.bytes());
    mem.fail_next(FaultOp::Remove, 1, std::io::ErrorKind::StorageFull);
    let outcome = wal.delete_closed_below(floor);
    assert!(matches!(outcome, Err(Error::DiskFull { .. })));
    assert_eq!((wal.bytes(), wal.segments()), (bytes, 3));
    wal.delete_closed_below(floor).unwrap();
    assert_eq!(wal.segments(), 1);
    let left = mem.file_len(files::wal(Path::new(DIR), floor)).unwrap();
    assert_eq!(wal.bytes(), left);
}

/// Regression: after old segments were removed by hand, the database took no more writes when it came to
/// remove them itself.
#[test]
fn a_segment_that_was_removed_by_hand_counts_as_removed() {
    let (mem, wal) = log(100);
    for seq in 1..=3 {
        wal.write_to(wal.push(SeqNo(seq), 1, &[0; 100])).unwrap();
    }
    let floor = wal.newest_segment();
    mem.remove(&files::wal(Path::new(DIR), FileNumber(1)))
        .unwrap();
    wal.delete_closed_below(floor).unwrap();
    assert_eq!(wal.segments(), 1);
    let left = mem.file_len(files::wal(Path::new(DIR), floor)).unwrap();
    assert_eq!(wal.bytes(), left);
}

/// Regression: while a writer had the open segment, the last closed segment was reported as the
/// newest. During a backup, which keeps the closed ones, the number of the first needed segment
/// then became smaller than the one in the manifest: the edit did not fit the manifest's state, and
/// the thread that flushes panicked.
#[test]
fn the_newest_segment_is_the_one_that_a_writer_is_at_work_on() {
    let (_mem, wal) = log(100);
    for seq in 1..=3 {
        wal.write_to(wal.push(SeqNo(seq), 1, &[0; 100])).unwrap();
    }
    assert_eq!(wal.newest_segment(), FileNumber(3));
    let taken = wal.progress.lock().unwrap().segment.take();
    assert_eq!(wal.newest_segment(), FileNumber(3));
    wal.progress.lock().unwrap().segment = taken;
}

#[test]
fn a_sync_counts_once_for_all_it_serves_and_so_does_the_close_of_a_segment() {
    let (_mem, wal) = log(1000);
    let push = |seq, payload: &[u8]| wal.push(SeqNo(seq), 1, payload);
    let (first, second) = (push(1, b"a"), push(2, b"b"));
    wal.sync_to(second).unwrap();
    wal.sync_to(first).unwrap();
    assert_eq!(wal.syncs(), 1);
    let full = push(3, &[0; 1000]);
    wal.write_to(full).unwrap();
    assert_eq!(wal.syncs(), 1);
    let next = push(4, b"c");
    wal.write_to(next).unwrap();
    assert_eq!(wal.syncs(), 2, "the first segment was closed");
    wal.sync_all().unwrap();
    assert_eq!(wal.syncs(), 3);
}

/// Ends the pretended sync when it is dropped, also by a panic, so that no writer goes on waiting.
struct EndSyncOnDrop<'a>(&'a Wal);

impl Drop for EndSyncOnDrop<'_> {
    fn drop(&mut self) {
        let progress = self.0.progress.lock();
        progress.unwrap_or_else(|e| e.into_inner()).syncing = false;
        self.0.progressed.notify_all();
    }
}

/// Regression: a writer waited for the sync of a full segment to close it. The sync failed, and the
/// writer synced the segment again. The system then reports success, because it takes the lost
/// pages for clean. So the record of a thread that still waited for the first sync was acknowledged
/// as durable, and the writer began the next segment. A crash then left a hole in a segment that
/// was not the last one. Such a hole is no torn tail, so the database did not open.
#[test]
fn a_segment_whose_sync_failed_is_not_closed() {
    let (mem, wal) = log(100);
    wal.write_to(wal.push(SeqNo(1), 1, &[0; 100])).unwrap();
    wal.progress.lock().unwrap().syncing = true;
    std::thread::scope(|scope| {
        let _end = EndSyncOnDrop(&wal);
        let writer = scope.spawn(|| wal.write_to(wal.push(SeqNo(2), 1, b"behind")));
        until("the writer to begin", || {
            wal.progress.lock().unwrap().writing
        });
        let mut progress = wal.progress.lock().unwrap();
        progress.syncing = false;
        wal.fail(&mut progress, "fsync of the WAL failed");
        drop(progress);
        wal.progressed.notify_all();
        let outcome = writer.join().unwrap();
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })));
    });
    assert_eq!(wal.progress.lock().unwrap().durable.pushed, 0);
    assert_eq!(wal.segments(), 1);
    let next = files::wal(Path::new(DIR), FileNumber(2));
    assert!(!mem.exists(&next).unwrap());
}

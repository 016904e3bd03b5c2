//! One test for each trap of the architecture that applies: each opens with the failure of a
//! design that ignores the trap.

#[path = "traps/files.rs"]
mod files;
#[path = "traps/manifest.rs"]
mod manifest;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::one_table::{get, text};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Bounding, Db, Durability, Error, FileSystem, Keyspace, Maintenance, Options, SeqNo, Table,
    TableOptions, TieredPicker, WriteBatch, WriteOptions,
};

/// Options of a database that flushes and merges only on request, or when a write fills a memtable or
/// the log, and that syncs the log only for flushes, merges, and writes that require it.
fn options(mem: &MemDisk) -> Options {
    Options {
        durability: Durability::Os,
        memtable_bytes: 1 << 20,
        ..manual(mem)
    }
}

fn open(mem: &MemDisk) -> (Db, Keyspace, Table) {
    open_with(options(mem))
}

fn open_with(options: Options) -> (Db, Keyspace, Table) {
    one_table::open(options, TableOptions::default())
}

fn get_in(keyspace: &Keyspace, snapshot: &str, key: &str) -> Option<String> {
    let table = keyspace.snapshot(snapshot).unwrap().table("users").unwrap();
    text(table.get(key.as_bytes()).unwrap())
}

fn names(keyspace: &Keyspace) -> Vec<String> {
    let snapshots = keyspace.snapshots().into_iter();
    snapshots.map(|snapshot| snapshot.name).collect()
}

/// A flush puts a snapshot into the manifest. The power fails, and the unsynced part of the log is
/// lost. A database that continued the sequence numbers from the end of its log would use numbers
/// again that the snapshot sees, so the next write would appear in the snapshot.
#[test]
fn sequence_reuse_a_write_after_a_crash_does_not_slip_into_a_snapshot() {
    for seed in 0..50 {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        table.put(b"k", b"old").unwrap();
        keyspace.create_snapshot("s").unwrap();
        db.flush().unwrap();
        let snapshot_seq = keyspace.snapshots()[0].seq;
        for _ in 0..20 {
            table.put(b"k", b"lost with the log").unwrap();
        }
        lose_power(&mem, (db, keyspace, table), seed);
        // The whole log may be lost, as long as no edit needs it.
        let (db, keyspace, table) = open(&mem);
        assert!(db.view().seq() >= snapshot_seq);
        table.put(b"k", b"new").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(get_in(&keyspace, "s", "k").as_deref(), Some("old"));
        assert_eq!(get(&table, "k").as_deref(), Some("new"));
    }
}

/// After a snapshot and its files are in the manifest, the end of the log is damaged, in a way that
/// looks like a write that a crash interrupted. A database that continued the sequence numbers from
/// the end of the remaining log would use the snapshot's numbers again.
#[test]
fn sequence_reuse_a_write_after_the_log_is_cut_does_not_slip_into_a_snapshot() {
    for cut in 0.. {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        for value in ["oldest", "older", "old"] {
            table.put(b"k", value.as_bytes()).unwrap();
        }
        keyspace.create_snapshot("s").unwrap();
        db.flush().unwrap();
        drop((db, keyspace, table));
        let log = files(&mem, ".log").pop().unwrap();
        let len = mem.file_len(&log).unwrap();
        if cut == len {
            break;
        }
        mem.cut(&log, cut).unwrap();

        let (db, keyspace, table) = open(&mem);
        assert!(db.view().seq() >= keyspace.snapshots()[0].seq);
        for value in ["new", "newer", "newest"] {
            table.put(b"k", value.as_bytes()).unwrap();
            assert_eq!(get(&table, "k").as_deref(), Some(value));
        }
        assert_eq!(get_in(&keyspace, "s", "k").as_deref(), Some("old"));
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(get(&table, "k").as_deref(), Some("newest"));
        assert_eq!(get_in(&keyspace, "s", "k").as_deref(), Some("old"));
    }
}

/// A merge records the current snapshots in the manifest. If the log could then still lose writes
/// before a recorded snapshot, the snapshot would show less than when it was created; so these
/// writes must be durable first.
#[test]
fn sequence_reuse_a_bookmark_is_never_more_durable_than_the_writes_below_it() {
    for seed in 0..50 {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        for value in ["1", "2"] {
            table.put(b"other", value.as_bytes()).unwrap();
            db.flush().unwrap();
        }
        table.put(b"k", b"below").unwrap();
        keyspace.create_snapshot("s").unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().compactions, 1);
        lose_power(&mem, (db, keyspace, table), seed);
        let (_db, keyspace, _table) = open(&mem);
        if names(&keyspace) == ["s"] {
            assert_eq!(get_in(&keyspace, "s", "k").as_deref(), Some("below"));
        }
    }
}

/// A snapshot is created and deleted, and both records are in the log. A merge drops the versions
/// that only the snapshot could see. Then the end of the log, with the deletion, is lost. A replay
/// of the creation would bring back a snapshot without its content.
#[test]
fn resurrection_replay_does_not_revive_a_deleted_snapshot() {
    for (crash, bounding) in [(false, Bounding::Preferred), (true, Bounding::Off)] {
        for seed in 0..20 {
            let mem = MemDisk::new();
            let with = |mem: &MemDisk| {
                let compaction = TieredPicker {
                    bounding,
                    ..TieredPicker::default()
                }
                .into();
                open_with(Options {
                    compaction,
                    wal_segment_bytes: 200,
                    ..options(mem)
                })
            };
            let (db, keyspace, table) = with(&mem);
            table.put(b"k", b"1").unwrap();
            keyspace.create_snapshot("s").unwrap();
            // Holds on to the log, so that the creation stays in it.
            let quiet = keyspace.table("quiet", TableOptions::default()).unwrap();
            quiet.put(b"q", b"q").unwrap();
            table.put(b"k", b"2").unwrap();
            keyspace.delete_snapshot("s").unwrap();
            for round in 0..4 {
                table.put(b"k", format!("{round}").as_bytes()).unwrap();
                // Of all tables; the quiet one gets something new each time.
                db.flush().unwrap();
                quiet.put(b"q", b"q").unwrap();
            }
            db.compact().unwrap();
            assert_eq!(db.stats().tables[1].versions, 1);
            let handles = (db, keyspace, table, quiet);
            if crash {
                lose_power(&mem, handles, seed);
            } else {
                drop(handles);
            }
            let (_db, keyspace, table) = with(&mem);
            assert_eq!(names(&keyspace), [""; 0]);
            assert_eq!(get(&table, "k").as_deref(), Some("3"));
        }
    }
}

/// A merge drops versions that only a deleted snapshot could see. If the merge were durable before
/// the deletion, a crash would bring back the name of the snapshot without its content.
#[test]
fn resurrection_a_merge_makes_the_deletion_that_it_relies_on_durable() {
    for seed in 0..50 {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        table.put(b"k", b"1").unwrap();
        db.flush().unwrap();
        keyspace.create_snapshot("s").unwrap();
        table.put(b"k", b"2").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        keyspace.delete_snapshot("s").unwrap();
        let merges = db.stats().compactions;
        db.compact().unwrap();
        assert_eq!(db.stats().compactions, merges + 1);
        lose_power(&mem, (db, keyspace, table), seed);
        let (_db, keyspace, table) = open(&mem);
        assert_eq!(names(&keyspace), [""; 0]);
        assert_eq!(get(&table, "k").as_deref(), Some("2"));
    }
}

/// Two snapshots with nothing written between them keep the same versions. If the kept
/// versions belonged to one of them, deleting it would take the other's.
#[test]
fn shared_s_deleting_one_of_two_snapshots_of_the_same_content_keeps_the_other() {
    for deleted in ["a", "b"] {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        table.put(b"k", b"old").unwrap();
        keyspace.create_snapshot("a").unwrap();
        create_table_snapshot(&keyspace, "b", "users").unwrap();
        table.put(b"k", b"new").unwrap();
        db.flush().unwrap();
        keyspace.delete_snapshot(deleted).unwrap();
        table.put(b"k", b"newer").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        let kept = if deleted == "a" { "b" } else { "a" };
        assert_eq!(names(&keyspace), [kept]);
        assert_eq!(get_in(&keyspace, kept, "k").as_deref(), Some("old"));
        drop((db, keyspace, table));
        let (_db, keyspace, _table) = open(&mem);
        assert_eq!(get_in(&keyspace, kept, "k").as_deref(), Some("old"));
    }
}

/// The list of runs is in the order of age, and not of file numbers: the output of a merge takes
/// the place of its inputs, though its number is newer. Memtables are flushed in the order of age,
/// too. Otherwise reads would return an old value.
#[test]
fn order_the_newest_value_counts_wherever_merges_put_it() {
    let mem = MemDisk::new();
    let with_memtables_of = |bytes| {
        open_with(Options {
            memtable_bytes: bytes,
            frozen_memtables_max: 1,
            ..options(&mem)
        })
    };
    let (db, keyspace, table) = with_memtables_of(1 << 20);
    let mut expected = 0;
    for round in 0..30 {
        for _ in 0..20 {
            expected += 1;
            let value = format!("{expected:0300}");
            table.put(b"k", value.as_bytes()).unwrap();
            table.put(format!("k{expected}").as_bytes(), b"").unwrap();
        }
        if round % 4 == 0 {
            keyspace.create_snapshot(&format!("s{round}")).unwrap();
        }
        db.flush().unwrap();
        if round % 3 == 0 {
            db.compact().unwrap();
        }
        assert_eq!(get(&table, "k"), Some(format!("{expected:0300}")));
    }
    // Left to the log, and replayed into many memtables at once.
    for _ in 0..100 {
        expected += 1;
        let value = format!("{expected:0300}");
        table.put(b"k", value.as_bytes()).unwrap();
    }
    drop((db, keyspace, table));
    let (db, _keyspace, table) = with_memtables_of(2000);
    assert!(db.stats().tables[0].frozen_memtables > 3);
    assert_eq!(get(&table, "k"), Some(format!("{expected:0300}")));
    db.flush().unwrap();
    assert_eq!(get(&table, "k"), Some(format!("{expected:0300}")));
    db.compact().unwrap();
    assert_eq!(get(&table, "k"), Some(format!("{expected:0300}")));
}

/// If a merge drops a tombstone while an older run still has the key, the deleted value comes back.
/// If no merge ever drops it, it takes space for ever.
#[test]
fn tombstones_stay_while_an_older_run_has_the_key_and_go_in_the_end() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(&mem);
    // An old run, too large to be merged with what follows.
    table.put(b"k", b"old").unwrap();
    for i in 0..300 {
        let value: Vec<u8> = (0..200_u32).map(|j| (i * 251 + j * j) as u8).collect();
        table.put(format!("pad{i:03}").as_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    table.delete(b"k").unwrap();
    db.flush().unwrap();
    for i in 0..6 {
        table.put(format!("other{i}").as_bytes(), b"x").unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.stats().compactions, 0);
    db.compact().unwrap();
    let stats = db.stats();
    assert!(stats.compactions >= 1 && stats.tables[0].runs.len() >= 2);
    assert_eq!(get(&table, "k"), None);
    // Old value, tombstone, padding, six others.
    assert_eq!(stats.tables[0].versions, 2 + 300 + 6);

    // As much again merges all of it.
    for i in 0..300 {
        let value: Vec<u8> = (0..250_u32).map(|j| (i * 241 + j * j) as u8).collect();
        table.put(format!("pad{i:03}").as_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), 1);
    assert_eq!(db.stats().tables[0].versions, 300 + 6);
    assert_eq!(get(&table, "k"), None);

    // With no older run at all it is dropped by the flush itself.
    table.delete(b"never there").unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().tables[0].versions, 300 + 6);
}

/// A table that is written once and then never again needs the oldest segment of the log. Unless
/// that table is flushed to free the segment, no segment is ever removed.
#[test]
fn wal_retention_a_quiet_table_does_not_hold_the_log_for_ever() {
    let mem = MemDisk::new();
    let limited = || Options {
        wal_segment_bytes: 4 << 10,
        wal_bytes_max: 32 << 10,
        ..options(&mem)
    };
    let (db, keyspace, table) = open_with(limited());
    let quiet = keyspace.table("quiet", TableOptions::default()).unwrap();
    quiet.put(b"q", b"once").unwrap();
    // No memtable is ever full.
    for i in 0..2000 {
        table.put(b"k", format!("{i:0100}").as_bytes()).unwrap();
        assert!(db.stats().wal_bytes <= 33 << 10, "after {i} writes");
    }
    let stats = db.stats();
    let quiet_stats = stats.tables.iter().find(|t| t.name == "quiet").unwrap();
    assert_eq!((quiet_stats.memtable_bytes, quiet_stats.files), (0, 1));
    assert_eq!(stats.wal_segments, files(&mem, ".log").len());

    // Neither do snapshots, with nothing to flush at all.
    keyspace.create_snapshot("kept").unwrap();
    keyspace.create_snapshot("early").unwrap();
    for i in 0..1000 {
        if i == 500 {
            keyspace.delete_snapshot("early").unwrap();
        }
        keyspace.create_snapshot("s").unwrap();
        keyspace.delete_snapshot("s").unwrap();
        assert!(db.stats().wal_bytes <= 33 << 10, "after {i} snapshots");
    }
    keyspace.create_snapshot("last").unwrap();
    drop((db, keyspace, table, quiet));
    let (db, keyspace, table) = open_with(limited());
    assert_eq!(names(&keyspace), ["kept", "last"]);
    assert_eq!(get(&table, "k"), Some(format!("{:0100}", 1999)));

    // The last segment stays with nothing to need it: a manifest that lost its
    // end would not be noticed beside an empty log.
    table.put(b"k", b"last").unwrap();
    db.flush().unwrap();
    drop((db, keyspace, table));
    let (db, _keyspace, _table) = open_with(limited());
    db.flush().unwrap();
    assert!(!files(&mem, ".log").is_empty());
}

/// A batch writes two tables, but only one of them is flushed. Then the power fails, and the
/// unsynced end of the log is lost. Unless the flush synced the log first, only the flushed half of
/// the batch would survive.
#[test]
fn wal_synced_before_install_a_batch_over_two_tables_does_not_tear() {
    const WRITES: usize = 14;
    let mut lost = 0;
    for seed in 0..50 {
        let mem = MemDisk::new();
        let small = Options {
            memtable_bytes: 4 << 10,
            ..options(&mem)
        };
        let (db, keyspace, users) = open_with(small.clone());
        let mails = keyspace.table("mails", TableOptions::default()).unwrap();
        // One flush: merges of several would sync the log too.
        for i in 0..WRITES {
            let mut batch = WriteBatch::new();
            // Only the first table is ever full.
            batch.put(&users, format!("{i:02}").as_bytes(), &[7; 400]);
            batch.put(&mails, format!("{i:02}").as_bytes(), b"");
            db.write(batch).unwrap();
        }
        assert!(db.stats().tables.iter().any(|table| table.files == 1));
        lose_power(&mem, (db, keyspace, users, mails), seed);
        let (_db, keyspace, users) = open_with(small);
        let mails = keyspace.existing_table("mails").unwrap();
        let keys = |table: &Table| {
            let content = content(table.range::<&[u8], _>(..)).unwrap();
            content.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(keys(&users), keys(&mails), "seed {seed}");
        lost += usize::from(keys(&users).len() < WRITES);
    }
    assert!(lost > 0, "no restart lost anything that was not synced");
}

/// A view gets the sequence number at which it reads, and the files of each table, while writers go
/// on and merges drop versions that no reader needs. If the view got its number before it is
/// registered as a reader, it could miss a version. If it read each table at another instant, it
/// could see half of a batch.
#[test]
fn read_views_show_all_tables_at_one_instant_under_writers_and_merges() {
    let mem = MemDisk::new();
    let (db, keyspace, users) = open_with(Options {
        maintenance: Maintenance::Background,
        memtable_bytes: 8 << 10,
        ..options(&mem)
    });
    let mails = keyspace.table("mails", TableOptions::default()).unwrap();
    let (stop, keys) = (AtomicBool::new(false), 20);
    let write = |value: u64| {
        let mut batch = WriteBatch::new();
        for key in 0..keys {
            batch.put(&users, format!("{key:02}").as_bytes(), &value.to_le_bytes());
            batch.put(&mails, format!("{key:02}").as_bytes(), &value.to_le_bytes());
        }
        db.write(batch).unwrap();
    };
    write(0);
    let one_value = |values: Vec<u64>| {
        assert_eq!(values.len(), 4 * keys);
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    thread::scope(|scope| {
        for writer in 0..2 {
            let (write, stop) = (&write, &stop);
            scope.spawn(move || {
                for i in 1.. {
                    write(i * 2 + writer);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (db, keyspace, tables) = (&db, &keyspace, [&users, &mails]);
                let (one_value, number) = (&one_value, &number);
                scope.spawn(move || {
                    // As long as it takes for something to be merged meanwhile.
                    for round in 0..10_000 {
                        if round >= 150 && db.stats().compactions > 0 {
                            break;
                        }
                        let view = db.view();
                        let mut values = Vec::new();
                        for table in tables {
                            for key in 0..keys {
                                let key = format!("{key:02}");
                                let found = view.get(table, key.as_bytes()).unwrap();
                                values.push(number(&found.expect("written first of all")));
                            }
                            let range = view.range::<&[u8], _>(table, ..);
                            values.extend(range.map(|entry| number(&entry.unwrap().1)));
                        }
                        one_value(values);

                        let name = format!("s{reader}-{round}");
                        keyspace.create_snapshot(&name).unwrap();
                        let snapshot = keyspace.snapshot(&name).unwrap();
                        keyspace.delete_snapshot(&name).unwrap();
                        let mut values = Vec::new();
                        for table in ["mails", "users", "users", "mails"] {
                            let table = snapshot.table(table).unwrap();
                            let range = table.range::<&[u8], _>(..);
                            values.extend(range.map(|entry| number(&entry.unwrap().1)));
                        }
                        one_value(values);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            outcome.unwrap();
        }
    });
    assert!(db.stats().compactions > 0, "nothing was merged meanwhile");
}

/// A view has the sequence number of the last write that it sees. Merges keep only the newest
/// version of a key between the numbers of two views. If a view had the number of the first write
/// that it does not see, a merge would keep that write and drop the last one that the view sees.
#[test]
fn read_views_see_the_write_that_they_stand_at_whatever_becomes_of_it() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(&mem);
    let mut views = Vec::new();
    for i in 0..8 {
        table.put(b"k", format!("{i}").as_bytes()).unwrap();
        if i % 2 == 0 {
            let view = db.view();
            assert_eq!(view.seq(), SeqNo(i + 1));
            views.push((view, format!("{i}")));
        } else {
            db.flush().unwrap();
        }
    }
    for _ in 0..2 {
        for (view, expected) in &views {
            assert_eq!(view.get(&table, b"k").unwrap().unwrap(), expected);
            let range = view.range::<&[u8], _>(&table, ..);
            let found: Vec<_> = range.map(|entry| entry.unwrap().1).collect();
            assert_eq!(found, [expected.as_bytes()]);
        }
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].runs.len(), 1);
    }
}

/// Regression: snapshots keep runs apart, so a table may have more runs than the number at which
/// writers stall, and nothing to merge. Writers then waited for ever. With manual maintenance they
/// also waited for flushes, although no background thread flushes there.
#[test]
fn writers_do_not_wait_for_merges_that_never_come() {
    must_end(|| {
        for maintenance in [Maintenance::Background, Maintenance::Manual] {
            let mem = MemDisk::new();
            let strict = |memtable_bytes| Options {
                maintenance,
                memtable_bytes,
                frozen_memtables_max: 1,
                compaction: TieredPicker {
                    bounding: Bounding::Strict,
                    ..TieredPicker::default()
                }
                .into(),
                ..options(&mem)
            };
            let (db, keyspace, table) = open_with(strict(1 << 20));
            for i in 0..60 {
                table.put(b"k", format!("{i}").as_bytes()).unwrap();
                keyspace.create_snapshot(&format!("s{i}")).unwrap();
                db.flush().unwrap();
            }
            assert_eq!(db.stats().tables[0].runs.len(), 60);
            for i in 0..50 {
                table.put(b"k", &[i; 1000]).unwrap();
            }
            drop((db, keyspace, table));
            let (_db, keyspace, table) = open_with(strict(2000));
            table.put(b"k", b"last").unwrap();
            assert_eq!(get_in(&keyspace, "s33", "k").as_deref(), Some("33"));
        }
    });
}

/// `WriteOptions::sync` makes a write durable, and all writes before it, although the database's
/// options do not sync writes.
#[test]
fn a_write_with_a_sync_survives_with_all_before_it() {
    for seed in 0..20 {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        table.put(b"before", b"1").unwrap();
        keyspace.create_snapshot("s").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&table, b"k", b"2");
        db.write_with(batch, WriteOptions { sync: true }).unwrap();
        lose_power(&mem, (db, keyspace, table), seed);
        let (_db, keyspace, table) = open(&mem);
        assert_eq!(get(&table, "k").as_deref(), Some("2"));
        assert_eq!(get_in(&keyspace, "s", "before").as_deref(), Some("1"));
        assert_eq!(get_in(&keyspace, "s", "k"), None);
    }
}

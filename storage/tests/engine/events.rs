//! Listeners are called with the events of a database.

use std::sync::mpsc::{Receiver, channel};

use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{CompactionOptions, Db, Durability, Event, Health, Options, SpaceUse, Table};

/// Returns a receiver of the database's events, as text without the values that differ from run to
/// run.
fn listen(db: &Db) -> Receiver<String> {
    let (sender, events) = channel();
    db.on_event(move |event| {
        let text = match *event {
            Event::Flushed {
                keyspace,
                table,
                bytes,
            } => format!("{keyspace}.{table} flushed {}", bytes > 0),
            Event::Merged {
                keyspace,
                table,
                runs,
                is_part,
                ..
            } => format!("{keyspace}.{table} merged {runs} {is_part}"),
            Event::Quarantined {
                keyspace, table, ..
            } => format!("{keyspace}.{table} damaged"),
            Event::WritesStopped { cause } => {
                assert!(cause.contains("fsync"), "{cause}");
                "stopped".into()
            }
            Event::DiskFull { space_use, .. } => format!("{space_use:?} full"),
            Event::DiskFreed { space_use } => format!("{space_use:?} freed"),
            _ => format!("{event:?}"),
        };
        // The test may have ended.
        let _ = sender.send(text);
    });
    events
}

fn open(options: Options) -> (Db, Table) {
    let (db, _, table) = one_table::open(options, Default::default());
    (db, table)
}

fn fill(table: &Table, value: u8) {
    for key in 0..400_u32 {
        table.put(&key.to_be_bytes(), &[value; 100]).unwrap();
    }
}

#[test]
fn flushes_and_parts_of_merges_are_events() {
    let options = |mem: &MemDisk, part_bytes| Options {
        compaction: CompactionOptions {
            part_bytes,
            ..Options::default().compaction
        },
        memtable_bytes: 1 << 20,
        ..manual(mem)
    };
    for (part_bytes, in_parts) in [(u64::MAX, false), (100, true)] {
        let (db, table) = open(options(&MemDisk::new(), part_bytes));
        let events = listen(&db);
        let pause = db.pause_merges();
        for value in 0..9 {
            fill(&table, value);
            db.flush().unwrap();
            assert!(events.try_iter().eq(["app.users flushed true"]));
        }
        // There is nothing to flush.
        db.flush().unwrap();
        assert_eq!(events.try_iter().count(), 0);
        drop(pause);
        db.compact().unwrap();
        let merges: Vec<String> = events.try_iter().collect();
        assert!(
            merges
                .iter()
                .all(|merge| merge.starts_with("app.users merged"))
        );
        let has_parts = merges.iter().any(|merge| merge.ends_with("true"));
        assert_eq!(has_parts, in_parts, "{merges:?}");
        assert!(merges.last().is_some_and(|last| last.ends_with("false")));
    }
}

#[test]
fn damage_that_a_merge_finds_is_an_event() {
    let mem = MemDisk::new();
    let (db, table) = open(Options {
        cache_bytes: 0,
        memtable_bytes: 1 << 20,
        ..manual(&mem)
    });
    let pause = db.pause_merges();
    for value in 0..9 {
        fill(&table, value);
        db.flush().unwrap();
    }
    let events = listen(&db);
    mem.flip_bit(&files(&mem, ".sst")[0], 100, 3).unwrap();
    drop(pause);
    db.compact().unwrap();
    let events: Vec<String> = events.try_iter().collect();
    let damaged = events.iter().filter(|event| *event == "app.users damaged");
    assert_eq!(damaged.count(), 1, "{events:?}");
    assert_eq!(db.health().damaged_tables, ["app.users"]);
}

#[test]
fn the_end_of_writes_is_one_event() {
    let mem = MemDisk::new();
    let (db, table) = open(Options {
        durability: Durability::Sync,
        ..manual(&mem)
    });
    let events = listen(&db);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::Sync, 1, std::io::ErrorKind::Other);
    for _ in 0..3 {
        assert!(table.put(b"b", b"2").is_err());
        assert!(db.flush().is_err());
    }
    assert!(events.try_iter().eq(["stopped"]));
    assert!((db.health().read_only_cause).is_some_and(|cause| cause.contains("fsync")));
    assert!(
        listen(&db).try_iter().eq(["stopped"]),
        "a later listener is called, too"
    );
}

#[test]
fn a_full_disk_is_an_event_when_it_begins_and_when_it_ends() {
    let mem = MemDisk::new();
    let (db, table) = open(manual(&mem));
    let events = listen(&db);
    table.put(b"a", b"1").unwrap();
    mem.set_capacity_bytes(Some(mem.used_bytes()));
    for _ in 0..3 {
        assert!(table.put(b"b", b"2").is_err());
        assert!(db.flush().is_err());
    }
    let full = [SpaceUse::Writes, SpaceUse::Flushes].map(|space_use| format!("{space_use:?} full"));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), full);
    assert_eq!(listen(&db).try_iter().collect::<Vec<_>>(), full);
    let starved = [SpaceUse::Writes, SpaceUse::Flushes];
    assert_eq!(db.health().starved, starved);
    mem.set_capacity_bytes(None);
    for _ in 0..3 {
        table.put(b"b", b"2").unwrap();
        db.flush().unwrap();
    }
    let freed = events.try_iter().filter(|event| event.ends_with("freed"));
    assert!(freed.eq(["Writes freed", "Flushes freed"]));
    assert_eq!(db.health(), Health::default());
    table.put(b"c", b"3").unwrap();
    drop((db, table));
    let (db, _) = open(manual(&mem));
    assert!(db.stats().wal_bytes_replayed > 0);
}

//! A disk without space: what finds none is refused whole, everything else goes
//! on, and writing works again as soon as there is space.

mod common;

use std::sync::Arc;
use std::thread;

use common::*;
use ebb_storage::vfs::MemVfs;
use ebb_storage::{
    Clock, Compression, Db, Durability, Error, Maintenance, ManualClock, Options, SsTableOptions,
    TableOptions,
};
use rand::RngExt;

/// The power may fail at any time, too: what was acknowledged is there after it,
/// nothing that was refused is, and what was under way is so whole or not at all.
#[test]
fn what_is_refused_leaves_no_trace_and_what_is_acknowledged_stays() {
    for_seeds(0..60, |seed| {
        let mut rng = rng(seed);
        let mem = MemVfs::new();
        let table_options: Vec<_> = TABLES
            .iter()
            .map(|_| random_table_options(&mut rng))
            .collect();
        let clock = ManualClock::at_ms(START_MS);
        let options = Options {
            durability: Durability::Sync,
            clock: Arc::new(clock.clone()),
            ..random_options(&mut rng, &mem)
        };
        let db = Db::open(DIR, options.clone()).unwrap();
        let tables = open_tables(&db, &table_options).unwrap();
        let assert_holds = |found: Seen, oracle: &Oracle| {
            let now_ms = clock.now_ms();
            let difference = || found.difference(&oracle.seen_at(now_ms));
            assert!(oracle.is_seen_as(&found, now_ms), "{}", difference());
        };
        if rng.random_bool(0.5) {
            mem.crash_at(rng.random_range(1..2000));
        }
        let (mut oracle, mut refused) = (Oracle::default(), 0);
        let mut under_way = oracle.clone();
        for _ in 0..150 {
            if rng.random_bool(0.2) {
                let room = mem.used_bytes() + rng.random_range(0..3000);
                mem.set_capacity_bytes(rng.random_bool(0.7).then_some(room));
            }
            let op = random_op(&mut rng, &oracle, 6);
            if let Op::Tick(ms) = op {
                clock.advance_ms(ms);
            }
            under_way = oracle.clone();
            under_way.apply(&op);
            match apply(&db, &tables, &op) {
                Ok(()) => oracle = under_way.clone(),
                Err(_) if !mem.has_power() => break,
                Err(Error::DiskFull { .. }) => {
                    refused += 1;
                    under_way = oracle.clone();
                    match Seen::read(&db) {
                        Err(_) if !mem.has_power() => break,
                        found => assert_holds(found.unwrap(), &oracle),
                    }
                }
                Err(e) => panic!("{op:?}: {e}"),
            }
        }
        if mem.has_power() {
            // Space again: everything works, with nothing opened anew.
            mem.crash_at(u64::MAX);
            mem.set_capacity_bytes(None);
            for op in [Op::Flush, Op::Compact] {
                apply(&db, &tables, &op).unwrap();
            }
            assert_eq!(db.stats().maintenance_failure, None);
            assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
            for _ in 0..10 {
                let op = random_op(&mut rng, &oracle, 6);
                if let Op::Tick(ms) = op {
                    clock.advance_ms(ms);
                }
                apply(&db, &tables, &op).unwrap();
                oracle.apply(&op);
            }
            under_way = oracle.clone();
            assert_holds(Seen::read(&db).unwrap(), &oracle);
        }
        mem.set_capacity_bytes(None);
        lose_power(&mem, (db, tables), seed);
        let db = Db::open(DIR, options).unwrap();
        let (found, now_ms) = (Seen::read(&db).unwrap(), clock.now_ms());
        assert!(
            [&oracle, &under_way]
                .iter()
                .any(|state| state.is_seen_as(&found, now_ms)),
            "after {refused} refusals: {}",
            found.difference(&oracle.seen_at(now_ms))
        );
        assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    });
}

/// The first failed flush stopped all writes for ever, and a writer that waited
/// for a flush would have waited for space as long.
#[test]
fn background_threads_try_again_by_themselves_and_nobody_waits_for_space() {
    for_seeds(0..4, |seed| {
        let mem = MemVfs::new();
        let options = Options {
            durability: [Durability::Os, Durability::Sync][seed as usize % 2],
            maintenance: Maintenance::Background,
            frozen_memtables_max: 1,
            memtable_bytes: 4 << 10,
            wal_segment_bytes: 2 << 10,
            wal_bytes_max: 16 << 10,
            ..manual(&mem)
        };
        let db = Db::open(DIR, options.clone()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("users", TableOptions::default()).unwrap();
        let mut expected = Content::new();
        let put = |i: u64, expected: &mut Content| {
            let key = format!("key{i:05}").into_bytes();
            let outcome = table.put(&key, &i.to_le_bytes().repeat(12));
            if outcome.is_ok() {
                expected.insert(key, i.to_le_bytes().repeat(12));
            }
            outcome
        };
        let mut i = 0;
        for round in 0..3 {
            let room = mem.used_bytes() + 10_000;
            mem.set_capacity_bytes(Some(room));
            let refused = loop {
                i += 1;
                if let Err(e) = put(i, &mut expected) {
                    break e;
                }
            };
            assert!(
                matches!(refused, Error::DiskFull { .. }),
                "{round}: {refused}"
            );
            let found = content(table.range::<&[u8], _>(..)).unwrap();
            assert!(found == expected, "{} of {}", found.len(), expected.len());
            mem.set_capacity_bytes(None);
            loop {
                i += 1;
                match put(i, &mut expected) {
                    Ok(()) => break,
                    Err(Error::DiskFull { .. }) => thread::yield_now(),
                    Err(e) => panic!("{round}: {e}"),
                }
            }
            // Nothing but time asks for the flush that failed.
            while db.stats().maintenance_failure.is_some() {
                thread::yield_now();
            }
        }
        db.flush().unwrap();
        assert_eq!(db.stats().read_only_cause, None);
        db.sync().unwrap();
        lose_power(&mem, (db, keyspace, table), seed);
        let db = Db::open(DIR, options).unwrap();
        let keyspace = db.existing_keyspace("app").unwrap();
        let table = keyspace.existing_table("users").unwrap();
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
    });
}

/// A put whose own flush found no space returned an error, though it was
/// committed.
#[test]
fn a_put_succeeds_though_the_flush_that_it_triggers_does_not() {
    let mem = MemVfs::new();
    let options = Options {
        memtable_bytes: 4 << 10,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let sstable = SsTableOptions {
        compression: Compression::None,
        ..SsTableOptions::default()
    };
    let options = TableOptions {
        sstable,
        ..TableOptions::default()
    };
    let table = keyspace.table("users", options).unwrap();
    // Room for the log, not for an SSTable beside it.
    let put = |bytes: usize| {
        mem.set_capacity_bytes(Some(mem.used_bytes() + bytes as u64 + 200));
        table.put(format!("{bytes}").as_bytes(), &vec![7; bytes])
    };
    put(5000).unwrap();
    assert!(db.stats().maintenance_failure.is_some());
    assert!(files(&mem, ".sst").is_empty());
    assert!(matches!(db.flush(), Err(Error::DiskFull { .. })));
    // Memtables must not grow for ever.
    let refused = (4000..4100).find_map(|bytes| put(bytes).err());
    assert!(
        matches!(&refused, Some(Error::DiskFull { path }) if path.extension() == Some("sst".as_ref())),
        "{refused:?}"
    );
    mem.set_capacity_bytes(None);
    table.put(b"k", b"3").unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().maintenance_failure, None);
    assert_eq!(table.get(b"5000").unwrap().unwrap(), [7; 5000][..]);
    assert_eq!(table.get(b"4000").unwrap().unwrap(), [7; 4000][..]);
    assert_eq!(table.get(b"k").unwrap().unwrap(), "3");
}

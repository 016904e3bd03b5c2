//! The tables that a snapshot covers. No list of them is kept: they follow from the commits at which tables
//! were created and dropped.

use std::collections::BTreeMap;
use std::thread;

use crate::common::{
    Content, DIR, content, create_table_snapshot, files, for_seeds, lose_power, manual, rng,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Durability, Keyspace, Options, TableOptions};
use rand::RngExt;

type Tables = BTreeMap<String, Content>;

const KEYSPACES: [&str; 2] = ["app", "other"];

/// The content that a database should have.
#[derive(Default)]
struct Model {
    live: BTreeMap<&'static str, Tables>,
    /// The tables of each snapshot, by the snapshot's keyspace and name.
    snapshots: BTreeMap<(&'static str, String), Tables>,
}

fn assert_agrees(db: &Db, model: &Model) {
    for name in KEYSPACES {
        let keyspace = db.existing_keyspace(name).unwrap();
        let tables = &model.live[name];
        assert!(keyspace.tables().iter().eq(tables.keys()));
        for (table, expected) in tables {
            let table = keyspace.existing_table(table).unwrap();
            assert_eq!(content(table.range::<&[u8], _>(..)).unwrap(), *expected);
        }
        let infos = keyspace.snapshots();
        let expected = model.snapshots.keys().filter(|(of, _)| *of == name);
        assert_eq!(infos.len(), expected.count());
        for info in infos {
            let expected = &model.snapshots[&(name, info.name.clone())];
            assert!(info.tables.iter().eq(expected.keys()), "{info:?}");
            assert_eq!(keyspace.snapshot_seq(&info.name).unwrap(), info.seq);
            assert_eq!(keyspace.snapshot_scope(&info.name).unwrap(), info.scope);
            let snapshot = keyspace.snapshot(&info.name).unwrap();
            assert!(snapshot.tables().eq(expected.keys()), "{info:?}");
            for (table, expected) in expected {
                let table = snapshot.table(table).unwrap();
                let found = content(table.range::<&[u8], _>(..)).unwrap();
                assert_eq!(found, *expected, "{info:?}");
            }
        }
    }
}

#[test]
fn snapshots_cover_the_tables_of_their_time_over_drops_truncations_and_reopenings() {
    let test = "snapshots_cover_the_tables_of_their_time_over_drops_truncations_and_reopenings";
    for_seeds(test, 12, |seed| {
        let mut rng = rng(seed);
        let mem = MemDisk::new();
        let mut db = Db::open(DIR, manual(&mem)).unwrap();
        let mut model = Model::default();
        for name in KEYSPACES {
            db.keyspace(name).unwrap();
            model.live.insert(name, Tables::new());
        }
        for n in 0..300 {
            let name = KEYSPACES[usize::from(rng.random_bool(0.2))];
            let keyspace = db.existing_keyspace(name).unwrap();
            let tables = model.live.get_mut(name).unwrap();
            let table = format!("t{}", rng.random_range(0..4));
            let snapshot = format!("s{n}");
            match rng.random_range(0..100) {
                0..=9 => {
                    keyspace.table(&table, TableOptions::default()).unwrap();
                    tables.entry(table).or_default();
                }
                10..=17 => {
                    let is_there = tables.remove(&table).is_some();
                    assert_eq!(keyspace.drop_table(&table).is_ok(), is_there);
                }
                18..=22 => {
                    if let Some(content) = tables.get_mut(&table) {
                        let table = keyspace.existing_table(&table).unwrap();
                        table.truncate().unwrap();
                        content.clear();
                    }
                }
                23..=34 => {
                    keyspace.create_snapshot(&snapshot).unwrap();
                    model.snapshots.insert((name, snapshot), tables.clone());
                }
                35..=39 => {
                    let created = create_table_snapshot(&keyspace, &snapshot, &table);
                    assert_eq!(created.is_ok(), tables.contains_key(&table));
                    if let Some(content) = tables.get(&table) {
                        let only = Tables::from([(table, content.clone())]);
                        model.snapshots.insert((name, snapshot), only);
                    }
                }
                40..=46 => {
                    let all: Vec<_> = model.snapshots.keys().cloned().collect();
                    if !all.is_empty() {
                        let deleted = &all[rng.random_range(0..all.len())];
                        let of = db.existing_keyspace(deleted.0).unwrap();
                        of.delete_snapshot(&deleted.1).unwrap();
                        model.snapshots.remove(deleted);
                    }
                }
                47 => {
                    db.drop_keyspace(name).unwrap();
                    db.keyspace(name).unwrap();
                    tables.clear();
                    model.snapshots.retain(|(of, _), _| *of != name);
                }
                48..=52 => db.flush().unwrap(),
                53..=55 => db.compact().unwrap(),
                56..=60 => {
                    drop(keyspace);
                    assert_agrees(&db, &model);
                    drop(db);
                    db = Db::open(DIR, manual(&mem)).unwrap();
                    assert_agrees(&db, &model);
                }
                _ => {
                    if let Some(content) = tables.get_mut(&table) {
                        let table = keyspace.existing_table(&table).unwrap();
                        let (key, value) = (vec![rng.random_range(0..20u8)], vec![7; n / 3]);
                        table.put(&key, &value).unwrap();
                        content.insert(key, value);
                    }
                }
            }
        }
        assert_agrees(&db, &model);
        // Nothing is kept for snapshots that are gone.
        for (name, snapshot) in model.snapshots.keys() {
            let keyspace = db.existing_keyspace(name).unwrap();
            keyspace.delete_snapshot(snapshot).unwrap();
        }
        for name in KEYSPACES {
            db.drop_keyspace(name).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(files(&mem, ".sst").len(), 0);
    });
}

/// Tables are created and dropped while snapshots are created. A snapshot either covers such a
/// table or does not, and that never changes.
#[test]
fn a_snapshot_keeps_its_tables_whatever_is_created_and_dropped_beside_it() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let shown = |keyspace: &Keyspace, name: &str| -> Tables {
        let snapshot = keyspace.snapshot(name).unwrap();
        let tables = snapshot.tables().map(|name| {
            let table = snapshot.table(name).unwrap();
            let found = content(table.range::<&[u8], _>(..)).unwrap();
            (name.to_string(), found)
        });
        tables.collect()
    };
    let change = || {
        for n in 0..200u8 {
            let table = keyspace.table(&format!("t{}", n % 3), TableOptions::default());
            table.unwrap().put(b"key", &[n]).unwrap();
            if n >= 2 {
                keyspace.drop_table(&format!("t{}", (n + 1) % 3)).unwrap();
            }
        }
    };
    let first: Vec<_> = thread::scope(|scope| {
        scope.spawn(change);
        let create = |n| {
            let name = format!("s{n}");
            keyspace.create_snapshot(&name).unwrap();
            let shown = shown(&keyspace, &name);
            (name, shown)
        };
        (0..50).map(create).collect()
    });
    let check = |keyspace: &Keyspace| {
        for (name, tables) in &first {
            assert_eq!(shown(keyspace, name), *tables, "{name}");
        }
    };
    check(&keyspace);
    db.flush().unwrap();
    db.compact().unwrap();
    check(&keyspace);
    drop((db, keyspace));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    check(&db.existing_keyspace("app").unwrap());
}

/// Regression: the record of a snapshot listed all tables of its keyspace, and each flush and each
/// merge wrote all snapshots anew, so both became slower with each table and each snapshot.
#[test]
fn a_snapshot_and_the_flush_after_it_write_as_much_beside_many_as_alone() {
    let written = |tables: u32, snapshots: u32| {
        let mem = MemDisk::new();
        let db = Db::open(DIR, manual(&mem)).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = |n: u32| {
            let created = keyspace.table(&format!("table{n:04}"), TableOptions::default());
            created.unwrap()
        };
        let first = table(0);
        (1..tables).for_each(|n| drop(table(n)));
        for n in 0..snapshots {
            keyspace
                .create_snapshot(&format!("snapshot{n:04}"))
                .unwrap();
        }
        let flush = || {
            first.put(b"key", b"value").unwrap();
            db.flush().unwrap();
        };
        flush();
        let bytes_of = |part: &str| -> u64 {
            let mut paths = files(&mem, "");
            paths.retain(|path| path.to_string_lossy().contains(part));
            let lengths = paths.iter().map(|path| mem.file_len(path).unwrap());
            lengths.sum()
        };
        let log = bytes_of(".log");
        keyspace.create_snapshot("snapshot-more").unwrap();
        let log = bytes_of(".log") - log;
        let manifest = bytes_of("MANIFEST");
        flush();
        (log, bytes_of("MANIFEST") - manifest)
    };
    let (log, manifest) = written(1, 1);
    assert!(log < 200, "{log} bytes of the log");
    let (log_beside_many, manifest_beside_many) = written(100, 300);
    // Larger numbers have more digits.
    assert!(log_beside_many <= log + 10, "{log_beside_many} and {log}");
    assert!(
        manifest_beside_many <= manifest + 100,
        "{manifest_beside_many} and {manifest}"
    );
}

/// A new table is in the manifest at once, but the commits before its creation may be lost with the
/// end of the log. If their sequence numbers were used again, new snapshots would have smaller
/// numbers than the creation of the table, and not show it.
#[test]
fn a_snapshot_after_a_crash_covers_a_table_that_was_created_after_lost_commits() {
    for seed in 0..50 {
        let mem = MemDisk::new();
        let open = || {
            let options = Options {
                durability: Durability::Os,
                memtable_bytes: 1 << 20,
                ..manual(&mem)
            };
            Db::open(DIR, options).unwrap()
        };
        let db = open();
        let keyspace = db.keyspace("app").unwrap();
        let table = |name| keyspace.table(name, TableOptions::default()).unwrap();
        let early = table("early");
        for n in 0..20 {
            early.put(&[n], b"may be lost").unwrap();
        }
        keyspace.create_snapshot("before").unwrap();
        let late = table("late");
        lose_power(&mem, (db, keyspace, early, late), seed);

        let db = open();
        let keyspace = db.existing_keyspace("app").unwrap();
        let late = keyspace.existing_table("late").unwrap();
        late.put(b"key", b"value").unwrap();
        keyspace.create_snapshot("after").unwrap();
        let after = keyspace.snapshot("after").unwrap();
        assert!(after.tables().eq(["early", "late"]), "seed {seed}");
        let found = after.table("late").unwrap().get(b"key").unwrap();
        assert_eq!(found.unwrap(), "value", "seed {seed}");
        // The snapshot is there if the log was not lost.
        if let Ok(before) = keyspace.snapshot("before") {
            assert!(before.tables().eq(["early"]), "seed {seed}");
        }
    }
}

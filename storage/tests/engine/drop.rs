//! Tables dropped and made again under their names, and reads of snapshots of the dropped ones. The
//! loss of power meanwhile is tested in the crate `ebb-tests`.

use crate::common::{
    DIR, assert_is, content, files, files_in_use, for_seeds, lose_power, manual, must_end, rng,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, Keyspace, Maintenance, Options, Table, TableOptions, WriteBatch};
use rand::RngExt;

fn open(mem: &MemDisk) -> (Db, Keyspace) {
    let db = Db::open(DIR, manual(mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    (db, keyspace)
}

fn table(keyspace: &Keyspace, name: &str) -> Table {
    keyspace.table(name, TableOptions::default()).unwrap()
}

fn assert_dropped(outcome: Result<(), Error>) {
    match outcome {
        Err(e @ Error::NotFound { .. }) => {
            assert!(e.to_string().contains("was dropped"), "{e}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dropped_table_takes_no_write_and_is_read_on_by_those_who_have_it() {
    let mem = MemDisk::new();
    let (db, keyspace) = open(&mem);
    let (old, other) = (table(&keyspace, "t"), table(&keyspace, "other"));
    old.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    old.put(b"b", b"2").unwrap();
    let (view, mut range) = (db.view(), old.range::<&[u8], _>(..));
    assert_eq!(range.next().unwrap().unwrap().0, "a");

    keyspace.drop_table("t").unwrap();
    assert_eq!(keyspace.tables(), ["other"]);
    assert_dropped(old.put(b"a", b"3"));
    assert_dropped(old.delete(b"a"));
    let mut batch = WriteBatch::new();
    batch.put(&other, b"a", b"3");
    batch.put(&old, b"a", b"3");
    assert_dropped(db.write(batch));
    assert_eq!(other.get(b"a").unwrap(), None);
    assert_is!(keyspace.drop_table("t"), Err(Error::NotFound { .. }));

    let new = table(&keyspace, "t");
    new.put(b"a", b"new").unwrap();
    db.flush().unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, "b");
    assert_eq!(old.get(b"a").unwrap().unwrap(), "1");
    assert_eq!(view.get(&old, b"b").unwrap().unwrap(), "2");
    assert_eq!(view.get(&new, b"a").unwrap(), None);
    assert_eq!(new.get(b"a").unwrap().unwrap(), "new");
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db) + 1);
    drop((old, range, view));
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
}

#[test]
fn each_snapshot_sees_the_table_of_its_time() {
    let mem = MemDisk::new();
    {
        let (db, keyspace) = open(&mem);
        for round in ["1", "2", "3"] {
            let t = table(&keyspace, "t");
            t.put(b"round", round.as_bytes()).unwrap();
            t.put(round.as_bytes(), b"").unwrap();
            keyspace.create_snapshot(round).unwrap();
            t.put(b"round", b"later").unwrap();
            if round == "2" {
                db.flush().unwrap();
            }
            keyspace.drop_table("t").unwrap();
        }
    }
    for _ in 0..2 {
        let (db, keyspace) = open(&mem);
        assert_eq!(keyspace.tables(), Vec::<String>::new());
        for round in ["1", "2", "3"] {
            let t = keyspace.snapshot(round).unwrap().table("t").unwrap();
            let found = content(t.range::<&[u8], _>(..)).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!(found[&b"round"[..]], round.as_bytes());
            assert_eq!(found[round.as_bytes()], b"");
        }
        db.flush().unwrap();
        db.compact().unwrap();
    }
    let (db, keyspace) = open(&mem);
    let open_one = keyspace.snapshot("1").unwrap();
    for round in ["1", "2", "3"] {
        keyspace.delete_snapshot(round).unwrap();
    }
    // What is open stays, also the tables that it did not look at yet.
    let t = open_one.table("t").unwrap();
    assert_eq!(t.get(b"round").unwrap().unwrap(), "1");
    assert_eq!(files(&mem, ".sst").len(), 1);
    drop((t, open_one));
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), 0);
    assert_eq!(db.stats().tables.len(), 0);
}

/// The log need not be kept for the writes of a removed table, and an opening skips these writes.
#[test]
fn the_log_of_a_forgotten_table_is_passed_over_and_goes() {
    let mem = MemDisk::new();
    let options = || Options {
        wal_segment_bytes: 1 << 10,
        ..manual(&mem)
    };
    {
        let db = Db::open(DIR, options()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let (gone, stays) = (table(&keyspace, "gone"), table(&keyspace, "stays"));
        for i in 0..100u32 {
            let mut batch = WriteBatch::new();
            batch.put(&gone, &i.to_be_bytes(), &[1; 50]);
            batch.put(&stays, &i.to_be_bytes(), &[2; 50]);
            db.write(batch).unwrap();
        }
        keyspace.drop_table("gone").unwrap();
    }
    let db = Db::open(DIR, options()).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    assert_eq!(keyspace.tables(), ["stays"]);
    let again = table(&keyspace, "gone");
    assert_eq!(again.range::<&[u8], _>(..).count(), 0);
    assert_eq!(table(&keyspace, "stays").range::<&[u8], _>(..).count(), 100);
    db.flush().unwrap();
    assert!(db.stats().wal_segments <= 1, "{}", db.stats().wal_segments);
}

/// The log still names a removed table by its id: if a new table got that id, it would have the
/// writes of the old one.
#[test]
fn the_id_of_a_dropped_table_is_not_given_again() {
    let mem = MemDisk::new();
    {
        let (_db, keyspace) = open(&mem);
        table(&keyspace, "t").put(b"a", b"1").unwrap();
        keyspace.drop_table("t").unwrap();
    }
    for _ in 0..2 {
        let (_db, keyspace) = open(&mem);
        assert_eq!(table(&keyspace, "t").get(b"a").unwrap(), None);
    }
}

#[test]
fn a_dropped_keyspace_leaves_nothing() {
    let mem = MemDisk::new();
    let (db, keyspace) = open(&mem);
    let t = table(&keyspace, "t");
    t.put(b"a", b"1").unwrap();
    keyspace.create_snapshot("s").unwrap();
    db.flush().unwrap();
    keyspace.drop_table("t").unwrap();
    table(&keyspace, "u").put(b"a", b"1").unwrap();
    db.drop_keyspace("app").unwrap();
    assert_is!(db.drop_keyspace("app"), Err(Error::NotFound { .. }));
    let refused = keyspace.table("t", TableOptions::default());
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    let refused = keyspace.create_snapshot("s");
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    drop((db, keyspace, t));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    assert_eq!(db.keyspaces(), Vec::<String>::new());
    assert_eq!(files(&mem, ".sst").len(), 0);
}

/// Regression: the drop of a keyspace without tables did not sync the log. A loss of power kept the
/// drop and lost the deletion of the keyspace's snapshot, and a new keyspace of this name had it.
#[test]
fn no_snapshot_of_a_dropped_keyspace_comes_back_after_a_loss_of_power() {
    for seed in 0..16 {
        let mem = MemDisk::new();
        let (db, keyspace) = open(&mem);
        keyspace.create_snapshot("s").unwrap();
        db.sync().unwrap();
        db.drop_keyspace("app").unwrap();
        lose_power(&mem, (db, keyspace), seed);
        let (_db, keyspace) = open(&mem);
        let names = keyspace.snapshot_names();
        assert!(names.is_empty(), "seed {seed}: {names:?}");
    }
}

/// Flushes and merges of a table that is dropped meanwhile end without harm. Regression: a writer
/// that waited for the flush of a full memtable waited for ever when the table was dropped: a
/// dropped table is not flushed.
#[test]
fn tables_are_dropped_under_threads_that_write_flush_and_compact() {
    let test = "tables_are_dropped_under_threads_that_write_flush_and_compact";
    for_seeds(test, 3, |seed| {
        must_end(move || {
            let mem = MemDisk::new();
            let options = || Options {
                maintenance: Maintenance::Background,
                memtable_bytes: 4 << 10,
                wal_bytes_max: 64 << 10,
                ..manual(&mem)
            };
            let db = Db::open(DIR, options()).unwrap();
            let keyspace = db.keyspace("app").unwrap();
            std::thread::scope(|scope| {
                for writer in 0..2 {
                    let keyspace = keyspace.clone();
                    scope.spawn(move || {
                        for i in 0..3000u32 {
                            let t = table(&keyspace, "t");
                            let key = [writer, (i % 200) as u8];
                            match t.put(&key, &i.to_be_bytes().repeat(20)) {
                                Ok(()) => {}
                                Err(e) => assert_dropped(Err(e)),
                            }
                        }
                    });
                }
                let mut rng = rng(seed);
                for i in 0..60 {
                    let name = format!("s{i}");
                    if rng.random_bool(0.5) {
                        keyspace.create_snapshot(&name).unwrap();
                    }
                    // There is no table if no writer has made one since the drop before.
                    let _ = keyspace.drop_table("t");
                    for info in keyspace.snapshots() {
                        let snapshot = keyspace.snapshot(&info.name).unwrap();
                        for name in &info.tables {
                            let t = snapshot.table(name).unwrap();
                            content(t.range::<&[u8], _>(..)).unwrap();
                        }
                        if rng.random_bool(0.3) {
                            keyspace.delete_snapshot(&info.name).unwrap();
                        }
                    }
                }
            });
            assert_eq!(db.stats().read_only_cause, None);
            for info in keyspace.snapshots() {
                keyspace.delete_snapshot(&info.name).unwrap();
            }
            let _ = keyspace.drop_table("t");
            drop((db, keyspace));
            let _db = Db::open(DIR, options()).unwrap();
            assert_eq!(files(&mem, ".sst").len(), 0);
        });
    });
}

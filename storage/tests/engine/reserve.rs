//! Operations that free space work on a full disk, with the space that is held back for them.

use std::path::Path;

use crate::common::one_table::get;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, FileSystem, Keyspace, Options, Table, TableFiles};

/// Enough free space for a part of it to be held back.
const PLENTY_BYTES: u64 = 64 << 20;

struct Full {
    mem: MemDisk,
    options: Options,
    db: Db,
    app: Keyspace,
    table: Table,
}

/// A database with a table that has data, another one, and a snapshot, on a disk on which
/// not a byte is free.
fn full() -> Full {
    let mem = MemDisk::new();
    let options = manual(&mem);
    let db = Db::open(DIR, options.clone()).unwrap();
    let app = db.keyspace("app").unwrap();
    let [table, old] = ["users", "old"].map(|name| app.table(name, Default::default()).unwrap());
    table.put(b"k", b"1").unwrap();
    for i in 0..100_u32 {
        let value = i.to_le_bytes().repeat(1000);
        old.put(&i.to_be_bytes(), &value).unwrap();
    }
    app.create_snapshot("s").unwrap();
    mem.set_capacity_bytes(Some(mem.used_bytes() + PLENTY_BYTES));
    db.flush().unwrap();
    assert!(is_held_back(&mem));
    mem.set_capacity_bytes(Some(mem.used_bytes()));
    let refused = table.put(b"k", b"2").unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    Full {
        mem,
        options,
        db,
        app,
        table,
    }
}

fn is_held_back(mem: &MemDisk) -> bool {
    mem.exists(&Path::new(DIR).join("RESERVE")).unwrap()
}

/// On a full disk no table could be dropped and no snapshot deleted, so there was no way to free
/// space.
#[test]
fn drops_and_deletions_work_on_a_full_disk() {
    let works: [fn(&Keyspace); 4] = [
        |app| app.drop_table("old").unwrap(),
        |app| app.delete_snapshot("s").unwrap(),
        |app| {
            app.delete_snapshot("s").unwrap();
            app.drop_table("old").unwrap();
        },
        |app| {
            app.drop_table("old").unwrap();
            app.delete_snapshot("s").unwrap();
        },
    ];
    for (i, work) in works.into_iter().enumerate() {
        let Full {
            mem,
            options,
            db,
            app,
            table,
        } = full();
        work(&app);
        assert!(!is_held_back(&mem));
        table.put(b"k", b"3").unwrap();
        let free = mem.free_bytes(Path::new(DIR)).unwrap();
        if i >= 2 {
            assert!(
                free.unwrap() > 1 << 20,
                "{free:?}: what only they had is gone"
            );
        }
        mem.set_capacity_bytes(Some(mem.used_bytes() + PLENTY_BYTES));
        table.put(b"k", b"4").unwrap();
        db.flush().unwrap();
        assert!(is_held_back(&mem), "it is held back again");
        drop((table, app, db));
        let db = Db::open(DIR, options).unwrap();
        let app = db.existing_keyspace("app").unwrap();
        assert_eq!(app.existing_table("old").is_err(), i != 1);
        assert_eq!(app.snapshots().len(), usize::from(i == 0));
        let table = app.existing_table("users").unwrap();
        assert_eq!(get(&table, "k").unwrap(), "4");
        db.verify().unwrap();
    }
}

/// Segments of the log that were no longer needed stayed, because the edit that removes them found
/// no space.
#[test]
fn a_full_disk_does_not_keep_the_log() {
    let Full { mem, db, table, .. } = full();
    mem.set_capacity_bytes(Some(mem.used_bytes() + 200_000));
    for i in 0..20_u32 {
        table.put(&i.to_be_bytes(), &[7; 1000]).unwrap();
    }
    let wal_bytes = db.stats().wal_bytes;
    // The file of the flush fits, not the edit that names it.
    for room in (0..20_000).step_by(50) {
        mem.set_capacity_bytes(Some(mem.used_bytes() + room));
        match db.flush() {
            Ok(()) => break,
            Err(e) => assert!(matches!(e, Error::DiskFull { .. }), "{e}"),
        }
    }
    assert!(!is_held_back(&mem));
    assert!(db.stats().wal_bytes <= wal_bytes);
    assert_eq!(db.stats().maintenance_failure, None);
    db.verify().unwrap();
}

/// On a disk with little space the reserve would take the space that is missing.
#[test]
fn nothing_is_held_back_where_there_is_little() {
    let mem = MemDisk::new();
    mem.set_capacity_bytes(Some(2 << 20));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let app = db.keyspace("app").unwrap();
    let table = app.table("users", Default::default()).unwrap();
    table.put(b"k", b"1").unwrap();
    db.flush().unwrap();
    assert!(!is_held_back(&mem));
}

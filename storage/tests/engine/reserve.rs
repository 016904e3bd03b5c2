//! Operations that free space work on a full disk, with the space that is held back for them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::one_table::{get, open, uncompressed};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Error, FileSystem, Keyspace, Maintenance, Options, Table, TableFiles, TableOptions,
    TableStats, WriteBatch, WriteOptions,
};

/// An amount of free space, in bytes, that is enough for a part to be held back as the reserve.
const PLENTY_BYTES: u64 = 64 << 20;

struct Full {
    mem: MemDisk,
    options: Options,
    db: Db,
    app: Keyspace,
    table: Table,
}

/// Creates a database on a disk on which not a byte is free. Its table `users` has one row, its table `old` a
/// hundred. With `with_snapshot`, a snapshot covers both.
fn full(maintenance: Maintenance, with_snapshot: bool) -> Full {
    let mem = MemDisk::new();
    let options = Options {
        maintenance,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options.clone()).unwrap();
    let app = db.keyspace("app").unwrap();
    let [table, old] = ["users", "old"].map(|name| app.table(name, Default::default()).unwrap());
    table.put(b"k", b"1").unwrap();
    for i in 0..100_u32 {
        let value = i.to_le_bytes().repeat(1000);
        old.put(&i.to_be_bytes(), &value).unwrap();
    }
    if with_snapshot {
        app.create_snapshot("s").unwrap();
    }
    mem.set_capacity_bytes(Some(mem.used_bytes() + PLENTY_BYTES));
    db.flush().unwrap();
    assert!(is_held_back(&mem));
    if maintenance == Maintenance::Background {
        db.compact().unwrap();
    }
    mem.set_capacity_bytes(Some(mem.used_bytes()));
    // Background threads may still remove a file.
    let refused = loop {
        if let Err(refused) = table.put(b"k", b"2") {
            break refused;
        }
    };
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

/// Regression: on a full disk no table could be dropped and no snapshot deleted, so there was no
/// way to free space.
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
        } = full(Maintenance::Manual, true);
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

fn stats_of(db: &Db, table: &str) -> TableStats {
    let mut tables = db.stats().tables.into_iter();
    tables.find(|of| of.name == table).unwrap()
}

/// Regression: a full disk refused truncations. Besides, a database with readers never becomes idle,
/// so it did not flush a truncation, and the files of the truncated table stayed.
#[test]
fn a_truncation_on_a_full_disk_gives_its_space_back_without_another_write() {
    must_end(|| {
        for maintenance in [Maintenance::Manual, Maintenance::Background] {
            let full = full(maintenance, false);
            let old = full.app.existing_table("old").unwrap();
            let are_gone = || {
                let left = stats_of(&full.db, "users").files;
                stats_of(&full.db, "old").files == 0 && files(&full.mem, ".sst").len() == left
            };
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let _stop = SetOnDrop(&stop);
                scope.spawn(|| {
                    while maintenance == Maintenance::Background && !stop.load(Ordering::Relaxed) {
                        assert!([0, 100].contains(&old.range::<&[u8], _>(..).count()));
                    }
                });
                old.truncate().unwrap();
                match maintenance {
                    Maintenance::Manual => assert!(are_gone()),
                    Maintenance::Background => until("the files to go", are_gone),
                }
            });
            full.table.put(b"k", b"3").unwrap();
        }
    });
}

/// Memtables are flushed oldest first, and a round of flushes ends at the first memtable for which
/// there is no space. A truncation in a later memtable must be flushed all the same, because it
/// frees space.
#[test]
fn a_truncation_is_flushed_though_memtables_before_it_do_not_fit() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let app = db.keyspace("app").unwrap();
    let [other, table] = ["other", "users"].map(|name| app.table(name, uncompressed()).unwrap());
    // More than a memtable takes, and more than is held back.
    let large = vec![7; 3 << 19];
    table.put(b"flushed", &large).unwrap();
    mem.set_capacity_bytes(Some(mem.used_bytes() + PLENTY_BYTES));
    db.flush().unwrap();
    assert!(is_held_back(&mem));
    for table in [&other, &table] {
        // Room for the log, not for an SSTable beside it.
        mem.set_capacity_bytes(Some(mem.used_bytes() + large.len() as u64 + 200));
        table.put(b"frozen", &large).unwrap();
    }
    let frozen = |name| stats_of(&db, name).frozen_memtables;
    assert_eq!((frozen("other"), frozen("users")), (1, 1));
    mem.set_capacity_bytes(Some(mem.used_bytes()));
    table.truncate().unwrap();
    assert_eq!((frozen("other"), frozen("users")), (1, 0));
    db.compact().unwrap();
    assert_eq!(stats_of(&db, "users").files, 0);
    db.flush().unwrap();
    assert_eq!(db.stats().maintenance_failure, None);
    assert_eq!(other.get(b"frozen").unwrap().unwrap(), large);
    assert_eq!(table.range::<&[u8], _>(..).count(), 0);
    db.verify().unwrap();
}

/// The flush of a memtable drops what a later truncation hides, but keeps what a snapshot still sees.
#[test]
fn a_snapshot_keeps_what_a_later_truncation_hides() {
    let mem = MemDisk::new();
    let (db, app, table) = open(manual(&mem), uncompressed());
    let room = |bytes: u64| mem.set_capacity_bytes(Some(mem.used_bytes() + bytes));
    let put = |key: &[u8]| {
        room(20_200);
        table.put(key, &[7; 20_000]).unwrap();
    };
    put(b"before");
    room(1000);
    app.create_snapshot("s").unwrap();
    put(b"after");
    room(200);
    table.truncate().unwrap();
    assert_eq!(stats_of(&db, "users").frozen_memtables, 3);
    mem.set_capacity_bytes(None);
    db.flush().unwrap();
    let file_bytes = stats_of(&db, "users").file_bytes;
    assert!((20_000..30_000).contains(&file_bytes), "{file_bytes}");
    drop((table, app, db));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let all = everything(&db).unwrap();
    assert!(all["app.users"].is_empty());
    assert!(all["app.users in s"].keys().eq([b"before"]));
}

/// While the disk is full, each truncation leaves one more memtable that is not flushed and that
/// reads must search. So the number of such truncations is limited.
#[test]
fn truncations_that_wait_for_space_are_refused_once_they_are_many() {
    let mem = MemDisk::new();
    let (db, app, table) = open(manual(&mem), uncompressed());
    let room = |bytes: u64| mem.set_capacity_bytes(Some(mem.used_bytes() + bytes));
    room(20_200);
    table.put(b"before", &[7; 20_000]).unwrap();
    room(1000);
    app.create_snapshot("s").unwrap();
    let refused = (0..1000).find_map(|_| {
        room(200);
        table.truncate().err()
    });
    let refused = refused.unwrap();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    let frozen = stats_of(&db, "users").frozen_memtables;
    assert!((10..100).contains(&frozen), "{frozen}");
    mem.set_capacity_bytes(None);
    table.truncate().unwrap();
    db.flush().unwrap();
    assert_eq!(stats_of(&db, "users").frozen_memtables, 0);
    let all = everything(&db).unwrap();
    assert!(all["app.users"].is_empty());
    assert!(all["app.users in s"].keys().eq([b"before"]));
}

/// CQL's catalog drops a keyspace in two steps: it writes a record that the keyspace is being
/// dropped, and then drops it. Both steps must succeed on a full disk.
#[test]
fn a_keyspace_is_dropped_on_a_full_disk_after_a_record_of_that() {
    let full = full(Maintenance::Manual, true);
    let mut record = WriteBatch::new();
    record.put(&full.table, b"app", b"dropping");
    let options = WriteOptions::default();
    full.db.write_freeing(record, options).unwrap();
    assert_eq!(get(&full.table, "app").unwrap(), "dropping");
    drop((full.table, full.app));
    full.db.drop_keyspace("app").unwrap();
    assert!(files(&full.mem, ".sst").is_empty());
}

/// Regression: log segments that were no longer needed stayed, because the disk had no space for
/// the manifest edit that removes them.
#[test]
fn a_full_disk_does_not_keep_the_log() {
    let Full { mem, db, table, .. } = full(Maintenance::Manual, true);
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

/// Regression: the file `RESERVE` consisted of zeros. On a file system with compression it took
/// hardly any space, so it held nothing back.
#[test]
fn the_reserve_has_random_bytes_and_one_with_others_is_replaced() {
    let mem = MemDisk::new();
    let flush = || {
        let (db, _app, table) = open(manual(&mem), TableOptions::default());
        mem.set_capacity_bytes(Some(mem.used_bytes() + PLENTY_BYTES));
        table.put(b"k", b"1").unwrap();
        db.flush().unwrap();
    };
    flush();
    let reserve = Path::new(DIR).join("RESERVE");
    let bytes = mem.read_all(&reserve).unwrap();
    let blocks: HashSet<&[u8]> = bytes.chunks(16).collect();
    assert_eq!(blocks.len(), bytes.len().div_ceil(16));
    for content in [vec![0; bytes.len()], bytes[..bytes.len() / 2].to_vec()] {
        mem.create(&reserve).unwrap().append(&content).unwrap();
        flush();
        assert!(mem.read_all(&reserve).unwrap() == bytes);
    }
}

/// On a disk with little free space, a reserve would take space that the database needs.
#[test]
fn no_reserve_is_held_on_a_small_disk() {
    let mem = MemDisk::new();
    mem.set_capacity_bytes(Some(2 << 20));
    let (db, _, table) = open(manual(&mem), Default::default());
    table.put(b"k", b"1").unwrap();
    db.flush().unwrap();
    assert!(!is_held_back(&mem));
}

//! The low-water mark: below it writes are refused, operations that free space work, and writes
//! resume by themselves.

use std::path::Path;

use crate::common::one_table::{get, open, uncompressed, write_run};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, ErrorKind, Maintenance, Options, SpaceUse, TableFiles};

const MARK_BYTES: u64 = 64 << 20;

fn options(mem: &MemDisk, maintenance: Maintenance) -> Options {
    Options {
        maintenance,
        low_water_bytes: MARK_BYTES,
        memtable_bytes: 256 << 20,
        file_bytes: 1 << 20,
        ..manual(mem)
    }
}

fn set_free(mem: &MemDisk, bytes: u64) {
    mem.set_capacity_bytes(Some(mem.used_bytes() + bytes));
}

fn free(mem: &MemDisk) -> u64 {
    mem.free_bytes(Path::new(DIR)).unwrap().unwrap()
}

fn assert_refused(error: Option<Error>) {
    let error = error.unwrap();
    assert!(matches!(error, Error::LowSpace { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
}

#[test]
fn below_the_mark_what_gives_space_back_works_and_nothing_else_is_taken() {
    for maintenance in [Maintenance::Manual, Maintenance::Background] {
        let mem = MemDisk::new();
        let db = Db::open(DIR, options(&mem, maintenance)).unwrap();
        let app = db.keyspace("app").unwrap();
        let [table, old] = ["users", "old"].map(|name| app.table(name, Default::default()));
        let (table, old) = (table.unwrap(), old.unwrap());
        table.put(b"k", b"1").unwrap();
        old.put(b"k", b"1").unwrap();
        app.create_snapshot("s").unwrap();
        set_free(&mem, MARK_BYTES - 1);
        db.flush().unwrap();
        assert!(db.health().starved.contains(&SpaceUse::Writes));
        assert_refused(table.put(b"k", b"2").err());
        assert_refused(app.create_snapshot("t").err());
        assert_refused(app.table("new", Default::default()).err());
        assert_refused(db.keyspace("new").err());
        assert_eq!(get(&table, "k").unwrap(), "1");
        app.table("users", Default::default()).unwrap();
        table.truncate().unwrap();
        app.drop_table("old").unwrap();
        app.delete_snapshot("s").unwrap();
        drop((table, old, app));
        db.drop_keyspace("app").unwrap();

        mem.set_capacity_bytes(None);
        let app = db.keyspace("app").unwrap();
        let table = app.table("users", Default::default()).unwrap();
        table.put(b"k", b"3").unwrap();
        assert!(!db.health().starved.contains(&SpaceUse::Writes));
        db.verify().unwrap();
    }
}

/// Regression: only a write could find out that there was space again.
#[test]
fn the_database_notices_without_a_write_that_there_is_space_again() {
    let mem = MemDisk::new();
    let (db, _, table) = open(options(&mem, Maintenance::Background), Default::default());
    for _ in 0..2 {
        set_free(&mem, MARK_BYTES - 1);
        db.flush().unwrap();
        assert_refused(table.put(b"k", b"1").err());
        assert_eq!(db.health().starved, [SpaceUse::Writes]);
        mem.set_capacity_bytes(None);
        until("the look at the free space", || {
            db.health().starved.is_empty()
        });
    }
    table.put(b"k", b"1").unwrap();
}

#[test]
fn writes_stop_before_the_free_space_falls_below_the_mark() {
    const WRITE_BYTES: u64 = 100_000;
    const LOOK_EVERY_BYTES: u64 = 1 << 20;
    let mem = MemDisk::new();
    let (db, _, table) = open(options(&mem, Maintenance::Manual), Default::default());
    set_free(&mem, MARK_BYTES + (8 << 20));
    let put = || table.put(b"k", &[7; WRITE_BYTES as usize]);
    let refused = (0..1000).find_map(|_| put().err());
    assert_refused(refused);
    let least = MARK_BYTES - LOOK_EVERY_BYTES - 2 * WRITE_BYTES;
    let most = MARK_BYTES + 2 * WRITE_BYTES;
    assert!((least..most).contains(&free(&mem)), "{}", free(&mem));
    // One write that is large enough is refused far above the mark.
    set_free(&mem, MARK_BYTES + (4 << 20));
    put().unwrap();
    assert_refused(table.put(b"k", &vec![7; 5 << 20]).err());
    // A flush looks for that write: otherwise the shortage would end and begin with each try.
    db.flush().unwrap();
    assert_eq!(db.health().starved, [SpaceUse::Writes]);
    put().unwrap();
    assert!(db.health().starved.is_empty());
}

#[test]
fn below_the_mark_a_merge_begins_only_if_it_gives_much_back() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem, Maintenance::Manual)).unwrap();
    let app = db.keyspace("app").unwrap();
    let [distinct, same] =
        ["distinct", "same"].map(|name| app.table(name, uncompressed()).unwrap());
    for run in 0..4 {
        write_run(&db, &distinct, 40 * run..40 * (run + 1));
        write_run(&db, &same, 0..20);
    }
    let runs = |table: usize| db.stats().tables[table].runs.len();
    set_free(&mem, MARK_BYTES / 2);
    assert!(matches!(db.compact(), Err(Error::DiskFull { .. })));
    assert_eq!((runs(0), runs(1)), (4, 1));
    set_free(&mem, 2 * MARK_BYTES);
    db.compact().unwrap();
    assert_eq!((runs(0), runs(1)), (1, 1));
    db.verify().unwrap();
}

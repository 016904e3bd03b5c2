//! Tables of snapshots read past the database; `model` reads many at random.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::common::{DIR, content, files, manual, one_table};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, DetachedOptions, DetachedTable, Error, FileSystem, Keyspace, Maintenance, Options,
    PinnedTable, Result, Table, TableOptions,
};

struct Fixture {
    mem: MemDisk,
    db: Db,
    keyspace: Keyspace,
    table: Table,
}

fn fixture() -> Fixture {
    let mem = MemDisk::new();
    let (db, keyspace, table) = one_table::open(manual(&mem), TableOptions::default());
    Fixture {
        mem,
        db,
        keyspace,
        table,
    }
}

/// Returns a fixture with the snapshot `s`, which has the value `then` at all keys.
fn with_snapshot() -> Fixture {
    let f = fixture();
    f.put_all("then");
    f.keyspace.create_snapshot("s").unwrap();
    f
}

impl Fixture {
    fn put_all(&self, value: &str) {
        for key in 0..100_u8 {
            self.table.put(&[key], value.as_bytes()).unwrap();
        }
    }

    fn pin(&self, snapshot: &str) -> PinnedTable {
        let snapshot = self.keyspace.snapshot(snapshot).unwrap();
        snapshot.table("users").unwrap().pin().unwrap()
    }
}

fn open(mem: &MemDisk, description: &str) -> Result<DetachedTable> {
    let options = DetachedOptions {
        disk: Arc::new(mem.clone()),
        ..DetachedOptions::default()
    };
    DetachedTable::open(description, options)
}

/// Returns the values in the table that the `description` of a pin names, in the order of their
/// keys; of equal neighbours only one. (A pin keeps the files of a snapshot's table for another
/// process.)
fn values(mem: &MemDisk, description: &str) -> Vec<String> {
    let table = open(mem, description).unwrap();
    let content = content(table.scan::<&[u8], _>(..)).unwrap();
    assert_eq!(content.len(), 100);
    let values = content.into_values();
    let mut values: Vec<_> = values.map(|v| String::from_utf8(v).unwrap()).collect();
    values.dedup();
    values
}

#[test]
fn what_is_in_memory_only_is_flushed_and_what_came_later_is_not_seen() {
    let f = with_snapshot();
    f.put_all("now");
    let pinned = f.pin("s");
    assert_eq!(values(&f.mem, pinned.description()), ["then"]);
    // Nothing that the snapshot sees is in memory any more: a second pin has
    // nothing to flush.
    let before = files(&f.mem, ".sst");
    f.put_all("later");
    let again = f.pin("s");
    assert_eq!(values(&f.mem, again.description()), ["then"]);
    assert_eq!(files(&f.mem, ".sst"), before);
}

#[test]
fn the_files_stay_until_the_pin_is_gone_whatever_becomes_of_table_and_snapshot() {
    let f = with_snapshot();
    let pinned = f.pin("s");
    let description = pinned.description().to_string();
    f.keyspace.delete_snapshot("s").unwrap();
    f.keyspace.drop_table("users").unwrap();
    let Fixture { mem, db, table, .. } = f;
    // A handle would keep the files of the dropped table.
    drop(table);
    db.flush().unwrap();
    assert_eq!(values(&mem, &description), ["then"]);

    drop(pinned);
    db.flush().unwrap();
    assert!(files(&mem, ".sst").is_empty());
    match open(&mem, &description) {
        Err(e @ Error::Io { .. }) => assert!(e.to_string().contains(".sst"), "{e}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dropped_table_is_pinned_as_its_snapshot_sees_it() {
    let f = with_snapshot();
    f.put_all("now");
    f.keyspace.drop_table("users").unwrap();
    let pinned = f.pin("s");
    assert_eq!(values(&f.mem, pinned.description()), ["then"]);
}

/// Regression: the pin of a dropped table whose snapshot had been deleted, too, left out the rows
/// in memory, without an error. No flush writes such a table.
#[test]
fn a_table_that_no_snapshot_keeps_is_not_pinned_without_its_rows_in_memory() {
    for older_run in [false, true] {
        let f = fixture();
        if older_run {
            f.put_all("older");
            f.db.flush().unwrap();
        }
        f.put_all("then");
        f.keyspace.create_snapshot("s").unwrap();
        let then = f.keyspace.snapshot("s").unwrap().table("users").unwrap();
        f.keyspace.drop_table("users").unwrap();
        f.keyspace.delete_snapshot("s").unwrap();
        assert_eq!(then.get(&[7]).unwrap().unwrap(), "then");
        match then.pin() {
            Err(Error::NotFound { what, name }) => {
                assert_eq!(
                    (what, &*name),
                    ("snapshot of the dropped table", "app.users")
                );
            }
            other => panic!("{older_run}: {other:?}"),
        }
    }
}

#[test]
fn a_table_that_no_snapshot_keeps_is_pinned_if_all_its_rows_are_in_files() {
    let f = with_snapshot();
    let then = f.keyspace.snapshot("s").unwrap().table("users").unwrap();
    f.db.flush().unwrap();
    f.put_all("now");
    f.keyspace.drop_table("users").unwrap();
    f.keyspace.delete_snapshot("s").unwrap();
    let pinned = then.pin().unwrap();
    assert_eq!(values(&f.mem, pinned.description()), ["then"]);
}

#[test]
fn an_invalid_description_is_an_error_that_names_it() {
    let f = with_snapshot();
    let pinned = f.pin("s");
    let good = pinned.description();
    let bad = [
        String::new(),
        "{}".to_string(),
        good[..good.len() / 2].to_string(),
        good.replace("\"format_version\":7", "\"format_version\":8"),
        good.replace("\"files\":[", "\"files\":[],\"was\":["),
    ];
    for bad in bad {
        assert_ne!(bad, good);
        match open(&f.mem, &bad) {
            Err(e @ Error::InvalidRequest(_)) => {
                assert!(e.to_string().contains("describes no table"), "{e}");
            }
            other => panic!("{bad}: {other:?}"),
        }
    }
}

/// Regression: a database that was opened again continued the numbers of files behind the largest
/// number that the manifest named, so numbers of removed files were used again. A pin that had
/// outlived its files led to files of another table, and read nothing in them.
#[test]
fn a_pin_that_is_gone_never_leads_to_files_of_another_table() {
    let f = with_snapshot();
    let description = f.pin("s").description().to_string();
    f.keyspace.delete_snapshot("s").unwrap();
    f.keyspace.drop_table("users").unwrap();
    let mem = f.mem.clone();
    drop(f);
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let other = db.existing_keyspace("app").unwrap();
    let other = other.table("other", TableOptions::default()).unwrap();
    for run in 0..9_u8 {
        other.put(&[run], b"now").unwrap();
        db.flush().unwrap();
    }
    assert!(!files(&mem, ".sst").is_empty());
    match open(&mem, &description) {
        Err(Error::Io { source, .. }) => assert_eq!(source.kind(), ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
}

/// A database that was restored in the place of another one has files of the same
/// numbers with other content.
#[test]
fn a_pin_is_of_one_database_and_of_no_copy_in_its_place() {
    let f = with_snapshot();
    let pinned = f.pin("s");
    let copy = std::path::Path::new("/copy");
    f.db.backup(copy).unwrap();
    assert_eq!(values(&f.mem, pinned.description()), ["then"]);
    let description = pinned.description().to_string();
    let mem = f.mem.clone();
    drop((pinned, f));
    for path in mem.list(DIR.as_ref()).unwrap() {
        mem.remove(&path).unwrap();
    }
    for path in mem.list(copy).unwrap() {
        let bytes = mem.read_all(&path).unwrap();
        let to = std::path::Path::new(DIR).join(path.file_name().unwrap());
        mem.create(&to).unwrap().append(&bytes).unwrap();
    }
    match open(&mem, &description) {
        Err(Error::InvalidRequest(message)) => {
            let names_both = message.contains("app.users") && message.contains("pin it again");
            assert!(names_both && message.contains(DIR), "{message}");
        }
        other => panic!("{other:?}"),
    }
    // What is pinned there is read.
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    let table = keyspace.snapshot("s").unwrap().table("users").unwrap();
    let pinned = table.pin().unwrap();
    assert_eq!(values(&mem, pinned.description()), ["then"]);
}

#[test]
fn a_table_on_the_real_disk_is_read_while_its_database_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        maintenance: Maintenance::Background,
        ..Options::default()
    };
    let (_db, keyspace, table) = one_table::open_at(dir.path(), options, TableOptions::default());
    table.put(b"k", b"then").unwrap();
    keyspace.create_snapshot("s").unwrap();
    table.put(b"k", b"now").unwrap();
    let pinned = keyspace.snapshot("s").unwrap().table("users").unwrap();
    let pinned = pinned.pin().unwrap();
    let detached = DetachedTable::open(pinned.description(), Default::default()).unwrap();
    assert_eq!(detached.get(b"k").unwrap().unwrap(), "then");
    assert_eq!(table.get(b"k").unwrap().unwrap(), "now");
}

//! Databases of one table, with values read as text.

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, Durability, Error, Keyspace, Options, SsTableOptions, Table, TableOptions,
};

use super::{Content, DIR, content, manual};

pub fn table_options(sstable: SsTableOptions) -> TableOptions {
    TableOptions {
        sstable,
        ..TableOptions::default()
    }
}

pub fn uncompressed() -> TableOptions {
    table_options(SsTableOptions {
        compression: Compression::None,
        ..SsTableOptions::default()
    })
}

/// Creates a database with one table, and with small files, blocks and log segments.
pub fn small(mem: &MemDisk, durability: Durability) -> (Db, Table) {
    let options = Options {
        durability,
        file_bytes: 1 << 10,
        wal_segment_bytes: 1 << 10,
        ..manual(mem)
    };
    let sstable = SsTableOptions {
        block_bytes: 256,
        ..SsTableOptions::default()
    };
    let (db, _, table) = open(options, table_options(sstable));
    (db, table)
}

pub fn merging(operator: &str) -> TableOptions {
    TableOptions {
        merge_operator: Some(operator.into()),
        ..TableOptions::default()
    }
}

pub fn open(options: Options, table: TableOptions) -> (Db, Keyspace, Table) {
    open_at(DIR, options, table)
}

/// Opens a database with one table in the directory `dir`.
pub fn open_at(
    dir: impl AsRef<Path>,
    options: Options,
    table: TableOptions,
) -> (Db, Keyspace, Table) {
    let db = Db::open(dir, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", table).unwrap();
    (db, keyspace, table)
}

/// Returns the table of [`open`], which must exist.
pub fn users(db: &Db) -> Table {
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.existing_table("users").unwrap()
}

pub fn text(value: Option<ebb_storage::Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

pub fn get(table: &Table, key: &str) -> Option<String> {
    text(table.get(key.as_bytes()).unwrap())
}

pub fn rows(table: &Table) -> Content {
    content(table.range::<&[u8], _>(..)).unwrap()
}

/// Reads all rows forwards, backwards and one by one, asserts that the results are equal, and
/// returns the rows as "k=v k=v".
pub fn all(table: &Table) -> String {
    let forward = rows(table);
    let backward: Result<Vec<_>, Error> = table.range::<&[u8], _>(..).rev().collect();
    let mut backward = backward.unwrap();
    backward.reverse();
    assert!(
        backward
            .iter()
            .map(|(k, v)| (&k[..], &v[..]))
            .eq(forward.iter().map(|(k, v)| (&k[..], &v[..])))
    );
    for (key, value) in &forward {
        assert_eq!(table.get(key).unwrap().unwrap(), value[..]);
    }
    shown(&forward)
}

/// Returns the rows as "k=v k=v".
pub fn shown(rows: &Content) -> String {
    let show = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        format!("{}={}", key.escape_ascii(), value.escape_ascii())
    };
    rows.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// Puts values of 1000 equal bytes under the `keys`, as big-endian numbers, and flushes them to a run.
pub fn write_run(db: &Db, table: &Table, keys: Range<u32>) {
    for key in keys {
        table.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
    }
    db.flush().unwrap();
}

pub fn refused<T: Debug>(result: Result<T, Error>, parts: &[&str]) {
    let error = result.unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::InvalidRequest(_)), "{message}");
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

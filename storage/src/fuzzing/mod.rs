//! Every decoder of bytes from disk, as a function that takes any bytes.
//!
//! Each function checks what the formats promise: no bytes, however damaged, make the decoder
//! panic, loop, or allocate out of proportion; and what decodes comes back the
//! same. Checksums stop nearly all random bytes, so each function also takes
//! the bytes with their checksums made right.
//!
//! `storage/fuzz` drives them with libFuzzer; the tests here run the saved
//! corpora, and seeded mutations of them, with every `cargo test`.

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::commit::OpReader;
use crate::file_system::FileSystem;
use crate::key::SeqNo;
use crate::options::{Maintenance, Options};
use crate::simulation::MemDisk;
use crate::{Db, Error, varint};

pub use crate::manifest::fuzzing::{current, edit, manifest};
pub use crate::sstable::fuzzing::{
    block, filter, footer, properties, sstable, stored_block, tombstone_block,
};
pub use crate::wal::fuzzing::wal_segment;

/// A fuzz target: decodes arbitrary bytes. It panics only if it finds a bug.
pub type Target = fn(&[u8]);

/// All fuzz targets, each with the name of its corpus, the folder of its saved inputs.
pub const TARGETS: &[(&str, Target)] = &[
    ("block", block),
    ("commit", commit),
    ("current", current),
    ("database", database),
    ("edit", edit),
    ("filter", filter),
    ("footer", footer),
    ("manifest", manifest),
    ("properties", properties),
    ("sstable", sstable),
    ("stored_block", stored_block),
    ("tombstone_block", tombstone_block),
    ("varint", varint),
    ("wal_segment", wal_segment),
];

/// Decodes varints one after the other. Checks that each takes 1 to 10 bytes, and that its value,
/// encoded again, is decoded to the same value and takes no more bytes.
pub fn varint(bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let Some(value) = varint::get(bytes, &mut at) else {
            return;
        };
        assert!((1..=10).contains(&(at - start)));
        let mut out = Vec::new();
        varint::put(&mut out, value);
        assert_eq!(varint::get(&out, &mut 0), Some(value));
        assert!(out.len() <= at - start, "the shortest form is written");
    }
}

/// Decodes the operations of a commit. The first 8 bytes are the commit's first sequence number (little
/// endian); the payload follows. Checks that the operations have consecutive numbers, and that none follows
/// an error.
pub fn commit(bytes: &[u8]) {
    let Some((first, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let payload = Bytes::copy_from_slice(payload);
    let (mut expected, mut failed) = (Some(u64::from_le_bytes(*first)), false);
    let mut operations = 0;
    for item in OpReader::new(&payload, SeqNo(u64::from_le_bytes(*first))) {
        assert!(!failed, "an operation after an error");
        match item {
            Ok((seq, _)) => {
                assert_eq!(Some(seq.0), expected);
                expected = seq.0.checked_add(1);
            }
            Err(_) => failed = true,
        }
        operations += 1;
        assert!(operations <= bytes.len(), "an operation takes no bytes");
    }
}

/// Replaces the content of one file of a database, then opens the database, reads all of it, writes
/// to it and opens it again. The first byte selects the file, the other bytes are its content. Does
/// this twice: with these bytes, and with the same bytes after their checksums were corrected. Each
/// step may return an error, but none may panic. The only I/O error allowed is a missing file.
pub fn database(bytes: &[u8]) {
    let Some((&which, content)) = bytes.split_first() else {
        return;
    };
    static BASE: OnceLock<MemDisk> = OnceLock::new();
    for repaired in [false, true] {
        let disk = BASE.get_or_init(small_database).fork();
        let mut files = disk.list(Path::new(DIR)).expect("it was made");
        files.retain(|path| !path.ends_with("LOCK"));
        files.sort();
        let path = &files[usize::from(which) % files.len()];
        let mut content = content.to_vec();
        if repaired {
            match path.extension().and_then(|e| e.to_str()) {
                Some("sst") => crate::sstable::fuzzing::reseal(&mut content),
                Some("log") => crate::wal::fuzzing::reseal(&mut content),
                _ => crate::manifest::fuzzing::reseal(&mut content),
            }
        }
        let mut file = disk.create(path).expect("there is room");
        file.append(&content).expect("there is room");
        drop(file);
        let used = read_and_write(&disk);
        if let Err(Error::Io { source, .. }) = &used {
            // A file may be missing whose number a damaged manifest names.
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound, "{used:?}");
        }
    }
}

const DIR: &str = "/db";

fn options(disk: &MemDisk) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        cache_bytes: 0,
        disk: Arc::new(disk.clone()),
        ..Options::default()
    }
}

/// Returns a disk with a database of two tables, with runs, a log and a snapshot.
fn small_database() -> MemDisk {
    let disk = MemDisk::new();
    let db = Db::open(DIR, options(&disk)).expect("a new database opens");
    let app = db.keyspace("app").expect("a new keyspace");
    let tables = ["a", "b"].map(|name| {
        let table = app.table(name, Default::default());
        table.expect("a new table")
    });
    for round in 0..3 {
        for (i, table) in tables.iter().enumerate() {
            for key in 0..5 {
                let value = format!("{round} {i} {key}").repeat(3);
                let key = format!("key-{key}");
                table.put(key.as_bytes(), value.as_bytes()).expect("a put");
            }
            table.delete(b"key-3").expect("a delete");
            let range = table.delete_range::<&[u8], _>(b"key-1".as_slice()..b"key-2".as_slice());
            range.expect("a range delete");
        }
        match round {
            0 => db.flush().expect("a flush"),
            // Only over an older run does a range tombstone stay.
            1 => {
                app.create_snapshot("s").expect("a snapshot");
                db.flush().expect("a flush");
            }
            _ => {}
        }
    }
    drop((db, app, tables));
    disk
}

fn read_and_write(disk: &MemDisk) -> crate::Result<()> {
    let db = Db::open(DIR, options(disk))?;
    for keyspace in db.keyspaces() {
        let keyspace = db.existing_keyspace(&keyspace)?;
        for name in keyspace.tables() {
            let table = keyspace.existing_table(&name)?;
            let ascending = table
                .range::<&[u8], _>(..)
                .collect::<crate::Result<Vec<_>>>();
            let descending = table
                .range::<&[u8], _>(..)
                .rev()
                .collect::<crate::Result<Vec<_>>>();
            drop((ascending, descending));
            table.get(b"key-1").ok();
            table.put(b"key-1", b"new")?;
        }
        for snapshot in keyspace.snapshots() {
            let snapshot = keyspace.snapshot(&snapshot.name)?;
            for name in snapshot.tables() {
                if let Ok(table) = snapshot.table(name) {
                    table.range::<&[u8], _>(..).for_each(drop);
                }
            }
        }
    }
    db.verify().ok();
    db.flush()?;
    db.compact()?;
    drop(db);
    Db::open(DIR, options(disk)).map(drop)
}

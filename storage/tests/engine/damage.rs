//! Bytes that rot: every bit of a small database flipped, every file cut at every
//! length.

use std::path::Path;

use crate::common::one_table::small;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Durability, Error, Options};

/// Returns a database with every kind of file and a snapshot, and its content. The log has several
/// segments with commits that are not flushed.
fn small_database() -> (MemDisk, Everything) {
    let mem = MemDisk::new();
    let (db, users) = small(&mem, Durability::Sync);
    for round in 0..3 {
        for i in 0..12 {
            let value = format!("value {round} of {i}");
            let key = format!("key{i:02}");
            users.put(key.as_bytes(), value.as_bytes()).unwrap();
        }
        users.delete(format!("key{round:02}").as_bytes()).unwrap();
        match round {
            0 => db
                .existing_keyspace("app")
                .unwrap()
                .create_snapshot("s")
                .unwrap(),
            1 => db.flush().unwrap(),
            _ => {}
        }
    }
    for i in 0..30 {
        users.put(b"key05", format!("{i}").as_bytes()).unwrap();
    }
    let state = everything(&db).unwrap();
    (mem, state)
}

/// Returns the same as [`small_database`], but after a restart and a flush, so that the log is
/// empty.
fn small_flushed_database() -> (MemDisk, Everything) {
    let (mem, expected) = small_database();
    let (db, _table) = small(&mem, Durability::Sync);
    db.flush().unwrap();
    db.compact().unwrap();
    (mem, expected)
}

/// Returns all files of the database except its lock file, which has no content to be damaged.
fn all_files(mem: &MemDisk) -> Vec<std::path::PathBuf> {
    let mut all = files(mem, "");
    all.retain(|path| path != &Path::new(DIR).join("LOCK"));
    all
}

/// Returns whether the database has a second file with the same content as the one at `path`.
fn has_a_copy(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.contains("CURRENT") || name.contains("MANIFEST")
}

/// Opens and reads a damaged database; the error must name a file of it.
fn read_damaged(mem: &MemDisk) -> Result<Everything, Error> {
    let options = Options {
        cache_bytes: 0,
        ..manual(mem)
    };
    let outcome = Db::open(DIR, options).and_then(|db| everything(&db));
    if let Err(e) = &outcome {
        let path = match e {
            Error::Corruption { path, .. }
            | Error::Io { path, .. }
            | Error::UnsupportedFormat { path, .. } => path,
            e => panic!("{e}"),
        };
        assert!(path.starts_with(DIR), "{e}");
    }
    outcome
}

/// Returns the states of the database when the last records of the log are lost. Damage to the last
/// segment alone cannot be distinguished from a torn tail, so these states are allowed.
fn states_of_a_torn_tail(mem: &MemDisk) -> Vec<Everything> {
    let last = files(mem, ".log").pop().unwrap();
    let mut states = Vec::new();
    for len in (0..=mem.file_len(&last).unwrap()).rev() {
        let cut = copy(mem);
        cut.cut(&last, len).unwrap();
        let state = read_damaged(&cut).unwrap();
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

#[test]
fn one_flipped_bit_anywhere_is_found_or_harmless() {
    for (mem, expected) in [small_database(), small_flushed_database()] {
        flip_one_bit_anywhere(&mem, &expected);
    }
}

fn flip_one_bit_anywhere(mem: &MemDisk, expected: &Everything) {
    let torn = states_of_a_torn_tail(mem);
    assert!(torn[0] == *expected);
    let (last_wal, mut refused, mut harmless) = (files(mem, ".log").pop().unwrap(), 0, 0);
    for path in all_files(mem) {
        for byte in 0..mem.file_len(&path).unwrap() {
            let bit = (byte % 8) as u8;
            let damaged = copy(mem);
            damaged.flip_bit(&path, byte, bit).unwrap();
            let place = format!("bit {bit} of byte {byte} of {}", path.display());
            match read_damaged(&damaged) {
                Ok(found) if has_a_copy(&path) => assert_eq!(found, *expected, "{place}"),
                Err(error) if has_a_copy(&path) => panic!("{place}: {error}"),
                Err(_) => refused += 1,
                Ok(found) if found == *expected => harmless += 1,
                // Only the very last record: no later record proves that it was durable.
                Ok(found) if path == last_wal => assert!(found == torn[1], "{place}"),
                Ok(found) => assert_eq!(found, *expected, "{place}"),
            }
        }
    }
    assert!(
        refused > 5 * harmless,
        "{refused} refused, {harmless} harmless"
    );
}

#[test]
fn a_file_cut_at_any_length_is_found_or_harmless() {
    for (mem, expected) in [small_database(), small_flushed_database()] {
        cut_at_any_length(&mem, &expected);
    }
}

fn cut_at_any_length(mem: &MemDisk, expected: &Everything) {
    let torn = states_of_a_torn_tail(mem);
    let last_wal = files(mem, ".log").pop().unwrap();
    for path in all_files(mem) {
        for len in 0..mem.file_len(&path).unwrap() {
            let damaged = copy(mem);
            damaged.cut(&path, len).unwrap();
            match read_damaged(&damaged) {
                Err(error) if has_a_copy(&path) => panic!("{}: {error}", path.display()),
                Err(_) => {}
                Ok(found) if found == *expected => {}
                Ok(found) if path == last_wal => assert!(torn.contains(&found)),
                Ok(found) => {
                    assert_eq!(found, *expected, "{} cut to {len} bytes", path.display());
                }
            }
        }
    }
}

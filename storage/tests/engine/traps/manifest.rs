//! Damage to the manifest that looks like a torn end.

use std::path::{Path, PathBuf};

use super::*;

fn manifest(mem: &MemDisk) -> PathBuf {
    let mut manifests = files(mem, "");
    manifests.retain(|path| path.to_string_lossy().contains("MANIFEST"));
    manifests.pop().unwrap()
}

/// Opens with each byte below `end` damaged: the manifest has to be named.
fn assert_damage_is_named(mem: &MemDisk, manifest: &Path, end: u64) {
    for byte in 0..end {
        let bit = (byte % 8) as u8;
        mem.flip_bit(manifest, byte, bit).unwrap();
        match Db::open(DIR, options(mem)) {
            Err(Error::Corruption { path, .. } | Error::UnsupportedFormat { path, .. }) => {
                assert_eq!(path, manifest);
            }
            other => panic!("bit {bit} of byte {byte}: {other:?}"),
        }
        mem.flip_bit(manifest, byte, bit).unwrap();
    }
}

/// A crash tears the last edit of the manifest at most. An edit that does not read
/// and has others behind it was in force: a database that goes on before it has
/// lost files without a word.
#[test]
fn damage_to_an_edit_of_the_manifest_does_not_pass_for_a_torn_one() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    let mut before_last = 0;
    for value in [b"1", b"2"] {
        table.put(b"k", value).unwrap();
        before_last = mem.file_len(manifest(&mem)).unwrap();
        db.flush().unwrap();
    }
    drop((db, keyspace, table));
    assert_damage_is_named(&mem, &manifest(&mem), before_last);
    let (_db, _keyspace, table) = open(&mem);
    assert_eq!(table.get(b"k").unwrap().unwrap(), "2");
}

/// Dropping a table was the last edit of the manifest, with nothing behind it.
/// Damaged, it passed for one that a crash tore, and the table was there again;
/// one that was created last was gone.
#[test]
fn damage_to_what_the_manifest_says_of_tables_does_not_pass_for_a_torn_edit() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    for drops in [false, true] {
        match drops {
            false => drop(keyspace.table("mails", TableOptions::default()).unwrap()),
            true => keyspace.drop_table("mails").unwrap(),
        }
        let copy = mem.fork();
        let manifest = manifest(&copy);
        let end = copy.file_len(&manifest).unwrap();
        copy.restart(7);
        assert_damage_is_named(&copy, &manifest, end);
    }
    drop((db, keyspace, table));
    let (_db, keyspace, _table) = open(&mem);
    assert_eq!(keyspace.tables(), ["users"]);
}

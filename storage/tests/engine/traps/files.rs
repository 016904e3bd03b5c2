//! Files that are removed too early, or never.

use super::*;

/// A merge makes the files that it replaced obsolete. They must stay while a reader that began
/// before the merge uses them, and be removed after that.
#[test]
fn files_stay_for_open_readers_and_go_after_the_last_one() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    let write = |value: &str| {
        for i in 0..200 {
            let key = format!("{i:03}");
            table.put(key.as_bytes(), value.as_bytes()).unwrap();
        }
        db.flush().unwrap();
    };
    write("first");
    keyspace.create_snapshot("s").unwrap();
    let snapshot = keyspace.snapshot("s").unwrap();
    // A second reader at the commit of the snapshot. Its end, between the merges, must not release
    // the versions that `snapshot` still reads.
    let view = db.view();
    let mut range = table.range::<&[u8], _>(..);
    // In both directions the range has read a part of the files when a merge replaces them.
    assert_eq!(range.next().unwrap().unwrap().1, "first");
    assert_eq!(range.next_back().unwrap().unwrap().1, "first");
    let before = files(&mem, ".sst");

    keyspace.delete_snapshot("s").unwrap();
    write("second");
    db.compact().unwrap();
    drop(view);
    write("third");
    db.compact().unwrap();
    assert_is!(keyspace.snapshot("s"), Err(Error::NotFound { .. }));

    // The iterator needs the old files, the snapshot its versions in new ones.
    for path in &before {
        assert!(mem.exists(path).unwrap(), "{} is gone", path.display());
    }
    assert!(files(&mem, ".sst").len() > files_in_use(&db));
    let rest: Vec<_> = range.by_ref().map(|entry| entry.unwrap().1).collect();
    assert!(rest.len() == 198 && rest.iter().all(|value| value == "first"));
    let found = snapshot.table("users").unwrap().get(b"100").unwrap();
    assert_eq!(found.unwrap(), "first");

    // Readers never remove files themselves: the next maintenance does.
    drop(range);
    db.compact().unwrap();
    for path in &before {
        assert!(!mem.exists(path).unwrap(), "{} is left", path.display());
    }
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    drop(snapshot);
    write("fourth");
    db.compact().unwrap();
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    assert_eq!(db.stats().tables[0].versions, 200);
}

/// Regression: dropping an iterator removed the obsolete files that it had read, by name. An
/// iterator was still open when its database was closed and opened again. The new opening used the
/// file numbers again, so dropping the iterator removed one of its files. Now the database stays
/// locked while the iterator exists.
#[test]
fn files_of_a_later_opening_are_not_removed_by_an_iterator_of_an_earlier_one() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    table.put(b"a", b"").unwrap();
    table.put(b"z", b"").unwrap();
    db.flush().unwrap();
    let range = table.range::<&[u8], _>(..);
    // Nothing is left of the only run: no number stands in the manifest.
    for key in "abcdefghijklmnopqrstuvwxyz".as_bytes().chunks(1) {
        table.delete(key).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(files_in_use(&db), 0);
    drop((db, keyspace, table));
    assert_is!(Db::open(DIR, options(&mem)), Err(Error::Locked { .. }));
    drop(range);
    let (db, _keyspace, table) = open(&mem);
    table.put(b"k", b"again").unwrap();
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    assert_eq!(get(&table, "k").as_deref(), Some("again"));
}

//! Damage to the manifest and to CURRENT. There are two copies of each.

use std::path::{Path, PathBuf};

use super::*;

fn named(mem: &MemDisk, part: &str) -> Vec<PathBuf> {
    let mut found = files(mem, "");
    found.retain(|path| path.to_string_lossy().contains(part));
    found
}

/// Returns the paths of both copies of CURRENT, then of both copies of the manifest.
fn copies(mem: &MemDisk) -> [PathBuf; 4] {
    let copies = [named(mem, "CURRENT"), named(mem, "MANIFEST")].concat();
    copies.try_into().unwrap()
}

fn assert_copies_are_equal(mem: &MemDisk) {
    let contents = copies(mem).map(|path| mem.read_all(path).unwrap());
    assert!(contents[0] == contents[1] && contents[2] == contents[3]);
}

fn write(mem: &MemDisk, path: &Path, bytes: &[u8]) {
    mem.create(path).unwrap().append(bytes).unwrap();
}

/// Regression: damage to one of the two copies of CURRENT or of the manifest kept the database from
/// opening, or cost the last edit of the manifest.
#[test]
fn damage_to_one_copy_of_the_manifest_or_of_current_costs_nothing() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    for value in [b"1", b"2"] {
        table.put(b"k", value).unwrap();
        db.flush().unwrap();
    }
    keyspace.create_snapshot("s").unwrap();
    for name in ["mails", "posts"] {
        keyspace.table(name, TableOptions::default()).unwrap();
    }
    keyspace.drop_table("mails").unwrap();
    let expected = everything(&db).unwrap();
    drop((db, keyspace, table));
    assert_copies_are_equal(&mem);

    let survives = |path: &Path, damage: &dyn Fn(&MemDisk)| {
        let _at = FailedAt(path.display().to_string());
        let damaged = mem.fork();
        damage(&damaged);
        assert!(Db::exists(DIR, &options(&damaged)).unwrap());
        let db = Db::open_read_only(DIR, options(&damaged)).unwrap();
        assert!(everything(&db).unwrap() == expected);
        drop(db);
        let db = Db::open(DIR, options(&damaged)).unwrap();
        assert!(everything(&db).unwrap() == expected);
        drop(db);
        assert_copies_are_equal(&damaged);
    };
    for path in &copies(&mem) {
        let len = mem.file_len(path).unwrap();
        // The gate takes all bytes of CURRENT and about 200 of the manifest. An odd stride gives each
        // bit its turn.
        let stride = if explores() { 1 } else { (len / 200) | 1 };
        for (i, byte) in (0..len).step_by(stride as usize).enumerate() {
            let _at = FailedAt(format!("byte {byte}"));
            let bit = (byte % 8) as u8;
            survives(path, &|disk| disk.flip_bit(path, byte, bit).unwrap());
            if i % 3 == 0 {
                survives(path, &|disk| disk.cut(path, byte).unwrap());
            }
        }
        survives(path, &|disk| disk.remove(path).unwrap());
    }
}

/// Regression: a verification of an open database did not read the copies of CURRENT and of the
/// manifest, so it found nothing wrong with a database that the next opening refused.
#[test]
fn a_verification_of_an_open_database_finds_damage_to_any_copy() {
    let mem = MemDisk::new();
    let (db, _, table) = open(&mem);
    for value in [b"1", b"2"] {
        table.put(b"k", value).unwrap();
        db.flush().unwrap();
    }
    let findings = || db.verify_all(|_| ()).unwrap().findings;
    assert_eq!(findings(), []);
    let assert_found = |path: &Path| {
        let found = findings();
        assert!(found.iter().any(|found| found.path == path), "{found:?}");
    };
    for path in &copies(&mem) {
        let _at = FailedAt(path.display().to_string());
        let bytes = mem.read_all(path).unwrap();
        let len = bytes.len() as u64;
        for byte in (0..len).step_by(7).chain([len - 1]) {
            let _at = FailedAt(format!("byte {byte}"));
            mem.flip_bit(path, byte, (byte % 8) as u8).unwrap();
            assert_found(path);
            mem.flip_bit(path, byte, (byte % 8) as u8).unwrap();
        }
        mem.cut(path, len - 1).unwrap();
        assert_found(path);
        mem.remove(path).unwrap();
        assert_found(path);
        write(&mem, path, &bytes);
        assert_eq!(findings(), []);
    }
}

/// Regression: damage to a copy of CURRENT made it name the manifest that the next opening would
/// write. If the power failed when the opening had written only a part of that manifest, CURRENT
/// named a torn file.
#[test]
fn power_lost_while_damage_to_one_copy_is_repaired_costs_nothing() {
    let mem = MemDisk::new();
    drop(open(&mem));
    let [current, current_copy, manifest, manifest_copy] = copies(&mem);
    let next = b"MANIFEST-000002\n";
    assert!(manifest.ends_with("MANIFEST-000001"));
    let damages: [&dyn Fn(&MemDisk); 6] = [
        &|disk| write(disk, &current, next),
        &|disk| write(disk, &current_copy, next),
        &|disk| disk.remove(&current).unwrap(),
        &|disk| disk.cut(&current_copy, 9).unwrap(),
        &|disk| disk.remove(&manifest).unwrap(),
        &|disk| disk.cut(&manifest_copy, 40).unwrap(),
    ];
    for (i, damage) in damages.iter().enumerate() {
        for call in 1.. {
            let _at = FailedAt(format!("damage {i}, call {call}"));
            let damaged = mem.fork();
            damage(&damaged);
            // All of it is durable.
            let damaged = damaged.fork();
            damaged.crash_at(call);
            let opened = Db::open(DIR, options(&damaged));
            let has_power = damaged.has_power();
            drop(opened);
            damaged.restart(call);
            let db = Db::open(DIR, options(&damaged)).unwrap();
            assert_eq!(db.existing_keyspace("app").unwrap().tables(), ["users"]);
            drop(db);
            assert_copies_are_equal(&damaged);
            if has_power {
                break;
            }
        }
    }
}

/// If a part of an edit for which there is no space stayed in one copy, the next edit would follow
/// a torn one, or the edit would take effect although the other copy lacks it.
#[test]
fn an_edit_that_finds_no_space_is_in_neither_copy() {
    for free_bytes in 0.. {
        let _at = FailedAt(format!("{free_bytes} bytes"));
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(&mem);
        mem.set_capacity_bytes(Some(mem.used_bytes() + free_bytes));
        let outcome = db.keyspace("refused").map(drop);
        mem.set_capacity_bytes(None);
        assert_copies_are_equal(&mem);
        if outcome.is_ok() {
            // The space has ended at every byte of the edit, in the first copy and in the second.
            assert!(free_bytes > 60, "{free_bytes}");
            break;
        }
        assert_is!(outcome, Err(Error::DiskFull { .. }));
        let later = db.keyspace("later").unwrap();
        lose_power(&mem, (db, keyspace, table, later), free_bytes);
        let db = Db::open(DIR, options(&mem)).unwrap();
        assert_eq!(db.keyspaces(), ["app", "later"]);
    }
}

/// A crash can tear only the last edit of the manifest. If other edits follow an edit, it had taken
/// effect, so damage to it is an error: a database that ignored this edit and the later ones would
/// lose files silently.
#[test]
fn damage_to_an_edit_of_the_manifest_does_not_pass_for_a_torn_one() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    let [.., first, second] = copies(&mem);
    let mut before_last = 0;
    for value in [b"1", b"2"] {
        table.put(b"k", value).unwrap();
        before_last = mem.file_len(&first).unwrap();
        db.flush().unwrap();
    }
    drop((db, keyspace, table));
    for byte in 0..before_last {
        let bit = (byte % 8) as u8;
        let flip = || [&first, &second].map(|path| mem.flip_bit(path, byte, bit).unwrap());
        flip();
        match Db::open(DIR, options(&mem)) {
            Err(Error::Corruption { path, .. } | Error::UnsupportedFormat { path, .. }) => {
                assert_eq!(path, first);
            }
            other => panic!("bit {bit} of byte {byte}: {other:?}"),
        }
        flip();
    }
    let (_db, _keyspace, table) = open(&mem);
    assert_eq!(table.get(b"k").unwrap().unwrap(), "2");
}

/// One of the two copies of the manifest is replaced by one from a fork of the database. If an
/// opening used the wrong copy, it would remove the files that only the right one names.
#[test]
fn copies_of_the_manifest_that_contradict_each_other_are_refused_with_nothing_removed() {
    let mem = MemDisk::new();
    drop(open(&mem));
    let other = mem.fork();
    for (mem, name) in [(&mem, "mails"), (&other, "posts")] {
        let (db, keyspace, table) = open(mem);
        keyspace.table(name, TableOptions::default()).unwrap();
        table.put(b"k", name.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    let [.., first, second] = copies(&mem);
    let right = mem.read_all(&second).unwrap();
    write(&mem, &second, &other.read_all(&second).unwrap());
    let orphan = Path::new(DIR).join("000099.sst");
    write(&mem, &orphan, b"an orphan");
    let before = files(&mem, "");
    for _ in 0..2 {
        let error = Db::open(DIR, options(&mem)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Corruption { path, .. } if path == second));
        assert!(text.contains(&first.display().to_string()), "{text}");
        assert_eq!(files(&mem, ""), before);
    }
    write(&mem, &second, &right);
    let (_db, keyspace, table) = open(&mem);
    assert_eq!(keyspace.tables(), ["mails", "users"]);
    assert_eq!(get(&table, "k").unwrap(), "mails");
    assert!(!mem.exists(&orphan).unwrap());
}

/// An older manifest does not name the files that later flushes wrote, and the log segments with
/// the flushed writes are gone. So an opening with such a manifest must fail.
#[test]
fn an_older_manifest_is_refused_behind_a_trimmed_log() {
    let mem = MemDisk::new();
    let small = || Options {
        wal_segment_bytes: 4 << 10,
        ..options(&mem)
    };
    let (db, keyspace, table) = open_with(small());
    let [.., first, second] = copies(&mem);
    for i in 0..20_u8 {
        table.put(b"k", &[i; 1000]).unwrap();
    }
    let (older, segments) = (mem.read_all(&first).unwrap(), files(&mem, ".log"));
    db.flush().unwrap();
    drop((db, keyspace, table));
    assert!(files(&mem, ".log").len() < segments.len());
    let whole = mem.read_all(&second).unwrap();

    mem.remove(&second).unwrap();
    write(&mem, &first, &older);
    let before = files(&mem, "");
    let refused = Db::open(DIR, small()).unwrap_err();
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    assert_is!(refused, Error::Corruption { path, .. } if is_log(&path));
    assert_eq!(files(&mem, ""), before);
    // The copy that reads further counts.
    write(&mem, &second, &whole);
    let (_db, _keyspace, table) = open_with(small());
    assert_eq!(table.get(b"k").unwrap().unwrap(), [19; 1000][..]);
    assert_copies_are_equal(&mem);
}

/// Each opening begins a new manifest file, and later changes are in this file only. So it must be
/// found after a power loss.
#[test]
fn a_change_after_an_opening_survives_the_loss_of_power() {
    for seed in 0..20 {
        let mem = MemDisk::new();
        drop(open(&mem));
        let (db, keyspace, table) = open(&mem);
        let mails = keyspace.table("mails", TableOptions::default()).unwrap();
        lose_power(&mem, (db, keyspace, table, mails), seed);
        let (_db, keyspace, _table) = open(&mem);
        assert_eq!(keyspace.tables(), ["mails", "users"], "seed {seed}");
    }
}

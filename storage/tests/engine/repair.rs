//! Repair: tests of known failures, each described at its test. Random damage to random databases
//! is tested in the crate `ebb-tests`.

use std::io;
use std::path::{Path, PathBuf};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::{merging, open, users};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Bounding, Db, Error, FileSystem, Keyspace, MergeOperator, MergeOperators, Options,
    RepairReport, TableOptions, TieredPicker, repair, verify,
};

const TARGET: &str = "/repaired";

fn paths(mem: &MemDisk) -> Vec<PathBuf> {
    let mut paths = mem.list(DIR.as_ref()).unwrap();
    paths.retain(|path| !path.ends_with("LOCK"));
    paths.sort();
    paths
}

fn run(mem: &MemDisk) -> RepairReport {
    let report = repair(DIR, TARGET, &manual(mem), &mut |_| ()).unwrap();
    let verified = verify(TARGET, &manual(mem), &mut |_| ()).unwrap();
    assert_eq!(verified.findings, []);
    report
}

/// Removes both copies of the manifest and of CURRENT.
fn remove_manifest(mem: &MemDisk) {
    for path in paths(mem) {
        let name = path.to_string_lossy();
        if name.contains("MANIFEST") || name.contains("CURRENT") {
            mem.remove(&path).unwrap();
        }
    }
}

#[test]
fn a_damaged_block_costs_its_keys_only() {
    let mem = MemDisk::new();
    let keys: Vec<_> = (0..2000)
        .map(|i| format!("key{i:05}").into_bytes())
        .collect();
    {
        let options = Options {
            memtable_bytes: 1 << 20,
            file_bytes: 1 << 20,
            ..manual(&mem)
        };
        let (db, _, table) = open(options, Default::default());
        for key in &keys {
            table.put(key, &key.repeat(10)).unwrap();
        }
        db.flush().unwrap();
    }
    let path = paths(&mem)
        .into_iter()
        .find(|path| path.extension().is_some_and(|ext| ext == "sst"))
        .unwrap();
    mem.flip_bit(&path, mem.file_len(&path).unwrap() / 2, 3)
        .unwrap();
    let report = run(&mem);
    let lost = only(&report.lost);
    assert_eq!(
        (&lost.path, lost.table.as_deref()),
        (&path, Some("app.users"))
    );
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    let table = users(&db);
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| table.get(key).unwrap().is_none())
        .collect();
    assert!(!missing.is_empty() && missing.len() < 300);
    assert!(missing.iter().all(|key| lost.concerns("app.users", key)));
}

#[test]
fn the_source_must_be_a_closed_database_and_the_target_empty() {
    let mem = MemDisk::new();
    let fails =
        |from: &str, to: &str| repair(from, to, &manual(&mem), &mut |_| ()).expect_err("refused");
    assert!(matches!(fails("/none", TARGET), Error::NoDatabase { .. }));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    db.keyspace("app").unwrap();
    assert!(matches!(fails(DIR, TARGET), Error::BeingWritten { .. }));
    drop(db);
    assert!(matches!(fails(DIR, DIR), Error::InvalidRequest(_)));
    run(&mem);
}

/// Regression: a merge folded operands 1 to 3 of a key into one version, with the sequence number
/// of operand 3. The input files of the merge still existed when the manifest was lost. The repair
/// read the log first, then the files from newest to oldest. It applied operands 1 and 2 a second
/// time, because their numbers do not show that the folded version contains them. Operand 3 in the
/// log even hid the folded version.
#[test]
fn what_a_merge_replaced_is_not_folded_in_again() {
    for (left, has_snapshot, gone) in (0..8).flat_map(|left| {
        [
            (left, false, false),
            (left, false, true),
            (left, true, false),
            (left, true, true),
        ]
    }) {
        let mem = MemDisk::new();
        let options = Options {
            compaction: TieredPicker {
                // The merge must take all three runs, although the snapshot lies between them.
                bounding: Bounding::Off,
                ..TieredPicker::default()
            }
            .into(),
            ..manual(&mem)
        };
        let (db, keyspace, table) = open(options, merging("append"));
        let mut replaced = Vec::new();
        for part in ["a", "b", "c"] {
            table.merge(b"key", part.as_bytes()).unwrap();
            table.put(b"a", b"first").unwrap();
            table.put(b"z", b"last").unwrap();
            if has_snapshot && part == "a" {
                keyspace.create_snapshot("s").unwrap();
            }
            db.flush().unwrap();
            let newest = files(&mem, ".sst").pop().unwrap();
            replaced.push((mem.read_all(&newest).unwrap(), newest));
        }
        assert_eq!(files(&mem, ".sst").len(), 3);
        db.compact().unwrap();
        assert_eq!(files(&mem, ".sst").len(), 1);
        drop((db, keyspace, table));
        for (i, (bytes, path)) in replaced.iter().enumerate() {
            if left & (1 << i) != 0 {
                mem.create(path).unwrap().append(bytes).unwrap();
            }
        }
        for path in paths(&mem) {
            if path.to_string_lossy().contains("MANIFEST") {
                if gone {
                    mem.remove(&path).unwrap()
                } else {
                    // In the database id: the records can be read, but as the manifest is damaged,
                    // its list of files does not count, and every SSTable does.
                    mem.flip_bit(&path, 20, 1).unwrap()
                }
            }
        }
        let report = run(&mem);
        assert!(!report.lost.is_empty());
        let db = Db::open(TARGET, manual(&mem)).unwrap();
        let keyspace = db.keyspaces().pop().unwrap();
        let keyspace = db.existing_keyspace(&keyspace).unwrap();
        let table = keyspace.existing_table(&keyspace.tables()[0]).unwrap();
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        let expected = [("a", "first"), ("key", "abc"), ("z", "last")];
        let expected = expected.map(|(key, value)| (key.into(), value.into()));
        assert_eq!(found, expected.into(), "{left:03b} {has_snapshot} {gone}");
    }
}

/// Regression: a user without permission to read the files ran a repair. It reported every row as
/// lost, and made a database without rows.
#[test]
fn a_file_that_the_user_may_not_open_is_an_error_and_no_loss() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), Default::default());
    table.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    table.put(b"logged", b"2").unwrap();
    drop((table, keyspace, db));
    for end in [".sst", ".log"] {
        let sealed = files(&mem, end).pop().unwrap();
        let named = sealed.clone();
        let hook = move |call: Call, path: &Path| match call {
            Call::Open if path == sealed => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        };
        let options = on_disk(HookedDisk::new(&mem, hook), manual(&mem));
        match repair(DIR, TARGET, &options, &mut |_| ()) {
            Err(Error::Io { path, .. }) => assert_eq!(path, named),
            outcome => panic!("{outcome:?}"),
        }
    }
    assert_eq!(run(&mem).lost, []);
}

/// Regression: another file had taken the place of a table's file, under its number. A repair saved
/// the rows of the other file as rows of that table.
#[test]
fn nothing_is_saved_of_another_file_in_the_place_of_one_in_the_manifest() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    for name in ["orders", "users"] {
        let table = keyspace.table(name, TableOptions::default()).unwrap();
        table.put(name.as_bytes(), b"1").unwrap();
        db.flush().unwrap();
    }
    drop((keyspace, db));
    let sst = files(&mem, ".sst");
    let [orders, users] = &sst[..] else {
        panic!("two files expected: {sst:?}");
    };
    let bytes = mem.read_all(orders).unwrap();
    mem.create(users).unwrap().append(&bytes).unwrap();
    let report = run(&mem);
    let lost: Vec<_> = report.lost.iter().map(|lost| &lost.path).collect();
    assert!(!lost.is_empty() && lost.iter().all(|path| *path == users));
    let found = everything(&Db::open(TARGET, manual(&mem)).unwrap()).unwrap();
    let of_orders = Content::from([(b"orders".to_vec(), b"1".to_vec())]);
    let expected = Everything::from([
        ("app.orders".into(), of_orders),
        ("app.users".into(), Content::new()),
    ]);
    assert_eq!(found, expected);
}

/// Regression: a repair without a manifest named the tables `recovered.table_N`, so CQL did not
/// find the tables of its schema. Only such a repair brings dropped tables back.
#[test]
fn without_a_manifest_tables_have_the_names_in_their_files() {
    for has_manifest in [true, false] {
        let mem = MemDisk::new();
        let db = Db::open(DIR, manual(&mem)).unwrap();
        let [app, system] = ["app", "system"].map(|name| db.keyspace(name).unwrap());
        let put = |keyspace: &Keyspace, table: &str, value: &[u8]| {
            let table = keyspace.table(table, TableOptions::default()).unwrap();
            table.put(b"k", value).unwrap();
            db.flush().unwrap();
        };
        put(&app, "users", b"dropped");
        let left = files(&mem, ".sst").pop().unwrap();
        let bytes = mem.read_all(&left).unwrap();
        app.drop_table("users").unwrap();
        put(&app, "users", b"new");
        put(&system, "keyspaces", b"schema");
        drop((app, system, db));
        // A crash came before the file of the dropped table was removed.
        mem.create(&left).unwrap().append(&bytes).unwrap();
        if !has_manifest {
            remove_manifest(&mem);
        }
        let report = run(&mem);
        assert_eq!(report.lost.is_empty(), has_manifest);
        let found = everything(&Db::open(TARGET, manual(&mem)).unwrap()).unwrap();
        let content = |value: &[u8]| Content::from([(b"k".to_vec(), value.to_vec())]);
        let mut expected = Everything::from([
            ("app.users".into(), content(b"new")),
            ("system.keyspaces".into(), content(b"schema")),
        ]);
        if !has_manifest {
            expected.insert("recovered.table_1".into(), content(b"dropped"));
        }
        assert_eq!(found, expected);
    }
}

/// Returns a database whose log has several segments, and the paths of these.
fn with_segments() -> (MemDisk, Vec<PathBuf>) {
    let mem = MemDisk::new();
    let options = Options {
        wal_segment_bytes: 1 << 10,
        ..manual(&mem)
    };
    let (db, keyspace, table) = open(options, TableOptions::default());
    for i in 0..9_u8 {
        table.put(&[i], &[i; 500]).unwrap();
    }
    drop((db, keyspace, table));
    let segments = files(&mem, ".log");
    (mem, segments)
}

/// Regression: a repair without a manifest did not report a log segment that was missing between
/// two others.
#[test]
fn without_a_manifest_a_segment_that_is_missing_between_others_is_reported() {
    let (mem, segments) = with_segments();
    assert!(segments.len() > 3, "{segments:?}");
    remove_manifest(&mem);
    // The lost manifest may have given up the first one.
    mem.remove(&segments[0]).unwrap();
    mem.remove(&segments[2]).unwrap();
    let report = run(&mem);
    let lost = report.lost.iter().map(|lost| &lost.path);
    let of_log: Vec<_> = lost.filter(|path| segments.contains(path)).collect();
    assert_eq!(of_log, [&segments[2]]);
}

/// A crash may cut off the last log segment before its first commit, and then nothing is lost. A
/// repair cannot distinguish this from damage, so it reports the last segment as lost "unless a
/// crash cut it off".
#[test]
fn only_the_last_segment_may_have_lost_nothing_with_its_header() {
    let (mem, segments) = with_segments();
    assert!(segments.len() > 2, "{segments:?}");
    for (segment, is_last) in [(&segments[1], false), (segments.last().unwrap(), true)] {
        let fork = mem.fork();
        fork.cut(segment, 7).unwrap();
        let report = run(&fork);
        let mut lost = report.lost.iter().filter(|lost| lost.path == *segment);
        let detail = &lost.next().unwrap().detail;
        let has_condition = detail.contains("unless a crash cut it off");
        assert_eq!(has_condition, is_last, "{detail}");
    }
}

/// A snapshot lists no tables: it covers those that were created before it. For each table, the
/// manifest has the number of the last commit before the table was created. If the manifest is lost, a
/// repair reads this number from the SSTables of the table. Without it, a snapshot would also show
/// tables that were created later, as empty ones.
#[test]
fn without_a_manifest_snapshots_cover_the_tables_of_their_time() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let put = |name: &str| {
        let table = keyspace.table(name, TableOptions::default()).unwrap();
        table.put(b"k", name.as_bytes()).unwrap();
    };
    put("early");
    keyspace.create_snapshot("one").unwrap();
    put("late");
    keyspace.create_snapshot("both").unwrap();
    db.flush().unwrap();
    drop((db, keyspace));
    remove_manifest(&mem);
    run(&mem);
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    for (name, tables) in [("one", &["early"][..]), ("both", &["early", "late"][..])] {
        let snapshot = keyspace.snapshot(name).unwrap();
        assert!(snapshot.tables().eq(tables.iter().copied()), "{name}");
        for table in tables {
            let found = snapshot.table(table).unwrap().get(b"k").unwrap();
            assert_eq!(found.unwrap(), *table);
        }
    }
}

/// A merge operator for tables that contain their own name, so that a repair finds it without the
/// manifest: the value of the key `name` is `KEYSPACE.TABLE`.
#[derive(Debug)]
struct SelfNamed;

impl MergeOperator for SelfNamed {
    fn name(&self) -> &str {
        "self-named"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        Ok([older, newer].concat())
    }

    fn table_of(&self, key: &[u8], value: &[u8]) -> Option<(String, String)> {
        let value = std::str::from_utf8(value).ok()?;
        let (keyspace, table) = value.split_once('.').filter(|_| key == b"name")?;
        Some((keyspace.to_owned(), table.to_owned()))
    }
}

/// Regression: a table without an SSTable came back without its name and its merge operator, though the
/// log had both in an entry, and the report did not name such tables.
#[test]
fn without_a_manifest_entries_in_the_log_name_tables_and_the_report_has_the_unnamed_ones() {
    let mem = MemDisk::new();
    let options = Options {
        merge_operators: MergeOperators::none().with(SelfNamed),
        ..manual(&mem)
    };
    let db = Db::open(DIR, options.clone()).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let plain = keyspace.table("plain", TableOptions::default()).unwrap();
    plain.put(b"k", b"1").unwrap();
    keyspace.create_snapshot("before").unwrap();
    let create = |table: &str, value: &[u8]| {
        let created = keyspace.table(table, merging("self-named")).unwrap();
        created.merge(b"k", value).unwrap();
        let name = format!("app.{table}");
        created.put(b"name", name.as_bytes()).unwrap();
        created
    };
    create("users", b"1").merge(b"k", b"2").unwrap();
    keyspace.create_snapshot("after").unwrap();
    create("again", b"dropped");
    keyspace.drop_table("again").unwrap();
    create("again", b"new");
    drop((plain, keyspace, db));
    assert!(files(&mem, ".sst").is_empty());
    remove_manifest(&mem);

    let report = repair(DIR, TARGET, &options, &mut |_| ()).unwrap();
    let db = Db::open(TARGET, options).unwrap();
    let content = |entries: &[(&str, &str)]| -> Content {
        let entries = entries.iter();
        entries
            .map(|(k, v)| (k.as_bytes().into(), v.as_bytes().into()))
            .collect()
    };
    let users = content(&[("k", "12"), ("name", "app.users")]);
    // Only the manifest records that a table was dropped, so the dropped table comes back, too. Its
    // name went to the newer table of this name.
    let expected = Everything::from([
        (
            "app.again".into(),
            content(&[("k", "new"), ("name", "app.again")]),
        ),
        ("app.users".into(), users.clone()),
        ("app.users in after".into(), users),
        ("recovered.table_1".into(), content(&[("k", "1")])),
        (
            "recovered.table_3".into(),
            content(&[("k", "dropped"), ("name", "app.again")]),
        ),
    ]);
    assert_eq!(everything(&db).unwrap(), expected);
    let of_tables = report.lost.iter().filter_map(|lost| {
        let detail = lost.detail.split(':').next();
        Some((lost.table.as_deref()?, detail?))
    });
    let of_tables: Vec<_> = of_tables.collect();
    assert_eq!(
        of_tables,
        [
            (
                "recovered.table_1",
                "the names of the table and of its keyspace are lost"
            ),
            (
                "recovered.table_3",
                "the table was called app.again, as another one is"
            ),
        ]
    );
    // Any table may lack something without the manifest, so the report lists all snapshots.
    assert_eq!(report.snapshots_incomplete, ["app: before", "app: after"]);
}

/// Regression: a snapshot was deleted, and another one was created under its name. When the record
/// of the deletion was damaged, the repaired database had two snapshots of that name. A read by the
/// name returned the older one.
#[test]
fn a_snapshot_whose_deletion_is_lost_gives_way_to_the_next_of_its_name() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
    table.put(b"key", b"old").unwrap();
    keyspace.create_snapshot("s").unwrap();
    table.put(b"key", b"new").unwrap();
    let segment = files(&mem, ".log").pop().unwrap();
    let at = mem.file_len(&segment).unwrap();
    keyspace.delete_snapshot("s").unwrap();
    let end = mem.file_len(&segment).unwrap();
    assert!(at < end);
    keyspace.create_snapshot("s").unwrap();
    drop((db, keyspace, table));
    mem.flip_bit(&segment, (at + end) / 2, 0).unwrap();

    let report = run(&mem);
    assert_eq!(report.lost.len(), 1);
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    assert_eq!(keyspace.snapshots().len(), 1);
    let snapshot = keyspace.snapshot("s").unwrap();
    let table = snapshot.table("users").unwrap();
    assert_eq!(table.get(b"key").unwrap().unwrap(), "new");
}

/// Regression: the repair of a backup that has no log reported that the log was missing.
#[test]
fn a_backup_of_a_database_without_a_log_has_lost_none() {
    let mem = MemDisk::new();
    {
        let (_db, _, table) = open(manual(&mem), TableOptions::default());
        table.put(b"a", b"1").unwrap();
    }
    assert_eq!(run(&mem).lost, []);
    // A repaired database has no log before its first write.
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    db.backup("/backup").unwrap();
    drop(db);
    let report = repair("/backup", "/again", &manual(&mem), &mut |_| ()).unwrap();
    assert_eq!((report.lost, report.versions), (vec![], 1));
}

#[test]
fn backup_and_repair_tell_how_far_they_have_come() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
    for round in 0..3_u8 {
        for i in 0..100_u8 {
            table.put(&[i], &[round; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    table.put(b"logged", b"1").unwrap();

    let mut reports = Vec::new();
    let info = db.backup_with_progress("/copy", &mut |now| reports.push(now));
    let info = info.unwrap();
    assert!(reports.len() as u64 >= info.files);
    assert!(reports.is_sorted_by_key(|now| now.bytes_done));
    assert!(reports.iter().all(|now| now.bytes_total == info.bytes));
    assert_eq!(reports.last().unwrap().bytes_done, info.bytes);
    drop((db, keyspace, table));

    let mut reports = Vec::new();
    repair("/copy", TARGET, &manual(&mem), &mut |now| reports.push(now)).unwrap();
    assert!(reports.is_sorted_by(|before, now| before.bytes_done < now.bytes_done));
    let last = reports.last().unwrap();
    assert_eq!(last.bytes_total, 2 * info.linked_bytes + info.copied_bytes);
    // Everything once, and the blocks of versions once more.
    assert!((info.bytes + 1..=last.bytes_total).contains(&last.bytes_done));
}

//! Files written elsewhere that become part of a table by one commit. Random ingests among other
//! operations, and the loss of power meanwhile, are tested in the crate `ebb-tests`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::{all, get, refused, shown};
use crate::common::{
    DIR, FailedAt, SetOnDrop, assert_is, content, files, files_in_use, manual, on_disk, one_table,
    writer_options,
};
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Bounding, Db, Durability, Error, FileSystem, Keyspace, Maintenance, Options, SnapshotOptions,
    SortedWriter, SortedWriterOptions, SsTableOptions, Table, TableOptions, TieredPicker, repair,
    verify,
};

/// The directory of the written files.
const OUT: &str = "/out";

type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn writer(mem: &MemDisk, name: &str) -> Result<SortedWriter, Error> {
    let options = SortedWriterOptions {
        sstable: SsTableOptions {
            block_bytes: 128,
            ..SsTableOptions::default()
        },
        file_bytes: 300,
        ..writer_options(mem)
    };
    SortedWriter::create(OUT, name, options)
}

fn write(mem: &MemDisk, name: &str, rows: &Rows) -> Result<Vec<PathBuf>, Error> {
    let mut writer = writer(mem, name)?;
    for (key, value) in rows {
        match value {
            Some(value) => writer.put(key, value)?,
            None => writer.delete(key)?,
        }
    }
    writer.finish()
}

fn rows(rows: &[(&str, Option<&str>)]) -> Rows {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let row = |(key, value): &(&str, Option<&str>)| (bytes(key), value.map(bytes));
    rows.iter().map(row).collect()
}

/// Returns options with which [`Db::compact`] merges all runs of a table, although snapshots lie
/// between them.
fn merging(mem: &MemDisk) -> Options {
    Options {
        compaction: TieredPicker {
            // More than the ratio of the sizes of any two runs in these tests.
            size_ratio: 100.0,
            runs_before_merge: 2,
            bounding: Bounding::Off,
            ..TieredPicker::default()
        }
        .into(),
        ..manual(mem)
    }
}

fn open(mem: &MemDisk) -> (Db, Keyspace, Table) {
    open_with(manual(mem))
}

fn open_with(options: Options) -> (Db, Keyspace, Table) {
    one_table::open(options, TableOptions::default())
}

#[test]
fn keys_have_to_ascend_and_the_first_that_does_not_is_named() {
    let mem = MemDisk::new();
    let mut w = writer(&mem, "w").unwrap();
    w.put(b"a", b"1").unwrap();
    w.put(b"c", b"1").unwrap();
    refused(w.put(b"b", b"1"), &["\"b\" comes after \"c\""]);
    refused(w.delete(b"c"), &["\"c\" comes after \"c\""]);
    // Nothing happened: the writer goes on.
    w.put(b"d", b"1").unwrap();
    assert_eq!(w.finish().unwrap().len(), 1);
    let mut w = writer(&mem, "left").unwrap();
    w.put(b"a", b"1").unwrap();
    drop(w);
    assert_eq!(mem.list(Path::new(OUT)).unwrap().len(), 1);
    assert_eq!(writer(&mem, "none").unwrap().finish().unwrap().len(), 0);
}

#[test]
fn what_is_ingested_stands_at_its_commit_among_writes_and_snapshots() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    for key in ["a", "b", "c", "d"] {
        table.put(key.as_bytes(), b"below").unwrap();
    }
    keyspace.create_snapshot("before").unwrap();
    let (view, mut range) = (db.view(), table.range::<&[u8], _>(..));
    let new = rows(&[("b", Some("new")), ("c", None), ("e", Some("new"))]);
    let paths = write(&mem, "w", &new).unwrap();
    let info = table.ingest(&paths).unwrap();
    assert_eq!((info.entries, info.files, info.linked_files), (3, 1, 1));
    assert_eq!(db.view().seq(), info.seq);
    keyspace.create_snapshot("at").unwrap();
    table.put(b"b", b"above").unwrap();
    table.delete(b"e").unwrap();
    // The names may go.
    for path in paths {
        mem.remove(&path).unwrap();
    }

    let check = |db: &Db, keyspace: &Keyspace, table: &Table| {
        assert_eq!(all(table), "a=below b=above d=below");
        assert_eq!(get(table, "c"), None);
        assert_eq!(get(table, "e"), None);
        let snapshot = |name| {
            let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
            let range = content(table.range::<&[u8], _>(..)).unwrap();
            for key in ["a", "b", "c", "d", "e"] {
                let value = table.get(key.as_bytes()).unwrap();
                let expected = range.get(key.as_bytes()).map(|value| &value[..]);
                assert_eq!(value.as_deref(), expected, "{key} at {name}");
            }
            shown(&range)
        };
        assert_eq!(snapshot("before"), "a=below b=below c=below d=below");
        assert_eq!(snapshot("at"), "a=below b=new d=below e=new");
        db.verify().unwrap();
    };
    check(&db, &keyspace, &table);
    assert_eq!(view.get(&table, b"e").unwrap(), None);
    assert_eq!(view.get(&table, b"b").unwrap().unwrap(), "below");
    assert_eq!(range.by_ref().count(), 4);
    drop((view, range, db, keyspace, table));

    let (db, keyspace, table) = open(&mem);
    check(&db, &keyspace, &table);
    db.flush().unwrap();
    check(&db, &keyspace, &table);
    drop((db, keyspace, table));
    let (db, keyspace, table) = open_with(merging(&mem));
    check(&db, &keyspace, &table);
    assert_eq!(table.stats().runs.len(), 3);
    db.compact().unwrap();
    assert_eq!(table.stats().runs.len(), 1);
    check(&db, &keyspace, &table);
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
}

#[test]
fn operands_that_are_ingested_meet_those_that_were_there_and_come_later() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = one_table::open(merging(&mem), one_table::merging("append"));
    table.put(b"a", b"put,").unwrap();
    table.merge(b"b", b"before,").unwrap();
    let mut out = writer(&mem, "operands").unwrap();
    for key in [b"a", b"b", b"c"] {
        out.merge(key, b"ingested,").unwrap();
    }
    refused(out.merge(b"c", b"again"), &["keys have to ascend"]);
    keyspace.create_snapshot("s").unwrap();
    table.ingest(&out.finish().unwrap()).unwrap();
    table.merge(b"b", b"after").unwrap();
    let values = |table: &Table| ["a", "b", "c"].map(|key| get(table, key).unwrap_or_default());
    let expected = ["put,ingested,", "before,ingested,after", "ingested,"];
    assert_eq!(values(&table), expected);
    db.flush().unwrap();
    assert_eq!(table.stats().runs.len(), 3);
    db.compact().unwrap();
    assert_eq!(table.stats().runs.len(), 1);
    assert_eq!(values(&table), expected);
    let before = keyspace.snapshot("s").unwrap().table("users").unwrap();
    assert_eq!(before.get(b"b").unwrap().unwrap(), "before,");
    assert_eq!(before.get(b"c").unwrap(), None);
    drop((before, table, keyspace, db));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    assert_eq!(values(&one_table::users(&db)), expected);
}

/// Regression: an ingest links files, so the names that the writer gave them lead to the database's
/// own bytes. A second writer with the same names opened these files and truncated them, and so the
/// files of the table.
#[test]
fn a_second_writer_of_the_same_name_leaves_what_was_ingested() {
    let check = |db: &Db, table: &Table, out: &Path, options: SortedWriterOptions| {
        let write = |value: &[u8]| {
            let mut writer = SortedWriter::create(out, "part", options.clone())?;
            writer.put(b"a", value)?;
            writer.finish()
        };
        assert_eq!(table.ingest(&write(b"1").unwrap()).unwrap().linked_files, 1);
        let files = write(b"2").unwrap();
        db.verify().unwrap();
        assert_eq!(get(table, "a").as_deref(), Some("1"));
        table.ingest(&files).unwrap();
        assert_eq!(get(table, "a").as_deref(), Some("2"));
        db.verify().unwrap();
    };
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(&mem);
    let options = writer_options(&mem);
    check(&db, &table, Path::new(OUT), options);

    let dir = tempfile::tempdir().unwrap();
    let (db, _, table) = one_table::open_at(
        dir.path().join("db"),
        Options::default(),
        TableOptions::default(),
    );
    let out = dir.path().join("out");
    check(&db, &table, &out, SortedWriterOptions::default());
}

#[test]
fn an_invalid_ingest_is_refused_and_leaves_nothing() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    let first = rows(&[("a", Some("1")), ("m", Some("1"))]);
    let second = rows(&[("k", Some("2")), ("z", Some("2"))]);
    let mut paths = write(&mem, "first", &first).unwrap();
    paths.extend(write(&mem, "second", &second).unwrap());
    refused(table.ingest(&paths), &["second-000001.sst"]);
    refused(table.ingest(&[] as &[PathBuf]), &["no file"]);
    table.put(b"x", b"1").unwrap();
    db.flush().unwrap();
    let own = files(&mem, ".sst");
    let outcome = table.ingest(&own);
    assert_is!(outcome, Err(Error::Corruption { .. }));
    for bit in 0..mem.file_len(&paths[0]).unwrap() * 8 {
        mem.flip_bit(&paths[0], bit / 8, (bit % 8) as u8).unwrap();
        let outcome = table.ingest(&paths[..1]);
        let _place = FailedAt(format!("bit {bit}"));
        assert_is!(
            outcome,
            Err(Error::Corruption { .. } | Error::UnsupportedFormat { .. })
        );
        mem.flip_bit(&paths[0], bit / 8, (bit % 8) as u8).unwrap();
    }
    keyspace.drop_table("users").unwrap();
    assert_is!(table.ingest(&paths[..1]), Err(Error::NotFound { .. }));
    assert_eq!(db.view().seq().0, 1);
    drop(table);
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), 0);
}

/// If the log refuses an ingest, no reader ever sees any of it. Whether it is there after reopening
/// depends on the log: it is there whole or not at all.
#[test]
fn an_ingest_that_the_log_refuses_is_not_seen() {
    // Unsynced bytes survive the restart or not, depending on the seed.
    for fault in [FaultOp::Append, FaultOp::Sync] {
        for (nth, seed) in (1..8).flat_map(|nth| (0..6).map(move |seed| (nth, seed))) {
            let mem = MemDisk::new();
            let options = || Options {
                durability: Durability::Sync,
                ..manual(&mem)
            };
            let (db, keyspace, table) = open_with(options());
            table.put(b"a", b"below").unwrap();
            let new = rows(&[("a", Some("new")), ("b", Some("new"))]);
            let paths = write(&mem, "w", &new).unwrap();
            mem.fail_next(fault, nth, std::io::ErrorKind::Other);
            let outcome = table.ingest(&paths);
            let (old, whole) = ("a=below", "a=new b=new");
            let expected = if outcome.is_ok() { whole } else { old };
            assert_eq!(all(&table), expected);
            drop((db, keyspace, table));
            mem.restart(seed);
            let (db, _, table) = open_with(options());
            let found = all(&table);
            assert!(found == whole || found == expected, "{found}");
            assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
        }
    }
}

#[test]
fn a_transaction_is_in_conflict_with_what_was_ingested_into_its_keys() {
    let mem = MemDisk::new();
    let (db, _, table) = open(&mem);
    let new = rows(&[("b", Some("new")), ("d", Some("new"))]);
    let paths = write(&mem, "w", &new).unwrap();
    let (mut inside, mut outside) = (db.begin(), db.begin());
    inside.put(&table, b"c", b"1").unwrap();
    outside.put(&table, b"e", b"1").unwrap();
    table.ingest(&paths).unwrap();
    assert_eq!(inside.get(&table, b"b").unwrap(), None);
    assert_is!(inside.commit(), Err(Error::Conflict { .. }));
    outside.commit().unwrap();
}

/// Writes rows, ingests, writes, ingests, creates the snapshot "s" and writes. The first
/// `installed` ingests are in the manifest; the other ones are only in the log.
fn layered(mem: &MemDisk, installed: usize) -> (Db, Keyspace, Table) {
    let (db, keyspace, table) = open(mem);
    for (round, key) in ["b", "d"].into_iter().enumerate() {
        table.put(b"a", format!("{round}").as_bytes()).unwrap();
        table.put(key.as_bytes(), b"below").unwrap();
        let new = rows(&[(key, Some("new")), ("e", Some(key))]);
        let paths = write(mem, &format!("w{round}"), &new).unwrap();
        table.ingest(&paths).unwrap();
        if round < installed {
            db.flush().unwrap();
        }
    }
    keyspace.create_snapshot("s").unwrap();
    table.put(b"d", b"above").unwrap();
    (db, keyspace, table)
}

/// Asserts that all rows of [`layered`] are there, in the table and in the snapshot "s".
fn assert_layered(db: &Db) {
    let keyspace = db.existing_keyspace("app").unwrap();
    let table = keyspace.existing_table("users").unwrap();
    assert_eq!(all(&table), "a=1 b=new d=above e=d");
    let snapshot = keyspace.snapshot("s").unwrap().table("users").unwrap();
    let found = content(snapshot.range::<&[u8], _>(..)).unwrap();
    assert_eq!(shown(&found), "a=1 b=new d=new e=d");
}

/// Until the next flush, only the log names the files of an ingest.
#[test]
fn a_backup_has_what_was_ingested_and_not_flushed() {
    for installed in 0..3 {
        let mem = MemDisk::new();
        let opened = layered(&mem, installed);
        opened.0.backup("/backup").unwrap();
        drop(opened);
        let report = verify("/backup", &manual(&mem), &mut |_| ()).unwrap();
        assert_eq!(report.findings, []);
        let db = Db::open("/backup", manual(&mem)).unwrap();
        assert_layered(&db);
        db.flush().unwrap();
        db.compact().unwrap();
        assert_layered(&db);
        db.verify().unwrap();
    }
}

/// An ingested run that waits for the flush of older memtables is in the log and not in the
/// manifest. Regression: verification skipped its files.
#[test]
fn the_files_of_waiting_runs_are_verified() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = layered(&mem, 0);
    let report = db.verify_all(|_| ()).unwrap();
    assert_eq!(
        (report.findings.len(), report.runs, report.entries),
        (0, 2, 4)
    );
    let sst = files(&mem, ".sst");
    mem.flip_bit(&sst[1], 20, 3).unwrap();
    let report = db.verify_all(|_| ()).unwrap();
    assert!(report.findings.iter().any(|found| found.path == sst[1]));
    drop((db, keyspace, table));
    let closed = || verify(DIR, &manual(&mem), &mut |_| ()).unwrap();
    let report = closed();
    assert!(report.findings.iter().any(|found| found.path == sst[1]));
    assert!(report.findings.iter().all(|found| found.path == sst[1]));
    mem.flip_bit(&sst[1], 20, 3).unwrap();
    assert_eq!(closed().findings, []);
    mem.remove(&sst[0]).unwrap();
    let report = closed();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].path, sst[0]);
    assert_eq!(report.findings[0].detail, "it is missing");
}

#[test]
fn a_repair_has_what_was_ingested_whether_flushed_or_not() {
    for installed in 0..3 {
        let mem = MemDisk::new();
        drop(layered(&mem, installed));
        let report = repair(DIR, "/repaired", &manual(&mem), &mut |_| ()).unwrap();
        assert_eq!(report.lost, []);
        let verified = verify("/repaired", &manual(&mem), &mut |_| ()).unwrap();
        assert_eq!(verified.findings, []);
        assert_layered(&Db::open("/repaired", manual(&mem)).unwrap());
    }
}

/// Regression: a repair that could not open an ingested file took the commit in the log that names
/// the file for damaged, and went on without it.
#[test]
fn a_repair_fails_at_an_ingested_file_in_the_log_that_the_user_may_not_open() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(&mem);
    let paths = write(&mem, "w", &rows(&[("a", Some("1"))])).unwrap();
    table.ingest(&paths).unwrap();
    drop((db, keyspace, table));
    let named = files(&mem, ".sst").pop().unwrap();
    let sealed = named.clone();
    let hook = move |call: Call, path: &Path| match call {
        Call::Open if path == sealed => Err(std::io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    };
    let options = on_disk(HookedDisk::new(&mem, hook), manual(&mem));
    match repair(DIR, "/repaired", &options, &mut |_| ()) {
        Err(Error::Io { path, .. }) => assert_eq!(path, named),
        outcome => panic!("{outcome:?}"),
    }
}

/// An ingested file does not contain the id of its table; without a manifest only the log names the
/// table. A repair once reported such a file as lost, although it saved the file.
#[test]
fn without_a_manifest_the_log_names_the_table_of_an_ingested_file() {
    for installed in 0..3 {
        let mem = MemDisk::new();
        let (db, keyspace, _) = layered(&mem, installed);
        // The log has the name of a table only where a snapshot is of one table.
        let of_one_table = SnapshotOptions {
            table: Some("users".into()),
            ..SnapshotOptions::default()
        };
        keyspace.create_snapshot_with("one", of_one_table).unwrap();
        drop((db, keyspace));
        for path in mem.list(Path::new(DIR)).unwrap() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("CURRENT") || name.starts_with("MANIFEST") {
                mem.remove(&path).unwrap();
            }
        }
        let report = repair(DIR, "/repaired", &manual(&mem), &mut |_| ()).unwrap();
        let verified = verify("/repaired", &manual(&mem), &mut |_| ()).unwrap();
        assert_eq!(verified.findings, []);
        let ingested = |path: &Path| path.extension().is_some_and(|e| e == "sst");
        let lost = report.lost.iter().filter(|lost| ingested(&lost.path));
        assert_eq!(lost.count(), 0, "{:?}", report.lost);
        assert_layered(&Db::open("/repaired", manual(&mem)).unwrap());

        // Without the log its table is unknown.
        for path in files(&mem, ".log") {
            mem.remove(&path).unwrap();
        }
        let report = repair(DIR, "/without", &manual(&mem), &mut |_| ()).unwrap();
        let lost = report.lost.iter().filter(|lost| ingested(&lost.path));
        assert_eq!(lost.count(), 2, "{:?}", report.lost);
    }
}

/// A backup or a verification once captured the state before the end of the log. A table that was
/// created and written to in between was in the log, but not in the state.
#[test]
fn tables_created_beside_a_verification_are_no_damage() {
    let mem = MemDisk::new();
    let (db, keyspace, _) = open(&mem);
    std::thread::scope(|scope| {
        let creates = scope.spawn(|| {
            for n in 0..300 {
                let name = format!("t{n}");
                let table = keyspace.table(&name, TableOptions::default()).unwrap();
                table.put(b"k", b"v").unwrap();
            }
        });
        while !creates.is_finished() {
            let report = db.verify_all(|_| ()).unwrap();
            assert_eq!(report.findings, []);
        }
    });
}

/// Threads ingest, write, flush and merge at the same time. Readers see all of an ingest or nothing, and of
/// each key the value of the last commit.
#[test]
fn threads_see_each_ingest_whole() {
    let mem = MemDisk::new();
    let options = Options {
        maintenance: Maintenance::Background,
        memtable_bytes: 4 << 10,
        ..manual(&mem)
    };
    let (db, _, table) = open_with(options);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        scope.spawn(|| {
            let mut n = 0u32;
            while !done.load(Ordering::Relaxed) {
                // Between the keys of the ingests.
                table.put(&[(n % 50) as u8, 1], &n.to_be_bytes()).unwrap();
                n += 1;
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let all = content(table.range::<&[u8], _>(..)).unwrap();
                    let ingested = all.iter().filter(|(key, _)| key.len() == 1);
                    let rounds: Vec<_> = ingested.map(|(_, round)| round.clone()).collect();
                    assert!(rounds.iter().all(|round| *round == rounds[0]));
                    assert!(rounds.is_empty() || rounds.len() == 50);
                    let round = rounds.first().map_or(0, |round| round[0]);
                    assert!(round >= last);
                    last = round;
                }
            });
        }
        for round in 1..=60u8 {
            let all: Rows = (0..50).map(|key| (vec![key], Some(vec![round]))).collect();
            let paths = write(&mem, &format!("w{round}"), &all).unwrap();
            table.ingest(&paths).unwrap();
            assert_eq!(table.get(&[49]).unwrap().unwrap(), [round][..]);
        }
    });
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().read_only_cause, None);
    assert_eq!(table.get(&[0]).unwrap().unwrap(), [60][..]);
}

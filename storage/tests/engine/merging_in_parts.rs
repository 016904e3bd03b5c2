//! Merges in parts: a part is durable once it is done, and between two parts every kind of reader
//! finds the same as before, in both directions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::hooked_disk::{Call, HookedDisk, is_sstable};
use crate::common::one_table::rows;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Compression, Db, DetachedOptions, DetachedTable, Error,
    FileSystem, Keyspace, Maintenance, Options, Pick, Range, RunShape, Snapshot, SortedWriter,
    SortedWriterOptions, SsTableOptions, Table, TableOptions, TableShape, repair,
};
use rand::RngExt;

/// A picker that merges the newest runs into one, if there are at least two before the first run
/// that is busy.
#[derive(Debug)]
struct FreeRuns;

impl CompactionPicker for FreeRuns {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_free = |run: &&RunShape| !run.is_busy;
        let free = table.runs.iter().take_while(is_free).count();
        (free > 1).then(|| Pick::merge(&table.runs[..free]))
    }
}

/// A disk that has space for `left` more SSTables, and is full after that.
#[derive(Clone)]
struct Filling {
    disk: HookedDisk,
    left: Arc<AtomicUsize>,
}

impl Filling {
    fn new(mem: &MemDisk) -> Self {
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let seen = left.clone();
        let disk = HookedDisk::new(mem, move |call, path| {
            let is_new = call == Call::Create && is_sstable(path);
            let take = |left: usize| left.checked_sub(1);
            let relaxed = Ordering::Relaxed;
            if is_new && seen.fetch_update(relaxed, relaxed, take).is_err() {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        });
        Self { disk, left }
    }

    /// Returns options for a database on this disk that merges in small parts.
    fn options(&self) -> Options {
        on_disk(self.disk.clone(), options(&self.disk.mem, 1 << 10))
    }

    /// Merges while the disk has space for two SSTables, which is one part: of one file, or of two.
    fn merge_a_part(&self, db: &Db) -> ebb_storage::Result<()> {
        self.left.store(2, Ordering::Relaxed);
        let merged = db.compact();
        self.left.store(usize::MAX, Ordering::Relaxed);
        merged
    }
}

fn options(mem: &MemDisk, part_bytes: u64) -> Options {
    Options {
        file_bytes: 1 << 10,
        // What is flushed is in no log any more.
        wal_segment_bytes: 256,
        compaction: CompactionOptions {
            picker: Arc::new(FreeRuns),
            part_bytes,
            ..CompactionOptions::default()
        },
        ..manual(mem)
    }
}

fn open(options: Options) -> (Db, Keyspace, Table) {
    let sstable = SsTableOptions {
        compression: Compression::None,
        block_bytes: 128,
        ..SsTableOptions::default()
    };
    let table = TableOptions {
        sstable,
        merge_operator: Some("append".into()),
    };
    one_table::open(options, table)
}

fn ingest(mem: &MemDisk, table: &Table, rows: &Content) {
    let options = SortedWriterOptions {
        file_bytes: 300,
        ..writer_options(mem)
    };
    let mut writer = SortedWriter::create("/ingested", "rows", options).unwrap();
    for (key, value) in rows {
        writer.put(key, value).unwrap();
    }
    table.ingest(&writer.finish().unwrap()).unwrap();
}

fn key(i: u32) -> Vec<u8> {
    format!("{i:04}").into_bytes()
}

const KEYS: u32 = 300;

/// Writes runs with puts, deletions, merge operands and range tombstones, and creates the snapshot
/// "s" between them. If `ingests_on` is given, also ingests a run. Returns the content at the end,
/// and the content of the snapshot.
fn write(
    ingests_on: Option<&MemDisk>,
    (db, keyspace, table): (&Db, &Keyspace, &Table),
    seed: u64,
) -> (Content, Content) {
    let _pause = db.pause_merges();
    let mut rng = rng(seed);
    let (mut now, mut then) = (Content::new(), Content::new());
    for round in 0..5_u8 {
        if round == 3 {
            keyspace.create_snapshot("s").unwrap();
            then = now.clone();
        }
        for _ in 0..150 {
            let at = key(rng.random_range(0..KEYS));
            let value = vec![round; rng.random_range(1..60)];
            match rng.random_range(0..10) {
                0..3 => {
                    table.delete(&at).unwrap();
                    now.remove(&at);
                }
                3..6 => {
                    table.merge(&at, &value).unwrap();
                    now.entry(at).or_default().extend(value);
                }
                _ => {
                    table.put(&at, &value).unwrap();
                    now.insert(at, value);
                }
            }
        }
        if let Some(mem) = ingests_on.filter(|_| round == 1) {
            db.flush().unwrap();
            let rows: Content = (0..40)
                .map(|_| (key(rng.random_range(0..KEYS)), vec![7; 20]))
                .collect();
            ingest(mem, table, &rows);
            now.extend(rows);
        }
        if round != 2 {
            let from = rng.random_range(0..KEYS);
            let range = key(from)..key(from + rng.random_range(1..40));
            table.delete_range(range.clone()).unwrap();
            now.retain(|key, _| !range.contains(key));
        }
        db.flush().unwrap();
    }
    (now, then)
}

/// Makes a backup that shares no bytes with the database.
fn copied_backup(mem: &MemDisk, db: &Db) {
    db.backup("/backup").unwrap();
    for path in mem.list("/backup".as_ref()).unwrap() {
        let bytes = mem.read_all(&path).unwrap();
        mem.remove(&path).unwrap();
        let mut copy = mem.create(&path).unwrap();
        copy.append(&bytes).unwrap();
        copy.sync().unwrap();
    }
}

/// Damages each file of which the backup has a copy, and restores it from the backup. The restored
/// files have the same bytes under higher file numbers.
fn restore_all(mem: &MemDisk, options: Options) {
    let copies = mem.list("/backup".as_ref()).unwrap();
    let copies = copies.iter().filter(|path| is_sstable(path));
    for copy in copies {
        let path = Path::new(DIR).join(copy.file_name().unwrap());
        if mem.exists(&path).unwrap() {
            mem.flip_bit(&path, mem.file_len(&path).unwrap() / 2, 0)
                .unwrap();
        }
    }
    let db = Db::open(DIR, options).unwrap();
    let report = db.restore("/backup").unwrap();
    assert_eq!(report.left, []);
}

/// Repairs a copy of the database, without its manifest if `loses_manifest`, and returns it
/// with the content of its only table.
fn repaired(mem: &MemDisk, options: &Options, loses_manifest: bool) -> (Db, Content) {
    let copy = mem.fork();
    for path in copy.list(DIR.as_ref()).unwrap() {
        let name = path.file_name().unwrap().to_string_lossy();
        if loses_manifest && (name.starts_with("MANIFEST") || name.starts_with("CURRENT")) {
            copy.remove(&path).unwrap();
        }
    }
    let options = on_disk(copy, options.clone());
    repair(DIR, "/repaired", &options, &mut |_| ()).unwrap();
    let db = Db::open("/repaired", options).unwrap();
    let [table] = &all_tables(&db)[..] else {
        panic!("one table is there");
    };
    let found = rows(table);
    (db, found)
}

fn all_tables(db: &Db) -> Vec<Table> {
    let keyspaces = db.keyspaces().into_iter();
    let keyspaces = keyspaces.map(|name| db.existing_keyspace(&name).unwrap());
    let of_each = |keyspace: Keyspace| {
        let tables = keyspace.tables().into_iter();
        let tables = tables.map(|name| keyspace.existing_table(&name).unwrap());
        tables.collect::<Vec<_>>()
    };
    keyspaces.flat_map(of_each).collect()
}

/// Asserts that every way to read the table returns the content `now`, and every way to read the
/// snapshot the content `then`.
fn assert_reads(
    disk: &HookedDisk,
    (table, snapshot): (&Table, &Snapshot),
    (now, then): (&Content, &Content),
) {
    let old = snapshot.table("users").unwrap();
    let pin = old.pin().unwrap();
    let detached = DetachedOptions {
        disk: Arc::new(disk.clone()),
        ..DetachedOptions::default()
    };
    let detached = DetachedTable::open(pin.description(), detached).unwrap();
    assert!(content(detached.scan::<&[u8], _>(..)).unwrap() == *then);
    assert!(rows(table) == *now);
    assert!(content(old.range::<&[u8], _>(..)).unwrap() == *then);
    let backwards = |range: Range| {
        let entries = range.rev();
        let entries = entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())));
        let mut all = entries.collect::<Result<Vec<_>, _>>().unwrap();
        all.reverse();
        all
    };
    let listed = |content: &Content| content.clone().into_iter().collect::<Vec<_>>();
    assert!(backwards(table.range::<&[u8], _>(..)) == listed(now));
    assert!(backwards(old.range::<&[u8], _>(..)) == listed(then));
    for i in 0..KEYS {
        let at = key(i);
        let found = table.get(&at).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), now.get(&at), "{i}");
        let found = old.get(&at).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), then.get(&at), "{i} of the snapshot");
        let next = table.range(at.clone()..).next();
        let next = next.map(|entry| entry.unwrap().0.to_vec());
        let expected = now.range(at.clone()..).next().map(|(key, _)| key.clone());
        assert_eq!(next, expected, "from {i}");
        let before = table.range(..at.clone()).next_back();
        let before = before.map(|entry| entry.unwrap().0.to_vec());
        let expected = now.range(..at).next_back().map(|(key, _)| key.clone());
        assert_eq!(before, expected, "before {i}");
    }
}

/// A merge is done in parts, which a restart keeps. (Once, a merge of 2.2 hours in one thread was
/// thrown away by a restart, and it needed room for all of its output beside all of its input.)
#[test]
fn what_is_read_between_two_parts_is_what_was_there_before_also_after_a_restart() {
    let test = "what_is_read_between_two_parts_is_what_was_there_before_also_after_a_restart";
    for_seeds(test, 12, |seed| {
        let mem = MemDisk::new();
        let filling = Filling::new(&mem);
        let options = || filling.options();
        let (db, keyspace, table) = open(options());
        let (now, then) = write(Some(&mem), (&db, &keyspace, &table), seed);
        let mut handles = Some((db, keyspace, table));
        let mut parts = 0;
        loop {
            let (db, keyspace, table) = handles.take().unwrap();
            let snapshot = keyspace.snapshot("s").unwrap();
            let merged = filling.merge_a_part(&db);
            assert_reads(&filling.disk, (&table, &snapshot), (&now, &then));
            assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            parts += 1;
            if merged.is_ok() {
                assert_eq!(db.stats().tables[0].runs.len(), 1);
                break;
            }
            drop((snapshot, table, keyspace, db));
            let read_only = on_disk(mem.clone(), options());
            let read_only = Db::open_read_only(DIR, read_only).unwrap();
            let keyspace = read_only.existing_keyspace("app").unwrap();
            let table = keyspace.existing_table("users").unwrap();
            assert_eq!(rows(&table), now);
            drop((table, keyspace, read_only));
            handles = Some(open(options()));
        }
        assert!(parts > 3, "{parts} parts");
    });
}

/// The input files of an unfinished merge still hold versions that were merged away, such as a
/// value that was dropped with its deletion. The manifest records that these versions are no longer
/// part of the run, and so do the output files, for a repair without a manifest. (An ingested file
/// does not name its table, so it is lost without a manifest.)
#[test]
fn a_repair_between_two_parts_brings_nothing_back_with_and_without_a_manifest() {
    let test = "a_repair_between_two_parts_brings_nothing_back_with_and_without_a_manifest";
    for_seeds(test, 12, |seed| {
        let mem = MemDisk::new();
        let filling = Filling::new(&mem);
        let options = || filling.options();
        let (db, keyspace, table) = open(options());
        let (now, then) = write(None, (&db, &keyspace, &table), seed);
        copied_backup(&mem, &db);
        drop((table, keyspace));
        let mut db = Some(db);
        for part in 0.. {
            let opened = db.take().unwrap_or_else(|| open(options()).0);
            let is_done = filling.merge_a_part(&opened).is_ok();
            drop(opened);
            restore_all(&mem, options());
            for loses_manifest in [false, true] {
                let (db, found) = repaired(&mem, &options(), loses_manifest);
                assert!(found == now, "{part} {loses_manifest}");
                if !loses_manifest {
                    let snapshot = db.existing_keyspace("app").unwrap().snapshot("s").unwrap();
                    let old = snapshot.table("users").unwrap();
                    assert!(
                        content(old.range::<&[u8], _>(..)).unwrap() == then,
                        "{part}"
                    );
                }
            }
            if is_done {
                break;
            }
        }
    });
}

/// A rewritten file gets a higher number than the outputs of earlier merges. Even so it hides no
/// output, because it counts only for the keys that are still part of its run. To have files to
/// rewrite, this test damages the header of each file, which no read of the other content needs.
#[test]
fn a_rewritten_input_or_output_of_an_unfinished_merge_changes_nothing() {
    let test = "a_rewritten_input_or_output_of_an_unfinished_merge_changes_nothing";
    for_seeds(test, 4, |seed| {
        let mem = MemDisk::new();
        let filling = Filling::new(&mem);
        let options = || filling.options();
        let (db, keyspace, table) = open(options());
        let (now, then) = write(None, (&db, &keyspace, &table), seed);
        drop((db, keyspace, table));
        loop {
            let (db, keyspace, table) = open(options());
            let is_done = filling.merge_a_part(&db).is_ok();
            drop((db, keyspace, table));
            let damaged = files(&mem, ".sst");
            for path in &damaged {
                mem.flip_bit(path, 0, 0).unwrap();
            }
            let (db, keyspace, table) = open(options());
            let accepted = db.list_lost("app", "users").unwrap().token.unwrap();
            let done = db.rewrite_damaged("app", "users", &accepted).unwrap();
            let done = done.expect("the loss is the same");
            assert_eq!((done.files.len(), done.entries_lost()), (damaged.len(), 0));
            assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            let snapshot = keyspace.snapshot("s").unwrap();
            assert_reads(&filling.disk, (&table, &snapshot), (&now, &then));
            drop((db, keyspace, table, snapshot));
            for loses_manifest in [false, true] {
                let (_, found) = repaired(&mem, &options(), loses_manifest);
                assert!(found == now, "{loses_manifest}");
            }
            if is_done {
                break;
            }
        }
    });
}

/// A merge replaces a part of a file's keys, and then the file is restored from a backup, under a
/// higher number than the merge's output has. For a repair without the manifest, only the number
/// under which the file was first written shows that the output is newer; otherwise an operand
/// would be applied a second time.
#[test]
fn a_restored_input_does_not_shadow_the_merge_that_replaced_a_part_of_it() {
    let mem = MemDisk::new();
    let filling = Filling::new(&mem);
    let options = || filling.options();
    let (db, keyspace, table) = open(options());
    let pause = db.pause_merges();
    // A part ends at the end of a file. Files of operands hold more keys, so that one of them is merged
    // in part and stays.
    for i in 0..200 {
        table.put(&key(i), &[1; 100]).unwrap();
    }
    db.flush().unwrap();
    for i in 0..200 {
        table.merge(&key(i), &[2; 20]).unwrap();
    }
    db.flush().unwrap();
    let now = rows(&table);
    copied_backup(&mem, &db);
    drop((table, keyspace, pause));
    // The disk is full after a part of the merge.
    assert_is!(filling.merge_a_part(&db), Err(Error::DiskFull { .. }));
    drop(db);
    restore_all(&mem, options());
    let (_, found) = repaired(&mem, &options(), true);
    assert!(found == now);
}

/// Regression: a file was taken to cover only the keys from its first to its last. A part of a
/// merge had dropped a value together with its deletion, so no output file had the key; the repair
/// then took the value from a partly merged input.
#[test]
fn what_was_dropped_between_two_files_does_not_come_back_without_a_manifest() {
    let mem = MemDisk::new();
    let filling = Filling::new(&mem);
    let options = || Options {
        memtable_bytes: 1 << 20,
        ..filling.options()
    };
    // All of the oldest run is in one file, which stays until the end.
    let (db, keyspace, table) = open(Options {
        file_bytes: 1 << 20,
        ..options()
    });
    for i in 0..200 {
        table.put(&key(i), b"old").unwrap();
    }
    db.flush().unwrap();
    drop((table, keyspace, db));
    let (db, keyspace, table) = open(options());
    let pause = db.pause_merges();
    for i in 0..200 {
        match i % 10 {
            0 => table.put(&key(i), &[2; 300]).unwrap(),
            _ => table.delete(&key(i)).unwrap(),
        }
    }
    db.flush().unwrap();
    let now = rows(&table);
    assert_eq!((now.len(), db.stats().tables[0].runs.len()), (20, 2));
    drop((table, keyspace, pause));
    let mut parts = 0;
    let mut db = Some(db);
    loop {
        let opened = db.take().unwrap_or_else(|| open(options()).0);
        let is_done = filling.merge_a_part(&opened).is_ok();
        drop(opened);
        assert!(repaired(&mem, &options(), true).1 == now, "{parts}");
        parts += 1;
        if is_done {
            break;
        }
    }
    assert!(parts > 3, "{parts} parts");
}

/// Regression: a repair without the manifest dropped merged versions. A flushed file records the range of
/// sequence numbers that it replaces, and the flush took all numbers above those of the first run in the
/// list. But a merge in parts can use up the newest run while an older input still has keys left. Its
/// output follows that input in the list, so the flushed file seemed to replace the output's versions.
#[test]
fn a_flush_between_two_parts_replaces_no_merged_version() {
    let mem = MemDisk::new();
    let filling = Filling::new(&mem);
    let options = || filling.options();
    let (db, keyspace, table) = open(options());
    for i in 0..100 {
        table.put(&key(i), &[1; 60]).unwrap();
    }
    db.flush().unwrap();
    for i in 0..3 {
        table.put(&key(i), &[2; 60]).unwrap();
    }
    db.flush().unwrap();
    filling.merge_a_part(&db).unwrap_err();
    assert_eq!(db.stats().tables[0].runs.len(), 2, "the newest run is gone");
    table.put(&key(99), &[3; 60]).unwrap();
    db.flush().unwrap();
    let now = rows(&table);
    assert_eq!(now[&key(0)], [2; 60]);
    drop((table, keyspace, db));
    let (_, lost) = repaired(&mem, &options(), true);
    assert_eq!(lost, now);
}

/// Regression: a merge needed room for all its output beside all its input. Now it needs room for
/// one part, and for the files in which the part ends.
#[test]
fn a_merge_goes_on_where_there_is_room_for_a_part_of_it() {
    let mem = MemDisk::new();
    let options = Options {
        memtable_bytes: 1 << 20,
        file_bytes: 16 << 10,
        ..options(&mem, 32 << 10)
    };
    let (db, _keyspace, table) = open(Options {
        maintenance: Maintenance::Background,
        ..options
    });
    let pause = db.pause_merges();
    for round in 0..4 {
        for i in 0..KEYS {
            table.put(&key(i), &[round; 1000]).unwrap();
        }
        db.flush().unwrap();
    }
    let now = rows(&table);
    // Less than all that is written, even if the rest were to be had to the last byte.
    let room = db.stats().tables[0].file_bytes / 4 - 1000;
    mem.set_capacity_bytes(Some(mem.used_bytes() + room));
    drop(pause);
    // A thread that looks for a merge holds the merged files for a moment, and so their space.
    until("the merge", || match db.compact() {
        Ok(()) => true,
        Err(Error::DiskFull { .. }) => false,
        Err(e) => panic!("{e}"),
    });
    assert_eq!(db.stats().tables[0].runs.len(), 1);
    assert_eq!(rows(&table), now);
}

/// While the merge waits, both the merged part and the rest are read, and newer runs are merged.
#[test]
fn a_merge_waits_for_a_damaged_file_and_goes_on_when_that_is_restored() {
    let mem = MemDisk::new();
    let filling = Filling::new(&mem);
    let options = || filling.options();
    let (db, keyspace, table) = open(options());
    for round in 0..3 {
        for i in 0..KEYS {
            table.put(&key(i), &[round; 60]).unwrap();
        }
        db.flush().unwrap();
    }
    copied_backup(&mem, &db);
    filling.merge_a_part(&db).unwrap_err();
    let file = mem.list(DIR.as_ref()).unwrap();
    let in_backup = |path: &&std::path::PathBuf| {
        let copy = Path::new("/backup").join(path.file_name().unwrap());
        is_sstable(path) && mem.exists(&copy).unwrap()
    };
    // The newest run has the highest numbers, and its last file the highest keys.
    let damaged = file.iter().filter(in_backup).max().unwrap();
    mem.flip_bit(damaged, 100, 1).unwrap();
    db.compact().unwrap();
    let damaged_files = || db.stats().tables[0].quarantine.len();
    assert_eq!(damaged_files(), 1);
    assert_eq!(table.get(&key(0)).unwrap().unwrap(), &[2; 60][..]);
    let fails = (0..KEYS).filter(|&i| table.get(&key(i)).is_err()).count();
    assert!((1..10).contains(&fails), "{fails}");

    let waiting = db.stats().tables[0].runs.len();
    for round in 3..6 {
        table.put(&key(0), &[round; 60]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.stats().tables[0].runs.len(), waiting + 3);
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), waiting + 1);
    assert_eq!(table.get(&key(0)).unwrap().unwrap(), &[5; 60][..]);
    assert_eq!(db.restore("/backup").unwrap().left, []);
    assert_eq!(damaged_files(), 0);
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), 1);
    let all = rows(&table);
    assert_eq!(all.len(), KEYS as usize);
    assert_eq!((&all[&key(0)], &all[&key(1)]), (&vec![5; 60], &vec![2; 60]));
    drop(keyspace);
}

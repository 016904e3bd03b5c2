//! Backups: made beside writers, interrupted at every call, and over file
//! systems.

mod common;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use common::*;
use ebb_storage::vfs::{FaultOp, MemVfs, Vfs};
use ebb_storage::{Db, Durability, Error, Maintenance, ManualClock, Options, Table, WriteBatch};

const TARGET: &str = "/backup";

/// A database after a random script, and what it holds.
fn database(seed: u64, mem: &MemVfs, steps: usize) -> (Db, Vec<Table>, Oracle) {
    let mut rng = rng(seed);
    let table_options: Vec<_> = TABLES
        .iter()
        .map(|_| random_table_options(&mut rng))
        .collect();
    let clock = ManualClock::at_ms(START_MS);
    let options = Options {
        durability: Durability::Sync,
        clock: Arc::new(clock.clone()),
        ..random_options(&mut rng, mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let tables = open_tables(&db, &table_options).unwrap();
    let (script, mut states) = random_script(&mut rng, steps, 4);
    for op in &script {
        if let Op::Tick(ms) = op {
            clock.advance_ms(*ms);
        }
        apply(&db, &tables, op).unwrap();
    }
    (db, tables, states.pop().unwrap())
}

/// Opens a database that must be there, at a time.
fn open(mem: &MemVfs, dir: &str, now_ms: u64) -> Result<Db, Error> {
    let options = Options {
        create_if_missing: false,
        clock: Arc::new(ManualClock::at_ms(now_ms)),
        ..manual(mem)
    };
    Db::open(dir, options)
}

fn assert_holds(db: &Db, expected: &Oracle) {
    db.verify().unwrap();
    let found = Seen::read(db).unwrap();
    let expected = expected.seen_at(expected.now_ms);
    assert!(found == expected, "{}", found.difference(&expected));
}

#[test]
fn a_backup_opens_as_the_database_and_goes_its_own_way() {
    for_seeds(0..20, |seed| {
        let mem = MemVfs::new();
        let (db, tables, expected) = database(seed, &mem, 300);
        let info = db.backup(TARGET).unwrap();
        assert_eq!(info.bytes, info.linked_bytes + info.copied_bytes);
        let stats = db.stats();
        let file_bytes: u64 = stats.tables.iter().map(|table| table.file_bytes).sum();
        assert_eq!(info.linked_bytes, file_bytes);

        // What the source does then does not show in it, and the other way.
        for table in &tables {
            table.put(b"later", b"source").unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        let copy = open(&mem, TARGET, expected.now_ms).unwrap();
        assert_holds(&copy, &expected);
        let table = copy.existing_keyspace("app").unwrap();
        let table = table.existing_table("users").unwrap();
        table.put(b"later", b"copy").unwrap();
        copy.flush().unwrap();
        copy.compact().unwrap();
        drop(copy);
        assert_eq!(tables[1].get(b"later").unwrap().unwrap(), "source");
        drop((db, tables));

        // And survives the loss of the source, and of the power.
        mem.restart(seed);
        for path in mem.list(DIR.as_ref()).unwrap() {
            mem.remove(&path).unwrap();
        }
        let mut expected = expected;
        expected.apply(&Op::Write(vec![Write {
            table: 1,
            change: Change::Put(b"later".to_vec(), b"copy".to_vec()),
        }]));
        assert_holds(&open(&mem, TARGET, expected.now_ms).unwrap(), &expected);
    });
}

#[test]
fn power_lost_at_any_call_of_a_backup_leaves_the_source_and_no_half_database() {
    for_seeds(0..4, |seed| {
        let calls = {
            let mem = MemVfs::new();
            let (db, _tables, _) = database(seed, &mem, 120);
            let before = mem.io_calls();
            db.backup(TARGET).unwrap();
            mem.io_calls() - before
        };
        let (mut refused, mut complete) = (0, 0);
        for call in 1..=calls + 1 {
            let _replay = Replay(format!("EBB_SEED={seed}, call {call} of {calls}"));
            let mem = MemVfs::new();
            let (db, tables, expected) = database(seed, &mem, 120);
            mem.crash_at(call);
            let outcome = db.backup(TARGET);
            drop((db, tables));
            mem.restart(seed * 1000 + call);
            assert_holds(&open(&mem, DIR, expected.now_ms).unwrap(), &expected);
            match open(&mem, TARGET, expected.now_ms) {
                Ok(copy) => {
                    assert_holds(&copy, &expected);
                    complete += 1;
                }
                Err(error) => {
                    assert!(outcome.is_err(), "{error}");
                    // Not for something that happens to be missing.
                    let told = match &error {
                        Error::NoDatabase { .. } => true,
                        Error::Corruption { path, .. } => path.ends_with("CURRENT"),
                        _ => false,
                    };
                    assert!(told, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && complete > 0);
    });
}

#[test]
fn a_backup_that_fails_leaves_an_empty_directory_and_can_be_made_again() {
    let ops = [
        FaultOp::Append,
        FaultOp::Sync,
        FaultOp::Create,
        FaultOp::SyncDir,
        FaultOp::Read,
        FaultOp::Link,
    ];
    for op in ops {
        for nth in 1..4 {
            let mem = MemVfs::new();
            let (db, _tables, expected) = database(8, &mem, 200);
            mem.fail_next(op, nth, ErrorKind::Other);
            let outcome = db.backup(TARGET);
            if mem.armed_faults() > 0 {
                assert!(nth > 1, "{op:?} is never called");
                outcome.unwrap();
                continue;
            }
            if let Err(error) = outcome {
                assert!(matches!(error, Error::Io { .. }), "{op:?}: {error}");
                if matches!(op, FaultOp::SyncDir) && nth > 1 {
                    // In the last steps nobody knows which side it fell on.
                    continue;
                }
                assert!(open(&mem, TARGET, expected.now_ms).is_err());
                db.backup(TARGET)
                    .unwrap_or_else(|e| panic!("{op:?} {nth}: {e}"));
            }
            assert_holds(&open(&mem, TARGET, expected.now_ms).unwrap(), &expected);
        }
    }
}

#[test]
fn where_files_cannot_be_linked_they_are_copied() {
    for kind in [ErrorKind::CrossesDevices, ErrorKind::Unsupported] {
        let mem = MemVfs::new();
        let (db, _tables, expected) = database(3, &mem, 300);
        let links = db.backup("/linked").unwrap();
        assert!(links.linked_bytes > 0);
        for nth in 1..=links.files {
            mem.fail_next(FaultOp::Link, nth, kind);
        }
        let copies = db.backup(TARGET).unwrap();
        assert_eq!((copies.linked_bytes, copies.bytes), (0, links.bytes));
        assert_holds(&open(&mem, TARGET, expected.now_ms).unwrap(), &expected);
    }
}

#[test]
fn a_directory_with_something_in_it_is_refused_by_name() {
    let mem = MemVfs::new();
    let (db, _tables, _) = database(1, &mem, 50);
    mem.create_dir_all(TARGET.as_ref()).unwrap();
    mem.create(format!("{TARGET}/mine").as_ref()).unwrap();
    for dir in [TARGET, DIR] {
        match db.backup(dir) {
            Err(Error::InvalidRequest(message)) => assert!(message.contains(dir), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(mem.read_all(format!("{TARGET}/mine")).is_ok());
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let mem = MemVfs::new();
    let (db, _tables, expected) = database(2, &mem, 200);
    mem.set_capacity_bytes(Some(mem.used_bytes() + 100));
    let used = mem.used_bytes();
    let error = db.backup(TARGET).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(mem.used_bytes(), used);
    mem.set_capacity_bytes(None);
    db.backup(TARGET).unwrap();
    assert_holds(&open(&mem, TARGET, expected.now_ms).unwrap(), &expected);
}

/// Has the writers stop also when the test fails: it waits for them.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Writers commit batches over two tables, each also setting one key that they
/// all share, while backups are made.
#[test]
fn a_backup_beside_writers_holds_whole_batches_and_all_acknowledged_before() {
    const WRITERS: usize = 3;
    const BACKUPS: usize = 6;
    let mem = MemVfs::new();
    let options = Options {
        maintenance: Maintenance::Background,
        memtable_bytes: 4 << 10,
        wal_segment_bytes: 4 << 10,
        wal_bytes_max: 32 << 10,
        durability: Durability::Os,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let tables = ["a", "b"].map(|name| keyspace.table(name, Default::default()).unwrap());
    let acknowledged: [AtomicU64; WRITERS] = Default::default();
    let stop = AtomicBool::new(false);
    let started = Barrier::new(WRITERS + 1);
    let key = |writer: usize, i: u64| format!("w{writer}/{i:08}");
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (db, tables, stop, started) = (&db, &tables, &stop, &started);
            scope.spawn(move || {
                for i in 0.. {
                    let mut batch = WriteBatch::new();
                    for table in tables {
                        batch.put(table, key(writer, i).as_bytes(), &[7; 40]);
                        batch.put(table, b"last", key(writer, i).as_bytes());
                    }
                    db.write(batch).unwrap();
                    acknowledged.store(i + 1, Ordering::SeqCst);
                    if i == 0 {
                        started.wait();
                    }
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        started.wait();
        let stopped = StopOnDrop(&stop);
        let mut checked = 0;
        for backup in 0..BACKUPS {
            let before: Vec<u64> = acknowledged
                .iter()
                .map(|count| count.load(Ordering::SeqCst))
                .collect();
            keyspace.create_snapshot(&format!("s{backup}")).unwrap();
            let dir = format!("/backup{backup}");
            db.backup(&dir).unwrap();
            let copy = open(&mem, &dir, START_MS).unwrap();
            copy.verify().unwrap();
            let keyspace = copy.existing_keyspace("app").unwrap();
            assert_eq!(keyspace.snapshots().len(), backup + 1);
            let [a, b] = ["a", "b"].map(|name| {
                let table = keyspace.existing_table(name).unwrap();
                content(table.range::<&[u8], _>(..)).unwrap()
            });
            assert!(a == b, "a batch over two tables is in one of them only");
            for (writer, &before) in before.iter().enumerate() {
                let prefix = format!("w{writer}/");
                let found = a.keys().filter(|key| key.starts_with(prefix.as_bytes()));
                let expected = (0..).map(|i| key(writer, i).into_bytes());
                let count = found
                    .zip(expected)
                    .map(|(found, expected)| assert_eq!(*found, expected))
                    .count();
                assert!(
                    count as u64 >= before,
                    "writer {writer}: {count} of {before}"
                );
                checked += count;
            }
            if let Some(last) = a.get(&b"last"[..]) {
                assert!(a.contains_key(last));
            }
        }
        drop(stopped);
        assert!(checked > 0);
    });
}

//! Backups beside writers, interrupted at every call, and to other file systems.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebb_storage::{Db, Durability, Error, Maintenance, Options, Table, TieredPicker, WriteBatch};
use ebb_test_support::seed::for_seeds;
use ebb_test_support::wait;
use ebb_tests::disk::{self, DIR, FaultOp, MemDisk, manual};
use ebb_tests::made::{Made, open_at};
use ebb_tests::model::World;
use ebb_tests::operation::{Key, Mix, Operation, TableNo, Val, Write};
use ebb_tests::seed::PrintOnPanic;
use ebb_tests::session::read_everything;

pub(crate) const TARGET: &str = "/copy";

pub(crate) fn database(seed: u64, mem: &MemDisk, operations: usize) -> Made {
    let mix = Mix {
        backup: 0,
        ..Mix::CHANGES
    };
    Made::drawn(seed, mem, mix, operations).unwrap()
}

/// Asserts that the copy at [`TARGET`], whose opening failed with `error`, was refused as
/// incomplete, and not because some file is missing.
pub(crate) fn assert_is_no_database(error: &Error) {
    let is_no_database = match error {
        Error::NoDatabase { .. } | Error::Incomplete { .. } => true,
        Error::Corruption { path, .. } => path.ends_with("CURRENT"),
        _ => false,
    };
    assert!(is_no_database, "{error}");
}

/// Asserts that no folder of links, which a backup makes, is left in the directory of the database.
pub(crate) fn assert_no_links(mem: &MemDisk) {
    let left = disk::files(mem, DIR, "").unwrap();
    let is_links = |path: &PathBuf| path.to_string_lossy().contains("/.backup-");
    assert!(!left.iter().any(is_links), "{left:?}");
}

fn assert_holds(db: &Db, expected: &World) {
    db.verify().unwrap();
    let (found, expected) = (read_everything(db).unwrap(), expected.seen());
    assert!(found == expected, "{}", found.difference(&expected));
}

/// Returns an operation that puts value `number` under one fixed key, for changes after the backup.
fn put_later(number: u32) -> Operation {
    let value = Val { number, bytes: 40 };
    Operation::Write(vec![Write::Put(TableNo(1), Key(70), value)])
}

#[test]
fn a_backup_opens_as_the_database_and_goes_its_own_way() {
    let test = "a_backup_opens_as_the_database_and_goes_its_own_way";
    for_seeds(test, 20, |seed| {
        let mem = MemDisk::new();
        let mut source = database(seed, &mem, 300);
        let mut copy_world = source.world.clone();
        let tables = disk::files(&mem, DIR, ".sst").unwrap();
        let bytes = tables.iter().map(|path| mem.file_len(path).unwrap());
        let info = source.session.db().backup(TARGET).unwrap();
        assert_eq!(info.bytes, info.linked_bytes + info.copied_bytes);
        assert_eq!(info.linked_bytes, bytes.sum::<u64>());

        // Later changes of the source do not show in the backup, and later changes of the backup do
        // not show in the source.
        for operation in [put_later(1), Operation::Flush, Operation::Compact] {
            source.apply(&operation).unwrap();
        }
        let copy = open_at(&mem, TARGET, &copy_world).unwrap();
        assert_holds(&copy, &copy_world);
        let table = copy.existing_keyspace("app").unwrap();
        let table = table.existing_table("users").unwrap();
        let value = Val {
            number: 2,
            bytes: 40,
        };
        table.put(&Key(70).bytes(), &value.bytes()).unwrap();
        copy_world.apply(&put_later(2));
        copy.flush().unwrap();
        copy.compact().unwrap();
        drop((table, copy));
        assert_holds(source.session.db(), &source.world);
        drop(source);

        // The backup survives the loss of the source, and of the power.
        mem.restart(seed);
        disk::clear(&mem, DIR).unwrap();
        assert_holds(&open_at(&mem, TARGET, &copy_world).unwrap(), &copy_world);
    });
}

/// Makes the next backup, which has `files` files, copy the files to its target: links to the
/// target fail, as on another file system. The first `files` links of a backup succeed, because
/// they lead into a folder in the directory of the database itself. Does nothing if `files` is 0.
pub(crate) fn move_target_away(mem: &MemDisk, files: u64) {
    for nth in files + 1..=2 * files {
        mem.fail_next(FaultOp::Link, nth, ErrorKind::CrossesDevices);
    }
}

/// Returns the numbers of the I/O calls at which power is lost, each in a database of its own:
/// about 50 that are spread evenly over `calls` calls, all of the last `dense` calls, and the
/// number after them: there the backup completes before the power is lost.
fn calls_to_fail(seed: u64, calls: u64, dense: u64) -> impl Iterator<Item = u64> {
    let stride = calls.div_ceil(50);
    (1..=calls + 1).filter(move |call| call % stride == seed % stride || calls < call + dense)
}

/// In every other seed the target is on another file system.
#[test]
fn power_lost_at_any_call_of_a_backup_leaves_the_source_and_no_half_database() {
    let test = "power_lost_at_any_call_of_a_backup_leaves_the_source_and_no_half_database";
    for_seeds(test, 4, |seed| {
        let back_up = |files| {
            let mem = MemDisk::new();
            let source = database(seed, &mem, 120);
            move_target_away(&mem, files);
            let before = mem.io_calls();
            let info = source.session.db().backup(TARGET).unwrap();
            (info.files, mem.io_calls() - before)
        };
        let (all, calls) = back_up(0);
        let (files, calls) = match seed % 2 {
            0 => (0, calls),
            _ => (all, back_up(all).1),
        };
        let (mut refused, mut complete) = (0, 0);
        // The directory becomes a database shortly before the links are removed one by one.
        for call in calls_to_fail(seed, calls, all + 30) {
            let _case = PrintOnPanic(format!("power lost at call {call} of {calls}"));
            let mem = MemDisk::new();
            let Made { session, world, .. } = database(seed, &mem, 120);
            move_target_away(&mem, files);
            mem.crash_at(call);
            let outcome = session.db().backup(TARGET);
            drop(session);
            mem.restart(seed * 1000 + call);
            assert_holds(&open_at(&mem, DIR, &world).unwrap(), &world);
            assert_no_links(&mem);
            match open_at(&mem, TARGET, &world) {
                Ok(copy) => {
                    assert_holds(&copy, &world);
                    complete += 1;
                }
                Err(error) => {
                    assert!(outcome.is_err(), "{error}");
                    assert_is_no_database(&error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && complete > 0);
    });
}

/// Returns a database that was changed since its backup, and the content of the backup. In two of
/// every four seeds, a merge has replaced some files that the backup has.
fn backed_up_and_changed(seed: u64, mem: &MemDisk) -> (Made, World) {
    let mut source = database(seed, mem, 120);
    source.session.db().backup(TARGET).unwrap();
    let older = source.world.clone();
    let mut changes = vec![put_later(1), Operation::Flush];
    if seed % 4 < 2 {
        changes.push(Operation::Compact);
    }
    changes.push(put_later(2));
    for change in changes {
        source.apply(&change).unwrap();
    }
    (source, older)
}

/// In every other seed the target is on another file system.
#[test]
fn power_lost_at_any_call_of_a_second_backup_leaves_one_of_the_two() {
    let test = "power_lost_at_any_call_of_a_second_backup_leaves_one_of_the_two";
    for_seeds(test, 4, |seed| {
        let back_up = |files| {
            let mem = MemDisk::new();
            let (source, _) = backed_up_and_changed(seed, &mem);
            move_target_away(&mem, files);
            let before = mem.io_calls();
            let info = source.session.db().backup(TARGET).unwrap();
            (info.files, mem.io_calls() - before)
        };
        let (all, calls) = back_up(0);
        let (files, calls) = match seed % 2 {
            0 => (0, calls),
            _ => (all, back_up(all).1),
        };
        let (mut older_left, mut newer_left) = (0, 0);
        // CURRENT names the newer backup shortly before files and links are removed one by one.
        for call in calls_to_fail(seed, calls, 2 * all + 40) {
            let _case = PrintOnPanic(format!("power lost at call {call} of {calls}"));
            let mem = MemDisk::new();
            let (Made { session, world, .. }, older) = backed_up_and_changed(seed, &mem);
            move_target_away(&mem, files);
            mem.crash_at(call);
            let outcome = session.db().backup(TARGET);
            drop(session);
            mem.restart(seed * 1000 + call);

            // Opens the backup in a copy of the disk: once it is opened, it is a database of its
            // own.
            let copy = open_at(&mem.fork(), TARGET, &older).unwrap();
            copy.verify().unwrap();
            let found = read_everything(&copy).unwrap();
            if found == world.seen() {
                newer_left += 1;
            } else {
                // Without a power loss the older backup stays if the newer one has damage, such as
                // a log that could not be read after it was copied.
                assert!(outcome.as_ref().map_or(true, |made| made.older_stays));
                assert!(found == older.seen(), "{}", found.difference(&older.seen()));
                older_left += 1;
            }
            drop(copy);

            mem.clear_faults();
            let source = open_at(&mem, DIR, &world).unwrap();
            assert_holds(&source, &world);
            assert_eq!(source.backup(TARGET).unwrap().damaged, []);
            assert_holds(&open_at(&mem, TARGET, &world).unwrap(), &world);
        }
        assert!(older_left > 0 && newer_left > 0);
    });
}

#[test]
fn a_second_backup_replaces_a_damaged_file_of_the_first() {
    for is_cut in [false, true] {
        let mem = MemDisk::new();
        let mut source = database(3, &mem, 300);
        // After this flush the manifest names all files.
        source.apply(&Operation::Flush).unwrap();
        let db = source.session.db();
        let files = db.backup("/linked").unwrap().files;
        move_target_away(&mem, files);
        assert_eq!(db.backup(TARGET).unwrap().linked_bytes, 0);
        mem.clear_faults();
        let sstables = disk::files(&mem, TARGET, ".sst").unwrap();
        let bytes = |path: &PathBuf| mem.file_len(path).unwrap();
        let whole_bytes: u64 = sstables[1..].iter().map(bytes).sum();
        assert!(whole_bytes > 0);
        if is_cut {
            mem.cut(&sstables[0], 200).unwrap();
        } else {
            mem.flip_bit(&sstables[0], 100, 3).unwrap();
        }
        let second = db.backup(TARGET).unwrap();
        assert_eq!((second.kept_bytes, second.damaged), (whole_bytes, vec![]));
        assert!(second.linked_bytes > 0);
        let copy = open_at(&mem, TARGET, &source.world).unwrap();
        assert_holds(&copy, &source.world);
    }
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
            let mem = MemDisk::new();
            let Made { session, world, .. } = database(8, &mem, 200);
            let db = session.db();
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
                    // If one of the last steps fails, the backup may be complete or not.
                    continue;
                }
                assert!(open_at(&mem, TARGET, &world).is_err());
                db.backup(TARGET)
                    .unwrap_or_else(|e| panic!("{op:?} {nth}: {e}"));
            }
            assert_holds(&open_at(&mem, TARGET, &world).unwrap(), &world);
        }
    }
}

#[test]
fn where_files_cannot_be_linked_they_are_copied() {
    for kind in [ErrorKind::CrossesDevices, ErrorKind::Unsupported] {
        let mem = MemDisk::new();
        let Made { session, world, .. } = database(3, &mem, 300);
        let links = session.db().backup("/linked").unwrap();
        assert!(links.linked_bytes > 0);
        for nth in 1..=links.files {
            mem.fail_next(FaultOp::Link, nth, kind);
        }
        let copies = session.db().backup(TARGET).unwrap();
        assert_eq!((copies.linked_bytes, copies.bytes), (0, links.bytes));
        assert_holds(&open_at(&mem, TARGET, &world).unwrap(), &world);
    }
}

#[test]
fn a_directory_with_something_in_it_is_refused_by_name() {
    let mem = MemDisk::new();
    let source = database(1, &mem, 50);
    let mine = Path::new(TARGET).join("mine");
    disk::write(&mem, &mine, b"something").unwrap();
    for dir in [TARGET, DIR] {
        match source.session.db().backup(dir) {
            Err(Error::InvalidRequest(message)) => assert!(message.contains(dir), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(mem.read_all(&mine).unwrap(), b"something");
}

#[test]
fn a_full_disk_fails_the_backup_and_leaves_nothing() {
    let mem = MemDisk::new();
    let Made { session, world, .. } = database(2, &mem, 200);
    mem.set_capacity_bytes(Some(mem.used_bytes() + 100));
    let used = mem.used_bytes();
    let error = session.db().backup(TARGET).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(mem.used_bytes(), used);
    mem.set_capacity_bytes(None);
    session.db().backup(TARGET).unwrap();
    assert_holds(&open_at(&mem, TARGET, &world).unwrap(), &world);
}

/// Stops the writers when it is dropped, also when the test panics. Otherwise the scope would wait
/// for them for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn content(table: &Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entry = |entry: Result<ebb_storage::Entry, Error>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    table.range::<&[u8], _>(..).map(entry).collect()
}

/// Writers commit batches over two tables while backups are made. Each batch also sets a key that
/// all writers share.
#[test]
fn a_backup_beside_writers_holds_whole_batches_and_all_acknowledged_before() {
    const WRITERS: usize = 3;
    const BACKUPS: usize = 6;
    let mem = MemDisk::new();
    let options = Options {
        maintenance: Maintenance::Background,
        memtable_bytes: 4 << 10,
        file_bytes: 8 << 10,
        wal_segment_bytes: 4 << 10,
        wal_bytes_max: 32 << 10,
        durability: Durability::Os,
        compaction: TieredPicker {
            space_amplification_max: 1.2,
            runs_before_merge: 4,
            ..TieredPicker::default()
        }
        .into(),
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let tables = ["a", "b"].map(|name| keyspace.table(name, Default::default()).unwrap());
    let acknowledged: [AtomicU64; WRITERS] = Default::default();
    let stop = AtomicBool::new(false);
    let key = |writer: usize, i: u64| format!("w{writer}/{i:08}");
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (db, tables, stop) = (&db, &tables, &stop);
            scope.spawn(move || {
                for i in 0.. {
                    let mut batch = WriteBatch::new();
                    for table in tables {
                        batch.put(table, key(writer, i).as_bytes(), &[7; 40]);
                        batch.put(table, b"last", key(writer, i).as_bytes());
                    }
                    db.write(batch).unwrap();
                    acknowledged.store(i + 1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        let stopped = StopOnDrop(&stop);
        wait::until("a batch of each writer", || {
            let mut counts = acknowledged.iter();
            counts.all(|count| count.load(Ordering::SeqCst) > 0)
        });
        let mut checked = 0;
        for backup in 0..BACKUPS {
            let before: Vec<u64> = acknowledged
                .iter()
                .map(|count| count.load(Ordering::SeqCst))
                .collect();
            keyspace.create_snapshot(&format!("s{backup}")).unwrap();
            let dir = format!("/backup{backup}");
            // No write under way looks like damage to the end of the log.
            assert_eq!(db.backup(&dir).unwrap().damaged, []);
            let copy = open_at(&mem, &dir, &World::default()).unwrap();
            copy.verify().unwrap();
            let keyspace = copy.existing_keyspace("app").unwrap();
            assert_eq!(keyspace.snapshots().len(), backup + 1);
            let [a, b] = ["a", "b"].map(|name| {
                let table = keyspace.existing_table(name).unwrap();
                content(&table)
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
            let last = a.get(&b"last"[..]).expect("each writer has written it");
            assert!(a.contains_key(last));
        }
        drop(stopped);
        assert!(checked > 0);
    });
}

//! Repair: whatever happened to the files, the repaired database opens, verifies, and has nothing
//! that was never written. The report names everything that may be wrong.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use ebb_storage::{Db, Error, Lost, ManualClock, RepairReport, SsTableOptions, repair, verify};
use ebb_test_support::seed::for_seeds;
use ebb_tests::disk::{self, DIR, INGEST_DIR, MemDisk, manual};
use ebb_tests::made::{Made, open_at};
use ebb_tests::model::{Content, State, World};
use ebb_tests::operation::{
    Bounds, KEYSPACES, Key, Mix, Operation, TableNo, Val, Write, snapshot_name,
};
use ebb_tests::seed::{PrintOnPanic, rng};
use ebb_tests::session::{Setup, read_everything};
use ebb_tests::setup::{START_MS, tables};
use rand::RngExt;

const TARGET: &str = "/repaired";

/// The puts and merges of each key, oldest first, by table and key. Deletions are not included.
type History = BTreeMap<(TableNo, Vec<u8>), Vec<Written>>;

/// A write to a key: a put of a value, or a merge of an operand.
#[derive(Debug)]
enum Written {
    Put(Vec<u8>),
    Operand(Vec<u8>),
}

/// Returns whether a repair that lost some of the `writes` of a key may have found `value`. Without
/// the merge operator `append`, `value` must be that of one of the writes. With it, `value` starts
/// with one of the puts or operands, and continues with later operands in order, each at most once.
/// The deletions between the writes may be lost, too.
fn was_written(table: TableNo, value: &[u8], writes: &[Written]) -> bool {
    let part = |write: &Written| match write {
        Written::Put(part) | Written::Operand(part) => part[..] == *value,
    };
    match table.merge_operator() {
        Some("append") => was_appended(value, writes),
        // With `max` the value is the largest of some writes; without an operator it is a put.
        _ => writes.iter().any(part),
    }
}

fn was_appended(value: &[u8], writes: &[Written]) -> bool {
    // `made[n]`: the writes so far make the first `n` bytes of the value.
    let mut made = vec![false; value.len() + 1];
    let mut any = false;
    for write in writes {
        let starts = |at: usize, part: &[u8]| value[at..].starts_with(part);
        match write {
            Written::Put(part) => {
                if starts(0, part) {
                    made[part.len()] = true;
                    any = true;
                }
            }
            Written::Operand(part) => {
                for at in (0..=value.len()).rev() {
                    if made[at] && starts(at, part) {
                        made[at + part.len()] = true;
                    }
                }
                if starts(0, part) {
                    made[part.len()] = true;
                    any = true;
                }
            }
        }
    }
    any && made[value.len()]
}

struct Case {
    seed: u64,
    world: World,
    expected: State,
    history: History,
    /// Number of named snapshots in the database, expired ones included.
    snapshots: u64,
    /// Whether the last segment of the log was cut, perhaps between two records, or removed: that
    /// looks like a crash before the records were written.
    is_log_cut: bool,
}

/// Creates and closes a database of several runs, with snapshots and a log.
fn database(seed: u64, mem: &MemDisk, operations: usize) -> Case {
    let mix = Mix {
        drop: 0,
        ingest: 0,
        backup: 0,
        ..Mix::CHANGES
    };
    Case::of(seed, Made::drawn(seed, mem, mix, operations).unwrap())
}

fn paths(mem: &MemDisk) -> Vec<PathBuf> {
    disk::files(mem, DIR, "").unwrap()
}

fn run(mem: &MemDisk) -> RepairReport {
    let report = repair(DIR, TARGET, &manual(mem), &mut |_| ()).unwrap();
    let verified = verify(TARGET, &manual(mem), &mut |_| ()).unwrap();
    assert_eq!(verified.findings, []);
    report
}

fn clear(mem: &MemDisk) {
    disk::clear(mem, TARGET).unwrap();
}

impl Case {
    fn of(seed: u64, made: Made) -> Self {
        let mut history = History::new();
        for operation in &made.operations {
            let writes = match operation {
                Operation::Write(writes)
                | Operation::Transact {
                    writes,
                    commit: true,
                } => writes,
                _ => continue,
            };
            for write in writes {
                let (key, written) = match write {
                    Write::Put(_, key, value) | Write::PutWithTtl(_, key, value, _) => {
                        (key, Written::Put(value.bytes()))
                    }
                    Write::Merge(_, key, operand) => (key, Written::Operand(operand.bytes())),
                    Write::Delete(..) | Write::DeleteRange(..) => continue,
                };
                let of_key = history.entry((write.table(), key.bytes())).or_default();
                of_key.push(written);
            }
        }
        Self {
            seed,
            snapshots: made.session.db().stats().snapshots as u64,
            expected: made.world.seen(),
            world: made.world,
            history,
            is_log_cut: false,
        }
    }

    /// Checks the repaired database: it has no value that was never written, and the report names
    /// every key that differs from the original, unless `is_log_cut`. The tables whose names are
    /// lost may have any content that was written. Returns the whole content, or an empty state if
    /// the name or the merge operator of a table is lost.
    fn check(&self, mem: &MemDisk, report: &RepairReport) -> State {
        let db = open_at(mem, TARGET, &self.world).unwrap();
        for table in TableNo::all() {
            let Some(found) = self.read(&db, report, table.keyspace(), table.name()) else {
                continue;
            };
            let full = table.to_string();
            let nothing = Content::new();
            let expected = self
                .expected
                .table(table)
                .map_or(&nothing, |content| content);
            for (key, value) in &found {
                let written = self.history.get(&(table, key.clone()));
                assert!(
                    written.is_some_and(|written| was_written(table, value, written)),
                    "{full} {key:?} has a value that was never written"
                );
            }
            for key in found.keys().chain(expected.keys()) {
                let same = found.get(key) == expected.get(key);
                let is_named =
                    self.is_log_cut || report.lost.iter().any(|l| l.concerns(&full, key));
                assert!(
                    same || is_named,
                    "{full} {key:?} is wrong: {:?}",
                    report.lost
                );
            }
        }
        let recovered = db.existing_keyspace("recovered");
        for name in recovered.iter().flat_map(|keyspace| keyspace.tables()) {
            let found = self.read(&db, report, "recovered", &name);
            for (key, value) in found.unwrap_or_default() {
                let mut written = self.history.iter();
                assert!(written.any(|((table, k), writes)| {
                    *k == key && was_written(*table, &value, writes)
                }));
            }
        }
        // Snapshots that are not reported as incomplete are complete.
        let has_operators = !report.lost.iter().any(|l| l.detail.contains("operator"));
        let found = (recovered.is_err() && has_operators).then(|| read_everything(&db).unwrap());
        for (id, tables) in found.iter().flat_map(|found| &found.snapshots) {
            let (keyspace, name) = (KEYSPACES[usize::from(id.0)], snapshot_name(id.1));
            let incomplete = format!("{keyspace}: {name}");
            if !self.is_log_cut && !report.snapshots_incomplete.contains(&incomplete) {
                let expected = self.expected.snapshots.get(id);
                assert!(expected == Some(tables), "snapshot {incomplete}");
            }
        }
        // The database accepts writes, with numbers above all existing ones.
        let keyspace = db.keyspace("app").unwrap();
        if let Ok(table) = keyspace.existing_table("users") {
            table.put(b"later", b"x").unwrap();
            assert_eq!(table.get(b"later").unwrap().unwrap(), "x");
        }
        found.unwrap_or_default()
    }

    /// Returns the content of a table; an empty one if the table does not exist. Returns `None` if
    /// the table cannot be read because its merge operator is lost, which the report must name.
    fn read(&self, db: &Db, report: &RepairReport, keyspace: &str, name: &str) -> Option<Content> {
        let table = db
            .existing_keyspace(keyspace)
            .and_then(|keyspace| keyspace.existing_table(name));
        let found = table.and_then(|table| {
            let entries = table.range::<&[u8], _>(..);
            let entry = |entry: ebb_storage::Result<ebb_storage::Entry>| {
                entry.map(|(key, value)| (key.to_vec(), value[..].into()))
            };
            entries.map(entry).collect()
        });
        match found {
            Ok(found) => Some(found),
            Err(Error::NotFound { .. }) => Some(Content::new()),
            Err(Error::InvalidRequest(message)) => {
                let full = format!("{keyspace}.{name}");
                let is_named = report.lost.iter().any(|lost| {
                    lost.table.as_ref() == Some(&full) && lost.detail.contains("operator")
                });
                assert!(is_named, "{message}: {:?}", report.lost);
                None
            }
            Err(error) => panic!("{keyspace}.{name}: {error}"),
        }
    }
}

#[test]
fn a_sound_database_is_repaired_to_itself() {
    for_seeds("a_sound_database_is_repaired_to_itself", 10, |seed| {
        let mem = MemDisk::new();
        let case = database(seed, &mem, 250);
        let before: Vec<_> = paths(&mem)
            .iter()
            .map(|path| mem.read_all(path).unwrap())
            .collect();
        let report = run(&mem);
        assert_eq!(report.lost, []);
        assert_eq!(report.snapshots, case.snapshots);
        let found = case.check(&mem, &report);
        assert!(
            found == case.expected,
            "{}",
            found.difference(&case.expected)
        );
        let after: Vec<_> = paths(&mem)
            .iter()
            .map(|path| mem.read_all(path).unwrap())
            .collect();
        assert!(after == before, "the source was changed");
    });
}

#[test]
fn every_flipped_bit_costs_what_is_named_and_no_more() {
    let test = "every_flipped_bit_costs_what_is_named_and_no_more";
    for_seeds(test, 2, |seed| {
        let mem = MemDisk::new();
        let case = database(seed, &mem, 60);
        for path in paths(&mem) {
            let len = mem.file_len(&path).unwrap();
            for at in (seed % 7..len).step_by(7) {
                let _case = PrintOnPanic(format!("a flipped bit of {} at {at}", path.display()));
                mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
                let report = run(&mem);
                case.check(&mem, &report);
                assert!(
                    report.lost.iter().all(|lost| is_about(&lost.path, &path)),
                    "{:?}",
                    report.lost
                );
                clear(&mem);
                mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
            }
        }
    });
}

/// Returns whether damage to the file `damaged` explains that the report lists `lost`: only if the
/// two are the same file. Damage to one copy of the manifest or of CURRENT explains no loss,
/// because the other copy is whole.
fn is_about(lost: &Path, damaged: &Path) -> bool {
    let name = damaged.to_string_lossy();
    lost == damaged && !name.contains("MANIFEST") && !name.contains("CURRENT")
}

#[test]
fn files_that_are_cut_or_gone_cost_what_is_named() {
    let test = "files_that_are_cut_or_gone_cost_what_is_named";
    for_seeds(test, 8, |seed| {
        let names = paths(&{
            let mem = MemDisk::new();
            database(seed, &mem, 80);
            mem
        });
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|ext| ext == "log");
        let last_segment = names.iter().rfind(is_segment).cloned();
        for path in names {
            let _case = PrintOnPanic(path.display().to_string());
            for eighth in 0..8 {
                let mem = MemDisk::new();
                let mut case = database(seed, &mem, 80);
                let len = mem.file_len(&path).unwrap();
                match eighth {
                    0 => disk::remove(&mem, &path).unwrap(),
                    _ => mem.cut(&path, len * eighth / 8).unwrap(),
                }
                case.is_log_cut = Some(&path) == last_segment.as_ref();
                let report = run(&mem);
                case.check(&mem, &report);
            }
        }
    });
}

#[test]
fn much_damage_at_once_is_survived() {
    for_seeds("much_damage_at_once_is_survived", 30, |seed| {
        let mem = MemDisk::new();
        let mut case = database(seed, &mem, 200);
        let mut rng = rng(seed ^ 0xda);
        let paths = paths(&mem);
        for _ in 0..rng.random_range(1..20) {
            let path = &paths[rng.random_range(0..paths.len())];
            let Ok(len) = mem.file_len(path) else {
                continue;
            };
            let (what, is_segment) = (rng.random_range(0..8), path.extension());
            case.is_log_cut |= what < 2 && is_segment.is_some_and(|ext| ext == "log");
            match what {
                0 => disk::remove(&mem, path).unwrap(),
                1 => mem.cut(path, rng.random_range(0..=len)).unwrap(),
                _ if len > 0 => mem
                    .flip_bit(path, rng.random_range(0..len), rng.random_range(0..8))
                    .unwrap(),
                _ => {}
            }
        }
        let outcome = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
        match outcome {
            Ok(report) => {
                case.check(&mem, &report);
            }
            Err(error) => assert!(matches!(error, Error::NoDatabase { .. }), "{error}"),
        }
        assert_eq!(case.seed, seed);
    });
}

#[test]
fn an_interrupted_repair_does_not_open() {
    let mem = MemDisk::new();
    let case = database(5, &mem, 100);
    let before = mem.io_calls();
    run(&mem);
    let calls = mem.io_calls() - before;
    for call in (1..calls).step_by(3) {
        let mem = MemDisk::new();
        database(5, &mem, 100);
        mem.crash_at(call);
        let outcome = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
        mem.restart(call);
        match open_at(&mem, TARGET, &case.world) {
            Ok(db) => assert!(read_everything(&db).unwrap() == case.expected),
            Err(error) => {
                assert!(outcome.is_err());
                let is_refused = matches!(
                    error,
                    Error::NoDatabase { .. } | Error::Incomplete { .. } | Error::Corruption { .. }
                );
                assert!(is_refused, "{error}");
            }
        }
    }
}

/// Creates a database of five files. Each of two tables has a file of versions, and a newer one
/// with range tombstones only. One of the tables has a third, the newest file, with versions and a
/// range tombstone.
///
/// The range tombstones hide rows of an older file, but not from the snapshot, which is older than
/// all of them. They do not hide the keys 6 and 7 either, which are written again later. So a
/// repair that lost the order of their sequence numbers would return wrong rows. The blocks are so
/// small that the files of 30 versions have several, and a damaged block leaves others readable.
fn deletions(mem: &MemDisk) -> Case {
    let [mails, users] = [TableNo(0), TableNo(1)];
    // The keys from 16 on sort by their numbers, as the ranges below require.
    let key = |i: u8| Key(16 + i);
    let put = |table, i: u8| {
        let value = Val {
            number: u32::from(i),
            bytes: 20,
        };
        Write::Put(table, key(i), value)
    };
    let delete = |from, to| {
        let bounds = Bounds(Bound::Included(key(from)), Bound::Excluded(key(to)));
        Operation::Write(vec![Write::DeleteRange(mails, bounds)])
    };
    let mut operations: Vec<_> = TableNo::all().map(Operation::CreateTable).collect();
    operations.extend([
        Operation::Write(
            (0..30)
                .flat_map(|i| [put(mails, i), put(users, i)])
                .collect(),
        ),
        Operation::Flush,
        Operation::CreateSnapshot {
            keyspace: 0,
            name: 1,
            ms: None,
        },
        delete(5, 9),
        Operation::Truncate(users),
        Operation::Flush,
        delete(20, 22),
        Operation::Write((6..8).map(|i| put(mails, i)).collect()),
        Operation::Flush,
    ]);
    let mut tables = tables(|| SsTableOptions {
        block_bytes: 128,
        ..SsTableOptions::default()
    });
    // Nothing is merged, and without operators none can be reported as lost.
    for table in &mut tables {
        table.merge_operator = None;
    }
    let clock = ManualClock::at_ms(START_MS);
    let setup = Setup {
        options: ebb_storage::Options {
            clock: std::sync::Arc::new(clock.clone()),
            ..manual(mem)
        },
        clock,
        tables,
        prefix: String::new(),
        ingest_dir: INGEST_DIR.into(),
    };
    Case::of(0, Made::of(setup, &operations).unwrap())
}

#[test]
fn every_flipped_bit_among_range_deletions_costs_what_is_named_and_no_more() {
    let mem = MemDisk::new();
    let case = deletions(&mem);
    let report = run(&mem);
    assert!(case.check(&mem, &report) == case.expected);
    clear(&mem);
    let tables = disk::files(&mem, DIR, ".sst").unwrap();
    assert_eq!(tables.len(), 5);
    let (mut hid, mut nothing) = (0, 0);
    for path in paths(&mem) {
        for at in 0..mem.file_len(&path).unwrap() {
            let _case = PrintOnPanic(format!("a flipped bit of {} at {at}", path.display()));
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
            let report = run(&mem);
            let found = case.check(&mem, &report);
            if tables.contains(&path) {
                assert!(report.lost.iter().all(|lost| lost.path == path));
                let deletions = |lost: &&Lost| lost.detail.contains("what they hid may show");
                let lost = report.lost.iter().find(deletions);
                hid += usize::from(lost.is_some());
                assert!(
                    lost.is_none_or(|lost| lost.concerns("app.mails", b"any")
                        != lost.concerns("app.users", b"any"))
                );
                nothing += usize::from(report.lost.is_empty());
                assert!(!report.lost.is_empty() || found == case.expected);
            }
            clear(&mem);
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
        }
    }
    // The blocks of range tombstones are small. Top level, properties and footer are most of such a
    // file, and repair can do without each of them.
    assert!(hid > 20 && nothing > 5 * 200, "{hid} {nothing}");
}

#[test]
fn range_deletions_outlive_the_manifest() {
    let mem = MemDisk::new();
    let case = deletions(&mem);
    for path in paths(&mem) {
        if path.to_string_lossy().contains("MANIFEST") {
            disk::remove(&mem, &path).unwrap();
        }
    }
    let report = run(&mem);
    // The snapshots are in the log, and the names of the tables are in the SSTables.
    let found = case.check(&mem, &report);
    // Nothing shows that a table without content existed.
    let (found, expected) = (found.without_existence(), case.expected.without_existence());
    assert!(found == expected, "{}", found.difference(&expected));
}

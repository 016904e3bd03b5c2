//! The keys that changed between two snapshots: none is missing, whatever is flushed, merged or
//! reopened, and where little changed they are few.
//!
//! `EBB_STEPS` is the number of operations of a random run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::one_table::{merging, open, refused};
use crate::common::{
    AnyNeighbours, Content, Rng, content, damage_file, files, for_seeds, manual, number, rng,
    writer_options,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Changes, Clock, CompactionOptions, CompactionPicker, Db, Error, ErrorKind, ExpiryBounds,
    Keyspace, ManualClock, MergeOperator, MergeOperators, Options, Pick, SnapshotTable,
    SortedWriter, SortedWriterOptions, Table, TableShape, UnknownChanges,
};
use rand::RngExt;

/// The directory of the SSTables that the test writes, to ingest them.
const OUT: &str = "/out";

/// The size of a cell: eight bytes for the time at which the cell expires, in milliseconds since
/// the Unix epoch, and one for a letter.
const CELL_BYTES: usize = 9;
const NEVER_MS: u64 = u64::MAX;

fn cell(expiry_ms: u64, letter: u8) -> Vec<u8> {
    [&expiry_ms.to_le_bytes()[..], &[letter]].concat()
}

fn cells(value: &[u8]) -> Option<impl Iterator<Item = (u64, u8)>> {
    let (cells, []) = value.as_chunks::<CELL_BYTES>() else {
        return None;
    };
    let decode = |cell: &[u8; CELL_BYTES]| {
        let (expiry, letter) = cell.split_at(CELL_BYTES - 1);
        (u64::from_le_bytes(expiry.try_into().unwrap()), letter[0])
    };
    Some(cells.iter().map(decode))
}

/// A merge operator whose values are lists of cells, each of which may expire. An operand adds its
/// cells.
#[derive(Debug)]
struct Cells;

impl MergeOperator for Cells {
    fn name(&self) -> &str {
        "cells"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        Ok([older, newer].concat())
    }

    fn expiries(&self, _: &[u8], value: &[u8]) -> ExpiryBounds {
        let Some(cells) = cells(value) else {
            return ExpiryBounds::Unknown;
        };
        let expiring = cells.filter(|(expiry_ms, _)| *expiry_ms != NEVER_MS);
        let each = expiring.map(|(expiry_ms, _)| ExpiryBounds::at_ms(expiry_ms));
        each.fold(ExpiryBounds::Never, ExpiryBounds::union)
    }
}

/// Returns the content that a snapshot shows: for each key, the letters of its cells that have not
/// expired (each cell has one letter).
fn visible(table: &SnapshotTable) -> Content {
    let letters = |value: &[u8]| {
        let live = cells(value)
            .unwrap()
            .filter(|(expiry_ms, _)| *expiry_ms > table.read_time_ms());
        live.map(|(_, letter)| letter).collect::<Vec<u8>>()
    };
    let all = content(table.range::<&[u8], _>(..)).unwrap().into_iter();
    all.map(|(key, value)| (key, letters(&value))).collect()
}

/// Returns the keys whose values differ between the two contents, or that are in only one of them.
fn differences(one: &Content, other: &Content) -> BTreeSet<Vec<u8>> {
    let keys = one.keys().chain(other.keys());
    keys.filter(|key| one.get(*key) != other.get(*key))
        .cloned()
        .collect()
}

/// Returns the changed keys from `start` (included) to `end` (excluded); `None` if it cannot be
/// known which keys changed.
fn changed_between(
    older: &SnapshotTable,
    newer: &SnapshotTable,
    (start, end): (&str, &str),
) -> Option<Vec<Vec<u8>>> {
    let range = start.as_bytes()..end.as_bytes();
    let Changes::Keys(keys) = newer.changed_keys::<&[u8], _>(older, range).unwrap() else {
        return None;
    };
    let keys: Vec<_> = keys.map(|key| key.unwrap().to_vec()).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "ascending, each once");
    Some(keys)
}

/// Returns all changed keys: the tests use no key that sorts after "~". `None` if it cannot be
/// known which keys changed.
fn changed(older: &SnapshotTable, newer: &SnapshotTable) -> Option<Vec<Vec<u8>>> {
    changed_between(older, newer, ("", "~"))
}

fn options(
    mem: &MemDisk,
    clock: &ManualClock,
    picker: Arc<dyn CompactionPicker>,
    memtable_bytes: usize,
) -> Options {
    Options {
        memtable_bytes,
        clock: Arc::new(clock.clone()),
        merge_operators: MergeOperators::none().with(Cells),
        file_bytes: 512,
        compaction: CompactionOptions {
            picker,
            ..CompactionOptions::default()
        },
        ..manual(mem)
    }
}

fn write_file(
    mem: &MemDisk,
    knows_operator: bool,
    write: impl FnOnce(&mut SortedWriter),
) -> Vec<std::path::PathBuf> {
    let options = SortedWriterOptions {
        merge_operator: knows_operator.then(|| Arc::new(Cells) as Arc<dyn MergeOperator>),
        ..writer_options(mem)
    };
    let mut writer = SortedWriter::create(OUT, "rows", options).unwrap();
    write(&mut writer);
    writer.finish().unwrap()
}

/// A picker that merges all runs into one, whatever snapshots stand between them, while there are
/// several.
#[derive(Debug)]
struct AllRuns;

impl CompactionPicker for AllRuns {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_free = table.runs.iter().all(|run| !run.is_busy);
        (table.runs.len() > 1 && is_free).then(|| Pick::merge(table.runs))
    }
}

struct Fixture {
    mem: MemDisk,
    clock: ManualClock,
    db: Db,
    keyspace: Keyspace,
    table: Table,
}

impl Fixture {
    /// Creates a database whose clock is at second 100.
    fn new() -> Self {
        Self::open(MemDisk::new(), ManualClock::at_ms(100_000))
    }

    fn open(mem: MemDisk, clock: ManualClock) -> Self {
        let (db, keyspace, table) = open(
            options(&mem, &clock, Arc::new(AllRuns), 1 << 20),
            merging("cells"),
        );
        Self {
            mem,
            clock,
            db,
            keyspace,
            table,
        }
    }

    fn snapshot(&self, name: &str) -> SnapshotTable {
        self.keyspace
            .snapshot(name)
            .unwrap()
            .table("users")
            .unwrap()
    }

    fn create(&self, name: &str) -> SnapshotTable {
        self.keyspace.create_snapshot(name).unwrap();
        self.snapshot(name)
    }
}

#[test]
fn few_changes_are_few_keys_in_memory_in_a_new_run_and_in_one_of_both_sides() {
    let f = Fixture::new();
    let key = |number: u32| format!("k{number:04}").into_bytes();
    let stays = cell(NEVER_MS, b's');
    for number in 0..2000 {
        f.table.put(&key(number), &stays).unwrap();
    }
    // What expires later changes nothing, and what has expired is gone for both.
    f.table.put(&key(101), &cell(103_000, b'e')).unwrap();
    f.table.put(&key(102), &cell(999_000, b'e')).unwrap();
    f.table.put(&key(103), &cell(99_000, b'e')).unwrap();
    for (number, ttl_ms) in [(201, 3_000), (202, 900_000)] {
        f.table
            .put_with_ttl(&key(number), &stays, Duration::from_millis(ttl_ms))
            .unwrap();
    }
    f.db.flush().unwrap();
    let older = f.create("older");
    f.clock.advance_ms(5_000);
    f.table.put(&key(300), &cell(NEVER_MS, b'n')).unwrap();
    f.table.merge(&key(301), &cell(NEVER_MS, b'n')).unwrap();
    f.table.delete(&key(302)).unwrap();
    f.table.put(b"new", &stays).unwrap();
    f.table.delete_range(key(400)..key(403)).unwrap();
    f.table.put(&key(401), &stays).unwrap();
    let newer = f.create("newer");
    f.table.put(&key(900), &cell(NEVER_MS, b'n')).unwrap();
    let mut expected: Vec<_> = [101, 201, 300, 301, 302, 400, 401, 402].map(key).into();
    expected.push(b"new".to_vec());
    let check = |expected: &[Vec<u8>], runs: usize| {
        assert_eq!(f.db.stats().tables[0].runs.len(), runs);
        assert_eq!(changed(&older, &newer).unwrap(), expected);
        let differing = differences(&visible(&older), &visible(&newer));
        assert!(differing.is_subset(&expected.iter().cloned().collect()));
        assert_eq!(
            changed_between(&older, &newer, ("k0302", "k0402")).unwrap(),
            expected[4..7]
        );
    };
    check(&expected, 1);
    f.db.flush().unwrap();
    check(&expected, 2);
    f.db.compact().unwrap();
    check(&expected, 1);
    assert!(changed(&older, &older).unwrap().is_empty());
}

#[test]
fn a_file_of_which_no_expiries_are_known_is_read() {
    for knows_operator in [true, false] {
        let f = Fixture::new();
        let rows = write_file(&f.mem, knows_operator, |writer| {
            writer.put(b"a", &cell(103_000, b'e')).unwrap();
            writer.merge(b"b", &cell(103_000, b'e')).unwrap();
            writer.put(b"c", &cell(NEVER_MS, b's')).unwrap();
        });
        f.table.ingest(&rows).unwrap();
        let older = f.create("older");
        f.clock.advance_ms(3_000);
        let newer = f.create("newer");
        let check = || {
            assert_eq!(changed(&older, &newer).unwrap(), [b"a", b"b"]);
        };
        check();
        f.db.flush().unwrap();
        check();
    }
}

#[test]
fn a_truncated_table_and_another_table_have_unknown_changes_and_a_newer_one_is_refused() {
    let f = Fixture::new();
    let unknown = |older: &SnapshotTable, newer: &SnapshotTable| match newer
        .changed_keys::<&[u8], _>(older, ..)
        .unwrap()
    {
        Changes::Unknown(reason) => reason,
        Changes::Keys(_) => panic!("the changes are known"),
    };
    f.table.put(b"a", &cell(NEVER_MS, b'a')).unwrap();
    let older = f.create("older");
    let before = f.create("before");
    f.table.truncate().unwrap();
    f.table.put(b"b", &cell(NEVER_MS, b'b')).unwrap();
    let newer = f.create("newer");
    for _ in 0..2 {
        assert_eq!(unknown(&older, &newer), UnknownChanges::Truncated);
        assert_eq!(changed(&older, &before).unwrap(), Vec::<Vec<u8>>::new());
        f.db.flush().unwrap();
        f.db.compact().unwrap();
    }
    let backwards = older.changed_keys::<&[u8], _>(&newer, ..);
    refused(backwards.map(drop), &["app.users", "older"]);

    f.keyspace.drop_table("users").unwrap();
    let again = f.keyspace.table("users", merging("cells")).unwrap();
    again.put(b"a", &cell(NEVER_MS, b'a')).unwrap();
    let other = f.create("other");
    assert_eq!(unknown(&newer, &other), UnknownChanges::OtherTable);
    assert!(
        UnknownChanges::OtherTable
            .to_string()
            .contains("another table")
    );
}

/// To find the keys that changed, a file with writes after the older snapshot must be read; one
/// with writes before it need not be.
#[test]
fn a_damaged_file_with_changes_is_an_error_and_one_without_is_left_unread() {
    let f = Fixture::new();
    f.table.put(b"a", &cell(NEVER_MS, b'a')).unwrap();
    f.table.put(b"m", &cell(NEVER_MS, b'a')).unwrap();
    f.db.flush().unwrap();
    drop(f.create("older"));
    f.table.put(b"m", &cell(NEVER_MS, b'b')).unwrap();
    f.db.flush().unwrap();
    drop(f.create("newer"));
    let (mem, clock) = (f.mem.clone(), f.clock.clone());
    drop(f);
    let paths = files(&mem, ".sst");
    assert_eq!(
        paths.len(),
        2,
        "one file before the snapshot and one after it"
    );
    let keys_without = |path: &Path, is_whole: bool, (start, end): (&str, &str)| {
        damage_file(&mem, path, is_whole);
        let f = Fixture::open(mem.clone(), clock.clone());
        let (older, newer) = (f.snapshot("older"), f.snapshot("newer"));
        let range = start.as_bytes()..end.as_bytes();
        let keys = match newer.changed_keys::<&[u8], _>(&older, range) {
            Ok(Changes::Keys(keys)) => keys.collect::<Result<Vec<_>, Error>>(),
            Ok(Changes::Unknown(reason)) => panic!("{reason}"),
            Err(error) => Err(error),
        };
        drop((older, newer, f));
        // The same bit again.
        damage_file(&mem, path, is_whole);
        keys
    };
    for is_whole in [true, false] {
        let without_older = keys_without(&paths[0], is_whole, ("", "~"));
        assert_eq!(without_older.unwrap(), ["m"]);
        let error = keys_without(&paths[1], is_whole, ("", "~")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let beside = keys_without(&paths[1], is_whole, ("", "m"));
        assert!(beside.unwrap().is_empty());
    }
}

#[test]
fn no_changed_key_is_missing_whatever_happens_in_whatever_order() {
    let steps = number("EBB_STEPS").unwrap_or(600);
    let test = "no_changed_key_is_missing_whatever_happens_in_whatever_order";
    for_seeds(test, 30, |seed| run(seed, steps));
}

fn run(seed: u64, steps: u64) {
    let mut rng = rng(seed);
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(100_000));
    let picker = Arc::new(AnyNeighbours::new(seed + 1));
    let reopen = || {
        let mut options = options(&mem, &clock, picker.clone(), 2 << 10);
        // Merges in one part, in parts of about one key, and in parts of a few keys.
        options.compaction.part_bytes = [u64::MAX, 1, 300][seed as usize % 3];
        open(options, merging("cells"))
    };
    let mut handles = reopen();
    // By name, with the number of truncations before.
    let mut snapshots: BTreeMap<String, usize> = BTreeMap::new();
    let mut truncations = 0;
    for step in 0..steps {
        let (db, keyspace, table) = &handles;
        let now_ms = clock.now_ms();
        match rng.random_range(0..40) {
            0..8 => {
                let (key, value) = (any_key(&mut rng), any_cell(&mut rng, now_ms));
                table.put(&key, &value).unwrap();
            }
            8..14 => {
                let (key, value) = (any_key(&mut rng), any_cell(&mut rng, now_ms));
                table.merge(&key, &value).unwrap();
            }
            14..18 => {
                let (key, value) = (any_key(&mut rng), any_cell(&mut rng, now_ms));
                let ttl = Duration::from_millis(rng.random_range(1..3_000));
                table.put_with_ttl(&key, &value, ttl).unwrap();
            }
            18..21 => table.delete(&any_key(&mut rng)).unwrap(),
            21..23 => {
                let (start, end) = (any_key(&mut rng), any_key(&mut rng));
                table.delete_range(start..end).unwrap();
            }
            23 if rng.random_bool(0.2) => {
                table.truncate().unwrap();
                truncations += 1;
            }
            24 => {
                let rows: BTreeMap<_, _> = (0..rng.random_range(1..6))
                    .map(|_| (any_key(&mut rng), any_cell(&mut rng, now_ms)))
                    .collect();
                let files = write_file(&mem, rng.random_bool(0.5), |writer| {
                    for (key, value) in &rows {
                        match value.last() {
                            Some(b'a'..b'e') => writer.merge(key, value).unwrap(),
                            Some(b'e'..b'h') => writer.delete(key).unwrap(),
                            _ => writer.put(key, value).unwrap(),
                        }
                    }
                });
                table.ingest(&files).unwrap();
            }
            25..28 => db.flush().unwrap(),
            28..31 => db.compact().unwrap(),
            31..34 => clock.advance_ms(rng.random_range(0..1_000)),
            34..37 if snapshots.len() < 4 => {
                let name = format!("s{step}");
                keyspace.create_snapshot(&name).unwrap();
                snapshots.insert(name, truncations);
            }
            37 => {
                let at = rng.random_range(0..snapshots.len().max(1));
                if let Some(name) = snapshots.keys().nth(at).cloned() {
                    keyspace.delete_snapshot(&name).unwrap();
                    snapshots.remove(&name);
                }
            }
            38 => {
                drop(handles);
                handles = reopen();
            }
            _ => check(keyspace, &snapshots, &mut rng, step),
        }
    }
}

fn any_key(rng: &mut Rng) -> Vec<u8> {
    format!("k{:02}", rng.random_range(0..40)).into_bytes()
}

fn any_cell(rng: &mut Rng, now_ms: u64) -> Vec<u8> {
    let expiry_ms = if rng.random_bool(0.4) {
        now_ms + rng.random_range(0..3_000)
    } else {
        NEVER_MS
    };
    cell(expiry_ms, rng.random_range(b'a'..=b'z'))
}

/// Checks, for every two snapshots, that each key whose value differs is among the changed keys,
/// and that a search in a random key range returns those of the changed keys that lie in the range.
fn check(keyspace: &Keyspace, snapshots: &BTreeMap<String, usize>, rng: &mut Rng, step: u64) {
    let open = |(name, truncations): (&String, &usize)| {
        let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
        (visible(&table), table, *truncations)
    };
    let mut all: Vec<_> = snapshots.iter().map(open).collect();
    all.sort_by_key(|(_, table, _)| table.seq());
    for (at, (seen_later, newer, truncations)) in all.iter().enumerate() {
        for (seen, older, truncations_before) in &all[..at] {
            let Some(keys) = changed(older, newer) else {
                assert!(
                    truncations_before < truncations,
                    "step {step}: nothing truncated it"
                );
                continue;
            };
            let keys: BTreeSet<_> = keys.into_iter().collect();
            let differing = differences(seen, seen_later);
            let missing: Vec<_> = differing.difference(&keys).collect();
            assert!(
                missing.is_empty(),
                "step {step}: {missing:?} of {differing:?}"
            );
            let bounds = [any_key(rng), any_key(rng)].map(|key| String::from_utf8(key).unwrap());
            let within = changed_between(older, newer, (&bounds[0], &bounds[1])).unwrap();
            let expected = keys
                .into_iter()
                .filter(|key| bounds[0].as_bytes() <= &key[..] && &key[..] < bounds[1].as_bytes());
            assert_eq!(
                within,
                expected.collect::<Vec<_>>(),
                "step {step}, {bounds:?}"
            );
        }
    }
}

//! Purging by merges is invisible to readers, and purges all garbage in the end.
//!
//! The tests execute the random statements of this folder, with timestamps that lag behind the
//! clock by less than the table's grace period. The model keeps everything that was ever written,
//! so it is independent of grace periods. All kinds of reads are compared with it: selects of rows,
//! of partitions in both directions, of the whole table in small pages, and of snapshots. Random
//! runs are flushed and merged in between. With an operator that makes one mistake the same test
//! must fail.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ebb_model::key::{DecodedKey, Place, SCHEMA_KEY};
use ebb_model::row::{Garbage, Header, Purged as PurgedRow, purge_header, purge_row};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Group, ManualClock, MergeOperator, Options, Pick,
    PurgeContext, Purged, TableShape, TimestampBounds,
};
use ebb_tables::CqlRow;
use ebb_test_support::seed::{for_seeds, number};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::generate::{PARTITIONS, TABLE, statement};
use super::model::Model;
use super::{ExpectedSnapshot, open};
use crate::executor::harness::Server;

/// The shortest grace period of the table in seconds. The timestamps of writes are times of the
/// test's clock, in seconds. Each is less than this period in the past.
const GRACE_S: i64 = 20;
/// The most seconds by which the timestamps of writes are ahead of the clock.
const SKEW_S: i64 = 2;

const COLUMNS: &str = "k, c, d, s, v, w, m, e, writetime(v), ttl(v)";
/// The number of key columns, which come first in `COLUMNS`.
const KEY_COLUMNS: usize = 3;

/// A deliberate mistake of the merge operator, which the test has to detect.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Purges the header of a partition but keeps the rows that the header deletes.
    OverlooksHeads,
    /// Purges deletions although older versions exist in runs that are not merged.
    OverlooksOthers,
    /// Purges deletions at once, although older writes may still arrive, and expired values
    /// although snapshots still see them.
    OverlooksGrace,
    /// Reports that no value has any timestamps.
    HasNoBounds,
    /// Reports a greatest timestamp of a value that is slightly too small.
    UnderstatesTimestamps,
    /// Reports that no key belongs to a group. In truth the keys of a partition form a group, whose
    /// first key, the header, may delete the rows.
    HasNoGroups,
}

/// The merge operator of CQL tables, with a deliberate mistake.
#[derive(Debug)]
struct Faulty(CqlRow, Fault);

impl MergeOperator for Faulty {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        self.0.merge(key, older, newer)
    }

    fn timestamps(&self, key: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        match self.1 {
            Fault::HasNoBounds => Some(TimestampBounds::NONE),
            Fault::UnderstatesTimestamps => {
                let bounds = self.0.timestamps(key, value)?;
                Some(TimestampBounds {
                    greatest: bounds.greatest.saturating_sub(1),
                    ..bounds
                })
            }
            _ => self.0.timestamps(key, value),
        }
    }

    fn group<'k>(&self, key: &'k [u8]) -> Option<Group<'k>> {
        match self.1 {
            Fault::HasNoGroups => None,
            _ => self.0.group(key),
        }
    }

    fn purge(
        &self,
        key: &[u8],
        value: &[u8],
        context: &PurgeContext<'_>,
    ) -> Result<Purged, String> {
        let mut context = *context;
        match self.1 {
            Fault::OverlooksHeads => context.head = None,
            Fault::OverlooksOthers => context.oldest_elsewhere = i64::MAX,
            Fault::OverlooksGrace => context.read_time_ms += GRACE_S as u64 * 2_000,
            Fault::HasNoBounds | Fault::UnderstatesTimestamps | Fault::HasNoGroups => {}
        }
        self.0.purge(key, value, &context)
    }
}

/// Chooses the runs to merge: random neighbours, or all runs.
#[derive(Debug)]
struct Picker {
    rng: Mutex<ChaCha8Rng>,
    all: AtomicBool,
}

impl CompactionPicker for Picker {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let runs = table.runs.len();
        if runs == 0 || table.runs.iter().any(|run| run.is_busy) {
            return None;
        }
        if self.all.load(Ordering::Relaxed) {
            return Some(Pick::merge(table.runs));
        }
        let mut rng = self.rng.lock().unwrap();
        if rng.random_bool(0.5) {
            return None;
        }
        let newest = rng.random_range(0..runs);
        let oldest = rng.random_range(newest..runs);
        Some(Pick::merge(&table.runs[newest..=oldest]))
    }
}

/// One run of the test: a server, the statements that it has executed, and the expected contents of
/// its snapshots.
struct Trial {
    rng: ChaCha8Rng,
    disk: MemDisk,
    clock: ManualClock,
    picker: Arc<Picker>,
    fault: Option<Fault>,
    server: Option<Server>,
    model: Model,
    now_s: i64,
    snapshots: Vec<ExpectedSnapshot>,
    history: Vec<String>,
}

impl Trial {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let picker = Picker {
            rng: Mutex::new(ChaCha8Rng::seed_from_u64(rng.next_u64())),
            all: AtomicBool::new(false),
        };
        let mut trial = Self {
            rng,
            disk: MemDisk::new(),
            clock: ManualClock::at_ms(1_000_000),
            picker: Arc::new(picker),
            fault,
            server: None,
            model: Model::default(),
            now_s: 1_000,
            snapshots: Vec::new(),
            history: Vec::new(),
        };
        trial.restart();
        trial.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        trial.run(&format!("{TABLE} AND gc_grace_seconds = {GRACE_S}"));
        trial
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("it is open")
    }

    fn restart(&mut self) {
        self.server = None;
        let (picker, fault) = (self.picker.clone(), self.fault);
        let server = open(&self.disk, &self.clock, |options, grace_periods| {
            let known = options.merge_operators;
            Options {
                merge_operators: match fault {
                    Some(fault) => known.with(Faulty(CqlRow::new(grace_periods), fault)),
                    None => known,
                },
                compaction: CompactionOptions {
                    picker,
                    ..CompactionOptions::default()
                },
                ..options
            }
        });
        self.server = Some(server);
        self.history.push("-- restart".to_owned());
    }

    fn run(&mut self, text: &str) {
        self.server().run(text);
        self.history.push(text.to_owned());
    }

    fn advance(&mut self, seconds: i64) {
        self.clock.advance_ms(seconds as u64 * 1_000);
        self.now_s += seconds;
        self.history.push(format!("-- second {}", self.now_s));
    }

    fn flush(&mut self) {
        self.server().executor.catalog().db().flush().unwrap();
        self.history.push("-- flush".to_owned());
    }

    fn compact(&mut self) {
        self.server().executor.catalog().db().compact().unwrap();
        self.history.push("-- compact".to_owned());
    }

    fn shown(&self) -> Vec<String> {
        PARTITIONS.map(|k| self.model.show(k, self.now_s)).collect()
    }

    fn step(&mut self) {
        match self.rng.random_range(0..40) {
            0..3 => {
                let seconds = self.rng.random_range(1..8);
                self.advance(seconds);
            }
            3..7 => self.flush(),
            7..10 => self.compact(),
            10 if self.rng.random_bool(0.2) => self.restart(),
            11 if self.snapshots.len() < 2 => {
                let name = format!("s{}", self.history.len());
                self.run(&format!("CREATE SNAPSHOT {name} ON KEYSPACE ks"));
                let shown = self.shown();
                self.snapshots.push(ExpectedSnapshot { name, shown });
            }
            12 if !self.snapshots.is_empty() => self.drop_snapshot(),
            13 if self.rng.random_bool(0.3) => {
                let grace_s = self.rng.random_range(GRACE_S..2 * GRACE_S);
                self.run(&format!("ALTER TABLE t WITH gc_grace_seconds = {grace_s}"));
            }
            _ => {}
        }
        let earliest = self.now_s - (GRACE_S - 2 * SKEW_S);
        let timestamps = earliest..self.now_s + SKEW_S + 1;
        let text = statement(&mut self.rng, self.now_s, timestamps, &mut self.model);
        self.run(&text);
    }

    fn drop_snapshot(&mut self) {
        let old = self.snapshots.remove(0);
        self.run(&format!("DROP SNAPSHOT {} ON KEYSPACE ks", old.name));
    }

    #[track_caller]
    fn expect(&mut self, select: &str, found: &str, expected: &str) {
        assert_eq!(
            found,
            expected,
            "second {}: {select} after:\n{}",
            self.now_s,
            self.history.join(";\n")
        );
    }

    fn check(&mut self) {
        let shown = self.shown();
        for (k, expected) in PARTITIONS.zip(&shown) {
            let select = format!("SELECT {COLUMNS} FROM t WHERE k = {k}");
            let found = self.server().rows(&select);
            self.expect(&select, &found, expected);
            // A partition with static values alone has no rows.
            let has_rows = !expected.starts_with(&format!("{k} null null "));
            let rows = expected
                .split(" | ")
                .filter(|row| has_rows && !row.is_empty());
            let rows: Vec<&str> = rows.collect();
            let select = format!("{select} ORDER BY c ASC, d DESC");
            let found = self.server().rows(&select);
            let reversed: Vec<&str> = rows.iter().rev().copied().collect();
            if has_rows {
                self.expect(&select, &found, &reversed.join(" | "));
            }
            let (c, d) = (self.rng.random_range(0..3), self.rng.random_range(0..3));
            let select = format!("SELECT {COLUMNS} FROM t WHERE k = {k} AND c = {c} AND d = {d}");
            let found = self.server().rows(&select);
            let start = format!("{k} {c} {d} ");
            let row = rows.iter().find(|row| row.starts_with(&start));
            self.expect(&select, &found, row.unwrap_or(&""));
            self.check_columns("t", (k, c, d), row.copied());
        }
        self.check_pages(&shown);
        for at in 0..self.snapshots.len() {
            let ExpectedSnapshot { name, shown } = &self.snapshots[at];
            let (name, shown) = (name.clone(), shown.clone());
            for (k, expected) in PARTITIONS.zip(&shown) {
                let select = format!("SELECT {COLUMNS} FROM t USING SNAPSHOT {name} WHERE k = {k}");
                let found = self.server().rows(&select);
                self.expect(&select, &found, expected);
                let (c, d) = (self.rng.random_range(0..3), self.rng.random_range(0..3));
                let mut rows = expected.split(" | ");
                let row = rows.find(|row| row.starts_with(&format!("{k} {c} {d} ")));
                self.check_columns(&format!("t USING SNAPSHOT {name}"), (k, c, d), row);
            }
        }
    }

    /// Reads one or two random columns of the row (k, c, d) from `from`, and compares them with
    /// `row`, the expected text of all columns. A read of few columns may skip a part of the row.
    fn check_columns(&mut self, from: &str, (k, c, d): (i32, i32, i32), row: Option<&str>) {
        let all: Vec<&str> = COLUMNS.split(", ").collect();
        let count = self.rng.random_range(1..3);
        let some = |rng: &mut ChaCha8Rng| rng.random_range(KEY_COLUMNS..all.len());
        // With a clustering column, because no row can be read for its static columns only.
        let columns = (0..count).map(|_| some(&mut self.rng));
        let places: Vec<usize> = iter::once(1).chain(columns).collect();
        let names: Vec<&str> = places.iter().map(|&at| all[at]).collect();
        let names = names.join(", ");
        let select = format!("SELECT {names} FROM {from} WHERE k = {k} AND c = {c} AND d = {d}");
        let found = self.server().rows(&select);
        let values = |row: &str| {
            let values: Vec<&str> = row.split(' ').collect();
            places
                .iter()
                .map(|&at| values[at])
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.expect(&select, &found, &row.map_or(String::new(), values));
    }

    /// Reads the whole table in pages of one to three rows, which end within partitions, and
    /// compares the rows with `shown`, the expected text of each partition.
    fn check_pages(&mut self, shown: &[String]) {
        let select = format!("SELECT {COLUMNS} FROM t");
        let rows = self.rng.random_range(1..4);
        let (mut found, mut state) = (Vec::new(), None);
        loop {
            let page = self
                .server()
                .page(&select, &[], Some(rows), state.as_deref());
            let page = page.unwrap();
            found.extend(page.rows.iter().map(|row| row.join(" ")));
            state = page.state;
            if state.is_none() {
                break;
            }
        }
        let all = shown.iter().filter(|rows| !rows.is_empty());
        let mut all: Vec<&str> = all.flat_map(|rows| rows.split(" | ")).collect();
        // Partitions come in the order of their tokens.
        let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
        let partition = |row: &&str| row.split(' ').next().map(str::to_owned);
        all.sort_by_key(partition);
        found.sort_by_key(partition);
        self.expect(&select, &found.join(" | "), &all.join(" | "));
    }

    /// Drops all snapshots, advances the clock beyond the grace period, and checks that a merge of
    /// all runs then leaves nothing that could be purged. Returns the number of purged keys.
    fn check_end(&mut self) -> usize {
        while !self.snapshots.is_empty() {
            self.drop_snapshot();
        }
        self.flush();
        let before = self.operands().len();
        self.advance(10_000);
        self.picker.all.store(true, Ordering::Relaxed);
        self.compact();
        self.check();
        let garbage = Garbage {
            gc_before_s: self.now_s - 2 * GRACE_S,
            oldest_elsewhere: i64::MAX,
        };
        let operands = self.operands();
        for (key, operand) in &operands {
            let purged = match DecodedKey::read(key).unwrap().place {
                Place::Header => {
                    let header = Header::parse(operand).unwrap();
                    assert_eq!((header.deletion(), header.ranges()), (None, &[][..]));
                    purge_header(operand, garbage).unwrap()
                }
                Place::Row(_) => purge_row(operand, None, garbage).unwrap(),
            };
            assert_eq!(purged, PurgedRow::Kept, "{key:02x?}");
        }
        before - operands.len()
    }

    /// Returns the keys that the table stores, each with its operand of the merge operator: an
    /// encoded row or header.
    fn operands(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let state = self.server().executor.catalog().state();
        let rows = state.table("ks", "t").unwrap().rows().clone();
        let all = rows.range::<&[u8], _>(..).map(Result::unwrap);
        let all = all.map(|(key, value)| (key.to_vec(), value.to_vec()));
        all.filter(|(key, _)| key != SCHEMA_KEY).collect()
    }
}

/// Runs the test once, with a number of statements and with a mistake of the merge operator if
/// `fault` is given. Returns the number of keys that were purged at the end.
fn run(seed: u64, statements: usize, fault: Option<Fault>) -> usize {
    let mut trial = Trial::new(seed, fault);
    for at in 0..statements {
        trial.step();
        if at % 5 == 0 {
            trial.check();
        }
    }
    trial.check_end()
}

#[test]
fn purging_is_invisible_to_readers_and_purges_all_garbage() {
    let statements = number("EBB_STATEMENTS").map_or(250, |n| n as usize);
    let (mut runs, mut purged) = (0, 0);
    let test = "purging_is_invisible_to_readers_and_purges_all_garbage";
    for_seeds(test, 8, |seed| {
        runs += 1;
        purged += run(seed, statements, None);
    });
    assert!(purged > 0 || runs == 1, "no key went in any run");
}

/// Checks that [`run`] fails with each [`Fault`] of the merge operator.
#[test]
fn mistakes_of_the_merge_operator_are_detected() {
    for fault in [
        Fault::OverlooksHeads,
        Fault::OverlooksOthers,
        Fault::OverlooksGrace,
        Fault::HasNoBounds,
        Fault::UnderstatesTimestamps,
        Fault::HasNoGroups,
    ] {
        let fails = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, 250, Some(fault)))).is_err();
        assert!((0..40).any(fails), "the test does not detect {fault:?}");
    }
}

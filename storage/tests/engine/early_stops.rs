//! A reader that stops early returns the same values for its columns as a reader of all
//! sources, wherever timestamps lie.
//!
//! `EBB_STEPS` is the number of operations of a run.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::one_table::{merging, open, text};
use crate::common::{Rng, damage_file, files, for_seeds, manual, number, rng};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Error, FoundSoFar, MergeOperator, MergeOperators, Options, SortedWriter,
    SortedWriterOptions, Table, TableReader, TimestampBounds, Value, View,
};
use rand::RngExt;

/// Columns by name, each with a timestamp and a value, as in "a=7:x b=3:y". Of two entries for a
/// column, the greater one stays.
type Columns = BTreeMap<String, (i64, String)>;

fn columns(value: &str) -> Option<Columns> {
    let one = |column: &str| {
        let (name, cell) = column.split_once('=')?;
        let (timestamp, value) = cell.split_once(':')?;
        Some((name.into(), (timestamp.parse().ok()?, value.into())))
    };
    value.split_whitespace().map(one).collect()
}

fn shown(columns: &Columns) -> String {
    let one = |(name, (timestamp, value)): (&String, &(i64, String))| {
        format!("{name}={timestamp}:{value}")
    };
    columns.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn join(older: &mut Columns, newer: &Columns) {
    for (name, cell) in newer {
        let place = older.entry(name.clone()).or_insert_with(|| cell.clone());
        *place = (*place).clone().max(cell.clone());
    }
}

#[derive(Debug, Clone)]
struct Register;

impl Register {
    fn read(value: &[u8]) -> std::result::Result<Columns, String> {
        let value = std::str::from_utf8(value).map_err(|error| error.to_string())?;
        columns(value).ok_or_else(|| format!("{value:?} are no columns"))
    }
}

impl MergeOperator for Register {
    fn name(&self) -> &str {
        "register"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let mut joined = Self::read(older)?;
        join(&mut joined, &Self::read(newer)?);
        Ok(shown(&joined).into_bytes())
    }

    fn timestamps(&self, _: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        let columns = Self::read(value).ok()?;
        let each = columns.values().map(|&(timestamp, _)| TimestampBounds {
            least: timestamp,
            greatest: timestamp,
            greatest_local_time_s: i64::MAX,
        });
        Some(each.fold(TimestampBounds::NONE, TimestampBounds::union))
    }
}

fn options(mem: &MemDisk) -> Options {
    Options {
        merge_operators: MergeOperators::none().with(Register),
        memtable_bytes: 2 << 10,
        ..manual(mem)
    }
}

/// Returns whether each of the keys has the `requested` columns, and those are newer than all data
/// that is left to read.
fn has_all(found: &FoundSoFar<'_>, requested: &[&str]) -> bool {
    found.values.iter().all(|value| {
        let value = value.as_ref().map(|value| Register::read(value).unwrap());
        let value = value.unwrap_or_default();
        let newer = |name: &&str| {
            value
                .get(*name)
                .is_some_and(|(t, _)| *t > found.greatest_left)
        };
        requested.iter().all(newer)
    })
}

fn of_requested(value: Option<String>, requested: &[&str]) -> String {
    let mut columns = value.map_or_else(Columns::new, |value| columns(&value).unwrap());
    columns.retain(|name, _| requested.contains(&name.as_str()));
    shown(&columns)
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Reads two keys, and stops as soon as both have the requested columns. Returns whether the reader
/// stopped early, and these columns of each key.
fn stops(view: &View, table: &Table, keys: [&str; 2], requested: &[&str]) -> (bool, Vec<String>) {
    let stopped = Cell::new(false);
    let enough = |found: &FoundSoFar<'_>| {
        assert!(!stopped.get(), "called again after it was enough");
        stopped.set(has_all(found, requested));
        stopped.get()
    };
    let found = view.get_many_until(table, &keys, &enough).unwrap();
    let shown = |value: Option<Value>| of_requested(text(value), requested);
    (stopped.get(), found.into_iter().map(shown).collect())
}

#[test]
fn a_reader_of_what_was_written_last_looks_into_one_run() {
    let (db, _, table) = open(options(&MemDisk::new()), merging("register"));
    for timestamp in 1..=5 {
        let value = format!("v={timestamp}:x");
        table.merge(b"a", value.as_bytes()).unwrap();
        table.merge(b"b", value.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    let touched = || db.stats().runs_touched;
    let (view, before) = (db.view(), touched());
    let (stopped, found) = stops(&view, &table, ["a", "b"], &["v"]);
    assert_eq!((stopped, found), (true, vec!["v=5:x".to_owned(); 2]));
    assert_eq!(touched() - before, 2, "of each key the newest");
    let (stopped, _) = stops(&view, &table, ["a", "b"], &["w"]);
    assert!(!stopped, "no timestamp of it is known");
    assert_eq!(touched() - before, 12);
}

#[test]
fn a_view_and_a_snapshot_stop_early_as_table_readers() {
    let (db, keyspace, table) = open(options(&MemDisk::new()), merging("register"));
    for value in ["v=1:old", "v=2:new"] {
        table.merge(b"a", value.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    keyspace.create_snapshot("s").unwrap();
    let snapshot = keyspace.snapshot("s").unwrap().table("users").unwrap();
    let view = db.view();
    let live = (&view, &table);
    let readers: [&dyn TableReader; 2] = [&live, &snapshot];
    for reader in readers {
        let before = db.stats().runs_touched;
        let enough = |found: &FoundSoFar<'_>| has_all(found, &["v"]);
        let found = reader.get_many_until(&[&b"a"[..]], &enough).unwrap();
        assert_eq!(found[0].as_deref(), Some(&b"v=2:new"[..]));
        assert_eq!(db.stats().runs_touched - before, 1, "{reader:?}");
    }
}

#[test]
fn timestamps_of_the_future_in_old_places_are_waited_for() {
    let (db, _, table) = open(options(&MemDisk::new()), merging("register"));
    for value in ["v=9:future", "v=3:old", "v=9:again", "v=5:now"] {
        table.merge(b"a", value.as_bytes()).unwrap();
        table.merge(b"b", b"v=1:x").unwrap();
        db.flush().unwrap();
    }
    let (_, found) = stops(&db.view(), &table, ["a", "a"], &["v"]);
    assert_eq!(found, ["v=9:future"; 2]);
}

#[test]
fn an_early_stop_includes_a_full_memtable_that_is_not_flushed() {
    let mem = MemDisk::new();
    let (db, _, table) = open(options(&mem), merging("register"));
    table.merge(b"a", b"v=9:future").unwrap();
    // It has its place above the memtable.
    let writer_options = SortedWriterOptions {
        merge_operator: Some(Arc::new(Register)),
        ..SortedWriterOptions::from(&options(&mem))
    };
    let mut writer = SortedWriter::create("/out", "part", writer_options).unwrap();
    writer.merge(b"b", b"v=1:x").unwrap();
    table.ingest(&writer.finish().unwrap()).unwrap();
    table.merge(b"a", b"v=5:now").unwrap();
    assert!(db.stats().tables[0].frozen_memtables > 0);
    let (_, found) = stops(&db.view(), &table, ["a", "a"], &["v"]);
    assert_eq!(found, ["v=9:future"; 2]);
}

/// A reader that has found the requested columns skips a damaged file if the file has no later
/// timestamps. The bounds of the timestamps come from the file's properties if only a block is bad,
/// and from the manifest if the file does not open. Regression: the reader failed at any damaged
/// file.
#[test]
fn a_damaged_file_is_waited_for_only_if_it_has_later_timestamps() {
    for (old, is_whole, is_decided) in [
        ("v=1:old", true, true),
        ("v=1:old", false, true),
        ("v=9:future", true, false),
        ("v=9:future", false, false),
    ] {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(options(&mem), merging("register"));
        table.merge(b"a", old.as_bytes()).unwrap();
        db.flush().unwrap();
        let path = files(&mem, ".sst").remove(0);
        table.merge(b"a", b"v=5:now").unwrap();
        db.flush().unwrap();
        drop((db, keyspace, table));
        damage_file(&mem, &path, is_whole);

        let (db, _keyspace, table) = open(options(&mem), merging("register"));
        let enough = |found: &FoundSoFar<'_>| has_all(found, &["v"]);
        let found = db.view().get_many_until(&table, &[b"a"], &enough);
        match found {
            Ok(found) => {
                assert!(is_decided, "{old} in a damaged file, whole: {is_whole}");
                assert_eq!(found[0].as_deref(), Some(&b"v=5:now"[..]));
            }
            Err(error) => {
                assert!(!is_decided, "{old}: {error}");
                assert!(matches!(error, Error::Corruption { path: at, .. } if at == path));
            }
        }
    }
}

/// A write of the model, in the order of commits.
enum Write {
    Merge(&'static str, Columns),
    Put(&'static str, Columns),
    Delete(&'static str),
    DeleteBelow(&'static str),
}

fn model(writes: &[Write], key: &str) -> Columns {
    let mut now = Columns::new();
    for write in writes {
        match write {
            Write::Merge(of, columns) if *of == key => join(&mut now, columns),
            Write::Put(of, columns) if *of == key => now = columns.clone(),
            Write::Delete(of) if *of == key => now.clear(),
            Write::DeleteBelow(end) if key < *end => now.clear(),
            _ => {}
        }
    }
    now
}

struct Trial {
    rng: Rng,
    mem: MemDisk,
    db: Db,
    table: Table,
    writes: Vec<Write>,
    /// Each view with the number of writes that it sees.
    views: Vec<(View, usize)>,
    ingested: usize,
    stops: usize,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mem = MemDisk::new();
        let (db, _, table) = open(options(&mem), merging("register"));
        Self {
            rng: rng(seed),
            mem,
            db,
            table,
            writes: Vec::new(),
            views: Vec::new(),
            ingested: 0,
            stops: 0,
        }
    }

    fn step(&mut self, at: u64) {
        // Time goes on, and some clocks are ahead or late.
        let now = at as i64 / 8;
        let key = KEYS[self.rng.random_range(0..KEYS.len())];
        let columns = self.columns(now);
        let value = shown(&columns).into_bytes();
        match self.rng.random_range(0..100) {
            0..55 => {
                self.table.merge(key.as_bytes(), &value).unwrap();
                self.writes.push(Write::Merge(key, columns));
            }
            55..58 => {
                self.table.put(key.as_bytes(), &value).unwrap();
                self.writes.push(Write::Put(key, columns));
            }
            58 => {
                let ttl = Duration::from_secs(1 << 20);
                self.table
                    .put_with_ttl(key.as_bytes(), &value, ttl)
                    .unwrap();
                self.writes.push(Write::Put(key, columns));
            }
            59..61 => {
                self.table.delete(key.as_bytes()).unwrap();
                self.writes.push(Write::Delete(key));
            }
            61 => {
                self.table.delete_range(""..key).unwrap();
                self.writes.push(Write::DeleteBelow(key));
            }
            // A memtable is full, and not flushed yet.
            62..72 => self
                .table
                .merge(b"z", "f=1:x ".repeat(400).as_bytes())
                .unwrap(),
            72..77 => self.db.flush().unwrap(),
            77..80 => self.db.compact().unwrap(),
            80..85 => self.ingest(now),
            85..90 if self.views.len() < 4 => self.views.push((self.db.view(), self.writes.len())),
            90..94 if !self.views.is_empty() => {
                let gone = self.rng.random_range(0..self.views.len());
                self.views.swap_remove(gone);
            }
            _ => {}
        }
    }

    fn columns(&mut self, now: i64) -> Columns {
        let mut columns = Columns::new();
        for name in ["v", "w"] {
            if self.rng.random_bool(0.7) {
                let timestamp = now + self.rng.random_range(-6..6);
                let value = self.rng.random_range('k'..='n');
                columns.insert(name.into(), (timestamp, value.into()));
            }
        }
        columns
    }

    /// Ingests a file of random puts and operands. In half of the cases the file's writer does not
    /// know the merge operator, so the file has no known timestamps.
    fn ingest(&mut self, now: i64) {
        let knows = self.rng.random_bool(0.5);
        let options = SortedWriterOptions {
            merge_operator: knows.then(|| Arc::new(Register) as Arc<dyn MergeOperator>),
            ..SortedWriterOptions::from(&options(&self.mem))
        };
        let name = format!("part-{}", self.ingested);
        let mut writer = SortedWriter::create("/out", &name, options).unwrap();
        self.ingested += 1;
        for key in KEYS {
            let columns = self.columns(now);
            let value = shown(&columns).into_bytes();
            let written = match self.rng.random_range(0..4) {
                0 => writer
                    .put(key.as_bytes(), &value)
                    .map(|()| Write::Put(key, columns)),
                1 => continue,
                _ => writer
                    .merge(key.as_bytes(), &value)
                    .map(|()| Write::Merge(key, columns)),
            };
            self.writes.push(written.unwrap());
        }
        let files: Vec<PathBuf> = writer.finish().unwrap();
        if !files.is_empty() {
            self.table.ingest(&files).unwrap();
        }
    }

    fn check(&mut self) {
        let requested: &[&str] = [&["v"][..], &["w"], &["v", "w"]][self.rng.random_range(0..3)];
        let keys = [(); 2].map(|()| KEYS[self.rng.random_range(0..KEYS.len())]);
        let now = (self.db.view(), self.writes.len());
        for (view, writes) in self.views.iter().chain([&now]) {
            let (stopped, found) = stops(view, &self.table, keys, requested);
            let expected = keys.map(|key| {
                let mut columns = model(&self.writes[..*writes], key);
                columns.retain(|name, _| requested.contains(&name.as_str()));
                shown(&columns)
            });
            assert_eq!(
                found, expected,
                "{keys:?} at write {writes}, stopped: {stopped}"
            );
            self.stops += usize::from(stopped);
        }
    }
}

#[test]
fn a_reader_that_stops_early_reads_the_same_columns_as_one_that_reads_everything() {
    let steps = number("EBB_STEPS").unwrap_or(1500);
    let test = "a_reader_that_stops_early_reads_the_same_columns_as_one_that_reads_everything";
    for_seeds(test, 20, |seed| {
        let mut trial = Trial::new(seed);
        for at in 0..steps {
            trial.step(at);
            trial.check();
        }
        assert!(trial.stops > 0, "no reader stopped");
    });
}

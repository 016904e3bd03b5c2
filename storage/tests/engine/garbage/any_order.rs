//! Random writes, late ones too, flushed, merged and reopened in any order: no reader notices
//! what is purged, and none of the keys that changed between two snapshots is missing.
//!
//! `EBB_STEPS` is the number of operations of a run.

use ebb_storage::{Changes, View};
use rand::RngExt;

use super::*;
use crate::common::{AnyNeighbours, create_table_snapshot, for_seeds, number};

/// The expected database: the writes in order, and the snapshots by name, each with the number of
/// writes that it sees and the time at which it reads, in seconds.
struct Model {
    writes: Vec<Write>,
    snapshots: BTreeMap<String, (usize, i64)>,
}

enum Write {
    Merge(Vec<u8>, Cells),
    /// Removes all writes of the key that were committed before, whatever their timestamps.
    Delete(Vec<u8>),
    Truncate,
}

impl Model {
    /// Returns the cells that a reader at the time `now_s` must find after the first `writes`
    /// writes.
    fn live(&self, writes: usize, now_s: i64) -> Live {
        let mut rows: BTreeMap<Vec<u8>, Cells> = BTreeMap::new();
        for write in &self.writes[..writes] {
            match write {
                Write::Merge(key, cells) => join(rows.entry(key.clone()).or_default(), cells),
                Write::Delete(key) => drop(rows.remove(key)),
                Write::Truncate => rows.clear(),
            }
        }
        let all = rows.iter().map(|(key, cells)| (key, encode(cells)));
        live_cells(&all.collect::<Vec<_>>(), now_s)
    }
}

/// Returns the live cells in the database. Of each group, reads the head (the key that can delete
/// the whole group) before the rows.
fn live(get: impl Fn(&[u8]) -> Option<Vec<u8>>, now_s: i64) -> Live {
    let all = KEYS
        .iter()
        .filter_map(|key| Some((key, get(key.as_bytes())?)));
    live_cells(&all.collect::<Vec<_>>(), now_s)
}

const KEYS: [&str; 8] = ["a-", "a1", "a2", "a3", "b-", "b1", "b2", "z1"];

#[test]
fn no_reader_notices_what_is_purged() {
    let steps = number("EBB_STEPS").unwrap_or(1500);
    for_seeds("no_reader_notices_what_is_purged", 30, |seed| {
        run(seed, steps)
    });
}

/// The frequencies of operations, drawn anew for each seed, so that an operation that is rare
/// in one run is frequent in another.
struct Weights {
    flush: u32,
    compact: u32,
    time: u32,
    readers: u32,
    deletes: f64,
}

fn run(seed: u64, steps: u64) {
    let mut rng = rng(seed);
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(100_000));
    let picker = Arc::new(AnyNeighbours::new(seed + 1));
    let knowing = |knows_timestamps| {
        let operator = LastWrite { knows_timestamps };
        let mut options = options(&mem, &clock, picker.clone(), operator);
        // Merges in one part, in parts of about one key, and in parts of a few keys.
        options.compaction.part_bytes = [u64::MAX, 1, 100][seed as usize % 3];
        open(options, merging("last write"))
    };
    let weights = Weights {
        flush: [3, 10, 30][rng.random_range(0..3)],
        compact: [10, 30][rng.random_range(0..2)],
        time: [5, 20, 40][rng.random_range(0..3)],
        readers: [0, 5, 15][rng.random_range(0..3)],
        deletes: [0.05, 0.2, 0.5][rng.random_range(0..3)],
    };
    let mut ends = [
        60,
        weights.flush,
        weights.compact,
        weights.time,
        weights.readers,
        weights.readers,
        weights.readers,
        weights.readers,
        1,
        1,
        1,
    ];
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut handles = knowing(true);
    let mut views: Vec<(View, usize, i64)> = Vec::new();
    let mut model = Model {
        writes: Vec::new(),
        snapshots: BTreeMap::new(),
    };
    for step in 0..steps {
        let (db, keyspace, table) = &handles;
        let now_s = clock_s(&clock);
        let written = model.writes.len();
        let drawn = rng.random_range(0..ends[ends.len() - 1]);
        match ends.partition_point(|&end| end <= drawn) {
            0 => {
                let (key, cells) = any_write(&mut rng, now_s, weights.deletes);
                table.merge(&key, &encode(&cells)).unwrap();
                model.writes.push(Write::Merge(key, cells));
            }
            1 => db.flush().unwrap(),
            2 => db.compact().unwrap(),
            3 => clock.advance_ms(rng.random_range(0..10_000)),
            4 if views.len() < 3 => views.push((db.view(), written, now_s)),
            5 if !views.is_empty() => {
                views.swap_remove(rng.random_range(0..views.len()));
            }
            6 if model.snapshots.len() < 3 => {
                let name = format!("s{step}");
                if rng.random_bool(0.5) {
                    keyspace.create_snapshot(&name).unwrap()
                } else {
                    create_table_snapshot(keyspace, &name, "users").unwrap()
                }
                model.snapshots.insert(name, (written, now_s));
            }
            7 => {
                if let Some((name, _)) = model.snapshots.pop_first() {
                    keyspace.delete_snapshot(&name).unwrap();
                }
            }
            8 => {
                views.clear();
                drop(handles);
                handles = knowing(rng.random_bool(0.8));
            }
            // The only key in no group: operators with groups forbid to delete a single key of a group.
            9 => {
                table.delete(b"z1").unwrap();
                model.writes.push(Write::Delete(b"z1".to_vec()));
            }
            10 if rng.random_bool(0.3) => {
                table.truncate().unwrap();
                model.writes.push(Write::Truncate);
            }
            _ => {}
        }
        if rng.random_bool(0.3) {
            let now = (handles.0.view(), model.writes.len(), clock_s(&clock));
            check(&handles, &model, views.iter().chain([&now]), step);
        }
    }
    views.clear();
    for name in model.snapshots.keys() {
        handles.1.delete_snapshot(name).unwrap();
    }
    check_end(&handles, &mut model, &clock);
}

fn check<'a>(
    (_, keyspace, table): &(Db, Keyspace, Table),
    model: &Model,
    views: impl Iterator<Item = &'a (View, usize, i64)>,
    step: u64,
) {
    let bytes = |value: Option<ebb_storage::Value>| value.map(|value| value.to_vec());
    for (view, writes, now_s) in views {
        let found = live(|key| bytes(view.get(table, key).unwrap()), *now_s);
        let expected = model.live(*writes, *now_s);
        assert_eq!(found, expected, "step {step}, {writes} writes");
    }
    for (name, (writes, now_s)) in &model.snapshots {
        let snapshot = keyspace.snapshot(name).unwrap();
        let old = snapshot.table("users").unwrap();
        let found = live(|key| bytes(old.get(key).unwrap()), *now_s);
        let expected = model.live(*writes, *now_s);
        assert_eq!(found, expected, "step {step}, snapshot {name}");
    }
    check_changes(keyspace, model, step);
}

/// Checks, for every two snapshots, that each key whose live cells differ is among the changed
/// keys, or the head of its group is: a deletion in the head changes the whole group.
fn check_changes(keyspace: &Keyspace, model: &Model, step: u64) {
    let open = |(name, (_, now_s)): (&String, &(usize, i64))| {
        let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
        let value = |key: &[u8]| table.get(key).unwrap().map(|value| value.to_vec());
        (live(value, *now_s), table)
    };
    let mut all: Vec<_> = model.snapshots.iter().map(open).collect();
    all.sort_by_key(|(_, table)| table.seq());
    for (at, (live_later, newer)) in all.iter().enumerate() {
        for (live, older) in &all[..at] {
            // Only a truncation hides them.
            let Changes::Keys(keys) = newer.changed_keys::<&[u8], _>(older, ..).unwrap() else {
                continue;
            };
            let keys: BTreeSet<_> = keys.map(|key| key.unwrap().to_vec()).collect();
            for (key, ..) in live.symmetric_difference(live_later) {
                let head = [key[0], b'-'];
                let is_found = keys.contains(key) || keys.contains(&head[..]);
                assert!(is_found, "step {step}: {} changed", key.escape_ascii());
            }
        }
    }
}

/// Checks that after a merge of all runs only live cells are left, when no reader is left and the
/// grace of all deletions is over.
fn check_end((db, _, table): &(Db, Keyspace, Table), model: &mut Model, clock: &ManualClock) {
    db.flush().unwrap();
    clock.advance_ms(1_000_000);
    let now_s = clock_s(clock);
    let cell = Cell {
        timestamp: now_s,
        kind: CellKind::Stays,
        local_s: 0,
        byte: 1,
    };
    let cells: Cells = [(1, cell)].into();
    table.merge(b"a1", &encode(&cells)).unwrap();
    model.writes.push(Write::Merge(b"a1".to_vec(), cells));
    db.flush().unwrap();
    while db.stats().tables[0].runs.len() > 1 {
        db.compact().unwrap();
    }
    let get = |key: &[u8]| table.get(key).unwrap().map(|value| value.to_vec());
    let expected = model.live(model.writes.len(), now_s);
    assert_eq!(live(get, now_s), expected, "in the end");
    let values = KEYS.iter().filter_map(|key| get(key.as_bytes()));
    let cells: usize = values.map(|value| decode(&value).unwrap().len()).sum();
    assert_eq!(cells, expected.len(), "cells are left that no reader sees");
}

fn clock_s(clock: &ManualClock) -> i64 {
    (ebb_storage::Clock::now_ms(clock) / 1000) as i64
}

/// Returns a random write at the time `now_s`: with the probability `deletes` the deletion of a row
/// or group, otherwise a cell of a column, which may be a deletion, too. The timestamp is late by
/// less than the grace period, so no deletion that hides the write has been purged.
fn any_write(rng: &mut Rng, now_s: i64, deletes: f64) -> (Vec<u8>, Cells) {
    let key = KEYS[rng.random_range(0..KEYS.len())];
    let is_deletion = rng.random_bool(deletes);
    let key = if is_deletion {
        key
    } else {
        // A head has nothing else.
        key.trim_end_matches('-')
    };
    let key = if key.len() == 1 { "a1" } else { key };
    let timestamp = rng.random_range(now_s - (GRACE_S - 2 * SKEW_S)..=now_s + SKEW_S);
    let place = if is_deletion {
        DELETION
    } else {
        rng.random_range(1..4)
    };
    let (kind, local_s) = match rng.random_range(0..3) {
        _ if place == DELETION => (CellKind::Tombstone, now_s),
        0 => (CellKind::Tombstone, now_s),
        1 => (CellKind::Expires, now_s + rng.random_range(1..20)),
        _ => (CellKind::Stays, 0),
    };
    let cell = Cell {
        timestamp,
        kind,
        local_s,
        byte: match kind {
            CellKind::Tombstone => 0,
            _ => rng.random(),
        },
    };
    (key.as_bytes().to_vec(), [(place, cell)].into())
}

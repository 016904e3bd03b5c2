//! Random operations against an oracle in memory: whatever is flushed, merged,
//! reopened or held open, every read gives what the oracle gives.
//!
//! Replay a failure with `EBB_SEED=<seed>`, longer or shorter with
//! `EBB_STEPS=<operations>`.

mod common;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use ebb_storage::vfs::MemVfs;
use ebb_storage::{
    Db, DetachedOptions, DetachedTable, Durability, Maintenance, ManualClock, Options, PinnedTable,
    Range, Snapshot, Table, TableOptions, View,
};
use rand::RngExt;

#[test]
fn the_database_agrees_with_the_oracle_whatever_happens_in_whatever_order() {
    for_seeds(0..60, |seed| run(seed, 2000, Maintenance::Manual));
}

#[test]
fn the_database_agrees_with_the_oracle_while_threads_flush_and_compact() {
    for_seeds(100..116, |seed| run(seed, 2000, Maintenance::Background));
}

fn run(seed: u64, steps: u64, maintenance: Maintenance) {
    let mut model = Model::new(seed, maintenance);
    for _ in 0..env("EBB_STEPS").unwrap_or(steps) {
        model.step();
    }
    model.check_everything();
    model.reopen();
    model.check_everything();
    model.close();
}

/// A database, what it must hold, and what is held open on it.
struct Model {
    rng: Rng,
    mem: MemVfs,
    maintenance: Maintenance,
    table_options: Vec<TableOptions>,
    snapshots_max: usize,
    clock: ManualClock,
    oracle: Oracle,
    open: Option<Open>,
}

/// What an iterator has still to give.
type Entries = VecDeque<(Vec<u8>, Vec<u8>)>;

/// Handles, dropped before a reopening.
struct Open {
    db: Db,
    tables: Vec<Table>,
    views: Vec<(View, [Rc<Content>; TABLES.len()])>,
    snapshots: Vec<(Snapshot, Tables)>,
    /// Those of snapshots that are read past the database.
    pinned: Vec<(PinnedTable, Rc<Content>)>,
    iterators: Vec<(Range, Entries)>,
}

impl Model {
    fn new(seed: u64, maintenance: Maintenance) -> Self {
        let mut rng = rng(seed);
        let table_options = TABLES.iter().map(|_| random_table_options(&mut rng));
        let table_options = table_options.collect();
        // Now and then more than a table may have runs.
        let snapshots_max = [2, 8, 80][rng.random_range(0..3)];
        let mut model = Self {
            rng,
            mem: MemVfs::new(),
            maintenance,
            table_options,
            snapshots_max,
            clock: ManualClock::at_ms(START_MS),
            oracle: Oracle::default(),
            open: None,
        };
        model.reopen();
        model
    }

    fn reopen(&mut self) {
        self.open = None;
        let durability = [
            Durability::Sync,
            Durability::Interval(Duration::from_millis(1)),
            Durability::Os,
        ];
        let db = Db::open(
            DIR,
            Options {
                maintenance: self.maintenance,
                durability: durability[self.rng.random_range(0..3)],
                clock: Arc::new(self.clock.clone()),
                ..random_options(&mut self.rng, &self.mem)
            },
        )
        .unwrap();
        let tables = open_tables(&db, &self.table_options).unwrap();
        self.open = Some(Open {
            db,
            tables,
            views: Vec::new(),
            snapshots: Vec::new(),
            pinned: Vec::new(),
            iterators: Vec::new(),
        });
    }

    fn step(&mut self) {
        match self.rng.random_range(0..1000) {
            0..=549 => self.operate(),
            550..=749 => self.get(),
            750..=849 => self.range(),
            850..=879 => self.open_something(),
            880..=969 => self.read_something_open(),
            970..=994 => self.close_something(),
            _ if self.rng.random_bool(0.7) => self.reopen(),
            _ => self.check_everything(),
        }
    }

    fn operate(&mut self) {
        let op = random_op(&mut self.rng, &self.oracle, self.snapshots_max);
        let open = self.open.as_ref().unwrap();
        if let Op::Tick(ms) = op {
            self.clock.advance_ms(ms);
        }
        apply(&open.db, &open.tables, &op).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        self.oracle.apply(&op);
    }

    fn get(&mut self) {
        let (i, key) = (
            self.rng.random_range(0..TABLES.len()),
            random_key(&mut self.rng),
        );
        let found = self.open.as_ref().unwrap().tables[i].get(&key).unwrap();
        assert_eq!(
            found.as_deref(),
            self.oracle.get(i, &key).as_deref(),
            "{key:?} of {:?}",
            TABLES[i]
        );
    }

    fn range(&mut self) {
        let (i, bounds) = (
            self.rng.random_range(0..TABLES.len()),
            random_bounds(&mut self.rng),
        );
        let range = self.open.as_ref().unwrap().tables[i].range::<Vec<u8>, _>(bounds.clone());
        let expected = within(&self.oracle.table(i), &bounds).into();
        self.drain(range, expected);
    }

    /// Reads a range from random ends until they meet.
    fn drain(&mut self, mut range: Range, mut expected: Entries) {
        let forward = [0.0, 0.5, 1.0][self.rng.random_range(0..3)];
        while self.take(&mut range, &mut expected, forward) {}
    }

    fn take(&mut self, range: &mut Range, expected: &mut Entries, forward: f64) -> bool {
        let (found, expected) = if self.rng.random_bool(forward) {
            (range.next(), expected.pop_front())
        } else {
            (range.next_back(), expected.pop_back())
        };
        let found = found.map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        assert_eq!(found, expected);
        found.is_some()
    }

    fn open_something(&mut self) {
        let i = self.rng.random_range(0..TABLES.len());
        let bounds = random_bounds(&mut self.rng);
        let open = self.open.as_mut().unwrap();
        match self.rng.random_range(0..4) {
            0 => open.views.push((open.db.view(), self.oracle.contents())),
            1 => open.iterators.push((
                open.tables[i].range::<Vec<u8>, _>(bounds.clone()),
                within(&self.oracle.table(i), &bounds).into(),
            )),
            _ if self.oracle.snapshots.is_empty() => {}
            _ => {
                let at = self.rng.random_range(0..self.oracle.snapshots.len());
                let ((keyspace, name), tables) = self.oracle.snapshots.iter().nth(at).unwrap();
                let keyspace = open.db.existing_keyspace(keyspace).unwrap();
                let snapshot = keyspace.snapshot(name).unwrap();
                if self.rng.random_bool(0.5) {
                    open.snapshots.push((snapshot, tables.clone()));
                } else if let Some((name, content)) = tables.iter().nth(i) {
                    let pinned = snapshot.table(name).unwrap().pin().unwrap();
                    open.pinned.push((pinned, content.clone()));
                }
            }
        }
    }

    fn read_something_open(&mut self) {
        let (bounds, key) = (random_bounds(&mut self.rng), random_key(&mut self.rng));
        let i = self.rng.random_range(0..TABLES.len());
        let open = self.open.as_mut().unwrap();
        match self.rng.random_range(0..4) {
            0 if !open.views.is_empty() => {
                let at = self.rng.random_range(0..open.views.len());
                let (view, contents) = &open.views[at];
                assert_eq!(
                    view.get(&open.tables[i], &key).unwrap().as_deref(),
                    contents[i].get(&key).map(|value| &value[..]),
                    "{key:?} of {:?} at {}",
                    TABLES[i],
                    view.seq()
                );
                let range = view.range::<Vec<u8>, _>(&open.tables[i], bounds.clone());
                let expected = within(&contents[i], &bounds).into();
                self.drain(range, expected);
            }
            1 if !open.snapshots.is_empty() => {
                let at = self.rng.random_range(0..open.snapshots.len());
                let (snapshot, tables) = &open.snapshots[at];
                let mut reads = Vec::new();
                for (name, content) in tables {
                    let table = snapshot.table(name).unwrap();
                    assert_eq!(
                        table.get(&key).unwrap().as_deref(),
                        content.get(&key).map(|value| &value[..]),
                        "{key:?} of {name} in {}",
                        snapshot.name()
                    );
                    let expected: Entries = within(content, &bounds).into();
                    reads.push((table.scan::<Vec<u8>, _>(bounds.clone()), expected));
                }
                for (range, expected) in reads {
                    self.drain(range, expected);
                }
            }
            2 if !open.pinned.is_empty() => {
                let at = self.rng.random_range(0..open.pinned.len());
                let (pinned, content) = &open.pinned[at];
                let options = DetachedOptions {
                    vfs: Arc::new(self.mem.clone()),
                    ..DetachedOptions::default()
                };
                let table = DetachedTable::open(pinned.description(), options).unwrap();
                assert_eq!(
                    table.get(&key).unwrap().as_deref(),
                    content.get(&key).map(|value| &value[..]),
                    "{key:?} of {}",
                    pinned.description()
                );
                let expected = within(content, &bounds).into();
                self.drain(table.scan::<Vec<u8>, _>(bounds), expected);
            }
            _ if !open.iterators.is_empty() => {
                let at = self.rng.random_range(0..open.iterators.len());
                let (mut range, mut expected) = open.iterators.swap_remove(at);
                for _ in 0..self.rng.random_range(1..10) {
                    if !self.take(&mut range, &mut expected, 0.5) {
                        return;
                    }
                }
                let open = self.open.as_mut().unwrap();
                open.iterators.push((range, expected));
            }
            _ => {}
        }
    }

    fn close_something(&mut self) {
        let open = self.open.as_mut().unwrap();
        let at = |len: usize, rng: &mut Rng| (len > 0).then(|| rng.random_range(0..len.max(1)));
        match self.rng.random_range(0..4) {
            0 => {
                if let Some(at) = at(open.views.len(), &mut self.rng) {
                    open.views.swap_remove(at);
                }
            }
            1 => {
                if let Some(at) = at(open.snapshots.len(), &mut self.rng) {
                    open.snapshots.swap_remove(at);
                }
            }
            2 => {
                if let Some(at) = at(open.pinned.len(), &mut self.rng) {
                    open.pinned.swap_remove(at);
                }
            }
            _ => {
                if let Some(at) = at(open.iterators.len(), &mut self.rng) {
                    open.iterators.swap_remove(at);
                }
            }
        }
    }

    fn check_everything(&mut self) {
        let open = self.open.as_ref().unwrap();
        let found = Seen::read(&open.db).unwrap();
        let expected = self.oracle.seen_at(self.oracle.now_ms);
        assert!(found == expected, "{}", found.difference(&expected));
        open.db.verify().unwrap();
    }

    /// In the end, with nobody reading, no file is left that none needs.
    fn close(mut self) {
        self.open = None;
        self.reopen();
        let open = self.open.take().unwrap();
        if self.maintenance == Maintenance::Manual {
            open.db.flush().unwrap();
            open.db.compact().unwrap();
            assert_eq!(files(&self.mem, ".sst").len(), files_in_use(&open.db));
        }
    }
}

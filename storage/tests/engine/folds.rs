//! Long chains of operands in a memtable: a reader that folded one leaves the fold for
//! others, and each of them reads the same as without the fold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::one_table::{merging, open, text};
use crate::common::{Rng, clocked, for_seeds, manual, rng};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{ManualClock, MergeOperator, MergeOperators, Options, View};
use rand::RngExt;

/// A merge operator that appends, and counts its merges.
#[derive(Debug, Default, Clone)]
struct Counting(Arc<AtomicUsize>);

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok([older, newer].concat())
    }
}

#[test]
fn a_chain_is_folded_once() {
    let counting = Counting::default();
    let options = Options {
        merge_operators: MergeOperators::default().with(counting.clone()),
        memtable_bytes: 1 << 20,
        ..manual(&MemDisk::new())
    };
    let (db, _, table) = open(options, merging("append"));
    let merges = || counting.0.swap(0, Ordering::Relaxed);
    (0..100).for_each(|_| table.merge(b"k", b"x").unwrap());
    let read = |bytes| assert_eq!(table.get(b"k").unwrap().unwrap().len(), bytes);
    read(100);
    assert_eq!(merges(), 99);
    read(100);
    assert_eq!(merges(), 0, "the fold is all that is read");
    (0..5).for_each(|_| table.merge(b"k", b"x").unwrap());
    read(105);
    assert_eq!(merges(), 5, "of the operands above it");
    let view = db.view();
    (0..200).for_each(|_| table.merge(b"k", b"x").unwrap());
    read(305);
    assert_eq!(merges(), 205, "down to the fold");
    read(305);
    assert_eq!(merges(), 0);
    assert_eq!(view.get(&table, b"k").unwrap().unwrap().len(), 105);
    db.flush().unwrap();
    read(305);
    assert_eq!(view.get(&table, b"k").unwrap().unwrap().len(), 105);
}

/// Regression: each read for an update folded all operands of the transaction again, so that a batch of
/// 20,000 increments of one counter took 2e8 merges.
#[test]
fn a_transaction_that_reads_before_each_merge_takes_linear_time() {
    const ROUNDS: usize = 100;
    let counting = Counting::default();
    let options = Options {
        merge_operators: MergeOperators::default().with(counting.clone()),
        ..manual(&MemDisk::new())
    };
    let (db, _, table) = open(options, merging("append"));
    table.merge(b"k", b"o").unwrap();
    let mut transaction = db.begin();
    for round in 0..ROUNDS {
        let read = transaction.get_for_update(&table, b"k").unwrap();
        assert_eq!(text(read).unwrap(), format!("o{}", "x".repeat(round)));
        transaction.merge(&table, b"k", b"x").unwrap();
    }
    // Each read folds the newest operand, and their fold onto the stored value.
    let merges = counting.0.load(Ordering::Relaxed);
    assert!(merges <= 2 * ROUNDS, "{merges}");
    transaction.commit().unwrap();
    let expected = format!("o{}", "x".repeat(ROUNDS));
    assert_eq!(text(table.get(b"k").unwrap()).unwrap(), expected);
}

#[test]
fn a_reader_of_an_earlier_commit_does_not_see_the_fold_of_later_ones() {
    let (db, keyspace, table) = open(manual(&MemDisk::new()), merging("append"));
    (0..10).for_each(|_| table.merge(b"k", b"o").unwrap());
    let view = db.view();
    keyspace.create_snapshot("s").unwrap();
    (0..10).for_each(|_| table.merge(b"k", b"n").unwrap());
    for _ in 0..2 {
        let now = text(table.get(b"k").unwrap()).unwrap();
        assert_eq!(now, "oooooooooonnnnnnnnnn");
        let then = text(view.get(&table, b"k").unwrap()).unwrap();
        assert_eq!(then, "oooooooooo");
        let snapshot = keyspace.snapshot("s").unwrap().table("users").unwrap();
        assert_eq!(text(snapshot.get(b"k").unwrap()).unwrap(), "oooooooooo");
    }
}

#[test]
fn a_fold_stays_with_those_who_see_its_range_tombstones() {
    let (db, _, table) = open(manual(&MemDisk::new()), merging("append"));
    (0..10).for_each(|_| table.merge(b"k", b"o").unwrap());
    let before = db.view();
    table.delete_range("a".."z").unwrap();
    (0..10).for_each(|_| table.merge(b"k", b"n").unwrap());
    let now = || text(table.get(b"k").unwrap()).unwrap();
    let then = || text(before.get(&table, b"k").unwrap()).unwrap();
    // Each leaves a fold, which the other does not see.
    for _ in 0..2 {
        assert_eq!(then(), "oooooooooo");
        assert_eq!(now(), "nnnnnnnnnn");
    }
    let between = db.view();
    table.delete_range("a".."z").unwrap();
    for _ in 0..2 {
        assert_eq!(table.get(b"k").unwrap(), None);
        assert_eq!(then(), "oooooooooo");
        let seen = between.get(&table, b"k").unwrap();
        assert_eq!(text(seen).unwrap(), "nnnnnnnnnn");
    }
}

#[test]
fn no_fold_is_left_onto_a_put_that_expires() {
    let clock = ManualClock::at_ms(1000);
    let options = clocked(&MemDisk::new(), &clock);
    let (db, _, table) = open(options, merging("append"));
    table
        .put_with_ttl(b"k", b"base ", Duration::from_millis(100))
        .unwrap();
    (0..10).for_each(|_| table.merge(b"k", b"o").unwrap());
    let view = db.view();
    for _ in 0..2 {
        assert_eq!(text(table.get(b"k").unwrap()).unwrap(), "base oooooooooo");
    }
    clock.advance_ms(100);
    for _ in 0..2 {
        assert_eq!(text(table.get(b"k").unwrap()).unwrap(), "oooooooooo");
        let then = view.get(&table, b"k").unwrap();
        assert_eq!(text(then).unwrap(), "base oooooooooo");
    }
}

#[test]
fn folds_take_a_part_of_a_memtable() {
    let options = Options {
        memtable_bytes: 1 << 20,
        ..manual(&MemDisk::new())
    };
    let (db, _, table) = open(options, merging("max"));
    let memtable_bytes = || db.stats().tables[0].memtable_bytes;
    let mut views = Vec::new();
    for _ in 0..400 {
        table.merge(b"k", &[1; 1000]).unwrap();
        views.push(db.view());
    }
    let operands = memtable_bytes();
    // Each of them folds another chain, from the longest to the shortest.
    for view in views.iter().rev() {
        assert_eq!(view.get(&table, b"k").unwrap().unwrap().len(), 1000);
    }
    let with_folds = memtable_bytes();
    assert!(with_folds > operands, "some were left");
    assert!(
        with_folds <= operands + operands / 2,
        "{operands} grew to {with_folds}"
    );
}

/// The expected state of a key.
#[derive(Debug, Clone, Default)]
struct Model {
    /// The value of the put, and the time at which it expires, in milliseconds; `None` without a
    /// put.
    base: Option<(String, u64)>,
    operands: String,
}

impl Model {
    fn at(&self, now_ms: u64) -> Option<String> {
        let live = self
            .base
            .as_ref()
            .filter(|(_, until_ms)| now_ms < *until_ms);
        let base = live.map(|(text, _)| text.clone());
        let has_any = base.is_some() || !self.operands.is_empty();
        has_any.then(|| base.unwrap_or_default() + &self.operands)
    }
}

#[test]
fn every_reader_sees_the_same_before_and_after_folds() {
    let test = "every_reader_sees_the_same_before_and_after_folds";
    for_seeds(test, 1, |seed| {
        let mut rng = rng(seed);
        for _ in 0..20 {
            check_readers(&mut rng);
        }
    });
}

/// Writes at random to two keys, and checks that the table has what the model expects, and that
/// each view still reads what it read at first.
fn check_readers(rng: &mut Rng) {
    let clock = ManualClock::at_ms(1000);
    let options = clocked(&MemDisk::new(), &clock);
    let (db, _, table) = open(options, merging("append"));
    let mut model = [Model::default(), Model::default()];
    let mut now_ms = 1000;
    let mut views: Vec<(View, [Option<String>; 2])> = Vec::new();
    for i in 0..400 {
        let (at, value) = (rng.random_range(0..2), format!("{i} "));
        let key: &[u8] = [b"a", b"b"][at];
        match rng.random_range(0..100) {
            // Chains of operands are often longer than 8: from that length on, a reader leaves a fold.
            0..80 => {
                table.merge(key, value.as_bytes()).unwrap();
                model[at].operands.push_str(&value);
            }
            80..83 => {
                table.put(key, value.as_bytes()).unwrap();
                model[at] = Model {
                    base: Some((value, u64::MAX)),
                    operands: String::new(),
                };
            }
            83..86 => {
                let ttl_ms = rng.random_range(1..20);
                let ttl = Duration::from_millis(ttl_ms);
                table.put_with_ttl(key, value.as_bytes(), ttl).unwrap();
                model[at] = Model {
                    base: Some((value, now_ms + ttl_ms)),
                    operands: String::new(),
                };
            }
            86 => {
                table.delete(key).unwrap();
                model[at] = Model::default();
            }
            87..89 => {
                table.delete_range("a".."b").unwrap();
                model[0] = Model::default();
            }
            89 => db.flush().unwrap(),
            90 => db.compact().unwrap(),
            91..95 => views.push((db.view(), model.each_ref().map(|key| key.at(now_ms)))),
            95..97 if !views.is_empty() => {
                drop(views.swap_remove(rng.random_range(0..views.len())));
            }
            _ => {
                now_ms += 1;
                clock.advance_ms(1);
            }
        }
        if rng.random_bool(0.3) {
            let found = text(table.get(key).unwrap());
            assert_eq!(found, model[at].at(now_ms), "{i}");
        }
        if rng.random_bool(0.2) {
            // Together, in whatever order.
            let places: [usize; 3] = [(); 3].map(|()| rng.random_range(0..2));
            let found = table.get_many(&places.map(|at| [b"a", b"b"][at])).unwrap();
            let found: Vec<_> = found.into_iter().map(text).collect();
            assert_eq!(found, places.map(|at| model[at].at(now_ms)), "{i}");
        }
        if !views.is_empty() && rng.random_bool(0.3) {
            let (view, seen) = &views[rng.random_range(0..views.len())];
            assert_eq!(text(view.get(&table, key).unwrap()), seen[at], "{i}");
        }
    }
}

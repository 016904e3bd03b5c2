//! A comparison of a table at two snapshots returns each changed row once, also beside merges, and calls checkpoints
//! while it searches.

use std::cell::Cell;

use super::*;
use crate::inputs::Change;
use crate::testing::purged_at_once;

/// Compares the table `t` at two snapshots. Returns the changes of its rows and of its static rows.
fn compared(store: &Store, older: &str, newer: &str) -> [Vec<Change>; 2] {
    compared_with(store, older, newer, |_| ())
}

/// Returns the input that compares the table `t` at two snapshots, in one split.
fn comparison(store: &Store, older: &str, newer: &str) -> CellsInput {
    let [older, newer] = [older, newer].map(|name| {
        let snapshot = store.keyspace.snapshot(name).unwrap();
        snapshot.table("t").unwrap()
    });
    let schema = schema_at(&newer, "app.t").unwrap().unwrap();
    let mut cells = CellsInput::default();
    cells.add_cql(newer, Some(older), Arc::new(schema), 1, (0, Some(1)));
    cells
}

/// Compares the table `t` as [`compared`] does. Calls `after` after each record, with the number of
/// records up to this one.
fn compared_with(
    store: &Store,
    older: &str,
    newer: &str,
    mut after: impl FnMut(usize),
) -> [Vec<Change>; 2] {
    let cells = comparison(store, older, newer);
    let mut found = [Vec::new(), Vec::new()];
    for split in cells.splits().unwrap() {
        let read = cells.read(&split, &mut |key, _| {
            let row = RowKey::decode(key).unwrap();
            found[row.table as usize].push(row.change);
            after(found.iter().map(Vec::len).sum());
            Ok(())
        });
        read.unwrap();
    }
    found
}

impl Store {
    /// Creates a store with the table `t` of [`COLUMNS`]. The table has no grace period, so merges
    /// purge its deletions at once.
    fn purging_at_once() -> (Self, Written) {
        let clock = ManualClock::at_ms(NOW_S as u64 * 1000);
        let (db, table, schema) = purged_at_once(&clock, definition("t", &COLUMNS));
        let written = Written {
            table,
            schema: TableSchema::clone(&schema),
        };
        let store = Self {
            keyspace: db.existing_keyspace("app").unwrap(),
            db,
            clock,
            dir: tempfile::tempdir().unwrap(),
        };
        (store, written)
    }
}

/// Regression: for a write to a static column, all rows of the partition were read and compared.
#[test]
fn a_changed_static_column_is_compared_alone_and_a_deletion_with_all_rows_of_its_partition() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let with_static = |value: &str, s| {
        written.insert(&[("k", int(1)), ("s", value.as_bytes().to_vec())], at(s));
    };
    let insert = |c, value: &str, s| {
        written.insert(&Written::row(1, c, value.to_owned()), at(s));
    };
    with_static("old", 1);
    (0..50).for_each(|c| insert(c, "old", 1));
    written.delete_range(1, (40, 50), &at(2));
    let create_snapshot = |name| {
        store.merge_files();
        store.keyspace.create_snapshot(name).unwrap();
    };
    create_snapshot("monday");
    with_static("new", 3);
    insert(7, "new", 3);
    insert(8, "old", 3);
    create_snapshot("tuesday");
    with_static("newest", 4);
    written.delete_range(1, (10, 20), &at(4));
    create_snapshot("wednesday");
    assert_eq!(
        compared(&store, "monday", "tuesday"),
        [vec![Change::Replaced, Change::None], vec![Change::Replaced]]
    );
    let [rows, statics] = compared(&store, "tuesday", "wednesday");
    let is_removed = |change: &&Change| **change == Change::Removed;
    let removed = rows.iter().filter(is_removed).count();
    assert_eq!((rows.len(), removed), (40, 10));
    assert_eq!(statics, [Change::Replaced]);
}

#[test]
fn changed_rows_next_to_each_other_are_compared_like_single_ones() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    for c in 0..300 {
        let expiring = WriteTimes {
            ttl_s: Some(10),
            ..at(1)
        };
        written.insert(&Written::row(1, c, "old".to_owned()), expiring);
        written.insert(&Written::row(2, c, "old".to_owned()), at(1));
    }
    store.keyspace.create_snapshot("monday").unwrap();
    store.merge_files();
    store.clock.advance_ms(20_000);
    for c in (0..300).filter(|c| c % 3 > 0) {
        written.insert(&Written::row(2, c, "new".to_owned()), at(20));
    }
    store.keyspace.create_snapshot("tuesday").unwrap();
    let [rows, statics] = compared(&store, "monday", "tuesday");
    let count = |change: Change| rows.iter().filter(|found| **found == change).count();
    let counts = [Change::Removed, Change::Replaced].map(count);
    assert_eq!((rows.len(), counts), (500, [300, 200]));
    assert!(statics.is_empty());
}

/// Regression: a task called no checkpoint before it found a changed key, however much it read.
/// Meanwhile it could not be cancelled, and after some time it counted as stalled.
#[test]
fn a_task_calls_checkpoints_while_it_searches_for_changed_keys() {
    let (store, written) = Store::of_many_pieces();
    store.keyspace.create_snapshot("monday").unwrap();
    written.insert(&Written::row(7, 7, "new".to_owned()), at(2));
    store.keyspace.create_snapshot("tuesday").unwrap();
    // One run then has the changed row and all others.
    store.merge_files();
    let cells = comparison(&store, "monday", "tuesday");
    let (mut records, checkpoints) = (0, Cell::new(0));
    let checkpoint = || {
        checkpoints.set(checkpoints.get() + 1);
        Ok(())
    };
    for split in cells.splits().unwrap() {
        let record = &mut |_: &[u8], _: &[u8]| {
            records += 1;
            Ok(())
        };
        let read = cells.read_with_checkpoints(&split, record, &checkpoint);
        read.unwrap();
    }
    assert_eq!(records, 1);
    assert!(checkpoints.get() > 2, "{} checkpoints", checkpoints.get());
}

/// The pieces in which changed keys are searched for end within partitions.
#[test]
fn no_change_is_missing_or_found_twice_where_a_piece_ends() {
    let (store, written) = Store::of_many_pieces();
    store.keyspace.create_snapshot("monday").unwrap();
    for k in 0..40 {
        if k % 4 == 0 {
            written.delete_partition(k, &at(2));
        } else {
            (0..100).for_each(|c| written.insert(&Written::row(k, c, "new".to_owned()), at(2)));
        }
    }
    store.keyspace.create_snapshot("tuesday").unwrap();
    store.merge_files();
    let [rows, statics] = compared(&store, "monday", "tuesday");
    let count = |change: Change| rows.iter().filter(|found| **found == change).count();
    let counts = [Change::Removed, Change::Replaced].map(count);
    assert_eq!((rows.len(), counts), (4_000, [1_000, 3_000]));
    assert_eq!(statics, [Change::None; 10]);
}

/// A merge purges a deletion from a header together with the rows that it hides, while an open
/// range still returns these rows. A reader that kept the range for the next partition, whose
/// header it reads after the merge, would show them.
#[test]
fn a_merge_among_changed_rows_makes_no_deleted_rows_reappear() {
    const C_MAX: i32 = 200;
    let (store, written) = Store::purging_at_once();
    let insert = |c, value: &str, s| {
        for k in 1..=2 {
            written.insert(&Written::row(k, c, value.to_owned()), at(s));
        }
    };
    (1..=2).for_each(|k| written.delete_range(k, (0, C_MAX), &at(2)));
    // As many runs as it takes to start a merge.
    for run in 0..8 {
        (25 * run..25 * (run + 1)).for_each(|c| insert(c, "hidden", 1));
        store.db.flush().unwrap();
    }
    // Without a grace period, a merge purges what was deleted before the second of the earliest
    // reader.
    store.clock.advance_ms(10_000);
    store.keyspace.create_snapshot("monday").unwrap();
    (0..C_MAX).for_each(|c| insert(c, "new", 3));
    store.keyspace.create_snapshot("tuesday").unwrap();
    let monday = store.keyspace.snapshot("monday").unwrap();
    let monday = monday.table("t").unwrap();
    let header = |k| monday.get(&written.header_key(&[("k", int(k))])).unwrap();
    assert!([1, 2].map(header).iter().all(Option::is_some));
    let [rows, statics] = compared_with(&store, "monday", "tuesday", |records| {
        if records == 150 {
            store.db.compact().unwrap();
            let purged = [1, 2].map(header);
            assert_eq!(purged, [None, None], "the merge has purged the deletions");
        }
    });
    assert_eq!(rows, vec![Change::Added; 2 * C_MAX as usize]);
    assert!(statics.is_empty());
}

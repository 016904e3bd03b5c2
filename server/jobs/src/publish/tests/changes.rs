//! Publications of changed rows, compared with a scan of their snapshots.

use std::cell::Cell;
use std::fs;

use ebb_model::key::ByteRange;
use ebb_model::types::elements::{build, build_map};
use ebb_scheduler::runtime::Input;
use ebb_tables::schema_at;
use ebb_tables::write::{delete_partition, delete_ranges, delete_row};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::large_table::large;
use super::*;
use crate::inputs::{Cells, CellsInput, Change, RowKey, cell_columns};
use crate::testing::purged_at_once;

const COLUMNS: [ColumnText; 5] = [
    ("k", "int", false),
    ("c", "int", false),
    ("s", "text", true),
    ("b", "text", false),
    ("n", "int", false),
];

/// Scans a table at a snapshot. Returns its rows and its static rows.
fn scanned(store: &Store, table: &str, snapshot: &str) -> [Vec<String>; 2] {
    let snapshot = store.keyspace.snapshot(snapshot).unwrap();
    let rows = snapshot.table(table).unwrap();
    let schema = schema_at(&rows, &format!("app.{table}")).unwrap();
    let schema = Arc::new(schema.unwrap());
    let types = [false, true].map(|are_static| {
        let places = cell_columns(&schema, are_static).into_iter();
        let types = places.map(|place| schema.columns()[place].ty.clone());
        types.collect::<Vec<_>>()
    });
    let mut cells = CellsInput::default();
    cells.add_cql(rows, None, schema, 1, (0, Some(1)));
    let mut found = [Vec::new(), Vec::new()];
    for split in cells.splits().unwrap() {
        let read = cells.read(&split, &mut |key, value| {
            let of = RowKey::decode(key).unwrap().table as usize;
            let cells = Cells(value).zip(&types[of]);
            let cells = cells.map(|(value, ty)| literal(value, ty));
            found[of].push(cells.collect::<Vec<_>>().join(", "));
            Ok(())
        });
        read.unwrap();
    }
    found.iter_mut().for_each(|rows| rows.sort());
    found
}

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

    /// Creates a store with the table `t` of [`COLUMNS`]. The table has 40 partitions of 100 rows,
    /// whose values do not compress: about 1 MB.
    fn of_many_pieces() -> (Self, Written) {
        let store = Self::new();
        let written = store.create("t", &COLUMNS);
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for row in 0..4_000 {
            let value = (0..8).map(|_| format!("{:032x}", rng.random::<u128>()));
            written.insert(&Written::row(row / 100, row % 100, value.collect()), at(1));
        }
        (store, written)
    }

    /// Publishes a table, and returns the lines of the job's report.
    fn publish_noting(&self, table: &str, snapshot: &str, of: PublishRequest) -> Vec<String> {
        let request = self.request(&[table], snapshot, of);
        let (spec, noted) = self.open(&request).unwrap();
        let runtime = Runtime::start(options(2)).unwrap();
        let outcome = runtime.submit(spec).unwrap().wait().outcome;
        assert_eq!(outcome, Outcome::Succeeded);
        noted.notes()
    }

    /// Creates a snapshot and publishes it. Returns the lines of the job's report.
    fn next(&self, table: &str, snapshot: &str) -> Vec<String> {
        self.keyspace.create_snapshot(snapshot).unwrap();
        self.publish_noting(table, snapshot, PublishRequest::default())
    }

    /// Checks that readers of the newest publication find the same rows as a scan of the snapshot.
    fn check(&self, written: &Written, snapshot: &str) {
        let [rows, statics] = scanned(self, "t", snapshot);
        assert_eq!(self.rows("t", "main", written), rows, "{snapshot}");
        assert_eq!(self.rows("t_static", "main", written), statics);
        assert_eq!(self.rows("t", snapshot, written), rows, "{snapshot}");
    }

    /// Returns the total size in bytes of all data files and delete files of a table.
    fn data_bytes(&self, table: &str) -> u64 {
        let folder = self.dir.path().join(format!("lake/app/{table}/data"));
        let files = fs::read_dir(folder).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }

    fn merge_files(&self) {
        self.db.flush().unwrap();
        self.db.compact().unwrap();
    }
}

impl Written {
    fn row(k: i32, c: i32, b: String) -> [Value<'static>; 3] {
        [("k", int(k)), ("c", int(c)), ("b", b.into_bytes())]
    }

    fn delete_row(&self, k: i32, c: i32, times: &WriteTimes) {
        let mut operand = Vec::new();
        delete_row(times, &mut operand).unwrap();
        self.merge(&self.row_key(&Self::row(k, c, String::new())), &operand);
    }

    fn delete_partition(&self, k: i32, times: &WriteTimes) {
        let mut operand = Vec::new();
        delete_partition(times, &mut operand);
        self.merge(&self.header_key(&[("k", int(k))]), &operand);
    }

    /// Deletes the rows of a partition from `from` to before `to`.
    fn delete_range(&self, k: i32, (from, to): (i32, i32), times: &WriteTimes) {
        let encoded = |c: i32| {
            let mut out = Vec::new();
            let layout = self.schema.layout();
            layout.encode_clustering(&[&int(c)], &mut out).unwrap();
            out
        };
        let range = ByteRange {
            from: encoded(from),
            to: Some(encoded(to)),
        };
        let mut operand = Vec::new();
        delete_ranges(times, &[range], &mut operand).unwrap();
        self.merge(&self.header_key(&[("k", int(k))]), &operand);
    }

    fn set_schema(&mut self, schema: TableSchema) {
        self.schema = schema;
        self.store_schema();
    }

    /// Writes, at the second `s` of the test, a random change to the table.
    fn write_at_random(&self, rng: &mut ChaCha8Rng, s: i64) {
        let (k, c) = (rng.random_range(0..5), rng.random_range(0..40));
        let times = at(s);
        match rng.random_range(0..20) {
            0 => self.delete_partition(k, &times),
            1 => self.delete_range(k, (c, c + rng.random_range(1..20)), &times),
            2..5 => self.delete_row(k, c, &times),
            5..7 => {
                let value = format!("static {}", rng.random_range(0..3)).into_bytes();
                self.insert(&[("k", int(k)), ("s", value)], times);
            }
            7..10 => {
                let expiring = WriteTimes {
                    ttl_s: Some(rng.random_range(1..60)),
                    ..times
                };
                self.insert(&Self::row(k, c, format!("expires {s}")), expiring);
            }
            // Often the value that the row has already.
            _ => self.insert(
                &Self::row(k, c, format!("{}", rng.random_range(0..3))),
                times,
            ),
        }
    }
}

#[test]
fn after_each_of_many_rounds_readers_find_what_a_scan_of_the_snapshot_does() {
    let test = "after_each_of_many_rounds_readers_find_what_a_scan_of_the_snapshot_does";
    for_seeds(test, 4, |seed| {
        let store = Store::new();
        let mut written = store.create("t", &COLUMNS);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut s = 1;
        let mut of_changes = 0;
        for round in 0..24 {
            match rng.random_range(0..12) {
                0 => {
                    written.table.truncate().unwrap();
                    written.store_schema();
                }
                1 if written.schema.column("n").is_some() => {
                    let dropped = written.schema.drop_column("n", (NOW_S + s) * 1_000_000);
                    written.set_schema(dropped.unwrap());
                }
                1 => {
                    let added = written.schema.add_column("n", CqlType::Int, false);
                    written.set_schema(added.unwrap());
                }
                2 => store.merge_files(),
                // Nothing is written, and some of the rows expire.
                3 => {}
                _ => {
                    for _ in 0..rng.random_range(1..60) {
                        written.write_at_random(&mut rng, s);
                        s += 1;
                    }
                }
            }
            store.clock.advance_ms(rng.random_range(0..40_000));
            let snapshot = format!("r{round}");
            let notes = store.next("t", &snapshot);
            of_changes += u32::from(notes[0].contains("replaced"));
            store.check(&written, &snapshot);
            if rng.random_range(0..2) == 0 {
                // The pin alone keeps what the next round compares with.
                store.keyspace.delete_snapshot(&snapshot).unwrap();
                store.merge_files();
            }
        }
        assert!(of_changes > 10, "{of_changes}");
    });
}

#[test]
fn a_publication_of_changes_is_a_job_of_another_name_than_one_of_all_rows() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let insert = |c, s| written.insert(&Written::row(1, c, "b".to_owned()), at(s));
    let published = |snapshot: &str| {
        store.keyspace.create_snapshot(snapshot).unwrap();
        let request = store.request(&["t"], snapshot, PublishRequest::default());
        let (spec, _) = store.open(&request).unwrap();
        let name = spec.name.clone();
        let runtime = Runtime::start(options(2)).unwrap();
        let outcome = runtime.submit(spec).unwrap().wait().outcome;
        assert_eq!(outcome, Outcome::Succeeded);
        name
    };
    insert(1, 1);
    assert_eq!(published("first"), "publish");
    insert(2, 2);
    assert_eq!(published("second"), "publish changes");
}

#[test]
fn little_is_written_where_little_changed() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    // Values that do not compress.
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut insert = |k, c, s| {
        let value: String = (0..8)
            .map(|_| format!("{:032x}", rng.random::<u128>()))
            .collect();
        written.insert(&Written::row(k, c, value), at(s));
    };
    for row in 0..4_000 {
        insert(row / 100, row % 100, 1);
    }
    let notes = store.next("t", "first");
    let all = "app.t: 4000 rows in full, because it is the first publication";
    assert!(notes[0].starts_with(all), "{notes:?}");
    let first_bytes = store.data_bytes("t");

    for k in 0..20 {
        insert(k, 50, 2);
    }
    insert(77, 0, 2);
    written.delete_row(30, 30, &at(2));
    let notes = store.next("t", "second");
    assert_eq!(
        notes,
        [
            "app.t: 1 row added, 20 replaced, 1 deleted",
            "app.t_static: 0 rows added, 0 replaced, 0 deleted"
        ]
    );
    store.check(&written, "second");
    let written_bytes = store.data_bytes("t") - first_bytes;
    assert!(
        written_bytes * 5 < first_bytes,
        "{written_bytes} of {first_bytes}"
    );

    let notes = store.next("t", "third");
    assert_eq!(notes[0], "app.t: 0 rows added, 0 replaced, 0 deleted");
    assert_eq!(store.data_bytes("t") - first_bytes, written_bytes);
    store.check(&written, "third");
    let again = store.publish_noting("t", "third", PublishRequest::default());
    assert_eq!(again, ["app@third is published already"]);
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

/// Regression: after the drop of the last static column, publications left `t_static` out. Its readers found deleted
/// values as its newest state.
#[test]
fn after_the_drop_of_the_last_static_column_its_table_is_published_without_rows() {
    let store = Store::new();
    let mut written = store.create("t", &COLUMNS);
    for k in 1..=2 {
        written.insert(&Written::row(k, 1, "b".to_owned()), at(1));
        written.insert(&[("k", int(k)), ("s", b"secret".to_vec())], at(1));
    }
    store.next("t", "first");
    store.check(&written, "first");
    assert_eq!(store.rows("t_static", "main", &written).len(), 2);

    written.delete_partition(1, &at(2));
    let dropped = written.schema.drop_column("s", (NOW_S + 3) * 1_000_000);
    written.set_schema(dropped.unwrap());
    let notes = store.next("t", "second");
    let why = "in full, because the columns have changed since the publication before";
    assert_eq!(
        notes,
        [
            format!("app.t: 1 row {why}"),
            format!("app.t_static: 0 rows {why}")
        ]
    );
    for tag in ["main", "second"] {
        assert_eq!(store.rows("t", tag, &written), ["2, 1, 'b', null"]);
        assert_eq!(store.rows("t_static", tag, &written), [""; 0]);
    }
    let again = store.publish_noting("t", "second", PublishRequest::default());
    assert_eq!(again, ["app@second is published already"]);

    written.insert(&Written::row(3, 1, "b".to_owned()), at(4));
    let notes = store.next("t", "third");
    assert_eq!(
        notes,
        [
            "app.t: 1 row added, 0 replaced, 0 deleted",
            "app.t_static: 0 rows added, 0 replaced, 0 deleted"
        ]
    );
    assert_eq!(store.rows("t_static", "third", &written), [""; 0]);

    let added = written.schema.add_column("s", CqlType::Text, true);
    written.set_schema(added.unwrap());
    written.insert(&[("k", int(2)), ("s", b"new".to_vec())], at(5));
    store.next("t", "fourth");
    store.check(&written, "fourth");
    assert_eq!(store.rows("t_static", "main", &written), ["2, 'new'"]);
}

#[test]
fn a_start_removes_dropped_static_columns_where_the_commit_of_another_stopped() {
    let store = Store::new();
    let mut written = store.create("t", &COLUMNS);
    written.insert(&[("k", int(1)), ("s", b"secret".to_vec())], at(1));
    store.next("t", "first");
    let dropped = written.schema.drop_column("s", (NOW_S + 2) * 1_000_000);
    written.set_schema(dropped.unwrap());
    store.keyspace.create_snapshot("second").unwrap();
    let first = store.start(&["t"], "second");
    run_tasks(&first).unwrap();
    // The commit of the second table is refused: something is in its way.
    let obstacle = "app/t_static/metadata/v2.metadata.json";
    store.target().create(obstacle, "{".into()).unwrap();
    let error = first.output.commit().unwrap_err().to_string();
    assert!(error.contains("1 of 2 tables are published"), "{error}");
    store.target().remove(obstacle).unwrap();

    store.publish_noting("t", "second", PublishRequest::default());
    assert_eq!(store.rows("t_static", "main", &written), [""; 0]);
}

#[test]
fn static_columns_stay_when_a_snapshot_from_before_them_is_published_once_more() {
    let store = Store::new();
    let columns = [
        ("k", "int", false),
        ("c", "int", false),
        ("b", "text", false),
    ];
    let mut written = store.create("t", &columns);
    written.insert(&Written::row(1, 1, "b".to_owned()), at(1));
    store.keyspace.create_snapshot("older").unwrap();
    store.next("t", "first");
    let added = written.schema.add_column("s", CqlType::Text, true);
    written.set_schema(added.unwrap());
    written.insert(&[("k", int(1)), ("s", b"new".to_vec())], at(2));
    store.next("t", "second");

    let again = store.publish_noting("t", "first", PublishRequest::default());
    assert_eq!(again, ["app@first is published already"]);
    store.check(&written, "second");
    assert_eq!(store.rows("t_static", "main", &written), ["1, 'new'"]);

    // The first publication of an older snapshot adds its tag to both tables, and leaves their newest state.
    store.publish_noting("t", "older", PublishRequest::default());
    assert_eq!(store.rows("t_static", "older", &written), [""; 0]);
    store.check(&written, "second");
    assert_eq!(store.rows("t_static", "main", &written), ["1, 'new'"]);
}

#[test]
fn a_foreign_table_whose_name_is_that_of_static_columns_stops_no_table_without_them() {
    for foreign in ["00001-a.metadata.json", "v1.metadata.json"] {
        let store = Store::new();
        let written = store.create("t", &NUMBERS);
        written.insert(&[("k", int(1)), ("n", int(1))], at(1));
        let name = format!("app/t_static/metadata/{foreign}");
        store.target().create(&name, "{".into()).unwrap();
        store.next("t", "first");
        assert_eq!(store.rows("t", "main", &written), ["1, 1"]);
    }
}

#[test]
fn a_table_whose_name_is_that_of_static_columns_keeps_its_rows() {
    let store = Store::new();
    let columns = [("k", "int", false), ("n", "int", false)];
    let [_, written] = ["t", "t_static"].map(|table| store.create(table, &columns));
    written.insert(&[("k", int(1)), ("n", int(1))], at(1));
    for snapshot in ["first", "second"] {
        store.keyspace.create_snapshot(snapshot).unwrap();
        for table in ["t_static", "t"] {
            store.publish_noting(table, snapshot, PublishRequest::default());
        }
        assert_eq!(store.rows("t_static", "main", &written), ["1, 1"]);
    }
}

#[test]
fn rows_of_files_with_many_deletes_are_written_again() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    for c in 0..100 {
        written.insert(&Written::row(1, c, format!("old {c}")), at(1));
    }
    written.insert(&[("k", int(1)), ("s", b"static".to_vec())], at(1));
    store.next("t", "first");
    for c in 0..20 {
        written.insert(&Written::row(1, c, format!("new {c}")), at(2));
    }
    let notes = store.next("t", "second");
    assert_eq!(notes[0], "app.t: 0 rows added, 20 replaced, 0 deleted");
    store.check(&written, "second");

    written.delete_row(1, 50, &at(3));
    written.insert(&Written::row(1, 60, "newest".to_owned()), at(3));
    let notes = store.next("t", "third");
    assert_eq!(
        notes[0],
        "app.t: 0 rows added, 1 replaced, 1 deleted, 78 written again to merge files"
    );
    store.check(&written, "third");
    // A reader of the tag finds the file that has gone since.
    assert_eq!(
        store.rows("t", "second", &written),
        scanned(&store, "t", "second")[0]
    );
}

/// Regression: every publication failed that rewrote a data file with an empty element.
#[test]
fn rows_with_empty_elements_are_written_again() {
    let store = Store::new();
    let written = store.create(
        "t",
        &[
            ("k", "int", false),
            ("l", "list<int>", false),
            ("m", "frozen<map<int, int>>", false),
        ],
    );
    for k in 0..10 {
        let element = if k == 5 { Vec::new() } else { int(k) };
        let values = [
            ("k", int(k)),
            ("l", build([&element[..]])),
            ("m", build_map([(&int(k)[..], &element[..])])),
        ];
        written.insert(&values, at(1));
    }
    let next = |snapshot: &str| {
        store.keyspace.create_snapshot(snapshot).unwrap();
        let as_null = PublishRequest {
            empty_as_null: true,
            ..PublishRequest::default()
        };
        store.publish_noting("t", snapshot, as_null)
    };
    next("first");
    written.delete_row(1, 0, &at(2));
    let notes = next("second");
    assert_eq!(notes[0], "app.t: 0 rows added, 0 replaced, 1 deleted");
    let notes = next("third");
    assert_eq!(
        notes[0],
        "app.t: 0 rows added, 0 replaced, 0 deleted, 9 written again to merge files"
    );
    let [rows, _] = scanned(&store, "t", "third");
    assert_eq!(store.rows("t", "main", &written), rows);
}

/// Regression: an IPv4-mapped IPv6 address was read back as an IPv4 address, so tables with such keys were
/// published in full each time.
#[test]
fn a_row_is_found_by_an_ipv4_mapped_address_in_its_key() {
    let store = Store::new();
    let columns = [
        ("k", "inet", false),
        ("c", "inet", false),
        ("n", "int", false),
    ];
    let written = store.create("t", &columns);
    let short = [10_u8, 0, 0, 1];
    let mapped = [&[0_u8; 10][..], &[0xff_u8; 2][..], &short[..]].concat();
    let row = |k: &[u8], c: &[u8]| [("k", k.to_vec()), ("c", c.to_vec()), ("n", int(1))];
    for k in [&short[..], &mapped[..]] {
        for c in [&short[..], &mapped[..]] {
            written.insert(&row(k, c), at(1));
        }
    }
    store.next("t", "first");
    let mut operand = Vec::new();
    delete_row(&at(2), &mut operand).unwrap();
    written.merge(&written.row_key(&row(&mapped, &mapped)), &operand);
    let notes = store.next("t", "second");
    assert_eq!(notes[0], "app.t: 0 rows added, 0 replaced, 1 deleted");
    let [rows, _] = scanned(&store, "t", "second");
    assert_eq!(rows.len(), 3);
    assert_eq!(store.rows("t", "main", &written), rows);
}

#[test]
fn without_a_fitting_pin_all_rows_are_written_and_the_report_has_the_reason() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let insert = |c, s| written.insert(&Written::row(1, c, "b".to_owned()), at(s));
    insert(1, 1);
    store.next("t", "first");
    let holds = store.keyspace.holds();
    assert_eq!(holds.len(), 1);
    assert_eq!(store.keyspace.snapshot_names(), ["first"]);
    store.keyspace.delete_snapshot(&holds[0].name).unwrap();
    insert(2, 2);
    let notes = store.next("t", "second");
    let why = "2 rows in full, because the snapshot that was published before is not kept any more";
    assert_eq!(notes[0], format!("app.t: {why}"));
    store.check(&written, "second");

    store.keyspace.create_snapshot("third").unwrap();
    let full = PublishRequest {
        full: true,
        pin_max: Some(PinMax::Nothing),
        ..PublishRequest::default()
    };
    let notes = store.publish_noting("t", "third", full);
    assert_eq!(notes[0], "app.t: 2 rows in full, because --full was given");
    assert!(store.keyspace.holds().is_empty());

    // Another option, after a publication that keeps its snapshot.
    let notes = store.next("t", "fourth");
    assert!(notes[0].contains("not kept any more"), "{notes:?}");
    store.keyspace.create_snapshot("fifth").unwrap();
    let as_null = PublishRequest {
        empty_as_null: true,
        ..PublishRequest::default()
    };
    let notes = store.publish_noting("t", "fifth", as_null);
    assert!(notes[0].contains("had other options"), "{notes:?}");
    // An earlier snapshot adds its tag only, and its pin goes: the next one is compared with the newest one.
    let replacing = PublishRequest {
        replace: true,
        ..PublishRequest::default()
    };
    store.keyspace.create_snapshot("old").unwrap();
    store.next("t", "sixth");
    let notes = store.publish_noting("t", "old", replacing);
    assert!(notes[0].contains("of a later snapshot"), "{notes:?}");
    store.check(&written, "sixth");
    assert_eq!(store.keyspace.holds().len(), 1);
    insert(3, 3);
    let notes = store.next("t", "seventh");
    assert_eq!(notes[0], "app.t: 1 row added, 0 replaced, 0 deleted");
    store.check(&written, "seventh");
}

#[test]
fn a_publisher_of_changes_that_was_overtaken_names_the_other_publisher() {
    let store = Store::new();
    let (written, _) = large(&store);
    store.next("t", "monday");
    for (c, snapshot) in [(1000, "tuesday"), (1001, "wednesday")] {
        written.insert(&Written::row(0, c, "new".into()), at(1));
        store.keyspace.create_snapshot(snapshot).unwrap();
    }
    let spec = |snapshot| store.start(&["t"], snapshot);
    let (tuesday, wednesday) = (spec("tuesday"), spec("wednesday"));
    // Both begin, and so the first to commit lets go what was published before.
    run_tasks(&tuesday).unwrap();
    run_tasks(&wednesday).unwrap();
    tuesday.output.commit().unwrap();
    let error = wednesday.output.commit().unwrap_err().to_string();
    assert!(error.contains("another publisher"), "{error}");
    assert_eq!(store.metadata("t").snapshots.len(), 2);
}

/// The store releases the pins (kept snapshots) of a table before it drops rows of the table that it cannot
/// read. A publication that is under way must then not pin its own snapshot at its end. If it has compared
/// with a snapshot whose pin was released, it must fail.
#[test]
fn a_pin_that_goes_during_a_publication_is_not_made_at_its_end_and_not_compared_with() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let insert = |c, s| written.insert(&Written::row(1, c, "b".to_owned()), at(s));
    let begin = |snapshot: &str| {
        store.keyspace.create_snapshot(snapshot).unwrap();
        let request = store.request(&["t"], snapshot, PublishRequest::default());
        let (spec, noted) = store.open(&request).unwrap();
        run_tasks(&spec).unwrap();
        assert!(!store.keyspace.holds().is_empty());
        for hold in store.keyspace.holds() {
            store.keyspace.delete_snapshot(&hold.name).unwrap();
        }
        (spec, noted)
    };
    insert(1, 1);
    let (first, noted) = begin("first");
    first.output.commit().unwrap();
    assert!(store.keyspace.holds().is_empty());
    let notes = noted.notes();
    assert!(notes.last().unwrap().contains("is not kept"), "{notes:?}");
    store.check(&written, "first");

    insert(2, 2);
    let notes = store.next("t", "second");
    assert!(notes[0].contains("2 rows in full"), "{notes:?}");
    insert(3, 3);
    let (third, _) = begin("third");
    let error = third.output.commit().unwrap_err().to_string();
    assert!(error.contains("is not kept any more"), "{error}");
    drop(third);
    let notes = store.publish_noting("t", "third", PublishRequest::default());
    assert!(notes[0].contains("3 rows in full"), "{notes:?}");
    store.check(&written, "third");
    insert(4, 4);
    let notes = store.next("t", "fourth");
    assert_eq!(notes[0], "app.t: 1 row added, 0 replaced, 0 deleted");
    store.check(&written, "fourth");
}

#[test]
fn a_table_that_was_dropped_and_created_again_is_refused_as_before() {
    let store = Store::new();
    let create = || {
        let table = store.keyspace.table("lines", TableOptions::default());
        let table = table.unwrap();
        table.put(b"1", b"one").unwrap();
        table
    };
    drop(create());
    store.next("lines", "monday");
    assert_eq!(store.keyspace.holds().len(), 1);
    store.keyspace.drop_table("lines").unwrap();
    assert!(store.keyspace.holds().is_empty());
    create();
    store.keyspace.create_snapshot("tuesday").unwrap();
    let request = store.request(&["lines"], "tuesday", PublishRequest::default());
    let error = store.spec(&request).err().unwrap().to_string();
    assert!(error.contains("dropped and created again"), "{error}");
}

#[test]
fn changes_of_a_table_that_cql_did_not_make_are_published() {
    let store = Store::new();
    let table = store.keyspace.table("lines", TableOptions::default());
    let table = table.unwrap();
    let as_text = || PublishRequest {
        text: true,
        ..PublishRequest::default()
    };
    // The names and types of its columns.
    let names = [("key", "text", false), ("value", "text", false)];
    let written = store.create("of_text", &names);
    for key in 0..50 {
        table.put(format!("{key:02}").as_bytes(), b"old").unwrap();
    }
    store.keyspace.create_snapshot("monday").unwrap();
    store.publish_noting("lines", "monday", as_text());
    table.put(b"07", b"new").unwrap();
    table.delete(b"08").unwrap();
    table.put(b"09", b"old").unwrap();
    table.put(b"50", b"new").unwrap();
    store.keyspace.create_snapshot("tuesday").unwrap();
    let notes = store.publish_noting("lines", "tuesday", as_text());
    assert_eq!(notes, ["app.lines: 1 row added, 1 replaced, 1 deleted"]);
    let rows = store.rows("lines", "tuesday", &written);
    assert_eq!(rows.len(), 50);
    assert_eq!(rows[7..9], ["'07', 'new'", "'09', 'old'"]);
    assert_eq!(rows[49], "'50', 'new'");
}

#[test]
fn a_publication_of_changes_goes_on_where_it_was_stopped() {
    let store = Store::new();
    let (written, _) = large(&store);
    store.next("t", "monday");
    for k in 0..4 {
        let value = format!("changed {k}");
        written.insert(&Written::row(k, 5, value.clone()), at(5));
        written.insert(&[("k", int(k)), ("s", value.into_bytes())], at(5));
    }
    written.delete_range(1, (100, 110), &at(5));
    written.delete_partition(2, &at(5));
    store.keyspace.create_snapshot("tuesday").unwrap();
    let request = store.request(&["t"], "tuesday", PublishRequest::default());
    let first = store.spec(&request).unwrap();
    let splits = first.input.splits().unwrap();
    assert!(splits.len() > 2);
    run_task(&first, &splits[1]).unwrap();
    first.output.abort();
    // The process ends.
    drop(first);

    let (second, noted) = store.open(&request).unwrap();
    assert_eq!(second.input.splits().unwrap().len(), splits.len() - 1);
    run_tasks(&second).unwrap();
    drop(second);
    let (third, _) = store.open(&request).unwrap();
    assert!(third.input.splits().unwrap().is_empty());
    third.output.commit().unwrap();
    assert!(noted.notes().is_empty());
    store.check(&written, "tuesday");
    store.check_swept("t");
    store.check_swept("t_static");

    written.delete_row(3, 5, &at(6));
    let notes = store.next("t", "wednesday");
    let counts = "app.t: 0 rows added, 0 replaced, 1 deleted";
    assert!(notes[0].starts_with(counts), "{notes:?}");
    store.check(&written, "wednesday");
}

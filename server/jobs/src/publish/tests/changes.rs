//! Publications of changed rows, compared with a scan of their snapshots.

mod comparisons;
mod pins;
mod tables;

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
use crate::inputs::{Cells, CellsInput, RowKey, cell_columns};

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

impl Store {
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
    let (store, written) = Store::of_many_pieces();
    let insert = |k, c| written.insert(&Written::row(k, c, "new".to_owned()), at(2));
    let notes = store.next("t", "first");
    let all = "app.t: 4000 rows in full, because it is the first publication";
    assert!(notes[0].starts_with(all), "{notes:?}");
    let first_bytes = store.data_bytes("t");

    for k in 0..20 {
        insert(k, 50);
    }
    insert(77, 0);
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

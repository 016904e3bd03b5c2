use std::collections::BTreeMap;
use std::convert::Infallible;

use ebb_model::key::{PartitionKey, ROW, SCHEMA_KEY};
use ebb_model::row::{
    Cell, Deletion, Element, Expiry, HeaderBuilder, Lifetime, Marker, RangeDeletion, RowBuilder,
    keyed_part,
};
use ebb_model::schema::{TableDefinition, TableSchema};
use ebb_model::types::CqlType;
use ebb_model::types::elements::build;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, DetachedOptions, DetachedTable, Keyspace, Maintenance, ManualClock, Options, Table,
    TableOptions,
};
use ebb_tables::{CQL_ROW, database_options, merge_operators, schema_at};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{Failure, testing};

/// The time at which the clock of a test starts, in seconds since 1970.
const NOW_S: i64 = 1_700_000_000;

struct Fixture {
    db: Db,
    keyspace: Keyspace,
    table: Table,
    schema: Arc<TableSchema>,
    clock: ManualClock,
}

/// Creates the table `t (k int, c int, s text STATIC, a int, b text, PRIMARY KEY (k, c))`.
fn fixture(options: Options) -> Fixture {
    let clock = ManualClock::at_ms(NOW_S as u64 * 1000);
    let db = Db::open(
        "/db",
        Options {
            clock: Arc::new(clock.clone()),
            maintenance: Maintenance::Manual,
            ..options
        },
    )
    .unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let options = TableOptions {
        merge_operator: Some(CQL_ROW.to_string()),
        ..TableOptions::default()
    };
    let table = keyspace.table("t", options).unwrap();
    let schema = TableSchema::create(definition()).unwrap();
    table.put(SCHEMA_KEY, &schema.encode()).unwrap();
    Fixture {
        db,
        keyspace,
        table,
        schema: Arc::new(schema),
        clock,
    }
}

fn definition() -> TableDefinition {
    let columns = [
        ("k", CqlType::Int, false),
        ("c", CqlType::Int, false),
        ("s", CqlType::Text, true),
        ("a", CqlType::Int, false),
        ("b", CqlType::Text, false),
    ];
    TableDefinition::new(("app", "t"), &columns, &["k"], &["c"])
}

/// Creates the table of [`fixture`] in a database with a catalog, and without a grace period, so that merges
/// drop deletions at once.
fn purged_at_once() -> Fixture {
    let clock = ManualClock::at_ms(NOW_S as u64 * 1000);
    let (db, table, schema) = testing::purged_at_once(&clock, definition());
    Fixture {
        keyspace: db.existing_keyspace("app").unwrap(),
        table,
        schema,
        db,
        clock,
    }
}

fn in_memory() -> Fixture {
    fixture(Options {
        disk: Arc::new(MemDisk::new()),
        ..database_options()
    })
}

impl Fixture {
    fn id(&self, column: &str) -> u32 {
        self.schema.column(column).unwrap().id.0
    }

    fn partition(&self, k: i32) -> PartitionKey {
        PartitionKey::new(&[&k.to_be_bytes()]).unwrap()
    }

    /// Writes a row as INSERT does, at a timestamp.
    fn insert(&self, k: i32, c: i32, a: i32, b: &str, timestamp: i64, expiry: Option<Expiry>) {
        let mut operand = Vec::new();
        let mut row = RowBuilder::new(&mut operand, timestamp);
        row.marker(Marker { timestamp, expiry });
        let lifetime = expiry.map_or(Lifetime::Permanent, Lifetime::Expiring);
        let mut cells = [
            (self.id("a"), a.to_be_bytes().to_vec()),
            (self.id("b"), b.as_bytes().to_vec()),
        ];
        cells.sort_unstable();
        for (id, value) in &cells {
            let value = &value[..];
            row.cell(
                *id,
                Cell {
                    timestamp,
                    lifetime,
                    value,
                },
            );
        }
        row.finish().unwrap();
        self.merge_row(k, c, &operand);
    }

    /// Writes a column of a row as UPDATE does, at a timestamp.
    fn update(
        &self,
        (k, c): (i32, i32),
        (column, value): (&str, &[u8]),
        timestamp: i64,
        expiry: Option<Expiry>,
    ) {
        let mut operand = Vec::new();
        let mut row = RowBuilder::new(&mut operand, timestamp);
        row.cell(
            self.id(column),
            Cell {
                timestamp,
                lifetime: expiry.map_or(Lifetime::Permanent, Lifetime::Expiring),
                value,
            },
        );
        row.finish().unwrap();
        self.merge_row(k, c, &operand);
    }

    fn merge_row(&self, k: i32, c: i32, operand: &[u8]) {
        let layout = self.schema.layout();
        let key = layout
            .row_key(&self.partition(k), &[&c.to_be_bytes()])
            .unwrap();
        self.table.merge(&key, operand).unwrap();
    }

    fn header(&self, k: i32, write: impl FnOnce(HeaderBuilder<'_>)) {
        let mut operand = Vec::new();
        write(HeaderBuilder::new(&mut operand));
        self.table
            .merge(&self.partition(k).header_key(), &operand)
            .unwrap();
    }

    fn input(&self, snapshot: &str, splits: usize, wanted: Option<&[&str]>) -> CqlInput {
        let table = self
            .keyspace
            .snapshot(snapshot)
            .unwrap()
            .table("t")
            .unwrap();
        let schema = schema_at(&table, "app.t").unwrap().unwrap();
        let wanted: Option<Vec<String>> =
            wanted.map(|all| all.iter().map(|name| name.to_string()).collect());
        let text = CqlText::new(Arc::new(schema), table.read_time_ms(), wanted.as_deref());
        CqlInput::new(SnapshotInput::new(table, splits), text)
    }
}

type Rows = Vec<(String, String)>;

fn rows_of(input: &dyn Input, splits: &[Split]) -> Rows {
    let mut rows = Vec::new();
    for split in splits {
        let mut add = |key: &[u8], value: &[u8]| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            rows.push((text(key), text(value)));
            Ok(())
        };
        input.read(split, &mut add).unwrap();
    }
    rows.sort();
    rows
}

fn rows(input: &dyn Input) -> Rows {
    rows_of(input, &input.splits().unwrap())
}

fn pairs(rows: &[(&str, &str)]) -> Rows {
    let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
    rows.iter().map(pair).collect()
}

#[test]
fn rows_come_under_the_deletions_of_their_partition_as_of_the_snapshot() {
    let fixture = in_memory();
    fixture.insert(1, 1, 11, "one, \"1\"", 5, None);
    fixture.insert(1, 2, 12, "", 5, None);
    fixture.insert(1, 3, 13, "newer", 9, None);
    fixture.header(1, |mut header| {
        header.deletion(Deletion {
            timestamp: 7,
            local_time_s: NOW_S,
        });
    });
    let expiry = Expiry {
        ttl_s: 10,
        expiry_s: NOW_S + 10,
    };
    fixture.insert(2, 1, 21, "expires", 5, Some(expiry));
    fixture.keyspace.create_snapshot("before").unwrap();
    fixture.clock.advance_ms(11_000);
    fixture.insert(3, 1, 31, "later", 5, None);
    fixture.keyspace.create_snapshot("after").unwrap();
    let before = pairs(&[("1,3", "\"\",13,newer"), ("2,1", "\"\",21,expires")]);
    // The time of the read does not matter.
    assert_eq!(rows(&fixture.input("before", 4, None)), before);
    let after = pairs(&[("1,3", "\"\",13,newer"), ("3,1", "\"\",31,later")]);
    assert_eq!(rows(&fixture.input("after", 4, None)), after);
    let only_a = pairs(&[("1,3", "13"), ("3,1", "31")]);
    assert_eq!(rows(&fixture.input("after", 1, Some(&["a", "k"]))), only_a);
    let keys = pairs(&[("1,3", ""), ("3,1", "")]);
    assert_eq!(rows(&fixture.input("after", 1, Some(&[]))), keys);
}

#[test]
fn a_task_reaches_checkpoints_among_rows_that_are_deleted() {
    let fixture = in_memory();
    for c in 0..3 {
        fixture.insert(1, c, c, "b", 5, None);
    }
    fixture.header(1, |mut header| {
        header.deletion(Deletion {
            timestamp: 7,
            local_time_s: NOW_S,
        });
    });
    fixture.keyspace.create_snapshot("s").unwrap();
    let input = fixture.input("s", 1, None);
    let split = &input.splits().unwrap()[0];
    let checkpoints = std::cell::Cell::new(0);
    let mut rows = 0;
    let mut record = |_: &[u8], _: &[u8]| {
        rows += 1;
        Ok(())
    };
    let read = input.read_with_checkpoints(split, &mut record, &|| {
        checkpoints.set(checkpoints.get() + 1);
        Ok(())
    });
    read.unwrap();
    assert_eq!((rows, checkpoints.get()), (0, 3));
}

#[test]
fn rows_of_a_deleted_range_are_left_out() {
    let fixture = in_memory();
    for c in 1..=4 {
        let timestamp = if c == 3 { 9 } else { 5 };
        fixture.insert(1, c, c, "b", timestamp, None);
    }
    let [start, end] = [2_i32, 4].map(|c| {
        let mut clustering = Vec::new();
        let layout = fixture.schema.layout();
        let encoded = layout.encode_clustering(&[&c.to_be_bytes()], &mut clustering);
        encoded.unwrap();
        clustering
    });
    fixture.header(1, |mut header| {
        let range = RangeDeletion {
            start: &start,
            end: Some(&end),
            deletion: Deletion {
                timestamp: 7,
                local_time_s: NOW_S,
            },
        };
        header.ranges(&[range]).unwrap();
    });
    fixture.keyspace.create_snapshot("s").unwrap();
    let left = pairs(&[
        ("1,1", "\"\",1,b"),
        ("1,3", "\"\",3,b"),
        ("1,4", "\"\",4,b"),
    ]);
    assert_eq!(rows(&fixture.input("s", 1, None)), left);
}

#[test]
fn a_row_that_only_updates_wrote_is_there_while_it_has_a_value() {
    let fixture = in_memory();
    let expiry = Expiry {
        ttl_s: 10,
        expiry_s: NOW_S + 10,
    };
    fixture.update((1, 1), ("a", &11_i32.to_be_bytes()), 5, None);
    fixture.update((1, 2), ("b", b"expires"), 5, Some(expiry));
    fixture.keyspace.create_snapshot("before").unwrap();
    fixture.clock.advance_ms(11_000);
    fixture.keyspace.create_snapshot("after").unwrap();
    let before = pairs(&[("1,1", "\"\",11,"), ("1,2", "\"\",,expires")]);
    assert_eq!(rows(&fixture.input("before", 1, None)), before);
    // A row is there also for a job that does not read the column with its value.
    let only_b = pairs(&[("1,1", ""), ("1,2", "expires")]);
    assert_eq!(rows(&fixture.input("before", 1, Some(&["b"]))), only_b);
    let after = pairs(&[("1,1", "\"\",11,")]);
    assert_eq!(rows(&fixture.input("after", 1, None)), after);
}

#[test]
fn a_column_that_was_dropped_and_added_again_begins_after_the_drop() {
    let fixture = in_memory();
    fixture.insert(1, 1, 11, "older", 5, None);
    fixture.insert(1, 2, 12, "newer", 6, None);
    // Without a marker, this row is there only while its value is visible.
    fixture.update((1, 3), ("b", b"older"), 5, None);
    let dropped = fixture.schema.drop_column("b", 5).unwrap();
    let back = dropped.add_column("b", CqlType::Text, false).unwrap();
    for (name, schema) in [("without", dropped), ("with", back)] {
        fixture.table.put(SCHEMA_KEY, &schema.encode()).unwrap();
        fixture.keyspace.create_snapshot(name).unwrap();
    }
    let without = pairs(&[("1,1", "\"\",11"), ("1,2", "\"\",12")]);
    assert_eq!(rows(&fixture.input("without", 1, None)), without);
    let with = pairs(&[("1,1", "\"\",11,"), ("1,2", "\"\",12,newer")]);
    assert_eq!(rows(&fixture.input("with", 1, None)), with);
}

#[test]
fn a_damaged_row_or_key_fails_as_damage_of_the_database() {
    for place in [ROW, ROW + 1] {
        let fixture = in_memory();
        let key = [&fixture.partition(1).prefix()[..], &[place]].concat();
        fixture.table.put(&key, b"?").unwrap();
        fixture.keyspace.create_snapshot("s").unwrap();
        let input = fixture.input("s", 1, None);
        let [split] = &input.splits().unwrap()[..] else {
            panic!("one split");
        };
        let mut ignore = |_: &[u8], _: &[u8]| Ok(());
        let error = input.read(split, &mut ignore).unwrap_err();
        assert_eq!(Failure::of(&error), Failure::Corrupt, "{error}");
        let text = error.to_string();
        let begin = "a row of table app.t is damaged: ";
        assert!(text.starts_with(begin), "{text}");
        // The reader of a failed job's cause may not be allowed to read the table.
        assert!(!text.contains("at key"), "{text}");
    }
}

/// Writes a few partitions, some of them large, some with static values only, with deletions of all
/// kinds. Returns the rows that a job should read.
fn filled(fixture: &Fixture, rng: &mut impl rand::Rng) -> Rows {
    let mut expected = BTreeMap::new();
    let b = "b".repeat(300);
    for k in 0..12 {
        let cells = [0, 3, 400, 900][rng.random_range(0..4)];
        let is_deleted = rng.random_bool(0.3);
        let has_static = rng.random_bool(0.5);
        for c in 0..cells {
            let is_newer = rng.random_bool(0.5);
            fixture.insert(k, c, c * 2, &b, if is_newer { 9 } else { 5 }, None);
            if is_newer || !is_deleted {
                let s = if has_static { "static" } else { "\"\"" };
                expected.insert(format!("{k},{c}"), format!("{s},{},{b}", c * 2));
            }
        }
        fixture.header(k, |mut header| {
            if is_deleted {
                header.deletion(Deletion {
                    timestamp: 7,
                    local_time_s: NOW_S,
                });
            }
            if has_static {
                let mut row = header.static_row(8);
                row.cell(
                    fixture.id("s"),
                    Cell {
                        timestamp: 8,
                        lifetime: Lifetime::Permanent,
                        value: b"static",
                    },
                );
                row.finish().unwrap();
            }
        });
        let prefix = format!("{k},");
        if has_static && !expected.keys().any(|key| key.starts_with(&prefix)) {
            expected.insert(prefix, "static,,".to_string());
        }
    }
    expected.into_iter().collect()
}

#[test]
fn splits_that_begin_inside_of_partitions_give_the_rows_that_one_split_gives() {
    let test = "splits_that_begin_inside_of_partitions_give_the_rows_that_one_split_gives";
    for_seeds(test, 6, |seed| {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let fixture = in_memory();
        let expected = filled(&fixture, &mut rng);
        fixture.keyspace.create_snapshot("s").unwrap();
        for is_flushed in [false, true] {
            let one = fixture.input("s", 1, None);
            assert_eq!(rows(&one), expected);
            let many = fixture.input("s", 7, None);
            assert_eq!(rows(&many), expected);
            // Splits may begin at any key, also between headers and rows.
            let keys = fixture
                .table
                .range::<&[u8], _>(..)
                .map(|row| row.unwrap().0);
            let keys: Vec<Bytes> = keys.collect();
            let mut cuts: Vec<Bytes> = (0..20)
                .map(|_| keys[rng.random_range(1..keys.len())].clone())
                .collect();
            cuts.sort();
            cuts.dedup();
            let first = Bytes::from_static(PARTITIONS_START);
            let lowers = std::iter::once(first).chain(cuts.iter().cloned());
            let uppers = cuts.iter().cloned().map(Some).chain([None]);
            let pieces = lowers.zip(uppers).map(|(lower, upper)| Split {
                payload: Piece { lower, upper }.encode(),
                ..Split::default()
            });
            assert_eq!(rows_of(&many, &pieces.collect::<Vec<_>>()), expected);
            if !is_flushed {
                fixture.db.flush().unwrap();
            }
        }
        let input = fixture.input("s", 3, None);
        let all: std::collections::BTreeSet<_> = expected.into_iter().collect();
        for split in input.splits().unwrap() {
            let mut check = |key: &[u8], value: &[u8]| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                assert!(all.contains(&(text(key), text(value))));
                Ok(())
            };
            let sampled = input.sample(&split, 50, &mut check, &|| Ok(()));
            sampled.unwrap();
        }
    });
}

#[test]
fn a_process_without_the_database_reads_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at_ms(NOW_S as u64 * 1000);
    let db = Db::open(
        dir.path(),
        Options {
            clock: Arc::new(clock),
            maintenance: Maintenance::Manual,
            ..database_options()
        },
    )
    .unwrap();
    let memory = in_memory();
    let keyspace = db.keyspace("app").unwrap();
    let options = (*memory.table.options()).clone();
    let fixture = Fixture {
        table: keyspace.table("t", options).unwrap(),
        keyspace,
        db,
        ..memory
    };
    fixture
        .table
        .put(SCHEMA_KEY, &fixture.schema.encode())
        .unwrap();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let expected = filled(&fixture, &mut rng);
    fixture.keyspace.create_snapshot("s").unwrap();
    let table = fixture.keyspace.snapshot("s").unwrap().table("t").unwrap();
    let splits = fixture.input("s", 5, None).splits().unwrap();
    assert!(splits.len() > 1);
    let pin = table.pin().unwrap();
    let options = DetachedOptions {
        merge_operators: merge_operators(),
        ..DetachedOptions::default()
    };
    let detached = DetachedTable::open(pin.description(), options).unwrap();
    let schema = ebb_tables::detached_schema(&detached, "app.t").unwrap();
    let text = CqlText::new(Arc::new(schema), table.read_time_ms(), None);
    let input = CqlInput::new(SnapshotInput::detached(detached), text);
    assert_eq!(rows_of(&input, &splits), expected);
}

/// Regression: a row with thousands of long decimals took minutes, and the task could not be cancelled
/// before the next row: neither while keys were decoded, nor while values were printed.
#[test]
fn a_task_is_cancelled_before_a_long_decimal_of_a_row() {
    let mut definition = definition();
    let set = CqlType::Set {
        element: Arc::new(CqlType::Decimal),
        frozen: false,
    };
    definition.columns.push(("d".to_string(), set, false));
    let list = CqlType::List {
        element: Arc::new(CqlType::Decimal),
        frozen: true,
    };
    definition.columns.push(("f".to_string(), list, false));
    let schema = Arc::new(TableSchema::create(definition).unwrap());
    // So long that the work on this one value is enough for a checkpoint (see `ValueWork::charge`).
    let decimal = [&[0; 4][..], &[7; 1000]].concat();
    let charge = &mut |_: usize| Ok::<_, Infallible>(());
    let part = keyed_part(&CqlType::Decimal, &decimal, &[], charge).unwrap();
    // The row has the element only in its ordered form: a reader has to decode that form.
    assert_eq!(part.original, None);
    let cell = |value| Cell {
        timestamp: 5,
        lifetime: Lifetime::Permanent,
        value,
    };
    let id = |column: &str| schema.column(column).unwrap().id.0;
    let mut with_set = Vec::new();
    let mut row = RowBuilder::new(&mut with_set, 5);
    row.begin_collection(id("d"), None);
    row.element(Element {
        path: &part.path,
        original: None,
        cell: cell(b""),
    });
    row.end_collection();
    row.finish().unwrap();
    let mut with_list = Vec::new();
    let list = build([&decimal[..]]);
    let mut row = RowBuilder::new(&mut with_list, 5);
    row.cell(id("f"), cell(&list));
    row.finish().unwrap();

    let text = CqlText::new(Arc::clone(&schema), 0, None);
    let one = 1_i32.to_be_bytes();
    let partition_key = PartitionKey::new(&[&one]).unwrap();
    let key = schema.layout().row_key(&partition_key, &[&one]).unwrap();
    let decoded = text.read_key(&key).unwrap();
    let Place::Row(clustering) = decoded.place else {
        panic!("the key of a row");
    };
    let mut buffers = Buffers::default();
    let mut write = |operand: &[u8], checkpoint: Checkpoint<'_>| {
        let pace = TaskPace::new(checkpoint);
        let partition = text.partition(decoded, None, &mut buffers, &pace)?;
        text.write_row(&partition, clustering, operand, &mut buffers, &pace)
    };
    for operand in [&with_set, &with_list] {
        assert!(matches!(write(operand, &|| Ok(())), Ok(true)));
        let cancelled = write(operand, &|| Err(TaskError::Cancelled));
        assert!(matches!(cancelled, Err(TaskError::Cancelled)));
    }
}

/// Regression: a sample looked up the header of a row's partition only when it reached the row. If
/// a merge meanwhile dropped a deletion together with the rows that it hid, the header lacked the
/// deletion while the sample's scan still had the rows, so the sample showed deleted rows.
#[test]
fn a_sample_shows_no_row_that_a_merge_drops_on_the_way() {
    let fixture = purged_at_once();
    let mut keys = [1, 2];
    keys.sort_by_key(|&k| fixture.partition(k).prefix());
    let [first, deleted] = keys;
    // As many runs as it takes to start a merge.
    for c in 0..8 {
        fixture.insert(first, c, c, "there", 5, None);
        fixture.insert(deleted, c, c, "deleted", 5, None);
        fixture.db.flush().unwrap();
    }
    fixture.header(deleted, |mut header| {
        header.deletion(Deletion {
            timestamp: 7,
            local_time_s: NOW_S,
        });
    });
    fixture.db.flush().unwrap();
    fixture.clock.advance_ms(10_000);
    fixture.keyspace.create_snapshot("s").unwrap();
    let input = fixture.input("s", 1, Some(&["a"]));
    let [split] = &input.splits().unwrap()[..] else {
        panic!("one split");
    };
    let mut rows = Vec::new();
    let mut add = |key: &[u8], _: &[u8]| {
        if rows.is_empty() {
            fixture.db.compact().unwrap();
            let header = input.header(&fixture.partition(deleted).prefix());
            assert_eq!(header.unwrap(), None, "the merge dropped the deletion");
        }
        rows.push(String::from_utf8(key.to_vec()).unwrap());
        Ok(())
    };
    let sampled = input.sample(split, 16, &mut add, &|| Ok(()));
    sampled.unwrap();
    assert_eq!(
        rows,
        [0, 1, 2, 3, 4, 5, 6, 7].map(|c| format!("{first},{c}"))
    );
}

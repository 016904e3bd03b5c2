//! The rows and the columns that publications have.

use ebb_model::types::elements::{build, build_map, build_tuple};
use ebb_tables::write::{delete_partition, delete_row};

use super::large_table::Large;
use super::*;

/// An emitter that passes rows to the writer of an output, whose task was cancelled.
struct ToCancelled<'w>(&'w mut dyn OutputWriter);

impl Emit for ToCancelled<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let checkpoint = || Err(TaskError::Cancelled);
        self.0.write_with_checkpoints(key, value, &checkpoint)
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Regression: a task published all numbers of a row before it noticed that it was cancelled. A collection
/// may have thousands of long numbers.
#[test]
fn a_cancelled_task_ends_before_it_publishes_a_long_number() {
    let store = Store::new();
    let written = store.create("t", &[("k", "int", false), ("v", "decimal", false)]);
    // A scale of zero, then 2,001 bytes of the number.
    let long = [&[0; 4][..], &[1], &[0; 2000]].concat();
    written.insert(&[("k", int(1)), ("v", long)], at(0));
    store.keyspace.create_snapshot("monday").unwrap();
    let spec = store.start(&["t"], "monday");
    let splits = spec.input.splits().unwrap();
    let published = splits.iter().try_for_each(|split| {
        let mut writer = spec.output.open(split.index, 1)?;
        spec.input.read(split, &mut |key, value| {
            let mut emit = ToCancelled(&mut *writer);
            spec.mapper.map(key, value, &mut emit)
        })
    });
    assert!(
        matches!(published, Err(TaskError::Cancelled)),
        "{published:?}"
    );
}

/// Regression: a publication into a folder wrote until the disk was full, and the writes of the database
/// failed.
#[test]
fn a_publication_that_would_reduce_the_reserve_of_the_disk_fails_at_once() {
    let store = Store::new();
    let written = store.create("t", &NUMBERS);
    written.insert(&[("k", int(1)), ("n", int(2))], at(0));
    store.keyspace.create_snapshot("monday").unwrap();
    let request = store.request(&["t"], "monday", PublishRequest::default());
    let (spec, _) = store
        .open_with(&request, SpillSpace::new(|_| Ok(0)))
        .unwrap();
    let runtime = Runtime::start(options(2)).unwrap();
    let report = runtime.submit(spec).unwrap().wait();
    let Outcome::Failed { cause } = &report.outcome else {
        panic!("{report:?}")
    };
    assert!(cause.contains("attempt 1: the disk is full"), "{cause}");
    assert!(newest_metadata(&store.target(), "t").is_none());
    store.publish_successfully(&["t"], "monday");
}

#[test]
fn values_of_every_type_come_back_and_absent_ones_are_null() {
    let native = [
        ("ascii", "a"),
        ("bigint", "-1"),
        ("blob", "00ff"),
        ("boolean", "true"),
        ("date", "2024-02-03"),
        ("decimal", "1.50"),
        ("double", "1.5"),
        ("duration", "1mo2d"),
        ("float", "-1.5"),
        ("inet", "127.0.0.1"),
        ("int", "-7"),
        ("smallint", "-7"),
        ("text", "it's"),
        ("time", "10:00:00.000000001"),
        ("timestamp", "2024-02-03 10:00:00.123+0000"),
        ("timeuuid", "7f1e3c90-c0ff-11ee-8000-0123456789ab"),
        ("tinyint", "-7"),
        ("uuid", "00000000-0000-4000-8000-000000000003"),
        ("varint", "123456789012345678901234567890"),
    ];
    let (one, two) = (int(1), int(2));
    let nested = [
        ("list<int>", build([&two[..], &one])),
        ("set<text>", build([&b"a"[..], b"b"])),
        (
            "map<text, int>",
            build_map([(&b"a"[..], &one[..]), (&b"b"[..], &two[..])]),
        ),
        ("place", build_tuple([Some(&b"Main"[..]), Some(&one[..])])),
        ("frozen<place>", build_tuple([Some(&b"Main"[..]), None])),
        ("tuple<int, text>", build_tuple([Some(&one[..]), None])),
        (
            "frozen<map<int, frozen<list<text>>>>",
            build_map([(&one[..], &build([&b"x"[..]])[..])]),
        ),
    ];
    let native = native.map(|(ty, text)| (ty, parse(ty).parse_value(text).unwrap()));
    let (mut columns, mut row) = (vec![("k", "int", false)], vec![("k", int(1))]);
    for (n, (ty, value)) in native.into_iter().chain(nested).enumerate() {
        let name: &'static str = String::leak(format!("v{n:02}"));
        columns.push((name, ty, false));
        row.push((name, value));
    }

    let store = Store::new();
    let written = store.create("t", &columns);
    written.insert(&row, at(0));
    written.insert(&[("k", int(2)), ("v00", b"only".to_vec())], at(0));
    let counters = store.create("counted", &[("k", "int", false), ("n", "counter", false)]);
    counters.insert(
        &[("k", int(1)), ("n", 42_i64.to_be_bytes().to_vec())],
        at(0),
    );
    store.keyspace.create_snapshot("monday").unwrap();
    // What comes later is not seen.
    written.insert(&[("k", int(3)), ("v00", b"later".to_vec())], at(1));

    store.publish_successfully(&["counted", "t"], "monday");
    let literals = row
        .iter()
        .map(|(name, value)| written.schema.column(name).unwrap().ty.literal(value));
    let first = literals.collect::<Vec<_>>().join(", ");
    let nulls = ", null".repeat(row.len() - 2);
    assert_eq!(
        store.rows("t", "monday", &written),
        [first, format!("2, 'only'{nulls}")]
    );
    assert_eq!(store.rows("counted", "monday", &counters), ["1, 42"]);
    assert_eq!(
        store.record("monday")["tables"][1]["metadata"],
        "app/t/metadata/v1.metadata.json"
    );
}

#[test]
fn rows_are_those_at_the_snapshot_under_deletions_and_expiry() {
    let store = Store::new();
    let written = store.create("t", &WITH_STATICS);
    let row = |k, c, b: &str| [("k", int(k)), ("c", int(c)), ("b", b.as_bytes().to_vec())];
    for c in 1..=3 {
        written.insert(&row(1, c, "older"), at(1));
        written.insert(&row(2, c, "older"), at(1));
    }
    let mut operand = Vec::new();
    delete_row(&at(2), &mut operand).unwrap();
    written.merge(&written.row_key(&row(1, 2, "")), &operand);
    operand.clear();
    delete_partition(&at(2), &mut operand);
    written.merge(&written.header_key(&row(2, 0, "")), &operand);
    written.insert(&row(2, 2, "newer"), at(3));
    let expiring = WriteTimes {
        ttl_s: Some(100),
        ..at(0)
    };
    written.insert(&row(3, 1, "expires"), expiring);
    written.insert(&[("k", int(4)), ("s", b"alone".to_vec())], at(1));
    store.clock.advance_ms(50_000);
    store.keyspace.create_snapshot("before").unwrap();
    store.clock.advance_ms(100_000);
    store.keyspace.create_snapshot("after").unwrap();

    for snapshot in ["before", "after"] {
        store.publish_successfully(&["t"], snapshot);
    }
    let after = ["1, 1, 'older'", "1, 3, 'older'", "2, 2, 'newer'"];
    assert_eq!(store.rows("t", "after", &written), after);
    // However late it is published, a snapshot has what had not expired when it was created.
    let before = [&after[..], &["3, 1, 'expires'"]].concat();
    assert_eq!(store.rows("t", "before", &written), before);
    assert_eq!(store.rows("t_static", "after", &written), ["4, 'alone'"]);
}

#[test]
fn splits_that_cut_partitions_publish_each_row_once() {
    let large = Large::new();
    assert!(large.start().input.splits().unwrap().len() > 2);
    large.store.publish_successfully(&["t"], "monday");
    large.check();
}

#[test]
fn the_record_of_a_snapshot_has_all_tables_that_were_published_of_it() {
    let store = Store::new();
    let tables = ["t", "u"].map(|table| {
        let written = store.create(table, &NUMBERS);
        written.insert(&[("k", int(1)), ("n", int(1))], at(0));
        written
    });
    store.keyspace.create_snapshot("monday").unwrap();
    store.keyspace.create_snapshot("tuesday").unwrap();
    let record = |tables: &[&str], snapshot: &str| {
        store.publish_successfully(tables, snapshot);
        store.record(snapshot)
    };
    let both = record(&["t", "u"], "monday");
    for place in [0, 1] {
        assert_eq!(both["tables"][place]["rows"]["added"], 1, "{both}");
    }
    // Once more, and one of them once more.
    for tables in [&["t", "u"][..], &["u"]] {
        assert_eq!(record(tables, "monday"), both);
    }
    // One after the other.
    record(&["t"], "tuesday");
    let both = record(&["u"], "tuesday");
    assert_eq!(both["tables"][0]["table"], "app/t", "{both}");
    assert_eq!(both["tables"][1]["table"], "app/u", "{both}");

    // Of another snapshot with the same name, only what is published.
    store.keyspace.delete_snapshot("tuesday").unwrap();
    tables[0].insert(&[("k", int(2)), ("n", int(2))], at(1));
    store.keyspace.create_snapshot("tuesday").unwrap();
    let moved = PublishRequest {
        replace: true,
        ..PublishRequest::default()
    };
    let outcome = store.publish(&["t"], "tuesday", moved);
    assert_eq!(outcome, Outcome::Succeeded);
    let only = record(&["t"], "tuesday");
    assert_eq!(only["tables"].as_array().unwrap().len(), 1, "{only}");
}

#[test]
fn an_added_column_is_new_and_one_that_came_back_shows_nothing_from_before() {
    let store = Store::new();
    let mut written = store.create("t", &[("k", "int", false), ("a", "int", false)]);
    written.insert(&[("k", int(1)), ("a", int(11))], at(1));
    store.keyspace.create_snapshot("first").unwrap();
    let publish = |snapshot| {
        store.publish_successfully(&["t"], snapshot);
    };
    publish("first");

    let dropped = written
        .schema
        .drop_column("a", (NOW_S + 2) * 1_000_000)
        .unwrap();
    let back = dropped.add_column("a", CqlType::Int, false).unwrap();
    written.schema = back.add_column("b", CqlType::Text, false).unwrap();
    written.store_schema();
    written.insert(
        &[("k", int(2)), ("a", int(22)), ("b", b"x".to_vec())],
        at(3),
    );
    store.keyspace.create_snapshot("second").unwrap();
    publish("second");

    assert_eq!(
        store.rows("t", "second", &written),
        ["1, null, null", "2, 22, 'x'"]
    );
    assert_eq!(store.rows("t", "first", &written), ["1, 11"]);
    let columns = store.metadata("t").columns().unwrap();
    let ids: Vec<_> = columns.iter().map(|c| (&c.name[..], c.id)).collect();
    assert_eq!(ids, [("k", 1), ("a", 3), ("b", 4)]);
}

#[test]
fn a_value_that_does_not_fit_fails_the_job_whose_cause_does_not_show_it() {
    let store = Store::new();
    let written = store.create("t", &[("k", "text", false), ("n", "varint", false)]);
    let large = CqlType::Varint.parse_value(&"7".repeat(50)).unwrap();
    written.insert(&[("k", b"it's".to_vec()), ("n", large)], at(1));
    store.keyspace.create_snapshot("monday").unwrap();
    let outcome = store.publish(&["t"], "monday", PublishRequest::default());
    let Outcome::Failed { cause } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(cause.contains("table app.t, column n: "), "{cause}");
    assert!(cause.contains("decimal(38, 0)"), "{cause}");
    let mut records = store.records();
    records.retain(|name| name.ends_with("/refused.txt"));
    let [refused] = &records[..] else {
        panic!("{records:?}");
    };
    assert!(cause.contains(refused), "{cause}");
    let text = store.target().read(refused).unwrap().unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains("row k = 'it''s', column n: 77777"), "{text}");
    for shown in ["it''s", "77777"] {
        assert!(!cause.contains(shown), "{cause}");
    }
    assert_eq!(store.target().list("app/t").unwrap(), [""; 0]);

    let as_text = PublishRequest {
        varint_as_text: true,
        ..PublishRequest::default()
    };
    assert_eq!(store.publish(&["t"], "monday", as_text), Outcome::Succeeded);
    assert_eq!(store.rows("t", "monday", &written).len(), 1);
    assert_eq!(store.records(), ["_ebb/app/monday.json"]);
}

#[test]
fn a_table_that_cql_did_not_make_has_a_key_and_a_value() {
    let store = Store::new();
    let table = store
        .keyspace
        .table("lines", TableOptions::default())
        .unwrap();
    table.put(b"1", b"one").unwrap();
    store.keyspace.create_snapshot("monday").unwrap();
    let as_text = PublishRequest {
        text: true,
        ..PublishRequest::default()
    };
    assert_eq!(
        store.publish(&["lines"], "monday", as_text),
        Outcome::Succeeded
    );
    // The names and types of its columns.
    let written = store.create(
        "of_text",
        &[("key", "text", false), ("value", "text", false)],
    );
    assert_eq!(store.rows("lines", "monday", &written), ["'1', 'one'"]);
}

#[test]
fn tables_whose_names_would_be_one_are_refused() {
    let store = Store::new();
    let columns = [
        ("k", "int", false),
        ("c", "int", false),
        ("s", "text", true),
    ];
    store.create("t", &columns);
    store.create("t_static", &columns[..2]);
    store.keyspace.create_snapshot("monday").unwrap();
    let request = store.request(&["t", "t_static"], "monday", PublishRequest::default());
    let error = store.spec(&request).err().unwrap().to_string();
    assert!(
        error.contains("two would be called app/t_static"),
        "{error}"
    );
    let none = store.request(&["t"], "none", PublishRequest::default());
    assert!(store.spec(&none).is_err());
    assert!(!store.dir.path().join("lake").exists());
}

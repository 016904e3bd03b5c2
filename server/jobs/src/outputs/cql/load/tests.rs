use std::sync::atomic::{AtomicBool, Ordering};

use ebb_model::schema::{IndexTarget, Schema, TableDefinition};
use ebb_model::types::elements;

use super::*;
use crate::outputs::cql::tests::{Fixture, fixture, read, with_collections};

/// The columns of the table `t`: `k, c | s static, l, m, u`.
const ALL: [&str; 6] = ["k", "c", "s", "l", "m", "u"];

fn begin(fixture: &Fixture, columns: &[&str]) -> Result<CqlLoad, JobError> {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let staging = fixture.dir.path().join("staging");
    CqlLoad::begin(
        Arc::clone(&fixture.catalog),
        ("ks", "t"),
        &columns,
        &staging,
    )
}

/// Adds a row whose values are given as literals.
fn push(load: &mut CqlLoad, literals: &[&str]) -> Result<(), TaskError> {
    let values = load.columns().iter().zip(literals);
    let values = values.map(|((_, ty), text)| match *text {
        "null" => None,
        text => Some(ty.parse_literal(text).unwrap()),
    });
    let values: Vec<Option<Vec<u8>>> = values.collect();
    load.push(&values)
}

/// Loads rows whose values are given as literals. Of rows with one primary key the last one is
/// loaded.
fn load(fixture: &Fixture, columns: &[&str], rows: &[&[&str]]) -> LoadedRows {
    let mut load = begin(fixture, columns).unwrap();
    for row in rows {
        push(&mut load, row).unwrap();
    }
    load.commit(Duplicates::Last, &()).unwrap()
}

fn refused<T>(result: Result<T, impl ToString>) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn typed_rows_come_into_an_empty_table_by_one_commit() {
    let fixture = fixture();
    with_collections(&fixture);
    let mut load = begin(&fixture, &ALL).unwrap();
    let set = elements::build([3, 1, 3].map(i32::to_be_bytes));
    let mut values: Vec<_> = [b"a".to_vec(), vec![0, 0, 0, 1], set].map(Some).into();
    values.resize(ALL.len(), None);
    load.push(&values).unwrap();
    push(
        &mut load,
        &["'b'", "2", "null", "['x', 'x']", "{1.0: 7}", "(1, null)"],
    )
    .unwrap();
    assert_eq!(load.rows(), 2);
    assert!(read(&fixture, "t").is_empty());
    let loaded = load.commit(Duplicates::Refuse, &()).unwrap();
    assert_eq!((loaded.rows, loaded.replaced), (2, 0));
    let expected = [
        r#"a,1 | "{1, 3}",,,"#,
        r#"b,2 | "","['x', 'x']",{1.0: 7},"(1, null)""#,
    ];
    assert_eq!(read(&fixture, "t"), expected);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(read(&fixture, "t"), expected);
    let staging = fixture.dir.path().join("staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
}

#[test]
fn loaded_rows_replace_those_that_are_there_and_a_null_deletes() {
    let fixture = fixture();
    with_collections(&fixture);
    let old = ["'a'", "1", "{1}", "['x']", "{1: 1}", "(1, 'x')"];
    let other = ["'a'", "2", "{1}", "['y']", "{2: 2}", "(2, 'y')"];
    load(&fixture, &ALL, &[&old, &other]);
    // Columns that are not loaded stay.
    load(
        &fixture,
        &["c", "k", "m", "l"],
        &[&["1", "'a'", "{3: 3}", "null"]],
    );
    let expected = [
        r#"a,1 | {1},,{3: 3},"(1, 'x')""#,
        r#"a,2 | {1},['y'],{2: 2},"(2, 'y')""#,
    ];
    assert_eq!(read(&fixture, "t"), expected);
    load(
        &fixture,
        &["k", "c", "s", "u"],
        &[&["'a'", "1", "null", "null"]],
    );
    let expected = [
        r#"a,1 | "",,{3: 3},"#,
        r#"a,2 | "",['y'],{2: 2},"(2, 'y')""#,
    ];
    assert_eq!(read(&fixture, "t"), expected);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(read(&fixture, "t"), expected);
}

#[test]
fn rows_of_one_primary_key_are_refused_or_the_last_one_counts() {
    let fixture = fixture();
    with_collections(&fixture);
    let mut twice = begin(&fixture, &["k", "c", "l"]).unwrap();
    for list in ["['x']", "['y']"] {
        push(&mut twice, &["'a'", "1", list]).unwrap();
    }
    let error = refused(twice.commit(Duplicates::Refuse, &()));
    assert!(
        error.contains("primary key ('a', 1) of table ks.t"),
        "{error}"
    );
    assert!(error.contains("--duplicates last"), "{error}");
    assert!(read(&fixture, "t").is_empty());
    let rows: [&[&str]; 2] = [&["'a'", "1", "['x']"], &["'a'", "1", "['y']"]];
    let loaded = load(&fixture, &["k", "c", "l"], &rows);
    assert_eq!((loaded.rows, loaded.replaced), (1, 1));
    assert_eq!(read(&fixture, "t"), [r#"a,1 | "",['y'],,"#]);

    let mut contradicting = begin(&fixture, &["k", "s"]).unwrap();
    for set in ["{1}", "{2}"] {
        push(&mut contradicting, &["'a'", set]).unwrap();
    }
    let error = refused(contradicting.commit(Duplicates::Last, &()));
    assert!(
        error.contains("several values of its static column s"),
        "{error}"
    );
}

#[test]
fn rows_without_a_primary_key_and_columns_that_do_not_fit_are_refused() {
    let fixture = fixture();
    assert!(refused(begin(&fixture, &["k"])).contains("no such table"));
    with_collections(&fixture);
    let error = refused(begin(&fixture, &["k", "c", "x"]));
    assert!(
        error.contains("no column x; it has: k, c, s, l, m, u"),
        "{error}"
    );
    let error = refused(begin(&fixture, &["k", "l"]));
    assert!(error.contains("primary key has column c"), "{error}");
    let error = refused(begin(&fixture, &["k", "c", "k"]));
    assert!(
        error.contains("two columns of the rows are called k"),
        "{error}"
    );
    let mut load = begin(&fixture, &["k", "c"]).unwrap();
    for row in [["null", "1"], ["'a'", "null"]] {
        let error = push(&mut load, &row).unwrap_err();
        assert!(matches!(&error, TaskError::Invalid(_)), "{error}");
        assert!(
            error
                .to_string()
                .contains("of the primary key has no value"),
            "{error}"
        );
    }
}

#[test]
fn tables_with_indexes_or_counters_are_refused() {
    let fixture = fixture();
    with_collections(&fixture);
    let index =
        |schema: &Schema| schema.create_index(("ks", "t"), None, ("m", IndexTarget::Values), false);
    assert!(fixture.catalog.change(index).unwrap().unwrap());
    let error = refused(begin(&fixture, &["k", "c"]));
    assert!(
        error.contains("it has indexes") && error.contains("t_m_idx"),
        "{error}"
    );

    let columns = [("k", CqlType::Int, false), ("n", CqlType::Counter, false)];
    let definition = TableDefinition {
        id: uuid::Uuid::from_u128(2),
        ..TableDefinition::new(("ks", "counts"), &columns, &["k"], &[])
    };
    fixture.change(|schema| schema.create_table(definition).unwrap());
    let columns = ["k".to_owned(), "n".to_owned()];
    let catalog = Arc::clone(&fixture.catalog);
    let error = refused(CqlLoad::begin(
        catalog,
        ("ks", "counts"),
        &columns,
        fixture.dir.path(),
    ));
    assert!(
        error.contains("ks.counts: its values are counters"),
        "{error}"
    );
}

/// A control that cancels its load as soon as the load reports that it writes rows.
#[derive(Default)]
struct Cancelling {
    has_written: AtomicBool,
}

impl LoadControl for Cancelling {
    fn progress(&self, now: LoadProgress) {
        assert_eq!(now.phase, LoadPhase::Write);
        self.has_written.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.has_written.load(Ordering::Relaxed)
    }
}

#[test]
fn a_load_that_is_cancelled_leaves_the_table_as_it_was() {
    let fixture = fixture();
    with_collections(&fixture);
    let mut load = begin(&fixture, &["k", "c"]).unwrap();
    for number in 0..REPORT_EVERY_ROWS {
        push(&mut load, &["'a'", &number.to_string()]).unwrap();
    }
    let error = load.commit(Duplicates::Refuse, &Cancelling::default());
    assert!(matches!(error, Err(TaskError::Cancelled)));
    assert!(read(&fixture, "t").is_empty());
    let staging = fixture.dir.path().join("staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
}

#[test]
fn a_table_that_is_changed_meanwhile_gets_no_rows() {
    let fixture = fixture();
    with_collections(&fixture);
    let mut load = begin(&fixture, &["k", "c"]).unwrap();
    push(&mut load, &["'a'", "1"]).unwrap();
    fixture.change(|schema| schema.drop_table("ks", "t").unwrap());
    let error = refused(load.commit(Duplicates::Refuse, &()));
    assert!(
        error.contains("was changed while rows were loaded"),
        "{error}"
    );
}

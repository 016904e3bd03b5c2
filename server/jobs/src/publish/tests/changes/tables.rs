//! Publications of changes of tables whose static columns come and go, of tables with the names of
//! others, and of tables that CQL did not make.

use super::*;

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

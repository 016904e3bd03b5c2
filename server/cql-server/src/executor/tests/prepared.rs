//! Prepared statements: their metadata, and the changes of the schema that make them outdated.

use ebb_cql::protocol::{ErrorKind, Value, Version, prepared_id};
use memchr::memmem;

use super::*;
use crate::call::{Call, Lane};
use crate::testing::never;

#[test]
fn a_statement_is_analysed_again_after_an_alter() {
    let mut server = squares();
    let prepared = server
        .prepare("SELECT * FROM t WHERE a = 1 AND b = 1 AND c = 1")
        .unwrap();
    server.run("ALTER TABLE t ADD w text");
    let parameters = QueryParameters {
        skip_metadata: true,
        ..Default::default()
    };
    let answer = server.execute(&prepared, parameters).unwrap();
    let Response::Rows(rows) = answer else {
        panic!("a SELECT gives rows");
    };
    // The client has outdated columns, so they are sent in spite of its flag to skip them.
    assert_eq!(rows.column_count(), 6);
    assert_eq!(rows.columns.unwrap().len(), 6);
    // A client of version 5, which compares the metadata id, has to prepare the statement again.
    let of_version_5 = QueryParameters {
        result_metadata_id: Some(b"whichever"),
        ..parameters
    };
    assert!(server.is_outdated(&prepared, of_version_5));
    let anew = server.prepare("SELECT * FROM t WHERE a = 1 AND b = 1 AND c = 1");
    assert!(!server.is_outdated(&anew.unwrap(), of_version_5));
    server.run("DROP TABLE t");
    let error = server.execute(&prepared, parameters).unwrap_err();
    assert_eq!(error.message, "table t does not exist");
}

/// A statement is outdated once a change of the schema gives its bind markers other types, or drops
/// its table. Regression: values that a client had encoded for a column of integers were written to
/// the column of floats that replaced it.
#[test]
fn a_statement_is_current_while_its_markers_are_those_of_prepare() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    let texts = [
        "SELECT v FROM t WHERE k = ?",
        "INSERT INTO t (k, v) VALUES (?, ?)",
        "SELECT k FROM t WHERE v = ? ALLOW FILTERING",
        "BEGIN BATCH UPDATE t SET v = ? WHERE k = 1; APPLY BATCH",
        "TRUNCATE t",
    ];
    let prepared = texts.map(|text| server.prepare(text).unwrap());
    let current = |server: &Server| -> Vec<bool> {
        let each = prepared.iter();
        each.map(|one| server.executor.is_current(one)).collect()
    };
    let of_rows = [false, false, false, false, true];
    for (change, expected) in [
        ("ALTER TABLE t ADD w int", [true; 5]),
        ("DROP TABLE t", of_rows),
        (
            "CREATE TABLE t (k int PRIMARY KEY, v int, w text)",
            [true; 5],
        ),
        ("DROP TABLE t", of_rows),
        (
            "CREATE TABLE t (k int PRIMARY KEY, v float)",
            [true, false, false, false, true],
        ),
    ] {
        server.run(change);
        assert_eq!(current(&server), expected, "{change}");
    }
    // Requests that came before the statements were dropped are refused as well.
    for (text, outdated) in texts.iter().zip(&prepared).take(4).skip(1) {
        let ended = server.execute(outdated, QueryParameters::default());
        let id = prepared_id(server.keyspace.as_deref(), text).to_vec();
        let error = ended.err().unwrap_or_else(|| panic!("{text} is executed"));
        assert_eq!(error.kind, ErrorKind::Unprepared { id }, "{text}");
    }
    let anew = texts.map(|text| server.prepare(text).unwrap());
    assert!(anew.iter().all(|one| server.executor.is_current(one)));
}

/// Regression: each change of the schema opened the snapshot of every prepared SELECT.
#[test]
fn a_select_at_a_snapshot_is_checked_when_it_is_executed_and_not_at_changes_of_the_schema() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        "CREATE SNAPSHOT s ON KEYSPACE ks",
    ]);
    let texts = [
        "SELECT k FROM t USING SNAPSHOT s WHERE v = ? ALLOW FILTERING",
        "SELECT k FROM \"ks@s\".t WHERE v = ? ALLOW FILTERING",
        "SELECT k FROM ks__at__s.t WHERE v = ? ALLOW FILTERING",
    ];
    let prepared = texts.map(|text| server.prepare(text).unwrap());
    let seven = 7_i32.to_be_bytes();
    let bound = [Value::Bytes(&seven)];
    for change in [
        "DROP TABLE t",
        "DROP SNAPSHOT s ON KEYSPACE ks",
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
    ] {
        server.run(change);
        assert!(prepared.iter().all(|one| server.executor.is_current(one)));
        for one in &prepared {
            let ended = server.bind(one, &bound);
            assert_eq!(
                ended.is_ok(),
                change == "DROP TABLE t",
                "{change}: {ended:?}"
            );
        }
    }
    server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
    for (text, one) in texts.iter().zip(&prepared) {
        assert!(server.executor.is_current(one), "{text}");
        let error = server.bind(one, &bound).unwrap_err();
        let is_unprepared = matches!(error.kind, ErrorKind::Unprepared { .. });
        assert!(is_unprepared, "{text}: {error:?}");
    }
}

#[test]
fn markers_have_names_types_and_places() {
    let server = squares();
    let text = "SELECT v FROM t WHERE a = ? AND b = :b AND c IN ? LIMIT ?";
    let prepared = server.prepare(text).unwrap();
    let (markers, key) = prepared.markers();
    let names: Vec<&str> = markers.iter().map(|marker| marker.name).collect();
    assert_eq!(names, ["a", "b", "in(c)", "[limit]"]);
    assert_eq!(key, [0]);
    assert_eq!(prepared.kind().lane, Lane::Scan);
    let point = server
        .prepare("SELECT v FROM ks.t WHERE a = ? AND b = ? AND c = ?")
        .unwrap();
    assert_eq!(point.kind().lane, Lane::Inline);
    let range = server
        .prepare("SELECT v FROM t WHERE token(a) > ?")
        .unwrap();
    assert_eq!(range.kind().lane, Lane::Range);
    assert!(!point.needs_keyspace() && prepared.needs_keyspace());
}

#[test]
fn result_columns_have_cassandras_names() {
    let mut server = squares();
    let select = "SELECT a, v AS x, count(*), max(v), writetime(v), CAST(v AS blob) FROM t";
    assert_eq!(server.refused(select), "v cannot be cast to blob");
    let select = "SELECT a, v AS x, count(*), max(v), writetime(v), CAST(v AS bigint), \
                  CAST(v AS int), (int) null FROM t";
    let page = server.page(select, &[], None, None).unwrap();
    let expected = [
        "a",
        "x",
        "count",
        "system.max(v)",
        "writetime(v)",
        "cast(v as bigint)",
        // A cast to the value's own type is left out of the name.
        "v",
        // Regression: it was "(int)null".
        "(int)NULL",
    ];
    assert_eq!(page.columns, expected);
}

#[test]
fn durations_have_the_type_name_of_the_protocol_version() {
    let mut server = Server::with(&["CREATE TABLE a (k int PRIMARY KEY, d duration)"]);
    server.run("INSERT INTO a (k, d) VALUES (1, 1h)");
    let body = |text: &str, version| {
        let call = Call {
            keyspace: Some("ks"),
            version,
            parameters: QueryParameters::default(),
            interrupt: &never(),
            user: &server.user,
            changes: &SchemaChanges::default(),
            memory: None,
        };
        let mut out = BytesMut::new();
        let prepared = server.prepare(text).unwrap();
        server.executor.execute(&prepared, &call, &mut out).unwrap();
        out
    };
    // In result columns, and in the row that a failed condition returns.
    for text in [
        "SELECT d FROM a",
        "UPDATE a SET d = 2h WHERE k = 1 IF d = 3h",
    ] {
        let (old, new) = (body(text, Version::V4), body(text, Version::V5));
        assert!(memmem::find(&old, b"\x00\x01d\x00\x00\x00\x2corg.apache").is_some());
        assert!(memmem::find(&new, b"\x00\x01d\x00\x15").is_some());
        assert!(memmem::find(&new, b"DurationType").is_none());
    }
}

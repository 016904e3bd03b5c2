//! Writes through the executor, and the results of SELECT.

use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{BatchKind, QueryParameters, Value, ValuesBuf, Version};
use ebb_model::types::elements;

use crate::call::{Call, Lane, SchemaChanges, Service, Statement};
use crate::executor::harness::Server;
use crate::testing::{BEGIN_MS, never};

const T: &str = "CREATE TABLE t (k int, c int, s int STATIC, v text, PRIMARY KEY (k, c))";

#[test]
fn select_returns_what_was_written() {
    let mut server = Server::with(&[T]);
    server.run("INSERT INTO t (k, c, s, v) VALUES (1, 1, 9, 'a') USING TTL 60");
    server.run("UPDATE ks.t SET v = 'b' WHERE k = 1 AND c = 2");
    assert_eq!(
        server.rows("SELECT * FROM t WHERE k = 1"),
        "1 1 9 a | 1 2 9 b"
    );
    server.run("DELETE FROM t WHERE k = 1 AND c > 1");
    assert_eq!(server.rows("SELECT v, ttl(v) FROM t"), "a 60");
    server.clock.advance_ms(60_000);
    assert_eq!(server.rows("SELECT * FROM t"), "");
    server.run("BEGIN BATCH INSERT INTO t (k, c) VALUES (2, 1); UPDATE t SET s = 1 WHERE k = 2; APPLY BATCH");
    assert_eq!(server.rows("SELECT * FROM t"), "2 1 1 null");
}

#[test]
fn a_ttl_counts_from_the_time_of_readers_where_the_clock_was_set_back() {
    let mut server = Server::with(&[T]);
    server.clock.advance_ms(1_000_000);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 'a') USING TTL 60");
    assert_eq!(server.rows("SELECT v, ttl(v) FROM t"), "a 60");
    server.clock.set_ms(BEGIN_MS);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 2, 'b') USING TTL 60");
    server.run("INSERT INTO t (k, c, v) VALUES (1, 3, 'c') IF NOT EXISTS USING TTL 60");
    let text = "SELECT v, ttl(v) FROM t";
    assert_eq!(server.rows(text), "a 60 | b 60 | c 60");
    server.clock.set_ms(BEGIN_MS + 1_060_000);
    assert_eq!(server.rows(text), "");
    // Conditions see what readers see.
    server.clock.set_ms(BEGIN_MS);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 3, 'd') IF NOT EXISTS");
    assert_eq!(server.rows(text), "d null");
}

#[test]
fn a_prepared_write_follows_its_table() {
    let mut server = Server::with(&[T]);
    let text = "INSERT INTO t (k, c, v) VALUES (?, 1, ?)";
    let prepared = server.prepare(text).unwrap();
    assert_eq!(prepared.kind().lane, Lane::Write);
    assert!(prepared.needs_keyspace());
    assert_eq!(prepared.markers().1, [0]);
    let values = ValuesBuf::from_iter([Value::Bytes(&[0, 0, 0, 5]), Value::Bytes(b"x")]);
    let parameters = QueryParameters {
        values: values.as_values(),
        timestamp_us: Some(77),
        ..QueryParameters::default()
    };
    server.execute(&prepared, parameters).unwrap();
    server.run("ALTER TABLE t ADD w int");
    server.run("UPDATE t SET w = 3 WHERE k = 5 AND c = 1");
    server.execute(&prepared, parameters).unwrap();
    assert_eq!(
        server.rows("SELECT v, w, writetime(v) FROM t WHERE k = 5"),
        "x 3 77"
    );
    server.run("ALTER TABLE t DROP v");
    let error = server.execute(&prepared, parameters).unwrap_err();
    assert_eq!(error.message, "Undefined column name v in table ks.t");
}

/// A DROP of a column hides values by their timestamps, not by the order of the statements.
#[test]
fn a_column_that_was_dropped_and_added_again_has_only_newer_values() {
    let mut server = Server::with(&[T]);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 'a') USING TIMESTAMP 10");
    server.run("INSERT INTO t (k, c, v) VALUES (1, 2, 'b') USING TIMESTAMP 11");
    server.run("UPDATE t USING TIMESTAMP 10 SET v = 'c' WHERE k = 1 AND c = 3");
    server.run("ALTER TABLE t DROP v USING TIMESTAMP 10");
    // Without a marker, the third row exists only while a column of the table has a value.
    assert_eq!(server.rows("SELECT * FROM t"), "1 1 null | 1 2 null");
    server.run("ALTER TABLE t ADD v text");
    assert_eq!(server.rows("SELECT c, v FROM t"), "1 null | 2 b");
    assert_eq!(server.rows("SELECT v FROM t WHERE k = 1 AND c = 1"), "null");
    assert_eq!(server.rows("SELECT v FROM t WHERE k = 1 AND c = 3"), "");
    // A drop without USING TIMESTAMP has the timestamp of the statement, which is above 12.
    server.run("ALTER TABLE t DROP v");
    server.run("ALTER TABLE t ADD v text");
    server.run("UPDATE t USING TIMESTAMP 12 SET v = 'd' WHERE k = 1 AND c = 1");
    server.run("UPDATE t SET v = 'e' WHERE k = 1 AND c = 3");
    assert_eq!(server.rows("SELECT c, v FROM t"), "1 null | 2 null | 3 e");
}

#[test]
fn a_batch_of_prepared_statements_is_one_write() {
    let mut server = Server::with(&[T]);
    let values = ValuesBuf::from_iter([Value::Bytes(&[0, 0, 0, 7])]);
    let none = ValuesBuf::new();
    let batch = |server: &Server, texts: &[&str]| {
        let interrupt = never();
        let call = Call {
            keyspace: Some("ks"),
            version: Version::default(),
            parameters: QueryParameters::default(),
            interrupt: &interrupt,
            user: &crate::access::User::anyone(),
            changes: &SchemaChanges::default(),
            memory: None,
        };
        let statement = |text: &&str| {
            let values = if text.contains('?') { &values } else { &none };
            (Arc::new(server.prepare(text).unwrap()), values.as_values())
        };
        let statements: Vec<_> = texts.iter().map(statement).collect();
        let kind = BatchKind::Unlogged;
        (server.executor).batch(kind, &statements, &call, &mut BytesMut::new())
    };
    let insert = "INSERT INTO t (k, c, v) VALUES (?, 1, 'p')";
    let error = batch(&server, &[insert, "SELECT * FROM t"]).unwrap_err();
    assert_eq!(error.message, super::super::NOT_A_WRITE);
    assert_eq!(server.rows("SELECT count(*) FROM t"), "0");
    batch(&server, &[insert, "UPDATE t SET s = 1 WHERE k = 7"]).unwrap();
    assert_eq!(server.rows("SELECT * FROM t"), "7 1 1 p");
}

#[test]
fn writes_to_the_system_and_to_snapshots_are_rejected() {
    let mut server = Server::with(&[T]);
    let steps = "
        INSERT INTO t (k, c, v) VALUES (1, 1, 'then') => done
        CREATE SNAPSHOT s ON KEYSPACE ks => done
        INSERT INTO t (k, c, v) VALUES (1, 1, 'now') => done
        SELECT v FROM t => now
        SELECT v FROM t USING SNAPSHOT s => then
        UPDATE \"ks@s\".t SET v = 'x' WHERE k = 1 AND c = 1
        => Cannot write to ks@s.t: a snapshot never changes; write to the keyspace itself
        DELETE FROM system.local WHERE key = 'local'
        => Modification is not supported by table system.local
        INSERT INTO nothing (k) VALUES (1) => table nothing does not exist
    ";
    server.check(steps);
}

/// Regression: rows with longer keys were acknowledged and lost, because the store has no keys of
/// that length.
#[test]
fn the_longest_keys_are_stored_and_longer_ones_are_rejected() {
    let mut server =
        Server::with(&["CREATE TABLE l (k text, c text, d blob, PRIMARY KEY (k, c, d))"]);
    let long = "k".repeat(65_535);
    let text = "c".repeat(65_533);
    server.run(&format!(
        "INSERT INTO l (k, c, d) VALUES ('{long}', '{text}', 0x0000)"
    ));
    server.run(&format!(
        "INSERT INTO l (k, c, d) VALUES ('k', '', 0x{})",
        "00".repeat(65_535)
    ));
    assert_eq!(server.rows("SELECT count(*) FROM l"), "2");
    let select = format!("SELECT d FROM l WHERE k = '{long}' AND c = '{text}'");
    assert_eq!(server.rows(&select), "0x0000");
    assert_eq!(
        server.refused(&format!(
            "INSERT INTO l (k, c, d) VALUES ('{long}k', 'c', 0x)"
        )),
        "Key length of 65536 is longer than maximum of 65535"
    );
    assert_eq!(
        server.refused(&format!(
            "INSERT INTO l (k, c, d) VALUES ('k', '{long}', 0x00)"
        )),
        "The sum of all clustering columns is too long (65536 > 65535)"
    );
}

/// Regression: an update of a set with an index collected an entry with the row's key for each
/// element, without a limit.
#[test]
fn index_entries_count_towards_the_limit_of_a_write() {
    let mut server = Server::with(&[
        "CREATE TABLE i (k text PRIMARY KEY, s set<int>)",
        "CREATE INDEX ON i (s)",
    ]);
    let key = "k".repeat(60_000);
    let update = |elements: i32| {
        let elements: Vec<String> = (0..elements).map(|element| element.to_string()).collect();
        let elements = elements.join(", ");
        format!("UPDATE i SET s = s + {{{elements}}} WHERE k = '{key}'")
    };
    server.run(&update(100));
    let refused = server.refused(&update(2000));
    assert!(
        refused.starts_with("The write takes more than "),
        "{refused}"
    );
}

/// Drivers may send a set in any order, even a set within a map, a list or a tuple.
#[test]
fn sets_within_bound_values_are_sorted() {
    let mut server = Server::with(&[
        "CREATE TABLE n (k frozen<map<frozen<set<int>>, int>> PRIMARY KEY, \
         l frozen<list<frozen<set<int>>>>, p tuple<int, frozen<set<int>>>)",
    ]);
    let int = |n: i32| n.to_be_bytes().to_vec();
    let parts = |parts: &[Vec<u8>]| elements::build(parts.iter().map(Vec::as_slice));
    let (ordered, other) = (parts(&[int(1), int(2)]), parts(&[int(2), int(1)]));
    let map = |set: &[u8]| elements::build_map([(set, &int(7)[..])]);
    let tuple = |set: &[u8]| elements::build_tuple([Some(&int(7)[..]), Some(set)]);
    let prepared = server
        .prepare("INSERT INTO n (k, l, p) VALUES (?, ?, ?)")
        .unwrap();
    let (key, list, pair) = (
        map(&other),
        parts(std::slice::from_ref(&other)),
        tuple(&other),
    );
    let values = [&key[..], &list, &pair].map(Value::Bytes);
    server.bind(&prepared, &values).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    for key in [&key, &map(&ordered)] {
        let page = server.page("SELECT l, p FROM n WHERE k = ?", &[Some(key)], None, None);
        let expected = vec![vec![
            hex(&parts(std::slice::from_ref(&ordered))),
            hex(&tuple(&ordered)),
        ]];
        assert_eq!(page.unwrap().rows, expected);
    }
}

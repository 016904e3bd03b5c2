//! Rows: timestamps, deletions, TTLs, nulls, static columns, keys.

use ebb_cql::protocol::Value;

use super::harness::session;

const T: &str = "CREATE TABLE t (k int, c int, s text STATIC, v text, w int, PRIMARY KEY (k, c))";

#[test]
fn the_greatest_timestamp_wins_in_any_order() {
    let session = session(&[T]);
    session.write("INSERT INTO t (k, c, v) VALUES (1, 1, 'new') USING TIMESTAMP 20");
    session.write("INSERT INTO t (k, c, v, w) VALUES (1, 1, 'old', 7) USING TIMESTAMP 10");
    assert_eq!(session.show("t"), ["k 1, c 1, v 'new', w 7"]);
    session.write("DELETE FROM t USING TIMESTAMP 15 WHERE k = 1 AND c = 1");
    assert_eq!(session.show("t"), ["k 1, c 1, v 'new'"]);
    // The timestamp of the request is for statements without their own.
    session.write_at(30, "UPDATE t SET w = 8 WHERE k = 1 AND c = 1");
    session.write_at(
        99,
        "UPDATE t USING TIMESTAMP 29 SET w = 9 WHERE k = 1 AND c = 1",
    );
    assert_eq!(session.show("t"), ["k 1, c 1, v 'new', w 8"]);
}

#[test]
fn of_equal_timestamps_a_deletion_wins_and_then_the_greater_value() {
    let session = session(&[T]);
    for value in ["'b'", "'c'", "'a'"] {
        session.write_at(
            10,
            &format!("UPDATE t SET v = {value} WHERE k = 1 AND c = 1"),
        );
    }
    assert_eq!(session.show("t"), ["k 1, c 1, v 'c'"]);
    session.write_at(10, "DELETE v FROM t WHERE k = 1 AND c = 1");
    session.write_at(10, "UPDATE t SET v = 'z' WHERE k = 1 AND c = 1");
    assert!(session.show("t").is_empty());
}

#[test]
fn the_servers_own_timestamps_let_the_later_statement_win() {
    let session = session(&[T]);
    for value in ["'z'", "'y'", "'x'"] {
        session.write(&format!("INSERT INTO t (k, c, v) VALUES (1, 1, {value})"));
    }
    assert_eq!(session.show("t"), ["k 1, c 1, v 'x'"]);
}

#[test]
fn ranges_and_partitions_are_deleted_up_to_a_timestamp() {
    let session = session(&[T]);
    for c in 0..6 {
        let at = if c % 2 == 0 { 10 } else { 30 };
        session.write_at(at, &format!("INSERT INTO t (k, c, w) VALUES (1, {c}, {c})"));
    }
    session.write_at(20, "DELETE FROM t WHERE k = 1 AND c >= 1 AND c < 5");
    let left = [
        "k 1, c 0, w 0",
        "k 1, c 1, w 1",
        "k 1, c 3, w 3",
        "k 1, c 5, w 5",
    ];
    assert_eq!(session.show("t"), left);
    // A late write below the deletion stays hidden, one above it is visible.
    session.write_at(19, "INSERT INTO t (k, c) VALUES (1, 2)");
    session.write_at(21, "INSERT INTO t (k, c) VALUES (1, 4)");
    assert_eq!(session.show("t").len(), 5);
    session.write_at(21, "DELETE FROM t WHERE k = 1");
    assert_eq!(
        session.show("t"),
        ["k 1, c 1, w 1", "k 1, c 3, w 3", "k 1, c 5, w 5"]
    );
    session.write_at(31, "DELETE FROM t WHERE k = 1 AND c IN (1, 5)");
    assert_eq!(session.show("t"), ["k 1, c 3, w 3"]);
}

#[test]
fn values_live_for_their_ttl() {
    let session = session(&[
        T,
        "CREATE TABLE d (k int PRIMARY KEY, v text) WITH default_time_to_live = 100",
    ]);
    session.write("INSERT INTO t (k, c, v) VALUES (1, 1, 'a') USING TTL 10");
    session.write("UPDATE t USING TTL 20 SET w = 1 WHERE k = 1 AND c = 1");
    session.write("INSERT INTO d (k, v) VALUES (1, 'default')");
    session.write("INSERT INTO d (k, v) VALUES (2, 'stays') USING TTL 0");
    session.write("UPDATE d USING TTL 200 SET v = 'long' WHERE k = 3");
    assert_eq!(session.show("t"), ["k 1, c 1, v 'a', w 1"]);
    session.clock.advance_ms(9_999);
    assert_eq!(session.show("t"), ["k 1, c 1, v 'a', w 1"]);
    session.clock.advance_ms(1);
    assert_eq!(session.show("t"), ["k 1, c 1, w 1"]);
    // Without a marker the row is gone with its last value.
    session.clock.advance_ms(10_000);
    assert!(session.show("t").is_empty());
    assert_eq!(session.show("d").len(), 3);
    session.clock.advance_ms(80_000);
    let mut left = session.show("d");
    left.sort();
    assert_eq!(left, ["k 2, v 'stays'", "k 3, v 'long'"]);
}

#[test]
fn null_deletes_and_unset_leaves_alone() {
    let session = session(&[T]);
    session.write("INSERT INTO t (k, c, v, w) VALUES (1, 1, 'a', 1)");
    let insert = "INSERT INTO t (k, c, v, w) VALUES (?, ?, ?, ?)";
    let one = Value::Bytes(&[0, 0, 0, 1]);
    session.bind(insert, &[one, one, Value::Unset, Value::Null]);
    assert_eq!(session.show("t"), ["k 1, c 1, v 'a'"]);
    let update = "UPDATE t USING TIMESTAMP ? AND TTL ? SET v = ? WHERE k = ? AND c = ?";
    let values = [Value::Unset, Value::Unset, Value::Bytes(b"b"), one, one];
    session.bind(update, &values);
    assert_eq!(session.show("t"), ["k 1, c 1, v 'b'"]);
    session.clock.advance_ms(1_000_000_000);
    assert_eq!(session.show("t"), ["k 1, c 1, v 'b'"]);
    session.write("UPDATE t SET v = null WHERE k = 1 AND c = 1");
    // The row exists because of INSERT's marker.
    assert_eq!(session.show("t"), ["k 1, c 1"]);
    let message = session.refusal_of(insert, &[one, Value::Null, one, one]);
    assert_eq!(message, "Invalid null value in condition for column c");
    let message = session.refusal_of(insert, &[Value::Unset, one, one, one]);
    assert_eq!(message, "Invalid unset value for column k");
}

#[test]
fn static_columns_belong_to_the_partition() {
    let session = session(&[T]);
    session.write("INSERT INTO t (k, s) VALUES (1, 'one')");
    session.write("INSERT INTO t (k, c, s, v) VALUES (1, 5, 'two', 'v')");
    assert_eq!(session.show("t"), ["k 1, s 'two'", "k 1, c 5, v 'v'"]);
    session.write("UPDATE t SET s = 'three' WHERE k = 1");
    // A statement on a row may set both kinds of columns.
    session.write("UPDATE t SET s = 'four', v = 'u' WHERE k = 1 AND c = 5");
    assert_eq!(session.show("t"), ["k 1, s 'four'", "k 1, c 5, v 'u'"]);
    session.write("DELETE s FROM t WHERE k = 1");
    assert_eq!(session.show("t"), ["k 1, c 5, v 'u'"]);
    session.write_at(1, "UPDATE t SET s = 'late' WHERE k = 1");
    assert_eq!(session.show("t"), ["k 1, c 5, v 'u'"]);
}

#[test]
fn in_writes_every_combination_once() {
    let session = session(&[
        T,
        "CREATE TABLE p (a int, b int, v int, PRIMARY KEY ((a, b)))",
    ]);
    session.write("UPDATE t SET w = 1 WHERE k IN (1, 2, 1) AND c IN (3, 4)");
    let mut all = session.show("t");
    all.sort();
    assert_eq!(
        all,
        [
            "k 1, c 3, w 1",
            "k 1, c 4, w 1",
            "k 2, c 3, w 1",
            "k 2, c 4, w 1"
        ]
    );
    session.write("UPDATE t SET w = 2 WHERE k IN () AND c IN (3, 4)");
    session.write("DELETE FROM t WHERE k IN (1, 2) AND c > 3");
    let mut all = session.show("t");
    all.sort();
    assert_eq!(all, ["k 1, c 3, w 1", "k 2, c 3, w 1"]);
    session.write("UPDATE p SET v = 1 WHERE a IN (1, 2) AND b = 7");
    session.write("DELETE FROM p WHERE a = 1 AND b IN (6, 7)");
    assert_eq!(session.show("p"), ["a 2, b 7, v 1"]);
    // A list as one bound value.
    let list = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1];
    session.bind("DELETE FROM t WHERE k IN ?", &[Value::Bytes(&list)]);
    assert_eq!(session.show("t"), ["k 2, c 3, w 1"]);
}

/// Regression: an UPDATE whose IN names no row wrote its static columns. Cassandra writes nothing.
#[test]
fn an_empty_in_on_clustering_columns_writes_nothing() {
    let session = session(&[T]);
    session.write("UPDATE t SET s = 'x', w = 1 WHERE k = 1 AND c IN ()");
    let update = "UPDATE t SET s = 'x', w = 1 WHERE k = 1 AND c IN ?";
    session.bind(update, &[Value::Bytes(&[0, 0, 0, 0])]);
    assert!(session.show("t").is_empty());
}

#[test]
fn slices_follow_values_in_any_clustering_order() {
    let session = session(&[
        "CREATE TABLE m (k int, a int, b int, PRIMARY KEY (k, a, b)) \
         WITH CLUSTERING ORDER BY (a DESC, b ASC)",
    ]);
    let fill = || {
        for a in 1..4 {
            for b in 1..4 {
                session.write(&format!("INSERT INTO m (k, a, b) VALUES (1, {a}, {b})"));
            }
        }
    };
    let rest = |delete: &str| {
        fill();
        session.write(delete);
        let mut rows = session.show("m");
        rows.sort();
        let short = rows
            .iter()
            .map(|row| row.replace("k 1, a ", "").replace(", b ", "."));
        short.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        rest("DELETE FROM m WHERE k = 1 AND a = 2"),
        "1.1 1.2 1.3 3.1 3.2 3.3"
    );
    assert_eq!(
        rest("DELETE FROM m WHERE k = 1 AND a = 2 AND b > 1"),
        "1.1 1.2 1.3 2.1 3.1 3.2 3.3"
    );
    assert_eq!(
        rest("DELETE FROM m WHERE k = 1 AND (a, b) > (1, 2) AND (a) < (3)"),
        "1.1 1.2 3.1 3.2 3.3"
    );
    assert_eq!(
        rest("DELETE FROM m WHERE k = 1 AND (a, b) IN ((1, 1), (3, 3))"),
        "1.2 1.3 2.1 2.2 2.3 3.1 3.2"
    );
    assert_eq!(rest("DELETE FROM m WHERE k = 1 AND a <= 2"), "3.1 3.2 3.3");
}

#[test]
fn too_long_or_empty_keys_are_rejected_and_long_values_are_not() {
    let session = session(&["CREATE TABLE b (k blob, c blob, v blob, PRIMARY KEY (k, c))"]);
    let insert = "INSERT INTO b (k, c, v) VALUES (?, ?, ?)";
    let (long, one) = (vec![7; 65_536], Value::Bytes(&[1]));
    let long = Value::Bytes(&long);
    assert_eq!(
        session.refusal_of(insert, &[long, one, one]),
        "Key length of 65536 is longer than maximum of 65535"
    );
    assert_eq!(
        session.refusal_of(insert, &[one, long, one]),
        "The sum of all clustering columns is too long (65536 > 65535)"
    );
    assert_eq!(
        session.refusal_of(insert, &[Value::Bytes(&[]), one, one]),
        "Key may not be empty"
    );
    assert!(session.show("b").is_empty());
    session.bind(insert, &[one, Value::Bytes(&[]), long]);
    assert_eq!(session.show("b").len(), 1);
}

#[test]
fn a_clustering_keeps_the_bytes_that_its_key_does_not_determine() {
    let session = session(&["CREATE TABLE n (k int, d decimal, v int, PRIMARY KEY (k, d))"]);
    session.write("INSERT INTO n (k, d, v) VALUES (1, 1.00, 1)");
    assert_eq!(session.show("n"), ["k 1, d 1.00, v 1"]);
    session.write("INSERT INTO n (k, d, v) VALUES (1, 1.0, 2)");
    assert_eq!(session.show("n"), ["k 1, d 1.0, v 2"]);
}

#[test]
fn rows_without_clustering_columns_can_be_written_again_after_a_deletion() {
    let session = session(&["CREATE TABLE f (k int PRIMARY KEY, v int)"]);
    session.write("INSERT INTO f (k) VALUES (1)");
    assert_eq!(session.show("f"), ["k 1"]);
    session.write("DELETE FROM f WHERE k = 1");
    assert!(session.show("f").is_empty());
    session.write("UPDATE f SET v = 2 WHERE k = 1");
    assert_eq!(session.show("f"), ["k 1, v 2"]);
    session.write("DELETE v FROM f WHERE k = 1");
    assert!(session.show("f").is_empty());
}

#[test]
fn the_places_of_partition_key_markers_are_found() {
    let session = session(&["CREATE TABLE p (a int, b int, v int, PRIMARY KEY ((a, b)))"]);
    let of = |text: &str| session.understand(text).unwrap().partition_key().to_vec();
    assert_eq!(of("INSERT INTO p (v, b, a) VALUES (?, ?, ?)"), [2, 1]);
    assert_eq!(
        of("UPDATE p USING TTL ? SET v = ? WHERE a = ? AND b = ?"),
        [2, 3]
    );
    assert_eq!(of("DELETE FROM p WHERE b = ? AND a = ?"), [1, 0]);
    assert!(of("DELETE FROM p WHERE a = 1 AND b = ?").is_empty());
    assert!(of("DELETE FROM p WHERE a IN ? AND b = ?").is_empty());
    let update = session.understand("UPDATE p USING TTL ? SET v = ? WHERE a = ? AND b = ?");
    let update = update.unwrap();
    let names: Vec<&str> = update.markers().iter().map(|marker| marker.name).collect();
    assert_eq!(names, ["[ttl]", "v", "a", "b"]);
}

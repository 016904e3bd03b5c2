//! Volatile functions: each call in the text of a statement has a single value for each row that
//! an execution writes.

use ebb_cql::protocol::QueryParameters;

use super::conditional::{YES, answer, check};
use super::harness::session;
use crate::executor::harness::Server;

/// Regression: `INSERT ... (uuid(), 1) IF NOT EXISTS` was rejected with "Batch with conditions
/// cannot span multiple partitions", because each use of the key had a new value.
#[test]
fn a_key_of_a_conditional_write_may_be_a_new_uuid() {
    let mut server = Server::with(&[
        "CREATE TABLE u (id uuid PRIMARY KEY, n int)",
        "CREATE TABLE w (id timeuuid PRIMARY KEY, n int)",
        "CREATE TABLE p (at timestamp, id uuid, c timeuuid, v uuid, l list<uuid>, \
         PRIMARY KEY ((at, id), c))",
    ]);
    let steps = "
        INSERT INTO u (id, n) VALUES (uuid(), 1) IF NOT EXISTS => [applied]: true
        INSERT INTO w (id, n) VALUES (now(), 1) IF NOT EXISTS => [applied]: true
        UPDATE u SET n = 2 WHERE id = uuid() IF EXISTS => [applied]: false
        UPDATE u SET n = 2 WHERE id = uuid() IF n = 1 => [applied]: false
        UPDATE u SET n = 2 WHERE id = uuid() IF n = null => [applied]: true
        DELETE FROM u WHERE id = uuid() IF EXISTS => [applied]: false
        INSERT INTO p (at, id, c, v, l) VALUES (currentTimestamp(), uuid(), now(), uuid(), \
           [uuid(), uuid()]) IF NOT EXISTS
        => [applied]: true
        UPDATE p SET v = uuid() WHERE at = currentTimestamp() AND id = uuid() AND c = now() \
           IF v != uuid()
        => [applied]: true
        BEGIN BATCH INSERT INTO u (id, n) VALUES (uuid(), 4) IF NOT EXISTS; APPLY BATCH
        => [applied]: true
        SELECT count(*), sum(n) FROM u => 3 7
        SELECT count(*) FROM w => 1
        SELECT count(*), count(v) FROM p => 2 2
    ";
    check(&mut server, steps);
}

#[test]
fn each_place_of_a_batch_has_its_own_value() {
    let mut server = Server::with(&[
        "CREATE TABLE c (k int, id timeuuid, v uuid, PRIMARY KEY (k, id))",
        "CREATE TABLE u (id uuid PRIMARY KEY, n int)",
    ]);
    let two = "BEGIN BATCH \
               INSERT INTO c (k, id, v) VALUES (1, now(), uuid()) IF NOT EXISTS; \
               INSERT INTO c (k, id, v) VALUES (1, now(), uuid()) IF NOT EXISTS; \
               APPLY BATCH";
    assert_eq!(answer(&mut server, two), YES);
    let page = server.page("SELECT id, v FROM c", &[], None, None).unwrap();
    assert_eq!(page.rows.len(), 2);
    assert_ne!(page.rows[0], page.rows[1]);
    let steps = "
        // Two uuids are two partitions.
        BEGIN BATCH INSERT INTO u (id, n) VALUES (uuid(), 1) IF NOT EXISTS; \
           INSERT INTO u (id, n) VALUES (uuid(), 1); APPLY BATCH
        => Batch with conditions cannot span multiple partitions
    ";
    server.check(steps);
}

/// The terms that are written to a row are evaluated for each row, as in Cassandra.
#[test]
fn each_row_and_each_execution_has_its_own_value() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, s uuid STATIC, a uuid, b uuid, PRIMARY KEY (k, c))",
        "UPDATE t SET s = uuid(), a = uuid(), b = uuid() WHERE k IN (1, 2) AND c IN (1, 2)",
    ]);
    let page = server
        .page("SELECT s, a, b FROM t", &[], None, None)
        .unwrap();
    assert_eq!(page.rows.len(), 4);
    let mut rows: Vec<&String> = page.rows.iter().flat_map(|row| &row[1..]).collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 8);
    let mut statics: Vec<&String> = page.rows.iter().map(|row| &row[0]).collect();
    statics.sort_unstable();
    statics.dedup();
    assert_eq!(statics.len(), 2);
    // Prepared once, executed twice.
    let prepared = server.prepare("UPDATE t SET a = uuid() WHERE k = 3 AND c = 3");
    let prepared = prepared.unwrap();
    let mut written = || {
        server
            .execute(&prepared, QueryParameters::default())
            .unwrap();
        server.rows("SELECT a FROM t WHERE k = 3 AND c = 3")
    };
    assert_ne!(written(), written());
}

#[test]
fn functions_of_new_uuids_and_times_are_permitted_anywhere() {
    let session = session(&[
        "CREATE TYPE place (id uuid, at timestamp)",
        "CREATE TABLE t (k uuid, c date, m map<uuid, int>, e set<timeuuid>, l list<uuid>, \
         p tuple<uuid, int>, f frozen<place>, g place, PRIMARY KEY (k, c))",
        "CREATE TABLE n (k date PRIMARY KEY, v counter)",
    ]);
    for text in [
        "INSERT INTO t (k, c) VALUES (uuid(), toDate(now()))",
        "UPDATE t SET m[uuid()] = 1, e = e + {now(), now()}, l = l + [uuid()] \
         WHERE k = uuid() AND c = currentDate()",
        "UPDATE t SET m = {uuid(): 1, uuid(): 2}, p = (uuid(), 1), \
         f = {id: uuid(), at: toTimestamp(now())}, g.id = uuid() \
         WHERE k IN (uuid(), uuid()) AND (c) IN ((currentDate()))",
        "DELETE m[uuid()] FROM t WHERE k = uuid() AND c = currentDate()",
        "DELETE FROM t WHERE k = uuid() AND c > currentDate()",
        "UPDATE n SET v = v + toUnixTimestamp(now()) WHERE k = currentDate()",
    ] {
        let done = session.try_bound(text, &[], None);
        assert!(done.is_ok(), "{text}: {done:?}");
    }
    // One row of the first statement, one of the second, two of the third.
    assert_eq!(session.show("t").len(), 4);
}

//! Counters: increments, deletions, batches, and errors.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, Columns, Value, Values, ValuesBuf};

use super::harness::session;
use crate::analyse::markers::Bound;
use crate::executor::harness::Server;
use crate::guardrails::Guardrails;
use crate::testing::Session;
use crate::write::execution::{Committed, Execution};

const T: &str = "CREATE TABLE t (k int, r int, s counter STATIC, c counter, d counter, \
                 PRIMARY KEY (k, r))";
const ONE: &str = "CREATE TABLE o (k int PRIMARY KEY, c counter)";

#[test]
fn counters_add_up_from_nothing() {
    let mut server = Server::with(&[T]);
    let steps = "
        UPDATE t SET c = c + 5 WHERE k = 1 AND r = 1 => done
        UPDATE t SET c += 2, d = d - 1 WHERE k = 1 AND r = 1 => done
        UPDATE t SET c = c - 10, s = s + 1 WHERE k = 1 AND r = 1 => done
        UPDATE t SET s += 1 WHERE k = 1 => done
        UPDATE t SET c = c + 1, c = c + 2 WHERE k = 1 AND r IN (2, 3) => done
        UPDATE t SET c = c + 1 WHERE k IN (1, 2) AND r = 3 => done
        SELECT * FROM t WHERE k = 1 => 1 1 2 -3 -1 | 1 2 2 3 null | 1 3 2 4 null
        SELECT * FROM t WHERE k = 2 => 2 3 null 1 null
        SELECT sum(c) FROM t => 5
        // As in Cassandra, an overflow wraps around.
        UPDATE t SET d = d + 9223372036854775807 WHERE k = 3 AND r = 1 => done
        UPDATE t SET d = d + 1 WHERE k = 3 AND r = 1 => done
        SELECT d FROM t WHERE k = 3 => -9223372036854775808
    ";
    server.check(steps);
}

#[test]
fn deleted_counters_start_at_zero() {
    let mut server = Server::with(&[T]);
    let add = "UPDATE t SET c = c + 1, d = d + 1, s = s + 1 WHERE k = 1 AND r = 1";
    server.run(add);
    server.run("DELETE c FROM t WHERE k = 1 AND r = 1");
    assert_eq!(server.rows("SELECT c, d, s FROM t"), "null 1 1");
    server.run(add);
    assert_eq!(server.rows("SELECT c, d, s FROM t"), "1 2 2");
    for (delete, expected) in [
        ("DELETE FROM t WHERE k = 1 AND r = 1", "1 1 3"),
        ("DELETE FROM t WHERE k = 1 AND r >= 0", "1 1 4"),
        ("DELETE FROM t WHERE k = 1", "1 1 1"),
    ] {
        server.run(delete);
        server.run(add);
        assert_eq!(server.rows("SELECT c, d, s FROM t"), expected, "{delete}");
    }
    server.run("TRUNCATE t");
    server.run(add);
    assert_eq!(server.rows("SELECT c, d, s FROM t"), "1 1 1");
}

/// The timestamps within a batch must differ: of values with equal timestamps the greater one would
/// win.
#[test]
fn increments_of_a_batch_add_up_although_the_clock_stands_still() {
    let mut server = Server::with(&[ONE, T]);
    server.run(
        "BEGIN COUNTER BATCH UPDATE o SET c = c + 5 WHERE k = 1; UPDATE o SET c = c - 2 WHERE k = 1; \
         UPDATE o SET c = c - 4 WHERE k = 1; UPDATE t SET s = s + 1 WHERE k = 1; APPLY BATCH",
    );
    assert_eq!(server.rows("SELECT c FROM o"), "-1");
    assert_eq!(server.rows("SELECT s FROM t"), "1");
    let add = server
        .prepare("UPDATE o SET c = c - ? WHERE k = 1")
        .unwrap();
    let add = Arc::new(add);
    let by = ValuesBuf::from_iter([Value::Bytes(&3_i64.to_be_bytes())]);
    let twice = [(add.clone(), by.as_values()), (add, by.as_values())];
    for kind in [BatchKind::Counter, BatchKind::Unlogged] {
        server.batch(kind, &twice).unwrap();
    }
    assert_eq!(server.rows("SELECT c FROM o"), "-13");
    let error = server.batch(BatchKind::Logged, &twice).unwrap_err();
    assert_eq!(
        error.message,
        "Cannot include a counter statement in a logged batch"
    );
}

/// Cassandra gives all statements of a batch the same timestamp, and then a deletion wins.
#[test]
fn a_deletion_wins_over_the_increments_of_its_batch() {
    let mut server = Server::with(&[T]);
    let add = "UPDATE t SET c = c + 1 WHERE k = 1 AND r = 1";
    for delete in [
        "DELETE c FROM t WHERE k = 1 AND r = 1",
        "DELETE FROM t WHERE k = 1 AND r = 1",
        "DELETE FROM t WHERE k = 1 AND r >= 0",
        "DELETE FROM t WHERE k = 1",
    ] {
        for kind in ["COUNTER", "UNLOGGED"] {
            server.run(add);
            let batch = format!("BEGIN {kind} BATCH {add}; {delete}; {add}; APPLY BATCH");
            server.run(&batch);
            assert_eq!(server.rows("SELECT c FROM t"), "", "{batch}");
        }
    }
    server.run(add);
    assert_eq!(server.rows("SELECT c FROM t"), "1");
}

/// Executes a write of counters up to its commit, which the caller may do later.
fn begun<'c>(session: &'c Session, guardrails: &'c Guardrails, text: &str) -> Execution<'c> {
    let context = session.write_context(guardrails);
    let transaction = session.catalog.db().begin();
    let mut execution = Execution::of_counters(context, transaction, 0, None).unwrap();
    let statement = session.understand(text).unwrap();
    let bound = Bound::new(Values::default(), &Columns::default(), 0).unwrap();
    for (plan, bound) in statement.parts(bound).unwrap() {
        execution.add(plan, &bound).unwrap();
    }
    execution
}

/// Regression: an increment that was committed while a column, a range or the partition was deleted
/// outlived the deletion.
#[test]
fn of_an_increment_and_a_deletion_at_once_only_one_is_committed() {
    let (session, guardrails) = (session(&[T]), Guardrails::default());
    let add = "UPDATE t SET c = c + 1 WHERE k = 1 AND r = 1";
    for delete in [
        "DELETE c FROM t WHERE k = 1 AND r = 1",
        "DELETE FROM t WHERE k = 1 AND r = 1",
        "DELETE FROM t WHERE k = 1 AND r >= 1",
        "DELETE FROM t WHERE k = 1 AND r < 2",
        "DELETE FROM t WHERE k = 1",
    ] {
        session.write(add);
        for (first, second) in [(add, delete), (delete, add)] {
            let waiting = begun(&session, &guardrails, first);
            let other = begun(&session, &guardrails, second);
            let db = session.catalog.db();
            let committed = other.commit(db).unwrap();
            assert!(matches!(committed, Committed::Done(_)), "{second}");
            let committed = waiting.commit(db).unwrap();
            assert!(matches!(committed, Committed::Conflict), "{first}");
        }
    }
}

#[test]
fn an_increment_does_not_hinder_the_deletion_of_a_range_beside_it() {
    let (session, guardrails) = (session(&[T]), Guardrails::default());
    session.write("UPDATE t SET c = c + 1 WHERE k = 1 AND r = 2");
    let delete = begun(&session, &guardrails, "DELETE FROM t WHERE k = 1 AND r > 1");
    session.write("UPDATE t SET c = c + 1 WHERE k = 1 AND r = 1");
    let committed = delete.commit(session.catalog.db()).unwrap();
    assert!(matches!(committed, Committed::Done(_)));
    assert_eq!(session.show("t"), ["k 1, r 1, c 1"]);
}

#[test]
fn invalid_uses_of_counters_get_cassandras_errors() {
    let session = session(&[
        "CREATE TABLE n (k int PRIMARY KEY, c counter)",
        "CREATE TABLE v (k int PRIMARY KEY, v int)",
    ]);
    let steps = "
        INSERT INTO n (k, c) VALUES (1, 1)
        => INSERT statements are not allowed on counter tables, use UPDATE instead
        INSERT INTO n JSON '{}' IF NOT EXISTS
        => INSERT statements are not allowed on counter tables, use UPDATE instead
        UPDATE n SET c = 1 WHERE k = 1
        => Cannot set the value of counter column c (counters can only be incremented/decremented, \
           not set)
        UPDATE n USING TIMESTAMP 5 SET c = c + 1 WHERE k = 1
        => Cannot provide custom timestamp for counter updates
        UPDATE n USING TTL 5 SET c = c + 1 WHERE k = 1
        => Cannot provide custom TTL for counter updates
        DELETE FROM n USING TIMESTAMP 5 WHERE k = 1
        => Cannot provide custom timestamp for counter updates
        UPDATE n SET c = 1 + c WHERE k = 1 => Invalid operation (c = 1 + c) for non list column c
        UPDATE n SET c = c + null WHERE k = 1 => Invalid null value for counter increment/decrement
        UPDATE n SET c = c - -9223372036854775808 WHERE k = 1
        => The negation of -9223372036854775808 overflows supported counter precision (signed 8 \
           bytes integer)
        UPDATE n SET c = c + 'a' WHERE k = 1
        => Invalid STRING constant (a) for \"c\" of type counter
        UPDATE v SET v = v + 1 WHERE k = 1 => Invalid operation (v = v + 1) for non counter column v
        BEGIN COUNTER BATCH USING TIMESTAMP 5 UPDATE n SET c = c + 1 WHERE k = 1; APPLY BATCH
        => Cannot provide custom timestamp for counter BATCH
        BEGIN UNLOGGED BATCH USING TIMESTAMP 5 UPDATE n SET c = c + 1 WHERE k = 1; APPLY BATCH
        => Cannot provide custom timestamp for a BATCH containing counters
        BEGIN COUNTER BATCH INSERT INTO v (k) VALUES (1); APPLY BATCH
        => Cannot include non-counter statement in a counter batch
        BEGIN UNLOGGED BATCH INSERT INTO v (k) VALUES (1); UPDATE n SET c = c + 1 WHERE k = 1; \
           APPLY BATCH
        => Counter and non-counter mutations cannot exist in the same batch
        BEGIN BATCH UPDATE n SET c = c + 1 WHERE k = 1; APPLY BATCH
        => Cannot include a counter statement in a logged batch
    ";
    session.check(steps);
    assert_eq!(
        session.refusal_of("UPDATE n SET c = c + ? WHERE k = 1", &[Value::Null]),
        "Invalid null value for counter increment"
    );
    session.write("BEGIN COUNTER BATCH APPLY BATCH");
    assert!(session.show("n").is_empty());
}

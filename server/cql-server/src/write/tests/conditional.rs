//! IF: whether it is applied, and the rows in the response, as in Cassandra 4.1.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, Columns, Response, Values};
use ebb_test_support::cases::parse_cases;

use super::harness::session;
use crate::analyse::markers::Bound;
use crate::executor::harness::Server;
use crate::guardrails::Guardrails;
use crate::memory::BYTES_MAX;
use crate::testing::Session;
use crate::write::conditional::{ConditionalWrite, Decision, Verdict};

const STATICS: &str = "CREATE TABLE t (id int, k int, version int STATIC, v int, \
                       PRIMARY KEY (id, k))";
const PLAIN: &str = "CREATE TABLE t (k int PRIMARY KEY, v1 int, v2 text, v3 int)";

/// Executes a conditional write, and returns the columns and rows of the response as text.
#[track_caller]
pub(super) fn answer(server: &mut Server, text: &str) -> String {
    let page = server.page(text, &[], None, None);
    let page = page.unwrap_or_else(|error| panic!("{text}: {error}"));
    format!("{}: {}", page.columns.join(" "), page.text())
}

/// Executes the statements of a table of cases, and compares their responses, unless the table has
/// `done` for the response.
#[track_caller]
pub(super) fn check(server: &mut Server, steps: &str) {
    for [text, expected] in parse_cases(steps) {
        if expected == "done" {
            server.run(text);
        } else if text.starts_with("SELECT") {
            assert_eq!(server.rows(text), expected, "{text}");
        } else {
            assert_eq!(answer(server, text), expected, "{text}");
        }
    }
}

pub(super) const YES: &str = "[applied]: true";

#[test]
fn a_row_is_inserted_once() {
    let mut server = Server::with(&[PLAIN]);
    let steps = "
        INSERT INTO t (k, v1, v2) VALUES (1, 2, 'a') IF NOT EXISTS => [applied]: true
        INSERT INTO t (k, v1, v2) VALUES (1, 5, 'b') IF NOT EXISTS
        => [applied] k v1 v2 v3: false 1 2 a null
        SELECT * FROM t => 1 2 a null
        INSERT INTO t JSON '{\"k\": 2}' IF NOT EXISTS => [applied]: true
        INSERT INTO t JSON '{\"k\": 2, \"v1\": 3}' IF NOT EXISTS
        => [applied] k v1 v2 v3: false 2 null null null
        DELETE FROM t WHERE k = 1 => done
        INSERT INTO t (k, v1) VALUES (1, 7) IF NOT EXISTS => [applied]: true
        SELECT v1 FROM t WHERE k = 1 => 7
        // A row without a marker exists, too, as long as a column has a value.
        UPDATE t SET v1 = 1 WHERE k = 3 => done
        INSERT INTO t (k) VALUES (3) IF NOT EXISTS => [applied] k v1 v2 v3: false 3 1 null null
        DELETE v1 FROM t WHERE k = 3 => done
        INSERT INTO t (k) VALUES (3) IF NOT EXISTS => [applied]: true
    ";
    check(&mut server, steps);
}

#[test]
fn updates_and_deletions_have_conditions_on_columns() {
    let mut server = Server::with(&[PLAIN]);
    let steps = "
        UPDATE t SET v1 = 3, v2 = 'b' WHERE k = 1 IF v1 = 4 => [applied]: false
        UPDATE t SET v1 = 3 WHERE k = 1 IF EXISTS => [applied]: false
        SELECT count(*) FROM t => 0
        INSERT INTO t (k, v1, v2) VALUES (1, 2, 'a') => done
        UPDATE t SET v1 = 3 WHERE k = 1 IF v1 = 4 => [applied] v1: false 2
        // All columns with a condition are returned, in the order of IF, each once.
        UPDATE t SET v1 = 3 WHERE k = 1 IF v2 = 'x' AND v1 > 1 AND v1 < 5
        => [applied] v2 v1: false a 2
        UPDATE t SET v1 = 3, v2 = 'b' WHERE k = 1 IF v1 = 2 => [applied]: true
        SELECT * FROM t => 1 3 b null
        UPDATE t SET v3 = 1 WHERE k = 1 IF v1 IN (1, 3) AND v3 = null => [applied]: true
        DELETE v1 FROM t WHERE k = 1 IF v3 != 1 => [applied] v3: false 1
        DELETE v1 FROM t WHERE k = 1 IF v3 = 1 => [applied]: true
        DELETE FROM t WHERE k = 1 IF v1 = 9 => [applied] v1: false null
        DELETE FROM t WHERE k = 1 IF EXISTS => [applied]: true
        DELETE FROM t WHERE k = 1 IF EXISTS => [applied]: false
        DELETE FROM t WHERE k = 1 IF v1 = null => [applied]: true
    ";
    check(&mut server, steps);
}

#[test]
fn every_operator_compares_as_cassandra_does() {
    let mut server = Server::with(&[PLAIN]);
    server.run("INSERT INTO t (k, v1) VALUES (1, 5)");
    let cases = [
        ("v1 = 5", true),
        ("v1 = 6", false),
        ("v1 != 5", false),
        ("v1 != 6", true),
        ("v1 < 5", false),
        ("v1 < 6", true),
        ("v1 <= 5", true),
        ("v1 > 5", false),
        ("v1 >= 5", true),
        ("v1 IN (1, 5)", true),
        ("v1 IN (1)", false),
        ("v1 IN ()", false),
        ("v1 IN (null)", false),
        ("v1 = null", false),
        ("v1 != null", true),
        // Null equals null, differs from everything else, and has no order.
        ("v3 = null", true),
        ("v3 != null", false),
        ("v3 = 1", false),
        ("v3 != 1", true),
        ("v3 < 1", false),
        ("v3 >= 1", false),
        ("v3 IN (1, null)", true),
    ];
    for (condition, expected) in cases {
        let text = format!("UPDATE t SET v2 = 'x' WHERE k = 1 IF {condition}");
        let said = answer(&mut server, &text);
        assert_eq!(said == YES, expected, "{condition}: {said}");
    }
    assert_eq!(
        server.refused("UPDATE t SET v2 = 'x' WHERE k = 1 IF v1 < null"),
        "Invalid comparison with null for operator \"<\""
    );
}

#[test]
fn static_columns_have_conditions_of_their_own() {
    let mut server = Server::with(&[STATICS]);
    let steps = "
        INSERT INTO t (id, k, v) VALUES (1, 7, 5) => done
        INSERT INTO t (id, k, version) VALUES (1, 7, 1) IF NOT EXISTS
        => [applied] id k version v: false 1 7 null 5
        INSERT INTO t (id, version) VALUES (1, 1) IF NOT EXISTS => [applied]: true
        SELECT * FROM t => 1 7 1 5
        INSERT INTO t (id, version) VALUES (1, 2) IF NOT EXISTS
        => [applied] id k version v: false 1 7 1 null
        DELETE FROM t WHERE id = 1 => done
        INSERT INTO t (id, version) VALUES (0, 0) => done
        UPDATE t SET v = 5, version = 1 WHERE id = 0 AND k = 1 IF version = 0 => [applied]: true
        SELECT * FROM t => 0 1 1 5
        UPDATE t SET v = 6, version = 1 WHERE id = 0 AND k = 2 IF version = 0
        => [applied] version: false 1
        UPDATE t SET v = 6, version = 2 WHERE id = 0 AND k = 2 IF version = 1 => [applied]: true
        SELECT * FROM t => 0 1 2 5 | 0 2 2 6
        UPDATE t SET version = 3 WHERE id = 0 IF version = 1 => [applied] version: false 2
        // Regular columns come before static ones.
        DELETE v FROM t WHERE id = 0 AND k = 1 IF version = 9 AND v = 5
        => [applied] v version: false 5 2
        DELETE version FROM t WHERE id = 0 IF version = 2 => [applied]: true
        SELECT * FROM t => 0 1 null 5 | 0 2 null 6
        // A condition on a row, with a change of the partition.
        UPDATE t SET version = 4 WHERE id = 0 AND k = 2 IF v = 5 => [applied] v: false 6
        UPDATE t SET version = 4 WHERE id = 0 AND k = 2 IF v = 6 => [applied]: true
        SELECT * FROM t => 0 1 4 5 | 0 2 4 6
        // A partition without rows, and a missing partition.
        UPDATE t SET version = 1 WHERE id = 9 IF version = 3 => [applied]: false
        INSERT INTO t (id, version) VALUES (9, 2) => done
        UPDATE t SET version = 1 WHERE id = 9 IF version = 3 => [applied] version: false 2
        UPDATE t SET version = 1 WHERE id = 9 IF EXISTS => [applied]: true
    ";
    check(&mut server, steps);
}

#[test]
fn batches_have_conditions_on_several_rows_of_a_partition() {
    let mut server = Server::with(&[STATICS]);
    let steps = "
        INSERT INTO t (id, k, v, version) VALUES (0, 1, 5, 2) => done
        INSERT INTO t (id, k, v) VALUES (0, 2, 6) => done
        BEGIN BATCH UPDATE t SET v = 7 WHERE id = 0 AND k = 1; \
           UPDATE t SET version = 3 WHERE id = 0 IF version = 1; APPLY BATCH
        => [applied] id k version: false 0 1 2
        BEGIN UNLOGGED BATCH UPDATE t SET v = 7 WHERE id = 0 AND k = 1; \
           UPDATE t SET version = 3 WHERE id = 0 IF version = 2; APPLY BATCH
        => [applied]: true
        SELECT * FROM t => 0 1 3 7 | 0 2 3 6
        BEGIN BATCH UPDATE t SET version = 4 WHERE id = 0 IF version = 3; \
           UPDATE t SET v = 1 WHERE id = 0 AND k = 2 IF v = 1; \
           UPDATE t SET v = 1 WHERE id = 0 AND k = 1 IF v = 1; APPLY BATCH
        => [applied] id k version v: false 0 1 3 7 | false 0 2 3 6
        BEGIN BATCH INSERT INTO t (id, k, v) VALUES (1, 2, 1) IF NOT EXISTS; \
           INSERT INTO t (id, k, v) VALUES (1, 3, 2) IF NOT EXISTS; APPLY BATCH
        => [applied]: true
        BEGIN BATCH UPDATE t SET v = 9 WHERE id = 1 AND k = 2 IF v = 0; \
           INSERT INTO t (id, k, v) VALUES (1, 4, 2) IF NOT EXISTS; APPLY BATCH
        => [applied] id k version v: false 1 2 null 1
        BEGIN BATCH UPDATE t SET v = 9 WHERE id = 1 AND k = 2 IF v = 1; \
           UPDATE t SET v = 8 WHERE id = 1 AND k = 2 IF v = 2; APPLY BATCH
        => [applied] id k v: false 1 2 1
        // The other statements of the batch are all or nothing, range deletions included.
        BEGIN BATCH DELETE FROM t WHERE id = 1 AND k > 2; \
           UPDATE t SET v = 9 WHERE id = 1 AND k = 2 IF v = 1; APPLY BATCH
        => [applied]: true
        SELECT k, v FROM t WHERE id = 1 => 2 9
        BEGIN BATCH UPDATE t SET v = 1 WHERE id = 5 AND k = 1 IF v = 1; APPLY BATCH
        => [applied]: false
    ";
    check(&mut server, steps);
}

#[test]
fn protocol_batches_have_the_same_response() {
    let mut server = Server::with(&[STATICS]);
    server.run("INSERT INTO t (id, k, v) VALUES (0, 1, 5)");
    let batch = |server: &Server, texts: &[&str]| {
        let texts = texts.iter().map(|text| {
            let prepared = server.prepare(text).unwrap();
            (Arc::new(prepared), Default::default())
        });
        server.batch(BatchKind::Logged, &texts.collect::<Vec<_>>())
    };
    let texts = [
        "UPDATE t SET v = 6 WHERE id = 0 AND k = 1 IF v = 4",
        "INSERT INTO t (id, k) VALUES (0, 2)",
    ];
    let Ok(Response::Rows(rows)) = batch(&server, &texts) else {
        panic!("a conditional batch gives rows");
    };
    assert_eq!(rows.column_count(), 4);
    assert_eq!(rows.cells().next(), Some(Some(&[0][..])));
    assert_eq!(server.rows("SELECT k, v FROM t"), "1 5");
    let other = [texts[0], "INSERT INTO t (id, k) VALUES (1, 2)"];
    assert_eq!(
        batch(&server, &other).unwrap_err().message,
        "Batch with conditions cannot span multiple partitions"
    );
}

/// A write that was applied is visible even over values with timestamps in the future: some clients
/// send timestamps of wrong clocks, or in wrong units.
#[test]
fn an_applied_write_is_visible_over_any_timestamps() {
    // In an hour, in nanoseconds, and close to the greatest timestamp. The steps below use fewer than
    // 100 timestamps, because each conditional write is one above the greatest before it.
    let far_us = [
        1_700_003_600_000_000,
        1_700_000_000_000_000_000,
        i64::MAX - 100,
    ];
    let mut server = Server::with(&[STATICS]);
    for (id, at_us) in far_us.into_iter().enumerate() {
        let (by_range, by_partition) = (at_us + 5, at_us + 7);
        let steps = format!(
            "
            INSERT INTO t (id, k, v, version) VALUES ({id}, 1, 1, 1) USING TIMESTAMP {at_us} => done
            UPDATE t SET v = 2, version = 2 WHERE id = {id} AND k = 1 IF v = 1 => [applied]: true
            SELECT v, version FROM t WHERE id = {id} => 2 2
            DELETE FROM t WHERE id = {id} AND k = 1 IF v = 2 => [applied]: true
            SELECT v, version FROM t WHERE id = {id} => null 2
            INSERT INTO t (id, k, v) VALUES ({id}, 1, 3) IF NOT EXISTS => [applied]: true
            SELECT v, version FROM t WHERE id = {id} => 3 2
            // Deleted by range and by partition, in the future, too: each deletion has a timestamp
            // above those of the conditional writes before it.
            DELETE FROM t USING TIMESTAMP {by_range} WHERE id = {id} AND k >= 1 => done
            INSERT INTO t (id, k, v) VALUES ({id}, 1, 4) IF NOT EXISTS => [applied]: true
            SELECT v, version FROM t WHERE id = {id} => 4 2
            DELETE FROM t USING TIMESTAMP {by_partition} WHERE id = {id} => done
            INSERT INTO t (id, version) VALUES ({id}, 5) IF NOT EXISTS => [applied]: true
            SELECT v, version FROM t WHERE id = {id} => null 5
            "
        );
        check(&mut server, &steps);
    }
    server.run(&format!(
        "INSERT INTO t (id, k) VALUES (8, 1) USING TIMESTAMP {}",
        i64::MAX
    ));
    let refused = server.refused("UPDATE t SET v = 1 WHERE id = 8 AND k = 1 IF EXISTS");
    assert!(refused.contains("the greatest there is"), "{refused}");
}

#[test]
fn the_timestamp_of_a_request_is_ignored() {
    let mut server = Server::with(&[PLAIN]);
    server.run("INSERT INTO t (k, v1) VALUES (1, 1)");
    let prepared = server
        .prepare("UPDATE t SET v1 = 2 WHERE k = 1 IF v1 = 1")
        .unwrap();
    let parameters = ebb_cql::protocol::QueryParameters {
        timestamp_us: Some(1),
        ..Default::default()
    };
    server.execute(&prepared, parameters).unwrap();
    assert_eq!(server.rows("SELECT v1 FROM t"), "2");
}

#[test]
fn conditions_do_not_see_expired_rows() {
    let mut server = Server::with(&[PLAIN]);
    let steps = "
        INSERT INTO t (k, v1) VALUES (1, 1) IF NOT EXISTS USING TTL 10 => [applied]: true
        INSERT INTO t (k) VALUES (1) IF NOT EXISTS => [applied] k v1 v2 v3: false 1 1 null null
    ";
    check(&mut server, steps);
    server.clock.advance_ms(10_000);
    let steps = "
        UPDATE t SET v1 = 2 WHERE k = 1 IF EXISTS => [applied]: false
        INSERT INTO t (k) VALUES (1) IF NOT EXISTS => [applied]: true
        SELECT * FROM t => 1 null null null
    ";
    check(&mut server, steps);
}

#[test]
fn a_column_that_was_dropped_and_added_again_is_null_in_conditions() {
    let mut server = Server::with(&[PLAIN]);
    server.run("INSERT INTO t (k, v1, v3) VALUES (1, 1, 1)");
    server.run("UPDATE t SET v3 = 3 WHERE k = 2");
    server.run("ALTER TABLE t DROP v3");
    let steps = "UPDATE t SET v1 = 1 WHERE k = 2 IF EXISTS => [applied]: false";
    check(&mut server, steps);
    server.run("ALTER TABLE t ADD v3 int");
    let steps = "
        UPDATE t SET v1 = 1 WHERE k = 2 IF EXISTS => [applied]: false
        UPDATE t SET v3 = 2 WHERE k = 1 IF v3 = 1 => [applied] v3: false null
        UPDATE t SET v3 = 2 WHERE k = 1 IF v3 = null => [applied]: true
        SELECT v3 FROM t => 2
    ";
    check(&mut server, steps);
}

/// Regression: every conditional write got a timestamp above that of the drop, even if it wrote no
/// value of the dropped column. So later writes without IF were lost, and after a drop at the
/// greatest timestamp each conditional write failed.
#[test]
fn the_drop_of_a_column_raises_only_the_timestamps_of_values_in_it() {
    // In nanoseconds by mistake, and the greatest timestamp.
    for dropped_us in [1_700_000_000_000_000_000, i64::MAX] {
        let mut server = Server::with(&[
            "CREATE TABLE t (id int, k int, s int STATIC, d int STATIC, v int, c int, l list<int>, \
             PRIMARY KEY (id, k))",
        ]);
        for column in ["c", "d", "l"] {
            server.run(&format!(
                "ALTER TABLE t DROP {column} USING TIMESTAMP {dropped_us}"
            ));
        }
        server.run("ALTER TABLE t ADD c int");
        server.run("ALTER TABLE t ADD d int STATIC");
        server.run("ALTER TABLE t ADD l list<int>");
        let steps = "
            INSERT INTO t (id, k, v) VALUES (1, 1, 1) IF NOT EXISTS => [applied]: true
            UPDATE t SET v = 2 WHERE id = 1 AND k = 1 => done
            SELECT v FROM t WHERE id = 1 => 2
            UPDATE t SET s = 1 WHERE id = 1 IF s = null => [applied]: true
            UPDATE t SET s = 2 WHERE id = 1 => done
            SELECT s FROM t WHERE id = 1 => 2
            // Deletions of the columns themselves.
            UPDATE t SET v = 3, c = null WHERE id = 1 AND k = 1 IF c = null => [applied]: true
            DELETE c FROM t WHERE id = 1 AND k = 1 IF v = 3 => [applied]: true
            DELETE d FROM t WHERE id = 1 IF s = 2 => [applied]: true
            UPDATE t SET v = 4 WHERE id = 1 AND k = 1 => done
            SELECT s, v FROM t WHERE id = 1 => 2 4
            DELETE FROM t WHERE id = 1 AND k = 1 IF EXISTS => [applied]: true
            INSERT INTO t (id, k, v) VALUES (1, 1, 5) => done
            SELECT s, v FROM t WHERE id = 1 => 2 5
            // An empty collection has no values.
            UPDATE t SET v = 6, l = [] WHERE id = 1 AND k = 1 IF v = 5 => [applied]: true
            UPDATE t SET v = 7 WHERE id = 1 AND k = 1 => done
            SELECT v FROM t WHERE id = 1 => 7
            // The columns that are not in the text become null.
            INSERT INTO t JSON '{\"id\": 2, \"k\": 1, \"v\": 1}' IF NOT EXISTS => [applied]: true
            UPDATE t SET v = 2 WHERE id = 2 AND k = 1 => done
            SELECT v FROM t WHERE id = 2 => 2
        ";
        check(&mut server, steps);
        let values = [
            "UPDATE t SET c = 7 WHERE id = 3 AND k = 1 IF c = null",
            "UPDATE t SET d = 7 WHERE id = 3 IF d = null",
            "UPDATE t SET l = l + [7] WHERE id = 4 AND k = 1 IF v = null",
        ];
        if dropped_us == i64::MAX {
            for text in values {
                let refused = server.refused(text);
                assert!(refused.contains("the greatest there is"), "{refused}");
            }
            continue;
        }
        for text in values {
            assert_eq!(answer(&mut server, text), YES, "{text}");
        }
        assert_eq!(server.rows("SELECT c, d FROM t WHERE id = 3"), "7 7");
        assert_eq!(server.rows("SELECT toJson(l) FROM t WHERE id = 4"), "[7]");
    }
}

/// Regression: a batch kept all stored rows that it mentions in memory, and repeated the static
/// columns for each row in its response, without a limit.
#[test]
fn a_conditional_batch_reads_and_returns_a_bounded_number_of_bytes() {
    let mut server = Server::with(&[
        "CREATE TABLE wide (id int, k int, v blob, PRIMARY KEY (id, k))",
        "CREATE TABLE shared (id int, k int, s blob STATIC, v int, PRIMARY KEY (id, k))",
    ]);
    server.limit_results(40_000);
    let blob = |bytes: usize| format!("0x{}", "00".repeat(bytes));
    for k in 0..5 {
        let blob = blob(10_000);
        server.run(&format!(
            "INSERT INTO wide (id, k, v) VALUES (0, {k}, {blob})"
        ));
        server.run(&format!(
            "INSERT INTO shared (id, k, s, v) VALUES (0, {k}, {blob}, 0)"
        ));
    }
    let begin = "The batch reads or returns more than 40000 bytes of stored rows";
    for update in [
        "UPDATE wide SET v = 0x01 WHERE id = 0 AND k = # IF v = 0x02",
        "UPDATE shared SET v = 1 WHERE id = 0 AND k = # IF v = 1 AND s != 0x01",
    ] {
        let batch = |rows: i32| {
            let updates = (0..rows).map(|k| update.replace('#', &k.to_string()) + "; ");
            format!("BEGIN BATCH {} APPLY BATCH", updates.collect::<String>())
        };
        let refused = server.refused(&batch(5));
        assert!(refused.starts_with(begin), "{refused}");
        server.run(&batch(3));
    }
    // A single row has no limit.
    let insert = format!(
        "INSERT INTO wide (id, k, v) VALUES (1, 1, {})",
        blob(50_000)
    );
    server.run(&insert);
    let update = "UPDATE wide SET v = 0x01 WHERE id = 1 AND k = 1 IF EXISTS";
    assert_eq!(answer(&mut server, update), YES);
}

/// Evaluates the conditions of a write, which the caller may commit later.
fn decided<'c>(session: &'c Session, guardrails: &'c Guardrails, text: &str) -> Decision<'c> {
    let statement = session.understand(text).unwrap();
    let bound = Bound::new(Values::default(), &Columns::default(), 0).unwrap();
    let parts = statement.parts(bound).unwrap();
    let write = ConditionalWrite::new(&parts, text.starts_with("BEGIN")).unwrap();
    write.decide(session.write_context(guardrails)).unwrap()
}

/// A write that conflicts with others is evaluated anew at each attempt. Only the results of the
/// current attempt are in memory, and count.
#[test]
fn an_attempt_counts_no_results_of_functions_of_earlier_attempts() {
    let session = session(&[
        "CREATE TYPE u (a int, b int, c int)",
        "CREATE TABLE t (k int PRIMARY KEY, v frozen<u>)",
    ]);
    session.write("INSERT INTO t (k) VALUES (1)");
    let text = "UPDATE t SET v = fromJson('{}') WHERE k = 1 IF EXISTS";
    let guardrails = Guardrails::default();
    let statement = session.understand(text).unwrap();
    let bound = Bound::new(Values::default(), &Columns::default(), 0).unwrap();
    let parts = statement.parts(bound).unwrap();
    let write = ConditionalWrite::new(&parts, false).unwrap();
    for _ in 0..2 {
        write.decide(session.write_context(&guardrails)).unwrap();
    }
    let (_, bound) = &parts[0];
    bound.count_result(BYTES_MAX, 0).unwrap();
}

/// Regression: both writes were applied, and the row had the value of the one that was committed
/// first. No order of the two writes has this result: if the batch comes first, the condition of
/// the other write fails.
#[test]
fn a_batch_conflicts_with_a_conditional_write_of_a_row_that_it_changes_without_a_condition() {
    let (session, guardrails) = (session(&[STATICS]), Guardrails::default());
    session.write("INSERT INTO t (id, k, v) VALUES (0, 1, 0)");
    for change in [
        "UPDATE t SET v = 1 WHERE id = 0 AND k = 2",
        "DELETE FROM t WHERE id = 0 AND k = 2",
        "DELETE FROM t WHERE id = 0 AND k > 1",
        "DELETE FROM t WHERE id = 0",
    ] {
        session.write("INSERT INTO t (id, k, v) VALUES (0, 2, 0)");
        let text = format!(
            "BEGIN BATCH UPDATE t SET v = 1 WHERE id = 0 AND k = 1 IF v = 0; {change}; APPLY BATCH"
        );
        let batch = decided(&session, &guardrails, &text);
        let text = "UPDATE t SET v = 2 WHERE id = 0 AND k = 2 IF v = 0";
        let other = decided(&session, &guardrails, text);
        let db = session.catalog.db();
        let verdict = other.commit(db).unwrap();
        assert!(matches!(verdict, Verdict::Decided(..)), "{verdict:?}");
        let verdict = batch.commit(db).unwrap();
        assert!(matches!(verdict, Verdict::Conflict), "{change}");
        assert_eq!(
            session.show("t"),
            ["id 0, k 1, v 0", "id 0, k 2, v 2"],
            "{change}"
        );
    }
}

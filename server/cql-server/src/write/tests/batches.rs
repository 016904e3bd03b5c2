//! Batches: one commit, one timestamp, all or nothing.

use ebb_cql::protocol::Value;
use ebb_model::schema::TableSchema;
use ebb_storage::simulation::MemDisk;

use super::harness::session;
use crate::testing::Session;

const TABLES: [&str; 2] = [
    "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)",
    "CREATE TABLE u (k int, c int, v blob, PRIMARY KEY (k, c))",
];

#[test]
fn a_batch_writes_all_its_tables_in_one_commit() {
    let session = session(&TABLES);
    let before = session.catalog.db().view();
    session.write(
        "BEGIN BATCH \
         INSERT INTO t (k, v) VALUES (1, 1); \
         UPDATE u SET v = 0x01 WHERE k = 1 AND c = 1; \
         DELETE FROM u WHERE k = 2; \
         APPLY BATCH",
    );
    drop(before);
    assert_eq!(session.show("t"), ["k 1, v 1"]);
    assert_eq!(session.show("u"), ["k 1, c 1, v 0x01"]);
    assert!(session.write("BEGIN UNLOGGED BATCH APPLY BATCH").is_empty());
}

#[test]
fn a_batch_that_fails_writes_nothing() {
    let session = session(&TABLES);
    let message = session.refusal(
        "BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1); UPDATE t SET l[3] = 1 WHERE k = 1; \
         APPLY BATCH",
    );
    assert_eq!(
        message,
        "Attempted to set an element on a list which is null"
    );
    let error = session.batch(&[
        "INSERT INTO u (k, c) VALUES (1, 1)",
        "UPDATE t SET l[3] = 1 WHERE k = 1",
    ]);
    assert!(error.is_err());
    assert!(session.show("t").is_empty() && session.show("u").is_empty());
}

#[test]
fn statements_of_a_batch_have_one_timestamp() {
    let session = session(&TABLES);
    let steps = "
        // Of equal timestamps the deletion wins, although it comes first.
        BEGIN BATCH DELETE FROM t WHERE k = 1; INSERT INTO t (k, v) VALUES (1, 1); APPLY BATCH
        => no rows
        BEGIN BATCH USING TIMESTAMP 5 INSERT INTO t (k, v) VALUES (2, 1); APPLY BATCH => done
        DELETE FROM t USING TIMESTAMP 4 WHERE k = 2 => k 2, v 1
        DELETE FROM t USING TIMESTAMP 5 WHERE k = 2 => no rows
        BEGIN BATCH DELETE FROM t USING TIMESTAMP 6 WHERE k = 2; \
           INSERT INTO t (k, v) VALUES (2, 2) USING TIMESTAMP 7; APPLY BATCH
        => k 2, v 2
    ";
    session.check(steps);
}

#[test]
fn elements_that_a_batch_appends_to_a_list_stay_in_order() {
    let session = session(&TABLES);
    let appended = [
        "UPDATE t SET l = l + [1] WHERE k = 1",
        "UPDATE t SET l = l + [1, 2] WHERE k = 1",
        "UPDATE t SET l = [0] + l WHERE k = 1",
        "UPDATE t SET l = [9] + l WHERE k = 1",
    ];
    session.batch(&appended).unwrap();
    assert_eq!(session.show("t"), ["k 1, l [9, 0, 1, 1, 2]"]);
}

#[test]
fn the_size_of_a_batch_over_partitions_causes_a_warning_or_an_error() {
    let session = session(&TABLES);
    let insert = |k: i32, bytes: usize| {
        let value = "00".repeat(bytes);
        format!("INSERT INTO u (k, c, v) VALUES ({k}, 1, 0x{value})")
    };
    let (one, two) = (insert(1, 6_000), insert(2, 1));
    assert!(session.batch(&[&one]).unwrap().is_empty());
    let warnings = session.batch(&[&one, &two]).unwrap();
    let begin = "Batch for [app.u] is of size ";
    assert!(
        warnings.len() == 1 && warnings[0].starts_with(begin),
        "{warnings:?}"
    );
    let large = insert(3, 50 * 1024);
    let error = session.batch(&[&large, &two]).unwrap_err();
    assert_eq!(
        (error.kind.code(), &*error.message),
        (0x2200, "Batch too large")
    );
    assert!(!session.show("u").iter().any(|row| row.starts_with("k 3")));
    let both = session.refusal(&format!("BEGIN UNLOGGED BATCH {large}; {two}; APPLY BATCH"));
    assert_eq!(both, "Batch too large");
    // Several keys of one statement are several partitions, too, but only in a batch.
    let two_keys = format!(
        "UPDATE u SET v = 0x{} WHERE k IN (3, 4) AND c = 1",
        "00".repeat(30_000)
    );
    assert!(session.batch(&[&two_keys]).is_err());
    assert!(session.write(&two_keys).is_empty());
    // A single partition has no limit, even across tables of a keyspace.
    let same = "INSERT INTO t (k, v) VALUES (3, 1)";
    assert!(session.batch(&[&large, same]).unwrap().is_empty());
}

/// Regression: a batch that mentions a prepared statement with a long constant thousands of times
/// collected gigabytes.
#[test]
fn a_batch_that_collects_too_much_fails_before_its_last_statement() {
    let session =
        session(&["CREATE TABLE w (k int, c int, v blob, l list<int>, PRIMARY KEY (k, c))"]);
    session.write("INSERT INTO w (k, c) VALUES (1, 1)");
    let of_row = |set: &str| {
        let text = format!("UPDATE w SET {set}");
        session.understand(&text).unwrap()
    };
    let long = of_row(&format!(
        "v = 0x{} WHERE k = 1 AND c = 1",
        "00".repeat(1 << 20)
    ));
    let conditional = of_row("v = 0x01 WHERE k = 1 AND c = 1 IF EXISTS");
    let failing = of_row("l[3] = 1 WHERE k = 1 AND c = 1");
    for first in [&conditional, &long] {
        let mut statements = vec![first];
        statements.extend([&long; 100]);
        statements.push(&failing);
        let error = session.batch_of(&statements).unwrap_err();
        assert_eq!(
            (error.kind.code(), &*error.message),
            (
                0x2200,
                "The write takes more than 67108864 bytes with its keys and index entries; write \
                 fewer rows with each statement or batch"
            )
        );
        session.batch_of(&statements[..3]).unwrap();
    }
}

/// Regression: a transaction kept both ends of each deleted range, with copies of the partition's
/// key, and nothing counted them.
#[test]
fn the_guards_of_deleted_ranges_count_towards_the_limit_of_a_write() {
    let session = session(&["CREATE TABLE w (k text, a int, b int, PRIMARY KEY (k, a, b))"]);
    let key = "k".repeat(60_000);
    session.write(&format!("INSERT INTO w (k, a, b) VALUES ('{key}', 1, 1)"));
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let exists = format!("DELETE FROM w WHERE k = '{key}' AND a = 1 AND b = 1 IF EXISTS");
    let deleting = |count: usize| {
        let numbers = numbers[..count].join(", ");
        let ranges = format!("DELETE FROM w WHERE k = '{key}' AND a IN ({numbers}) AND b > 0");
        let statements = [&exists, &ranges].map(|text| session.understand(text).unwrap());
        session.batch_of(&statements.each_ref())
    };
    let error = deleting(numbers.len()).unwrap_err();
    let begin = "The write takes more than 67108864 bytes";
    assert!(error.message.starts_with(begin), "{error}");
    deleting(10).unwrap();
}

/// Regression: a batch kept the keys of counters whose increment is unset, once for its guards and
/// once to count its partitions, and neither was limited.
#[test]
fn the_keys_of_unset_increments_count_towards_the_limit_of_a_write() {
    let session = session(&["CREATE TABLE w (a text, b int, c counter, PRIMARY KEY ((a, b)))"]);
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let update = |a: &str| {
        let (a, numbers) = (a.repeat(60_000), numbers.join(", "));
        format!("UPDATE w SET c = c + ? WHERE a = '{a}' AND b IN ({numbers})")
    };
    let (one, other) = (update("x"), update("y"));
    let text = format!("BEGIN COUNTER BATCH {one}; {other}; APPLY BATCH");
    let refused = session.refusal_of(&text, &[Value::Unset; 2]);
    let begin = "The write takes more than 67108864 bytes";
    assert!(refused.starts_with(begin), "{refused}");
}

#[test]
fn invalid_batches_are_rejected() {
    let session = session(&TABLES);
    let steps = "
        BEGIN BATCH USING TTL 5 INSERT INTO t (k) VALUES (1); APPLY BATCH
        => Global TTL on the BATCH statement is not supported.
        BEGIN BATCH USING TIMESTAMP 5 INSERT INTO t (k) VALUES (1) USING TIMESTAMP 6; APPLY BATCH
        => Timestamp must be set either on BATCH or individual statements
    ";
    session.check(steps);
    let inner = ["BEGIN BATCH INSERT INTO t (k) VALUES (1); APPLY BATCH"];
    let error = session.batch(&inner).unwrap_err();
    assert_eq!(error.message, super::super::NOT_A_WRITE);
}

/// Regression: earlier versions accepted the id of another table in WITH ID, and compared the
/// tables of a batch by their ids. So both conditions were evaluated on the first table, and the
/// row of the second one was overwritten.
#[test]
fn a_conditional_batch_over_two_tables_with_one_id_is_refused() {
    let disk = MemDisk::new();
    let mut session = Session::on(&disk);
    session.run("CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("CREATE TABLE app.a (k int PRIMARY KEY, v int)");
    session.run("CREATE TABLE app.b (k int PRIMARY KEY, v int)");
    let changed = session.catalog.change(|schema| {
        let id = schema.table("app", "a").unwrap().id().to_string();
        let with_id = |table: &TableSchema| {
            let record = String::from_utf8(table.encode()).unwrap();
            TableSchema::decode(record.replace(&table.id().to_string(), &id).as_bytes())
        };
        schema.alter_table("app", "b", with_id).map(Some)
    });
    assert!(changed.unwrap().unwrap());
    drop(session);

    let session = Session::on(&disk);
    let id = |table: &str| session.state().table("app", table).unwrap().schema().id();
    assert_eq!(id("a"), id("b"));
    session.write("INSERT INTO b (k, v) VALUES (1, 7)");
    let inserts = [
        "INSERT INTO a (k, v) VALUES (1, 1) IF NOT EXISTS",
        "INSERT INTO b (k, v) VALUES (1, 1) IF NOT EXISTS",
    ];
    let several = "Batch with conditions cannot span multiple tables";
    let [first, second] = inserts;
    let batch = format!("BEGIN BATCH {first}; {second}; APPLY BATCH");
    assert_eq!(session.refusal(&batch), several);
    assert_eq!(session.batch(&inserts).unwrap_err().message, several);
    assert_eq!(session.show("b"), ["k 1, v 7"]);
}

//! Statements whose time is over end soon, in every loop whose length a client's data determines.

use ebb_cql::protocol::Consistency;

use super::*;
use crate::interrupt::{self, TimeOut};
use crate::testing::never;

/// The most units of work (about a microsecond each) that a statement does after its deadline: the
/// work until the clock is read next, or a single operation.
const UNITS_MAX: u64 = 2_000;

const READ_TIMEOUT: i32 = 0x1200;

const WRITE_TIMEOUT: i32 = 0x1100;

/// Asserts that `execute` returns an error with this code after few units of work.
#[track_caller]
fn assert_ends_soon(what: &str, code: i32, execute: impl FnOnce() -> ErrorResponse) {
    let (error, units) = charged(execute);
    assert_eq!(error.kind.code(), code, "{what}: {error:?}");
    assert!(units <= UNITS_MAX, "{what}: {units}");
}

/// A statement reads the clock once in `UNITS_PER_LOOK` units of work (about a microsecond each).
/// The test runs each loop whose length a client's data determines, with more units than that, to
/// show that the loop reports its work.
#[test]
fn an_interrupted_read_ends_soon_in_every_loop() {
    let mut server = server();
    let (partitions, values) = (numbers(30).replace("1,", "91,"), numbers(20));
    let (calls, sums) = (times(40, "b + 1"), times(40, "sum(b)"));
    let cases = format!(
        "
        rows of a range => SELECT * FROM wide
        rows of a partition => SELECT * FROM wide WHERE a = 1
        rows that are not there
        => SELECT * FROM wide WHERE a = 1 AND b IN (91, 92, 93) AND c IN (1, 2, 3, 4, 5)
        // Partition 1, the only one of `wide`, is left out: 91 takes its place.
        partitions that are not there => SELECT * FROM wide WHERE a IN ({partitions})
        rows that an index finds => SELECT * FROM found WHERE v = 1
        groups => SELECT a, b, count(*) FROM wide GROUP BY a, b
        rows that are sorted => SELECT * FROM wide WHERE a IN (1, 2) ORDER BY b
        values of IN => SELECT * FROM filtered WHERE c IN ({values}) ALLOW FILTERING
        elements of a list => SELECT k FROM one WHERE l CONTAINS 99 ALLOW FILTERING
        values of a map => SELECT k FROM one WHERE m CONTAINS 99 ALLOW FILTERING
        keys of a map => SELECT k FROM one WHERE m CONTAINS KEY 99 ALLOW FILTERING
        a key of a map => SELECT m[99] FROM one WHERE k = 1
        keys from one to another => SELECT m[99..] FROM one WHERE k = 1
        values as JSON => SELECT toJson(l) FROM one WHERE k = 1
        a row as JSON => SELECT JSON l FROM one WHERE k = 1
        digits as JSON => SELECT toJson(v) FROM one WHERE k = 1
        calls => SELECT {calls} FROM one WHERE k = 1
        months down to a floor
        => SELECT floor((timestamp) 100000000000000, 1mo30d) FROM one WHERE k = 1
        aggregates => SELECT {sums} FROM one WHERE k = 1
        an operation on a number => SELECT d / 7 FROM one WHERE k = 1
        a sum of numbers => SELECT sum(d) FROM one WHERE k = 1
        rows of a virtual table
        => SELECT * FROM system_schema.columns WHERE kind = 'none' ALLOW FILTERING
        sizes of tables => SELECT table_name FROM system.size_estimates
        "
    );
    for [what, text] in parse_cases(&cases) {
        server.interrupt = never();
        let page = server.page(text, &[], None, None);
        page.unwrap_or_else(|error| panic!("{what}: {error}"));
        server.interrupt = cancelled();
        assert_ends_soon(what, READ_TIMEOUT, || error(&mut server, text));
    }
}

#[test]
fn a_write_that_is_interrupted_while_it_computes_writes_nothing() {
    let mut server = server();
    let (list, sum) = (numbers(40), vec!["1"; 40].join(" + "));
    let inserts = "INSERT INTO one (k, b) VALUES (1 + 1, 2 + 3); ".repeat(20);
    let cases = format!(
        "
        INSERT INTO one (k, d) VALUES (2, (decimal) 1e9999 / 7)
        INSERT INTO one JSON '{{\"k\": 2, \"l\": [{list}]}}'
        BEGIN BATCH {inserts} APPLY BATCH
        UPDATE one SET b = 7 WHERE k = 1 IF b = {sum}
        UPDATE wide SET v = 7 WHERE a IN (1, 2, 3, 4) AND b IN (1, 2) AND c IN (0, 1)
        DELETE FROM wide WHERE a IN (1, 2, 3, 4) AND b IN (1, 2) AND c IN (0, 1)
        UPDATE one SET l[0] = 7 WHERE k = 1
        UPDATE one SET l = l - [1, 2] WHERE k = 1
        UPDATE one SET l = l + [{list}] WHERE k = 1
        UPDATE one SET m = m - {{{list}}} WHERE k = 1
        "
    );
    for [text] in parse_cases(&cases) {
        server.interrupt = cancelled();
        assert_ends_soon(text, WRITE_TIMEOUT, || error(&mut server, text));
        server.interrupt = never();
        assert_eq!(server.rows("SELECT k, b FROM one"), "1 1", "{text}");
        let unchanged = "SELECT count(v) FROM wide WHERE v = 0 ALLOW FILTERING";
        assert_eq!(server.rows(unchanged), "20", "{text}");
    }
}

/// Regression: DESCRIBE and LIST computed all their rows without a look at the clock.
#[test]
fn an_interrupted_description_or_list_ends_soon() {
    let mut server = server();
    for number in 0..40 {
        server.run(&format!("CREATE ROLE role{number}"));
        server.run(&format!("CREATE TABLE t{number} (k int PRIMARY KEY)"));
    }
    server.interrupt = cancelled();
    for text in ["DESCRIBE FULL SCHEMA", "DESCRIBE TABLES", "LIST ROLES"] {
        assert_ends_soon(text, READ_TIMEOUT, || error(&mut server, text));
    }
}

/// Regression: ALTER TABLE with thousands of columns ran for minutes, past its time-out, and other
/// changes of the schema waited.
#[test]
fn an_interrupted_change_of_many_columns_changes_nothing() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    let names = columns(100);
    let add = format!("ALTER TABLE t ADD ({} int)", names.join(" int, "));
    let drop = format!("ALTER TABLE t DROP ({})", names.join(", "));
    // The key column and the field are renamed a hundred times; the last name applies.
    let new_names = names.join(" AND k TO ");
    let rename = format!("ALTER TABLE t RENAME k TO {new_names}");
    server.run("CREATE TYPE u (k int)");
    let rename_field = format!("ALTER TYPE u RENAME k TO {new_names}");
    for change in [add, drop, rename, rename_field] {
        server.interrupt = cancelled();
        assert_ends_soon(&change, READ_TIMEOUT, || error(&mut server, &change));
        server.interrupt = never();
        // It fails if some of the columns were added, dropped or renamed.
        server.run(&change);
    }
}

/// Regression: the analysis of a statement charged it only for its constants. Statements with
/// hundreds of thousands of other parts, each compared with thousands of columns, fields or
/// indexes, ran past their time-outs.
#[test]
fn an_interrupted_analysis_ends_soon_in_every_loop() {
    let (server, literal) = nested_fields(100, 20);
    let insert = format!("INSERT INTO t (k, c, u) VALUES (?, ?, {literal})");
    let wheres = format!(
        "SELECT k FROM t WHERE {} ALLOW FILTERING",
        vec!["l CONTAINS ?"; 100].join(" AND ")
    );
    let condition = vec!["v = ?"; 100].join(" AND ");
    let update = format!("UPDATE t SET v = ? WHERE k = ? AND c = ? IF {condition}");
    let delete = format!("DELETE {} FROM t WHERE k = ? AND c = ?", times(100, "v"));
    for text in [insert, wheres, update, delete] {
        let prepare = || server.prepare(&text);
        let in_time = || interrupt::scope(&cancelled(), TimeOut::Read(Consistency::One), prepare);
        assert_ends_soon(&text, READ_TIMEOUT, || in_time().err().unwrap());
    }
}

/// Regression: a batch that mentions a prepared BEGIN BATCH thousands of times looked each of its tables
/// up for each mention, past the timeout.
#[test]
fn an_interrupted_batch_ends_soon_while_it_checks_its_statements() {
    let mut server = server();
    let writes = "DELETE FROM one WHERE k = 1; ".repeat(40);
    let nested = server.prepare(&format!("BEGIN BATCH {writes} APPLY BATCH"));
    let single = server.prepare("DELETE FROM one WHERE k = 1");
    server.interrupt = cancelled();
    for prepared in [nested, single] {
        let statements = vec![(Arc::new(prepared.unwrap()), Values::default()); 200];
        assert_ends_soon("a batch", WRITE_TIMEOUT, || {
            server.batch(BatchKind::Unlogged, &statements).unwrap_err()
        });
    }
}

/// Regression: the response to a conditional write compared each static column with each condition,
/// and nothing looked at the clock.
#[test]
fn a_conditional_write_is_charged_for_its_conditions() {
    let (mut server, _) = nested_fields(1, 1);
    // The first condition does not hold, so the others are not evaluated.
    let conditions = vec!["v = 1"; 100].join(" AND ");
    let update = format!("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF {conditions}");
    server.interrupt = cancelled();
    assert_ends_soon(&update, WRITE_TIMEOUT, || error(&mut server, &update));
}

/// Regression: sorting 200,000 decimals of a set computed a power of ten with 157,000 digits for
/// each comparison.
#[test]
fn a_write_that_is_interrupted_while_it_sorts_a_value_writes_nothing() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, s set<decimal>, m frozen<map<decimal, int>>)",
    ]);
    // 1e9, 1e8, and so on.
    let decimals: Vec<Vec<u8>> = (-9..9_i32)
        .map(|scale| [&scale.to_be_bytes()[..], &[1]].concat())
        .collect();
    let set = elements::build(decimals.iter().map(Vec::as_slice));
    let int = 1_i32.to_be_bytes();
    let map = elements::build_map(decimals.iter().map(|key| (&key[..], &int[..])));
    for (column, value) in [("s", &set), ("m", &map)] {
        let text = format!("INSERT INTO t (k, {column}) VALUES (1, ?)");
        let prepared = server.prepare(&text).unwrap();
        let value = [Value::Bytes(value)];
        server.interrupt = cancelled();
        assert_ends_soon(column, WRITE_TIMEOUT, || {
            server.bind(&prepared, &value).unwrap_err()
        });
        server.interrupt = never();
        assert_eq!(server.rows("SELECT k FROM t"), "", "{column}");
    }
}

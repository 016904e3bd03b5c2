//! The limits of a statement: its time, its memory, and the size of numbers.

use std::sync::Arc;

use ebb_cql::protocol::{
    BatchKind, Consistency, ErrorKind, ErrorResponse, QueryParameters, Value, Values, ValuesBuf,
};
use ebb_model::types::elements;
use ebb_test_support::cases::parse_cases;

use super::harness::Server;
use crate::analyse::selection::ResultColumn;
use crate::call::{Call, RequestAnalysis, ResponseMemory, Service, Statement};
use crate::functions::digits_units;
use crate::interrupt::tests::{cancelled, charged};
use crate::interrupt::{self, TimeOut};
use crate::memory::BYTES_MAX;
use crate::system::Lookup;
use crate::testing::never;

/// The most units of work (about a microsecond each) that a statement does after its deadline: the
/// work until the clock is read next, or a single operation.
const UNITS_MAX: u64 = 2_000;

const READ_TIMEOUT: i32 = 0x1200;
const WRITE_TIMEOUT: i32 = 0x1100;

/// Returns the numbers from 0 on, `count` of them, separated by commas.
fn numbers(count: i32) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// Returns the text `count` times, separated by commas.
fn times(count: usize, text: &str) -> String {
    vec![text; count].join(", ")
}

fn server() -> Server {
    let list = numbers(40);
    let map: Vec<String> = (0..40).map(|key| format!("{key}: {key}")).collect();
    let map = map.join(", ");
    let mut server = Server::with(&[
        "CREATE TABLE wide (a int, b int, c int, v int, PRIMARY KEY (a, b, c))",
        "CREATE TABLE one (k int PRIMARY KEY, b int, d decimal, v varint, l list<int>, \
         m map<int, int>)",
        "CREATE TABLE found (k int PRIMARY KEY, v int)",
        "CREATE INDEX ON found (v)",
        "CREATE TABLE filtered (a int, b int, c int, PRIMARY KEY (a, b, c))",
        "INSERT INTO filtered (a, b, c) VALUES (1, 1, 999)",
    ]);
    server.run(&format!(
        "INSERT INTO one (k, b, d, v, l, m) VALUES (1, 1, 1e9000, {}, [{list}], {{{map}}})",
        "7".repeat(1000)
    ));
    for number in 0..20 {
        server.run(&format!(
            "INSERT INTO wide (a, b, c, v) VALUES (1, {number}, 0, 0)"
        ));
        server.run(&format!("INSERT INTO found (k, v) VALUES ({number}, 1)"));
    }
    server
}

fn error(server: &mut Server, text: &str) -> ErrorResponse {
    let prepared = server.prepare(text).unwrap();
    let ended = server.execute(&prepared, QueryParameters::default());
    ended.err().unwrap_or_else(|| panic!("{text} is executed"))
}

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
    let cases = [
        "INSERT INTO one (k, d) VALUES (2, (decimal) 1e9999 / 7)".to_owned(),
        format!(
            "INSERT INTO one JSON '{{\"k\": 2, \"l\": [{}]}}'",
            numbers(40)
        ),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            "INSERT INTO one (k, b) VALUES (1 + 1, 2 + 3); ".repeat(20)
        ),
        format!(
            "UPDATE one SET b = 7 WHERE k = 1 IF b = {}",
            times(40, "1").replace(", ", " + ")
        ),
        "UPDATE wide SET v = 7 WHERE a IN (1, 2, 3, 4) AND b IN (1, 2) AND c IN (0, 1)".to_owned(),
        "DELETE FROM wide WHERE a IN (1, 2, 3, 4) AND b IN (1, 2) AND c IN (0, 1)".to_owned(),
        "UPDATE one SET l[0] = 7 WHERE k = 1".to_owned(),
        "UPDATE one SET l = l - [1, 2] WHERE k = 1".to_owned(),
        format!("UPDATE one SET l = l + [{}] WHERE k = 1", numbers(40)),
        format!("UPDATE one SET m = m - {{{}}} WHERE k = 1", numbers(40)),
    ];
    for text in cases {
        server.interrupt = cancelled();
        assert_ends_soon(&text, WRITE_TIMEOUT, || error(&mut server, &text));
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

/// Regression: DESCRIBE of one table or index computed the statements of all tables of the
/// keyspace.
#[test]
fn a_description_of_one_object_is_charged_for_no_other_object() {
    let mut server = server();
    for number in 0..40 {
        server.run(&format!("CREATE TABLE t{number} (k int PRIMARY KEY)"));
    }
    for text in ["DESCRIBE TABLE wide", "DESCRIBE INDEX found_v_idx"] {
        let units = units_of(&mut server, text, &[]);
        assert!((1..20).contains(&units), "{text}: {units}");
    }
}

/// Regression: the rows of a virtual table were computed in full before the limit on their size was
/// checked. The error then called the result too large, although that of `count(*)` is small.
#[test]
fn the_computed_rows_of_a_virtual_table_have_a_limited_size() {
    let server = server();
    let executor = &server.executor;
    let table = executor.system.table("system_schema", "columns").unwrap();
    let facts = executor.facts(&executor.catalog().state(), &server.user);
    let facts = facts.unwrap();
    let computed = |bytes_max| table.rows(&facts, &Lookup::default(), bytes_max);
    assert!(computed(1 << 20).is_ok());
    let (error, units) = charged(|| computed(1 << 10).unwrap_err());
    assert!(
        error.message.starts_with(
            "The rows that the server computes for the statement have more than 1024 bytes"
        ),
        "{error:?}"
    );
    assert!(units < 20, "{units}");
}

/// Regression: ALTER TABLE with thousands of columns ran for minutes, past its time-out, and other
/// changes of the schema waited.
#[test]
fn an_interrupted_change_of_many_columns_changes_nothing() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    let names: Vec<String> = (0..100).map(|number| format!("c{number}")).collect();
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

/// Regression: each of a million elements was compared with each of two million values to remove.
#[test]
fn removing_values_from_a_list_takes_few_comparisons() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, l list<int>)"]);
    server.run(&format!(
        "INSERT INTO t (k, l) VALUES (1, [{}])",
        numbers(2000)
    ));
    let remove = format!("UPDATE t SET l = l - [{}] WHERE k = 1", numbers(1999));
    let ((), units) = charged(|| server.run(&remove));
    assert!((20_000..100_000).contains(&units), "{units}");
    assert_eq!(server.rows("SELECT toJson(l) FROM t"), "[1999]");
}

/// The type of a nested call chooses the function around it, so the analysis of each level looks at
/// all levels inside of it. If it did so twice, each further level would double the work.
#[test]
fn the_analysis_of_nested_calls_is_quadratic_in_their_depth() {
    let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, d date)"]);
    let levels = 90;
    let floor = |of: String, _| format!("floor({of}, 1d)");
    let nested = (0..levels).fold("currentDate()".to_owned(), floor);
    let insert = format!("INSERT INTO t (k, d) VALUES (1, {nested})");
    let (prepared, units) = charged(|| server.prepare(&insert));
    assert!(prepared.is_ok());
    assert!(units <= levels * levels, "{units}");
}

/// Creates a table with a column of a user-defined type that has `fields` fields and is nested in
/// `levels` lists. Also returns the literal of a value that names each field once.
fn nested_fields(fields: usize, levels: usize) -> (Server, String) {
    let names: Vec<String> = (0..fields).map(|number| format!("f{number}")).collect();
    let ty = (0..levels).fold("frozen<u>".to_owned(), |of, _| {
        format!("frozen<list<{of}>>")
    });
    let server = Server::with(&[
        &format!("CREATE TYPE u ({} int)", names.join(" int, ")),
        &format!(
            "CREATE TABLE t (k int, c int, s int STATIC, v int, l list<int>, u {ty}, \
             PRIMARY KEY (k, c))"
        ),
    ]);
    let literal = format!("{{{}: null}}", names.join(": null, "));
    let literal = (0..levels).fold(literal, |of, _| format!("[{of}]"));
    (server, literal)
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

/// Regression: the analysis checked all parts of a literal again at each level of its nesting.
#[test]
fn the_parts_of_a_nested_literal_are_checked_once() {
    let (server, literal) = nested_fields(100, 20);
    let insert = format!("INSERT INTO t (k, c, u) VALUES (?, ?, {literal})");
    let (prepared, units) = charged(|| server.prepare(&insert));
    assert!(prepared.is_ok());
    assert!((120..200).contains(&units), "{units}");
}

/// Returns the bytes that a statement takes beyond what is proportional to its text, for example
/// for the types of its markers.
fn memory_bytes(server: &Server, text: &str) -> usize {
    let prepared = server.prepare(text);
    let prepared = prepared.unwrap_or_else(|error| panic!("{text}: {error}"));
    // The cache of prepared statements counts them.
    assert!(prepared.size_bytes() >= prepared.memory_bytes);
    prepared.memory_bytes
}

/// Regression: each mention of a column, and each marker, repeats its type in the metadata. With a
/// type of thousands of fields, statements of 2 MB took gigabytes.
#[test]
fn the_metadata_of_a_statement_have_a_limited_size() {
    let (mut server, _) = nested_fields(4000, 0);
    let select = |count: usize| format!("SELECT {} FROM t", times(count, "u"));
    let of_select = [1, 2].map(|count| memory_bytes(&server, &select(count)));
    let of_column = of_select[1] - of_select[0];
    // Each field has a name of at least two letters with its length, and the id of a type.
    assert!(of_column > 4000 * 6, "{of_column}");
    let of_all = memory_bytes(&server, "SELECT * FROM t");
    assert!(
        of_all > of_column + 6 * size_of::<ResultColumn>(),
        "{of_all}"
    );
    let update = |count: usize| {
        let markers = times(count, "?");
        format!("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF u IN ({markers})")
    };
    let of_update = [1, 2].map(|count| memory_bytes(&server, &update(count)));
    // A marker has the name of its receiver in the plan, too.
    assert_eq!(of_update[1] - of_update[0], of_column + 1);
    let many = BYTES_MAX / of_column + 1;
    let refused = server.refused(&select(many));
    assert!(
        refused.starts_with("The statement takes more than 67108864 bytes"),
        "{refused}"
    );
}

/// Regression: selecting a field passes all fields before it, and was charged for none of them.
/// Statements with hundreds of thousands of such selectors ran past their time-outs.
#[test]
fn a_selected_field_is_charged_for_the_fields_before_it() {
    let (mut server, literal) = nested_fields(1000, 0);
    server.run(&format!("INSERT INTO t (k, c, u) VALUES (1, 1, {literal})"));
    let select =
        |field: &str| format!("SELECT {} FROM t WHERE k = 1 AND c = 1", times(1000, field));
    let of_last = units_of(&mut server, &select("u.f999"), &[]);
    assert!(of_last >= 1000 * 1000 / 512, "{of_last}");
    let of_first = units_of(&mut server, &select("u.f0"), &[]);
    assert!(of_last >= of_first + 900, "{of_last} and {of_first}");
    let prepared = server.prepare(&select("u.f999")).unwrap();
    server.interrupt = cancelled();
    let (ended, units) = charged(|| server.execute(&prepared, QueryParameters::default()));
    let error = ended.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::ReadTimeout { .. }),
        "{error:?}"
    );
    assert!(units < 100, "{units}");
}

/// Regression: only the memory of each text of a batch was limited, not that of all texts together.
#[test]
fn the_texts_of_a_batch_have_a_limited_size_together() {
    let (server, _) = nested_fields(4000, 0);
    let markers = times(400, "?");
    let update = format!("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF u IN ({markers})");
    let own = memory_bytes(&server, &update);
    let mut analysis = RequestAnalysis::default();
    let most = BYTES_MAX / own;
    for _ in 0..most {
        server.prepare_in(&update, &mut analysis).unwrap();
    }
    let error = server.prepare_in(&update, &mut analysis).unwrap_err();
    assert_eq!(
        error.message,
        "The statements of the batch take more than 67108864 bytes beyond their own words; send them \
         in several batches"
    );
    assert!(most > 1, "{own}");
}

/// Regression: after a change of the schema, a batch analysed its prepared statements again, and
/// counted their memory, which the cache of prepared statements limits already. So the batch was
/// refused at the first attempt.
#[test]
fn a_batch_does_not_count_the_memory_of_prepared_statements() {
    let (mut server, _) = nested_fields(4000, 0);
    let (values, markers) = (ValuesBuf::from_iter([Value::Null; 400]), times(400, "?"));
    let update =
        |v: usize| format!("UPDATE t SET v = {v} WHERE k = 1 AND c = 1 IF u IN ({markers})");
    let count = BYTES_MAX / memory_bytes(&server, &update(0)) + 1;
    let prepared = (0..count).map(|v| Arc::new(server.prepare(&update(v)).unwrap()));
    let statements: Vec<_> = prepared.map(|one| (one, values.as_values())).collect();
    server.run("ALTER TABLE t ADD w int");
    server.batch(BatchKind::Unlogged, &statements).unwrap();
}

/// Regression: each INSERT JSON among the texts of a batch had the keys and changes of all columns of
/// its table, about 750 KB for 5,000 columns.
#[test]
fn the_insert_json_texts_of_a_batch_share_their_keys_and_changes() {
    let names: Vec<String> = (0..1000).map(|number| format!("c{number}")).collect();
    let columns = names.join(" int, ");
    let server = Server::with(&[&format!(
        "CREATE TABLE t (k int PRIMARY KEY, {columns} int)"
    )]);
    let insert = "INSERT INTO t JSON ?";
    let own = memory_bytes(&server, insert);
    let mut analysis = RequestAnalysis::default();
    let texts = [insert; 40].map(|text| server.prepare_in(text, &mut analysis).unwrap());
    let all: usize = texts.iter().map(|prepared| prepared.memory_bytes).sum();
    assert!(all < 2 * own, "{own}, {all}");
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

/// Regression: a write whose text has long constants, which `--request-bytes-max` may allow, was
/// refused under the limit for short texts. A longer text raises the limit, but only once, even if
/// a short request mentions the prepared statement thousands of times.
#[test]
fn the_text_of_a_statement_raises_the_limit_of_its_write_once() {
    let mut server = Server::with(&["CREATE TABLE b (k int PRIMARY KEY, v blob)"]);
    let value = "00".repeat(1 << 20);
    let message = |text: &str| {
        let limit = (64 << 20) + 4 * text.len();
        format!("The write takes more than {limit} bytes with its keys")
    };
    let text = format!("UPDATE b SET v = 0x{value} WHERE k IN ({})", numbers(100));
    let refused = server.refused(&text);
    assert!(refused.starts_with(&message(&text)), "{refused}");
    let text = format!("UPDATE b SET v = 0x{value} WHERE k = 1");
    let prepared = Arc::new(server.prepare(&text).unwrap());
    let statements = vec![(prepared, Values::default()); 100];
    let error = server.batch(BatchKind::Unlogged, &statements).unwrap_err();
    assert!(error.message.starts_with(&message(&text)), "{error}");
}

/// Regression: a literal of a user-defined type took memory for each field that it omits, 16 KB for
/// `{f0: 1}` of a type with 4,000 fields, and nothing counted it.
#[test]
fn the_omitted_fields_of_literals_are_counted() {
    let (server, _) = nested_fields(4000, 1);
    let insert = |count: usize, literal: &str| {
        let literals = times(count, literal);
        format!("INSERT INTO t (k, c, u) VALUES (1, 1, [{literals}])")
    };
    // The name of the marker's receiver is in the plan and, with a length and a type, in the metadata.
    let of_marker = 2 * "value(u).f0".len() + 2 + 2;
    for (literal, beside) in [("{f0: 1}", 0), ("{f0: ?}", of_marker)] {
        let [one, two] = [1, 2].map(|count| memory_bytes(&server, &insert(count, literal)));
        assert_eq!(two - one, 4 * 3999 + beside, "{literal}");
    }
}

/// Regression: each call of `fromJson` had a limit of its own for the nulls of omitted fields, and the
/// results of a statement with many calls took gigabytes at once.
#[test]
fn the_results_of_the_calls_in_a_statement_have_a_limited_size_together() {
    let (mut server, _) = nested_fields(4000, 2);
    // An object becomes 16 KB of nulls, and one call half of the limit.
    let call = format!("fromJson('[{}]')", times(2200, "{}"));
    let lists = times(2, &call);
    let refused = server.refused(&format!("INSERT INTO t (k, c, u) VALUES (1, 1, [{lists}])"));
    assert!(
        refused.starts_with("The statement takes more than 67108864 bytes"),
        "{refused}"
    );
}

/// Regression: ALTER TABLE and ALTER TYPE multiplied the memory of prepared statements, and the
/// cache still counted only what they took at PREPARE.
#[test]
fn a_statement_that_grows_much_has_to_be_prepared_again() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
    let prepared = ["SELECT * FROM t", "INSERT INTO t JSON ?"];
    let prepared = prepared.map(|text| server.prepare(text).unwrap());
    let are_current = |server: &Server| {
        let is_current = |prepared| server.executor.is_current(prepared);
        prepared.each_ref().map(is_current)
    };
    server.run("ALTER TABLE t ADD v int");
    assert_eq!(are_current(&server), [true; 2]);
    let names: Vec<String> = (0..500).map(|number| format!("v{number}")).collect();
    server.run(&format!("ALTER TABLE t ADD ({} int)", names.join(" int, ")));
    assert_eq!(are_current(&server), [false; 2]);
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

/// Regression: the ranges of keys are computed by a recursion over the columns, and with some
/// thousand of them the stack overflowed, which ended the server.
#[test]
fn a_relation_by_order_names_a_bounded_number_of_columns() {
    let names: Vec<String> = (0..129).map(|number| format!("c{number}")).collect();
    let direction =
        |(number, name): (usize, &String)| format!("{name} {}", ["ASC", "DESC"][number % 2]);
    let order: Vec<String> = names.iter().enumerate().map(direction).collect();
    let create = format!(
        "CREATE TABLE t (k int, {} int, PRIMARY KEY (k, {})) WITH CLUSTERING ORDER BY ({})",
        names.join(" int, "),
        names.join(", "),
        order.join(", ")
    );
    let mut server = Server::with(&[&create]);
    server.run(&format!(
        "INSERT INTO t (k, {}) VALUES (1, {})",
        names.join(", "),
        times(129, "2")
    ));
    let select = |count: usize, operator: &str| {
        let (columns, values) = (names[..count].join(", "), times(count, "1"));
        format!("SELECT k FROM t WHERE k = 1 AND ({columns}) {operator} ({values})")
    };
    assert_eq!(server.rows(&select(128, ">")), "1");
    assert_eq!(server.rows(&select(128, "<=")), "");
    assert_eq!(server.rows(&select(129, "=")), "");
    assert_eq!(
        server.refused(&select(129, ">")),
        "A relation with > names at most 128 columns"
    );
}

/// Regression: only the combinations of the IN values were counted, not the ranges that a following
/// `>` makes of each (one per column), and a few kilobytes of IN lists became gigabytes of ranges.
#[test]
fn the_ranges_of_in_and_a_relation_by_order_have_a_bounded_number() {
    let names: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let direction =
        |(number, name): (usize, &String)| format!("{name} {}", ["ASC", "DESC"][number % 2]);
    let order: Vec<String> = names.iter().enumerate().map(direction).collect();
    let columns = names.join(", ");
    let mut server = Server::with(&[&format!(
        "CREATE TABLE t (k int, a int, b int, {} int, PRIMARY KEY (k, a, b, {columns})) WITH \
         CLUSTERING ORDER BY (a ASC, b ASC, {})",
        names.join(" int, "),
        order.join(", ")
    )]);
    // Each of the `count` * `count` prefixes has 20 ranges, one for each column behind it.
    let rows = |count: i32| {
        let (list, ones) = (numbers(count), times(20, "1"));
        format!("FROM t WHERE k = 1 AND a IN ({list}) AND b IN ({list}) AND ({columns}) > ({ones})")
    };
    assert_eq!(server.rows(&format!("SELECT k {}", rows(2))), "");
    for verb in ["SELECT k", "DELETE"] {
        assert_eq!(
            server.refused(&format!("{verb} {}", rows(60))),
            "The IN relations of a statement may name 65536 keys at most"
        );
    }
}

#[test]
fn a_write_names_a_bounded_number_of_rows_in_all_its_partitions() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b))"]);
    let (some, many) = (numbers(256), numbers(257));
    let where_in = |a: &str, b: &str| format!("WHERE a IN ({a}) AND b IN ({b})");
    for text in [
        format!("UPDATE t SET v = 1 {}", where_in(&some, &many)),
        format!("DELETE v FROM t {}", where_in(&many, &some)),
        format!("DELETE FROM t {}", where_in(&some, &many)),
    ] {
        assert_eq!(
            server.refused(&text),
            "The IN relations of a statement may name 65536 keys at most"
        );
    }
    // The same number of rows is permitted in one partition, or one row in each of as many
    // partitions.
    server.run(&format!("DELETE FROM t {}", where_in("1", &many)));
    server.run(&format!("DELETE FROM t {}", where_in(&many, "1")));
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

/// Returns a decimal whose digits take a quarter of a millisecond to write out.
fn long_decimal(scale: i32) -> Vec<u8> {
    [&scale.to_be_bytes()[..], &[7; 1000]].concat()
}

/// Executes a statement with the bound values `bound`, and returns the units of work (about a
/// microsecond each) that the statement was charged for.
fn units_of(server: &mut Server, text: &str, bound: &[&[u8]]) -> u64 {
    let prepared = server.prepare(text).unwrap();
    let values: Vec<_> = bound.iter().map(|value| Value::Bytes(value)).collect();
    let (ended, units) = charged(|| server.bind(&prepared, &values));
    ended.unwrap_or_else(|error| panic!("{text}: {error}"));
    units
}

/// Regression: filters, elements and aggregates computed a power of ten for each comparison of
/// decimals with different scales, but only the time to copy the decimals counted towards the
/// statement's timeout.
#[test]
fn a_read_is_charged_for_the_power_of_ten_of_each_comparison() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, d decimal, l list<decimal>, s set<decimal>, \
         m map<int, decimal>, f map<decimal, int>)",
    ]);
    let (same, other) = (long_decimal(0), long_decimal(1));
    let list = elements::build([&same[..]]);
    let int = 1_i32.to_be_bytes();
    let of_ints = elements::build_map([(&int[..], &same[..])]);
    let of_decimals = elements::build_map([(&same[..], &int[..])]);
    units_of(
        &mut server,
        "INSERT INTO t (k, d, l, s, m, f) VALUES (1, ?, ?, ?, ?, ?)",
        &[&same, &list, &list, &of_ints, &of_decimals],
    );
    // The charge for a comparison between scales. Otherwise the two executions of a statement
    // hardly differ.
    let power_units = 100;
    for text in [
        "SELECT k FROM t WHERE d > ? ALLOW FILTERING",
        "SELECT k FROM t WHERE l CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE s CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE m CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE m[1] = ? ALLOW FILTERING",
        "SELECT k FROM t WHERE f CONTAINS KEY ? ALLOW FILTERING",
        "SELECT f[?] FROM t WHERE k = 1",
        "SELECT f[?..] FROM t WHERE k = 1",
    ] {
        let of_same = units_of(&mut server, text, &[&same]);
        let of_other = units_of(&mut server, text, &[&other]);
        assert!(
            of_other >= of_same + power_units,
            "{text}: {of_same}, {of_other}"
        );
    }
    let insert = "INSERT INTO t (k, d) VALUES (?, ?)";
    for (k, decimal) in [(2_i32, &same), (3, &other)] {
        units_of(&mut server, insert, &[&k.to_be_bytes(), decimal]);
    }
    for function in ["min", "max"] {
        let of = |k: i32| format!("SELECT {function}(d) FROM t WHERE k IN (1, {k})");
        let of_same = units_of(&mut server, &of(2), &[]);
        let of_other = units_of(&mut server, &of(3), &[]);
        assert!(
            of_other >= of_same + power_units,
            "{function}: {of_same}, {of_other}"
        );
    }
}

/// Regression: elements and slices of collections were copied without a charge. The statements count
/// the values, so that the response is the same for long and short ones.
#[test]
fn a_copy_of_an_element_or_a_slice_is_charged_for_its_bytes() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, m map<int, text>, f frozen<map<int, text>>, \
         s set<text>)",
    ]);
    let (one, two) = (1_i32.to_be_bytes(), 2_i32.to_be_bytes());
    let (long, short) = (vec![b'a'; 60 << 10], b"b");
    let map = elements::build_map([(&one[..], &long[..]), (&two[..], &short[..])]);
    let set = elements::build([&long[..], &short[..]]);
    units_of(
        &mut server,
        "INSERT INTO t (k, m, f, s) VALUES (1, ?, ?, ?)",
        &[&map, &map, &set],
    );
    for (of_long, of_short) in [
        ("m[1]", "m[2]"),
        ("f[1]", "f[2]"),
        ("m[..1]", "m[2..]"),
        ("f[..1]", "f[2..]"),
        ("s[..'ab']", "s['b'..]"),
    ] {
        let mut units = |part: &str| {
            let text = format!("SELECT count({part}) FROM t WHERE k = 1");
            units_of(&mut server, &text, &[])
        };
        let (long_units, short_units) = (units(of_long), units(of_short));
        // Each charge for the bytes of the long value is 61 units: one for the copy, one in `count`.
        assert!(
            long_units >= short_units + 100,
            "{of_long}: {long_units}, {of_short}: {short_units}"
        );
    }
}

/// Regression: the decimals of a set, of a map's keys and of clustering columns were computed from their
/// stored digits without a charge, so reads of them outlasted their timeout.
#[test]
fn decoding_decimals_is_charged_for_their_digits() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, s set<decimal>, m map<decimal, int>)",
        "CREATE TABLE c (k int, d decimal, PRIMARY KEY (k, d))",
        "CREATE TABLE i (k int PRIMARY KEY, s set<decimal>)",
        "CREATE INDEX ON i (s)",
    ]);
    // The numbers are odd, so none of them ends with a zero, and their paths alone are stored.
    let decimal = |first: u8| [&[0, 0, 0, 0, first][..], &[7; 999]].concat();
    let decimals: Vec<Vec<u8>> = (1..=10).map(decimal).collect();
    let set = elements::build(decimals.iter().map(Vec::as_slice));
    let int = 1_i32.to_be_bytes();
    let map = elements::build_map(decimals.iter().map(|key| (&key[..], &int[..])));
    let insert = "INSERT INTO t (k, v, s, m) VALUES (1, 1, ?, ?)";
    units_of(&mut server, insert, &[&set, &map]);
    for key in &decimals {
        let insert = "INSERT INTO c (k, d) VALUES (1, ?)";
        units_of(&mut server, insert, &[key]);
    }
    let least = 10 * digits_units(decimals[0].len());
    for text in [
        "SELECT s FROM t WHERE k = 1",
        "SELECT m FROM t WHERE k = 1",
        "SELECT s FROM t",
        "SELECT k FROM t WHERE s CONTAINS 1 ALLOW FILTERING",
        "UPDATE t SET v = 2 WHERE k = 1 IF m = {1: 1}",
        "UPDATE t SET v = 2 WHERE k = 1 IF v = 3 AND s = {1}",
        "INSERT INTO t (k) VALUES (1) IF NOT EXISTS",
        "SELECT d FROM c WHERE k = 1",
        "SELECT d FROM c",
    ] {
        let units = units_of(&mut server, text, &[]);
        assert!(units >= least, "{text}: {units}, at least {least}");
    }
    // Each member is encoded, and then decoded for the limit on the length of an indexed value.
    let update = "UPDATE i SET s = s + ? WHERE k = 1";
    let units = units_of(&mut server, update, &[&set]);
    assert!(units >= 2 * least, "{update}: {units}");
}

/// Regression: a million rows of several partitions were sorted after the walk, and no timeout
/// interrupted the sort.
#[test]
fn a_read_is_charged_for_each_comparison_of_its_sort() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))"]);
    // The rows of 1 and 2 alternate, those of 4 come after those of 3.
    for b in 100..140 {
        let (mixed, ascending) = (1 + b % 2, 3 + i32::from(b >= 120));
        for a in [mixed, ascending] {
            server.run(&format!("INSERT INTO t (a, b) VALUES ({a}, {b})"));
        }
    }
    let sorted = |a: &str| format!("SELECT b FROM t WHERE a IN ({a}) ORDER BY b");
    let ascending = units_of(&mut server, &sorted("3, 4"), &[]);
    let mixed = units_of(&mut server, &sorted("1, 2"), &[]);
    assert!(mixed >= ascending + 10, "{ascending}, {mixed}");
    let expected: Vec<String> = (100..140).map(|b| b.to_string()).collect();
    assert_eq!(server.rows(&sorted("1, 2")), expected.join(" | "));
}

/// Encoding a key is charged to the statement. Regression: a text in a set was charged as if its
/// bytes were the digits of a number, which take longer. Decimals in a key were charged only after
/// all of them had been encoded.
#[test]
fn a_key_of_a_collection_is_charged_for_the_decimals_in_it() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, s set<text>, m map<text, int>, \
         ds set<frozen<list<decimal>>>, dm map<frozen<list<decimal>>, int>)",
    ]);
    let text = vec![b'x'; 50_000];
    let decimals = vec![long_decimal(0); 50];
    let list = elements::build(decimals.iter().map(Vec::as_slice));
    let digits_units = 50 * 246;
    let key = |server: &mut Server, column: &str, key: &[u8]| {
        let update = format!("UPDATE t SET {column}[?] = 1 WHERE k = 1");
        units_of(server, &update, &[key])
    };
    let set = |server: &mut Server, column: &str, member: &[u8]| {
        let insert = format!("INSERT INTO t (k, {column}) VALUES (1, ?)");
        units_of(server, &insert, &[&elements::build([member])])
    };
    for (what, of_text, of_decimals) in [
        (
            "key",
            key(&mut server, "m", &text),
            key(&mut server, "dm", &list),
        ),
        (
            "member",
            set(&mut server, "s", &text),
            set(&mut server, "ds", &list),
        ),
    ] {
        assert!(of_text < 5_000, "{what}: {of_text}");
        assert!(of_decimals >= digits_units, "{what}: {of_decimals}");
    }
}

/// Regression: the sum of 1e1000000000 and 1.5 was computed with a billion digits, which never
/// ended. With two such statements no user's scan got a response.
#[test]
fn a_sum_of_decimals_has_the_limits_of_an_operator() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, d decimal)",
        "INSERT INTO t (k, d) VALUES (1, 1e1000000000)",
        "INSERT INTO t (k, d) VALUES (2, 1.5)",
    ]);
    let refused = "
        SELECT sum(d) FROM t
        => the function 'sum(decimal)' failed: a number has more than 10000 places
        SELECT avg(d) FROM t
        => the function 'avg(decimal)' failed: a number has more than 10000 places
        SELECT d + d FROM t WHERE k = 1
        => the operation 'decimal + decimal' failed: a number has more than 10000 places
    ";
    for [text, message] in parse_cases(refused) {
        let error = error(&mut server, text);
        assert_eq!(error.message, message);
        assert_eq!(error.kind.code(), 0x1400, "{text}");
    }
    let steps = "
        // Comparisons do not write the digits out.
        SELECT min(d), count(d) FROM t => 1.5 2
        SELECT k FROM t WHERE d > 1e999999999 ALLOW FILTERING => 1
        // Ten thousand digits are the limit, both before and after the point.
        INSERT INTO t (k, d) VALUES (1, 1e9999) => done
        SELECT sum(d) FROM t WHERE k = 2 => 1.5
        INSERT INTO t (k, d) VALUES (2, 1e-9999) => done
        SELECT sum(d) FROM t
        => the function 'sum(decimal)' failed: a number has more than 10000 digits
    ";
    server.check(steps);
}

/// Each step of an average divides a number with all digits of the average, even if the number of
/// the row has one digit.
#[test]
fn each_step_of_an_average_is_charged_for_the_digits_of_the_average() {
    let mut server =
        Server::with(&["CREATE TABLE t (k int, c int, d decimal, PRIMARY KEY (k, c))"]);
    let insert = "INSERT INTO t (k, c, d) VALUES (1, 0, ?)";
    units_of(&mut server, insert, &[&long_decimal(0)]);
    for c in 1..=20 {
        server.run(&format!("INSERT INTO t (k, c, d) VALUES (1, {c}, 1)"));
    }
    let average = |server: &mut Server, rows: &str| {
        let select = format!("SELECT avg(d) FROM t WHERE k = 1 AND {rows}");
        units_of(server, &select, &[])
    };
    let short = average(&mut server, "c > 0");
    let long = average(&mut server, "c >= 0");
    // A number of a thousand bytes has 249 units.
    assert!(long >= short + 20 * 240, "{short}, {long}");
}

#[test]
fn numbers_with_too_many_digits_are_not_written_as_text() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v varint, d decimal)"]);
    // Two bytes have fewer than five digits.
    let long = "ff01".repeat(21_000);
    let insert = format!(
        "INSERT INTO t (k, v, d) VALUES (1, blobAsVarint(0x{long}), blobAsDecimal(0x00000000{long}))"
    );
    server.run(&insert);
    for ty in ["varint", "decimal"] {
        let column = &ty[..1];
        for select in [format!("toJson({column})"), format!("JSON {column}")] {
            assert_eq!(
                server.refused(&format!("SELECT {select} FROM t")),
                format!("the function 'tojson({ty})' failed: a number has more than 100000 digits")
            );
        }
    }
    // Everything else works.
    assert_eq!(
        server.rows("SELECT k FROM t WHERE v < 0 ALLOW FILTERING"),
        "1"
    );
    assert_eq!(server.rows("SELECT count(v), count(d) FROM t"), "1 1");
}

/// Returns a server whose reads may buffer at most 4 KiB.
fn small() -> Server {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))"]);
    for b in 0..10 {
        let text = "x".repeat(1000);
        server.run(&format!(
            "INSERT INTO t (a, b, v) VALUES (1, {b}, '{text}')"
        ));
    }
    server.limit_results(4096);
    server
}

#[test]
fn a_read_that_needs_too_much_memory_is_rejected() {
    let mut server = small();
    let refused = [
        "SELECT v FROM t".to_owned(),
        "SELECT JSON v FROM t".to_owned(),
        "SELECT v FROM t WHERE a IN (1, 2) ORDER BY b".to_owned(),
        "SELECT JSON v FROM t WHERE a IN (1, 2) ORDER BY b".to_owned(),
        "SELECT b, max(v) FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b".to_owned(),
        // Three finished groups, and a fourth in memory.
        "SELECT max(v) FROM t WHERE a = 1 GROUP BY a, b LIMIT 4".to_owned(),
        format!("SELECT {} FROM t WHERE a = 1 AND b = 1", times(5, "v")),
        format!("SELECT {} FROM t WHERE a = 1", times(5, "max(v)")),
        format!("SELECT count(*), {} FROM t WHERE a = 1", times(5, "v")),
        "SELECT v + v + v + v + v FROM t WHERE a = 1 AND b = 1".to_owned(),
        // Values that are no part of the result: each `toJson` doubles the backslashes.
        format!(
            "SELECT count({}v{}) FROM t WHERE a = 1 AND b = 1",
            "toJson(".repeat(20),
            ")".repeat(20)
        ),
        "SELECT count((v + v) + ((v + v) + v)) FROM t WHERE a = 1 AND b = 1".to_owned(),
    ];
    for text in refused {
        assert_eq!(
            server.refused(&text),
            "The result has more than 4096 bytes; ask for fewer rows or columns, or for pages",
            "{text}"
        );
    }
    assert_eq!(server.rows("SELECT count(v) FROM t"), "10");
    let within = "SELECT count(toJson(toJson(v))), count((v + v) + (v + v)) FROM t";
    assert_eq!(server.rows(within), "10 10");
    let limited = "SELECT b FROM t WHERE a IN (1, 2) ORDER BY b LIMIT 1";
    assert_eq!(server.rows(limited), "0");
    // Rows that were written to the response no longer count.
    let sorted = "SELECT v FROM t WHERE a IN (1, 2) AND b < 3 ORDER BY b";
    assert_eq!(server.rows(sorted).split(" | ").count(), 3);
    let page = server.page("SELECT v FROM t", &[], Some(2), None).unwrap();
    assert_eq!((page.rows.len(), page.state.is_some()), (2, true));
}

/// Regression: only the bytes of values were compared with the limit, not the four bytes before each
/// value. A result of nulls grew to 2 GiB, where the server panicked.
#[test]
fn nulls_and_empty_values_count_towards_the_size_of_a_result() {
    let mut server = small();
    let select =
        |count: usize| format!("SELECT {} FROM t WHERE a = 1 AND b = 1", times(count, "v"));
    for value in ["null", "''"] {
        server.run(&format!("UPDATE t SET v = {value} WHERE a = 1 AND b = 1"));
        assert_eq!(
            server.refused(&select(1025)),
            "The result has more than 4096 bytes; ask for fewer rows or columns, or for pages",
            "{value}"
        );
        let page = server.page(&select(1024), &[], None, None).unwrap();
        assert_eq!(page.rows[0].len(), 1024, "{value}");
    }
}

/// Regression: the bytes that a read copies into its response were not charged. A statement that
/// selects a long value 255 times copied 255 MiB between two looks at the clock.
#[test]
fn a_read_is_charged_for_each_copy_of_a_value() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v text)"]);
    let text = "x".repeat(64 << 10);
    server.run(&format!("INSERT INTO t (k, v) VALUES (1, '{text}')"));
    let select = |count: usize| format!("SELECT {} FROM t WHERE k = 1", times(count, "v"));
    let once = units_of(&mut server, &select(1), &[]);
    let often = units_of(&mut server, &select(16), &[]);
    assert!(often >= once + 15 * 64, "{often} and {once}");
}

/// The memory for a response of at most 8 KiB.
#[derive(Debug)]
struct EightKib;

impl ResponseMemory for EightKib {
    fn grow(&self, bytes: usize) -> Result<(), ErrorResponse> {
        if bytes > 8 << 10 {
            return Err(ErrorResponse::overloaded("no memory"));
        }
        Ok(())
    }
}

/// Asserts that a read fails for lack of memory if its response may take at most 8 KiB.
#[track_caller]
fn assert_without_memory(server: &Server, select: &str) {
    let prepared = server.prepare(select).unwrap();
    let ended = server.answer(QueryParameters::default(), |call, out| {
        let memory: Option<&dyn ResponseMemory> = Some(&EightKib);
        let call = Call {
            memory,
            ..call.clone()
        };
        let ended = server.executor.execute(&prepared, &call, out);
        assert!(out.len() < 20_000, "{}", out.len());
        ended
    });
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Overloaded, "{select}");
}

/// Regression: a response took memory only when it was finished, with up to 256 MiB.
#[test]
fn a_read_without_memory_ends_while_it_writes_its_response() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v text)"]);
    let text = "x".repeat(1000);
    server.run(&format!("INSERT INTO t (k, v) VALUES (1, '{text}')"));
    let select = format!("SELECT {} FROM t WHERE k = 1", times(100, "v"));
    assert_without_memory(&server, &select);
}

/// Regression: only the response took memory. Each of many reads at once could have 256 MiB of rows
/// to sort, or of states of aggregates, beside the memory for all results.
#[test]
fn a_read_without_memory_ends_while_it_buffers_rows_or_aggregates_them() {
    let mut server = Server::with(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"]);
    let text = "x".repeat(1000);
    for c in 0..20 {
        let k = c % 2;
        server.run(&format!(
            "INSERT INTO t (k, c, v) VALUES ({k}, {c}, '{text}')"
        ));
    }
    // The responses are short: one row of a kilobyte, or nulls, as `+` with an empty text is null.
    for select in [
        "SELECT v FROM t WHERE k IN (0, 1) ORDER BY c LIMIT 1".to_owned(),
        "SELECT JSON v FROM t WHERE k IN (0, 1) ORDER BY c LIMIT 1".to_owned(),
        "SELECT max(v) FROM t WHERE k IN (0, 1) GROUP BY k, c ORDER BY c LIMIT 1".to_owned(),
        format!("SELECT {} FROM t", times(20, "max(v) + ''")),
    ] {
        let page = server.page(&select, &[], None, None).unwrap();
        assert_eq!(page.rows.len(), 1, "{select}");
        assert_without_memory(&server, &select);
    }
}

#[test]
fn the_keys_of_in_have_a_bounded_total_length() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a text, b text, c text, d text, PRIMARY KEY ((a, b), c, d))",
    ]);
    let texts = |count: usize| -> String {
        let text = |number| format!("'{number}{}'", "x".repeat(1000));
        (0..count).map(text).collect::<Vec<_>>().join(", ")
    };
    let (few, many) = (texts(2), texts(250));
    let message =
        "The IN relations of a statement may name keys of 67108864 bytes together at most";
    for (a, c) in [(&many, &few), (&few, &many)] {
        let select = format!(
            "SELECT * FROM t WHERE a IN ({a}) AND b IN ({a}) AND c IN ({c}) AND d IN ({c})"
        );
        assert_eq!(server.refused(&select), message);
    }
    let select = format!(
        "SELECT * FROM t WHERE a IN ({few}) AND b IN ({few}) AND c IN ({many}) AND d > 'x'"
    );
    assert_eq!(server.rows(&select), "");
}

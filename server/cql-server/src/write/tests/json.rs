//! INSERT JSON.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, Value, ValuesBuf};
use ebb_test_support::cases::parse_cases;

use super::harness::{bound, session};
use crate::executor::harness::Server;
use crate::write::RequestAnalysis;

const T: &str = "CREATE TABLE t (k int, c text, s int STATIC, v int, m map<int, text>, \"V\" blob, \
                 PRIMARY KEY (k, c))";

#[test]
fn a_json_text_provides_the_values_of_all_columns() {
    let session = session(&[T]);
    session.write(
        r#"INSERT INTO t JSON '{"k": 1, "c": "a", "S": 3, "v": "4", "m": {"5": "x"}, "\"V\"": "0xff"}'"#,
    );
    let row = "k 1, c 'a', V 0xff, m {5: 'x'}, v 4";
    assert_eq!(session.show("t"), ["k 1, s 3", row]);
    // Columns that are not in the text become null, or stay.
    session.write(r#"INSERT INTO t JSON '{"k": 1, "c": "a", "v": 5}' DEFAULT UNSET"#);
    assert_eq!(session.show("t"), ["k 1, s 3", &row.replace("v 4", "v 5")]);
    session.write(r#"INSERT INTO t JSON '{"k": 1, "c": "a", "v": null}' DEFAULT UNSET"#);
    assert_eq!(session.show("t")[1], "k 1, c 'a', V 0xff, m {5: 'x'}");
    session.write(r#"INSERT INTO t JSON '{"k": 1, "c": "a"}'"#);
    assert_eq!(session.show("t"), ["k 1, c 'a'"]);
}

#[test]
fn a_name_with_quotes_or_capitals_wins_over_the_plain_one() {
    let session = session(&[T]);
    for (names, v) in [
        (r#""v": 4, "V": 5"#, 5),
        (r#""V": 6, "v": 4"#, 6),
        (r#""\"v\"": 7, "v": 4"#, 7),
        (r#""v": 4, "\"v\"": 8"#, 8),
    ] {
        session.write(&format!(
            r#"INSERT INTO t JSON '{{"k": 1, "c": "a", {names}}}'"#
        ));
        assert_eq!(session.show("t"), [format!("k 1, c 'a', v {v}")], "{names}");
    }
}

#[test]
fn a_json_text_can_be_bound_and_used_in_a_batch() {
    let session = session(&[T]);
    let text = Value::Bytes(br#"{"k": 2, "c": "", "v": 7}"#);
    let ttl = Value::Bytes(&[0, 0, 0, 9]);
    session.bind("INSERT INTO t JSON ? USING TTL ?", &[text, ttl]);
    assert_eq!(session.show("t"), ["k 2, c '', v 7"]);
    session.bind(
        "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (?, 'x', 1); INSERT INTO t JSON ?; \
         UPDATE t SET v = ? WHERE k = 2 AND c = 'x'; APPLY BATCH",
        &[ttl, text, ttl],
    );
    let rows = ["k 2, c '', v 7", "k 2, c 'x', v 9", "k 9, c 'x', v 1"];
    let mut shown = session.show("t");
    shown.sort();
    assert_eq!(shown, rows);
}

/// Regression: the INSERT JSON statements of a batch shared one plan even if their texts had
/// different numbers of markers, and with them different indexes of the values from JSON. So a
/// statement wrote the text that was bound to its marker, or the value of another column, as the
/// key. After a change of the schema, a prepared statement kept the wrong plan.
#[test]
fn the_json_inserts_of_a_batch_may_have_different_numbers_of_markers() {
    let mut server = Server::with(&["CREATE TABLE t (k text, c text, v int, PRIMARY KEY (k, c))"]);
    let texts = [
        r#"INSERT INTO t JSON '{"k": "p", "c": "a", "v": 1}'"#,
        "INSERT INTO t JSON ?",
        "INSERT INTO t JSON ? USING TTL ?",
    ];
    let second = Value::Bytes(br#"{"k": "p", "c": "b", "v": 2}"#);
    let third = Value::Bytes(br#"{"k": "p", "c": "c", "v": 3}"#);
    let ttl = Value::Bytes(&[0, 0, 0, 9]);
    let values = [bound(&[]), bound(&[second]), bound(&[third, ttl])];
    let mut analysis = RequestAnalysis::default();
    let unprepared = texts.map(|text| server.prepare_in(text, &mut analysis).unwrap());
    let prepared = texts.map(|text| server.prepare(text).unwrap());
    for (is_altered, statements) in [(false, unprepared), (true, prepared)] {
        if is_altered {
            // The batch analyses the prepared statements again.
            server.run("ALTER TABLE t ADD w int");
        }
        let values = values.iter().map(ValuesBuf::as_values);
        let statements: Vec<_> = statements.into_iter().map(Arc::new).zip(values).collect();
        server.batch(BatchKind::Unlogged, &statements).unwrap();
        let rows = server.rows("SELECT k, c, v, ttl(v) FROM t");
        assert_eq!(rows, "p a 1 null | p b 2 null | p c 3 9");
        server.run("DELETE FROM t WHERE k = 'p'");
    }
}

#[test]
fn invalid_rows_get_cassandras_errors() {
    let session = session(&[T]);
    let cases = r#"
        null => Got null for INSERT JSON values
        [1] => Could not decode JSON string as a map:
        { => Could not decode JSON string as a map:
        {"k": 1, "c": "a", "x": 1} => JSON values map contains unrecognized column: x
        {"k": 1, "c": 1} => Error decoding JSON value for c: Expected a UTF-8 string
        {"c": "a"} => Invalid null value in condition for column k
        {"k": 1} => Invalid null value in condition for column c
    "#;
    for [text, message] in parse_cases(cases) {
        let of_text = session.refusal(&format!("INSERT INTO t JSON '{text}'"));
        assert!(of_text.starts_with(message), "{text}: {of_text}");
        let bound = session.refusal_of("INSERT INTO t JSON ?", &[Value::Bytes(text.as_bytes())]);
        assert_eq!(bound, of_text);
    }
    assert!(session.show("t").is_empty());
}

//! The memory of statements: of their plans, metadata and constants.

use ebb_cql::protocol::ValuesBuf;

use super::*;
use crate::analyse::selection::ResultColumn;
use crate::call::{RequestAnalysis, Statement};
use crate::memory::BYTES_MAX;

/// The begin of the error of a statement that takes more than [`BYTES_MAX`].
const TOO_LARGE: &str = "The statement takes more than 67108864 bytes";

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
    assert!(refused.starts_with(TOO_LARGE), "{refused}");
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
    let columns = columns(1000).join(" int, ");
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
    assert!(refused.starts_with(TOO_LARGE), "{refused}");
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
    let names = columns(500);
    server.run(&format!("ALTER TABLE t ADD ({} int)", names.join(" int, ")));
    assert_eq!(are_current(&server), [false; 2]);
}

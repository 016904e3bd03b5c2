//! Values of relations that are null or unset.

use ebb_cql::protocol::Value;
use ebb_model::types::elements;
use ebb_test_support::cases::parse_cases;

use crate::executor::harness::Server;

/// Returns the message with which the server refuses a SELECT with bound values.
fn refusal(server: &mut Server, text: &str, values: &[Value<'_>]) -> String {
    let prepared = server
        .prepare(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    match server.bind(&prepared, values) {
        Ok(_) => panic!("{text} is not refused"),
        Err(error) => error.message,
    }
}

/// The words are those of Cassandra's `SelectMultiColumnRelationTest`,
/// `SelectSingleColumnRelationTest` and `SelectTest`.
#[test]
fn nulls_and_unset_values_in_restrictions_get_cassandras_words() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, b int, c int, d int, v int, s text, l frozen<list<int>>, \
         m map<int, int>, PRIMARY KEY (k, b, c, d))",
        "CREATE INDEX ON t (s)",
    ]);
    let one = Value::Bytes(&1_i32.to_be_bytes());
    let with_null = elements::build_tuple([Some(&1_i32.to_be_bytes()[..]), None]);
    let (with_null, one_and_null) = ([Value::Bytes(&with_null)], [one, Value::Null]);
    let cases = "
        k = ? => null => Invalid null value in condition for column k
        k IN (1, ?) => null => Invalid null value in condition for column k
        k IN ? => null => Invalid null value for column k
        k = ? => unset => Invalid unset value for column k
        k IN ? => unset => Invalid unset value for column k
        token(k) > ? => null => Invalid null token value
        k = 0 AND b > ? => null => Invalid null value in condition for column b
        k = 0 AND b IN ? => unset => Invalid unset value for column b
        k = 0 AND (b, c) > (?, ?) => 1 and null => Invalid null value in condition for column c
        k = 0 AND (b, c) > ? => (1, null) => Invalid null value in condition for column c
        k = 0 AND (b, c) = (?, ?) => 1 and null => Invalid null value for column c
        k = 0 AND (b, c) = ? => (1, null) => Invalid null value for column c
        k = 0 AND b = 1 AND (c, d) = (1, ?) => null => Invalid null value for column d
        k = 0 AND (b, c) IN ((1, ?)) => null => Invalid null value for column c
        k = 0 AND (b, c) IN ((1, ?), (2, 3)) => null
        => Invalid null value in condition for columns: [b, c]
        k = 0 AND (b, c) IN ? => null => Invalid null value for IN restriction
        k = 0 AND (b, c) IN ? => unset => Invalid unset value for in(b,c)
        (b, c) = (?, 1) => unset => Invalid unset value for tuple field number 0
        (b, c) IN ((?, 1)) => unset => Invalid unset value for tuple field number 0
        k = 0 AND (b, c) > (1, ?) => unset => Invalid unset value for tuple field number 1
        (b, c) = ? => unset => Invalid unset value for tuple (b,c)
        k = 0 AND b = 1 AND (c) > ? => unset => Invalid unset value for tuple (c)
        (b, c) IN (?, (1, 1)) => unset => Invalid unset value for tuple (b,c)
        c = ? => null => Unsupported null value for column c
        v = ? => null => Unsupported null value for column v
        v > ? => unset => Unsupported unset value for column v
        s = ? => null => Unsupported null value for column s
        l CONTAINS ? => null => Unsupported null value for column l
        m CONTAINS KEY ? => unset => Unsupported unset value for column m
        m[1] = ? => null => Unsupported null map value for column m
    ";
    for [relation, values, message] in parse_cases(cases) {
        let values: &[Value<'_>] = match values {
            "null" => &[Value::Null],
            "unset" => &[Value::Unset],
            "(1, null)" => &with_null,
            "1 and null" => &one_and_null,
            _ => panic!("{values}"),
        };
        let text = format!("SELECT * FROM t WHERE {relation} ALLOW FILTERING");
        assert_eq!(refusal(&mut server, &text, values), message, "{text}");
    }
}

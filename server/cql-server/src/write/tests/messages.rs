//! The errors of invalid writes, as in Cassandra.

use ebb_test_support::cases::parse_cases;

use super::harness::session;

#[test]
fn writes_that_do_not_fit_the_table_get_cassandras_errors() {
    let session = session(&[
        "CREATE TABLE t (k int, c int, d int, s int STATIC, v int, l list<int>, m map<int, int>, \
         f frozen<list<int>>, e set<int>, p tuple<int, int>, \
         PRIMARY KEY (k, c, d))",
        "CREATE TABLE n (k int PRIMARY KEY, v counter)",
    ]);
    let cases = "
        INSERT INTO t (k, c) VALUES (1) => Unmatched column names/values
        INSERT INTO t (k, c, d, k) VALUES (1, 1, 1, 1) => The column names contains duplicates
        INSERT INTO t (k, x) VALUES (1, 1) => Undefined column name x in table app.t
        INSERT INTO t (c, d) VALUES (1, 1) => Some partition key parts are missing: k
        INSERT INTO t (k, v) VALUES (1, 1) => Some clustering keys are missing: c, d
        INSERT INTO t (k, c, v) VALUES (1, 1, 1) => Some clustering keys are missing: d
        UPDATE t SET c = 1 WHERE k = 1 => PRIMARY KEY part c found in SET part
        UPDATE t SET v = 1 WHERE c = 1 AND d = 1 => Some partition key parts are missing: k
        UPDATE t SET v = 1 WHERE k = 1 AND d = 1 => Some clustering keys are missing: c
        UPDATE t SET v = 1 WHERE k = 1 AND c > 1
        => Slice restrictions are not supported on the clustering columns in UPDATE statements
        UPDATE t SET v = 1 WHERE k > 1 AND c = 1 AND d = 1
        => Only EQ and IN relation are supported on the partition key (unless you use the token() \
           function) for UPDATE statements
        UPDATE t SET v = 1 WHERE token(k) = 1
        => The token function cannot be used in WHERE clauses for UPDATE statements
        UPDATE t SET s = 1 WHERE k = 1 AND c = 1 AND d = 1
        => Invalid restrictions on clustering columns since the UPDATE statement modifies only \
           static columns
        UPDATE t SET v = 1 WHERE k = 1 AND k = 2 AND c = 1 AND d = 1
        => k cannot be restricted by more than one relation if it includes an Equal
        DELETE k FROM t WHERE k = 1
        => Invalid identifier k for deletion (should not be a PRIMARY KEY part)
        DELETE v FROM t WHERE k = 1 AND c = 1
        => Range deletions are not supported for specific columns
        DELETE FROM t WHERE k = 1 AND d = 1
        => PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted
        DELETE FROM t WHERE k = 1 AND c > 1 AND d = 1
        => Clustering column \"d\" cannot be restricted (preceding column \"c\" is restricted by a \
           non-EQ relation)
        DELETE FROM t WHERE k = 1 AND c > 1 AND c > 2
        => More than one restriction was found for the start bound on c
        DELETE v[1] FROM t WHERE k = 1 AND c = 1 AND d = 1
        => Invalid deletion operation for non collection column v
        DELETE f[1] FROM t WHERE k = 1 AND c = 1 AND d = 1
        => Invalid deletion operation for frozen collection column f
        UPDATE t SET v = v + 1 WHERE k = 1 AND c = 1 AND d = 1
        => Invalid operation (v = v + 1) for non counter column v
        DELETE FROM t WHERE k CONTAINS 1 AND c = 1 => Cannot use DELETE with CONTAINS
        UPDATE t SET v = 1 WHERE k = 1 AND m CONTAINS KEY 1 => Cannot use UPDATE with CONTAINS KEY
        DELETE FROM t WHERE k = 1 AND d = 1 AND c > 1
        => PRIMARY KEY column \"d\" cannot be restricted (preceding column \"c\" is restricted by \
           a non-EQ relation)
        UPDATE t SET p = p + (1, 1) WHERE k = 1 AND c = 1 AND d = 1
        => Invalid operation (p = p + (1, 1)) for tuple column p
        UPDATE t SET f = f + [1] WHERE k = 1 AND c = 1 AND d = 1
        => Invalid operation (f = f + [1]) for frozen collection column f
        UPDATE t SET e[1] = 1 WHERE k = 1 AND c = 1 AND d = 1
        => Invalid operation (e[1] = 1) for set column e
        UPDATE t SET m[null] = 1 WHERE k = 1 AND c = 1 AND d = 1 => Invalid null map key
        UPDATE t USING TTL -1 SET v = 1 WHERE k = 1 AND c = 1 AND d = 1
        => A TTL must be greater or equal to 0, but was -1
        UPDATE t USING TTL 630720001 SET v = 1 WHERE k = 1 AND c = 1 AND d = 1
        => ttl is too large. requested (630720001) maximum (630720000)
        UPDATE t USING TIMESTAMP -9223372036854775808 SET v = 1 WHERE k = 1 AND c = 1 AND d = 1
        => Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]
    ";
    let with_space = [
        "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND d = 1 AND v = 1",
        "Non PRIMARY KEY columns found in where clause: v ",
    ];
    for [text, message] in parse_cases(cases).into_iter().chain([with_space]) {
        assert_eq!(session.refusal(text), message, "{text}");
    }
    assert!(session.show("t").is_empty());
}

/// Regression: relations on columns outside of the key, and slices of the partition key, were found
/// before the faults that Cassandra finds first, and a DELETE of columns from a partition had the
/// error of an UPDATE.
#[test]
fn writes_with_several_faults_get_the_error_that_cassandra_finds_first() {
    let session = session(&[
        "CREATE TABLE t (p1 int, p2 int, c int, d int, s int STATIC, v int, w int, \
         PRIMARY KEY ((p1, p2), c, d))",
    ]);
    let cases = "
        UPDATE t SET v = 1 WHERE p1 > 0 => Some partition key parts are missing: p2
        DELETE FROM t WHERE p1 > 0 AND w = 1 => Some partition key parts are missing: p2
        DELETE FROM t WHERE p1 = 1 AND p2 > 0 AND w = 1
        => Only EQ and IN relation are supported on the partition key (unless you use the token() \
           function) for DELETE statements
        UPDATE t SET v = 1 WHERE token(p1, p2) = 1 AND w = 1
        => The token function cannot be used in WHERE clauses for UPDATE statements
        UPDATE t SET s = 1 WHERE p1 = 1 AND p2 = 1 AND c > 1 AND w = 1
        => Invalid restrictions on clustering columns since the UPDATE statement modifies only \
           static columns
        UPDATE t SET v = 1 WHERE p1 = 1 AND p2 = 1 AND c > 1 AND w = 1
        => Slice restrictions are not supported on the clustering columns in UPDATE statements
        UPDATE t SET v = 1 WHERE p1 = 1 AND p2 = 1 AND d = 1 AND w = 1
        => Some clustering keys are missing: c
        DELETE FROM t WHERE p1 = 1 AND p2 = 1 AND d = 1 AND w = 1
        => PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted
        DELETE v FROM t WHERE p1 = 1 AND p2 = 1 IF v = 1
        => DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
           order to delete non static columns
        DELETE v FROM t WHERE p1 = 1 AND p2 = 1
        => Range deletions are not supported for specific columns
        DELETE s, v FROM t WHERE p1 = 1 AND p2 = 1
        => Range deletions are not supported for specific columns
        DELETE v FROM t WHERE p1 = 1 AND p2 = 1 AND c = 1
        => Range deletions are not supported for specific columns
        DELETE v FROM t WHERE p1 = 1 AND p2 = 1 AND c = 1 AND d > 1
        => Range deletions are not supported for specific columns
    ";
    let with_space = [
        "DELETE v FROM t WHERE p1 = 1 AND p2 = 1 AND c = 1 AND w = 1 IF v = 1",
        "Non PRIMARY KEY columns found in where clause: w ",
    ];
    for [text, message] in parse_cases(cases).into_iter().chain([with_space]) {
        assert_eq!(session.refusal(text), message, "{text}");
    }
    assert!(session.show("t").is_empty());
}

/// Regression: values that do not fit got other messages than in Cassandra: the operands of `+` and
/// `-` of a map, calls of aggregate functions, and literals behind a type hint.
#[test]
fn values_that_do_not_fit_get_cassandras_errors() {
    let session =
        session(&["CREATE TABLE t (k int PRIMARY KEY, v int, w bigint, m map<text, int>)"]);
    let cases = "
        UPDATE t SET m = m + {1} WHERE k = 1
        => Value for a map addition has to be a map, but was: '{1}'
        UPDATE t SET m = m + {'a': 'b'} WHERE k = 1
        => Value for a map addition has to be a map, but was: '{'a': 'b'}'
        UPDATE t SET m = m - {'v1': 1} WHERE k = 1
        => Value for a map substraction has to be a set, but was: '{'v1': 1}'
        UPDATE t SET m = m - {1} WHERE k = 1
        => Value for a map substraction has to be a set, but was: '{1}'
        INSERT INTO t (k, v) VALUES (1, max(1))
        => Aggregation function are not supported in the where clause
        INSERT INTO t (k, w) VALUES (1, system.count(1))
        => Aggregation function are not supported in the where clause
        INSERT INTO t (k, v) VALUES (1, 1 + sum((int) 1))
        => Aggregation function are not supported in the where clause
        UPDATE t SET v = 1 WHERE k = avg(1)
        => Aggregation function are not supported in the where clause
        INSERT INTO t (k, v) VALUES (1, (int) 'a') => Cannot cast value 'a' to type int
        INSERT INTO t (k, m) VALUES (1, (map<text, int>) {1: 2})
        => Cannot cast value {1: 2} to type map<text, int>
        INSERT INTO t (k, v) VALUES (1, (text) 'a')
        => Cannot assign value (text) 'a' to v of type int
    ";
    for [text, message] in parse_cases(cases) {
        assert_eq!(session.refusal(text), message, "{text}");
    }
    assert!(session.show("t").is_empty());
    session.write("UPDATE t SET m = m + {'a': 1, 'b': 2} WHERE k = 1");
    session.write("UPDATE t SET m = m - {'a'} WHERE k = (int) 1");
    assert_eq!(session.show("t"), ["k 1, m {'b': 2}"]);
}

/// The error names the outermost literal that contains a part of the wrong type. A literal behind a
/// type hint is checked on its own, when it is prepared. An unknown field has its own error, which
/// comes after those of the other fields.
///
/// Regression: a nested literal with an unknown field got the error of a part of the wrong type. A
/// nested literal that gave a field first a value that does not fit and then one that does got this
/// error, too. Cassandra accepts it.
#[test]
fn parts_of_literals_get_cassandras_errors_at_every_depth() {
    let session = session(&[
        "CREATE TYPE u (b int, a text)",
        "CREATE TABLE t (k int PRIMARY KEY, l list<frozen<list<int>>>, m map<text, frozen<list<int>>>, \
         p tuple<int, frozen<list<int>>>, u frozen<u>, w list<frozen<u>>)",
    ]);
    let cases = "
        l => [[1], [2, 'x']]
        => Invalid list literal for l: value [2, 'x'] is not of type frozen<list<int>>
        l => [[1, null]] => null is not supported inside collections
        l => [(list<int>) ['x']] => Cannot cast value ['x'] to type list<int>
        m => {'x': [1.5]} => Invalid map literal for m: value [1.5] is not of type frozen<list<int>>
        p => (1, ['x']) => Invalid tuple literal for p: component 1 is not of type frozen<list<int>>
        u => {b: 'x'} => Invalid user type literal for u: field b is not of type int
        u => {c: 1} => Unknown field 'c' in value of user defined type u
        u => {c: 1, b: 'x'} => Invalid user type literal for u: field b is not of type int
        w => [{b: 1, c: 2}] => Unknown field 'c' in value of user defined type u
        w => [{c: 2, b: 'x'}]
        => Invalid list literal for w: value {c: 2, b: 'x'} is not of type frozen<u>
        w => [{b: 1, b: 'x'}]
        => Invalid list literal for w: value {b: 1, b: 'x'} is not of type frozen<u>
    ";
    for [column, literal, message] in parse_cases(cases) {
        let text = format!("INSERT INTO t (k, {column}) VALUES (1, {literal})");
        assert_eq!(session.refusal(&text), message, "{text}");
    }
    assert!(session.show("t").is_empty());
    // If a field is given twice, the last value is used.
    for (column, twice, once) in [
        ("u", "{b: 'x', a: 'y', b: 1}", "{a: 'y', b: 1}"),
        ("w", "[{b: 'x', b: 1}]", "[{b: 1}]"),
    ] {
        let insert = |literal: &str| format!("INSERT INTO t (k, {column}) VALUES (1, {literal})");
        session.write(&insert(twice));
        let shown = session.show("t");
        session.write(&insert(once));
        assert_eq!(session.show("t"), shown, "{column}");
    }
}

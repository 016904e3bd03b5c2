//! Values that statements compute: calls, casts, operators, and times.

use super::*;

/// Regression: each level of nested calls doubled the time of the analysis, which no timeout could
/// end. So a short SELECT held a thread of the server for days.
#[test]
fn each_level_of_nested_calls_is_analysed_once() {
    let mut server = squares();
    let row = "FROM t WHERE a = 1 AND b = 1 AND c = 1";
    let calls = |of: &str| {
        let level = |of: String, _| format!("blobAsInt(intAsBlob({of}))");
        (0..24).fold(of.to_owned(), level)
    };
    let of_column = format!("SELECT {} AS x {row}", calls("v"));
    assert_eq!(server.rows(&of_column), "111");
    // A constant in parentheses has the type of the argument.
    let of_constant = format!("SELECT {} AS x {row}", calls("(7)"));
    assert_eq!(server.rows(&of_constant), "7");
    let of_marker = format!("SELECT {} AS x {row}", calls("?"));
    let bound = 9_i32.to_be_bytes();
    let page = server.page(&of_marker, &[Some(&bound[..])], None, None);
    assert_eq!(page.unwrap().rows, [["9"]]);
}

/// Regression: hints with user-defined types were refused as unknown types.
#[test]
fn a_hint_names_the_user_defined_types_of_the_table() {
    let mut server = Server::with(&[
        "CREATE TYPE pair (a int, b text)",
        "CREATE TYPE other (a int)",
        "CREATE TABLE t (k int PRIMARY KEY, p frozen<pair>, l list<frozen<pair>>)",
        "INSERT INTO t (k, p, l) VALUES (1, (pair) {a: 1}, [(ks.pair) {a: 2}])",
    ]);
    let steps = r#"
        SELECT toJson(p), toJson(l), toJson((pair) p) FROM t
        => {\"a\": 1, \"b\": null} [{\"a\": 2, \"b\": null}] {\"a\": 1, \"b\": null}
        SELECT (other) p FROM t => Unknown type other: no column of the table has it
        INSERT INTO t (k, p) VALUES (1, (other) {a: 1})
        => Unknown type other: the value has type frozen<pair>
    "#;
    server.check(steps);
}

#[test]
fn functions_use_the_time_of_the_statement() {
    let mut server = squares();
    let select = "SELECT toUnixTimestamp(currentTimestamp()) AS t FROM t WHERE a = 4";
    assert_eq!(server.rows(select), "1700000000000");
    server.clock.advance_ms(5);
    assert_eq!(server.rows(select), "1700000000005");
    let day = "SELECT toDate(currentTimeUUID()) AS d FROM t WHERE a = 4";
    assert_eq!(server.rows(day), "2023-11-14");
}

#[test]
fn operators_compute_as_in_cassandra() {
    let mut server = Server::with(&[
        "CREATE TABLE n (a tinyint, b smallint, c int, d bigint, e float, f double, g varint, \
         h decimal, i text, j timestamp, k date, PRIMARY KEY (a))",
    ]);
    server.run(
        "INSERT INTO n (a, b, c, d, e, f, g, h, i, j, k) VALUES (1 + 2 * 3 - 6, 2, 1 + 2, 4, 5.5, \
         13 / 2.0, 7, 8.5, 'x' + 'y', '2016-01-31 00:00Z', '2016-01-31')",
    );
    let cases = "
        a + a, b + a, c + b, d + c => 2 3 5 7
        e + a, f - e, g * e, h / c => 6.5 1.0 38.5 2.83333333333333333333333333333333
        h / 200000000000000000000000000000000000 => 4.25E-35
        // Regression: a factor of 1.00 did not add its places to the product, and a subtraction did
        // not keep those of 0.00.
        h * (decimal) 1.00, (decimal) 1.00 * h => 8.500 8.500
        h - (decimal) 0.00, (decimal) 0.00 - h, h + (decimal) 0.00 => 8.50 -8.50 8.50
        // Regression: a remainder had the places of its divisor, whatever the quotient was.
        h % (decimal) 10.00, (decimal) 50 % (decimal) 2.50, (decimal) 53 % (decimal) 2.50
        => 8.5 0.0 0.50
        c / 2, -c / 2, c % 2, -c % 2, h % c => 1 -1 1 -1 2.5
        a + 1.5, (c + 1) * 2, -(a + b) => 2.5 8 -3
        i + '!' => xy!
        // Regression: an empty operand was a text, as in Cassandra 5.
        i + '', '' + i, '' + '' => null null null
        c + (int) null, (text) null + i => null null
        g - 9223372036854775808 => -9223372036854775801
        CAST(j + 1mo AS text) => 2016-02-29T00:00:00.000Z
        CAST(j - 1y1d2h AS text) => 2015-01-29T22:00:00.000Z
        CAST(k + 1mo1d AS text) => 2016-03-01
        CAST(k - 2mo AS text) => 2015-11-30
    ";
    for [select, row] in parse_cases(cases) {
        let rows = server.rows(&format!("SELECT {select} FROM n"));
        assert_eq!(rows, row, "{select}");
    }
    let steps = "
        UPDATE n SET d = (bigint) 7 + -1, c = 17 % 10 WHERE a = 2 - 1 => done
        SELECT c, d FROM n WHERE a = 3 - 2 => 7 6
        SELECT a + ? FROM n
        => Ambiguous '+' operation with args a and ?: use type hint to disambiguate, example \
           '(int) ?'
        UPDATE n SET c = 2 * (? + 1) WHERE a = 1
        => Ambiguous '+' operation with args ? and 1: use type hint to disambiguate, example \
           '(int) ?'
        // Regression: only a marker without parentheses got this error.
        SELECT (?) + 1 FROM n
        => Ambiguous '+' operation with args (?) and 1: use type hint to disambiguate, example \
           '(int) ?'
        SELECT null + 1 FROM n
        => Ambiguous '+' operation with args NULL and 1: use type hint to disambiguate, example \
           '(int) ?'
        SELECT -null FROM n => Ambiguous negation: use type casts to disambiguate
        SELECT i - i FROM n => the '-' operation is not supported between i and i
        SELECT i + a FROM n => the '+' operation is not supported between i and a
        SELECT -i FROM n => the '-' operation is not supported for text
        SELECT c / 0 FROM n => the operation 'int / int' failed: / by zero
        SELECT g % (a - a) FROM n
        => the operation 'varint % tinyint' failed: BigInteger divide by zero
        SELECT k + 1h FROM n
        => the operation 'date + duration' failed: The duration must have a day precision. Was: 1h
        // Regression: this number of nanoseconds was ignored.
        SELECT k - 9223372036854775807ns FROM n
        => the operation 'date - duration' failed: The duration must have a day precision. Was: \
           2562047h47m16s854ms775us807ns
        SELECT h * (decimal) 1e20000 FROM n
        => the operation 'decimal * decimal' failed: a number has more than 10000 places
    ";
    server.check(steps);
}

/// In version 5 of the protocol a request may contain the present time (`now_in_seconds`), from
/// which TTLs count.
#[test]
fn a_request_may_have_its_own_time() {
    const THEN_S: i32 = 2_000_000_000;
    let mut server = Server::with(&["CREATE TABLE a (k int PRIMARY KEY, v int)"]);
    let mut cells = |text: &str, now_s| {
        let prepared = server.prepare(text).unwrap();
        let parameters = QueryParameters {
            now_s,
            ..QueryParameters::default()
        };
        match server.execute(&prepared, parameters).unwrap() {
            Response::Rows(rows) => rows.cells().map(|cell| cell.map(<[u8]>::to_vec)).collect(),
            _ => Vec::<Option<Vec<u8>>>::new(),
        }
    };
    let none: [Option<Vec<u8>>; 0] = [];
    let insert = "INSERT INTO a (k, v) VALUES (1, 1) USING TTL 10";
    assert_eq!(cells(insert, Some(THEN_S)), none);
    let select = "SELECT ttl(v) FROM a WHERE k = 1";
    let five = vec![0, 0, 0, 5];
    assert_eq!(cells(select, Some(THEN_S + 5)), [Some(five)]);
    assert_eq!(cells(select, Some(THEN_S + 10)), none);
    assert_eq!(cells(select, None).len(), 1);
    assert_eq!(cells("SELECT v FROM a", Some(THEN_S + 10)), none);
    let update = "UPDATE a SET v = 2 WHERE k = 1 IF EXISTS";
    assert_eq!(cells(update, Some(THEN_S + 10)), [Some(vec![0])]);
    assert_eq!(cells(update, Some(THEN_S + 9)), [Some(vec![1])]);
}

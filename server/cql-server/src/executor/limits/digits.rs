//! The number of digits with which a statement computes.

use super::*;

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

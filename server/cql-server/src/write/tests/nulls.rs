//! Nulls and unset values within bound values.

use ebb_cql::protocol::Value;
use ebb_test_support::cases::parse_cases;

use super::harness::session;
use crate::executor::harness::Server;

/// Returns the bytes of a collection with one element, whose length field is `len`, followed by
/// `rest`. A negative length stands for null.
fn one(len: i32, rest: &[u8]) -> Vec<u8> {
    [&1_i32.to_be_bytes()[..], &len.to_be_bytes(), rest].concat()
}

#[test]
fn a_null_within_a_bound_collection_is_rejected() {
    let session = session(&[
        "CREATE TABLE t (k int PRIMARY KEY, l list<int>, e set<int>, m map<int, int>, \
         f frozen<list<int>>, d frozen<set<int>>, p tuple<int, frozen<list<int>>>)",
    ]);
    const REFUSED: &str = "Null value read when not allowed";
    let key: [u8; 12] = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7];
    let null_value = [&key[..], &(-1_i32).to_be_bytes()].concat();
    for len in [-1, -2, i32::MIN] {
        for column in ["l", "e", "f", "d"] {
            let insert = format!("INSERT INTO t (k, {column}) VALUES (1, ?)");
            let value = one(len, &[]);
            assert_eq!(
                session.refusal_of(&insert, &[Value::Bytes(&value)]),
                REFUSED
            );
        }
        for text in [
            "UPDATE t SET l = l + ? WHERE k = 1",
            "UPDATE t SET e = e + ? WHERE k = 1",
        ] {
            let value = one(len, &[]);
            assert_eq!(session.refusal_of(text, &[Value::Bytes(&value)]), REFUSED);
        }
        let insert = "INSERT INTO t (k, m) VALUES (1, ?)";
        let null_key = one(len, &[0, 0, 0, 0]);
        assert_eq!(
            session.refusal_of(insert, &[Value::Bytes(&null_key)]),
            REFUSED
        );
        assert_eq!(
            session.refusal_of(insert, &[Value::Bytes(&null_value)]),
            REFUSED
        );
        // A null in a list in a tuple. A null of the tuple itself is valid.
        let inner = one(len, &[]);
        let inner_len = i32::try_from(inner.len()).unwrap().to_be_bytes();
        let tuple = [&len.to_be_bytes()[..], &inner_len, &inner].concat();
        let insert = "INSERT INTO t (k, p) VALUES (1, ?)";
        assert_eq!(session.refusal_of(insert, &[Value::Bytes(&tuple)]), REFUSED);
        let tuple = [&len.to_be_bytes()[..], &len.to_be_bytes()].concat();
        session.bind(insert, &[Value::Bytes(&tuple)]);
    }
    assert_eq!(session.show("t"), ["k 1, p (null, null)"]);
}

/// In Cassandra the list of `IN ?` may contain nulls. The meaning of these nulls depends on where
/// IN is used.
#[test]
fn a_null_in_the_list_of_in_is_valid_for_if_and_invalid_for_keys() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, v int, w int, x text, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, w) VALUES (1, 1, 1)",
    ]);
    let null = one(-1, &[]);
    let empty = one(0, &[]);
    let five = one(4, &5_i32.to_be_bytes());
    let mut applied = |column: &str, list: &[u8]| {
        let text = format!("UPDATE t SET w = 1 WHERE k = 1 AND c = 1 IF {column} IN ?");
        let page = server.page(&text, &[Some(list)], None, None).unwrap();
        page.rows[0][0].clone()
    };
    assert_eq!(applied("v", &null), "true");
    assert_eq!(applied("v", &five), "false");
    assert_eq!(applied("w", &null), "false");
    // Python's driver sends a null in a list as an empty element, which is no number but is a text.
    assert_eq!(applied("v", &empty), "true");
    assert_eq!(applied("w", &empty), "false");
    assert_eq!(applied("x", &empty), "false");
    let cases = "
        SELECT w FROM t WHERE k IN ? => Invalid null value in condition for column k
        SELECT w FROM t WHERE k = 1 AND c IN ? => Invalid null value in condition for column c
        DELETE FROM t WHERE k = 1 AND c IN ? => Invalid null value in condition for column c
        SELECT w FROM t WHERE w IN ? ALLOW FILTERING => Unsupported null value for column w
    ";
    for [text, message] in parse_cases(cases) {
        for list in [&null, &empty] {
            let page = server.page(text, &[Some(list)], None, None);
            assert_eq!(page.unwrap_err().message, message);
        }
    }
}

#[test]
fn unset_parts_get_cassandras_errors() {
    let session = session(&[
        "CREATE TYPE u (a int, b int)",
        "CREATE TABLE t (k int PRIMARY KEY, v int, p tuple<int, int>, f frozen<u>)",
    ]);
    let cases = "
        INSERT INTO t (k, p) VALUES (1, (2, ?)) => Invalid unset value for tuple field number 1
        INSERT INTO t (k, f) VALUES (1, {a: 1, b: ?})
        => Invalid unset value for field 'b' of user defined type u
        INSERT INTO t (k, v) VALUES (1, blobAsInt(?))
        => Invalid unset value for argument in call to function blobasint
    ";
    for [text, message] in parse_cases(cases) {
        assert_eq!(session.refusal_of(text, &[Value::Unset]), message);
    }
}

#[test]
fn failing_conversions_get_cassandras_errors() {
    let session = session(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, x text, b blob, d decimal, n varint, a inet, \
         w timestamp, y date, z time)",
    ]);
    let cases = "
        v => blobAsInt(0x0102)
        => In call to function blobasint, value 0x0102 is not a valid binary representation for \
           type int
        x => blobAsText(0xff)
        => In call to function blobastext, value 0xff is not a valid binary representation for \
           type text
        v => counterAsBlob(1)
        => Type error: cannot assign result of function system.counterasblob (type blob) to v \
           (type int)
        b => CAST(1 AS blob) => Unknown function system.castAsBlob called
        x => (int) 1 + (int) 2
        => Type error: cannot assign result of operation + (type int) to x (type text)
        v => 2147483648 => Unable to make int from '2147483648'
        d => NaN => unable to make BigDecimal from 'NaN'
        b => 0xabc => cannot parse 'abc' as hex bytes
        a => '1.2.3.4.5' => Unable to make inet address from '1.2.3.4.5'
        w => 'x' => Unable to parse a date/time from 'x'
        w => 99999999999999999999 => Unable to make long (for date) from: '99999999999999999999'
        y => 4294967296 => Unable to make unsigned int (for date) from: '4294967296'
        z => 86400000000000 => Unable to make long (for time) from: '86400000000000'
        z => '25:00:00' => (TimeType) Unable to coerce '25:00:00' to a formatted time (long)
    ";
    for [column, value, message] in parse_cases(cases) {
        let text = format!("INSERT INTO t (k, {column}) VALUES (1, {value})");
        assert_eq!(session.refusal(&text), message, "{text}");
    }
}

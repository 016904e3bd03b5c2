//! SELECT of collections, with orders, and DISTINCT.

mod groups;
mod merges;
mod nulls;
mod passed_keys;

use ebb_test_support::cases::parse_cases;

use crate::executor::harness::Server;

/// Removes the quotes and backslashes from JSON.
fn bare(json: &str) -> String {
    json.replace(['"', '\\'], "")
}

#[test]
fn slices_of_maps_and_sets_have_both_ends() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, m map<int, text>, f frozen<map<int, text>>, \
         s set<text>, l list<int>, n map<int, frozen<map<text, int>>>)",
        "INSERT INTO t (k, m, f, s, l, n) VALUES (1, {1: 'a', 2: 'b', 5: 'c'}, \
         {1: 'a', 2: 'b', 5: 'c'}, {'x', 'y', 'z'}, [1], {1: {'a': 1, 'b': 2}})",
        "INSERT INTO t (k) VALUES (2)",
    ]);
    let cases = [
        ("m[1..2]", "{1: a, 2: b}"),
        ("m[..1]", "{1: a}"),
        ("m[3..]", "{5: c}"),
        ("m[6..]", "null"),
        ("f[6..]", "{}"),
        ("f[2..4]", "{2: b}"),
        ("s['y'..]", "[y, z]"),
        ("m[1..2][2..9]", "{2: b}"),
        ("n[1]['b'..]", "{b: 2}"),
        ("n[1..]", "{1: {a: 1, b: 2}}"),
    ];
    for (part, json) in cases {
        let rows = server.rows(&format!("SELECT toJson({part}) FROM t WHERE k = 1"));
        assert_eq!(bare(&rows), json, "{part}");
        let rows = server.rows(&format!("SELECT {part} FROM t WHERE k = 2"));
        assert_eq!(rows, "null", "{part}");
    }
    let columns = server.page("SELECT m['1'..2], s[..'y'] FROM t", &[], None, None);
    assert!(columns.is_err(), "a text is no key of m");
    let columns = server.page("SELECT m[1..2], s[..'y'] FROM t", &[], None, None);
    assert_eq!(columns.unwrap().columns, ["m[1..2]", "s[..'y']"]);
    let steps = "
        SELECT l[1..2] FROM t => Slice selection is only allowed on sets and maps, but l is a list
        SELECT l[1] FROM t => Element selection is only allowed on sets and maps, but l is a list
    ";
    server.check(steps);
    let cases = "
        m[null] => Invalid null value for element selection on m
        s[null..'y'] => Invalid null value for slice selection on s
        f[1..null] => Invalid null value for slice selection on f
        m[1..2][null] => Invalid null value for element selection on m[1..2]
    ";
    for [part, message] in parse_cases(cases) {
        // Regression: over no rows there was no error.
        for select in [
            format!("SELECT {part} FROM t"),
            format!("SELECT {part} FROM t WHERE k = 3"),
            format!("SELECT toJson({part}) FROM t WHERE k IN ()"),
            format!("SELECT count({part}) FROM t WHERE k = 3"),
        ] {
            assert_eq!(server.refused(&select), message, "{select}");
        }
    }
    let steps = "
        // Conditions are checked before rows are read, too.
        SELECT k FROM t WHERE k = 3 AND m[null] = 'a' ALLOW FILTERING
        => Unsupported null map key for column m
        UPDATE t SET l = [1] WHERE k = 3 IF m[null] = 'a'
        => Invalid null value for map element access
    ";
    server.check(steps);
}

/// Regression: rows that compare as equal came in the reverse order of their partitions.
#[test]
fn equal_rows_stay_in_the_order_of_their_partitions() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b, c))"]);
    for a in 1..=2 {
        for b in 1..=2 {
            for c in 1..=2 {
                server.run(&format!("INSERT INTO t (a, b, c) VALUES ({a}, {b}, {c})"));
            }
        }
    }
    let cases = "
        a, b, c FROM t WHERE a IN (1, 2) ORDER BY b DESC
        => 1 2 2 | 1 2 1 | 2 2 2 | 2 2 1 | 1 1 2 | 1 1 1 | 2 1 2 | 2 1 1
        a, b, c FROM t WHERE a IN (1, 2) ORDER BY b DESC, c DESC PER PARTITION LIMIT 1
        => 1 2 2 | 2 2 2
        JSON a FROM t WHERE a IN (1, 2) AND b = 1 AND c = 2 ORDER BY c => {a: 1} | {a: 2}
        // A column with a single value may be left out of ORDER BY.
        b, c FROM t WHERE a = 1 AND b = 2 AND c IN (1, 2) ORDER BY c DESC => 2 2 | 2 1
        b, c FROM t WHERE a = 1 AND b IN (2) ORDER BY c DESC => 2 2 | 2 1
    ";
    for [select, rows] in parse_cases(cases) {
        let found = server.rows(&format!("SELECT {select}"));
        assert_eq!(bare(&found), rows, "{select}");
    }
    assert_eq!(
        server.refused("SELECT b FROM t WHERE a = 1 AND b IN (1, 2) ORDER BY c"),
        "Order by currently only supports the ordering of columns following their declared order \
         in the PRIMARY KEY"
    );
}

/// Regression: GROUP BY and ORDER BY required columns that have a single value: a column that only
/// a filter restricts, and a column of the partition key if another one had an IN.
#[test]
fn columns_with_a_single_value_may_be_left_out_of_group_by_and_order_by() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int, b int, c int, d int, e int, PRIMARY KEY ((a, b), c, d, e))",
    ]);
    for row in 0..32 {
        let [a, b, c, d, e] = [16, 8, 4, 2, 1].map(|bit| row / bit % 2 + 1);
        server.run(&format!(
            "INSERT INTO t (a, b, c, d, e) VALUES ({a}, {b}, {c}, {d}, {e})"
        ));
    }
    let steps = "
        SELECT a, b, count(*) FROM t WHERE a = 1 AND b IN (1, 2) GROUP BY b => 1 1 8 | 1 2 8
        SELECT b, c, count(*) FROM t WHERE a IN (1) AND b IN (2) GROUP BY c => 2 1 4 | 2 2 4
        SELECT a, count(*) FROM t WHERE a = 1 GROUP BY b ALLOW FILTERING => 1 8 | 1 8
        SELECT c, d, max(e) FROM t WHERE a = 1 AND b = 1 AND d = 2 AND e = 1 \
           GROUP BY c ALLOW FILTERING
        => 1 2 1 | 2 2 1
        SELECT c, e, count(*) FROM t WHERE a = 1 AND b = 1 AND d = 2 GROUP BY c, e ALLOW FILTERING
        => 1 1 1 | 1 2 1 | 2 1 1 | 2 2 1
        SELECT c, d, e FROM t WHERE a = 1 AND b = 1 AND d = 2 \
           ORDER BY c DESC, e DESC ALLOW FILTERING
        => 2 2 2 | 2 2 1 | 1 2 2 | 1 2 1
    ";
    server.check(steps);
    for select in [
        "b FROM t WHERE a IN (1, 2) AND b = 1 GROUP BY b",
        "b FROM t WHERE a = 1 AND b = 1 AND d IN (1, 2) GROUP BY c, e ALLOW FILTERING",
    ] {
        assert_eq!(
            server.refused(&format!("SELECT {select}")),
            "Group by currently only support groups of columns following their declared order in \
             the PRIMARY KEY",
            "{select}"
        );
    }
}

/// Regression: groups came partition by partition, in spite of ORDER BY.
#[test]
fn groups_of_several_partitions_come_in_the_order_of_their_first_rows() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int, b int, c int, v int, PRIMARY KEY (a, b, c)) \
         WITH CLUSTERING ORDER BY (b DESC, c ASC)",
    ]);
    for (a, b, c, v) in [
        (1, 1, 1, 10),
        (1, 1, 2, 11),
        (1, 3, 1, 12),
        (2, 2, 1, 20),
        (2, 2, 2, 21),
        (2, 4, 1, 22),
    ] {
        server.run(&format!(
            "INSERT INTO t (a, b, c, v) VALUES ({a}, {b}, {c}, {v})"
        ));
    }
    let cases = "
        a, b, count(*), sum(v) FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b ASC
        => 1 1 2 21 | 2 2 2 41 | 1 3 1 12 | 2 4 1 22
        a, b, max(v) FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b DESC
        => 2 4 22 | 1 3 12 | 2 2 21 | 1 1 11
        // LIMIT counts groups after they are sorted, PER PARTITION LIMIT before.
        a, b FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b ASC LIMIT 3 => 1 1 | 2 2 | 1 3
        a, b FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b DESC PER PARTITION LIMIT 1
        => 2 4 | 1 3
        // Groups of whole partitions, sorted by the first row that is read.
        a, sum(v) FROM t WHERE a IN (1, 2) GROUP BY a ORDER BY b ASC => 1 33 | 2 63
        a, sum(v) FROM t WHERE a IN (1, 2) GROUP BY a ORDER BY b DESC => 2 63 | 1 33
        JSON a, count(*) FROM t WHERE a IN (1, 2) GROUP BY a ORDER BY b DESC
        => {a: 2, count: 3} | {a: 1, count: 3}
        count(*) FROM t WHERE a IN (1, 2) ORDER BY b DESC => 6
    ";
    for [select, rows] in parse_cases(cases) {
        let found = server.rows(&format!("SELECT {select}"));
        assert_eq!(bare(&found), rows, "{select}");
    }
}

#[test]
fn distinct_statics_of_named_partitions_need_no_key() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, s int STATIC, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, s) VALUES (1, 1, 10)",
        "INSERT INTO t (k, c, s) VALUES (1, 2, 11)",
        "INSERT INTO t (k, s) VALUES (2, 20)",
        "INSERT INTO t (k, c) VALUES (3, 1)",
    ]);
    let steps = "
        SELECT DISTINCT s FROM t WHERE k IN (1, 2, 3) => 11 | 20 | null
        SELECT DISTINCT s FROM t
        => SELECT DISTINCT queries must request all the partition key columns (missing k)
    ";
    server.check(steps);
}

/// Regression: after the type had gained a field, the set could not be read.
#[test]
fn sets_and_map_keys_stay_readable_when_their_type_gains_a_field() {
    let mut server = Server::with(&[
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int, c frozen<u>, s set<frozen<u>>, m map<frozen<u>, int>, \
         PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, s, m) VALUES (1, {a: 1}, {{a: 1}, {a: 2}}, {{a: 1}: 1})",
        "ALTER TYPE u ADD b int",
        "UPDATE t SET s = s + {{a: 1, b: null}, {a: 1, b: 5}}, m[{a: 1}] = 2 \
         WHERE k = 1 AND c = {a: 1}",
        "INSERT INTO t (k, c) VALUES (1, {a: 1, b: 2})",
    ]);
    let rows = server.rows("SELECT toJson(c), toJson(s), toJson(m) FROM t WHERE k = 1");
    assert_eq!(
        bare(&rows),
        "{a: 1, b: null} [{a: 1, b: null}, {a: 1, b: 5}, {a: 2, b: null}] {{a: 1, b: null}: 2} \
         | {a: 1, b: 2} null null"
    );
}

#[test]
fn from_json_decodes_what_to_json_encodes() {
    let mut server = Server::with(&[
        "CREATE TYPE u (a int, \"B\" text)",
        "CREATE TABLE t (k int PRIMARY KEY, n varint, d decimal, x text, b blob, o boolean, \
         w timestamp, l list<text>, s set<int>, m map<int, frozen<list<double>>>, \
         c map<frozen<tuple<int, text>>, int>, p tuple<int, text>, f frozen<u>)",
    ]);
    let columns = [
        ("n", "123456789012345678901234567890"),
        ("d", "1.50"),
        ("x", r#""a \"b\"""#),
        ("b", r#""0xcafe""#),
        ("o", "true"),
        ("w", r#""2024-02-29 12:00:00.000Z""#),
        ("l", r#"["a", "b"]"#),
        ("s", "[1, 2]"),
        ("m", r#"{"1": [1.5], "2": []}"#),
        ("c", r#"{"[1, \"a\"]": 2}"#),
        ("p", r#"[1, null]"#),
        ("f", r#"{"a": 1, "\"B\"": "x"}"#),
    ];
    for (column, json) in columns {
        server.run(&format!(
            "INSERT INTO t (k, {column}) VALUES (1, fromJson('{json}'))"
        ));
        let page = server.page(&format!("SELECT toJson({column}) FROM t"), &[], None, None);
        let shown = &page.unwrap().rows[0][0];
        assert_eq!(bare(shown), bare(json), "{column}");
    }
    server.run("UPDATE t SET s = fromJson('[3, 3, 1]'), x = system.fromJson('null') WHERE k = 1");
    assert_eq!(server.rows("SELECT toJson(s), x FROM t"), "[1, 3] null");
    let cases = r#"
        x => 1 => Expected a UTF-8 string, but got a Integer: 1
        s => [null] => Invalid null element in set
        m => [1] => Expected a map, but got a ArrayList: [1]
        f => {"z": 1} => Unknown field 'z' in value of user defined type u
        n => "1x" => Value '1x' is not a valid representation of a varint value
    "#;
    for [column, json, message] in parse_cases(cases) {
        let text = format!("INSERT INTO t (k, {column}) VALUES (1, fromJson('{json}'))");
        assert_eq!(server.refused(&text), message, "{text}");
    }
}

/// For a statement with several mistakes the expected error is the first one that Cassandra
/// returns.
#[test]
fn invalid_relations_get_cassandras_errors() {
    let mut server = Server::with(&[
        "CREATE TYPE u (i int, d duration)",
        "CREATE TABLE t (a int, b int, c frozen<list<int>>, v u, m map<int, int>, \
         PRIMARY KEY (a, b, c))",
        "CREATE TABLE s (a text, b text, PRIMARY KEY (a, b))",
        "INSERT INTO s (a, b) VALUES ('x', 'y')",
    ]);
    let steps = "
        SELECT * FROM t WHERE a = 1 AND (v) != (0) => Unsupported \"!=\" relation: (v) != (0)
        SELECT * FROM t WHERE v > {i: 1, d: 3s} ALLOW FILTERING
        => Slice restrictions are not supported on UDTs containing durations
        SELECT * FROM t WHERE b > 20 AND c CONTAINS 2
        => Clustering column \"c\" cannot be restricted (preceding column \"b\" is restricted by a \
           non-EQ relation)
        SELECT * FROM t WHERE m[null] = 2 ALLOW FILTERING => Unsupported null map key for column m
    ";
    server.check(steps);
    // A read by a key that no row can have is no error.
    let long = "x".repeat(70_000);
    assert_eq!(
        server.rows(&format!("SELECT * FROM s WHERE a = 'x' AND b = '{long}'")),
        ""
    );
    assert_eq!(
        server.rows(&format!(
            "SELECT b FROM s WHERE a = 'x' AND b IN ('{long}', 'y')"
        )),
        "y"
    );
    server.run("CREATE TABLE r (k1 uuid, k2 text, PRIMARY KEY ((k1, k2)))");
    assert_eq!(
        server.refused("SELECT token(k2, k1) FROM r"),
        "Type error: k2 cannot be passed as argument 0 of function system.token of type uuid"
    );
}

#[test]
fn distinct_counts_each_partition_once() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, s int STATIC, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, s) VALUES (1, 1, 10)",
        "INSERT INTO t (k, c) VALUES (1, 2)",
        "INSERT INTO t (k, c) VALUES (2, 1)",
        "INSERT INTO t (k, c) VALUES (2, 2)",
    ]);
    let steps = "
        SELECT DISTINCT k, count(k), count(s) FROM t GROUP BY k => 1 1 1 | 2 1 0
        SELECT DISTINCT k, count(k) FROM t => 1 2
        SELECT DISTINCT k, count(k) FROM t GROUP BY k, c
        => Grouping on clustering columns is not allowed for SELECT DISTINCT queries
    ";
    server.check(steps);
}

#[test]
fn casts_of_times_and_casts_of_casts() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, u timeuuid, w timestamp, d date, f double)",
        "INSERT INTO t (k, u, w, d, f) VALUES (CAST(CAST(CAST(2.3 AS int) AS float) AS int), \
         50554d6e-29bb-11e5-b345-feff819cdc9f, '2015-05-21 11:03:02Z', '2015-05-21', NaN)",
    ]);
    let steps = "
        SELECT k, CAST(u AS date), CAST(w AS date), CAST(d AS timestamp) FROM t
        => 2 2015-07-14 2015-05-21 2015-05-21 00:00:00.000Z
        SELECT toJson(f) FROM t => null
        SELECT CAST(k AS date) FROM t
        => Invalid call to function system.castAsDate, none of its type signatures match (known \
           type signatures: system.castAsDate : (timeuuid) -> date, system.castAsDate : \
           (timestamp) -> date)
    ";
    server.check(steps);
}

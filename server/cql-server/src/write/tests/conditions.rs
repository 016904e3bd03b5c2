//! Conditions on collections and parts of them, bound values, and errors.

use ebb_model::types::elements;

use crate::executor::harness::Server;

const T: &str = "CREATE TABLE t (k int, c int, s int STATIC, v int, d duration, l list<int>, \
                 m map<text, int>, e set<int>, u pair, fl frozen<list<int>>, \
                 fm frozen<map<text, int>>, fu frozen<pair>, PRIMARY KEY (k, c))";

fn server() -> Server {
    let mut server = Server::with(&["CREATE TYPE pair (a int, b int)", T]);
    server.run(
        "INSERT INTO t (k, c, v, l, m, e, u, fl, fm, fu) VALUES (1, 1, 1, [1, 2, 3], \
         {'a': 1, 'b': 2}, {1, 2}, {a: 1, b: 2}, [1, 2, 3], {'a': 1, 'b': 2}, {a: 1, b: 2})",
    );
    server.run("INSERT INTO t (k, c) VALUES (1, 2)");
    server
}

/// Returns whether a condition holds for the row with the clustering `c`. If it holds, sets `v` of
/// the row to 1.
#[track_caller]
fn holds(server: &mut Server, c: i32, condition: &str, values: &[Option<&[u8]>]) -> bool {
    let text = format!("UPDATE t SET v = 1 WHERE k = 1 AND c = {c} IF {condition}");
    let page = server.page(&text, values, None, None);
    let page = page.unwrap_or_else(|error| panic!("{text}: {error}"));
    page.rows[0][0] == "true"
}

#[test]
fn whole_collections_compare_element_by_element() {
    let mut server = server();
    for l in ["l", "fl"] {
        for (than, holding) in [
            ("[1, 2, 3]", "= <= >="),
            ("[1, 2]", "!= > >="),
            ("[1, 2, 3, 4]", "!= < <="),
            ("[1, 3]", "!= < <="),
            ("[0, 9, 9]", "!= > >="),
        ] {
            for operator in ["=", "!=", "<", "<=", ">", ">="] {
                let condition = format!("{l} {operator} {than}");
                let expected = holding.split(' ').any(|one| one == operator);
                assert_eq!(
                    holds(&mut server, 1, &condition, &[]),
                    expected,
                    "{condition}"
                );
            }
        }
    }
    let cases = [
        ("e = {2, 1}", true),
        ("e > {1}", true),
        ("e < {1, 3}", true),
        ("m = {'b': 2, 'a': 1}", true),
        ("m > {'a': 1}", true),
        ("m < {'a': 2}", true),
        ("fm = {'b': 2, 'a': 1}", true),
        ("u = {a: 1, b: 2}", true),
        ("u = {a: 1}", false),
        ("u > {a: 1}", true),
        ("fu = {a: 1, b: 2}", true),
        ("l IN ([1], [1, 2, 3])", true),
        ("e IN ({3}, {4})", false),
        ("l = null", false),
        ("l CONTAINS 2", true),
        ("l CONTAINS 4", false),
        ("e CONTAINS 2", true),
        ("m CONTAINS 2", true),
        ("m CONTAINS KEY 'b'", true),
        ("m CONTAINS KEY 'c'", false),
        ("fl CONTAINS 2", true),
        ("fm CONTAINS KEY 'c'", false),
        ("l = []", false),
        ("l != []", true),
        ("l IN ([], [1, 2, 3])", true),
        ("fl > []", true),
        ("fl <= []", false),
    ];
    for (condition, expected) in cases {
        assert_eq!(
            holds(&mut server, 1, condition, &[]),
            expected,
            "{condition}"
        );
    }
    // An empty unfrozen collection is null, and null is not less than any value.
    for (condition, expected) in [
        ("l = null", true),
        ("l = []", true),
        ("l != []", false),
        ("l != [1]", true),
        ("l < [1]", false),
        ("l CONTAINS 1", false),
        ("fl = null", true),
        ("fl = []", false),
        ("fl > []", false),
        ("fl < [1]", false),
        ("u = null", true),
        ("u != {a: 1}", true),
    ] {
        assert_eq!(
            holds(&mut server, 2, condition, &[]),
            expected,
            "{condition}"
        );
    }
}

/// Regression: comparisons by order with an empty unfrozen collection were accepted.
#[test]
fn comparisons_by_order_with_an_empty_unfrozen_collection_get_cassandras_error() {
    let mut server = server();
    let bytes = [0; 4];
    for (column, literal, kind) in [("l", "[]", "list"), ("e", "{}", "set"), ("m", "{}", "map")] {
        for operator in ["<", "<=", ">", ">="] {
            let message =
                format!("Invalid comparison with an empty {kind} for operator \"{operator}\"");
            for (value, bound) in [(literal, &[][..]), ("?", &[Some(&bytes[..])][..])] {
                // The third row does not exist.
                for row in 1..=3 {
                    let text = format!(
                        "UPDATE t SET v = 1 WHERE k = 1 AND c = {row} IF {column} {operator} {value}"
                    );
                    let page = server.page(&text, bound, None, None);
                    assert_eq!(page.unwrap_err().message, message, "{text}");
                }
            }
        }
    }
}

#[test]
fn elements_and_fields_compare_by_themselves() {
    let mut server = server();
    for (condition, expected) in [
        ("m['a'] = 1", true),
        ("m['a'] > 1", false),
        ("m['c'] = null", true),
        ("m['c'] != 1", true),
        ("m['b'] IN (1, 2)", true),
        ("l[0] = 1", true),
        ("l[2] = 3", true),
        ("l[3] = null", true),
        ("l[1] >= 3", false),
        ("fl[1] = 2", true),
        ("fm['b'] = 2", true),
        ("u.a = 1", true),
        ("u.b != 2", false),
        ("fu.b = 2", true),
        ("u.a IN (5, 1) AND m['a'] = 1 AND v = 1", true),
    ] {
        assert_eq!(
            holds(&mut server, 1, condition, &[]),
            expected,
            "{condition}"
        );
    }
    // A condition on a part returns the whole column, once.
    let text = "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF m['a'] = 2 AND m['b'] = 2";
    let page = server.page(text, &[], None, None).unwrap();
    assert_eq!(page.columns, ["[applied]", "m"]);
}

#[test]
fn values_of_conditions_are_bound() {
    let mut server = server();
    let int = |value: i32| value.to_be_bytes();
    let list = |values: &[i32]| {
        let values: Vec<[u8; 4]> = values.iter().map(|value| int(*value)).collect();
        elements::build(values.iter().map(|value| &value[..]))
    };
    let (one, two) = (int(1), int(2));
    assert!(holds(&mut server, 1, "v = ?", &[Some(&one)]));
    assert!(!holds(&mut server, 1, "v = ?", &[None]));
    assert!(holds(&mut server, 1, "v IN ?", &[Some(&list(&[5, 1]))]));
    assert!(!holds(&mut server, 1, "v IN ?", &[Some(&list(&[]))]));
    assert!(holds(
        &mut server,
        1,
        "v IN (?, ?)",
        &[Some(&two), Some(&one)]
    ));
    assert!(holds(&mut server, 1, "m[?] = ?", &[Some(b"b"), Some(&two)]));
    assert!(holds(
        &mut server,
        1,
        "l[?] IN ?",
        &[Some(&two), Some(&list(&[3]))]
    ));
    assert!(holds(&mut server, 1, "l = ?", &[Some(&list(&[1, 2, 3]))]));
    assert!(holds(&mut server, 1, "u.b = ?", &[Some(&two)]));
    let names = |text: &str| {
        let prepared = server.prepare(text).unwrap();
        let names = prepared.markers.iter().map(|marker| marker.name.to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names("UPDATE t SET v = ? WHERE k = ? AND c = ? IF v IN ? AND m[?] = ? AND u.a = ?"),
        "v k c in(v) key(m) value(m) u.a"
    );
    for (condition, values, message) in [
        ("v IN ?", &[None][..], "Invalid null list in IN condition"),
        (
            "m[?] = 1",
            &[None],
            "Invalid null value for map element access",
        ),
        (
            "l[?] = 1",
            &[None],
            "Invalid null value for list element access",
        ),
        (
            "l[?] = 1",
            &[Some(&[0xff; 4][..])],
            "Invalid negative list index -1",
        ),
    ] {
        let text = format!("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF {condition}");
        let refused = server.page(&text, values, None, None);
        let message_found = refused.unwrap_err().message;
        assert_eq!(message_found, message, "{condition}");
    }
}

#[test]
fn invalid_conditions_get_cassandras_errors() {
    let mut server = server();
    let steps = "
        CREATE TABLE o (k int PRIMARY KEY, v int) => done
        CREATE TABLE n (k int PRIMARY KEY, c counter) => done
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF x = 1 => Undefined column name x in table ks.t
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF k = 1
        => PRIMARY KEY column 'k' cannot have IF conditions
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF c = 1
        => PRIMARY KEY column 'c' cannot have IF conditions
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v[1] = 1
        => Invalid element access syntax for non-collection column v
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF e[1] = 1
        => Invalid element access syntax for set column e
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF u.x = 1 => Unknown field x for column u
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v CONTAINS 1
        => Cannot use CONTAINS on non-collection column v
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF l CONTAINS KEY 1
        => Cannot use CONTAINS KEY on non-map column l
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF d < 1s
        => Slice conditions ( < ) are not supported on durations
        UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 'a'
        => Invalid STRING constant (a) for \"v\" of type int
        UPDATE t USING TIMESTAMP 5 SET v = 1 WHERE k = 1 AND c = 1 IF v = 1
        => Cannot provide custom timestamp for conditional updates
        INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS USING TIMESTAMP 5
        => Cannot provide custom timestamp for conditional updates
        DELETE FROM t USING TIMESTAMP 5 WHERE k = 1 AND c = 1 IF EXISTS
        => Cannot provide custom timestamp for conditional updates
        UPDATE t SET v = 1 WHERE k IN (1, 2) AND c = 1 IF v = 1
        => IN on the partition key is not supported with conditional updates
        UPDATE t SET v = 1 WHERE k = 1 AND c IN (1, 2) IF v = 1
        => IN on the clustering key columns is not supported with conditional updates
        DELETE FROM t WHERE k = 1 AND c IN (1, 2) IF EXISTS
        => IN on the clustering key columns is not supported with conditional deletions
        DELETE FROM t WHERE k = 1 AND c > 1 IF EXISTS
        => DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
           order to delete non static columns
        DELETE s, v FROM t WHERE k = 1 IF s = 1
        => DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
           order to delete non static columns
        DELETE s FROM t WHERE k = 1 IF v = 1
        => DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
           order to use IF condition on non static columns
        UPDATE t SET s = 1 WHERE k = 1 IF v = 1 => Some clustering keys are missing: c
        UPDATE t SET s = 1 WHERE k = 1 AND c = 1 IF s = 1
        => Invalid restrictions on clustering columns since the UPDATE statement modifies only \
           static columns
        BEGIN BATCH USING TIMESTAMP 5 INSERT INTO o (k) VALUES (1) IF NOT EXISTS; APPLY BATCH
        => Cannot provide custom timestamp for conditional BATCH
        BEGIN BATCH INSERT INTO o (k) VALUES (1) IF NOT EXISTS; INSERT INTO t (k, c) VALUES (1, \
           1); APPLY BATCH
        => Batch with conditions cannot span multiple tables
        BEGIN BATCH INSERT INTO o (k) VALUES (1) IF NOT EXISTS; INSERT INTO o (k) VALUES (2); \
           APPLY BATCH
        => Batch with conditions cannot span multiple partitions
        BEGIN BATCH INSERT INTO o (k) VALUES (1) IF NOT EXISTS; UPDATE o SET v = 1 WHERE k = 1 IF \
           EXISTS; APPLY BATCH
        => Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row
        BEGIN BATCH INSERT INTO o (k) VALUES (1) IF NOT EXISTS; UPDATE o SET v = 1 WHERE k = 1 IF \
           v = 1; APPLY BATCH
        => Cannot mix IF conditions and IF NOT EXISTS for the same row
        BEGIN BATCH UPDATE o SET v = 1 WHERE k = 1 IF v = 1; INSERT INTO o (k) VALUES (1) IF NOT \
           EXISTS; APPLY BATCH
        => Cannot mix IF conditions and IF NOT EXISTS for the same row
        UPDATE n SET c = c + 1 WHERE k = 1 IF EXISTS
        => Conditional updates are not supported on counter tables
        UPDATE n SET c = c + 1 WHERE k = 1 IF c = 1 => Conditions on counters are not supported
    ";
    server.check(steps);
}

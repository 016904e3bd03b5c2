//! The number and the length of the keys that a statement names.

use super::*;

const TOO_MANY_KEYS: &str = "The IN relations of a statement may name 65536 keys at most";

/// Returns the columns with alternating directions, for CLUSTERING ORDER BY.
fn alternating(columns: &[String]) -> String {
    let with_direction =
        |(number, name): (usize, &String)| format!("{name} {}", ["ASC", "DESC"][number % 2]);
    let order: Vec<String> = columns.iter().enumerate().map(with_direction).collect();
    order.join(", ")
}

/// Regression: the ranges of keys are computed by a recursion over the columns, and with some
/// thousand of them the stack overflowed, which ended the server.
#[test]
fn a_relation_by_order_names_a_bounded_number_of_columns() {
    let names = columns(129);
    let create = format!(
        "CREATE TABLE t (k int, {} int, PRIMARY KEY (k, {})) WITH CLUSTERING ORDER BY ({})",
        names.join(" int, "),
        names.join(", "),
        alternating(&names)
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
    let names = columns(20);
    let columns = names.join(", ");
    let mut server = Server::with(&[&format!(
        "CREATE TABLE t (k int, a int, b int, {} int, PRIMARY KEY (k, a, b, {columns})) WITH \
         CLUSTERING ORDER BY (a ASC, b ASC, {})",
        names.join(" int, "),
        alternating(&names)
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
            TOO_MANY_KEYS
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
        assert_eq!(server.refused(&text), TOO_MANY_KEYS);
    }
    // The same number of rows is permitted in one partition, or one row in each of as many
    // partitions.
    server.run(&format!("DELETE FROM t {}", where_in("1", &many)));
    server.run(&format!("DELETE FROM t {}", where_in(&many, "1")));
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

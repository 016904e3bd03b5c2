//! Reads by key, by token and by page.

use ebb_model::key::Token;

use super::*;

#[test]
fn the_queries_of_a_connecting_driver_are_answered() {
    let mut server = Server::new();
    assert_eq!(
        server.rows("SELECT cluster_name, key FROM system.local WHERE key = 'local'"),
        "ebb local"
    );
    assert_eq!(server.rows("SELECT * FROM system.peers"), "");
    for table in "keyspaces tables columns types functions indexes views".split(' ') {
        server.rows(&format!("SELECT * FROM system_schema.{table}"));
    }
    assert_eq!(
        server.refused("SELECT * FROM system.nothing"),
        "table nothing does not exist"
    );
}

#[test]
fn the_schema_is_read_by_key_by_prefix_and_by_page() {
    let table = "CREATE TABLE t (a int, b text, c int, PRIMARY KEY (a, b))";
    let mut server = Server::with(&[table]);
    let select = "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = 'ks'";
    let all = "a partition_key | b clustering | c regular";
    assert_eq!(server.rows(select), all);
    let one = format!("{select} AND table_name = 't' AND column_name IN ('c', 'b')");
    assert_eq!(server.rows(&one), "b clustering | c regular");
    let first = server.page(select, &[], Some(2), None).unwrap();
    assert_eq!(first.rows.len(), 2);
    let rest = server
        .page(select, &[], Some(2), first.state.as_deref())
        .unwrap();
    assert_eq!(rest.rows, [["c", "regular"]]);
    assert_eq!(rest.state, None);
    let descending = format!("{select} ORDER BY table_name DESC LIMIT 1");
    assert_eq!(server.rows(&descending), "c regular");
    assert_eq!(
        server.rows("SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'ks'"),
        "3"
    );
}

#[test]
fn rows_are_read_by_key_and_by_slices() {
    let mut server = squares();
    for select in [
        "v FROM t WHERE a = 1 AND b = 9 AND c = 1",
        "a FROM t WHERE a = 4 AND b = 1",
        "v FROM t WHERE a = 1 AND b = 1 AND c IN ()",
    ] {
        assert_eq!(server.rows(&format!("SELECT {select}")), "", "{select}");
    }
    let steps = "
        SELECT v FROM t WHERE a = 1 AND b = 2 AND c = 1 => 121
        SELECT v FROM t WHERE a = 2 => 231 | 232 | 221 | 222 | 211 | 212
        SELECT v FROM t WHERE a = 2 ORDER BY b ASC => 212 | 211 | 222 | 221 | 232 | 231
        // The last mention of b determines its order, as in Cassandra.
        SELECT v FROM t WHERE a = 2 AND b = 2 ORDER BY b DESC, c DESC, b ASC => 222 | 221
        SELECT v FROM t WHERE a = 2 AND b >= 2 AND b < 3 => 221 | 222
        SELECT v FROM t WHERE a = 2 AND b = 2 AND c > 1 => 222
        SELECT v FROM t WHERE a = 2 AND b IN (1, 3) => 231 | 232 | 211 | 212
        SELECT v FROM t WHERE a = 2 AND b IN (1, 3) AND c IN (2, 1, 2) => 231 | 232 | 211 | 212
        SELECT v FROM t WHERE a = 2 AND (b, c) > (2, 1) => 231 | 232 | 222
        SELECT v FROM t WHERE a = 2 AND (b, c) IN ((1, 1), (3, 2)) => 232 | 211
        SELECT v FROM t WHERE a = 2 AND (b, c) = (1, 1) => 211
        SELECT v FROM t WHERE a = 2 LIMIT 2 => 231 | 232
        SELECT v FROM t WHERE a IN (3, 1) AND b = 1 => 111 | 112 | 311 | 312
        SELECT v FROM t WHERE a IN (3, 1) AND c = 1 AND b = 1 ORDER BY b DESC => 111 | 311
        SELECT v FROM t WHERE a IN (1, 2) PER PARTITION LIMIT 1 => 131 | 231
        SELECT v FROM t WHERE a = 1 AND v = 122 ALLOW FILTERING => 122
        SELECT v FROM t WHERE a = 1 AND c = 1 ALLOW FILTERING => 131 | 121 | 111
        SELECT s, v FROM t WHERE a = 1 LIMIT 1 => 7 131
        SELECT a, b, s, v FROM t WHERE a = 4 => 4 null 7 null
        SELECT count(*) FROM t WHERE a = 1 => 6
        SELECT count(*), min(v), max(v), sum(c), avg(v) FROM t WHERE a = 1 => 6 111 132 9 121
        SELECT count(*), sum(v), min(v) FROM t WHERE a = 9 => 0 0 null
        SELECT b, count(*), max(v) FROM t WHERE a = 1 GROUP BY b => 3 2 132 | 2 2 122 | 1 2 112
        SELECT writetime(v), ttl(v) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 1 null
        SELECT v AS x, blobAsInt(intAsBlob(v)) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 111 111
        SELECT CAST(v AS bigint) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 111
        SELECT DISTINCT a, s FROM t WHERE a IN (1, 2) => 1 7 | 2 null
    ";
    server.check(steps);
}

#[test]
fn all_partitions_are_read_in_the_order_of_their_tokens() {
    let mut server = squares();
    let mut partitions: Vec<(i64, i32)> = (1..=4_i32)
        .map(|a| (Token::of(&a.to_be_bytes()).0, a))
        .collect();
    partitions.sort_unstable();
    let [
        (_, first),
        (at_second, second),
        (at_third, third),
        (_, last),
    ] = partitions[..]
    else {
        panic!("four partitions");
    };
    let steps = format!(
        "
        SELECT DISTINCT a FROM t => {first} | {second} | {third} | {last}
        SELECT DISTINCT a FROM t WHERE token(a) > {at_second} => {third} | {last}
        SELECT DISTINCT a FROM t WHERE token(a) >= {at_third} AND token(a) <= {at_third} => {third}
        SELECT DISTINCT a FROM t WHERE token(a) > token({first}) => {second} | {third} | {last}
        // Three partitions of six rows, and one with a static column only.
        SELECT count(*) FROM t => 19
        SELECT v FROM t WHERE b = 3 AND c = 1 AND a = 2 ALLOW FILTERING => 231
        "
    );
    server.check(&steps);
    let with_tokens = server.rows("SELECT DISTINCT token(a) AS x, a FROM t");
    assert_eq!(with_tokens.split(" | ").count(), 4);
    let all = server.rows("SELECT v FROM t PER PARTITION LIMIT 2");
    assert_eq!(all.split(" | ").count(), 7);
}

#[test]
fn token_relations_filter_keys_by_their_tokens() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))"]);
    let mut keys: Vec<i32> = (1..=4).collect();
    keys.sort_by_key(|a| Token::of(&a.to_be_bytes()).0);
    for a in &keys {
        server.run(&format!("INSERT INTO t (a, b) VALUES ({a}, 1)"));
    }
    let [first, second, third, last] = keys[..] else {
        panic!("four keys");
    };
    let (less, greater) = (second.min(third), second.max(third));
    let steps = format!(
        "
        SELECT a FROM t WHERE a = {second} AND token(a) = token({second}) => {second}
        SELECT a FROM t WHERE token(a) = token({first}) AND a = {second} => no rows
        SELECT a FROM t WHERE a = {second} AND token(a) > token({second}) => no rows
        SELECT a FROM t WHERE a = {second} AND token(a) >= token({second}) AND b = 1 => {second}
        SELECT a FROM t WHERE a IN (1, 2, 3, 4) AND token(a) > token({first}) \
           AND token(a) < token({last})
        => {less} | {greater}
        SELECT a FROM t WHERE a = {first} AND token(a) = token({first}) ORDER BY b DESC => {first}
        SELECT a FROM t WHERE a = 1 AND token(a) = 1 AND token(a) = 2
        => a cannot be restricted by more than one relation if it includes an Equal
        "
    );
    server.check(&steps);
}

#[test]
fn pages_of_any_size_add_up_to_the_unpaged_result() {
    let mut server = squares();
    let selects = [
        "SELECT a, b, c, s, v FROM t",
        "SELECT v FROM t WHERE a = 2",
        "SELECT v FROM t WHERE a = 2 ORDER BY b ASC",
        "SELECT v FROM t WHERE a IN (1, 2, 4)",
        "SELECT v FROM t WHERE a IN (1, 2, 3) AND b IN (1, 3) LIMIT 7",
        "SELECT v FROM t WHERE a = 2 AND b IN (1, 3) AND c IN (1, 2)",
        "SELECT v FROM t PER PARTITION LIMIT 3",
        "SELECT DISTINCT a, s FROM t",
        "SELECT a, b, count(*) FROM t GROUP BY a, b",
        "SELECT a, max(v) FROM t GROUP BY a LIMIT 2",
        "SELECT DISTINCT a, count(a), s FROM t GROUP BY a",
        "SELECT v FROM t WHERE c = 2 ALLOW FILTERING",
    ];
    for select in selects {
        let whole = server.page(select, &[], None, None).unwrap().rows;
        for size in 1..=whole.len() as u32 + 1 {
            let (mut rows, mut state) = (Vec::new(), None);
            loop {
                let page = server
                    .page(select, &[], Some(size), state.as_deref())
                    .unwrap();
                assert!(page.rows.len() <= size as usize, "{select}");
                // Only the last page may be empty.
                assert!(!page.rows.is_empty() || page.state.is_none(), "{select}");
                rows.extend(page.rows);
                state = page.state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows, whole, "{select} by {size}");
        }
    }
}

#[test]
fn a_paging_state_of_another_statement_is_refused() {
    let mut server = Server::with(&["CREATE TABLE t (a int PRIMARY KEY)"]);
    let one = server.page("SELECT * FROM system_schema.tables", &[], Some(1), None);
    let state = one.unwrap().state.unwrap();
    for other in ["SELECT * FROM system_schema.columns", "SELECT * FROM t"] {
        let page = server.page(other, &[], Some(1), Some(&state));
        assert_eq!(
            page.unwrap_err().message,
            "Invalid value for the paging state"
        );
    }
}

/// Regression: the paging state depended on the keyspace in use. All clients share the prepared
/// statement of a text with a qualified table, so the next page of a client failed once another
/// client, which used another keyspace, had prepared the text.
#[test]
fn a_read_of_a_qualified_table_continues_whatever_keyspace_is_in_use() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int PRIMARY KEY)",
        "INSERT INTO t (a) VALUES (1)",
        "INSERT INTO t (a) VALUES (2)",
    ]);
    let text = "SELECT a FROM ks.t";
    let first = server.page(text, &[], Some(1), None).unwrap();
    for in_use in [None, Some("system")] {
        server.keyspace = in_use.map(str::to_owned);
        let state = first.state.as_deref();
        let next = server.page(text, &[], Some(1), state).unwrap();
        assert_eq!([first.rows.len(), next.rows.len()], [1, 1]);
        assert_ne!(next.rows, first.rows);
    }
}

//! Reads that pass very many keys without a row.

use std::ops::Range;

use bytes::Bytes;
use ebb_cql::protocol::ErrorKind;
use ebb_model::key::PARTITIONS_START;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::executor::harness::Server;
use crate::interrupt::tests::{cancelled, charged};
use crate::testing::never;

/// The number of keys that the reads pass. A search passes at most 32 keys, and a walk is charged
/// four units for each search, about 124 units in all. A page that ends when the walk first checks
/// its time makes 8 searches.
const KEYS: usize = 1000;

const READS: [&str; 5] = [
    "SELECT c FROM t",
    "SELECT c FROM t WHERE k = 1",
    "SELECT c FROM t WHERE k = 1 AND c > 0",
    "SELECT c FROM t WHERE k = 1 ORDER BY c DESC",
    "SELECT c FROM t WHERE k = 1 AND c > 0 ORDER BY c DESC",
];

fn server() -> Server {
    Server::with(&["CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))"])
}

fn insert_rows(server: &mut Server) {
    for c in 0..KEYS {
        server.run(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
    }
}

/// Returns the keys that the table `t` has in the store, in their order.
fn stored_keys(server: &Server) -> Vec<Bytes> {
    let state = server.executor.catalog().state();
    let table = state.table("ks", "t").unwrap().rows();
    let entries = table.range::<&[u8], _>(PARTITIONS_START..);
    entries.map(|entry| entry.unwrap().0).collect()
}

/// Deletes some keys from the store. A DELETE statement would leave entries with CQL tombstones, at
/// which a read looks. Of these keys no entries are left: the search for an entry only passes them.
fn delete_keys(server: &Server, keys: &[Bytes]) {
    let state = server.executor.catalog().state();
    let table = state.table("ks", "t").unwrap().rows();
    for key in keys {
        table.delete(key).unwrap();
    }
}

/// Deletes the keys of the rows in a range of positions from the store.
fn delete_rows(server: &Server, positions: Range<usize>) {
    let keys = stored_keys(server);
    assert_eq!(keys.len(), KEYS);
    delete_keys(server, &keys[positions]);
}

/// Regression: a SELECT that passed many deleted keys counted none of the work towards its time-out.
#[test]
fn a_read_charges_for_the_deleted_keys_that_it_passes_in_either_direction() {
    let mut server = server();
    let empty = READS.map(|read| charged(|| server.rows(read)).1);
    insert_rows(&mut server);
    delete_rows(&server, 0..KEYS);
    for (read, without) in READS.into_iter().zip(empty) {
        let (rows, with) = charged(|| server.rows(read));
        assert_eq!(rows, "", "{read}");
        assert!(
            with >= without + 60,
            "{read}: {with} units, and {without} of an empty table"
        );
    }
}

/// Regression: a SELECT of a snapshot passed all rows that were written after the snapshot in a
/// single call.
#[test]
fn a_read_of_a_snapshot_charges_for_newer_rows() {
    let mut server = server();
    server.run("CREATE SNAPSHOT before ON KEYSPACE ks");
    let reads = READS.map(|read| read.replace("FROM t", "FROM \"ks@before\".t"));
    let empty = reads.each_ref().map(|read| charged(|| server.rows(read)).1);
    insert_rows(&mut server);
    for (read, without) in reads.iter().zip(empty) {
        let (rows, with) = charged(|| server.rows(read));
        assert_eq!(rows, "", "{read}");
        assert!(
            with >= without + 60,
            "{read}: {with} units, and {without} before"
        );
    }
}

#[test]
fn a_read_ends_at_its_time_out_among_deleted_keys() {
    let mut server = server();
    server.interrupt = cancelled();
    for read in READS {
        assert_eq!(
            server.rows(read),
            "",
            "{read} of an empty table ends before the first look"
        );
    }
    server.interrupt = never();
    insert_rows(&mut server);
    delete_rows(&server, 0..KEYS);
    server.interrupt = cancelled();
    for read in READS {
        let page = server.page(read, &[], None, None);
        let error = page
            .err()
            .unwrap_or_else(|| panic!("{read} passes all keys"));
        assert!(
            matches!(error.kind, ErrorKind::ReadTimeout { .. }),
            "{read}"
        );
    }
}

/// Regression: a client that paged over more deleted keys than a time-out allows got a time-out at the
/// same place each time.
#[test]
fn a_page_ends_among_deleted_keys_and_the_next_one_goes_on_behind_them() {
    let mut server = server();
    insert_rows(&mut server);
    delete_rows(&server, 1..KEYS - 1);
    let expected = READS.map(|read| server.page(read, &[], None, None).unwrap().rows);
    server.end_pages_at_each_look();
    for (read, expected) in READS.into_iter().zip(expected) {
        let (rows, pages) = server.read_in_pages(read, 100);
        assert_eq!(rows, expected, "{read}");
        assert!((4..20).contains(&pages), "{read}: {pages} pages");
    }
    // A paging state has no partial aggregates. A page of groups may end after the group.
    for (read, row, pages_max) in [
        ("SELECT count(*) FROM t", &["2"][..], 1),
        ("SELECT k, count(*) FROM t GROUP BY k", &["1", "2"], 2),
    ] {
        let (rows, pages) = server.read_in_pages(read, 100);
        assert_eq!(rows, [row], "{read}");
        assert!(pages <= pages_max, "{read}: {pages} pages");
    }
}

#[test]
fn a_page_of_a_snapshot_ends_among_newer_keys_and_the_next_one_goes_on_behind_them() {
    let mut server = server();
    for c in [0, KEYS - 1] {
        server.run(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
    }
    server.run("CREATE SNAPSHOT before ON KEYSPACE ks");
    let expected = READS.map(|read| server.page(read, &[], None, None).unwrap().rows);
    insert_rows(&mut server);
    server.end_pages_at_each_look();
    for (read, expected) in READS.into_iter().zip(expected) {
        let read = read.replace("FROM t", "FROM \"ks@before\".t");
        let (rows, pages) = server.read_in_pages(&read, 100);
        assert_eq!(rows, expected, "{read}");
        assert!((4..20).contains(&pages), "{read}: {pages} pages");
    }
}

/// Regression: a page of a scan ended at a deleted row, the last one of its partition. Neither this page
/// nor the next one had the row of the partition's static columns.
#[test]
fn no_page_loses_static_columns_behind_deleted_rows() {
    let mut server = Server::with(&[]);
    // One of these numbers of rows ends the page at the last row.
    for count in 1..20 {
        let table = format!("t{count}");
        server.run(&format!(
            "CREATE TABLE {table} (k int, c int, s int STATIC, PRIMARY KEY (k, c))"
        ));
        server.run(&format!("INSERT INTO {table} (k, s) VALUES (1, 7)"));
        for c in 0..count {
            server.run(&format!("DELETE FROM {table} WHERE k = 1 AND c = {c}"));
        }
    }
    server.end_pages_at_each_look();
    for count in 1..20 {
        let (rows, _) = server.read_in_pages(&format!("SELECT s FROM t{count}"), 100);
        assert_eq!(rows, [["7"]], "{count} deleted rows");
    }
}

/// Regression: a page ended among deleted keys of a partition. Then a row was written before these keys,
/// together with static columns. A later page had a row of the static columns alone.
#[test]
fn no_page_separates_static_columns_from_a_row_that_is_written_before_it() {
    for read in ["SELECT c, s FROM t", "SELECT c, s FROM t WHERE k = 1"] {
        let mut server =
            Server::with(&["CREATE TABLE t (k int, c int, s int STATIC, PRIMARY KEY (k, c))"]);
        insert_rows(&mut server);
        delete_rows(&server, 0..KEYS);
        server.end_pages_at_each_look();
        let mut state = server.page(read, &[], Some(100), None).unwrap().state;
        assert!(state.is_some(), "{read}");
        server.run("INSERT INTO t (k, c, s) VALUES (1, 0, 7)");
        while let Some(after) = state {
            let page = server.page(read, &[], Some(100), Some(&after)).unwrap();
            assert!(page.rows.is_empty(), "{read}: {:?}", page.rows);
            state = page.state;
        }
        assert_eq!(server.rows(read), "0 7");
    }
}

/// Creates a table in which most keys are deleted: some directly from the store, in stretches that
/// may span several partitions, and others by statements.
fn sparse_table(random: &mut ChaCha8Rng) -> Server {
    let create = "CREATE TABLE t (k int, c int, s int STATIC, v int, PRIMARY KEY (k, c))";
    let mut server = Server::with(&[create]);
    for k in 0..20 {
        let key = k.to_string();
        if random.random_bool(0.7) {
            server.put("t", &[("k", &key), ("s", "7")]);
        }
        let count: i32 = if k == 3 {
            400
        } else {
            random.random_range(0..60)
        };
        for c in 0..count {
            let [c, v] = [c, c % 3].map(|value| value.to_string());
            server.put("t", &[("k", &key), ("c", &c), ("v", &v)]);
        }
    }
    let keys = stored_keys(&server);
    let mut rest = &keys[..];
    while !rest.is_empty() {
        let deleted = random.random_range(1..150_usize).min(rest.len());
        delete_keys(&server, &rest[..deleted]);
        let kept = random.random_range(1..10_usize).min(rest.len() - deleted);
        rest = &rest[deleted + kept..];
    }
    for _ in 0..40 {
        let (k, c) = (random.random_range(0..20), random.random_range(0..60));
        server.run(&format!("DELETE FROM t WHERE k = {k} AND c = {c}"));
    }
    for _ in 0..3 {
        let (k, c) = (random.random_range(0..20), random.random_range(0..60));
        server.run(&format!("DELETE FROM t WHERE k = {k} AND c > {c}"));
    }
    server
}

#[test]
fn pages_that_end_among_passed_keys_have_each_row_once() {
    let test = "pages_that_end_among_passed_keys_have_each_row_once";
    let selects = [
        "SELECT k, c, s FROM t",
        "SELECT k, c FROM t LIMIT 17",
        "SELECT k, c FROM t PER PARTITION LIMIT 2",
        "SELECT k, c FROM t PER PARTITION LIMIT 2 LIMIT 9",
        "SELECT DISTINCT k, s FROM t",
        "SELECT k, c, s FROM t WHERE token(k) > -4000000000000000000",
        "SELECT k, c FROM t WHERE c > 10 ALLOW FILTERING",
        "SELECT k, c FROM t WHERE c IN (1, 5, 9, 13) ALLOW FILTERING",
        "SELECT k, c FROM t WHERE v = 1 ALLOW FILTERING",
        "SELECT k, c, s FROM t WHERE k IN (1, 2, 3, 4, 5, 6, 7)",
        "SELECT k, c, s FROM t WHERE k = 3",
        "SELECT c FROM t WHERE k = 3 AND c IN (1, 50, 100, 200, 300)",
        "SELECT c, s FROM t WHERE k = 3 ORDER BY c DESC",
        "SELECT c FROM t WHERE k = 3 AND c > 5 ORDER BY c DESC LIMIT 4",
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT k, c, max(v) FROM t WHERE k = 3 GROUP BY k, c",
        "SELECT count(*) FROM t",
    ];
    for_seeds(test, 4, |seed| {
        let mut server = sparse_table(&mut ChaCha8Rng::seed_from_u64(seed));
        let expected = selects.map(|select| server.page(select, &[], None, None).unwrap().rows);
        server.end_pages_at_each_look();
        for (select, expected) in selects.into_iter().zip(expected) {
            for page_size_rows in [1, 3, 100] {
                let (rows, _) = server.read_in_pages(select, page_size_rows);
                assert_eq!(rows, expected, "{select} in pages of {page_size_rows}");
            }
        }
    });
}

//! Indexes through statements, on a database in memory.

mod builds;

use ebb_cql::protocol::{Consistency, QueryParameters, Value};
use ebb_model::key::{EntryKey, PARTITIONS_START, PartitionKey, ROW, SCHEMA_KEY};
use ebb_model::types::elements;
use ebb_model::types::number::digits_bytes;

use super::{check_available, remove_stale};
use crate::call::Outcome;
use crate::executor::harness::Server;
use crate::interrupt::tests::{cancelled, charged};
use crate::interrupt::{TimeOut, scope};
use crate::paging::PagingState;
use crate::prepared::Meaning;

const FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus \
     may have unpredictable performance. If you want to execute this query despite the \
     performance unpredictability, use ALLOW FILTERING";

/// Returns the keys of the entries in the indexes of a table, ascending.
fn entry_keys(server: &Server, table: &str) -> Vec<Vec<u8>> {
    let state = server.executor.catalog().state();
    let table = state.table("ks", table).unwrap().clone();
    let keys = table.rows().range::<&[u8], _>(SCHEMA_KEY..PARTITIONS_START);
    let keys = keys.map(|entry| entry.unwrap().0.to_vec()).skip(1);
    keys.filter(|key| EntryKey::read(key).unwrap().index < 100)
        .collect()
}

/// Returns the number of entries in the indexes of a table.
fn entries(server: &Server, table: &str) -> usize {
    entry_keys(server, table).len()
}

fn insert(server: &mut Server, rows: &[(i32, i32, &str)]) {
    for (k, c, v) in rows {
        server.run(&format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, {v})"));
    }
}

const TABLE: &str = "CREATE TABLE t (k int, c int, s int STATIC, v int, PRIMARY KEY (k, c))";

#[test]
fn rows_are_found_by_their_current_values() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    insert(
        &mut server,
        &[(1, 1, "7"), (1, 2, "8"), (2, 1, "7"), (3, 1, "7")],
    );
    let by = "SELECT k, c FROM t WHERE v = 7";
    assert_eq!(server.rows(by), "1 1 | 2 1 | 3 1");
    server.run("UPDATE t SET v = 9 WHERE k = 2 AND c = 1");
    server.run("DELETE FROM t WHERE k = 3");
    assert_eq!(server.rows(by), "1 1");
    assert_eq!(server.rows("SELECT k, c FROM t WHERE v = 9"), "2 1");
    // Values that expire, and values with an old timestamp.
    server.run("UPDATE t USING TTL 10 SET v = 7 WHERE k = 4 AND c = 1");
    server.run("UPDATE t USING TIMESTAMP 5 SET v = 7 WHERE k = 2 AND c = 1");
    server.run("UPDATE t USING TIMESTAMP 5 SET v = 7 WHERE k = 5 AND c = 5");
    assert_eq!(server.rows(by), "5 5 | 1 1 | 4 1");
    server.clock.advance_ms(10_000);
    assert_eq!(server.rows(by), "5 5 | 1 1");
    assert_eq!(
        server.rows("SELECT k, c FROM t WHERE v = 8 AND k = 1"),
        "1 2"
    );
    assert_eq!(server.rows("SELECT k, c FROM t WHERE v = 8 AND k = 2"), "");
}

/// Regression: a page read without an index ended after all rows of a partition, and its paging
/// state was the prefix of their keys and 0xff. The next page used an index that had become ready
/// meanwhile, and repeated rows whose encoded clustering begins with 0xff, since their keys sort
/// behind that state.
#[test]
fn a_page_by_an_index_begins_after_the_last_partition_of_the_previous_page() {
    let table = "CREATE TABLE t (k int, c smallint, v int, PRIMARY KEY (k, c))";
    let mut server = Server::with(&[table, "CREATE INDEX ON t (v)"]);
    // The greatest smallint is encoded as 0xffff.
    insert(&mut server, &[(1, i16::MAX.into(), "7"), (2, 1, "7")]);
    let by = "SELECT k, c FROM t WHERE v = 7";
    let first = PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap();
    let state = PagingState {
        statement: server.prepare(by).unwrap().hash,
        key: [&first.prefix()[..], &[ROW, 0xff]].concat(),
        had_rows: true,
        left: u64::MAX,
        left_in_partition: u64::MAX,
    };
    let page = server.page(by, &[], Some(10), Some(&state.encode()));
    assert_eq!(page.unwrap().rows, [["2", "1"]]);
}

#[test]
fn reads_remove_stale_entries_and_writes_add_them_again() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    insert(&mut server, &[(1, 1, "7"), (2, 1, "7"), (1, 1, "8")]);
    server.run("DELETE FROM t WHERE k = 2 AND c = 1");
    assert_eq!(entries(&server, "t"), 3);
    server.run("CREATE SNAPSHOT before ON TABLE ks.t");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "");
    assert_eq!(entries(&server, "t"), 1);
    // An entry is not removed because the row fails another restriction.
    assert_eq!(
        server.rows("SELECT k FROM t WHERE v = 8 AND s = 1 ALLOW FILTERING"),
        ""
    );
    assert_eq!(entries(&server, "t"), 1);
    insert(&mut server, &[(1, 1, "7")]);
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "1");
    // The entry of an expired value is kept for a minute, for readers of an earlier time.
    server.run("UPDATE t USING TTL 10 SET v = 5 WHERE k = 9 AND c = 1");
    server.clock.advance_ms(30_000);
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 5"), "");
    assert_eq!(entries(&server, "t"), 3);
    server.clock.advance_ms(60_000);
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 5"), "");
    assert_eq!(entries(&server, "t"), 2);
}

/// Regression: a read that passed many removed entries went on after its timeout.
#[test]
fn a_read_charges_for_the_removed_entries_that_it_passes() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    let by = "SELECT k FROM t WHERE v = 7";
    let (_, without) = charged(|| server.rows(by));
    for c in 0..100 {
        insert(&mut server, &[(1, c, "7"), (1, c, "8")]);
    }
    // Each read removes up to 32 of the stale entries.
    for _ in 0..4 {
        assert_eq!(server.rows(by), "");
    }
    assert_eq!(entries(&server, "t"), 100);
    let (_, with) = charged(|| server.rows(by));
    assert!(with > without, "{with} units, and {without} before");
}

/// Regression: index entries of long decimals were charged by the length of the value. Their digits take
/// up to 40 ms each, so writes and the removal of stale entries went on after their timeout.
#[test]
fn statements_are_charged_for_the_digits_of_indexed_decimals() {
    const DIGITS: usize = 10_000;
    // A byte of a decimal has less than three digits, and a unit is 1024 bytes of a comparison.
    let least = (digits_bytes(DIGITS / 3) / 1024) as u64;
    let table = "CREATE TABLE t (k decimal, j int, v decimal, PRIMARY KEY ((k, j)))";
    let mut server = Server::with(&[table]);
    let (one, two) = ("1".repeat(DIGITS), "2".repeat(DIGITS));
    let insert = |v: &str| format!("INSERT INTO t (k, j, v) VALUES ({one}, 1, {v})");
    let ((), mut without) = charged(|| server.run(&insert(&one)));
    for (on, count) in [("k", 1), ("v", 2)] {
        server.run(&format!("CREATE INDEX ON t ({on})"));
        server.wait_until_all_built();
        assert_eq!(entries(&server, "t"), count);
        let ((), with) = charged(|| server.run(&insert(&one)));
        assert!(with >= without + least, "{on}: {with} after {without}");
        without = with;
    }
    server.run(&insert(&two));
    assert_eq!(entries(&server, "t"), 3);
    let by = format!("SELECT j FROM t WHERE v = {one}");
    let (rows, removing) = charged(|| server.rows(&by));
    assert_eq!((rows.as_str(), entries(&server, "t")), ("", 2));
    let (_, after) = charged(|| server.rows(&by));
    assert!(removing >= after + least, "{removing}, then {after}");
}

/// Regression: a read whose time ended while it checked a stale entry kept the stale entries before that
/// one, too. Each later read repeated the checks, and removed none.
#[test]
fn a_removal_that_ends_early_removes_the_stale_entries_that_it_has_found() {
    let table = "CREATE TABLE t (k int, c int, v decimal, PRIMARY KEY (k, c))";
    let mut server = Server::with(&[table, "CREATE INDEX ON t (v)"]);
    let long = "1".repeat(10_000);
    insert(&mut server, &[(1, 1, "7"), (1, 2, "7")]);
    insert(&mut server, &[(1, 1, "8"), (1, 2, &long[..])]);
    let keys = entry_keys(&server, "t");
    assert_eq!(keys.len(), 4);
    let catalog = server.executor.catalog();
    let table = catalog.state().table("ks", "t").unwrap().clone();
    // The check of the first entry is too short to notice the cancellation; that of the second is not.
    scope(&cancelled(), TimeOut::Read(Consistency::One), || {
        remove_stale(catalog, &table, &keys[..2]);
    });
    assert_eq!(entry_keys(&server, "t"), keys[1..]);
    assert_eq!(server.rows("SELECT c FROM t WHERE v = 7"), "");
    assert_eq!(entry_keys(&server, "t"), keys[2..]);
}

/// Regression: a read searched for the next entry before it added the current row to the page, so
/// with LIMIT 1 it passed all removed entries behind the row.
#[test]
fn a_read_with_its_last_row_passes_no_removed_entries_behind_it() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    for c in 0..1000 {
        insert(&mut server, &[(1, c, "7")]);
    }
    let first = "SELECT c FROM t WHERE v = 7 LIMIT 1";
    let (_, before) = charged(|| server.rows(first));
    let state = server.executor.catalog().state();
    let table = state.table("ks", "t").unwrap().rows();
    for entry in &entry_keys(&server, "t")[1..] {
        table.delete(entry).unwrap();
    }
    assert_eq!(entries(&server, "t"), 1);
    let (rows, after) = charged(|| server.rows(first));
    assert_eq!((&rows[..], after), ("0", before));
    // A read that goes on passes the removed entries, and is charged for each 32 of them.
    let (rows, all) = charged(|| server.rows("SELECT c FROM t WHERE v = 7"));
    assert_eq!(rows, "0");
    assert!(all >= after + 50, "{all} units, and {after} with LIMIT 1");
}

/// Regression: a client that paged over more removed entries than a time-out allows got a time-out at
/// the same place each time.
#[test]
fn a_page_ends_among_removed_entries_and_the_next_one_goes_on_behind_them() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)", "CREATE INDEX ON t (s)"]);
    // Rows of one partition for the index on `v`, and partitions for the one on `s`.
    for number in 0..1000 {
        insert(&mut server, &[(-1, number, "7")]);
        server.run(&format!("INSERT INTO t (k, c, s) VALUES ({number}, 0, 7)"));
    }
    let state = server.executor.catalog().state();
    let table = state.table("ks", "t").unwrap().rows();
    let keys = table.range::<&[u8], _>(SCHEMA_KEY..PARTITIONS_START);
    let keys = keys.map(|entry| entry.unwrap().0).skip(1);
    let of_indexes = keys.filter(|key| EntryKey::read(key).unwrap().index < 100);
    let of_indexes: Vec<_> = of_indexes.collect();
    assert_eq!(of_indexes.len(), 2000);
    // The last entry of each index stays.
    for entry in of_indexes[..999].iter().chain(&of_indexes[1000..1999]) {
        table.delete(entry).unwrap();
    }
    server.end_pages_at_each_look();
    for (column, c) in [("v", "999"), ("s", "0")] {
        let by = format!("SELECT c FROM t WHERE {column} = 7");
        let (found, pages) = server.read_in_pages(&by, 100);
        assert_eq!(found, [[c]], "{by}");
        assert!((4..100).contains(&pages), "{by}: {pages} pages");
    }
}

/// Regression: a read by an index looked at no clock between partitions whose rows reached PER PARTITION
/// LIMIT, so that its page ended only once it was full.
#[test]
fn a_page_ends_between_partitions_that_reach_their_limit() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    // Some partitions end at their limit, and others have entries behind it.
    for k in 0..100 {
        insert(&mut server, &[(k, 1, "7")]);
        if k % 3 == 0 {
            insert(&mut server, &[(k, 2, "7")]);
        }
    }
    let by = "SELECT k, c FROM t WHERE v = 7 PER PARTITION LIMIT 1";
    let all = server.page(by, &[], None, None).unwrap().rows;
    assert_eq!(all.len(), 100);
    server.end_pages_at_each_look();
    let (rows, pages) = server.read_in_pages(by, 1000);
    assert_eq!(rows, all);
    assert!(pages > 5, "{pages} pages");
}

/// Index entries are removed in the order of commits: a tombstone of an entry does not hide an
/// entry that is committed later, whatever the timestamps.
#[test]
fn a_value_with_an_old_timestamp_has_its_entry_once_it_is_visible() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 7) USING TIMESTAMP 100");
    server.run("DELETE FROM t USING TIMESTAMP 200 WHERE k = 1");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "");
    assert_eq!(entries(&server, "t"), 0);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 7) USING TIMESTAMP 150");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "");
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 7) USING TIMESTAMP 201");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "1");
}

/// The range tombstone of a DELETE is in the partition's header, and all code that looks at a row
/// for an index has to read it: reads, builds and the removal of stale entries.
#[test]
fn rows_of_a_deleted_range_are_not_found() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    insert(&mut server, &[(1, 1, "7"), (1, 2, "7"), (1, 3, "7")]);
    server.run("DELETE FROM t WHERE k = 1 AND c > 1");
    assert_eq!(entries(&server, "t"), 3);
    assert_eq!(server.rows("SELECT c FROM t WHERE v = 7"), "1");
    assert_eq!(entries(&server, "t"), 1);
    server.run("DROP INDEX t_v_idx");
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    assert_eq!(entries(&server, "t"), 1);
}

/// Regression: DROP INDEX removes the entries before the next schema is the current one. A read by
/// the index that had taken its schema before, and opened its view after, returned no rows.
#[test]
fn a_read_with_an_earlier_schema_does_not_use_a_dropped_index() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)", "CREATE INDEX ON t (s)"]);
    insert(&mut server, &[(1, 1, "7")]);
    let earlier = server.executor.catalog().state();
    let table = earlier.table("ks", "t").unwrap();
    let [by_v, by_s] = ["v", "s"].map(|column| {
        let prepared = server.prepare(&format!("SELECT k FROM t WHERE {column} = 7"));
        prepared.unwrap().meaning.load_full()
    });
    let check = |server: &Server, meaning: &Meaning| {
        let plan = meaning.as_select().unwrap().select.plan();
        let mut checked = Ok(());
        let answer = server.answer(QueryParameters::default(), |call, _| {
            checked = check_available(plan, table, call);
            Ok(Outcome {
                is_outdated: true,
                ..Outcome::default()
            })
        });
        assert!(answer.is_ok());
        checked.map_err(|error| error.message)
    };
    assert_eq!(check(&server, &by_v), Ok(()));
    // Another change comes first, so that the read's schema is not the last one before the drop.
    server.run("ALTER TABLE t WITH comment = 'x'");
    server.run("DROP INDEX t_v_idx");
    let refused = "The secondary index 't_v_idx' is not yet available";
    assert_eq!(check(&server, &by_v), Err(refused.to_owned()));
    assert_eq!(check(&server, &by_s), Ok(()));
    assert_eq!(server.refused("SELECT k FROM t WHERE v = 7"), FILTERING);
}

/// The rows from before the drop still store values of the column, which are not visible. A build
/// of the new index must skip them.
#[test]
fn a_column_that_was_dropped_and_added_again_is_indexed_from_the_drop_on() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)"]);
    insert(&mut server, &[(1, 1, "7"), (2, 1, "7")]);
    server.run("UPDATE t SET v = 7 WHERE k = 3 AND c = 1");
    server.run("DROP INDEX t_v_idx");
    server.run("ALTER TABLE t DROP v");
    server.run("ALTER TABLE t ADD v int");
    insert(&mut server, &[(2, 1, "7")]);
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    assert_eq!(entries(&server, "t"), 1);
    let by = "SELECT k FROM t WHERE v = 7";
    assert_eq!(server.rows(by), "2");
    // A write adds its entry even if the drop hides its value.
    server.run("UPDATE t USING TIMESTAMP 5 SET v = 7 WHERE k = 4 AND c = 1");
    assert_eq!(entries(&server, "t"), 2);
    assert_eq!(server.rows(by), "2");
    assert_eq!(entries(&server, "t"), 1);
}

#[test]
fn a_row_with_only_a_dropped_column_is_not_found_by_its_key() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (c)"]);
    server.run("UPDATE t SET v = 7 WHERE k = 1 AND c = 5");
    insert(&mut server, &[(2, 5, "7")]);
    let by = "SELECT k FROM t WHERE c = 5";
    assert_eq!(server.rows(by), "1 | 2");
    server.run("ALTER TABLE t DROP v");
    assert_eq!(entries(&server, "t"), 2);
    assert_eq!(server.rows(by), "2");
    // No column that is added shows the row again, so its entry is stale.
    assert_eq!(entries(&server, "t"), 1);
}

/// Regression: rows whose only cells belonged to a dropped column got no entry when an index on a key
/// column was built, and readers removed the entries of such rows. The rows are there again once the
/// column is added, if the cells are newer than the drop, but reads by the index did not find them.
#[test]
fn a_row_of_a_dropped_column_is_found_by_its_key_after_the_column_is_added_again() {
    let table =
        "CREATE TABLE t (k int, j int, c int, v int, s int STATIC, PRIMARY KEY ((k, j), c))";
    let mut server = Server::with(&[table, "CREATE INDEX ON t (k)"]);
    server.run("UPDATE t USING TIMESTAMP 39 SET v = 7 WHERE k = 1 AND j = 1 AND c = 5");
    server.run("UPDATE t USING TIMESTAMP 39 SET s = 7 WHERE k = 1 AND j = 2");
    let (by_c, by_k) = ("SELECT j FROM t WHERE c = 5", "SELECT j FROM t WHERE k = 1");
    for column in ["v", "s"] {
        server.run(&format!("ALTER TABLE t DROP {column} USING TIMESTAMP 37"));
    }
    server.run("CREATE INDEX ON t (c)");
    server.wait_until_all_built();
    assert_eq!((server.rows(by_c), server.rows(by_k)), Default::default());
    server.run("ALTER TABLE t ADD v int");
    server.run("ALTER TABLE t ADD s int STATIC");
    assert_eq!(server.rows(by_c), "1");
    let mut by_k: Vec<_> = server.rows(by_k).split(" | ").map(str::to_owned).collect();
    by_k.sort_unstable();
    assert_eq!(by_k, ["1", "2"]);
}

#[test]
fn columns_of_every_kind_are_indexed() {
    let table = "CREATE TABLE t (a int, b int, c int, d int, s int STATIC, v int, \
                 PRIMARY KEY ((a, b), c, d))";
    let mut server = Server::with(&[table]);
    for on in ["b", "d", "s", "v"] {
        server.run(&format!("CREATE INDEX ON t ({on})"));
    }
    server.wait_until_all_built();
    for (a, b, c, d, s, v) in [(1, 1, 1, 1, 5, 1), (1, 2, 1, 2, 6, 2), (2, 1, 3, 2, 5, 2)] {
        server.run(&format!(
            "INSERT INTO t (a, b, c, d, s, v) VALUES ({a}, {b}, {c}, {d}, {s}, {v})"
        ));
    }
    server.run("INSERT INTO t (a, b, s) VALUES (9, 1, 5)");
    server.run("UPDATE t SET v = 2 WHERE a = 1 AND b = 1 AND c = 7 AND d = 7");
    let all = server.rows("SELECT a, b, c, d FROM t WHERE b = 1 ALLOW FILTERING");
    let mut rows: Vec<&str> = all.split(" | ").collect();
    rows.sort_unstable();
    assert_eq!(rows, ["1 1 1 1", "1 1 7 7", "2 1 3 2", "9 1 null null"]);
    assert_eq!(server.rows("SELECT a, b, c, d FROM t WHERE b = 1"), all);
    assert_eq!(server.rows("SELECT a, b, c, d FROM t WHERE s = 5"), all);
    let steps = "
        SELECT a FROM t WHERE d = 2 AND a = 1 AND b = 2 => 1
        SELECT a, b FROM t WHERE d = 7 => 1 1
        SELECT c FROM t WHERE v = 2 AND a = 1 AND b = 1 => 7
        DELETE s FROM t WHERE a = 1 AND b = 1 => done
        DELETE FROM t WHERE a = 2 AND b = 1 => done
    ";
    server.check(steps);
    let before = entries(&server, "t");
    assert_eq!(server.rows("SELECT a, c FROM t WHERE s = 5"), "9 null");
    assert_eq!(
        server.rows("SELECT a, c FROM t WHERE b = 1 AND a = 2 ALLOW FILTERING"),
        ""
    );
    assert_eq!(before - entries(&server, "t"), 2);
}

#[test]
fn collections_are_indexed_by_values_keys_entries_and_as_a_whole() {
    let table = "CREATE TABLE t (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, \
                 f frozen<list<int>>)";
    let mut server = Server::with(&[table]);
    for on in ["l", "values(s)", "m", "keys(m)", "entries(m)", "full(f)"] {
        server.run(&format!("CREATE INDEX ON t ({on})"));
    }
    server.wait_until_all_built();
    server.run(
        "INSERT INTO t (k, l, s, m, f) VALUES (1, [1, 2, 2], {'a', 'b'}, {'x': 1, 'y': 2}, [3])",
    );
    server.run("INSERT INTO t (k, l, s, m, f) VALUES (2, [2], {'b'}, {'y': 1}, [3, 4])");
    let steps = "
        SELECT k FROM t WHERE l CONTAINS 2 => 1 | 2
        SELECT k FROM t WHERE l CONTAINS 1 => 1
        SELECT k FROM t WHERE s CONTAINS 'b' => 1 | 2
        SELECT k FROM t WHERE m CONTAINS 1 => 1 | 2
        SELECT k FROM t WHERE m CONTAINS KEY 'x' => 1
        SELECT k FROM t WHERE m['y'] = 1 => 2
        SELECT k FROM t WHERE f = [3, 4] => 2
        UPDATE t SET l[0] = 7, s = s - {'b'}, m['z'] = 1 WHERE k = 1 => done
        DELETE m['y'] FROM t WHERE k = 2 => done
        UPDATE t SET l = [5] + l, s = s + {'c'} WHERE k = 2 => done
        SELECT k FROM t WHERE l CONTAINS 1 => no rows
        SELECT k FROM t WHERE l CONTAINS 7 => 1
        SELECT k FROM t WHERE l CONTAINS 5 => 2
        SELECT k FROM t WHERE s CONTAINS 'b' => 2
        SELECT k FROM t WHERE s CONTAINS 'c' => 2
        SELECT k FROM t WHERE m CONTAINS 1 => 1
        SELECT k FROM t WHERE m CONTAINS KEY 'y' => 1
        SELECT k FROM t WHERE m['z'] = 1 => 1
        SELECT k FROM t WHERE m['y'] = 1 => no rows
    ";
    server.check(steps);
    let twice = "SELECT k FROM t WHERE l CONTAINS 7 AND l CONTAINS 2";
    assert_eq!(server.refused(twice), FILTERING);
    assert_eq!(server.rows(&format!("{twice} ALLOW FILTERING")), "1");
}

#[test]
fn values_that_reach_the_limit_of_an_index_are_refused() {
    let table = "CREATE TABLE t (k int PRIMARY KEY, v text, items list<text>, members set<text>, \
                 keyed map<text, int>, valued map<int, text>, entry map<text, text>)";
    let mut server = Server::with(&[table]);
    for on in [
        "v",
        "items",
        "members",
        "keys(keyed)",
        "valued",
        "entries(entry)",
    ] {
        server.run(&format!("CREATE INDEX ON t ({on})"));
    }
    server.wait_until_all_built();
    // The size of an entry is that of its key, of its value (here 2) and 6.
    for (column, literal, limit) in [
        ("v", "'X'", 65_535),
        ("items", "['X']", 65_535),
        ("members", "{'X'}", 65_535),
        ("keyed", "{'X': 1}", 65_535),
        ("valued", "{1: 'X'}", 65_535),
        ("entry", "{'X': 'ab'}", 65_527),
    ] {
        let update = |len: usize| {
            let literal = literal.replace('X', &"x".repeat(len));
            format!("UPDATE t SET {column} = {literal} WHERE k = 1")
        };
        server.run(&update(limit - 1));
        assert_eq!(
            server.refused(&update(limit)),
            format!(
                "Cannot index value of size 65535 for index t_{column}_idx on ks.t({column}) \
                 (maximum allowed size=65535)"
            )
        );
    }
}

/// Regression: an index was never built over a column with a decimal of more than 65,535 bytes, which was
/// reported as damage.
#[test]
fn an_index_is_built_over_values_that_are_too_long_for_it() {
    let table = "CREATE TABLE t (k int PRIMARY KEY, v decimal, m map<int, decimal>, \
                 l list<decimal>, f frozen<list<decimal>>)";
    let mut server = Server::with(&[table]);
    server.run("INSERT INTO t (k, v, m, l, f) VALUES (1, 1, {1: 1}, [1], [1])");
    let part = |bytes: &[u8]| [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat();
    let one = 1_i32.to_be_bytes();
    // The scale, then the digits.
    let long = [&[0; 4][..], &[7; 65_536]].concat();
    let list = [&one[..], &part(&long)].concat();
    let map = [&one[..], &part(&one), &part(&long)].concat();
    let insert = |server: &mut Server, column: &str, value: &[u8]| {
        let text = format!("INSERT INTO t (k, {column}) VALUES (2, ?)");
        let prepared = server.prepare(&text).unwrap();
        let done = server.bind(&prepared, &[Value::Bytes(value)]);
        done.err().map(|error| error.message)
    };
    for (column, value, on, by) in [
        ("v", &long, "v", "v = 1"),
        ("m", &map, "values(m)", "m CONTAINS 1"),
        ("l", &list, "l", "l CONTAINS 1"),
        ("f", &list, "full(f)", "f = [1]"),
    ] {
        assert_eq!(insert(&mut server, column, value), None, "{column}");
        server.run(&format!("CREATE INDEX ON t ({on})"));
        server.wait_until_all_built();
        assert_eq!(server.rows(&format!("SELECT k FROM t WHERE {by}")), "1");
        // Once there is an index, Cassandra refuses such a value, too.
        let refused = insert(&mut server, column, value).unwrap();
        assert!(
            refused.starts_with("Cannot index value of size 655"),
            "{refused}"
        );
    }
}

#[test]
fn restrictions_that_the_index_does_not_serve_need_filtering() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int, b int, c int, d int, s int STATIC, v int, w int, \
         PRIMARY KEY ((a, b), c, d))",
        "CREATE INDEX ON t (v)",
        "CREATE INDEX ON t (c)",
    ]);
    for needs in [
        "v = 1 AND w = 1",
        "v > 1",
        "v IN (1, 2)",
        "v = 1 AND a = 1",
        "v = 1 AND c = 1",
        "w = 1 AND a = 1 AND b = 1",
        "c = 1 AND d = 1",
        "c > 1",
        "v = 1 AND d = 1 AND a = 1 AND b = 1",
    ] {
        let text = format!("SELECT * FROM t WHERE {needs}");
        assert_eq!(server.refused(&text), FILTERING, "{needs}");
        assert_eq!(
            server.rows(&format!("{text} ALLOW FILTERING")),
            "",
            "{needs}"
        );
    }
    let steps = "
        SELECT * FROM t WHERE v = 1 => no rows
        SELECT * FROM t WHERE v = 1 AND token(a, b) > 5 => no rows
        SELECT * FROM t WHERE v = 1 AND a = 1 AND b = 1 => no rows
        SELECT * FROM t WHERE v = 1 AND a = 1 AND b = 1 AND c > 1 => no rows
        SELECT * FROM t WHERE v = 1 AND a = 1 AND b = 1 AND c = 1 AND d = 1 => no rows
        SELECT * FROM t WHERE c = 1 => no rows
        SELECT * FROM t WHERE c = 1 AND token(a, b) > 5 => no rows
        SELECT * FROM t WHERE v = 1 AND a = 1 AND b IN (1, 2)
        => Select on indexed columns and with IN clause for the PRIMARY KEY are not supported
        SELECT * FROM t WHERE v = 1 AND a = 1 AND b = 1 ORDER BY c
        => ORDER BY with 2ndary indexes is not supported.
        SELECT * FROM t WHERE v = null => Unsupported null value for column v
    ";
    server.check(steps);
}

#[test]
fn pages_by_an_index_add_up_to_the_unpaged_result() {
    let mut server = Server::with(&[TABLE, "CREATE INDEX ON t (v)", "CREATE INDEX ON t (s)"]);
    for k in 0..7 {
        server.run(&format!("UPDATE t SET s = {} WHERE k = {k}", k % 2));
        for c in 0..5 {
            server.run(&format!(
                "INSERT INTO t (k, c, v) VALUES ({k}, {c}, {})",
                (k + c) % 3
            ));
        }
    }
    for restriction in [
        "v = 1",
        "v = 1 AND token(k) > 0",
        "v = 1 AND k = 3",
        "s = 1",
        "s = 0 AND token(k) < 0",
    ] {
        let text = format!("SELECT k, c, v, s FROM t WHERE {restriction}");
        for more in ["", " LIMIT 4", " PER PARTITION LIMIT 1"] {
            let text = format!("{text}{more}");
            let whole = server.page(&text, &[], None, None).unwrap().rows;
            for size in [1, 2, 3] {
                let (rows, _) = server.read_in_pages(&text, size);
                assert_eq!(rows, whole, "{text} by {size}");
            }
        }
    }
    // A paging state must not lead outside of the statement's restrictions.
    let page = server
        .page("SELECT k FROM t WHERE v = 1 AND k = 3", &[], Some(1), None)
        .unwrap();
    let state = page.state.unwrap();
    for end in 0..state.len() {
        let cut = Some(&state[..end]);
        // A truncated state may still name a place in the partition, at which the page begins.
        let text = "SELECT k FROM t WHERE v = 1 AND k = 3";
        if let Ok(page) = server.page(text, &[], Some(1), cut) {
            assert!(page.rows.iter().all(|row| row == &["3"]), "{end}");
        }
    }
}

/// Regression: no index served `=` on a tuple of columns, such as `(b, c) = (?, ?)`, so that a long
/// value of the indexed column was accepted in a tuple. Outside of tuples its length was checked
/// only after the keys of rows.
#[test]
fn values_of_more_than_64k_of_an_indexed_column_get_cassandras_error() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int, b blob, c int, d int, PRIMARY KEY (a, b, c))",
        "CREATE INDEX ON t (b)",
        "INSERT INTO t (a, b, c, d) VALUES (0, 0x01, 0, 2)",
        "INSERT INTO t (a, b, c, d) VALUES (1, 0x02, 1, 2)",
        "INSERT INTO t (a, b, c, d) VALUES (2, 0x02, 2, 2)",
    ]);
    let (long, short) = (vec![2_u8; 66_000], [2_u8]);
    let int = 1_i32.to_be_bytes();
    let tuple = |b: &[u8]| elements::build_tuple([Some(b), Some(&int[..])]);
    let (long_tuple, short_tuple) = (tuple(&long), tuple(&short));
    let ints: &[Option<&[u8]>] = &[Some(&int)];
    type Case<'c> = (&'c str, &'c [u8], &'c [u8], &'c [Option<&'c [u8]>], &'c str);
    let cases: [Case<'_>; 4] = [
        ("b = ?", &long, &short, &[], "1 2"),
        ("(b, c) = (?, ?) ALLOW FILTERING", &long, &short, ints, "1"),
        (
            "(b, c) = (?, ?) AND d = 2 ALLOW FILTERING",
            &long,
            &short,
            ints,
            "1",
        ),
        (
            "(b, c) = ? AND d = 2 ALLOW FILTERING",
            &long_tuple,
            &short_tuple,
            &[],
            "1",
        ),
    ];
    for (relation, long, short, rest, expected) in cases {
        let text = format!("SELECT a FROM t WHERE {relation}");
        let mut with = |value: &[u8]| {
            let values = [&[Some(value)][..], rest].concat();
            server.page(&text, &values, None, None)
        };
        let error = with(long).unwrap_err();
        assert_eq!(
            error.message, "Index expression values may not be larger than 64K",
            "{text}"
        );
        let mut found = with(short).unwrap().rows.concat();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{text}");
    }
    // The value of the other column in the tuple is filtered, or restricts the rows.
    assert_eq!(
        server.refused("SELECT a FROM t WHERE (b, c) = (0x02, 1)"),
        FILTERING
    );
}

#[test]
fn statements_about_indexes_behave_as_in_cassandra() {
    let mut server = Server::with(&[
        TABLE,
        "CREATE TABLE other (k int PRIMARY KEY, v int, d duration, m map<int, int>, \
         f frozen<map<int, int>>)",
        "CREATE TABLE counts (k int PRIMARY KEY, n counter)",
        "CREATE INDEX ON t (v)",
        "CREATE INDEX named ON t (s)",
    ]);
    let steps = "
        CREATE INDEX t_v_idx_1 ON other (v) => done
        CREATE INDEX IF NOT EXISTS named ON other (m) => done
        CREATE INDEX IF NOT EXISTS ON t (v) => done
        CREATE INDEX ON t (v) => Index t_v_idx_2 is a duplicate of existing index t_v_idx
        CREATE INDEX named ON other (m) => Index 'named' already exists
        CREATE INDEX ON t (x) => Undefined column name x in table ks.t
        CREATE INDEX ON none (x) => Table 'none' doesn't exist
        CREATE INDEX ON t (k) => Cannot create secondary index on the only partition key column k
        CREATE INDEX ON counts (n) => Secondary indexes on counter tables aren't supported
        CREATE INDEX ON other (d) => Secondary indexes are not supported on duration columns
        CREATE INDEX ON other (f)
        => Cannot create values() index on frozen column f. Frozen collections are immutable and \
           must be fully indexed by using the 'full(f)' modifier
        CREATE INDEX ON other (full(m)) => full() indexes can only be created on frozen collections
        CREATE INDEX ON other (keys(v))
        => Cannot create keys() index on v. Non-collection columns only support simple indexes
        CREATE INDEX ON t (v, s) => Only CUSTOM indexes support multiple columns
        CREATE INDEX ON t ()
        => Only CUSTOM indexes can be created without specifying a target column
        DROP INDEX none => Index 'ks.none' doesn't exist'
        ALTER TABLE t DROP v
        => Cannot drop column v because it has dependent secondary indexes (t_v_idx)
    ";
    server.check(steps);
    // The targets, which are among the options, are checked by the descriptions below.
    server.rows("SELECT options FROM system_schema.indexes");
    let steps = "
        SELECT table_name, index_name, kind FROM system_schema.indexes WHERE keyspace_name = 'ks'
        => other t_v_idx_1 COMPOSITES | t named COMPOSITES | t t_v_idx COMPOSITES
        CREATE INDEX \"ent\" ON other (entries(m)) => done
    ";
    server.check(steps);
    assert!(
        server
            .rows("DESCRIBE INDEX ent")
            .ends_with("CREATE INDEX ent ON ks.other (entries(m));")
    );
    assert!(
        server
            .rows("DESCRIBE TABLE t")
            .ends_with("CREATE INDEX t_v_idx ON ks.t (v);")
    );
    server.run("DROP INDEX t_v_idx");
    server.run("DROP INDEX IF EXISTS t_v_idx");
    assert_eq!(server.refused("SELECT * FROM t WHERE v = 1"), FILTERING);
    server.run("ALTER TABLE t DROP v");
}

//! Reads that pass very many keys without a row.

use ebb_cql::protocol::ErrorKind;
use ebb_model::key::PARTITIONS_START;

use crate::executor::harness::Server;
use crate::interrupt::tests::{cancelled, charged};
use crate::testing::never;

/// The number of keys that the reads pass: in searches of 32 keys, of two units each, 62 units.
const KEYS: i32 = 1000;

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

/// Deletes the keys of all rows from the store. Unlike after DELETE, there are then no entries that a
/// read looks at: only keys that the search for an entry passes.
fn delete_keys(server: &Server) {
    let state = server.executor.catalog().state();
    let table = state.table("ks", "t").unwrap().rows();
    let entries = table.range::<&[u8], _>(PARTITIONS_START..);
    let keys: Vec<_> = entries.map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys.len() as i32, KEYS);
    for key in keys {
        table.delete(&key).unwrap();
    }
}

/// Regression: a SELECT that passed many deleted keys counted none of the work towards its time-out.
#[test]
fn a_read_charges_for_the_deleted_keys_that_it_passes_in_either_direction() {
    let mut server = server();
    let empty = READS.map(|read| charged(|| server.rows(read)).1);
    insert_rows(&mut server);
    delete_keys(&server);
    for (read, without) in READS.into_iter().zip(empty) {
        let (rows, with) = charged(|| server.rows(read));
        assert_eq!(rows, "", "{read}");
        assert!(
            with >= without + 60,
            "{read}: {with} units, and {without} of an empty table"
        );
    }
}

/// Regression: a SELECT of a snapshot passed the rows that were written later in one call.
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
    delete_keys(&server);
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

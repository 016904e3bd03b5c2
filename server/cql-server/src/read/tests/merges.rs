//! Reads during a merge that purges a deletion together with the rows it covers.

use std::ops::Bound;

use ebb_cql::protocol::{QueryParameters, Response};
use ebb_model::key::PartitionKey;
use ebb_storage::{Cache, Db, Entries, SnapshotTable, TableReader, Value};
use ebb_tables::read::{Source, Unpaced};

use crate::analyse::markers;
use crate::call::Outcome;
use crate::executor::harness::Server;
use crate::paging::PagingState;
use crate::prepared::Meaning;
use crate::read::{Bounds, Limits};

/// A reader that merges the table after each call. Iterators of the reader have the contents from
/// before a merge, later lookups those from after the merge.
#[derive(Debug)]
struct MergingReader<'t> {
    table: &'t SnapshotTable,
    db: &'t Db,
}

impl TableReader for MergingReader<'_> {
    fn get(&self, key: &[u8]) -> ebb_storage::Result<Option<Value>> {
        let found = self.table.get(key)?;
        self.db.compact()?;
        Ok(found)
    }

    fn range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        cache: Cache,
    ) -> ebb_storage::Result<Entries<'_>> {
        let entries = TableReader::range(self.table, lower, upper, cache)?;
        self.db.compact()?;
        Ok(entries)
    }

    fn read_time_ms(&self) -> u64 {
        self.table.read_time_ms()
    }
}

fn partition() -> PartitionKey {
    PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap()
}

/// Executes a SELECT from a table with two deleted partitions while a merge purges both, and checks
/// that the SELECT returns no row. A read of both partitions meets the second one in the middle of
/// its walk. If `resumes_behind` is set, the SELECT reads the page after the row with this
/// clustering in partition 1.
fn assert_returns_nothing(select: &str, resumes_behind: Option<i32>) {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0",
    ]);
    let db = server.executor.catalog().db().clone();
    // The number of runs that starts a merge.
    for c in 0..8 {
        server.run(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, {c})"));
        server.run(&format!("INSERT INTO t (k, c, v) VALUES (2, {c}, {c})"));
        db.flush().unwrap();
    }
    server.run("DELETE FROM t WHERE k = 1");
    server.run("DELETE FROM t WHERE k = 2");
    db.flush().unwrap();
    // With a grace period of 0, a merge purges what was deleted in an earlier second than that of the
    // earliest reader. One second would be enough.
    server.clock.advance_ms(10_000);
    let keyspace = db.existing_keyspace("ks").unwrap();
    keyspace.create_snapshot("s").unwrap();
    let table = keyspace.snapshot("s").unwrap().table("t").unwrap();
    let header_key = partition().header_key();
    assert!(table.get(&header_key).unwrap().is_some());

    let state = server.executor.catalog().state();
    let schema = state.table("ks", "t").unwrap().schema();
    let prepared = server.prepare(select).unwrap();
    let paging_state = resumes_behind.map(|c| {
        let state = PagingState {
            statement: prepared.hash,
            key: (schema.layout())
                .row_key(&partition(), &[&c.to_be_bytes()])
                .unwrap(),
            had_rows: true,
            left: u64::MAX,
            left_in_partition: u64::MAX,
        };
        state.encode()
    });
    let reader = MergingReader {
        table: &table,
        db: &db,
    };
    let source = Source::Stored(&reader, Cache::Bypass, &Unpaced);
    let meaning = prepared.meaning.load_full();
    let Meaning::Select(meaning) = &*meaning else {
        panic!("{select} is a SELECT");
    };
    let bounds = Bounds {
        limits: &Limits::default(),
        guardrails: None,
    };
    let parameters = QueryParameters {
        paging_state: paging_state.as_deref(),
        ..QueryParameters::default()
    };
    let answer = server.answer(parameters, |call, out| {
        let bound = markers::Bound::default();
        (meaning.select).execute(&source, call, &bound, None, bounds, out)?;
        Ok(Outcome::default())
    });
    let Response::Rows(rows) = answer.unwrap().0 else {
        panic!("{select} gives no rows");
    };
    assert_eq!(rows.cells().count(), 0);
    assert_eq!(rows.paging_state, None);
    let header = table.get(&header_key).unwrap();
    assert_eq!(header, None, "the merge has purged the deletion");
}

#[test]
fn a_read_of_a_partition_returns_no_row_that_a_merge_purges_meanwhile() {
    assert_returns_nothing("SELECT * FROM t WHERE k = 1", None);
}

#[test]
fn a_read_of_one_row_returns_no_row_that_a_merge_purges_meanwhile() {
    assert_returns_nothing("SELECT * FROM t WHERE k = 1 AND c = 5", None);
}

#[test]
fn a_read_of_a_range_returns_no_row_that_a_merge_purges_meanwhile() {
    assert_returns_nothing("SELECT * FROM t", None);
}

#[test]
fn a_page_that_begins_in_a_partition_returns_no_row_that_a_merge_purges_meanwhile() {
    assert_returns_nothing("SELECT * FROM t", Some(0));
}

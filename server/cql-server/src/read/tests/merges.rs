//! Reads during which a merge purges a deletion together with the rows that it hides.

use std::ops::Bound;
use std::time::Duration;

use ebb_cql::protocol::Consistency;
use ebb_model::key::{ByteRange, PARTITIONS_START, PartitionKey};
use ebb_storage::{Cache, Db, Entries, SnapshotTable, TableReader, Value};
use ebb_tables::read::{Projection, Source};

use crate::analyse::markers;
use crate::analyse::restrictions::{Partitions, Rows};
use crate::analyse::selection::Slots;
use crate::error::Result;
use crate::executor::harness::Server;
use crate::paging::PagingState;
use crate::read::filter::Filter;
use crate::read::scanned::Scanned;
use crate::read::walk::{End, Flow, Sink, Visited, Walk};

/// A reader that merges the table after each call: its iterators keep what was there before the merge,
/// and later look-ups find what the merge left.
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

/// The keys of the rows that a walk gives.
#[derive(Debug, Default)]
struct Keys(Vec<Vec<u8>>);

impl Sink for Keys {
    fn row(&mut self, row: &Visited<'_>) -> Result<Flow> {
        self.0.push(row.key.to_vec());
        Ok(Flow::Row)
    }

    fn may_cut(&self, _: Duration) -> bool {
        false
    }
}

fn partition() -> PartitionKey {
    PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap()
}

fn all() -> Partitions {
    Partitions::Range(ByteRange {
        from: PARTITIONS_START.to_vec(),
        to: None,
    })
}

/// Reads `partitions` of a table with two deleted partitions while a merge purges both, and asserts that
/// no row is shown. A read of both meets the second one in the middle of its walk.
fn assert_shows_nothing(partitions: &Partitions, resumes_behind: Option<i32>) {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0",
    ]);
    let db = server.executor.catalog().db().clone();
    // As many runs as a merge takes.
    for c in 0..8 {
        server.run(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, {c})"));
        server.run(&format!("INSERT INTO t (k, c, v) VALUES (2, {c}, {c})"));
        db.flush().unwrap();
    }
    server.run("DELETE FROM t WHERE k = 1");
    server.run("DELETE FROM t WHERE k = 2");
    db.flush().unwrap();
    server.clock.advance_ms(10_000);
    let keyspace = db.existing_keyspace("ks").unwrap();
    keyspace.create_snapshot("s").unwrap();
    let table = keyspace.snapshot("s").unwrap().table("t").unwrap();
    let header_key = partition().header_key();
    assert!(table.get(&header_key).unwrap().is_some());

    let state = server.executor.catalog().state();
    let schema = state.table("ks", "t").unwrap().schema();
    let resume = resumes_behind.map(|c| PagingState {
        statement: 0,
        key: (schema.layout())
            .row_key(&partition(), &[&c.to_be_bytes()])
            .unwrap(),
        had_rows: true,
        left: u64::MAX,
        left_in_partition: u64::MAX,
    });
    let reader = MergingReader {
        table: &table,
        db: &db,
    };
    let slots = Slots::default();
    let bound = markers::Bound::default();
    let source = Source::Stored(&reader, Cache::Bypass);
    let walk = Walk {
        source: &source,
        schema,
        projection: &Projection::new(schema, slots.columns()),
        filter: &Filter::new(&[], &slots, &[], |_| "", &bound).unwrap(),
        rows: &Rows::All,
        reversed: false,
        static_rows: true,
        now_s: source.read_time_s(0),
        scanned: &Scanned::new(None, schema, Consistency::One, None),
    };
    let mut keys = Keys::default();
    let end = walk.run(partitions, resume.as_ref(), &mut keys).unwrap();
    assert_eq!(end, End::Done);
    assert_eq!(keys.0, Vec::<Vec<u8>>::new());
    let header = table.get(&header_key).unwrap();
    assert_eq!(header, None, "the merge has purged the deletion");
}

#[test]
fn a_read_of_a_known_partition_shows_no_row_that_a_merge_purges_meanwhile() {
    assert_shows_nothing(&Partitions::Keys(vec![partition()]), None);
}

#[test]
fn a_read_of_a_range_shows_no_row_that_a_merge_purges_meanwhile() {
    assert_shows_nothing(&all(), None);
}

#[test]
fn a_page_that_begins_in_a_partition_shows_no_row_that_a_merge_purges_meanwhile() {
    assert_shows_nothing(&all(), Some(0));
}

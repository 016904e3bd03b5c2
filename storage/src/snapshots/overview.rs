//! The commits at which all snapshots, holds and views stand at one instant.
//!
//! Most snapshots are of a whole keyspace, and so cover each of its tables. Their commits are copied
//! once for the keyspace, and its tables share them:
//!
//! ```text
//!   shared    3    7    9    12   15
//!   table a        |----------------   created after 3
//!   table b   |---------|              dropped after 9
//! ```
//!
//! So figures about all tables cost as much as there are tables and snapshots. To look up the snapshots
//! of each table by itself would cost the product of the two. Only a table with snapshots of its own
//! between those of its keyspace needs a list of its own.

use std::borrow::Cow;
use std::collections::HashMap;

use super::index::SnapshotIndex;
use super::{Lifetime, TableSpan};
use crate::key::{SeqNo, TableId, stripe};

/// The commits at which all bookmarks (snapshots and holds) and all views (open readers) read.
#[derive(Debug)]
pub(crate) struct SnapshotOverview {
    keyspaces: HashMap<String, OfKeyspace>,
    /// The commits at which views (open readers) read, ascending.
    views: Vec<SeqNo>,
}

/// The commits at which the bookmarks of a keyspace read: its snapshots and its holds, each of
/// which keeps a snapshot's state of one table. Each list ascends, with each commit once.
#[derive(Debug, Default)]
struct OfKeyspace {
    /// The commits of the snapshots that cover the whole keyspace.
    shared: Vec<SeqNo>,
    /// The commits at which snapshots and holds of single tables read, by table. (A hold keeps a
    /// snapshot's state of one table.)
    own: HashMap<TableId, Vec<SeqNo>>,
}

/// The commits of all readers of one table: its snapshots, its holds (each keeps a snapshot's state
/// of the table), and all views (open readers).
#[derive(Debug)]
pub(crate) struct TableBookmarks<'a> {
    bookmarks: Cow<'a, [SeqNo]>,
    views: &'a [SeqNo],
}

impl SnapshotOverview {
    /// Copies the commits at which the bookmarks in `index` read: snapshots, and holds, each of
    /// which keeps a snapshot's state of one table. `views` are the commits at which views (open
    /// readers) read, and must ascend.
    pub(super) fn new(index: &SnapshotIndex, views: Vec<SeqNo>) -> Self {
        let mut keyspaces = HashMap::new();
        for (keyspace, points) in index.keyspaces() {
            let mut of = OfKeyspace::default();
            for point in points {
                let list = match point.table {
                    Some(table) => of.own.entry(table).or_default(),
                    None => &mut of.shared,
                };
                // A snapshot and its holds stand at the same commit.
                if list.last() != Some(&point.at.seq) {
                    list.push(point.at.seq);
                }
            }
            keyspaces.insert(keyspace.to_owned(), of);
        }
        Self { keyspaces, views }
    }

    /// Returns the commits at which the bookmarks (snapshots and holds) of a table and all views
    /// (open readers) read.
    pub(crate) fn of(&self, table: TableSpan<'_>) -> TableBookmarks<'_> {
        let (mut shared, mut own): (&[SeqNo], &[SeqNo]) = (&[], &[]);
        if let Some(of) = self.keyspaces.get(table.keyspace) {
            shared = within(&of.shared, table.lifetime);
            if let Some(of_table) = of.own.get(&table.id) {
                own = within(of_table, table.lifetime);
            }
        }
        TableBookmarks {
            bookmarks: union(shared, own),
            views: &self.views,
        }
    }
}

impl TableBookmarks<'_> {
    /// Returns the commits whose state is shown by snapshots and holds of the table, ascending,
    /// each once.
    pub(crate) fn bookmarks(&self) -> &[SeqNo] {
        &self.bookmarks
    }

    /// Returns whether a bookmark (a snapshot or a hold) or a view (an open reader) reads at one of
    /// the commits `from..=to`.
    pub(crate) fn has_any(&self, from: SeqNo, to: SeqNo) -> bool {
        let is_in = |list: &[SeqNo]| {
            let next = list.get(stripe(list, from));
            next.is_some_and(|&next| next <= to)
        };
        is_in(&self.bookmarks) || is_in(self.views)
    }
}

/// Returns the commits in an ascending list that lie within the lifetime of a table.
fn within(list: &[SeqNo], lifetime: Lifetime) -> &[SeqNo] {
    &list[lifetime.range_in(list, |seq| *seq)]
}

/// Returns the union of two ascending lists; copies neither if one list contains all of the other.
fn union<'a>(shared: &'a [SeqNo], own: &'a [SeqNo]) -> Cow<'a, [SeqNo]> {
    if own.iter().all(|seq| shared.binary_search(seq).is_ok()) {
        return Cow::Borrowed(shared);
    }
    if shared.is_empty() {
        return Cow::Borrowed(own);
    }
    let mut all = [shared, own].concat();
    // A stable sort finds the two ascending parts.
    all.sort();
    all.dedup();
    Cow::Owned(all)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Bookmarks, CoveredTable, SnapshotOp, SnapshotRecord, SnapshotRegistry};
    use super::*;
    use crate::key::ReadPoint;

    fn span(id: u32, created_after: u64, dropped_after: Option<u64>) -> TableSpan<'static> {
        TableSpan {
            keyspace: "app",
            id: TableId(id),
            lifetime: Lifetime {
                created_after: SeqNo(created_after),
                dropped_after: dropped_after.map(SeqNo),
            },
        }
    }

    /// Adds a snapshot of the keyspace `app`, or of one of its tables, at the commit `seq`. With
    /// `held`, the commit of an earlier snapshot, adds instead a hold, which keeps that snapshot's
    /// state.
    fn add(snapshots: &SnapshotRegistry, seq: u64, table: Option<u32>, held: Option<u64>) {
        let record = SnapshotRecord {
            table: table.map(|id| CoveredTable {
                id: TableId(id),
                name: format!("t{id}"),
            }),
            held_for: held.map(|_| "a copy".into()),
            at: held.map(SeqNo),
            ..SnapshotRecord::example(seq)
        };
        snapshots.apply(SeqNo(seq), SnapshotOp::Create(record));
    }

    fn with_snapshots() -> SnapshotRegistry {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        add(&snapshots, 3, None, None);
        add(&snapshots, 5, Some(2), None);
        add(&snapshots, 7, None, None);
        add(&snapshots, 9, None, None);
        add(&snapshots, 11, Some(1), Some(7));
        snapshots.register_view(|| ReadPoint {
            seq: SeqNo(20),
            read_time_ms: 0,
        });
        snapshots
    }

    #[test]
    fn the_commits_of_a_table_are_those_that_the_registry_finds_for_it_alone() {
        let snapshots = with_snapshots();
        let overview = snapshots.overview();
        let ends = (4..12).map(Some).chain([None]);
        for (id, from, to) in [1, 2, 3]
            .into_iter()
            .flat_map(|id| (0..11).map(move |from| (id, from)))
            .flat_map(|(id, from)| ends.clone().map(move |to| (id, from, to)))
        {
            let table = span(id, from, to);
            let found = overview.of(table);
            assert_eq!(found.bookmarks(), snapshots.bookmark_seqs(table));
            let boundaries = snapshots.boundaries(table, 0);
            for (from, to) in (0..22).flat_map(|from| (from..22).map(move |to| (from, to))) {
                let (from, to) = (SeqNo(from), SeqNo(to));
                let expected = boundaries.has_any(from, to);
                assert_eq!(
                    found.has_any(from, to),
                    expected,
                    "{table:?} {from:?} {to:?}"
                );
            }
        }
        let other = TableSpan {
            keyspace: "other",
            ..span(1, 0, None)
        };
        assert!(overview.of(other).bookmarks().is_empty());
        assert!(overview.of(other).has_any(SeqNo(20), SeqNo(20)));
    }

    /// Regression: for the statistics of each table, the snapshots of its keyspace were copied.
    #[test]
    fn tables_share_the_commits_of_the_snapshots_of_their_keyspace() {
        let overview = with_snapshots().overview();
        let is_shared = |id| matches!(overview.of(span(id, 0, None)).bookmarks, Cow::Borrowed(_));
        // Table 1 has a hold at the commit of a snapshot, and table 2 a snapshot of its own.
        assert_eq!([1, 2, 3].map(is_shared), [true, false, true]);
        let later = overview.of(span(2, 5, None)).bookmarks;
        assert!(matches!(later, Cow::Borrowed([SeqNo(7), SeqNo(9)])));
    }
}

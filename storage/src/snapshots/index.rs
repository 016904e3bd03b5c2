//! The snapshots by their keyspaces, for frequent lookups: the snapshots that cover a table, for
//! each flush and merge of the table, and the snapshot of a name.
//!
//! ```text
//!   keyspace ─► points  ascending by commit; those of a table are in the range of its lifetime
//!            └► places  by the names of snapshots
//! ```

use std::collections::{BTreeMap, HashMap};

use super::{Bookmark, TableSpan};
use crate::key::{ReadPoint, SeqNo, TableId};

/// The bookmarks (snapshots and holds) of all keyspaces.
#[derive(Debug, Default)]
pub(super) struct SnapshotIndex {
    keyspaces: BTreeMap<String, OfKeyspace>,
}

#[derive(Debug, Default)]
struct OfKeyspace {
    /// The snapshots and holds of the keyspace, ascending by the commit at which they read, then by
    /// id.
    points: Vec<SnapshotPoint>,
    /// For each name of a snapshot or hold, the commit and the id (the [place](Bookmark::place)) of
    /// the newest one with the name.
    places: HashMap<String, (SeqNo, u64)>,
}

/// A snapshot or hold, without its name and keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SnapshotPoint {
    pub(super) at: ReadPoint,
    pub(super) id: u64,
    /// The table that the snapshot or hold covers; `None` if it covers the keyspace.
    pub(super) table: Option<TableId>,
}

impl SnapshotPoint {
    fn place(&self) -> (SeqNo, u64) {
        (self.at.seq, self.id)
    }
}

impl SnapshotIndex {
    pub(super) fn of(bookmarks: &[Bookmark]) -> Self {
        let mut index = Self::default();
        bookmarks.iter().for_each(|bookmark| index.add(bookmark));
        index
    }

    /// Adds a snapshot or hold.
    pub(super) fn add(&mut self, bookmark: &Bookmark) {
        let record = &bookmark.record;
        let of = match self.keyspaces.get_mut(&record.keyspace) {
            Some(of) => of,
            None => self.keyspaces.entry(record.keyspace.clone()).or_default(),
        };
        let added = SnapshotPoint {
            at: bookmark.point(),
            id: record.id,
            table: record.table.as_ref().map(|only| only.id),
        };
        let place = bookmark.place();
        let at = of.points.partition_point(|other| other.place() < place);
        of.points.insert(at, added);
        let newest = of.places.entry(record.name.clone()).or_insert(place);
        if newest.1 < place.1 {
            *newest = place;
        }
    }

    pub(super) fn remove(&mut self, bookmark: &Bookmark) {
        let record = &bookmark.record;
        let Some(of) = self.keyspaces.get_mut(&record.keyspace) else {
            return;
        };
        of.points.retain(|point| point.id != record.id);
        // A newer snapshot may have the name.
        if of.places.get(&record.name) == Some(&bookmark.place()) {
            of.places.remove(&record.name);
        }
        if of.points.is_empty() {
            self.keyspaces.remove(&record.keyspace);
        }
    }

    /// Returns the commit and the id (the [place](Bookmark::place)) of the newest snapshot or hold
    /// with this name; `None` if there is none.
    pub(super) fn place(&self, keyspace: &str, name: &str) -> Option<(SeqNo, u64)> {
        self.keyspaces.get(keyspace)?.places.get(name).copied()
    }

    /// Returns the keyspaces that have snapshots or holds, each with these, ascending by the commit
    /// at which they read.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = (&str, &[SnapshotPoint])> {
        let all = self.keyspaces.iter();
        all.map(|(keyspace, of)| (&**keyspace, &of.points[..]))
    }

    /// Returns the snapshots that contain a table, and the holds on it (each keeps a snapshot's
    /// state of one table), ascending by commit.
    pub(super) fn covering(&self, table: TableSpan<'_>) -> impl Iterator<Item = &SnapshotPoint> {
        let of = self.keyspaces.get(table.keyspace);
        let all = of.map_or(&[][..], |of| &of.points[..]);
        let within = &all[table.lifetime.range_in(all, |point| point.at.seq)];
        let covers = move |point: &&SnapshotPoint| point.table.is_none_or(|only| only == table.id);
        within.iter().filter(covers)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{CoveredTable, Lifetime, SnapshotRecord};
    use super::*;

    fn bookmark(seq: u64, keyspace: &str, table: Option<u32>) -> Bookmark {
        Bookmark {
            seq: SeqNo(seq),
            record: SnapshotRecord {
                id: 100 + seq,
                keyspace: keyspace.into(),
                name: format!("s{seq}"),
                table: table.map(|id| CoveredTable {
                    id: TableId(id),
                    name: format!("t{id}"),
                }),
                created_ms: 7 * seq,
                ..SnapshotRecord::example(seq)
            },
        }
    }

    /// For a table, the index finds the snapshots for which the plain [`Bookmark::covers`] returns
    /// true. This holds for tables of several keyspaces with many lifetimes, also after any one of
    /// the snapshots was removed.
    #[test]
    fn the_snapshots_of_a_table_are_those_that_cover_it() {
        let all = [
            bookmark(3, "app", None),
            bookmark(4, "other", None),
            bookmark(6, "app", Some(2)),
            bookmark(7, "app", None),
            bookmark(9, "app", None),
        ];
        for gone in 0..=all.len() {
            let mut index = SnapshotIndex::of(&all);
            let mut left = all.to_vec();
            if gone < all.len() {
                index.remove(&left.remove(gone));
            }
            let ends = (0..12).map(Some).chain([None]);
            for (created_after, dropped_after) in
                (0..11).flat_map(|from| ends.clone().map(move |to| (from, to)))
            {
                // A snapshot of one table is within its lifetime.
                let is_within = |id: u32| {
                    id != 2 || created_after < 6 && dropped_after.is_none_or(|to| to >= 6)
                };
                for (keyspace, id) in [("app", 1), ("app", 2), ("other", 3), ("none", 4)] {
                    let table = TableSpan {
                        keyspace,
                        id: TableId(id),
                        lifetime: Lifetime {
                            created_after: SeqNo(created_after),
                            dropped_after: dropped_after.map(SeqNo),
                        },
                    };
                    if !is_within(id) {
                        continue;
                    }
                    let found: Vec<_> = index.covering(table).map(|point| point.id).collect();
                    let covers = left.iter().filter(|bookmark| bookmark.covers(table));
                    let expected: Vec<_> = covers.map(|bookmark| bookmark.record.id).collect();
                    assert_eq!(found, expected, "{table:?} without {gone}");
                }
            }
            for bookmark in &all {
                let record = &bookmark.record;
                let is_left = left.contains(bookmark).then_some(bookmark.place());
                assert_eq!(index.place(&record.keyspace, &record.name), is_left);
            }
            assert_eq!(index.place("none", "s3"), None);
        }
    }

    /// If the record of a snapshot's deletion is lost, two snapshots have the same name: the name
    /// then means the newer one.
    #[test]
    fn a_name_is_that_of_the_newest_snapshot_that_has_it() {
        let (older, mut newer) = (bookmark(3, "app", None), bookmark(5, "app", None));
        newer.record.name.clone_from(&older.record.name);
        let mut index = SnapshotIndex::of(&[older.clone(), newer.clone()]);
        assert_eq!(index.place("app", "s3"), Some(newer.place()));
        index.remove(&older);
        assert_eq!(index.place("app", "s3"), Some(newer.place()));
        index.remove(&newer);
        assert_eq!(index.place("app", "s3"), None);
    }

    /// A hold, which keeps a snapshot's state of one table, reads at the commit of its snapshot,
    /// even if a newer snapshot was created before the hold.
    #[test]
    fn a_hold_is_found_beside_the_snapshot_at_whose_commit_it_stands() {
        let (older, newer) = (bookmark(3, "app", None), bookmark(5, "app", None));
        let mut hold = bookmark(3, "app", Some(1));
        hold.record.id = 200;
        hold.record.name = "hold/copied".into();
        let mut index = SnapshotIndex::of(&[older.clone(), newer]);
        index.add(&hold);
        let found = |index: &SnapshotIndex, id| -> Vec<_> {
            let table = TableSpan {
                keyspace: "app",
                id: TableId(id),
                lifetime: Lifetime::default(),
            };
            index.covering(table).map(|point| point.id).collect()
        };
        assert_eq!(found(&index, 1), [103, 200, 105]);
        assert_eq!(found(&index, 2), [103, 105]);
        index.remove(&older);
        assert_eq!(found(&index, 1), [200, 105]);
        assert_eq!(index.place("app", "s3"), None);
        assert_eq!(index.place("app", "hold/copied"), Some(hold.place()));
    }
}

//! The record of a named snapshot, the one place where its name is kept.

use serde::{Deserialize, Serialize};

use super::{SnapshotChanges, SnapshotOp, TableSpan};
use crate::key::{ReadPoint, SeqNo, TableId};
use crate::mutation::{self, Mutation};

/// A named snapshot as it stands in the WAL and in the manifest. The tables that a snapshot of a
/// keyspace covers are not listed: they follow from its commit and from the
/// [lifetimes](super::Lifetime) of tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRecord {
    /// A number that is never used twice, so that the deletion of a snapshot never deletes another
    /// snapshot of the same name.
    pub(crate) id: u64,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    /// The only table that the snapshot covers. `None`: it covers all tables that the keyspace had
    /// at the commit of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<CoveredTable>,
    /// The creation time, in milliseconds since the Unix epoch; for a hold, the creation time of
    /// its snapshot. Readers of the snapshot or hold decide by this time which entries have
    /// expired.
    pub(crate) created_ms: u64,
    /// The time from which on the snapshot counts as deleted; the engine deletes it soon after.
    /// `None`: the snapshot does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
    /// The purpose of a hold (a snapshot that keeps the state of another snapshot readable), as its
    /// holder wrote it; `None` for a snapshot that a user created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_for: Option<String>,
    /// If this creates a hold, which keeps a snapshot's state of one table: the commit of that
    /// snapshot, at which the hold reads, too. `None` if this creates a snapshot. The field is used
    /// only where the creation of the hold is recorded; the resulting [`Bookmark`] has the commit
    /// in its field `seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<SeqNo>,
}

/// The table that a snapshot of a single table covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoveredTable {
    pub(crate) id: TableId,
    /// The name of the table. A repair may find the name nowhere else.
    pub(crate) name: String,
}

impl SnapshotRecord {
    /// Returns the record of a snapshot of the keyspace `app`, for tests.
    #[cfg(test)]
    pub(crate) fn example(id: u64) -> Self {
        Self {
            id,
            keyspace: "app".into(),
            name: format!("s{id}"),
            table: None,
            created_ms: 0,
            expires_ms: None,
            held_for: None,
            at: None,
        }
    }

    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        let now_ms = mutation::replace(now_ms, Mutation::SnapshotsNeverExpire, 0);
        let now_ms = mutation::replace(now_ms, Mutation::SnapshotsExpireAtOnce, u64::MAX);
        self.expires_ms.is_some_and(|expires| expires <= now_ms)
    }
}

/// A change of the time at which a snapshot expires, as it stands in the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotExpiry {
    pub(crate) id: u64,
    /// The new time of expiry, in milliseconds since the Unix epoch. `None`: the snapshot does not
    /// expire.
    pub(crate) expires_ms: Option<u64>,
}

/// A bookmark: the record of a snapshot or hold, with the commit at which its readers read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bookmark {
    pub(crate) seq: SeqNo,
    pub(crate) record: SnapshotRecord,
}

impl Bookmark {
    /// Returns the point at which readers of the snapshot read.
    pub(crate) fn point(&self) -> ReadPoint {
        ReadPoint {
            seq: self.seq,
            read_time_ms: self.record.created_ms,
        }
    }

    /// Returns the key by which bookmarks (snapshots and holds) are sorted: the commit at which
    /// they read, and then the id. A hold reads at the commit of the snapshot whose state it keeps.
    pub(super) fn place(&self) -> (SeqNo, u64) {
        (self.seq, self.record.id)
    }

    pub(crate) fn covers(&self, table: TableSpan<'_>) -> bool {
        match &self.record.table {
            Some(only) => only.id == table.id,
            None => self.record.keyspace == table.keyspace && table.lifetime.has(self.seq),
        }
    }
}

/// All bookmarks (snapshots and holds), complete up to the commit `as_of`: the form in which the
/// manifest records them. Replay skips snapshot operations numbered `<= as_of`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bookmarks {
    pub(crate) as_of: SeqNo,
    /// The largest id that a snapshot or hold ever had, deleted ones included.
    pub(crate) last_id: u64,
    /// The bookmarks (snapshots and holds), ascending by the commit at which they read, then by id.
    pub(crate) list: Vec<Bookmark>,
}

impl Bookmarks {
    /// Applies the operation of the commit `seq`. Operations must be applied in the order of
    /// commits.
    pub(crate) fn apply(&mut self, seq: SeqNo, op: SnapshotOp) {
        match op {
            SnapshotOp::Create(record) => {
                self.add(seq, record);
            }
            SnapshotOp::Delete(id) => {
                self.remove(seq, id);
            }
            SnapshotOp::Expiry(expiry) => self.set_expiry(seq, expiry),
        }
    }

    /// Applies the operations that are newer than `as_of`. The others were applied already: a flush
    /// and a merge may both read the operations for their manifest edits before either edit is
    /// written, so the later edit may repeat operations of the earlier one.
    pub(crate) fn catch_up(&mut self, changes: SnapshotChanges) {
        for (seq, op) in changes.ops {
            if seq > self.as_of {
                self.apply(seq, op);
            }
        }
        self.as_of = self.as_of.max(changes.as_of);
    }

    /// Adds the bookmark (a snapshot or a hold) that the commit `seq` creates, and returns it. A
    /// snapshot reads at that commit, a hold at the earlier commit of the snapshot whose state it
    /// keeps.
    pub(crate) fn add(&mut self, seq: SeqNo, mut record: SnapshotRecord) -> &Bookmark {
        self.as_of = seq;
        self.last_id = record.id.max(self.last_id);
        let stands_at = record.at.take().map_or(seq, |at| at.min(seq));
        let added = Bookmark {
            seq: stands_at,
            record,
        };
        let place = added.place();
        let at = self.list.partition_point(|other| other.place() < place);
        self.list.insert(at, added);
        &self.list[at]
    }

    /// Removes the bookmark (a snapshot or a hold) with this id, which the commit `seq` deletes,
    /// and returns it; `None` if there is none with this id.
    pub(crate) fn remove(&mut self, seq: SeqNo, id: u64) -> Option<Bookmark> {
        self.as_of = seq;
        self.take(id)
    }

    /// Removes the bookmark (a snapshot or a hold) with this id, and returns it; `None` if there is
    /// none. Unlike [`Self::remove`], leaves `as_of` as it is.
    pub(super) fn take(&mut self, id: u64) -> Option<Bookmark> {
        let mut list = self.list.iter();
        let at = list.position(|bookmark| bookmark.record.id == id)?;
        Some(self.list.remove(at))
    }

    /// Applies the commit `seq`, which changes the expiry time of a snapshot.
    pub(crate) fn set_expiry(&mut self, seq: SeqNo, expiry: SnapshotExpiry) {
        self.as_of = seq;
        let mut list = self.list.iter_mut();
        if let Some(bookmark) = list.find(|bookmark| bookmark.record.id == expiry.id) {
            bookmark.record.expires_ms = expiry.expires_ms;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Lifetime;
    use super::*;

    fn record(id: u64, table: Option<CoveredTable>) -> SnapshotRecord {
        SnapshotRecord {
            table,
            created_ms: 1_795_293_012_345,
            ..SnapshotRecord::example(id)
        }
    }

    #[test]
    fn a_snapshot_covers_the_tables_of_its_keyspace_at_its_commit_or_one() {
        let table = |keyspace, id, created_after| TableSpan {
            keyspace,
            id: TableId(id),
            lifetime: Lifetime::beginning_after(SeqNo(created_after)),
        };
        let all = Bookmark {
            seq: SeqNo(9),
            record: record(1, None),
        };
        let one = Bookmark {
            seq: SeqNo(9),
            record: record(
                2,
                Some(CoveredTable {
                    id: TableId(3),
                    name: "t".into(),
                }),
            ),
        };
        for (table, covered) in [
            (table("app", 3, 8), [true, true]),
            (table("app", 4, 8), [true, false]),
            (table("app", 5, 9), [false, false]),
            (table("other", 6, 8), [false, false]),
        ] {
            assert_eq!(
                [&all, &one].map(|it| it.covers(table)),
                covered,
                "{table:?}"
            );
        }
    }

    /// Regression: each flush and each merge wrote the records of all snapshots, and each record
    /// listed the names of all tables of its snapshot. With 2000 snapshots and 200 tables, that
    /// took 300 kB.
    #[test]
    fn an_operation_takes_as_many_bytes_beside_many_snapshots_as_alone() {
        let len = |id| {
            let ops = vec![(SeqNo(id), SnapshotOp::Create(record(id, None)))];
            let as_of = SeqNo(id);
            serde_json::to_vec(&SnapshotChanges { as_of, ops }).map(|json| json.len())
        };
        assert!(len(9_999).unwrap() < 160, "{:?}", len(9_999));
        let grown_by = len(9_999).unwrap() - len(1).unwrap();
        assert!(grown_by < 20, "{grown_by} bytes more for longer numbers");
    }

    #[test]
    fn changes_that_are_known_already_change_nothing() {
        let changes = |as_of, ops: &[(u64, SnapshotOp)]| SnapshotChanges {
            as_of: SeqNo(as_of),
            ops: ops
                .iter()
                .map(|(seq, op)| (SeqNo(*seq), op.clone()))
                .collect(),
        };
        let create = |id| SnapshotOp::Create(record(id, None));
        let mut bookmarks = Bookmarks::default();
        let first = changes(
            3,
            &[(1, create(1)), (2, create(2)), (3, SnapshotOp::Delete(1))],
        );
        bookmarks.catch_up(first.clone());
        let known = bookmarks.clone();
        let ids = |of: &Bookmarks| -> Vec<_> { of.list.iter().map(|it| it.record.id).collect() };
        assert_eq!(
            (ids(&known), known.as_of, known.last_id),
            (vec![2], SeqNo(3), 2)
        );
        bookmarks.catch_up(first);
        bookmarks.catch_up(changes(2, &[(2, create(2))]));
        assert_eq!(bookmarks, known);
        // The bookmarks have some of these operations already.
        bookmarks.catch_up(changes(9, &[(3, SnapshotOp::Delete(1)), (5, create(3))]));
        assert_eq!((ids(&bookmarks), bookmarks.as_of), (vec![2, 3], SeqNo(9)));
    }

    /// A hold, which keeps the state of a snapshot readable, reads at the commit of that snapshot,
    /// though other snapshots were created between the two.
    #[test]
    fn a_hold_is_listed_beside_the_snapshot_at_whose_commit_it_stands() {
        let hold = SnapshotRecord {
            held_for: Some("a copy".into()),
            at: Some(SeqNo(1)),
            ..record(3, None)
        };
        let create = |id| (SeqNo(id), SnapshotOp::Create(record(id, None)));
        let changes = SnapshotChanges {
            as_of: SeqNo(7),
            ops: vec![create(1), create(2), (SeqNo(7), SnapshotOp::Create(hold))],
        };
        let json = serde_json::to_vec(&changes).unwrap();
        let read: SnapshotChanges = serde_json::from_slice(&json).unwrap();
        assert_eq!(read, changes);
        let found = |of: &Bookmarks| -> Vec<_> { of.list.iter().map(Bookmark::place).collect() };
        let mut bookmarks = Bookmarks::default();
        bookmarks.catch_up(changes.clone());
        let expected = [(SeqNo(1), 1), (SeqNo(1), 3), (SeqNo(2), 2)];
        assert_eq!(
            (&found(&bookmarks)[..], bookmarks.as_of),
            (&expected[..], SeqNo(7))
        );
        assert_eq!(bookmarks.list[1].record.at, None);
        bookmarks.catch_up(changes);
        assert_eq!(found(&bookmarks), expected);
        bookmarks.remove(SeqNo(8), 1);
        assert_eq!(found(&bookmarks), expected[1..]);
    }
}

//! The commits at which a table exists: which snapshots cover the table follows from them.
//!
//! ```text
//!   commit     7    8    9    10   11   12   13
//!   table      |  created after 7   |  dropped after 11
//!   covered by the snapshots at  8 to 11
//! ```
//!
//! So a snapshot lists no tables, and creating one costs the same however many tables there are.
//!
//! Both numbers are the last one given when the change began. They are read under the order lock,
//! while the catalog is locked until the change is done. So a snapshot with a higher number sees the
//! change: opening the snapshot needs the catalog, and so waits until the table is there or gone. The
//! numbers are in the manifest, and after the database is opened commits get higher ones only: a
//! snapshot that is created after a crash has no number from before a table that is there.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::key::{SeqNo, TableId};

/// The commits at which a table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lifetime {
    /// The last commit before the table was created.
    pub(crate) created_after: SeqNo,
    /// The last commit before the table was dropped. `None`: it was not dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dropped_after: Option<SeqNo>,
}

impl Lifetime {
    /// Returns the lifetime of a table that is created after the commit `seq` and not dropped.
    pub(crate) fn beginning_after(seq: SeqNo) -> Self {
        Self {
            created_after: seq,
            dropped_after: None,
        }
    }

    pub(crate) fn is_dropped(self) -> bool {
        self.dropped_after.is_some()
    }

    /// Returns whether the table exists at a commit.
    pub(crate) fn has(self, seq: SeqNo) -> bool {
        self.created_after < seq && self.dropped_after.is_none_or(|last| seq <= last)
    }

    /// Returns the positions, in a list that ascends by commit, of the items at whose commits the
    /// table exists.
    pub(crate) fn range_in<T>(self, list: &[T], commit: impl Fn(&T) -> SeqNo) -> Range<usize> {
        let start = list.partition_point(|item| commit(item) <= self.created_after);
        let is_before_drop = |item: &T| self.dropped_after.is_none_or(|last| commit(item) <= last);
        let end = list.partition_point(is_before_drop);
        // A table that was dropped after no commit of its own has an empty range.
        start..end.max(start)
    }

    /// Returns the last commit that this lifetime names: the one before the drop or, if the table
    /// was not dropped, the one before the creation.
    pub(crate) fn last_seq(self) -> SeqNo {
        self.created_after
            .max(self.dropped_after.unwrap_or_default())
    }
}

/// The properties of a table that decide which snapshots contain it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableSpan<'a> {
    pub(crate) keyspace: &'a str,
    pub(crate) id: TableId,
    pub(crate) lifetime: Lifetime,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_table_exists_from_the_commit_after_its_creation_to_the_last_one_before_its_drop() {
        let lifetime = |created_after, dropped_after: Option<u64>| Lifetime {
            created_after: SeqNo(created_after),
            dropped_after: dropped_after.map(SeqNo),
        };
        for (lifetime, seq, expected) in [
            (lifetime(7, Some(11)), 7, false),
            (lifetime(7, Some(11)), 8, true),
            (lifetime(7, Some(11)), 11, true),
            (lifetime(7, Some(11)), 12, false),
            (lifetime(7, Some(7)), 7, false),
            (lifetime(7, Some(7)), 8, false),
            (lifetime(0, None), 1, true),
            (lifetime(7, None), 1 << 40, true),
        ] {
            assert_eq!(lifetime.has(SeqNo(seq)), expected, "{lifetime:?} {seq}");
            let all = [SeqNo(0), SeqNo(seq), SeqNo(1 << 41)];
            let found = all[lifetime.range_in(&all, |seq| *seq)].contains(&SeqNo(seq));
            assert_eq!(found, expected, "{lifetime:?} {seq}");
        }
    }
}

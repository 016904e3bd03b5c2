//! The choice of the publications that the commit of a new one removes from a table.
//!
//! ```text
//!   newest first       new      wednesday   tuesday   monday
//!   with two to keep   kept     kept        removed   removed
//! ```
//!
//! The commit takes the Iceberg snapshots of old publications, and their tags, out of the metadata. Their
//! files stay until [`sweep()`](super::sweep()) removes them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::origin::published_name;
use crate::iceberg::metadata::{MAIN, Snapshot, TableMetadata};

#[cfg(test)]
mod tests;

/// The rule by which old publications of a table are kept when a new one is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest publications to keep, the new one included: from 1 on. A publication whose tag
    /// was moved or removed does not count.
    pub publications: u32,
    /// The age below which a publication is kept in any case; `None` if only the number counts.
    pub age: Option<Duration>,
}

/// The publications that the commit of a new one removes from a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// The Iceberg snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The tags that name these snapshots, in the same order. A snapshot whose tag was moved has none.
    pub tags: Vec<String>,
}

/// The publication by whose commit old ones are removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming<'c> {
    /// The tag of the publication.
    pub(super) tag: &'c str,
    /// The id of its Iceberg snapshot if the table has it already; `None` if the commit adds it.
    pub(super) published: Option<i64>,
    /// True if the commit makes `main` name it.
    pub(super) moves_main: bool,
}

impl Expired {
    /// Returns the ids of the Iceberg snapshots.
    pub(super) fn ids(&self) -> BTreeSet<i64> {
        let snapshots = self.snapshots.iter();
        snapshots.map(|snapshot| snapshot.snapshot_id).collect()
    }
}

impl Retention {
    /// Returns the publications that the commit for the new publication `coming` removes. `metadata` is the
    /// newest metadata before the commit, and `now_ms` the time in milliseconds since 1970.
    ///
    /// Only Iceberg snapshots that ebb made can be among them. A snapshot stays if, after the commit, a
    /// branch names it, or a tag that ebb did not make.
    pub(super) fn expired(
        &self,
        metadata: &TableMetadata,
        coming: &Coming<'_>,
        now_ms: i64,
    ) -> Expired {
        let is_new = |snapshot: &&Snapshot| coming.published == Some(snapshot.snapshot_id);
        let published = metadata
            .snapshots
            .iter()
            .filter(|snapshot| !is_new(snapshot))
            .filter_map(|snapshot| Some((snapshot, published_name(snapshot)?)));
        let names: BTreeMap<i64, &str> = published
            .clone()
            .map(|(snapshot, name)| (snapshot.snapshot_id, name))
            .collect();
        let (mut tagged, mut protected) = (BTreeSet::new(), BTreeSet::new());
        if !coming.moves_main {
            // Some engines do not list `main` among the references.
            protected.extend(metadata.current_snapshot_id);
        }
        for (name, reference) in &metadata.refs {
            // The tag names the new publication after the commit, and so does `main` if it moves.
            if name == coming.tag || name == MAIN {
                continue;
            }
            let id = reference.snapshot_id;
            let is_own = reference.kind == "tag" && names.get(&id).is_some_and(|own| own == name);
            if is_own {
                tagged.insert(id);
            } else {
                protected.insert(id);
            }
        }

        let mut publications: Vec<&Snapshot> = published.map(|(snapshot, _)| snapshot).collect();
        publications.sort_by_key(|snapshot| Reverse(snapshot.sequence_number));
        let mut snapshots = Vec::new();
        // The new publication is the first one to keep.
        let mut newer = 1;
        for publication in publications {
            let id = publication.snapshot_id;
            let is_kept = newer < self.publications
                || protected.contains(&id)
                || self.is_young(publication.timestamp_ms, now_ms);
            if !is_kept {
                snapshots.push(publication.clone());
            }
            if tagged.contains(&id) {
                newer += 1;
            }
        }
        snapshots.reverse();
        let of_tags = snapshots.iter();
        let of_tags = of_tags.filter(|snapshot| tagged.contains(&snapshot.snapshot_id));
        let tags = of_tags.filter_map(published_name).map(str::to_owned);
        Expired {
            tags: tags.collect(),
            snapshots,
        }
    }

    /// Returns whether a publication that was made at `made_ms` is younger than the age of this rule. One
    /// that was made in the future, by the clock of another machine, has the age 0.
    fn is_young(&self, made_ms: i64, now_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(made_ms).max(0).unsigned_abs();
        self.age
            .is_some_and(|limit| Duration::from_millis(age_ms) < limit)
    }
}

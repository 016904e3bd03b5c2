//! The branch `main`, which readers see if they name no tag, as a decision.
//!
//! `main` names the newest publication of which all tables have the tag. So the commits of a publication of several
//! tables add a snapshot and its tag, and leave `main` as it is. Only once the last table has its tag, `main`
//! follows in each table, by a commit of its own:
//!
//! ```text
//!   table t    [tag tuesday]                                  [main]
//!   table u                   [tag tuesday]                           [main]
//!   table v                                  [tag tuesday and main]
//! ```
//!
//! The specification allows this: a snapshot that no branch names is that of a tag, and `main` may be set to any
//! snapshot of the table, also to one that does not continue the snapshot that it names. The sequence number of a new
//! snapshot is above all before it in the table, whatever `main` names, and a reader applies deletes by the numbers
//! in the manifests of its own snapshot. Until `main` has moved, the current schema is that of its snapshot.
//!
//! `main` never moves to an older snapshot of the database than the one that it names.

use super::expiry::{Coming, Retention};
use super::origin::Origin;
use super::properties::{READ_TIME, SEQUENCE_NUMBER, taken_over_at};
use super::settled::Settled;
use crate::iceberg::metadata::{Snapshot, TableMetadata};

/// The place of a publication in the order that `main` follows: whether it was made after the table was taken
/// over; the sequence number and the read time of the database's snapshot; and the Iceberg sequence number, which
/// decides between two publications of one state of the database.
type Rank = (bool, u64, i64, i64);

/// Returns the place of a publication in the order that `main` follows; `None` if ebb did not make the snapshot.
fn rank(metadata: &TableMetadata, snapshot: &Snapshot) -> Option<Rank> {
    let number = snapshot.sequence_number;
    let is_of_owner = taken_over_at(metadata).is_none_or(|at| number > at);
    let entry = |name: &str| snapshot.summary.get(name);
    let sequence_number = entry(SEQUENCE_NUMBER)?.parse().ok()?;
    let read_time_s = entry(READ_TIME)?.parse().ok()?;
    Some((is_of_owner, sequence_number, read_time_s, number))
}

fn rank_of_main(metadata: &TableMetadata) -> Option<Rank> {
    rank(metadata, metadata.newest()?)
}

impl Origin {
    /// Returns whether `main` is to name a new publication of this origin. `metadata` is the table before the
    /// publication. `takes_over` is true if the publication takes the table over: snapshots of another database
    /// are always older.
    pub(super) fn leads(&self, metadata: &TableMetadata, takes_over: bool) -> bool {
        let number = metadata.last_sequence_number.saturating_add(1);
        let new = (true, self.sequence_number, self.read_time_s, number);
        takes_over || Some(new) > rank_of_main(metadata)
    }

    /// Returns the Iceberg snapshot with the tag of this origin if `main` is to be moved to it; `None` if `main`
    /// names it or a later publication, or if the tag does not name a publication of this origin.
    pub(super) fn ahead_of_main<'m>(&self, metadata: &'m TableMetadata) -> Option<&'m Snapshot> {
        let tagged = self.tagged(metadata)?;
        (rank(metadata, tagged) > rank_of_main(metadata)).then_some(tagged)
    }

    /// Plans the commit that moves `main` to the publication of this origin, which has its tag already, and that
    /// removes old publications by the rule `retention`. Returns the next metadata; `None` if `main` stays.
    /// `now_ms` is the time in milliseconds since 1970.
    pub(super) fn move_main(
        &self,
        metadata: &TableMetadata,
        retention: Option<&Retention>,
        now_ms: i64,
    ) -> Option<TableMetadata> {
        let id = self.ahead_of_main(metadata)?.snapshot_id;
        let coming = Coming {
            tag: &self.snapshot,
            published: Some(id),
            moves_main: true,
        };
        let expired = retention.map(|retention| retention.expired(metadata, &coming, now_ms));
        let expired = expired.unwrap_or_default();
        let mut next = metadata.clone();
        next.set_main(id, now_ms);
        let settled = Settled::of(metadata).next(None, &expired);
        next.properties.extend([settled.property()]);
        next.remove_snapshots(&expired.ids(), &expired.tags);
        Some(next)
    }
}

//! The snapshot that a publication is made from, as Iceberg's metadata names it.

use super::properties::{
    DATABASE_ID, READ_TIME, SEQUENCE_NUMBER, SNAPSHOT, TABLE_ID, taken_over_at,
};
use crate::iceberg::metadata::{Snapshot, TableMetadata};

/// The snapshot and the table of the database that a publication was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub database_id: String,
    pub table_id: String,
    /// The name of the snapshot, which is also the name of its tag in the Iceberg table.
    pub snapshot: String,
    /// The position of the snapshot in the database's order of commits.
    pub sequence_number: u64,
    /// The read time of the snapshot, in seconds since 1970: cells that have expired by then are not
    /// published.
    pub read_time_s: i64,
}

/// Returns the name of the database's snapshot from which an Iceberg snapshot was published. The tag of the
/// publication has this name, unless it was moved or removed. `None` if ebb did not make the Iceberg snapshot.
pub(super) fn published_name(snapshot: &Snapshot) -> Option<&str> {
    snapshot.summary.get(SNAPSHOT).map(String::as_str)
}

impl Origin {
    /// Returns the origin of the newest publication, which `main` names; `None` if `main` names no snapshot, if
    /// ebb did not make it, or if it is from before the table was taken over.
    pub(super) fn newest(metadata: &TableMetadata) -> Option<Self> {
        let newest = metadata.newest()?;
        if taken_over_at(metadata).is_some_and(|at| newest.sequence_number <= at) {
            return None;
        }
        let property = |name: &str| metadata.properties.get(name).cloned();
        let entry = |name: &str| newest.summary.get(name).cloned();
        Some(Self {
            database_id: property(DATABASE_ID)?,
            table_id: property(TABLE_ID)?,
            snapshot: entry(SNAPSHOT)?,
            sequence_number: entry(SEQUENCE_NUMBER)?.parse().ok()?,
            read_time_s: entry(READ_TIME)?.parse().ok()?,
        })
    }

    /// Returns the table properties by which an Iceberg table names the database, and the table in it, that it
    /// was published from.
    pub(super) fn properties(&self) -> [(&'static str, String); 2] {
        [
            (DATABASE_ID, self.database_id.clone()),
            (TABLE_ID, self.table_id.clone()),
        ]
    }

    /// Returns whether the Iceberg table with the metadata `metadata` was published from the database's table
    /// that this origin names, at any snapshot. With `takes_over`, the same table of another database counts, too.
    pub(super) fn has_published(&self, metadata: &TableMetadata, takes_over: bool) -> bool {
        let of = |name: &str| metadata.properties.get(name);
        let is_of_database = of(DATABASE_ID) == Some(&self.database_id);
        of(TABLE_ID) == Some(&self.table_id) && (is_of_database || takes_over)
    }

    /// Returns the entries by which the summary of an Iceberg snapshot names the database's snapshot that it
    /// was published from.
    pub(super) fn summary(&self) -> [(&'static str, String); 3] {
        [
            (SNAPSHOT, self.snapshot.clone()),
            (SEQUENCE_NUMBER, self.sequence_number.to_string()),
            (READ_TIME, self.read_time_s.to_string()),
        ]
    }

    /// Returns the Iceberg snapshot that was published from this origin and has its tag; `None` if there is none.
    /// The read times are compared, too: after a restore from a backup, another snapshot of the same
    /// name may have the same sequence number.
    pub(super) fn tagged<'m>(&self, metadata: &'m TableMetadata) -> Option<&'m Snapshot> {
        let reference = metadata.refs.get(&self.snapshot)?;
        let mut snapshots = metadata.snapshots.iter();
        let named = snapshots.find(|of| of.snapshot_id == reference.snapshot_id)?;
        let mut entries = self.summary().into_iter();
        let is_same = entries.all(|(name, value)| named.summary.get(name) == Some(&value));
        is_same.then_some(named)
    }
}

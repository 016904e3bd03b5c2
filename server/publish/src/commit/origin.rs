//! The snapshot that a publication is made from, as Iceberg's metadata names it.

use std::collections::BTreeMap;

use super::error::DecisionError;
use crate::iceberg::metadata::{MAIN, Snapshot, TableMetadata};

/// The property of an Iceberg table that holds the id of the database from which the table was published.
const DATABASE_ID: &str = "ebb.database-id";
/// The property of an Iceberg table that holds the id of the database's table from which it was published.
const TABLE_ID: &str = "ebb.table-id";
/// The entry of an Iceberg snapshot's summary that holds the name of the database's snapshot from
/// which it was published.
const SNAPSHOT: &str = "ebb.snapshot";
/// The entry of an Iceberg snapshot's summary that holds the sequence number of the database's
/// snapshot: its position in the order of commits.
const SEQUENCE_NUMBER: &str = "ebb.sequence-number";
/// The entry of an Iceberg snapshot's summary that holds the read time of the database's snapshot, in
/// seconds since 1970: cells that have expired by then are not published.
const READ_TIME: &str = "ebb.read-time-s";

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
    /// Returns the origin of the newest publication; `None` if the table has no snapshot, or if ebb did not
    /// make its newest one.
    pub(super) fn newest(metadata: &TableMetadata) -> Option<Self> {
        let property = |name: &str| metadata.properties.get(name).cloned();
        let entry = |name: &str| metadata.newest()?.summary.get(name).cloned();
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
    /// that this origin names, at any snapshot.
    pub(super) fn has_published(&self, metadata: &TableMetadata) -> bool {
        let mut properties = self.properties().into_iter();
        properties.all(|(name, value)| metadata.properties.get(name) == Some(&value))
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

    /// Returns whether the database's snapshot is published already: whether the Iceberg table has
    /// a tag with its name, and the tag names an Iceberg snapshot whose summary names this origin.
    /// The read times are compared, too: after a restore from a backup, another snapshot of the
    /// same name may have the same sequence number. `metadata` is the newest metadata of the table;
    /// `None` if the table has none. `replaces_tag` is true if the publication may move a tag that
    /// names another snapshot.
    ///
    /// # Errors
    /// If the snapshot must not be published into the table, for example because the table came
    /// from another database or another engine changed it, or because the tag names another
    /// snapshot and may not move.
    pub(super) fn is_published(
        &self,
        metadata: Option<&TableMetadata>,
        replaces_tag: bool,
    ) -> Result<bool, DecisionError> {
        let refuse = |reason: String| Err(DecisionError(reason));
        if self.snapshot == MAIN {
            return refuse("a snapshot called main cannot be published, because main is Iceberg's branch; create one with another name".to_owned());
        }
        let Some(metadata) = metadata else {
            return Ok(false);
        };
        let of = |name: &str| metadata.properties.get(name).map(String::as_str);
        let Some(database_id) = of(DATABASE_ID) else {
            return refuse("the target has a table of this name that ebb did not publish; choose another target".to_owned());
        };
        if database_id != self.database_id {
            return refuse(format!(
                "the target has a table of the database {database_id}, and this is {}; choose another target",
                self.database_id
            ));
        }
        if of(TABLE_ID) != Some(&self.table_id) {
            return refuse("the table was dropped and created again since it was published; choose another target, or remove the table there".to_owned());
        }
        let is_foreign = |summary: &BTreeMap<String, String>| !summary.contains_key(SNAPSHOT);
        let mut snapshots = metadata.snapshots.iter();
        if let Some(unknown) = snapshots.find(|s| is_foreign(&s.summary)) {
            return refuse(format!(
                "the Iceberg snapshot {} was not made by ebb, and the next publication would hide it; choose another target",
                unknown.snapshot_id
            ));
        }
        let Some(reference) = metadata.refs.get(&self.snapshot) else {
            return Ok(false);
        };
        let mut snapshots = metadata.snapshots.iter();
        let named = snapshots.find(|s| s.snapshot_id == reference.snapshot_id);
        let is_same = named.is_some_and(|named| {
            let mut entries = self.summary().into_iter();
            entries.all(|(name, value)| named.summary.get(name) == Some(&value))
        });
        if is_same || replaces_tag {
            Ok(is_same)
        } else {
            refuse(format!(
                "the tag {} names another snapshot; publish with --replace to move it",
                self.snapshot
            ))
        }
    }
}

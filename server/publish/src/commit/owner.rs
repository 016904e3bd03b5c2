//! The owner of a table: whether a publisher may commit to it, and what it has published there.
//!
//! A table belongs to the database that has published it. A copy of the directory of a database has the same
//! database id, and so has a database that was put back to an earlier state. So each commit also writes an *epoch*
//! into the properties of the table: a random text, which the database records before the commit. A publisher that
//! meets an epoch without a record stops, because another copy has committed.

use super::error::DecisionError;
use super::origin::Origin;
use super::properties::{DATABASE_ID, EPOCH, SNAPSHOT, TABLE_ID};
use super::rights::Rights;
use crate::iceberg::metadata::{MAIN, TableMetadata};

/// The option of `ebb publish` that takes a table over.
const TAKE_OVER: &str = "--take-over";

impl Origin {
    /// Returns whether a publication of this origin by a publisher with these rights would take the table with the
    /// metadata `metadata` over; false if the table is the database's own.
    ///
    /// # Errors
    /// If the table must not be published to: ebb did not make it, another engine has added a snapshot, it is
    /// of another table of the database, or it belongs to another database or copy and this publisher does not
    /// take tables over.
    pub(super) fn takes_over(
        &self,
        rights: &Rights,
        metadata: &TableMetadata,
    ) -> Result<bool, DecisionError> {
        let refuse = |reason: String| Err(DecisionError(reason));
        let of = |name: &str| metadata.properties.get(name).map(String::as_str);
        let Some(database_id) = of(DATABASE_ID) else {
            return refuse(
                "the target has a table of this name that ebb did not publish; choose another target"
                    .to_owned(),
            );
        };
        let is_foreign = database_id != self.database_id;
        if is_foreign && !rights.takes_over {
            return refuse(format!(
                "the target has a table of the database {database_id}, and this is {}; choose another target, or \
                 publish with {TAKE_OVER} if this database was restored or repaired from that one",
                self.database_id
            ));
        }
        if of(TABLE_ID) != Some(&self.table_id) {
            return refuse(
                "the table was dropped and created again since it was published; choose another target, or \
                 remove the table there"
                    .to_owned(),
            );
        }
        let mut snapshots = metadata.snapshots.iter();
        if let Some(unknown) = snapshots.find(|of| !of.summary.contains_key(SNAPSHOT)) {
            return refuse(format!(
                "the Iceberg snapshot {} was not made by ebb, and the next publication would hide it; choose \
                 another target",
                unknown.snapshot_id
            ));
        }
        let is_own = |epoch: &str| rights.own_epochs.iter().any(|own| own == epoch);
        let is_of_copy = of(EPOCH).is_some_and(|epoch| !is_own(epoch));
        if is_of_copy && !is_foreign && !rights.takes_over {
            return refuse(format!(
                "another copy of this database, or this database before it was restored, has published the table \
                 here since; choose another target, or publish with {TAKE_OVER} if that copy is gone"
            ));
        }
        Ok(is_foreign || is_of_copy)
    }

    /// Returns whether the database's snapshot is published already: whether the Iceberg table has
    /// a tag with its name, and the tag names an Iceberg snapshot whose summary names this origin.
    /// `metadata` is the newest metadata of the table; `None` if the table has none. `rights` are
    /// those of the publisher. Nothing is published yet in a table that the publisher takes over.
    ///
    /// # Errors
    /// If the snapshot must not be published into the table, for example because the table came
    /// from another database or another engine changed it, or because the tag names another
    /// snapshot and may not move.
    pub(super) fn is_published(
        &self,
        metadata: Option<&TableMetadata>,
        rights: &Rights,
    ) -> Result<bool, DecisionError> {
        let refuse = |reason: String| Err(DecisionError(reason));
        if self.snapshot == MAIN {
            return refuse("a snapshot called main cannot be published, because main is Iceberg's branch; create one with another name".to_owned());
        }
        let Some(metadata) = metadata else {
            return Ok(false);
        };
        let takes_over = self.takes_over(rights, metadata)?;
        if !metadata.refs.contains_key(&self.snapshot) {
            return Ok(false);
        }
        let is_same = self.tagged(metadata).is_some();
        // Its rows are written again, because those of the other database may differ.
        if is_same && takes_over {
            return Ok(false);
        }
        if is_same || rights.replaces_tag {
            Ok(is_same)
        } else {
            refuse(format!(
                "the tag {} names another snapshot; publish with --replace to move it",
                self.snapshot
            ))
        }
    }
}

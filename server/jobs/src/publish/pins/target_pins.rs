//! The pins of one target, as its publications create and use them.

use ebb_storage::{Db, ErrorKind, HoldOptions, Result, SnapshotTable};
use ebb_tables::names::TableName;
use xxhash_rust::xxh3::xxh3_128;

use super::super::PinMax;
use super::Note;

/// The pins of a target, each of which keeps a snapshot of a table readable. A table has at most two: one for
/// its newest publication in the target, and one for a publication that is under way.
#[derive(Debug, Clone)]
pub(in crate::publish) struct TargetPins {
    pub(in crate::publish) db: Db,
    /// The location of the target. The name of a pin is made from this location and the table. The
    /// URL of a catalog is not part of it, because only one catalog, or none, commits the table at
    /// a location. A publication compares with the pinned snapshot only if its sequence number and
    /// its read time are those in the origin of the newest publication.
    pub(in crate::publish) location: String,
    pub(in crate::publish) max: PinMax,
}

/// The state of the publication that a pin belongs to.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The publication is under way: its tasks read the snapshot.
    Begun,
    /// The publication is done: readers of the target see the snapshot.
    Published,
}

impl TargetPins {
    /// Opens a table at the snapshot of its newest publication, which the pin keeps; `None` if there is no pin.
    ///
    /// # Errors
    /// The errors of the store.
    pub(in crate::publish) fn open(&self, table: &TableName) -> Result<Option<SnapshotTable>> {
        self.held(table, Stage::Published)
    }

    /// Pins a snapshot of a table at the beginning of its publication, in addition to the pin of the newest
    /// publication. If the store drops rows of the table meanwhile because it cannot read them, it releases
    /// this pin, so that [`renew`](Self::renew) does not find it. If pins are turned off, only releases the
    /// pin of an earlier publication that did not end.
    ///
    /// # Errors
    /// The errors of the store, for example that the snapshot no longer exists.
    pub(in crate::publish) fn begin(&self, table: &TableName, snapshot: &str) -> Result<()> {
        if self.max == PinMax::Nothing {
            return self.release(table, Stage::Begun);
        }
        self.hold(table, snapshot, Stage::Begun)
    }

    /// Replaces the pin (kept snapshot) of the newest publication by the pin that
    /// [`begin`](Self::begin) created, if the latter still exists and keeps the snapshot with the
    /// sequence number `published`. If neither pin keeps this snapshot, or if pins are turned off,
    /// both are released. Returns whether the snapshot is pinned.
    ///
    /// # Errors
    /// The errors of the store.
    pub(in crate::publish) fn renew(&self, table: &TableName, published: u64) -> Result<bool> {
        let stands_at = |stage: Stage| -> Result<bool> {
            let held = self.held(table, stage)?;
            Ok(held.is_some_and(|held| held.seq().0 == published))
        };
        let is_kept = self.max != PinMax::Nothing;
        if is_kept && stands_at(Stage::Begun)? {
            let begun = format!("hold/{}", self.name(table, Stage::Begun));
            self.hold(table, &begun, Stage::Published)?;
            self.release(table, Stage::Begun)?;
            return Ok(true);
        }
        self.release(table, Stage::Begun)?;
        // From an earlier run of the same command.
        if is_kept && stands_at(Stage::Published)? {
            return Ok(true);
        }
        self.forget(table)?;
        Ok(false)
    }

    /// Releases the pin that [`begin`](Self::begin) created, if it keeps the snapshot with the sequence number
    /// `published`: a later publication is the newest one of the target, and its pin stays.
    ///
    /// # Errors
    /// The errors of the store.
    pub(in crate::publish) fn end(&self, table: &TableName, published: u64) -> Result<()> {
        let held = self.held(table, Stage::Begun)?;
        if held.is_some_and(|held| held.seq().0 == published) {
            self.release(table, Stage::Begun)?;
        }
        Ok(())
    }

    /// Releases the pin of a table, so that the next publication writes all rows.
    ///
    /// # Errors
    /// The errors of the store.
    pub(in crate::publish) fn forget(&self, table: &TableName) -> Result<()> {
        self.release(table, Stage::Published)
    }

    fn held(&self, table: &TableName, stage: Stage) -> Result<Option<SnapshotTable>> {
        let keyspace = self.db.existing_keyspace(&table.keyspace)?;
        let held = keyspace.held(&self.name(table, stage));
        match held.and_then(|held| held.table(&table.table)) {
            Ok(table) => Ok(Some(table)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hold(&self, table: &TableName, snapshot: &str, stage: Stage) -> Result<()> {
        let note = Note {
            published_to: self.location.clone(),
            percent_max: self.max.percent(),
        };
        let hold = HoldOptions {
            name: self.name(table, stage),
            table: table.table.clone(),
            held_for: note.to_text(),
            expires_in: self.max.age(),
        };
        let keyspace = self.db.existing_keyspace(&table.keyspace)?;
        keyspace.hold_snapshot(snapshot, &hold)
    }

    fn release(&self, table: &TableName, stage: Stage) -> Result<()> {
        let keyspace = self.db.existing_keyspace(&table.keyspace)?;
        match keyspace.release_hold(&self.name(table, stage)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn name(&self, table: &TableName, stage: Stage) -> String {
        name(&self.location, &table.table, stage)
    }
}

/// Returns the name of the pin of a table for the target with this location.
fn name(location: &str, table: &str, stage: Stage) -> String {
    let hash = xxh3_128(format!("{location}\n{table}").as_bytes());
    let stage = match stage {
        Stage::Begun => "publishing",
        Stage::Published => "published",
    };
    format!("{stage}-{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_and_target_has_a_pin_of_its_own() {
        let places = [("a", "t"), ("a", "u"), ("b", "t")];
        let names = places.map(|(to, table)| name(to, table, Stage::Published));
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
        assert_eq!(names[0], name("a", "t", Stage::Published));
        assert_ne!(names[0], name("a", "t", Stage::Begun));
    }
}

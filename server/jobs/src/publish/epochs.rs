//! The epochs that this database has written to published tables.
//!
//! ```text
//! ebb_system.publications   LOCATION \n TABLE -> {"epochs": [OLDEST, ..., NEWEST]}
//! ```
//!
//! Each commit of a table writes a new epoch, a random text, into the properties of the table. The database records
//! it durably before the commit, so it also recognises a commit whose answer was lost. A copy of the database's
//! directory, or a backup of it, has the epochs up to the time of the copy only: a publisher that meets another one
//! knows that it is not alone.

use std::sync::{Mutex, PoisonError};

use ebb_storage::{Db, ErrorKind, Result, Table, TableOptions, WriteBatch, WriteOptions};
use ebb_tables::names::SYSTEM_KEYSPACE;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The table of the records, in [`SYSTEM_KEYSPACE`].
const TABLE: &str = "publications";

/// The number of epochs that are kept for a published table. Each attempt at a commit records one, and only that of
/// the newest commit is in the table: it is kept, and so are the newest others, whose commits may still be under way.
const EPOCHS_MAX: usize = 16;

/// Held while a record is read and written anew. Only one process at a time has a database open for writing.
static RECORDING: Mutex<()> = Mutex::new(());

/// The epochs that a database has written, or was about to write, to the tables of a target.
#[derive(Debug, Clone)]
pub(super) struct Epochs {
    pub(super) db: Db,
    /// The location of the target.
    pub(super) location: String,
}

/// The record of a published table.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The epochs, oldest first.
    epochs: Vec<String>,
}

impl Epochs {
    /// Returns the recorded epochs of the table `table` of the target; none if the database has not published it.
    ///
    /// # Errors
    /// The errors of the store.
    pub(super) fn of(&self, table: &str) -> Result<Vec<String>> {
        let keyspace = self.db.existing_keyspace(SYSTEM_KEYSPACE);
        match keyspace.and_then(|keyspace| keyspace.existing_table(TABLE)) {
            Ok(records) => self.read(&records, table),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Records the epoch `next`, which a commit to the table `table` is about to write. `found` is the epoch that
    /// the table has. The record survives a crash of the machine once this returns.
    ///
    /// # Errors
    /// The errors of the store.
    pub(super) fn record(&self, table: &str, found: Option<&str>, next: &str) -> Result<()> {
        let _recording = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        let keyspace = self.db.keyspace(SYSTEM_KEYSPACE)?;
        let records = keyspace.table(TABLE, TableOptions::default())?;
        let epochs = with_next(self.read(&records, table)?, found, next);
        let record = json!(Record { epochs }).to_string();
        let mut batch = WriteBatch::new();
        batch.put(&records, &self.key(table), record.as_bytes());
        self.db.write_with(batch, WriteOptions { sync: true })
    }

    /// Reads the epochs of a table. A record that is no JSON counts as none: the publisher then stops.
    fn read(&self, records: &Table, table: &str) -> Result<Vec<String>> {
        let record = records.get(&self.key(table))?;
        let record = record.and_then(|record| serde_json::from_slice::<Record>(&record).ok());
        Ok(record.unwrap_or_default().epochs)
    }

    fn key(&self, table: &str) -> Vec<u8> {
        format!("{}\n{table}", self.location).into_bytes()
    }
}

/// Returns the epochs to record in place of `known`: the epoch `found` of the table, if it is among them, the newest
/// others, and `next`.
fn with_next(mut known: Vec<String>, found: Option<&str>, next: &str) -> Vec<String> {
    let place = known.iter().position(|known| Some(&known[..]) == found);
    let found = place.map(|place| known.remove(place));
    let surplus = known.len().saturating_sub(EPOCHS_MAX - 2);
    known.drain(..surplus);
    found
        .into_iter()
        .chain(known)
        .chain([next.to_owned()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_of_the_table_is_kept_however_many_commits_fail() {
        let mut known = with_next(Vec::new(), None, "first");
        for attempt in 0..100 {
            known = with_next(known, Some("first"), &attempt.to_string());
            assert!(known.len() <= EPOCHS_MAX);
        }
        assert_eq!(known.len(), EPOCHS_MAX);
        assert_eq!((&known[0][..], &known[EPOCHS_MAX - 1][..]), ("first", "99"));
        // The epoch of another copy is not recorded.
        let taken_over = with_next(vec!["own".to_owned()], Some("other"), "next");
        assert_eq!(taken_over, ["own", "next"]);
    }
}

//! The Iceberg tables of a publication as its commits open them: with the rights of this publisher, and with a new
//! epoch for each commit.

use ebb_publish::commit::{CommitError, PublishedTable, Rights, Stamp};
use ebb_publish::rows::RowsError;

use super::job::{PublicationJob, unique_id};
use super::plan::TablePlan;

/// The reason why a table cannot be committed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitFailure {
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Store(#[from] ebb_storage::Error),
}

impl PublicationJob {
    /// Opens an Iceberg table, and then reads the rights of this publisher in it.
    pub(super) fn open_table(
        &self,
        table: &TablePlan,
    ) -> Result<(PublishedTable<'_>, Rights), CommitFailure> {
        let found = PublishedTable::open(&self.target, &table.name)?;
        let rights = Rights {
            replaces_tag: self.replaces_tag,
            takes_over: self.takes_over,
            own_epochs: self.epochs.of(&table.name)?,
        };
        Ok((found, rights))
    }

    /// Returns the stamp of a commit to a table, whose epoch is recorded in the database. `found` is the table right
    /// before the commit.
    pub(super) fn stamp(
        &self,
        found: &PublishedTable<'_>,
        table: &TablePlan,
        now_ms: i64,
    ) -> Result<Stamp, CommitFailure> {
        let epoch = unique_id();
        self.epochs.record(&table.name, found.epoch(), &epoch)?;
        Ok(Stamp {
            now_ms,
            snapshot_id: rand::random_range(1..=i64::MAX),
            table_uuid: uuid::Builder::from_random_bytes(rand::random())
                .into_uuid()
                .to_string(),
            epoch,
        })
    }
}

//! Requests about the rows of a database and about the database as a whole.

use ebb_storage::{BackupInfo, LossReport, RestoreReport};
use ebb_tables::names::TableName;

use super::{JobsClient, Result, escaped};
use crate::http::wire::{
    BackupPlace, GetRequest, RowPage, RowView, ScanRequest, StatsReport, VerifiedDatabase,
};

impl JobsClient {
    /// The value of a key, now or at a snapshot.
    ///
    /// # Errors
    /// When there is no such key, table or snapshot, or the server does not answer.
    pub fn value(&self, table: &TableName, key: &[u8], snapshot: Option<&str>) -> Result<Vec<u8>> {
        let request = GetRequest {
            key: key.into(),
            snapshot: snapshot.map(str::to_owned),
        };
        let row: RowView = self.post(&format!("{}/get", path(table)), &request)?;
        let value = row.value.ok_or("no value".to_owned());
        let value = value.and_then(|value| value.into_bytes());
        value.map_err(|error| self.strange(error))
    }

    /// A page of the rows of a key range.
    ///
    /// # Errors
    /// When there is no such table or snapshot, or the server does not answer.
    pub fn rows(&self, table: &TableName, request: &ScanRequest) -> Result<RowPage> {
        self.post(&format!("{}/scan", path(table)), request)
    }

    /// The statistics of the database.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stats(&self) -> Result<StatsReport> {
        self.get("/v1/stats")
    }

    /// Requests a verification of the database, which reads every file, and returns at its end.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn verify(&self) -> Result<VerifiedDatabase> {
        self.post("/v1/verify", &())
    }

    /// Takes damaged files from a backup.
    ///
    /// # Errors
    /// When the backup cannot be read, or the server does not answer.
    pub fn restore(&self, backup: &BackupPlace) -> Result<RestoreReport> {
        self.post("/v1/restore", backup)
    }

    /// Lists what is lost of the damaged files of a table.
    ///
    /// # Errors
    /// When there is no such table, or the server does not answer.
    pub fn loss(&self, table: &TableName) -> Result<LossReport> {
        self.post(&format!("{}/loss", path(table)), &())
    }

    /// Has the damaged files of a table rewritten without what is lost of them.
    ///
    /// # Errors
    /// When there is no such table, or the server does not answer.
    pub fn accept_loss(&self, table: &TableName) -> Result<LossReport> {
        self.post(&format!("{}/accept-loss", path(table)), &())
    }

    /// Makes a backup. Returns when every file is checked.
    ///
    /// # Errors
    /// When the folder has something in it, or the server does not answer.
    pub fn back_up(&self, to: &BackupPlace) -> Result<BackupInfo> {
        self.post("/v1/backups", to)
    }
}

/// The path of a table.
fn path(table: &TableName) -> String {
    let (keyspace, table) = (escaped(&table.keyspace), escaped(&table.table));
    format!("/v1/tables/{keyspace}/{table}")
}

//! Requests about the rows of a database and about the database as a whole.

use std::num::NonZeroU64;

use ebb_storage::{BackupInfo, LossReport, RestoreReport};
use ebb_tables::names::TableName;

use super::{JobsClient, Result};
use crate::http::paths;
use crate::http::wire::{
    AcceptedLoss, BackupPlace, GetRequest, RowPage, RowView, ScanRequest, StatsReport,
    VerifiedDatabase,
};

impl JobsClient {
    /// Returns the value of a key: the present one, or the one in `snapshot`.
    ///
    /// # Errors
    /// When there is no such key, table or snapshot, or the server does not answer.
    pub fn value(&self, table: &TableName, key: &[u8], snapshot: Option<&str>) -> Result<Vec<u8>> {
        let request = GetRequest {
            key: key.into(),
            snapshot: snapshot.map(str::to_owned),
        };
        let row: RowView = self.post(&format!("{}/get", paths::table(table)), &request)?;
        let value = row.value.ok_or("no value".to_owned());
        let value = value.and_then(|value| value.into_bytes());
        value.map_err(|error| self.strange(error))
    }

    /// Returns a page of the rows of a key range.
    ///
    /// # Errors
    /// When there is no such table or snapshot, or the server does not answer.
    pub fn rows(&self, table: &TableName, request: &ScanRequest) -> Result<RowPage> {
        self.post(&format!("{}/scan", paths::table(table)), request)
    }

    /// Returns the statistics of the database.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stats(&self) -> Result<StatsReport> {
        self.get("/v1/stats")
    }

    /// Requests a verification of the database, which reads every file. `rate_bytes_per_s` limits
    /// the rate of the reads; `None` sets no limit. Returns when the verification has ended.
    ///
    /// # Errors
    /// When the verification is cancelled, or the server does not answer.
    pub fn verify(&self, rate_bytes_per_s: Option<NonZeroU64>) -> Result<VerifiedDatabase> {
        self.post(&paced("/v1/verify", rate_bytes_per_s), &())
    }

    /// Replaces the damaged, missing and unreadable SSTables of the database by the SSTables of a backup.
    /// `rate_bytes_per_s` limits the rate of the reads; `None` sets no limit. Returns when every file was read.
    ///
    /// # Errors
    /// When the backup cannot be read, the restore is cancelled, or the server does not answer.
    pub fn restore(
        &self,
        backup: &BackupPlace,
        rate_bytes_per_s: Option<NonZeroU64>,
    ) -> Result<RestoreReport> {
        self.post(&paced("/v1/restore", rate_bytes_per_s), backup)
    }

    /// Reports what a table has lost because its files are damaged, missing or unreadable. Changes nothing.
    ///
    /// # Errors
    /// When there is no such table, or the server does not answer.
    pub fn loss(&self, table: &TableName) -> Result<LossReport> {
        self.post(&format!("{}/loss", paths::table(table)), &())
    }

    /// Makes the server rewrite the damaged files of a table without the data that cannot be read. `token` is
    /// [`LossReport::token`] of the report that [`loss`](Self::loss) returned: it shows which loss the caller
    /// accepts.
    ///
    /// # Errors
    /// When there is no such table, the table has lost other data by now, or the server does not answer.
    pub fn accept_loss(&self, table: &TableName, token: &str) -> Result<LossReport> {
        let accepted = AcceptedLoss {
            token: token.to_owned(),
        };
        self.post(&format!("{}/accept-loss", paths::table(table)), &accepted)
    }

    /// Makes a backup. `rate_bytes_per_s` limits the rate at which the server copies and checks
    /// files; `None` sets no limit. Returns when every file of the backup has been checked.
    ///
    /// # Errors
    /// When the folder has something else in it than a backup of this database, the backup is
    /// cancelled, or the server does not answer.
    pub fn back_up(
        &self,
        to: &BackupPlace,
        rate_bytes_per_s: Option<NonZeroU64>,
    ) -> Result<BackupInfo> {
        self.post(&paced("/v1/backups", rate_bytes_per_s), to)
    }
}

/// Returns `path` with the rate, if there is one, as a query parameter.
fn paced(path: &str, rate_bytes_per_s: Option<NonZeroU64>) -> String {
    match rate_bytes_per_s {
        Some(rate) => format!("{path}?rate_bytes_per_s={rate}"),
        None => path.to_string(),
    }
}

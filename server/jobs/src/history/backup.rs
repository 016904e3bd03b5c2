//! Backups in the history: jobs of the application `backup`, which no job request starts.

use ebb_scheduler::runtime::Outcome;
use ebb_storage::BackupInfo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::maintenance::{BACKUP, DAMAGED_KEPT_MAX, MaintenanceOptions};
use super::{History, JobRecord, RecordState, Result};

/// The request for a backup, as the history records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    /// The name of the backup, or its directory.
    pub target: String,
    /// The user who requested the backup, and the limit of its read rate.
    pub options: MaintenanceOptions,
}

/// The report of a backup that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// The outcome: succeeded, failed or cancelled.
    pub outcome: Outcome,
    /// The sizes of the backup, and the damage in its files; `None` if the backup failed before its end or
    /// was cancelled. The history contains only the first 100 damaged files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupInfo>,
}

impl BackupRequest {
    /// Returns the request in the form of a job request, with the target in the field `output`, where
    /// clients that list jobs look for it.
    fn to_json(&self) -> Value {
        json!({
            "application": {BACKUP: self.options},
            "output": {"to": {"folder": self.target}},
        })
    }

    fn of_json(request: &Value) -> Option<Self> {
        let options = request["application"][BACKUP].clone();
        Some(Self {
            target: request["output"]["to"]["folder"].as_str()?.to_string(),
            options: serde_json::from_value(options).ok()?,
        })
    }
}

impl BackupReport {
    /// Returns the report of a backup that ran to its end. The outcome is a failure if the backup has damage
    /// and therefore did not replace an older one. A damaged backup without an older one has the outcome
    /// "succeeded", but [`is_good`](Self::is_good) is false.
    pub fn finished(made: BackupInfo) -> Self {
        let outcome = if made.older_stays {
            let cause = "files are damaged or missing, and the older backup stays";
            Outcome::Failed {
                cause: cause.to_string(),
            }
        } else {
            Outcome::Succeeded
        };
        Self {
            outcome,
            backup: Some(made),
        }
    }

    /// Returns the report of a backup that failed for the reason `cause`.
    pub fn failed(cause: String) -> Self {
        Self {
            outcome: Outcome::Failed { cause },
            backup: None,
        }
    }

    pub fn cancelled() -> Self {
        Self {
            outcome: Outcome::Cancelled,
            backup: None,
        }
    }

    /// Returns whether the backup succeeded and has no damage.
    pub fn is_good(&self) -> bool {
        let made = self.backup.as_ref();
        self.outcome == Outcome::Succeeded && made.is_some_and(|made| made.damaged.is_empty())
    }
}

impl JobRecord {
    /// Returns the record of a backup that started at `started_unix_ms`.
    pub fn of_backup(id: String, request: &BackupRequest, started_unix_ms: u64) -> Self {
        Self::started(id, BACKUP, request.to_json(), started_unix_ms)
    }

    pub fn is_backup(&self) -> bool {
        self.application == BACKUP
    }

    /// Returns the request of a backup; `None` for any other job.
    pub fn backup_request(&self) -> Option<BackupRequest> {
        let request = self.is_backup().then_some(&self.request)?;
        BackupRequest::of_json(request)
    }

    /// Returns the report of a backup that has ended; `None` for any other job.
    pub fn backup_report(&self) -> Option<BackupReport> {
        let report = self.is_backup().then_some(self.report.as_ref()?)?;
        serde_json::from_value(report.clone()).ok()
    }

    /// Returns the time of the state that the backup contains, in milliseconds since 1970; `None` for a
    /// backup that has damage or did not succeed, and for any other job.
    pub fn good_backup_unix_ms(&self) -> Option<u64> {
        let report = self.backup_report()?;
        report.is_good().then_some(self.started_unix_ms)
    }
}

impl History {
    /// Records a backup that started at `started_unix_ms`. Must be called after the state to back up is
    /// captured ([`Db::start_backup`](ebb_storage::Db::start_backup)). Otherwise the backup would contain
    /// this record without its end.
    ///
    /// # Errors
    /// When the store fails, or a row is not a job.
    pub fn begin_backup(&self, request: &BackupRequest, started_unix_ms: u64) -> Result<JobRecord> {
        let make = |id| JobRecord::of_backup(id, request, started_unix_ms);
        let (record, ()) = self.begin_maintenance(|_| Some(()), make)?;
        Ok(record)
    }

    /// Records the end of the backup `job`.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end_backup(&self, job: &JobRecord, report: &BackupReport) -> Result<()> {
        let mut report = report.clone();
        if let Some(made) = &mut report.backup {
            made.damaged.truncate(DAMAGED_KEPT_MAX);
        }
        let state = RecordState::of(&report.outcome);
        self.end(job, state, Some(json!(report))).map(drop)
    }

    /// Returns the time of the state that each backup without damage contains, in milliseconds since
    /// 1970, the latest record first. A time may lie in the future, if it was recorded while the
    /// clock was ahead. The history never deletes the record of the latest backup without damage, nor
    /// that of the latest one whose time is not in the future.
    pub fn good_backups_unix_ms(&self) -> impl Iterator<Item = Result<u64>> + use<> {
        let jobs = self.newest(None);
        jobs.filter_map(|job| job.map(|job| job.good_backup_unix_ms()).transpose())
    }
}

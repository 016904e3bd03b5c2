//! Restores in the history: jobs of the application `restore`, which no job request starts.

use ebb_scheduler::runtime::Outcome;
use ebb_storage::RestoreReport;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::maintenance::{DAMAGED_KEPT_MAX, MaintenanceOptions, RESTORE};
use super::{History, JobRecord, RecordState, Result};

/// The request to restore damaged files from a backup, as the history records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The name of the backup, or its directory.
    pub backup: String,
    /// The user who requested the restore, and the limit of its read rate.
    pub options: MaintenanceOptions,
}

/// The report of a restore that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorationReport {
    /// The outcome: succeeded, failed or cancelled.
    pub outcome: Outcome,
    /// The files that are whole again, and those that are still damaged; `None` if the restore failed or was
    /// cancelled. The history keeps the first 100 of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreReport>,
}

impl RestorationReport {
    /// Returns the report of a restore that has read every file. The outcome is "succeeded", even if files
    /// are still damaged.
    pub fn finished(restored: RestoreReport) -> Self {
        Self {
            outcome: Outcome::Succeeded,
            restore: Some(restored),
        }
    }

    /// Returns the report of a restore that ended early with this outcome.
    pub fn ended(outcome: Outcome) -> Self {
        let restore = None;
        Self { outcome, restore }
    }
}

impl JobRecord {
    /// Returns the record of a restore that started at `started_unix_ms`.
    pub fn of_restore(id: String, request: &RestoreRequest, started_unix_ms: u64) -> Self {
        let application = json!({RESTORE: request.options});
        let request = json!({"application": application, "backup": request.backup});
        Self::started(id, RESTORE, request, started_unix_ms)
    }

    /// Returns the name or the directory of the backup from which a restore takes files; `None` for any
    /// other job.
    pub fn restored_backup(&self) -> Option<&str> {
        let request = (self.application == RESTORE).then_some(&self.request)?;
        request["backup"].as_str()
    }

    /// Returns the report of a restore that has ended; `None` for any other job.
    pub fn restoration_report(&self) -> Option<RestorationReport> {
        let report = (self.application == RESTORE).then_some(self.report.as_ref()?)?;
        serde_json::from_value(report.clone()).ok()
    }
}

impl History {
    /// Records the end of the restore `job`.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end_restore(&self, job: &JobRecord, report: &RestorationReport) -> Result<()> {
        let mut report = report.clone();
        if let Some(restored) = &mut report.restore {
            restored.restored.truncate(DAMAGED_KEPT_MAX);
            restored.left.truncate(DAMAGED_KEPT_MAX);
        }
        let state = RecordState::of(&report.outcome);
        self.end(job, state, Some(json!(report))).map(drop)
    }
}

//! Verifications in the history: jobs of the application `verify`, which no job request starts.

use ebb_scheduler::runtime::Outcome;
use ebb_storage::VerifyReport;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::maintenance::{DAMAGED_KEPT_MAX, MaintenanceOptions, VERIFY};
use super::{History, JobRecord, RecordState, Result};

/// The report of a verification that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// The outcome: succeeded, failed or cancelled.
    pub outcome: Outcome,
    /// The number of files that were read, and the damage in them; `None` if the verification
    /// failed or was cancelled. The history keeps the first 100 findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyReport>,
}

impl VerificationReport {
    /// Returns the report of a verification that has read every file. The outcome is "succeeded",
    /// even if files are damaged.
    pub fn finished(verified: VerifyReport) -> Self {
        Self {
            outcome: Outcome::Succeeded,
            verify: Some(verified),
        }
    }

    /// Returns the report of a verification that failed for the reason `cause`.
    pub fn failed(cause: String) -> Self {
        Self {
            outcome: Outcome::Failed { cause },
            verify: None,
        }
    }

    pub fn cancelled() -> Self {
        Self {
            outcome: Outcome::Cancelled,
            verify: None,
        }
    }
}

impl JobRecord {
    /// Returns the record of a verification that started at `started_unix_ms`.
    pub fn of_verification(id: String, options: &MaintenanceOptions, started_unix_ms: u64) -> Self {
        let request = json!({"application": {VERIFY: options}});
        Self::started(id, VERIFY, request, started_unix_ms)
    }

    /// Returns the report of a verification that has ended; `None` for any other job.
    pub fn verification_report(&self) -> Option<VerificationReport> {
        let is_verification = self.application == VERIFY;
        let report = is_verification.then_some(self.report.as_ref()?)?;
        serde_json::from_value(report.clone()).ok()
    }
}

impl History {
    /// Records the end of the verification `job`.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end_verification(&self, job: &JobRecord, report: &VerificationReport) -> Result<()> {
        let mut report = report.clone();
        if let Some(verified) = &mut report.verify {
            verified.findings.truncate(DAMAGED_KEPT_MAX);
        }
        let state = RecordState::of(&report.outcome);
        self.end(job, state, Some(json!(report))).map(drop)
    }
}

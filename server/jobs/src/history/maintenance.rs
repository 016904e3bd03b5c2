//! Backups, restores and verifications in the history: jobs that no job request starts.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{History, JobRecord, Result};

/// The application name of backups. No application of a job request has this name.
pub const BACKUP: &str = "backup";

/// The application name of restores of damaged files. No application of a job request has this name.
pub const RESTORE: &str = "restore";

/// The application name of verifications. No application of a job request has this name.
pub const VERIFY: &str = "verify";

/// The largest number of damaged files that the record of a backup, a restore or a verification lists.
pub const DAMAGED_KEPT_MAX: usize = 100;

/// The options of a backup, a restore or a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceOptions {
    /// The name of the user or of the token that requested the job.
    pub by: String,
    /// The largest rate of the job's reads, in bytes per second; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bytes_per_s: Option<NonZeroU64>,
}

impl JobRecord {
    /// Returns whether the job is a backup, a restore or a verification.
    pub fn is_maintenance(&self) -> bool {
        [BACKUP, RESTORE, VERIFY].contains(&&*self.application)
    }

    /// Returns the options of a backup, a restore or a verification; `None` for any other job.
    pub fn maintenance_options(&self) -> Option<MaintenanceOptions> {
        let request = self.is_maintenance().then_some(&self.request)?;
        let options = request["application"][&self.application].clone();
        serde_json::from_value(options).ok()
    }
}

impl History {
    /// Records a backup, a restore or a verification that has started, and claims it before others can read
    /// the record, as [`begin_claimed`](Self::begin_claimed) does. `make` returns the record for an id. A
    /// backup must be recorded after the state to back up is captured: see
    /// [`begin_backup`](Self::begin_backup).
    ///
    /// # Errors
    /// When the store fails, or a row is not a job.
    pub fn begin_maintenance<C>(
        &self,
        claim: impl FnMut(&str) -> Option<C>,
        make: impl FnOnce(String) -> JobRecord,
    ) -> Result<(JobRecord, C)> {
        self.add(claim, |id, _| make(id))
    }
}

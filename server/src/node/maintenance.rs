//! The records of backups and verifications in the history of jobs.

use ebb_jobs::history::{self, History, JobRecord};
use tracing::{error, warn};

use super::Node;
use super::registry::JobClaim;

impl Node {
    /// Records that a backup or a verification has started; `what` is its name in a log line.
    /// `make` returns the record for an id. This function adds the record to the history, and
    /// claims its id as that of a new job. If the history cannot be written, or there is none,
    /// `make` makes a record from a new id, and no history gets this record. Returns the record,
    /// and the claim if the history has the record. The caller holds the claim until the work is
    /// listed as running. Until then, the claim keeps lists of jobs from showing the work as
    /// unfinished.
    pub(super) fn begin_maintenance(
        &self,
        what: &str,
        started_unix_ms: u64,
        make: impl Fn(String) -> JobRecord,
    ) -> (JobRecord, Option<JobClaim>) {
        let begun = self.history().and_then(|history| {
            let claim = |id: &str| self.registry.claim_new(id);
            let begun = history.map(|history| history.begin_maintenance(claim, &make));
            Ok(begun.transpose()?)
        });
        match begun {
            Ok(Some((record, claim))) => return (record, Some(claim)),
            Ok(None) => {}
            Err(error) => {
                warn!(target: "jobs", "the {what} is not in the history: {error}");
            }
        }
        (make(self.registry.next_id(started_unix_ms)), None)
    }

    /// Records the end of a backup or a verification that is in the history: calls `end`, which writes it. A
    /// failure is logged.
    pub(super) fn end_maintenance(
        &self,
        record: &JobRecord,
        end: impl FnOnce(&History) -> history::Result<()>,
    ) {
        let ended = self.recorded().and_then(|history| Ok(end(history)?));
        if let Err(error) = ended {
            let JobRecord {
                application, id, ..
            } = record;
            error!(target: "jobs", "the end of {application} {id} is not in the history: {error}");
        }
    }
}

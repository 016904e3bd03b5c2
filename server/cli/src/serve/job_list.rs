//! The jobs of the database, for `system_views.jobs`.

use ebb_cql_server::system::{JobList, JobRow};
use ebb_jobs::history::{History, JobRecord, RecordState};
use ebb_storage::Db;

/// The jobs in the history of a database.
#[derive(Debug)]
pub(super) struct RecordedJobs(pub(super) Db);

impl JobList for RecordedJobs {
    fn jobs(&self) -> Result<Vec<JobRow>, String> {
        let history = History::existing(&self.0).map_err(|error| error.to_string())?;
        let jobs = history.map(|history| history.jobs()).transpose();
        let jobs = jobs.map_err(|error| error.to_string())?;
        Ok(jobs.unwrap_or_default().into_iter().map(row).collect())
    }
}

fn row(job: JobRecord) -> JobRow {
    JobRow {
        id: job.id,
        application: job.application,
        request: job.request.to_string(),
        started_unix_ms: job.started_unix_ms,
        starts: job.starts,
        state: match job.state {
            RecordState::Started => "started",
            RecordState::Succeeded => "succeeded",
            RecordState::Failed => "failed",
            RecordState::Cancelled => "cancelled",
        },
        ended_unix_ms: job.ended_unix_ms,
    }
}

//! The jobs of the database, for `system_views.jobs`.

use ebb_cql_server::system::{JobList, JobRow};
use ebb_jobs::history::{History, JobRecord, RecordState};
use ebb_server::http::request_shown_to;
use ebb_server::tokens::{ActingRole, Principal};
use ebb_storage::Db;

/// The jobs in the history of a database.
#[derive(Debug)]
pub(super) struct RecordedJobs(pub(super) Db);

impl JobList for RecordedJobs {
    fn jobs(&self, role: Option<&ActingRole>) -> Result<Vec<JobRow>, String> {
        let reader = role
            .cloned()
            .map_or_else(Principal::owner, Principal::of_role);
        let history = History::existing(&self.0).map_err(|error| error.to_string())?;
        let jobs = history.map(|history| history.jobs()).transpose();
        let jobs = jobs.map_err(|error| error.to_string())?;
        let row = |job| row_for(&reader, job, Some(&self.0));
        Ok(jobs.unwrap_or_default().into_iter().map(row).collect())
    }
}

/// Returns the row of a job, with the options only if the reader may see them.
fn row_for(reader: &Principal, job: JobRecord, db: Option<&Db>) -> JobRow {
    JobRow {
        request: request_shown_to(reader, &job, db).to_string(),
        id: job.id,
        application: job.application,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_jobs::request::JobRequest;
    use ebb_model::access::Granted;
    use serde_json::json;

    use super::*;

    /// Regression: the table showed the options of all jobs, which may have values of rows.
    #[test]
    fn a_role_sees_options_only_of_jobs_whose_inputs_it_may_read() {
        let request = json!({
            "application": {"grep": {"pattern": "secret", "regex": false}},
            "inputs": [{"table": {"table": "app.t"}}],
            "output": {"to": {"table": "app.found"}},
            "directory": "/",
            "goal_s": 60.0,
        });
        let request = JobRequest::from_json(request).unwrap();
        let record = JobRecord::new("1".to_owned(), &request, Vec::new(), 1);
        let shown = |reader: &Principal| row_for(reader, record.clone(), None).request;
        let role = |is_superuser| {
            let mut granted = Granted::default();
            granted.is_superuser = is_superuser;
            Principal::of_role(ActingRole {
                name: "ada".to_owned(),
                granted: Arc::new(granted),
            })
        };
        for reader in [role(true), Principal::owner()] {
            assert_eq!(shown(&reader), record.request.to_string());
        }
        let outline = r#"{"application":{"grep":{}},"goal_s":60.0}"#;
        assert_eq!(shown(&role(false)), outline);
    }
}

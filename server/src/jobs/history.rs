//! The jobs of a database that no process has open: the ones in its history.

use std::time::Duration;

use ebb_jobs::JobError;
use ebb_jobs::history::{History, HistoryError, JobAttempt, JobRecord, ProfileRecord};
use ebb_jobs::request::JobRequest;
use ebb_storage::Db;

use super::{Estimate, JobView, Jobs, RestartView};

/// The history of a database, for reading. No job runs: a call that would need a node returns an error
/// that names the command for it.
#[derive(Debug)]
pub struct JobHistory(Option<History>);

impl JobHistory {
    /// Opens the history of `db`, which is empty before the first job.
    ///
    /// # Errors
    /// When the history is of another version, or the store fails.
    pub fn open(db: &Db) -> Result<Self, JobError> {
        Ok(Self(History::existing(db)?))
    }

    fn read<T: Default>(
        &self,
        read: impl FnOnce(&History) -> Result<T, HistoryError>,
    ) -> Result<T, JobError> {
        Ok(self.0.as_ref().map_or_else(|| Ok(T::default()), read)?)
    }

    fn find(&self, id: &str) -> Result<JobRecord, JobError> {
        Ok(JobRecord::find(self.read(History::jobs)?, id)?)
    }
}

impl Jobs for JobHistory {
    type Error = JobError;

    fn list(&self) -> Result<Vec<JobView>, JobError> {
        let jobs = self.read(History::jobs)?.into_iter();
        Ok(jobs.map(JobView::remembered).collect())
    }

    fn show(&self, id: &str, _wait: Duration) -> Result<JobView, JobError> {
        self.find(id).map(JobView::remembered)
    }

    fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>, JobError> {
        let id = self.find(id)?.id;
        self.read(|history| history.attempts(&id))
    }

    fn profiles(&self) -> Result<Vec<ProfileRecord>, JobError> {
        self.read(History::profiles)
    }

    fn submit(&self, _request: &JobRequest) -> Result<JobView, JobError> {
        Err(needs_node("ebb run"))
    }

    fn estimate(&self, _request: &JobRequest) -> Result<Estimate, JobError> {
        Err(needs_node("ebb run --dry-run"))
    }

    fn cancel(&self, _id: &str) -> Result<bool, JobError> {
        Err(needs_node("ebb jobs discard"))
    }

    fn restart(&self, _id: &str) -> Result<RestartView, JobError> {
        Err(needs_node("ebb jobs restart"))
    }

    fn discard(&self, _id: &str) -> Result<JobView, JobError> {
        Err(needs_node("ebb jobs discard"))
    }
}

fn needs_node(command: &str) -> JobError {
    JobError::senseless(format!(
        "no server has the database open, and its history is only read: use {command}"
    ))
}

#[cfg(test)]
mod tests {
    use ebb_storage::Options;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_history_is_read_and_other_calls_name_the_command_to_use() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let empty = JobHistory::open(&db).unwrap();
        assert_eq!(empty.list().unwrap(), []);
        assert!(empty.show("last", Duration::ZERO).is_err());
        let request = JobRequest::from_json(json!({
            "application": {"wordcount": {"reduces": 1}},
            "output": {"to": {"file": "counts.tsv"}},
            "directory": "/",
        }));
        let history = History::open(&db).unwrap();
        let record = history.begin(&request.unwrap(), Vec::new()).unwrap();
        let jobs = JobHistory::open(&db).unwrap();
        let job = jobs.show("last", Duration::ZERO).unwrap();
        assert_eq!(job, JobView::remembered(record));
        assert_eq!(jobs.attempts(&job.record.id).unwrap(), []);
        assert_eq!(jobs.list().unwrap(), [job]);
        let refused = jobs.cancel("last").unwrap_err().to_string();
        assert!(refused.contains("use ebb jobs discard"), "{refused}");
    }
}

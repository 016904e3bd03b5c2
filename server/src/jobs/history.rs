//! The jobs of a database that no process has open: the ones in its history.

use std::time::Duration;

use ebb_jobs::JobError;
use ebb_jobs::history::{History, HistoryError, JobAttempt, JobRecord, ProfileRecord};
use ebb_storage::Db;

use super::{JobView, ReadJobs};

/// Read access to the jobs in the history of a database that no node has open. None of these jobs runs.
#[derive(Debug)]
pub struct JobHistory(Option<History>);

impl JobHistory {
    /// Opens the history of `db`. In a database that never had a job, it is empty.
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

impl ReadJobs for JobHistory {
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
}

#[cfg(test)]
mod tests {
    use ebb_jobs::request::JobRequest;
    use ebb_storage::Options;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_history_lists_and_shows_its_jobs() {
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
        let record = history.begin(&request.unwrap(), Vec::new(), None).unwrap();
        let jobs = JobHistory::open(&db).unwrap();
        let job = jobs.show("last", Duration::ZERO).unwrap();
        assert_eq!(job, JobView::remembered(record));
        assert_eq!(jobs.attempts(&job.record.id).unwrap(), []);
        assert_eq!(jobs.list().unwrap(), [job]);
    }
}

//! The jobs of a node: the ones that run, and the ones in its history.

use std::time::Duration;

use ebb_jobs::JobError;
use ebb_jobs::history::{
    History, JobAttempt, JobRecord, JobRow, ProfileRecord, RecordState, now_unix_ms,
};
use ebb_jobs::launch::{delete_own_snapshots, permit_all};
use ebb_jobs::request::JobRequest;
use ebb_jobs::restart::{ended, lacks_park, request_to_retry};
use ebb_scheduler::runtime::Outcome;
use serde_json::json;

use super::Node;
use super::registry::{EndedJob, JobClaim};
use super::running::RunningJob;
use super::running_maintenance::RunningMaintenance;
use crate::jobs::{Estimate, JobView, Jobs, ReadJobs, RestartView};

impl ReadJobs for Node {
    type Error = JobError;

    fn list(&self) -> Result<Vec<JobView>, JobError> {
        let views = self.jobs()?.into_iter().map(|job| self.view_of(job));
        views.filter_map(Result::transpose).collect()
    }

    fn show(&self, id: &str, wait: Duration) -> Result<JobView, JobError> {
        let record = self.job(id)?;
        if let Some(job) = self.running(&record.id) {
            job.wait_timeout(wait);
            return self.present_view(&job);
        }
        if let Some(work) = self.running_maintenance(&record.id) {
            work.wait_timeout(wait);
        }
        self.existing_view_of(record)
    }

    fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>, JobError> {
        let id = self.job(id)?.id;
        match self.existing_history()? {
            Some(history) => Ok(history.attempts(&id)?),
            None => Ok(Vec::new()),
        }
    }

    fn profiles(&self) -> Result<Vec<ProfileRecord>, JobError> {
        match self.existing_history()? {
            Some(history) => Ok(history.profiles()?),
            None => Ok(Vec::new()),
        }
    }
}

impl Jobs for Node {
    fn submit(&self, request: &JobRequest) -> Result<JobView, JobError> {
        Ok(self.submit(request.clone())?.view())
    }

    fn estimate(&self, request: &JobRequest) -> Result<Estimate, JobError> {
        self.estimate_as(request, &permit_all)
    }

    fn cancel(&self, id: &str) -> Result<bool, JobError> {
        let id = self.job(id)?.id;
        if let Some(work) = self.running_maintenance(&id) {
            return Ok(work.cancel());
        }
        if let Some(job) = self.running(&id) {
            if job.cancel() {
                return Ok(true);
            }
            if job.is_parked() {
                return Err(parked(job.record()));
            }
            if job.end().is_none() {
                return Ok(false);
            }
        }
        // The record that was read before may be older than the end.
        Err(not_running(&self.job(&id)?))
    }

    fn restart(&self, id: &str) -> Result<RestartView, JobError> {
        Ok(self.restart(id)?.map(|job| job.view()))
    }

    fn retry(&self, id: &str) -> Result<JobView, JobError> {
        Ok(self.retry(id)?.view())
    }

    fn discard(&self, id: &str) -> Result<JobView, JobError> {
        let (record, _claim) = self.claim(id)?;
        if record.state != RecordState::Started {
            return Err(ended(&record, "discard"));
        }
        let ended = self.end_unstarted(&record, &Outcome::Cancelled)?;
        Ok(JobView::remembered(ended))
    }
}

/// Returns the error for a change that is refused because the job runs.
pub(super) fn running(record: &JobRecord) -> JobError {
    let (application, id) = (&record.application, &record.id);
    JobError::State(format!("{application} {id} is running: cancel it first"))
}

/// Returns the error for a cancellation that is refused because the job is left for a later start.
fn parked(record: &JobRecord) -> JobError {
    let (application, id) = (&record.application, &record.id);
    JobError::State(format!(
        "{application} {id} is parked for a later start: discard it, or cancel it after that start"
    ))
}

/// Returns the error for a cancellation that is refused because the job does not run.
fn not_running(record: &JobRecord) -> JobError {
    if record.state != RecordState::Started {
        return ended(record, "cancel");
    }
    let (application, id) = (&record.application, &record.id);
    JobError::State(format!(
        "{application} {id} is unfinished and does not run: restart or discard it"
    ))
}

impl Node {
    /// Returns all jobs in the history, the oldest first; without a database, the running ones.
    /// Leaves out new jobs that are being started, because the history forgets those that fail to
    /// start.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRecord>, JobError> {
        match self.existing_history()? {
            Some(history) => {
                let mut jobs = history.jobs()?;
                jobs.retain(|job| !self.is_starting(job));
                Ok(jobs)
            }
            None => {
                let running = self.registry.all();
                Ok(running.iter().map(|job| job.record().clone()).collect())
            }
        }
    }

    /// Returns the jobs in the history, the newest first, with their records as they are stored. With
    /// `before`, the id of a job, only older ones. The iterator reads each job on demand. Without a
    /// database it returns the running jobs.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub(crate) fn newest_rows(
        &self,
        before: Option<&str>,
    ) -> Result<impl Iterator<Item = Result<JobRow, JobError>> + use<>, JobError> {
        let history = self.existing_history()?;
        let unrecorded: Vec<JobRow> = if history.is_some() {
            Vec::new()
        } else {
            let jobs = self.registry.all().into_iter().rev();
            let older = jobs.filter(|job| before.is_none_or(|before| job.id() < before));
            older.map(|job| JobRow::of(job.record())).collect()
        };
        let recorded = history.map(|history| history.newest_rows(before));
        let rows = recorded.into_iter().flatten();
        Ok(rows
            .map(|row| row.map_err(JobError::from))
            .chain(unrecorded.into_iter().map(Ok)))
    }

    /// Returns the job that a request with this [`Submission::key`](ebb_jobs::history::Submission::key)
    /// submitted. `None` if there is no such job, or if the key has expired by `now_unix_ms`: a retry then
    /// starts another job.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn submitted(&self, key: &str, now_unix_ms: u64) -> Result<Option<JobRecord>, JobError> {
        let Some(history) = self.existing_history()? else {
            return Ok(None);
        };
        // All of them: their order is that of their ids, which ascend even if the clock was set back, so jobs
        // behind one that is too old may not be.
        for job in history.newest(None) {
            let job = job?;
            let by = job.submission_at(now_unix_ms);
            if by.is_some_and(|by| by.key == key) {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Submits again, as another job, the request of a job that failed or was cancelled.
    ///
    /// # Errors
    /// See [`Jobs::retry`].
    pub fn retry(&self, id: &str) -> Result<RunningJob, JobError> {
        self.submit(self.request_to_retry(id)?)
    }

    /// Returns the request of a job that failed or was cancelled.
    ///
    /// # Errors
    /// See [`Jobs::retry`].
    pub(crate) fn request_to_retry(&self, id: &str) -> Result<JobRequest, JobError> {
        let record = self.job(id)?;
        if self.is_running(&record.id) {
            return Err(running(&record));
        }
        // The record that was read before may be older than the end.
        request_to_retry(&self.job(&record.id)?)
    }

    /// Returns the record of a job. The id `last` names the latest job.
    ///
    /// # Errors
    /// When there is no such job, or the history cannot be read.
    pub fn job(&self, id: &str) -> Result<JobRecord, JobError> {
        let history = self.existing_history()?;
        let found = history.map(|history| history.job(id)).transpose()?;
        let found = found.flatten().filter(|job| !self.is_starting(job));
        if let Some(record) = found {
            return Ok(record);
        }
        // Only `last`, and the error for an unknown id, need all records.
        Ok(JobRecord::find(self.jobs()?, id)?)
    }

    /// Returns whether the job with this record is a new one that is being started.
    fn is_starting(&self, record: &JobRecord) -> bool {
        record.state == RecordState::Started && self.registry.is_starting(&record.id)
    }

    /// Returns a job as clients see it now: with its progress if it runs on this node, and with its
    /// end even if `record` was read before the end. Returns `None` for a new job that is being
    /// started, for a job that is no longer in the history, such as one that failed to start, and,
    /// without a database, for a job that has ended.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub(crate) fn view_of(&self, record: JobRecord) -> Result<Option<JobView>, JobError> {
        // This check comes before the look at the running jobs: that look finds a job that starts
        // in between.
        if self.is_starting(&record) {
            return Ok(None);
        }
        if let Some(job) = self.running(&record.id) {
            return self.present_view(&job).map(Some);
        }
        if let Some(work) = self.running_maintenance(&record.id) {
            return Ok(Some(work.view()));
        }
        // The end of a job is recorded before the job leaves the running ones. So the history has
        // the end, but `record` may be older.
        let present = match self.existing_history()? {
            Some(history) if record.state == RecordState::Started => history.job(&record.id)?,
            Some(_) => Some(record),
            // The job has ended since its record was read, and no history has the end.
            None => None,
        };
        Ok(present.map(JobView::remembered))
    }

    /// Returns a job as [`view_of`](Self::view_of) does.
    ///
    /// # Errors
    /// When there is no such job any more, or the history cannot be read.
    pub(crate) fn existing_view_of(&self, record: JobRecord) -> Result<JobView, JobError> {
        let id = record.id.clone();
        match self.view_of(record)? {
            Some(view) => Ok(view),
            None => Ok(JobView::remembered(JobRecord::find(self.jobs()?, &id)?)),
        }
    }

    /// Returns the view of a job that runs, or ran a moment ago. If the job has ended, the view has the
    /// record of its end from the history, as in a list of jobs.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub(crate) fn present_view(&self, job: &RunningJob) -> Result<JobView, JobError> {
        let view = job.view();
        let recorded = match (&view.end, self.existing_history()?) {
            (Some(_), Some(history)) => history.job(job.id())?,
            _ => None,
        };
        Ok(match recorded {
            Some(record) => JobView { record, ..view },
            None => view,
        })
    }

    /// Returns at most `count_max` attempts at the tasks of a job, in the order in which they ended, each
    /// with its position in this order. With `after`, the position of an attempt, it returns only later
    /// attempts.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub(crate) fn attempts_after(
        &self,
        job: &JobRecord,
        after: Option<&str>,
        count_max: usize,
    ) -> Result<Vec<(String, JobAttempt)>, JobError> {
        match self.existing_history()? {
            Some(history) => Ok(history.attempts_after(&job.id, after, count_max)?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the unfinished jobs that do not run on this node, the oldest first: parked jobs, and jobs
    /// whose process ended before the job did.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn unfinished(&self) -> Result<Vec<JobRecord>, JobError> {
        let mut jobs = self.list()?;
        jobs.retain(|job| job.record.state == RecordState::Started && !job.is_running());
        Ok(jobs.into_iter().map(|job| job.record).collect())
    }

    /// Records that the last process parked an unfinished job, unless its record shows that. A process whose store
    /// took no more writes could not record it, and did not end because of the job. Call this before
    /// [`restart`](Self::restart), which gives a job up whose process has ended several times before the job.
    ///
    /// # Errors
    /// When there is no such job, it runs or is claimed, or the history cannot be read or written.
    pub fn note_parked(&self, id: &str) -> Result<(), JobError> {
        let (record, _claim) = self.claim(id)?;
        if lacks_park(&record) {
            self.recorded()?.park(&record)?;
        }
        Ok(())
    }

    /// Returns the handle of a job, to follow its progress and wait for its end; `None` if the job
    /// does not run on this node.
    pub fn running(&self, id: &str) -> Option<RunningJob> {
        self.registry.get(id)
    }

    /// Returns the backup or verification with this id, if it runs on this node.
    pub(crate) fn running_maintenance(&self, id: &str) -> Option<RunningMaintenance> {
        self.registry.maintenance(id)
    }

    /// Returns whether a job, a backup or a verification with this id runs on this node.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.registry.is_running(id)
    }

    /// Returns the handles of the running jobs, ascending by id.
    pub fn running_jobs(&self) -> Vec<RunningJob> {
        self.registry.all()
    }

    /// Returns the handles of the running backups, restores and verifications, ascending by id.
    pub(crate) fn all_running_maintenance(&self) -> Vec<RunningMaintenance> {
        self.registry.all_maintenance()
    }

    /// Removes and returns the jobs, backups, restores and verifications that ended since the last call; of more
    /// than 1,024, the latest.
    pub(crate) fn take_ended(&self) -> Vec<EndedJob> {
        self.registry.take_ended()
    }

    /// Returns the history, which the first call for a database creates; `None` without a database.
    pub(super) fn history(&self) -> Result<Option<&History>, JobError> {
        let Some(db) = &self.site.db else {
            return Ok(None);
        };
        if let Some(history) = self.history.get() {
            return Ok(Some(history));
        }
        let opened = History::open(db)?;
        Ok(Some(self.history.get_or_init(|| opened)))
    }

    /// Returns the history if there is one; unlike [`history`](Self::history), creates none.
    pub(super) fn existing_history(&self) -> Result<Option<History>, JobError> {
        let opened = self.history.get().cloned();
        match (opened, &self.site.db) {
            (Some(history), _) => Ok(Some(history)),
            (None, Some(db)) => Ok(History::existing(db)?),
            (None, None) => Ok(None),
        }
    }

    /// Returns the history, for a caller that has found a record in it.
    ///
    /// # Errors
    /// When the node has no database, or the history cannot be opened.
    pub(super) fn recorded(&self) -> Result<&History, JobError> {
        let no = || JobError::NoDatabase("the history of jobs".to_string());
        self.history()?.ok_or_else(no)
    }

    /// Claims a job in the history that does not run. Until the claim is dropped, no other request
    /// can start or discard the job. Returns the present record of the job, and the claim.
    ///
    /// # Errors
    /// When there is no such job, it runs or is claimed, or the history cannot be read.
    pub(super) fn claim(&self, id: &str) -> Result<(JobRecord, JobClaim), JobError> {
        let record = self.job(id)?;
        let claim = self.registry.claim(&record.id);
        let claim = claim.ok_or_else(|| running(&record))?;
        // The job may have ended between the first read and the claim.
        Ok((self.job(&record.id)?, claim))
    }

    /// Records `outcome` as the end of a job that does not start, deletes the snapshots that were created for it,
    /// and keeps the end for [`take_ended`](Self::take_ended). Returns the record with the end.
    ///
    /// # Errors
    /// When the history cannot be written.
    pub(super) fn end_unstarted(
        &self,
        record: &JobRecord,
        outcome: &Outcome,
    ) -> Result<JobRecord, JobError> {
        let (state, report) = (RecordState::of(outcome), json!({"outcome": outcome}));
        let ended = self.recorded()?.end(record, state, Some(report))?;
        self.registry.note_end_of_unstarted(&record.id, outcome);
        if let Some(db) = self.db() {
            delete_own_snapshots(db, &record.own_snapshots);
        }
        Ok(ended)
    }

    /// Creates the record, with a new id, of a job on a node without a history.
    pub(super) fn unrecorded(&self, request: &JobRequest) -> JobRecord {
        let now_unix_ms = now_unix_ms();
        let id = self.registry.next_id(now_unix_ms);
        JobRecord::new(id, request, Vec::new(), now_unix_ms)
    }
}

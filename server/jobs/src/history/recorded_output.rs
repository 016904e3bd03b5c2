//! Records that a job is about to put its output in place, before it does.
//!
//! A process that ends between the two leaves a record without an end. The restart of the
//! job has to know whose the output is:
//!
//! ```text
//!   recorded   the output is there    it was put there by
//!   started    yes                    another program: the job had not come to it
//!   commits    yes                    the job
//!   either     no                     no one: the job starts again
//! ```

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::{History, JobRecord};

/// The record that outputs write to; of a job that is not recorded, none. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CommitRecord {
    record: Arc<OnceLock<(History, JobRecord)>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl CommitRecord {
    /// From now on commits are recorded of `job`. The first call counts.
    pub fn set(&self, history: &History, job: &JobRecord) {
        let _ = self.record.set((history.clone(), job.clone()));
    }

    /// Notes what was put in place, for the report of the job: a line for each thing.
    pub fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(notes);
    }

    /// Returns what was noted.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.clone()
    }

    /// Records that the output is about to be put in place; of rows for a table of CQL at
    /// which timestamp.
    ///
    /// # Errors
    /// When it cannot be recorded. Then it must not be done either: the job fails, and when
    /// that cannot be recorded it starts again.
    pub fn begin(&self, written_us: Option<i64>) -> Result<(), TaskError> {
        let Some((history, job)) = self.record.get() else {
            return Ok(());
        };
        let begun = history.begin_commit(job, written_us);
        begun.map_err(|error| {
            TaskError::failed(format!("recording it in the history of jobs: {error}"))
        })
    }
}

/// An output whose commit is recorded first.
pub struct RecordedOutput {
    output: Arc<dyn Output>,
    commits: CommitRecord,
}

impl RecordedOutput {
    /// Records commits of `output` in `commits`.
    pub fn new(output: Arc<dyn Output>, commits: CommitRecord) -> Self {
        Self { output, commits }
    }
}

impl Output for RecordedOutput {
    fn check(&self) -> Result<(), TaskError> {
        self.output.check()
    }

    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        self.output.open(partition, attempt)
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.commits.begin(None)?;
        self.output.commit()
    }

    fn abort(&self) {
        self.output.abort();
    }
}

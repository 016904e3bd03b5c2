//! An output that records in the history that a job is about to put its rows in place.
//!
//! If the process ends between that record and the record of the job's end, the job seems unfinished. Its
//! restart then has to find out who made the output that is there:
//!
//! ```text
//!   recorded   the output is there    it was put there by
//!   started    yes                    another program: the job had not come to it
//!   commits    yes                    the job, or by its mark another program or job
//!   either     no                     no one: the job starts again
//! ```
//!
//! A file, a folder and the rows of a CQL table have a mark ([`OutputMark`]), which these outputs record themselves.
//! Rows of a plain table do not show who has written them, and count as the job's if the record has
//! the number of the table. So while a job that `commits` is unfinished, no other job writes to its
//! table ([`unsettled_writer`](crate::restart::unsettled_writer)). Other programs may, and if the
//! table was empty before, their rows would be taken for those of the job.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::{History, JobRecord, OutputMark};

/// The handle with which outputs update the record of their job in the history. If the job has no record
/// there, only the notes for its report are kept. All clones update the same record.
#[derive(Debug, Clone, Default)]
pub struct CommitRecord {
    record: Arc<OnceLock<(History, JobRecord)>>,
    /// The number of the table that the output writes; empty until the output has set it.
    table: Arc<OnceLock<u32>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl CommitRecord {
    /// Sets the job whose record is updated. Only the first call has an effect.
    pub fn set(&self, history: &History, job: &JobRecord) {
        let _ = self.record.set((history.clone(), job.clone()));
    }

    /// Sets the number of the table that the output writes. The next [`begin`](Self::begin) records
    /// it: if the commit has just created the table, the record does not have it yet. Only the
    /// first call has an effect.
    pub fn set_table(&self, number: u32) {
        let _ = self.table.set(number);
    }

    /// Returns the number of the table that the output writes, if the output has set it.
    pub fn table(&self) -> Option<u32> {
        self.table.get().copied()
    }

    /// Adds lines to the job's report, for example one for each table that the commit has published.
    pub fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(notes);
    }

    pub fn notes(&self) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.clone()
    }

    /// Records that the output is about to be put in place, with its mark and the number of its
    /// table: see [`History::begin_commit`].
    ///
    /// # Errors
    /// When the commit cannot be recorded. Then the caller must not commit, so the job fails. If
    /// this failure cannot be recorded either, the job starts again.
    pub fn begin(&self, mark: Option<OutputMark>) -> Result<(), TaskError> {
        let Some((history, job)) = self.record.get() else {
            return Ok(());
        };
        let mut job = job.clone();
        job.tables.output = self.table().or(job.tables.output);
        let begun = history.begin_commit(&job, mark);
        begun.map_err(|error| {
            TaskError::failed(format!("recording it in the history of jobs: {error}"))
        })
    }
}

/// An output without a mark, such as a plain table, that updates the job's record before each commit.
pub struct RecordedOutput {
    output: Arc<dyn Output>,
    commits: CommitRecord,
}

impl RecordedOutput {
    /// Wraps `output`, so that each of its commits is first recorded by `commits`.
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

//! Notes that a job is about to put its output in place, before it does.
//!
//! A process that ends between the two leaves a note without an end, and whoever finds it
//! has to know whose the output is:
//!
//! ```text
//!   noted      the output is there    it was put there by
//!   started    yes                    somebody else: the job had not come to it
//!   commits    yes                    the job
//!   either     no                     nobody: the job starts again
//! ```

use std::sync::{Arc, OnceLock};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::{History, NotedJob};

/// The note that outputs write to; of a job that is not noted, none. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CommitNote {
    noted: Arc<OnceLock<(History, NotedJob)>>,
}

impl CommitNote {
    /// From now on commits are noted of `job`. The first call counts.
    pub fn set(&self, history: &History, job: &NotedJob) {
        let _ = self.noted.set((history.clone(), job.clone()));
    }
}

/// An output whose commit is noted first.
pub struct NotedOutput {
    output: Arc<dyn Output>,
    note: CommitNote,
}

impl NotedOutput {
    /// Notes commits of `output` in `note`.
    pub fn new(output: Arc<dyn Output>, note: CommitNote) -> Self {
        Self { output, note }
    }
}

impl Output for NotedOutput {
    fn check(&self) -> Result<(), TaskError> {
        self.output.check()
    }

    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        self.output.open(partition, attempt)
    }

    /// What cannot be noted is not done either: the job fails, and when that cannot be
    /// noted it starts again.
    fn commit(&self) -> Result<(), TaskError> {
        if let Some((history, job)) = self.note.noted.get() {
            history.begin_commit(job).map_err(|error| {
                TaskError::failed(format!("noting it in the history of jobs: {error}"))
            })?;
        }
        self.output.commit()
    }

    fn abort(&self) {
        self.output.abort();
    }
}

//! The jobs that ended, remembered within bounds.

use super::job::report::{JobReport, JobStatus};
use crate::model::JobId;
use std::collections::VecDeque;

/// A job that has ended, as it is listed.
pub(super) struct EndedJob {
    pub status: JobStatus,
    pub report: JobReport,
}

/// The latest jobs that ended, in that order.
#[derive(Default)]
pub(super) struct EndedJobs {
    jobs: VecDeque<EndedJob>,
    jobs_max: usize,
}

impl EndedJobs {
    pub fn new(jobs_max: usize) -> Self {
        Self {
            jobs: VecDeque::new(),
            jobs_max,
        }
    }

    pub fn push(&mut self, job: EndedJob) {
        self.jobs.push_back(job);
        if self.jobs.len() > self.jobs_max {
            self.jobs.pop_front();
        }
    }

    pub fn get(&self, id: JobId) -> Option<&EndedJob> {
        self.jobs.iter().find(|job| job.status.id == id)
    }

    /// Forgets a job. False when it is not known.
    pub fn discard(&mut self, id: JobId) -> bool {
        let at = self.jobs.iter().position(|job| job.status.id == id);
        at.is_some_and(|at| self.jobs.remove(at).is_some())
    }

    pub fn iter(&self) -> impl Iterator<Item = &EndedJob> {
        self.jobs.iter()
    }
}

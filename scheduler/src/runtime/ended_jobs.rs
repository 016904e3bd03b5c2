//! The status of jobs that ended, kept within bounds.

use super::job::report::JobStatus;
use crate::model::JobId;
use std::collections::VecDeque;

/// The latest `jobs_max` jobs that ended, in the order of their ends.
#[derive(Default)]
pub(super) struct EndedJobs {
    jobs: VecDeque<JobStatus>,
    jobs_max: usize,
}

impl EndedJobs {
    pub fn new(jobs_max: usize) -> Self {
        Self {
            jobs: VecDeque::new(),
            jobs_max,
        }
    }

    pub fn push(&mut self, job: JobStatus) {
        self.jobs.push_back(job);
        if self.jobs.len() > self.jobs_max {
            self.jobs.pop_front();
        }
    }

    pub fn get(&self, id: JobId) -> Option<&JobStatus> {
        self.jobs.iter().find(|job| job.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &JobStatus> {
        self.jobs.iter()
    }
}

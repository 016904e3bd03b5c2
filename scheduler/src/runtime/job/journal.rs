//! The listener to the events of jobs.

use super::attempt_record::AttemptRecord;
use super::profile::MeasuredProfile;
use super::report::{JobReport, JobStatus};
use crate::model::JobId;
use std::sync::Arc;

/// What the journal of a job is to be told.
pub(in crate::runtime) struct News {
    pub journal: Arc<dyn JobJournal>,
    pub event: Event,
}

/// What happened.
pub(in crate::runtime) enum Event {
    Submitted(JobStatus),
    AttemptEnded(JobId, AttemptRecord),
    Ended(Box<(JobReport, MeasuredProfile)>),
}

impl News {
    pub fn tell(&self) {
        let journal = self.journal.as_ref();
        match &self.event {
            Event::Submitted(job) => journal.submitted(job),
            Event::AttemptEnded(job, attempt) => journal.attempt_ended(*job, attempt),
            Event::Ended(end) => journal.ended(&end.0, &end.1),
        }
    }
}

/// A listener to the events of one or several jobs, which can record them so that they
/// outlive the process.
///
/// One call at a time, in the order in which things happened. Of one job: first
/// `submitted`, then any `attempt_ended`, each once, and at last `ended`, before
/// [`JobHandle::wait`](crate::runtime::JobHandle::wait) returns. The calls come outside of
/// the runtime's lock, on threads that have news of their own to bring: of a task,
/// of a commit, the submitter's, the control thread. They may do I/O, but what is
/// next on that thread waits for them. They must not submit jobs.
pub trait JobJournal: Send + Sync {
    /// A job was accepted; no task of it has started. If it is refused after all,
    /// because the runtime shuts down meanwhile, `ended` follows with a cancelled job.
    fn submitted(&self, job: &JobStatus);

    /// An attempt at a task of `job` ended.
    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord);

    /// A job ended. What its tasks took is in `measured`, for the next job of its
    /// kind.
    fn ended(&self, report: &JobReport, measured: &MeasuredProfile);
}

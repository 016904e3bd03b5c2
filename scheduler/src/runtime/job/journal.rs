//! The listener for the events of jobs.

use super::attempt_record::AttemptRecord;
use super::profile::MeasuredProfile;
use super::report::{JobReport, JobStatus};
use crate::model::JobId;
use std::sync::Arc;

/// An event and the journal that gets it.
pub(in crate::runtime) struct Notification {
    pub journal: Arc<dyn JobJournal>,
    pub event: Event,
}

/// An event of a job.
pub(in crate::runtime) enum Event {
    Submitted(JobStatus),
    AttemptEnded(JobId, AttemptRecord),
    Ended(Box<(JobReport, MeasuredProfile)>),
}

impl Notification {
    pub fn deliver(&self) {
        let journal = self.journal.as_ref();
        match &self.event {
            Event::Submitted(job) => journal.submitted(job),
            Event::AttemptEnded(job, attempt) => journal.attempt_ended(*job, attempt),
            Event::Ended(end) => journal.ended(&end.0, &end.1),
        }
    }
}

/// A listener for the events of one or several jobs, which can record them so that they outlive the
/// process.
///
/// Calls are serialised, in the order of the events. A job has first one `submitted`, then one
/// `attempt_ended` for each attempt that ends before the job, and at last one `ended`, before
/// [`JobHandle::wait`](crate::runtime::JobHandle::wait) returns. The calls come outside of the
/// runtime's lock, on the thread that caused the event or on another one that reports events at
/// that time: a thread that ran a task, a commit or the like, the submitter's, or the control
/// thread. They may do I/O, but delay further work on that thread. They must not submit jobs.
pub trait JobJournal: Send + Sync {
    /// Called when a job is accepted, before any of its tasks starts. The job may still be refused,
    /// because the runtime shuts down or has just dropped the record of a job that this one
    /// follows. Then `ended` comes next, with a cancelled job.
    fn submitted(&self, job: &JobStatus);

    /// Called when an attempt at a task of `job` ends.
    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord);

    /// Called when a job ends. `measured` has the totals of its tasks, as an estimate for the next
    /// job of its kind.
    fn ended(&self, report: &JobReport, measured: &MeasuredProfile);
}

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
/// [`JobHandle::wait`](crate::runtime::JobHandle::wait) returns.
///
/// The runtime holds no lock on its state during a call. It calls on the control thread, on a
/// thread that has submitted a job, or on one that has run a task, a commit or the like. Such a
/// thread also reports events that other threads caused. A call may do I/O, but delays further work
/// on its thread. It must not submit jobs.
pub trait JobJournal: Send + Sync {
    /// Called when a job is accepted, before any of its tasks starts. The job may still be refused,
    /// because the runtime shuts down or has just dropped the record of a job that this one
    /// follows. Then `ended` is called next, and its report has the outcome `Cancelled`.
    fn submitted(&self, job: &JobStatus);

    /// Called when an attempt at a task of `job` ends.
    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord);

    /// Called when a job ends. `measured` has the totals of its tasks, as an estimate for the next
    /// job of its kind.
    fn ended(&self, report: &JobReport, measured: &MeasuredProfile);
}

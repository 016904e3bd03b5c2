//! The handle of a running job of a node. It wraps the runtime's handle of the current step: a step
//! is one job of the runtime, and a chain has several, which run one after the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebb_colocate::Governor;
use ebb_jobs::history::JobRecord;
use ebb_jobs::request::JobRequest;
use ebb_scheduler::runtime::{JobHandle, JobReport, JobState};
use tokio::sync::Notify;

use super::Node;
use crate::jobs::{Beside, EndForecast, Estimate, JobEnd, JobProgress, JobView};
use crate::jobs::{Prediction, ReadInput, Run};
use crate::jobs::{WINDOW_S, Wait, runnable_tasks};

/// A handle of a job of a node. The job runs on if the handle is dropped. Clones stand for the same job.
#[derive(Clone)]
pub struct RunningJob {
    shared: Arc<Shared>,
}

struct Shared {
    record: JobRecord,
    request: JobRequest,
    policy: &'static str,
    /// The governor, which sets how many cores jobs may use; `None` if that number is fixed.
    governor: Option<Arc<Governor>>,
    inputs: Vec<ReadInput>,
    estimate: Option<Estimate>,
    /// The time at which the first step of the job was submitted to the runtime, in seconds of the runtime's
    /// time.
    begun_s: f64,
    state: Mutex<State>,
    ended: Condvar,
    /// Wakes async tasks that wait for the end of the job. `ended` wakes blocked threads.
    notify: Notify,
}

struct State {
    /// The step that runs now, or, after the end of the whole job, the last step that ran.
    step: Step,
    stop: Option<Stop>,
    /// Whether the job is left for a later start. `None` until the thread that drives the job has decided
    /// this: from then on the job cannot be stopped in another way.
    parked: Option<bool>,
    end_forecast: Option<EndForecast>,
    end: Option<Arc<JobEnd>>,
    /// True if another job, a backup or a verification of the node ran at some time while this job did.
    had_company: bool,
}

/// One job of the runtime: the whole job, or one step of a chain.
#[derive(Clone)]
struct Step {
    handle: JobHandle,
    number: u32,
    of: u32,
}

impl Step {
    /// Cancels this step, and returns true if the job will not complete:
    ///
    /// - the step is stopping, or was cancelled, by this call or before;
    /// - the step is committing or has succeeded, so it cannot be cancelled, but it is not the last
    ///   one: the next step is cancelled at its start.
    ///
    /// Returns false if it is too late to stop the job: the last step is committing or has
    /// succeeded, or the step has failed.
    fn stop(&self) -> bool {
        if self.handle.cancel() {
            return true;
        }
        match self.handle.status().state {
            JobState::Stopping | JobState::Cancelled => true,
            JobState::Committing | JobState::Succeeded => self.number < self.of,
            JobState::Waiting | JobState::Running | JobState::Failed => false,
        }
    }
}

/// The reason why a job is stopped before its end. If there are several reasons, the greatest one counts: a
/// shutdown does not park a job that a client has cancelled, and a client can cancel a job that is being parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The node stops. The job stays unfinished, and the next node over the database may start it again.
    Park,
    /// The job is cancelled: by a client, or by a shutdown of the node. It cannot be started again.
    Cancel,
}

impl RunningJob {
    /// Creates the handle of a job of `steps` steps. `handle` is the runtime's handle of the first step,
    /// which is submitted already.
    pub(super) fn new(
        record: JobRecord,
        request: JobRequest,
        node: &Node,
        inputs: Vec<ReadInput>,
        estimate: Option<Estimate>,
        handle: JobHandle,
        steps: u32,
    ) -> Self {
        let begun_s = handle.status().submitted_s;
        let step = Step {
            handle,
            number: 1,
            of: steps,
        };
        Self {
            shared: Arc::new(Shared {
                record,
                request,
                policy: node.policy(),
                governor: node.governor().cloned(),
                inputs,
                estimate,
                begun_s,
                state: Mutex::new(State {
                    step,
                    stop: None,
                    parked: None,
                    end_forecast: None,
                    end: None,
                    had_company: false,
                }),
                ended: Condvar::new(),
                notify: Notify::new(),
            }),
        }
    }

    /// Returns the id of the job: digits, ascending with time.
    pub fn id(&self) -> &str {
        &self.shared.record.id
    }

    /// Returns the record of the job as of its latest start.
    pub fn record(&self) -> &JobRecord {
        &self.shared.record
    }

    /// Returns the time at which the latest start of the job was recorded, in milliseconds since 1970. The
    /// first step is submitted later, after the input was split.
    pub fn begun_unix_ms(&self) -> u64 {
        self.record().begun_unix_ms()
    }

    /// Returns the time at which the first step was submitted after the latest start of the job, in seconds
    /// of the runtime's time. The goal counts from then.
    pub(crate) fn begun_s(&self) -> f64 {
        self.shared.begun_s
    }

    /// Returns the request that the job was submitted with.
    pub fn request(&self) -> &JobRequest {
        &self.shared.request
    }

    /// Returns the estimate that was made before the start, if the job has a goal.
    pub(super) fn estimate(&self) -> Option<&Estimate> {
        self.shared.estimate.as_ref()
    }

    /// Returns the job as clients see it now.
    pub fn view(&self) -> JobView {
        let (prediction, beyond_horizon) = match self.end_forecast() {
            Some(EndForecast::Within(prediction)) => (Some(prediction), None),
            Some(EndForecast::Beyond(beyond)) => (None, Some(beyond)),
            None => (None, None),
        };
        JobView {
            record: self.record().clone(),
            end: self.end().map(|end| JobEnd::clone(&end)),
            prediction,
            beyond_horizon,
            run: Some(Run {
                inputs: self.shared.inputs.clone(),
                estimate: self.estimate().cloned(),
                policy: self.shared.policy.to_string(),
                progress: self.progress(),
            }),
        }
    }

    /// Returns the progress of the job. If the job makes little progress, `waits` in the result is the
    /// reason.
    pub fn progress(&self) -> JobProgress {
        let governor = self.shared.governor.as_deref();
        let beside = governor.and_then(Beside::latest);
        self.progress_beside(self.handle().used_lately(WINDOW_S), beside.as_ref())
    }

    /// Returns the progress of the job. If the job makes little progress, `waits` in the result is the
    /// reason. It follows from `used_cores`, the cores that the job used lately, and from `beside`, the use
    /// of the cores by the load and other processes. If one of these two is `None`, so is `waits`.
    pub(super) fn progress_beside(
        &self,
        used_cores: Option<f64>,
        beside: Option<&Beside>,
    ) -> JobProgress {
        let step = self.lock().step.clone();
        let status = step.handle.status();
        let tasks = self.at_once(runnable_tasks(&status));
        let share = status.share_hundredths;
        let used = used_cores.zip(beside);
        JobProgress {
            step: step.number,
            steps: step.of,
            waits: used.and_then(|(used, beside)| Wait::now(tasks, (used, share), beside)),
            bytes: None,
            status,
        }
    }

    /// Returns the reason why the job, which has ended, took longer than its work needs, from the means of
    /// its own CPU use and of the use of the machine between its submission and its end. `None` if there is
    /// no such reason, for a job that took less than [`WINDOW_S`], and without measurements of a governor.
    pub(super) fn waited(&self, report: &JobReport) -> Option<Wait> {
        let took_s = report.finished_s - report.submitted_s;
        if took_s < WINDOW_S {
            return None;
        }
        let beside = Beside::since(self.shared.governor.as_deref()?, report.submitted_s)?;
        Wait::of(self.at_once(report.tasks), report.cpu_s / took_s, &beside)
    }

    /// Returns how many of `tasks` tasks may run at once: each takes a core, and the request may limit the
    /// cores.
    fn at_once(&self, tasks: u32) -> u32 {
        tasks.min(self.request().cores.unwrap_or(u32::MAX))
    }

    /// Returns the latest prediction of the end. `None` before the first one and after the end, and if the
    /// latest one found no end within its horizon.
    pub fn prediction(&self) -> Option<Prediction> {
        match self.end_forecast()? {
            EndForecast::Within(prediction) => Some(prediction),
            EndForecast::Beyond(_) => None,
        }
    }

    /// Returns the latest forecast of the end. `None` before the first one and after the end.
    fn end_forecast(&self) -> Option<EndForecast> {
        let state = self.lock();
        (state.end_forecast.clone()).filter(|_| state.end.is_none())
    }

    pub(crate) fn set_end_forecast(&self, end_forecast: Option<EndForecast>) {
        self.lock().end_forecast = end_forecast;
    }

    /// Waits until the job has ended, and its end is recorded, or could not be recorded: see
    /// [`JobEnd::unrecorded`]. Returns the end.
    pub fn wait(&self) -> Arc<JobEnd> {
        let state = self.lock();
        let waited = (self.shared.ended).wait_while(state, |state| state.end.is_none());
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        Arc::clone(state.end.as_ref().expect("waited for"))
    }

    /// Waits like [`wait`](Self::wait), for at most `timeout`; `None` if the job has not ended by then.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Arc<JobEnd>> {
        let state = self.lock();
        let waited =
            (self.shared.ended).wait_timeout_while(state, timeout, |state| state.end.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.end.clone()
    }

    /// Waits like [`wait`](Self::wait), but does not block a thread.
    pub async fn ended(&self) -> Arc<JobEnd> {
        loop {
            // Registered before the check, so that an end between the two is not missed.
            let mut notified = std::pin::pin!(self.shared.notify.notified());
            notified.as_mut().enable();
            if let Some(end) = self.end() {
                return end;
            }
            notified.await;
        }
    }

    /// Returns the end of the job; `None` while it runs.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.lock().end.clone()
    }

    /// Requests the cancellation of the job, also if it is being parked. Returns true if the job stops, also
    /// after an earlier request. Returns false if that is too late: the job has ended, its end is being recorded,
    /// or it commits its output and so will succeed. A chain has no output before its last step, so it is not
    /// too late while an earlier step commits, nor between two steps.
    pub fn cancel(&self) -> bool {
        self.stop(Stop::Cancel)
    }

    pub(super) fn stop(&self, how: Stop) -> bool {
        let step = {
            let mut state = self.lock();
            if state.parked.is_some() {
                return false;
            }
            state.stop = state.stop.max(Some(how));
            state.step.clone()
        };
        step.stop()
    }

    /// Decides whether the job, which no longer runs, is left for a later start, and returns the
    /// decision: the result of `parks`. The argument of `parks` is the reason why the job was to
    /// stop; `None` if it was not. From then on, requests to stop the job are refused, because the
    /// record of the job would not show them.
    pub(super) fn settle(&self, parks: impl FnOnce(Option<Stop>) -> bool) -> bool {
        let mut state = self.lock();
        let parked = parks(state.stop);
        state.parked = Some(parked);
        parked
    }

    /// Returns whether the job is left for a later start, and this is recorded or about to be.
    pub(super) fn is_parked(&self) -> bool {
        self.lock().parked == Some(true)
    }

    /// Returns the reason why the job is to stop before its end; `None` if it is not to stop.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.lock().stop
    }

    /// Records that another job, a backup or a verification runs on the node. The time that this
    /// job takes then shows nothing about its estimate.
    pub(super) fn note_company(&self) {
        self.lock().had_company = true;
    }

    /// Returns whether no other job, backup or verification of the node has run since the start of this one.
    pub(super) fn ran_alone(&self) -> bool {
        !self.lock().had_company
    }

    /// Makes this step the current one, and cancels it if the job is being stopped.
    pub(super) fn begin_step(&self, handle: JobHandle, number: u32) {
        let stopped = {
            let mut state = self.lock();
            state.step.handle = handle.clone();
            state.step.number = number;
            state.stop
        };
        // The job was stopped between two steps, when there was no handle to cancel.
        if stopped.is_some() {
            handle.cancel();
        }
    }

    /// Returns the runtime's handle of the current step: a job may be a chain of several jobs of
    /// the runtime, its steps.
    pub fn handle(&self) -> JobHandle {
        self.lock().step.handle.clone()
    }

    pub(super) fn set_end(&self, end: JobEnd) {
        self.lock().end = Some(Arc::new(end));
        self.shared.ended.notify_all();
        self.shared.notify.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

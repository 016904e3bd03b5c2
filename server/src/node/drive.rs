//! The thread that drives an open job to its end: it runs the steps of the job one after the other, then
//! records how the job ended. Each step is one job of the runtime.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use ebb_jobs::history::{
    History, HistoryError, JobRecord, KnownProfile, RecordState, Recorded, Recorder,
};
use ebb_jobs::launch::OpenJob;
use ebb_jobs::request::JobRequest;
use ebb_jobs::{Chain, Failure, JobError, Work};
use ebb_scheduler::runtime::{JobHandle, JobReport, JobSpec, Outcome, Runtime};
use serde_json::json;
use tracing::{error, info, warn};

use super::Node;
use super::expect::Prospect;
use super::registry::{JobClaim, Registry};
use super::running::{RunningJob, Stop};
use crate::jobs::{JobEnd, Wait};

/// The steps of a job, each of them one job of the runtime. Only a chain has more than one.
struct Steps {
    runtime: Arc<Runtime>,
    /// The source of the steps of a chain; `None` for a job of one step.
    chain: Option<Box<dyn Chain>>,
    /// The goal of the whole job: the time by which its last step shall have ended, in seconds of
    /// the runtime's time; `None` for a job without a goal.
    goal_s: Option<f64>,
    /// The most cores that each step, a job of the runtime, uses at a time.
    cores: u32,
    /// The measured profile (CPU time and bytes of tasks) of an earlier job with the same work, or at least
    /// with the same application; `None` if there is none.
    known: Option<KnownProfile>,
    /// The recorder of task attempts; `None` on a node without a history.
    recorder: Option<Arc<Recorder>>,
}

impl Steps {
    /// Submits the first step of `work`. The last step is to end within `goal_s` seconds of this submission.
    fn submit_first(
        runtime: Arc<Runtime>,
        work: Work,
        goal_s: Option<f64>,
        cores: u32,
        known: Option<KnownProfile>,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<(Self, JobHandle), JobError> {
        let mut steps = Self {
            goal_s: goal_s.map(|goal_s| runtime.now_s() + goal_s),
            runtime,
            chain: None,
            cores,
            known,
            recorder,
        };
        let handle = match work {
            Work::Job(spec) => steps.submit(JobSpec { goal_s, ..*spec })?,
            Work::Chain(chain) => {
                steps.chain = Some(chain);
                let first = steps.next(1, None)?;
                let none = || JobError::senseless("a chain without jobs");
                steps.submit(first.ok_or_else(none)?)?
            }
        };
        // As for a job of one step, the goal counts from behind the split of the input.
        let submitted_s = handle.status().submitted_s;
        steps.goal_s = goal_s.map(|goal_s| submitted_s + goal_s);
        Ok((steps, handle))
    }

    /// Returns the number of steps: 1, or the number of jobs in the chain.
    fn length(&self) -> u32 {
        self.chain.as_ref().map_or(1, |chain| chain.length())
    }

    /// Returns step `number`, the next job of the chain; `None` after the last one, and for a job that is no
    /// chain. `done` is the report of the step before; `None` for the first step. This step and each later
    /// one get an equal part of the time that is left until the goal.
    fn next(&mut self, number: u32, done: Option<&JobReport>) -> Result<Option<JobSpec>, JobError> {
        let Some(chain) = &mut self.chain else {
            return Ok(None);
        };
        let Some(mut spec) = chain.next(done)? else {
            return Ok(None);
        };
        if let Some(goal_s) = self.goal_s {
            let left_s = goal_s - self.runtime.now_s();
            let left_steps = f64::from(chain.length().saturating_sub(number) + 1);
            // A job that is late already gets a goal of 1 ms: as soon as possible.
            spec = spec.goal_s((left_s / left_steps).max(1e-3));
        }
        Ok(Some(spec))
    }

    fn submit(&self, mut spec: JobSpec) -> Result<JobHandle, JobError> {
        let known = self.known.as_ref();
        let measured = known.and_then(|known| known.profile.measured(&spec.name));
        spec.measured = spec.measured.or(measured);
        spec = spec.cores(self.cores);
        if let Some(recorder) = &self.recorder {
            spec.journal = Some(Arc::clone(recorder) as _);
        }
        Ok(self.runtime.submit(spec)?)
    }

    /// Waits for the end of the job's current step, then runs its later steps, one after the other, until
    /// one does not succeed or the job is stopped. Returns one report for the whole job, and whether the job
    /// is to be left for a later start: true if the runtime accepted no more jobs when a step was to begin,
    /// which is no failure of the job. False on a node without a history, where there is no later start.
    fn see_through(&mut self, job: &RunningJob) -> (JobReport, bool) {
        let mut is_refused = false;
        let mut whole = job.handle().wait();
        let mut last = whole.clone();
        for number in 2.. {
            if last.outcome != Outcome::Succeeded {
                break;
            }
            let Some(next) = self.next(number, Some(&last)).transpose() else {
                break;
            };
            if job.stopped().is_some() {
                whole.outcome = Outcome::Cancelled;
                break;
            }
            match next.and_then(|spec| self.submit(spec)) {
                Ok(handle) => job.begin_step(handle, number),
                // The job was stopped after the check above.
                Err(error) if error.is_transient() && job.stopped().is_some() => {
                    whole.outcome = Outcome::Cancelled;
                    break;
                }
                Err(error) => {
                    is_refused = error.is_transient() && self.recorder.is_some();
                    whole.disk_full = Failure::of(&error) == Failure::DiskFull;
                    let cause = format!("job {number} of the chain: {error}");
                    whole.outcome = Outcome::Failed { cause };
                    break;
                }
            }
            last = job.handle().wait();
            whole = joined(whole, &last);
        }
        if let Some(chain) = &self.chain {
            whole.name = chain.name().to_string();
            whole.goal_s = self.goal_s;
            let is_in_time = |goal_s| whole.finished_s <= goal_s;
            let succeeded = whole.outcome == Outcome::Succeeded;
            // A goal is neither met nor missed by a job that is left for a later start.
            let goal_s = self.goal_s.filter(|_| !is_refused);
            whole.met = goal_s.map(|goal_s| succeeded && is_in_time(goal_s));
        }
        (whole, is_refused)
    }
}

/// Joins the report on the steps so far with the report on the next step.
fn joined(before: JobReport, next: &JobReport) -> JobReport {
    let mut counters = before.counters;
    counters.add(&next.counters);
    // The input of the job is that of the first step. The other steps read what the step before wrote.
    counters.map_input_records = before.counters.map_input_records;
    counters.map_input_bytes = before.counters.map_input_bytes;
    // Only the last step writes the rows of the output.
    counters.output_records = next.counters.output_records;
    counters.output_bytes = next.counters.output_bytes;
    JobReport {
        finished_s: next.finished_s,
        tasks: before.tasks + next.tasks,
        cpu_s: before.cpu_s + next.cpu_s,
        counters,
        outcome: next.outcome.clone(),
        invalid_input: next.invalid_input,
        disk_full: next.disk_full,
        ..before
    }
}

/// The record of a running job in the history, and the recorder of its tasks.
struct Recording {
    history: History,
    record: JobRecord,
    recorder: Arc<Recorder>,
}

impl Recording {
    /// Waits until the attempts at tasks are written to the history, and returns a summary of them.
    /// Notes in the record how many the history lacks: those beyond its limit, and those that could
    /// not be written. A failure to write is logged and is no error of this call, because the end
    /// of the job can be recorded all the same.
    fn finish_attempts(&mut self) -> Recorded {
        let recorded = self.recorder.finish();
        self.record.attempts_dropped = recorded.attempts_dropped;
        if let Some(error) = &recorded.failure {
            let (id, dropped) = (&self.record.id, recorded.attempts_dropped);
            warn!(target: "jobs", dropped, "attempts of job {id} are not in the history: {error}");
        }
        recorded
    }

    /// Records that the job is unfinished (parked), because the node shuts down or accepts no further step
    /// of it. The next node over the database can start it again.
    ///
    /// # Errors
    /// When the history does not show that the job is parked.
    fn park(&mut self) -> Result<(), HistoryError> {
        self.finish_attempts();
        self.history.park(&self.record)
    }

    /// Records how the job ended. If it succeeded, records its profile too, for later jobs with the same
    /// work. A failure to write the profile is logged.
    ///
    /// # Errors
    /// When the history does not have the end of the job.
    fn end(
        &mut self,
        report: &JobReport,
        (waited, notes): (Option<&Wait>, &[String]),
        job: &RunningJob,
        open_job: &OpenJob,
    ) -> Result<(), HistoryError> {
        let recorded = self.finish_attempts();
        let tables = open_job.tables();
        // The commit may have created this table.
        self.record.tables.output = tables.output;
        let state = RecordState::of(&report.outcome);
        let mut kept = json!(report);
        if let Some(waited) = waited {
            kept["waited"] = json!(waited);
        }
        if !notes.is_empty() {
            kept["notes"] = json!(notes);
        }
        (self.history).end(&self.record, state, Some(kept))?;
        if state == RecordState::Succeeded {
            let took_s = report.finished_s - report.submitted_s;
            // An estimate is of a job beside which nothing else of the node runs, so the time of another one says
            // nothing about its error.
            let estimate = job.estimate().filter(|_| job.ran_alone());
            let advice = estimate.and_then(|estimate| estimate.advice.as_ref());
            let off = advice.map(|known| known.advice.took_over_estimate(took_s));
            let work = job.request().work_of(&report.name, &tables.inputs);
            let (record, input) = (&self.record, open_job.input_label());
            let measured = recorded.measured;
            let profiled = (self.history).record_profile(record, &work, &input, measured, off);
            if let Err(error) = profiled {
                let id = &self.record.id;
                warn!(target: "jobs", "the profile of job {id} is not in the history: {error}");
            }
        }
        Ok(())
    }
}

/// A job whose first step the runtime has accepted. The thread that will drive the job exists already, and
/// waits until [`begin`](Self::begin) is called.
#[must_use]
pub(super) struct AcceptedJob {
    job: RunningJob,
    steps: Steps,
    recording: Option<Recording>,
    /// The channel to the waiting thread, for the function that drives the job. If this is dropped unused,
    /// the thread ends.
    driver: SyncSender<Box<dyn FnOnce() + Send>>,
}

impl AcceptedJob {
    /// Starts the thread that will drive an open job, and submits the first step of the job.
    ///
    /// # Errors
    /// When the history cannot be opened, the system refuses a thread, or the runtime rejects the step.
    pub(super) fn submit(
        node: &Node,
        request: JobRequest,
        record: JobRecord,
        open_job: &mut OpenJob,
        prospect: Prospect,
    ) -> Result<Self, JobError> {
        let recording = match node.history()? {
            Some(history) => {
                // Before the job is submitted: the recorder is the journal of the first attempt, too.
                let recorder = Recorder::start(history, &record);
                // The outputs were opened before the job had a record.
                open_job.commits.set(history, &record);
                Some(Recording {
                    history: history.clone(),
                    record: record.clone(),
                    recorder: Arc::new(recorder.map_err(JobError::system("start a thread"))?),
                })
            }
            None => None,
        };
        let Some(work) = open_job.work.take() else {
            unreachable!("nobody has taken it yet");
        };
        // The thread starts before the job is submitted, so every submitted job has a thread that waits
        // for its end. The channel has room for the function, so `begin` does not wait for the thread.
        let (driver, work_to_drive) = sync_channel::<Box<dyn FnOnce() + Send>>(1);
        let thread = thread::Builder::new()
            .name("ebb-job".to_owned())
            .spawn(move || {
                // If the submission fails, the sender is dropped, and there is nothing to drive.
                if let Ok(drive) = work_to_drive.recv() {
                    drive();
                }
            });
        // Kept, so that a shutdown waits for it.
        (node.registry).keep(thread.map_err(JobError::system("start a thread"))?);
        let (steps, handle) = Steps::submit_first(
            Arc::clone(node.runtime()),
            work,
            request.goal_s,
            open_job.cores,
            prospect.known,
            recording.as_ref().map(|of| Arc::clone(&of.recorder)),
        )?;
        let job = RunningJob::new(
            record,
            request,
            node,
            prospect.inputs,
            prospect.estimate,
            handle,
            steps.length(),
        );
        Ok(Self {
            job,
            steps,
            recording,
            driver,
        })
    }

    /// Has the thread drive the job to its end. Until the end, the thread holds `claim`: the sole right to
    /// the job, and to its output if that is a table.
    pub(super) fn begin(
        self,
        node: &Node,
        mut open_job: OpenJob,
        claim: Arc<JobClaim>,
    ) -> RunningJob {
        open_job.delete_snapshots_at_end();
        let Self {
            job,
            steps,
            recording,
            driver,
        } = self;
        let (registry, driven) = (Arc::clone(&node.registry), job.clone());
        // Before it is driven: a short job could end first, and would then stay in the registry.
        node.registry.add(job.clone());
        let drive = move || drive(&driven, steps, open_job, recording, claim, &registry);
        let handed_over = driver.send(Box::new(drive));
        handed_over.expect("the thread waits for the job");
        job
    }
}

/// Drives a job to its end, on a thread of its own.
fn drive(
    job: &RunningJob,
    mut steps: Steps,
    mut open_job: OpenJob,
    recording: Option<Recording>,
    claim: Arc<JobClaim>,
    registry: &Registry,
) {
    let (mut report, is_refused) = steps.see_through(job);
    let parked = job.settle(|stop| match stop {
        None => is_refused,
        Some(Stop::Park) => is_refused || report.outcome == Outcome::Cancelled,
        Some(Stop::Cancel) => false,
    });
    if is_refused && !parked {
        // The job was cancelled after the runtime had refused its next step.
        report.outcome = Outcome::Cancelled;
    }
    let waited = job.waited(&report);
    let notes = open_job.commits.notes();
    let ended = match recording {
        Some(mut recording) if parked => recording.park(),
        Some(mut recording) => {
            let beside = (waited.as_ref(), &notes[..]);
            recording.end(&report, beside, job, &open_job)
        }
        None => Ok(()),
    };
    // Without a record of its end the job is unfinished, and its next start reads the same snapshots.
    if parked || ended.is_err() {
        open_job.keep();
    }
    // The job's own snapshots are deleted, and its output table is free for another job, before the end is
    // published to the clients that wait for it.
    drop((steps, open_job, claim));
    let end = JobEnd {
        report,
        parked,
        unrecorded: ended.err().map(|error| error.to_string()),
        waited,
        notes,
    };
    let word = registry.end(job.id(), &end);
    log_end(job, word, &end);
    job.set_end(end);
}

/// Logs how a job ended, as the outcome `word`. `took_s` in the line is the time since this process submitted
/// the job to its runtime: for a job that was started again, the time since the latest start.
fn log_end(job: &RunningJob, word: &str, end: &JobEnd) {
    let (id, application) = (job.id(), &job.record().application);
    let took_s = end.report.finished_s - end.report.submitted_s;
    let took_s = (took_s * 1e3).round() / 1e3;
    match &end.report.outcome {
        Outcome::Failed { cause } => {
            warn!(target: "jobs", application, took_s, cause, "job {id} {word}");
        }
        _ => info!(target: "jobs", application, took_s, "job {id} {word}"),
    }
    for note in &end.notes {
        info!(target: "jobs", application, "job {id}: {note}");
    }
    if let Some(error) = &end.unrecorded {
        error!(target: "jobs", "the end of job {id} ({word}) is not in the history: {error}");
    }
}

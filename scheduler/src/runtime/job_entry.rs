//! A job in the runtime: its tracker, the resources of its tasks, and the assignments of work that
//! workers get.

use super::error::TaskError;
use super::job::attempt_record::AttemptRecord;
use super::job::counters::Counters;
use super::job::input::Split;
use super::job::journal::{Event, JobJournal, Notification};
use super::job::partitioner::RangePartitioner;
use super::job::profile::MeasuredProfile;
use super::job::report::{JobReport, JobStatus, Outcome};
use super::job::task_context::TaskContext;
use super::pacing::attempt_state::AttemptState;
use super::pacing::pacer::Pacer;
use super::process::Pool;
use super::schedule::grant_use::GrantUse;
use super::schedule::preemption::Holder;
use super::schedule::shares::TASK_HUNDREDTHS_MAX;
use super::schedule::tracker::{Tracker, Work};
use super::shuffle::run::{Run, Segment};
use super::task::key_sample::{JobRanges, SamplePlan};
use crate::model::{JobId, TaskId, TaskKind};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// The most attempt records that a job keeps. When there are more, the oldest are dropped.
const ATTEMPTS_KEPT_MAX: usize = 10_000;

/// The part of a job that threads use without the lock of the runtime's state.
pub(super) struct JobContext {
    pub id: JobId,
    pub task: TaskContext,
    /// The input's splits, set before the first task.
    pub splits: OnceLock<Vec<Split>>,
    pub ranges: JobRanges,
    pub pacer: Arc<Pacer>,
    /// The processes that run the job's tasks; `None` for threads of this process.
    pub pool: Option<Pool>,
}

impl JobContext {
    pub fn splits(&self) -> &[Split] {
        self.splits.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the ranges of a global sort, for the attempt with this state; `find` determines them
    /// if no attempt has done so before. Returns `None` if the partitioner needs no ranges.
    ///
    /// # Errors
    /// If `find` fails, or if the attempt is stopped while another one determines the ranges.
    pub fn ranges(
        &self,
        attempt_state: &Arc<AttemptState>,
        find: impl FnOnce(SamplePlan) -> Result<RangePartitioner, TaskError>,
    ) -> Result<Option<Arc<RangePartitioner>>, TaskError> {
        let is_needed = || !attempt_state.is_stopped() && !self.pacer.is_cancelled();
        (self.ranges).get(&self.task, self.splits(), attempt_state, is_needed, find)
    }

    /// Wakes preempted attempts so that they stop, and ends idle processes.
    pub fn give_up_memory(&self) {
        self.pacer.wake();
        if let Some(pool) = &self.pool {
            pool.end();
        }
    }
}

/// The report and the records of a job that has ended, for its handle.
pub(super) struct JobEnd {
    pub report: JobReport,
    pub status: JobStatus,
    pub measured: MeasuredProfile,
    pub attempts: VecDeque<AttemptRecord>,
}

pub(super) struct JobEntry {
    pub name: String,
    pub tracker: Tracker,
    pub pacer: Arc<Pacer>,
    /// The code, input and processes for the job's tasks; `None` for a lease, under which threads
    /// of the caller work.
    pub context: Option<Arc<JobContext>>,
    pub directory: Option<TempDir>,
    /// For each map, by its number: the runs of its finished attempt, in the order of emission;
    /// empty until the map has finished.
    pub map_runs: Vec<Vec<Run>>,
    pub share_hundredths: u32,
    /// The CPU time that the job was granted lately, and how much of that time it used.
    pub grant_use: GrantUse,
    /// Time since which the job has had no share, in seconds of the runtime's time; `None` if it
    /// has one.
    pub paused_since_s: Option<f64>,
    /// The number of tasks that may run at once.
    pub concurrency: u32,
    /// True if the job failed because a disk is full.
    pub disk_full: bool,
    /// CPU time that the job used before the present control cycle, in seconds.
    pub sampled_cpu_s: f64,
    /// The latest attempts that have ended.
    pub attempts: VecDeque<AttemptRecord>,
    pub ended: Arc<OnceLock<JobEnd>>,
}

impl JobEntry {
    /// Creates an entry without the fields for tasks that workers run: `context` and `directory`
    /// are `None`, and `map_runs` is empty. A lease needs no more; the caller sets these fields for
    /// a job.
    pub fn new(name: String, tracker: Tracker, pacer: Arc<Pacer>) -> Self {
        Self {
            name,
            tracker,
            pacer,
            context: None,
            directory: None,
            map_runs: Vec::new(),
            share_hundredths: 0,
            grant_use: GrantUse::default(),
            paused_since_s: None,
            concurrency: 0,
            disk_full: false,
            sampled_cpu_s: 0.0,
            attempts: VecDeque::new(),
            ended: Arc::new(OnceLock::new()),
        }
    }

    /// Sets the share that the job may use from `now_s` on.
    pub fn set_share(&mut self, share_hundredths: u32, now_s: f64) {
        let used_cpu_s = self.pacer.used_cpu_s();
        let runnable_tasks = match self.share_hundredths {
            // The tasks of most jobs need not be counted: most jobs have no share.
            0 => 0,
            _ => (self.tracker.live()).map_or(0, |live| live.runnable_tasks()),
        };
        (self.grant_use).turn(now_s, self.share_hundredths, runnable_tasks, used_cpu_s);
        self.share_hundredths = share_hundredths;
        let since_s = self.paused_since_s.unwrap_or(now_s);
        self.paused_since_s = (share_hundredths == 0).then_some(since_s);
        self.pacer.set_share(share_hundredths);
    }

    /// Returns the most cores that the job may use, on a machine with `cores` cores.
    pub fn cores(&self, cores: u32) -> u32 {
        let context = self.context.as_ref();
        let most = context.and_then(|context| context.task.spec.cores);
        most.unwrap_or(cores).clamp(1, cores.max(1))
    }

    /// Returns the facts about the job that decide which attempts are preempted: the attempts that
    /// hold memory, and the number of tasks that wait for memory. The control cycle is `cycle_s`
    /// seconds long and starts at `now_s`. Call this function after the job has started as many
    /// tasks as the memory allowed.
    pub fn holder(&self, now_s: f64, cycle_s: f64) -> Holder {
        // `concurrency` allows one task more than the share fills; no attempt is preempted for that
        // one.
        let filled = self.share_hundredths.div_ceil(TASK_HUNDREDTHS_MAX);
        let runnable = self.tracker.live().map_or(0, |live| live.waiting_tasks());
        let is_paused = |since_s: f64| now_s - since_s >= cycle_s;
        Holder {
            job: self.tracker.job,
            has_share: self.share_hundredths > 0,
            is_paused: self.paused_since_s.is_some_and(is_paused),
            starts: filled.saturating_sub(self.tracker.running()).min(runnable),
            attempts: self.tracker.active_attempts().collect(),
        }
    }

    pub fn status(&self, finished_s: Option<f64>) -> JobStatus {
        let job = &self.tracker.job;
        let (maps_done, maps_total) = self.tracker.progress(TaskKind::Map);
        let (reduces_done, reduces_total) = self.tracker.progress(TaskKind::Reduce);
        JobStatus {
            id: job.id,
            name: self.name.clone(),
            is_lease: self.tracker.is_lease(),
            state: self.tracker.state(),
            follows: self.tracker.follows().collect(),
            submitted_s: job.submitted_s,
            goal_s: job.goal_s,
            finished_s,
            share_hundredths: if finished_s.is_some() {
                0
            } else {
                self.share_hundredths
            },
            tasks_running: self.tracker.running(),
            maps_done,
            maps_total,
            reduces_done,
            reduces_total,
            attempts_failed: self.tracker.counters().attempts_failed,
            cpu_s: self.pacer.used_cpu_s(),
            cause: self.tracker.cause().map(str::to_owned),
        }
    }

    /// Returns the report on the job, which ended at `finished_s`; `None` if it has not ended.
    pub fn report(&self, finished_s: f64) -> Option<JobReport> {
        let outcome = self.tracker.ended()?.clone();
        let job = &self.tracker.job;
        let counters = *self.tracker.counters();
        Some(JobReport {
            id: job.id,
            name: self.name.clone(),
            submitted_s: job.submitted_s,
            goal_s: job.goal_s,
            finished_s,
            met: job.met((outcome == Outcome::Succeeded).then_some(finished_s)),
            tasks: self.tracker.progress(TaskKind::Map).1
                + self.tracker.progress(TaskKind::Reduce).1,
            bytes_in: counters.map_input_bytes,
            cpu_s: self.pacer.used_cpu_s(),
            counters,
            outcome,
            invalid_input: self.tracker.has_invalid_input(),
            disk_full: self.disk_full,
        })
    }

    /// Returns the report and the records of a job that has ended; `status` is its last status.
    /// Moves the attempt records out of the entry.
    pub fn take_end(&mut self, status: &JobStatus, finished_s: f64) -> JobEnd {
        JobEnd {
            report: (self.report(finished_s)).expect("only ended jobs are taken out"),
            status: status.clone(),
            measured: self.measured(),
            attempts: std::mem::take(&mut self.attempts),
        }
    }

    /// Returns the totals over the tasks that are done, with the size of the splits.
    pub fn measured(&self) -> MeasuredProfile {
        let splits = (self.context.iter()).flat_map(|context| context.splits());
        MeasuredProfile {
            split_bytes: splits.map(|split| split.bytes).sum(),
            ..*self.tracker.measured()
        }
    }

    /// Moves the records of attempts that ended since the last call from the tracker to `attempts`,
    /// which keeps the latest [`ATTEMPTS_KEPT_MAX`]. If the job has a journal, also appends an
    /// event for each of them to `notifications`.
    pub fn record_attempts(&mut self, notifications: &mut Vec<Notification>) {
        let job = self.tracker.job.id;
        let records = self.tracker.take_records();
        if self.journal().is_some() {
            let events = records.iter().cloned();
            let events = events.map(|record| Event::AttemptEnded(job, record));
            notifications.extend(events.filter_map(|event| self.notification(event)));
        }
        self.attempts.extend(records);
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_KEPT_MAX);
        self.attempts.drain(..surplus);
    }

    /// Returns the notification for the job's journal, or `None` if it has no journal.
    pub fn notification(&self, event: Event) -> Option<Notification> {
        let journal = Arc::clone(self.journal()?);
        Some(Notification { journal, event })
    }

    fn journal(&self) -> Option<&Arc<dyn JobJournal>> {
        self.context.as_ref()?.task.spec.journal.as_ref()
    }

    /// Returns the CPU time that the job used since the last call, in seconds.
    pub fn sample(&mut self) -> f64 {
        let used_cpu_s = self.pacer.used_cpu_s();
        used_cpu_s - std::mem::replace(&mut self.sampled_cpu_s, used_cpu_s)
    }

    /// Makes an assignment of `work` for a worker thread. If `is_on_floor` is true, the thread runs
    /// a task on the floor (in the ordinary class with a high nice value), otherwise in the idle
    /// class.
    pub fn assign(&mut self, work: Work, is_on_floor: bool) -> Assignment {
        if let Work::Task { attempt_state, .. } = &work {
            attempt_state.set_on_floor(is_on_floor);
        }
        let duty = match work {
            Work::Task {
                task,
                attempt,
                attempt_state,
            } => Duty::Task {
                task,
                attempt,
                attempt_state,
                segments: match task.kind {
                    TaskKind::Map => Vec::new(),
                    TaskKind::Reduce => {
                        let partition = task.index as usize;
                        let runs = self.map_runs.iter().flatten();
                        runs.map(|run| run.segments[partition].clone()).collect()
                    }
                },
            },
            Work::Split => Duty::Split,
            Work::Commit => Duty::Commit,
            Work::Abort => Duty::Abort,
        };
        let directory = match duty {
            Duty::Task { .. } | Duty::Split => None,
            Duty::Commit | Duty::Abort => self.directory.take(),
        };
        let context = self.context.as_ref();
        Assignment {
            context: Arc::clone(context.expect("a lease has nothing to hand out")),
            duty,
            is_on_floor,
            directory,
        }
    }
}

/// A piece of work for a worker.
pub(super) struct Assignment {
    pub context: Arc<JobContext>,
    pub duty: Duty,
    /// True if a task is for a thread on the floor (the ordinary class, with a high nice value),
    /// not in the idle class. Commits ignore this: their threads are ordinary ones.
    pub is_on_floor: bool,
    /// For a commit or an abort: the job's spill directory, which is removed first, because no task
    /// reads it any more. `None` for all other work.
    pub directory: Option<TempDir>,
}

pub(super) enum Duty {
    Task {
        task: TaskId,
        attempt: u32,
        attempt_state: Arc<AttemptState>,
        /// Input of a reduce.
        segments: Vec<Segment>,
    },
    Split,
    Commit,
    Abort,
}

/// The result of work that a worker has carried out with success: the counters and output runs of a
/// task; empty after a computation of splits, a commit or an abort.
#[derive(Default)]
pub(super) struct DutyResult {
    pub counters: Counters,
    /// Output of a map, in a job with reduces.
    pub runs: Vec<Run>,
}

//! The life of one job, as a state machine without threads, files or clock.
//!
//! ```text
//!   tasks: maps, then reduces ──all done──> committing ──ok──> ended
//!     │  (retries)                              │
//!     └── last attempt failed, or cancelled ──> stopping ─────> ended
//! ```
//!
//! The tasks of a *lease* are threads of the caller: see `lease`.
//!
//! A job that follows others has two stages before these: see `following`.
//!
//! Workers claim [`Work`] and report back. A task may have two attempts at a time, the second by
//! speculation because the first is slow. Guarantees:
//!
//! - Only one attempt at a task may finish the output ([`Tracker::may_finish`]), and only one is
//!   counted ([`Tracker::task_done`]): the first.
//! - An attempt that was given up ([`Tracker::watch`]) is removed: its later reports have no
//!   effect.
//! - An attempt that is preempted ([`Tracker::preempt`]) runs until it notices. Only then its task
//!   is pending again; if the attempt is done before, its result counts.
//! - Stopping waits for the running attempts that were not given up, so that none uses the job's
//!   files when they are removed.

use super::task_set::{ActiveAttempt, RunningAttempt, TaskSet};
use crate::model::{Job, JobId, TaskId, TaskKind, TaskState};
use crate::runtime::error::TaskError;
use crate::runtime::job::attempt_record::{AttemptOutcome, AttemptRecord};
use crate::runtime::job::counters::Counters;
use crate::runtime::job::profile::JobProfile;
use crate::runtime::job::profile::MeasuredProfile;
use crate::runtime::job::report::{Outcome, short_cause};
use crate::runtime::pacing::attempt_state::AttemptState;
use std::collections::BTreeSet;
use std::sync::Arc;

mod following;
mod lease;
mod look;

/// A job fails once this many attempts at one of its tasks have failed; 4 is usual in MapReduce
/// systems.
pub const ATTEMPTS_MAX: u32 = 4;

/// A job fails once this many of its attempts, at whichever tasks, were given up because they made
/// no progress: its code hangs.
const LEFT_BEHIND_MAX: u32 = ATTEMPTS_MAX;

/// A piece of work for a worker.
#[derive(Debug)]
pub(in crate::runtime) enum Work {
    Task {
        task: TaskId,
        /// The attempt's number, from 1.
        attempt: u32,
        attempt_state: Arc<AttemptState>,
    },
    /// The splitting of the input, which is the output of the jobs that this one followed.
    Split,
    Commit,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Following,
    Splitting { claimed: bool },
    Tasks,
    Committing { claimed: bool },
    Stopping { claimed: bool },
    Ended,
}

#[derive(Debug)]
pub(in crate::runtime) struct Tracker {
    pub job: Job,
    maps: TaskSet,
    reduces: TaskSet,
    stage: Stage,
    /// Jobs that must succeed before this one starts, and that have not ended.
    follows: BTreeSet<JobId>,
    /// True while a worker splits the input.
    is_splitting: bool,
    outcome: Option<Outcome>,
    /// True if the job failed because of a record without the required form.
    invalid_input: bool,
    counters: Counters,
    /// Time of the last call of `watch`, in seconds of the runtime's time.
    watched_s: f64,
    left_behind: u32,
    /// Attempts that ended since the last call of `take_records`.
    records: Vec<AttemptRecord>,
    measured: MeasuredProfile,
    /// Set if this is no job but a lease: a share of CPU for threads of the runtime's user.
    lease: Option<lease::Lease>,
}

/// The effect of an attempt's success on its task and job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct TaskDone {
    /// True if the attempt was the first to succeed at its task: its result counts.
    pub won: bool,
    /// True if the attempt's task was the last one of its kind, so that the job's map or reduce
    /// phase ended.
    pub phase_ended: bool,
    /// True if the success stopped another attempt at the same task.
    pub stopped_others: bool,
}

impl Tracker {
    pub fn new(job: Job, maps: u32, reduces: u32, profile: &JobProfile) -> Self {
        let mut tracker = Self {
            watched_s: job.submitted_s,
            left_behind: 0,
            records: Vec::new(),
            measured: MeasuredProfile::default(),
            job,
            maps: TaskSet::new(maps, profile.map_task_cpu_s),
            reduces: TaskSet::new(reduces, profile.reduce_task_cpu_s),
            stage: Stage::Tasks,
            follows: BTreeSet::new(),
            is_splitting: false,
            outcome: None,
            invalid_input: false,
            counters: Counters::default(),
            lease: None,
        };
        tracker.commit_when_done();
        tracker
    }

    /// Returns the next work of this job for a worker: to run a task, split the input, commit or
    /// abort. A task is started only if `may_start` is true, because it needs a share of the CPU;
    /// the other work needs none. `None` if there is no work now, and for a lease.
    pub fn claim(&mut self, may_start: bool, now_s: f64) -> Option<Work> {
        match self.stage {
            _ if self.is_lease() => None,
            Stage::Tasks if may_start => {
                let kind = self.kind();
                let started = self.set(kind).start(now_s)?;
                Some(self.work(kind, started))
            }
            Stage::Splitting { claimed: false } => {
                self.stage = Stage::Splitting { claimed: true };
                self.is_splitting = true;
                Some(Work::Split)
            }
            Stage::Committing { claimed: false } => {
                self.stage = Stage::Committing { claimed: true };
                Some(Work::Commit)
            }
            Stage::Stopping { claimed: false } if self.running() == 0 && !self.is_splitting => {
                self.stage = Stage::Stopping { claimed: true };
                Some(Work::Abort)
            }
            _ => None,
        }
    }

    /// Starts a second attempt at a slow task, if there is one.
    pub fn claim_speculative(&mut self, now_s: f64) -> Option<Work> {
        if self.stage != Stage::Tasks {
            return None;
        }
        let kind = self.kind();
        let started = self.set(kind).start_speculative(now_s)?;
        self.counters.speculative_attempts += 1;
        Some(self.work(kind, started))
    }

    fn work(
        &self,
        kind: TaskKind,
        (index, attempt, attempt_state): (u32, u32, Arc<AttemptState>),
    ) -> Work {
        let job = self.job.id;
        Work::Task {
            task: TaskId { job, kind, index },
            attempt,
            attempt_state,
        }
    }

    /// Returns whether the attempt may make its output final now; stops the attempt if not. At most
    /// one attempt at a task gets this permission, until that attempt fails.
    pub fn may_finish(&mut self, task: TaskId, attempt: u32) -> bool {
        let is_stopping = self.stage != Stage::Tasks;
        let set = self.set(task.kind);
        let runs = set.is_running(task.index, attempt);
        let slot = &mut set.slots[task.index as usize];
        let may = runs
            && !is_stopping
            && slot.state == TaskState::Running
            && slot.finishing.is_none_or(|finishing| finishing == attempt);
        if may {
            slot.finishing = Some(attempt);
        } else {
            // Another attempt finishes the task, or this attempt is too late.
            set.stop_attempt(task.index, attempt);
        }
        may
    }

    /// Records an attempt that succeeded. Its result counts if it is the first to succeed at its
    /// task, and was not given up.
    pub fn task_done(
        &mut self,
        task: TaskId,
        attempt: u32,
        counted: &Counters,
        now_s: f64,
    ) -> TaskDone {
        let set = self.set(task.kind);
        let Some(winner) = set.stop(task.index, attempt) else {
            return TaskDone::default();
        };
        if set.slots[task.index as usize].state != TaskState::Running {
            let stopped = AttemptOutcome::Stopped;
            self.record((task, attempt), &winner, now_s, None, stopped);
            return TaskDone::default();
        }
        let stopped_others = set.win(task.index, &winner, now_s);
        let phase_ended = set.is_done();
        let done = AttemptOutcome::Done;
        self.record((task, attempt), &winner, now_s, Some(counted), done);
        self.counters.add(counted);
        self.counters.tasks_done += 1;
        self.commit_when_done();
        TaskDone {
            won: true,
            phase_ended,
            stopped_others,
        }
    }

    /// Records an attempt that ended with an error, or is given up. It counts as a failure unless
    /// the attempt or the job was stopped before. After a failure another attempt follows, unless
    /// too many attempts at the task have failed or every attempt would fail in this way: then the
    /// job fails. Returns whether this attempt makes the job fail.
    pub fn task_failed(
        &mut self,
        task: TaskId,
        attempt: u32,
        error: &TaskError,
        now_s: f64,
    ) -> bool {
        let is_stopping = self.stage != Stage::Tasks;
        let set = self.set(task.kind);
        let Some(ended) = set.stop(task.index, attempt) else {
            return false;
        };
        // An attempt that was stopped has not failed.
        let failed = !is_stopping && !ended.state.is_stopped();
        let outcome = match error {
            TaskError::Stalled { .. } => AttemptOutcome::LeftBehind,
            error if failed => AttemptOutcome::Failed {
                cause: short_cause(error.to_string()),
            },
            _ if ended.is_preempted => AttemptOutcome::Preempted,
            _ => AttemptOutcome::Stopped,
        };
        self.record((task, attempt), &ended, now_s, None, outcome);
        let set = self.set(task.kind);
        let slot = &mut set.slots[task.index as usize];
        slot.failures += u32::from(failed);
        if (slot.failures >= ATTEMPTS_MAX || error.is_final()) && failed {
            slot.state = TaskState::Failed;
            self.counters.attempts_failed += 1;
            self.invalid_input = matches!(error, TaskError::Invalid(_));
            self.stop(Outcome::Failed {
                cause: format!("{task}, attempt {attempt}: {error}"),
            });
            return true;
        }
        let is_back = set.put_back(task.index);
        self.counters.attempts_failed += u64::from(failed);
        self.counters.tasks_retried += u64::from(failed && is_back);
        false
    }

    /// Stops an attempt so that others can have its memory. This counts as no failure. Returns
    /// false if no memory can be freed this way: the attempt has ended, will end soon, or finishes
    /// its output.
    pub fn preempt(&mut self, task: TaskId, attempt: u32) -> bool {
        self.stage == Stage::Tasks && self.set(task.kind).preempt(task.index, attempt)
    }

    /// Chooses a task that gets a second attempt on the floor (in the ordinary class with a high
    /// nice value), because its attempts are stuck in the idle class beside busy processes. This
    /// replaces the slow task that [`watch`](Self::watch) chose. Threads that `can_move` to the
    /// floor need no second attempt. Threads under a lease get none: their work is the caller's and
    /// cannot be tried again.
    pub fn seek_starved(&mut self, can_move: bool) {
        if !self.is_lease() {
            self.maps.seek_starved(can_move);
            self.reduces.seek_starved(can_move);
        }
    }

    /// Stops the attempt in the idle class at the straggler, the task that should get a second
    /// attempt, so that an attempt on the floor (in the ordinary class with a high nice value) can
    /// have its memory. Returns false if no memory can be freed this way.
    pub fn preempt_straggler(&mut self) -> bool {
        let kind = self.kind();
        self.stage == Stage::Tasks && self.set(kind).preempt_straggler()
    }

    /// Returns the running attempts that preemption has to consider: those that were not stopped.
    /// There are none if the job stops, or for a lease, whose work cannot be tried again.
    pub fn active_attempts(&self) -> impl Iterator<Item = (TaskKind, ActiveAttempt)> {
        let of = |set, kind| TaskSet::active_attempts(set).map(move |attempt| (kind, attempt));
        let all = of(&self.maps, TaskKind::Map).chain(of(&self.reduces, TaskKind::Reduce));
        all.filter(|_| self.stage == Stage::Tasks && !self.is_lease())
    }

    /// Checks all attempts. `could_run` is true if the job had a share since the last check. Gives
    /// up the attempts that made no progress during `stall_s` seconds in which the job could run.
    /// Counts them as failed, and returns them. If too many attempts of the job were given up, the
    /// job fails. The attempts of a job that stops can always run, because nothing makes them wait.
    /// Gives up no thread of a lease.
    pub fn watch(&mut self, now_s: f64, could_run: bool, stall_s: f64) -> Vec<Arc<AttemptState>> {
        let elapsed_s = now_s - std::mem::replace(&mut self.watched_s, now_s);
        if let Some(lease) = &mut self.lease {
            // Threads of the caller cannot be given up, nor can their work be tried again.
            lease.start_cycle(self.maps.running(), now_s);
            return Vec::new();
        }
        let could_run = could_run || self.stage != Stage::Tasks;
        let mut given_up = Vec::new();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            let stalled = (self.set(kind)).watch((now_s, elapsed_s), could_run, stall_s);
            for (index, attempt) in stalled {
                let job = self.job.id;
                let task = TaskId { job, kind, index };
                given_up.extend(self.give_up(task, attempt, now_s, stall_s));
            }
        }
        given_up
    }

    fn give_up(
        &mut self,
        task: TaskId,
        attempt: u32,
        now_s: f64,
        stall_s: f64,
    ) -> Option<Arc<AttemptState>> {
        let attempt_state = self.set(task.kind).attempt_state(task.index, attempt)?;
        let error = TaskError::Stalled { for_s: stall_s };
        self.task_failed(task, attempt, &error, now_s);
        self.left_behind += 1;
        if self.left_behind >= LEFT_BEHIND_MAX && self.stage == Stage::Tasks {
            let n = self.left_behind;
            self.stop(Outcome::Failed {
                cause: format!("{task}, attempt {attempt}: {error}, as {n} of this job in all"),
            });
        }
        Some(attempt_state)
    }

    /// Records an attempt that ended, with its counters if it succeeded.
    fn record(
        &mut self,
        (task, attempt): (TaskId, u32),
        ended: &RunningAttempt,
        now_s: f64,
        counted: Option<&Counters>,
        outcome: AttemptOutcome,
    ) {
        let counted = counted.copied().unwrap_or_default();
        let (bytes_in, bytes_out) = match task.kind {
            TaskKind::Map => (
                counted.map_input_bytes,
                counted.map_output_bytes + counted.output_bytes,
            ),
            TaskKind::Reduce => (counted.reduce_input_bytes, counted.output_bytes),
        };
        let record = AttemptRecord {
            kind: task.kind,
            index: task.index,
            attempt,
            started_s: ended.started_s,
            ended_s: now_s,
            cpu_s: ended.state.used_s(),
            shuffle_cpu_s: counted.shuffle_cpu_ns as f64 / 1e9,
            bytes_in,
            bytes_out,
            spilled_bytes: counted.spilled_bytes,
            memory_bytes_max: counted.memory_bytes_max,
            outcome,
        };
        self.measured.add(&record);
        self.records.push(record);
    }

    /// Returns the attempts that ended since the last call, in the order of their ends.
    pub fn take_records(&mut self) -> Vec<AttemptRecord> {
        std::mem::take(&mut self.records)
    }

    /// Returns what the finished tasks used and processed (CPU time, bytes, memory), as totals and
    /// maxima over the maps and over the reduces. The size of the input, `split_bytes`, is not set.
    pub fn measured(&self) -> &MeasuredProfile {
        &self.measured
    }

    /// Returns the attempts that still run. There may be some after the job has succeeded: it does
    /// not wait for attempts that another attempt at the same task made superfluous.
    pub fn attempt_states(&self) -> impl Iterator<Item = &Arc<AttemptState>> {
        self.maps
            .attempt_states()
            .chain(self.reduces.attempt_states())
    }

    /// Records the result of the commit. A failed commit leads to an abort.
    pub fn commit_done(&mut self, result: Result<(), TaskError>) {
        match result {
            Ok(()) => {
                self.stage = Stage::Ended;
                self.outcome = Some(Outcome::Succeeded);
            }
            Err(error) => {
                self.invalid_input = matches!(error, TaskError::Invalid(_));
                self.stop(Outcome::Failed {
                    cause: format!("committing the output: {error}"),
                });
            }
        }
    }

    pub fn abort_done(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Cancels the job. Returns false, without any effect, if a worker commits it, or it stops
    /// already or has ended.
    pub fn cancel(&mut self) -> bool {
        self.end_early(Outcome::Cancelled)
    }

    /// Stops the job as failed. Returns false, without any effect, if a worker commits it, or it
    /// stops already or has ended.
    pub fn fail(&mut self, cause: String) -> bool {
        self.end_early(Outcome::Failed { cause })
    }

    fn end_early(&mut self, outcome: Outcome) -> bool {
        let in_time = matches!(
            self.stage,
            Stage::Following
                | Stage::Splitting { .. }
                | Stage::Tasks
                | Stage::Committing { claimed: false }
        );
        if in_time {
            self.stop(outcome);
        }
        in_time
    }

    /// Returns the kind of task that runs at present.
    fn kind(&self) -> TaskKind {
        if self.maps.is_done() {
            TaskKind::Reduce
        } else {
            TaskKind::Map
        }
    }

    fn commit_when_done(&mut self) {
        if self.stage == Stage::Tasks && self.maps.is_done() && self.reduces.is_done() {
            self.stage = Stage::Committing { claimed: false };
        }
    }

    fn stop(&mut self, outcome: Outcome) {
        self.stage = Stage::Stopping { claimed: false };
        self.outcome = Some(match outcome {
            Outcome::Failed { cause } => Outcome::Failed {
                cause: short_cause(cause),
            },
            other => other,
        });
    }

    fn set(&mut self, kind: TaskKind) -> &mut TaskSet {
        match kind {
            TaskKind::Map => &mut self.maps,
            TaskKind::Reduce => &mut self.reduces,
        }
    }
}

#[cfg(test)]
mod tests;

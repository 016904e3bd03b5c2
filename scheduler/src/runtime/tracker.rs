//! The life of one job, as a state machine without threads, files or clock.
//!
//! ```text
//!   tasks: maps, then reduces ──all done──> committing ──ok──> ended
//!     │  (retries)                              │
//!     └── last attempt failed, or cancelled ──> stopping ─────> ended
//! ```
//!
//! Workers claim [`Work`] and report back. Stopping waits for running tasks, so
//! that nothing uses the job's files when they are cleared away.

use super::counters::Counters;
use super::error::TaskError;
use super::live_view::LiveJob;
use super::report::{JobState, Outcome};
use super::spec::JobProfile;
use crate::model::{Job, TaskId, TaskKind, TaskState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Attempts at a task before its job fails; the field's usual number.
pub const ATTEMPTS_MAX: u32 = 4;

/// The least a task is believed to take, in seconds of CPU: tasks whose CPU
/// time rounds to nothing still are work.
const TASK_CPU_S_MIN: f64 = 1e-6;

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Work {
    Task {
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// Where the attempt accounts for its CPU time, in nanoseconds.
        used_ns: Arc<AtomicU64>,
    },
    Commit,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Tasks,
    Committing { claimed: bool },
    Stopping { claimed: bool },
    Ended,
}

#[derive(Debug)]
struct Slot {
    state: TaskState,
    attempts: u32,
}

/// The tasks of one kind.
#[derive(Debug)]
struct TaskSet {
    slots: Vec<Slot>,
    pending: VecDeque<u32>,
    running: BTreeMap<u32, Arc<AtomicU64>>,
    done: u32,
    done_cpu_s: f64,
    estimate_cpu_s: f64,
}

impl TaskSet {
    fn new(n: u32, estimate_cpu_s: f64) -> Self {
        Self {
            slots: (0..n)
                .map(|_| Slot {
                    state: TaskState::Pending,
                    attempts: 0,
                })
                .collect(),
            pending: (0..n).collect(),
            running: BTreeMap::new(),
            done: 0,
            done_cpu_s: 0.0,
            estimate_cpu_s,
        }
    }

    fn total(&self) -> u32 {
        self.slots.len() as u32
    }

    fn is_done(&self) -> bool {
        self.done == self.total()
    }

    fn running_cpu_s(&self) -> impl Iterator<Item = f64> {
        self.running
            .values()
            .map(|used_ns| used_ns.load(Ordering::Relaxed) as f64 / 1e9)
    }

    /// The observed mean; before a task has finished, the estimate or what the
    /// longest running task has already shown to be too little.
    fn mean_cpu_s(&self) -> f64 {
        let mean = if self.done > 0 {
            self.done_cpu_s / f64::from(self.done)
        } else {
            self.running_cpu_s().fold(self.estimate_cpu_s, f64::max)
        };
        mean.max(TASK_CPU_S_MIN)
    }

    fn start(&mut self) -> Option<(u32, u32, Arc<AtomicU64>)> {
        let index = self.pending.pop_front()?;
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.state, TaskState::Pending);
        slot.state = TaskState::Running;
        slot.attempts += 1;
        let used_ns = Arc::new(AtomicU64::new(0));
        self.running.insert(index, Arc::clone(&used_ns));
        Some((index, slot.attempts, used_ns))
    }

    fn stop(&mut self, index: u32, state: TaskState) -> f64 {
        let used_ns = self.running.remove(&index).expect("an attempt ends once");
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.state, TaskState::Running);
        slot.state = state;
        used_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

#[derive(Debug)]
pub(super) struct Tracker {
    pub job: Job,
    maps: TaskSet,
    reduces: TaskSet,
    stage: Stage,
    outcome: Option<Outcome>,
    counters: Counters,
}

impl Tracker {
    pub fn new(job: Job, maps: u32, reduces: u32, profile: &JobProfile) -> Self {
        let mut tracker = Self {
            job,
            maps: TaskSet::new(maps, profile.map_task_cpu_s),
            reduces: TaskSet::new(reduces, profile.reduce_task_cpu_s),
            stage: Stage::Tasks,
            outcome: None,
            counters: Counters::default(),
        };
        tracker.commit_when_done();
        tracker
    }

    /// The next thing to do for this job. A task only if `may_start`; to commit
    /// or to clear away needs no share.
    pub fn claim(&mut self, may_start: bool) -> Option<Work> {
        match self.stage {
            Stage::Tasks if may_start => {
                let kind = if self.maps.is_done() {
                    TaskKind::Reduce
                } else {
                    TaskKind::Map
                };
                let (index, attempt, used_ns) = self.set(kind).start()?;
                let task = TaskId {
                    job: self.job.id,
                    kind,
                    index,
                };
                Some(Work::Task {
                    task,
                    attempt,
                    used_ns,
                })
            }
            Stage::Committing { claimed: false } => {
                self.stage = Stage::Committing { claimed: true };
                Some(Work::Commit)
            }
            Stage::Stopping { claimed: false } if self.running() == 0 => {
                self.stage = Stage::Stopping { claimed: true };
                Some(Work::Abort)
            }
            _ => None,
        }
    }

    /// An attempt finished well. True when a phase of the job ended with it.
    pub fn task_done(&mut self, task: TaskId, counted: &Counters) -> bool {
        let set = self.set(task.kind);
        let cpu_s = set.stop(task.index, TaskState::Done);
        set.done += 1;
        set.done_cpu_s += cpu_s;
        let phase_ended = set.is_done();
        self.counters.add(counted);
        self.counters.tasks_done += 1;
        self.commit_when_done();
        phase_ended
    }

    /// An attempt failed: another follows, or the job fails. True when it does.
    pub fn task_failed(&mut self, task: TaskId, error: &TaskError) -> bool {
        let stopping = self.stage != Stage::Tasks;
        let set = self.set(task.kind);
        if stopping {
            set.stop(task.index, TaskState::Pending);
            return false;
        }
        let attempts = set.slots[task.index as usize].attempts;
        let is_last = attempts >= ATTEMPTS_MAX;
        set.stop(
            task.index,
            if is_last {
                TaskState::Failed
            } else {
                TaskState::Pending
            },
        );
        if !is_last {
            set.pending.push_back(task.index);
        }
        self.counters.attempts_failed += 1;
        if is_last {
            self.stop(Outcome::Failed {
                cause: format!("{task}, attempt {attempts}: {error}"),
            });
        } else {
            self.counters.tasks_retried += 1;
        }
        is_last
    }

    /// The commit came back. A failed one leads to an abort.
    pub fn commit_done(&mut self, result: Result<(), TaskError>) {
        match result {
            Ok(()) => {
                self.stage = Stage::Ended;
                self.outcome = Some(Outcome::Succeeded);
            }
            Err(error) => self.stop(Outcome::Failed {
                cause: format!("committing the output: {error}"),
            }),
        }
    }

    pub fn abort_done(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Stops the job unless it is past that. True when it was not.
    pub fn cancel(&mut self) -> bool {
        self.end_early(Outcome::Cancelled)
    }

    /// Stops the job as failed unless it is past that. True when it was not.
    pub fn fail(&mut self, cause: String) -> bool {
        self.end_early(Outcome::Failed { cause })
    }

    fn end_early(&mut self, outcome: Outcome) -> bool {
        let in_time = matches!(
            self.stage,
            Stage::Tasks | Stage::Committing { claimed: false }
        );
        if in_time {
            self.stop(outcome);
        }
        in_time
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|_| self.stage == Stage::Ended)
    }

    /// Why it failed or is about to.
    pub fn cause(&self) -> Option<&str> {
        match &self.outcome {
            Some(Outcome::Failed { cause }) => Some(cause),
            _ => None,
        }
    }

    pub fn state(&self) -> JobState {
        let started = self.running() > 0 || self.maps.slots.iter().any(|slot| slot.attempts > 0);
        match (self.stage, &self.outcome) {
            (Stage::Tasks, _) if started => JobState::Running,
            (Stage::Tasks, _) => JobState::Waiting,
            (Stage::Committing { .. }, _) => JobState::Committing,
            (Stage::Stopping { .. }, _) => JobState::Stopping,
            (Stage::Ended, Some(Outcome::Succeeded)) => JobState::Succeeded,
            (Stage::Ended, Some(Outcome::Cancelled)) => JobState::Cancelled,
            (Stage::Ended, _) => JobState::Failed,
        }
    }

    pub fn running(&self) -> u32 {
        (self.maps.running.len() + self.reduces.running.len()) as u32
    }

    /// Tasks done and in all.
    pub fn progress(&self, kind: TaskKind) -> (u32, u32) {
        let set = match kind {
            TaskKind::Map => &self.maps,
            TaskKind::Reduce => &self.reduces,
        };
        (set.done, set.total())
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For the policy's view; `None` when no more tasks will start.
    pub fn live(&self) -> Option<LiveJob> {
        let running = |set: &TaskSet, kind| {
            set.running_cpu_s()
                .map(|used_s| (kind, used_s))
                .collect::<Vec<_>>()
        };
        (self.stage == Stage::Tasks).then(|| LiveJob {
            job: self.job,
            pending_maps: self.maps.pending.len() as u32,
            pending_reduces: self.reduces.pending.len() as u32,
            done_maps: self.maps.done,
            running: [
                running(&self.maps, TaskKind::Map),
                running(&self.reduces, TaskKind::Reduce),
            ]
            .concat(),
            map_cpu_s: self.maps.mean_cpu_s(),
            reduce_cpu_s: self.reduces.mean_cpu_s(),
        })
    }

    fn commit_when_done(&mut self) {
        if self.stage == Stage::Tasks && self.maps.is_done() && self.reduces.is_done() {
            self.stage = Stage::Committing { claimed: false };
        }
    }

    fn stop(&mut self, outcome: Outcome) {
        self.stage = Stage::Stopping { claimed: false };
        self.outcome = Some(outcome);
    }

    fn set(&mut self, kind: TaskKind) -> &mut TaskSet {
        match kind {
            TaskKind::Map => &mut self.maps,
            TaskKind::Reduce => &mut self.reduces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobId;

    fn tracker(maps: u32, reduces: u32) -> Tracker {
        let job = Job::new(JobId(1), 0.0, None);
        Tracker::new(job, maps, reduces, &JobProfile::default())
    }

    fn claim_task(tracker: &mut Tracker) -> TaskId {
        match tracker.claim(true) {
            Some(Work::Task { task, .. }) => task,
            other => panic!("a task expected, got {other:?}"),
        }
    }

    #[test]
    fn reduces_start_after_the_last_map_and_the_commit_after_the_last_reduce() {
        let mut tracker = tracker(2, 1);
        assert!(tracker.claim(false).is_none());
        let (first, second) = (claim_task(&mut tracker), claim_task(&mut tracker));
        assert!(tracker.claim(true).is_none());
        assert!(!tracker.task_done(first, &Counters::default()));
        assert!(tracker.claim(true).is_none(), "a map still runs");
        assert!(tracker.task_done(second, &Counters::default()));
        let reduce = claim_task(&mut tracker);
        assert_eq!(reduce.kind, TaskKind::Reduce);
        assert!(tracker.task_done(reduce, &Counters::default()));
        assert!(matches!(tracker.claim(false), Some(Work::Commit)));
        assert!(tracker.claim(true).is_none());
        assert!(!tracker.cancel(), "too late");
        tracker.commit_done(Ok(()));
        assert_eq!(tracker.ended(), Some(&Outcome::Succeeded));
    }

    #[test]
    fn the_fourth_failure_stops_the_job_once_its_other_tasks_have_ended() {
        let mut tracker = tracker(2, 0);
        let other = claim_task(&mut tracker);
        for attempt in 1..=ATTEMPTS_MAX {
            let task = claim_task(&mut tracker);
            assert_eq!(task.index, 1);
            let stopped = tracker.task_failed(task, &TaskError::failed("no"));
            assert_eq!(stopped, attempt == ATTEMPTS_MAX);
        }
        assert!(tracker.claim(true).is_none(), "the other task still runs");
        assert_eq!(tracker.state(), JobState::Stopping);
        tracker.task_failed(other, &TaskError::Cancelled);
        assert!(matches!(tracker.claim(false), Some(Work::Abort)));
        tracker.abort_done();
        assert_eq!(tracker.cause(), Some("job-1/map-1, attempt 4: no"));
        assert_eq!(tracker.counters().attempts_failed, 4);
        assert_eq!(tracker.counters().tasks_retried, 3);
    }

    #[test]
    fn a_failed_commit_is_aborted() {
        let mut tracker = tracker(0, 0);
        assert!(matches!(tracker.claim(false), Some(Work::Commit)));
        tracker.commit_done(Err(TaskError::failed("disk full")));
        assert!(matches!(tracker.claim(false), Some(Work::Abort)));
        tracker.abort_done();
        assert_eq!(tracker.state(), JobState::Failed);
    }

    #[test]
    fn an_estimate_gives_way_to_what_running_and_finished_tasks_show() {
        let mut tracker = tracker(3, 0);
        assert_eq!(tracker.live().unwrap().map_cpu_s, 1.0);
        let Some(Work::Task { task, used_ns, .. }) = tracker.claim(true) else {
            panic!()
        };
        used_ns.store(5_000_000_000, Ordering::Relaxed);
        assert_eq!(tracker.live().unwrap().map_cpu_s, 5.0);
        used_ns.store(6_000_000_000, Ordering::Relaxed);
        tracker.task_done(task, &Counters::default());
        let live = tracker.live().unwrap();
        assert_eq!((live.map_cpu_s, live.pending_maps), (6.0, 2));
    }
}

//! The input of a policy: an immutable picture of the cluster at one instant.
//!
//! The simulator keeps one view and changes it as tasks come and go; the live runtime builds one in
//! each control cycle. A policy keeps no state from one cycle to the next (how long a job has
//! waited for a local slot): it returns this state, a [`Wait`], with its decision and reads it here
//! in the next cycle.

use crate::availability::Availability;
use crate::model::{
    Job, JobId, Node, NodeId, PendingSplits, Phase, Pool, Profile, TaskKind, expected_remaining_s,
};
use crate::ordered_f64::OrderedF64;
use serde::Deserialize;
use std::sync::Arc;

/// The effect of a new placement on tasks that already run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// No effect on running tasks: a task without a slot in the placement runs to its end, and its
    /// slot drains. The TaskTrackers of the thesis work this way, and so does the simulator by
    /// default.
    Never,
    /// A new placement slows running tasks down or pauses them in each cycle: a slot is a share of
    /// a core, which pacing enforces. Used by the live runtime.
    EveryCycle,
}

/// The time from which reduce tasks may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReduceStart {
    /// Reduces start as soon as there is room for them, so that their shuffle overlaps the maps
    /// (section 4.2.4 of the thesis). They are placed before maps; missing reduce slots lower a
    /// job's utility.
    Overlapped,
    /// Reduces start once the job's maps are all done. Until then their work counts as further maps
    /// of the job; after that they get slots by utility as maps do. Used by the live runtime; an
    /// extension of the thesis.
    AfterMaps,
}

/// A task that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningTask {
    /// The task's number among the job's tasks of its kind.
    pub index: u32,
    /// The node that runs the task.
    pub node: NodeId,
    /// The phase that the task is in.
    pub phase: Phase,
    /// Start of the current phase, in seconds. If the task was slowed down, this is later than the
    /// real start: the time at which a task at full speed would have had to start to get equally
    /// far.
    pub since_s: f64,
}

/// The default number of times that a job may decline a slot for a task, to wait for a slot near
/// its input: the larger of the two values of the thesis. Under
/// [`ForecastEdf`](super::ForecastEdf), the number of cycles in a row that maps may wait.
pub const DELAYS_MAX: u32 = 3;

/// How long a job has been waiting for a slot on a node with its input.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Wait {
    /// Under policies that offer slots to jobs, the number of slots that the job has declined since
    /// it last started a map (under [`Delay`](super::Delay): a local map). Under other policies, the
    /// number of cycles in a row in which some of its maps waited for nodes with their input.
    pub skips: u32,
    /// Time at which the job first declined a slot since it last started a local task, in seconds;
    /// `None` if it has declined none. Only [`Delay`](super::Delay) uses it.
    pub since_s: Option<f64>,
}

/// One unfinished job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Id, submission, goal and weight.
    pub job: Job,
    /// Number of maps that neither run nor are done.
    pub pending_maps: u32,
    /// Number of reduces that neither run nor are done.
    pub pending_reduces: u32,
    /// Number of finished maps.
    pub done_maps: u32,
    /// Tasks that hold a slot.
    pub running: Vec<RunningTask>,
    /// Demand and mean length of the job's tasks: the length is measured once some have finished,
    /// estimated at submission before that.
    pub profile: Profile,
    /// True if the job has an accelerated version of its maps.
    pub accelerated: bool,
    /// Measured mean length of the job's maps on regular machines and on those with accelerators
    /// (the order of [`Pool::ALL`]), in seconds; `None` until one has finished there.
    pub map_s_on: [Option<f64>; 2],
    /// The pending splits and the nodes that hold them; `None` if all nodes are equally near.
    pub local: Option<PendingSplits>,
    /// The job's wait for a slot near its input, as the policy returned it in the last cycle.
    pub wait: Wait,
}

impl JobView {
    /// Creates the view of a job that has not started any task and has no measurements.
    #[must_use]
    pub fn new(job: Job, maps: u32, reduces: u32, profile: Profile) -> Self {
        Self {
            job,
            pending_maps: maps,
            pending_reduces: reduces,
            done_maps: 0,
            running: Vec::new(),
            profile,
            accelerated: false,
            map_s_on: [None; 2],
            local: None,
            wait: Wait::default(),
        }
    }

    /// Returns the number of tasks of `kind` that neither run nor are done.
    #[must_use]
    pub const fn pending(&self, kind: TaskKind) -> u32 {
        match kind {
            TaskKind::Map => self.pending_maps,
            TaskKind::Reduce => self.pending_reduces,
        }
    }

    /// Returns the running tasks of `kind`.
    pub fn running_of(&self, kind: TaskKind) -> impl Iterator<Item = &RunningTask> {
        self.running
            .iter()
            .filter(move |task| task.phase.kind() == kind)
    }

    /// Returns the number of tasks of `kind` that are not done: the most slots of this kind that
    /// the job can use.
    #[must_use]
    pub fn left(&self, kind: TaskKind) -> u32 {
        self.pending(kind) + self.running_of(kind).count() as u32
    }

    /// Returns the phase in which a task of `kind` would start now.
    #[must_use]
    pub fn starting_phase(&self, kind: TaskKind) -> Phase {
        match kind {
            TaskKind::Map => Phase::Map,
            TaskKind::Reduce if self.left(TaskKind::Map) == 0 => Phase::Reduce,
            TaskKind::Reduce => Phase::Shuffle,
        }
    }

    /// Returns the time that a running task is expected to need from `now_s` on, in seconds in its
    /// slot, when maps take `map_s`. A shuffle counts as the reduce that follows it.
    #[must_use]
    pub fn remaining_s(&self, task: &RunningTask, map_s: f64, now_s: f64) -> f64 {
        match task.phase {
            Phase::Map => expected_remaining_s(map_s, now_s - task.since_s),
            Phase::Shuffle => self.profile.reduce.task_s,
            Phase::Reduce => expected_remaining_s(self.profile.reduce.task_s, now_s - task.since_s),
        }
    }

    /// Returns the goal of the job in seconds, or infinity without a goal. Sorting by this value
    /// puts the most urgent job first.
    #[must_use]
    pub fn deadline_s(&self) -> f64 {
        self.job.goal_s.unwrap_or(f64::INFINITY)
    }

    /// Returns the key that sorts jobs by urgency: earliest goal first, then lowest id.
    pub(crate) fn urgency(&self) -> (OrderedF64, JobId) {
        (OrderedF64(self.deadline_s()), self.job.id)
    }
}

/// The cluster at the start of a control cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterView {
    /// The present time, in seconds.
    pub now_s: f64,
    /// Length of the control cycle that starts now, in seconds.
    pub cycle_s: f64,
    /// The nodes, each with the capacity that analytics may use in the coming cycle; `nodes[i]` is
    /// the node with id i.
    pub nodes: Vec<Node>,
    /// The forecast capacity of the whole cluster that is left to analytics, in hundredths of a
    /// core.
    pub availability: Arc<Availability>,
    /// Unfinished jobs, in any order; ids are unique.
    pub jobs: Vec<JobView>,
    /// The effect of the placement on running tasks.
    pub preemption: Preemption,
    /// The time from which reduces may start.
    pub reduce_start: ReduceStart,
}

impl ClusterView {
    /// Returns the jobs whose wait for a slot near their input has changed, each with its new wait.
    /// `waits[i]` is the new wait of the job at position i.
    pub(crate) fn changed_waits(&self, waits: Vec<Wait>) -> Vec<(JobId, Wait)> {
        (self.jobs.iter().zip(waits))
            .filter(|(job, wait)| job.wait != *wait)
            .map(|(job, wait)| (job.job.id, wait))
            .collect()
    }

    /// Returns the positions in `jobs` of the jobs for which `included` returns true, the oldest
    /// first.
    pub(crate) fn by_age(&self, included: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| included(job)).collect();
        order.sort_by_cached_key(|&job| self.jobs[job].job.age());
        order
    }

    /// Returns the positions in `jobs` of the jobs for which `included` returns true, the most
    /// urgent first.
    pub(crate) fn by_urgency(&self, included: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| included(job)).collect();
        order.sort_by_cached_key(|&job| self.jobs[job].urgency());
        order
    }

    /// Returns the kind of those tasks of `job` that get slots by the job's utility, which measures how far
    /// the slots of a job suffice for its goal: maps; or reduces, if all maps are done and reduces start
    /// only after the maps.
    #[must_use]
    pub fn utility_kind(&self, job: &JobView) -> TaskKind {
        if self.reduce_start == ReduceStart::AfterMaps && job.left(TaskKind::Map) == 0 {
            TaskKind::Reduce
        } else {
            TaskKind::Map
        }
    }

    /// Returns the number of tasks of `kind` that `job` could have in slots now: all unfinished
    /// ones, but no reduces before they may start.
    #[must_use]
    pub fn usable(&self, job: &JobView, kind: TaskKind) -> u32 {
        let too_early = kind == TaskKind::Reduce
            && self.reduce_start == ReduceStart::AfterMaps
            && job.left(TaskKind::Map) > 0;
        if too_early { 0 } else { job.left(kind) }
    }

    /// Returns the pool of `node`; a node outside of the view counts as regular.
    #[must_use]
    pub fn pool(&self, node: NodeId) -> Pool {
        self.nodes
            .get(node.0 as usize)
            .map_or(Pool::Regular, |node| node.pool)
    }
}

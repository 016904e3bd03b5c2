//! What a policy sees: an immutable picture of the cluster at one instant.
//!
//! The simulator keeps one and changes it as tasks come and go; the live runtime
//! builds one in each control cycle. What a policy has to remember from one
//! cycle to the next (how long a job has waited for a local slot) is not kept in
//! the policy: it hands a [`Wait`] out with its decision, and finds it here in
//! the next cycle.

use crate::availability::Availability;
use crate::model::{
    Job, JobId, Node, NodeId, PendingSplits, Phase, Pool, Profile, TaskKind, expected_remaining_s,
};
use crate::ordered_f64::OrderedF64;
use serde::Deserialize;
use std::sync::Arc;

/// What a new placement may do to tasks that already run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Nothing: a task that the placement has no slot for runs to its end, and
    /// its slot drains. The thesis's TaskTrackers, and the simulator.
    Never,
    /// Slow them down or pause them, because a slot is a share of a core that
    /// pacing enforces. The live runtime.
    EveryCycle,
}

/// When reduce tasks may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReduceStart {
    /// As soon as there is room, so that the shuffle overlaps the maps
    /// (section 4.2.4). Reduces are placed first; their lack costs utility.
    Overlapped,
    /// Once the job's maps are all done. Until then their work counts as work
    /// of the job in units of map tasks; after that they are placed by utility
    /// as maps are. The live runtime; an extension of the thesis.
    AfterMaps,
}

/// A task that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningTask {
    /// Its number among the job's tasks of its kind.
    pub index: u32,
    /// Where it runs.
    pub node: NodeId,
    /// What it does at the moment.
    pub phase: Phase,
    /// When that phase began, in seconds. For a task that was slowed down: when
    /// it would have begun, had it always run at full speed.
    pub since_s: f64,
}

/// How often a task may be passed over, unless told otherwise: the larger of the
/// two values of the thesis.
pub const DELAYS_MAX: u32 = 3;

/// How long a job has been waiting for a slot where its input lies.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Wait {
    /// Slots it was offered and passed on since it last started a task.
    pub skips: u32,
    /// When it first passed on one since it last started a local task, in
    /// seconds; `None`: it has not.
    pub since_s: Option<f64>,
}

/// One unfinished job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Id, submission, goal and weight.
    pub job: Job,
    /// Maps that do not run and are not done.
    pub pending_maps: u32,
    /// Reduces that do not run and are not done.
    pub pending_reduces: u32,
    /// Maps that are done.
    pub done_maps: u32,
    /// Tasks that hold a slot.
    pub running: Vec<RunningTask>,
    /// Demand of its tasks, and their mean length: as observed once some have
    /// finished, as estimated at submission before that.
    pub profile: Profile,
    /// Whether it came with an accelerated version of its maps.
    pub accelerated: bool,
    /// Observed mean length of its maps on each pool, in seconds; `None` before
    /// one has finished there.
    pub map_s_on: [Option<f64>; 2],
    /// Which splits wait, and where they lie; `None`: all nodes are as near.
    pub local: Option<PendingSplits>,
    /// What the policy noted in the last cycle.
    pub wait: Wait,
}

impl JobView {
    /// A job of which nothing has been started or observed.
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

    /// Tasks of `kind` that are not running and not done.
    #[must_use]
    pub const fn pending(&self, kind: TaskKind) -> u32 {
        match kind {
            TaskKind::Map => self.pending_maps,
            TaskKind::Reduce => self.pending_reduces,
        }
    }

    /// Running tasks of `kind`.
    pub fn running_of(&self, kind: TaskKind) -> impl Iterator<Item = &RunningTask> {
        self.running
            .iter()
            .filter(move |task| task.phase.kind() == kind)
    }

    /// Tasks of `kind` that are not done: the most slots it can use for them.
    #[must_use]
    pub fn left(&self, kind: TaskKind) -> u32 {
        self.pending(kind) + self.running_of(kind).count() as u32
    }

    /// The phase a task of `kind` would start in now.
    #[must_use]
    pub fn starting_phase(&self, kind: TaskKind) -> Phase {
        match kind {
            TaskKind::Map => Phase::Map,
            TaskKind::Reduce if self.left(TaskKind::Map) == 0 => Phase::Reduce,
            TaskKind::Reduce => Phase::Shuffle,
        }
    }

    /// How much longer a running task is expected to need at `now_s`, in
    /// seconds in its slot, when maps take `map_s`. A shuffle counts as the
    /// reduce that follows it.
    #[must_use]
    pub fn remaining_s(&self, task: &RunningTask, map_s: f64, now_s: f64) -> f64 {
        match task.phase {
            Phase::Map => expected_remaining_s(map_s, now_s - task.since_s),
            Phase::Shuffle => self.profile.reduce.task_s,
            Phase::Reduce => expected_remaining_s(self.profile.reduce.task_s, now_s - task.since_s),
        }
    }

    /// The goal, or infinity without one: the order of urgency.
    #[must_use]
    pub fn deadline_s(&self) -> f64 {
        self.job.goal_s.unwrap_or(f64::INFINITY)
    }

    /// The key that sorts jobs by urgency: the job with the earliest goal has the least, and of
    /// equally urgent jobs the one with the lowest id.
    pub(crate) fn urgency(&self) -> (OrderedF64, JobId) {
        (OrderedF64(self.deadline_s()), self.job.id)
    }
}

/// The cluster as a policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterView {
    /// The present, in seconds.
    pub now_s: f64,
    /// Length of the control cycle that starts now, in seconds.
    pub cycle_s: f64,
    /// The nodes, and what analytics may use of each in the coming cycle;
    /// `nodes[i]` is the node with id i.
    pub nodes: Vec<Node>,
    /// The forecast for the whole cluster, in hundredths of a core.
    pub availability: Arc<Availability>,
    /// Unfinished jobs, in any order; ids are unique.
    pub jobs: Vec<JobView>,
    /// What may be done to running tasks.
    pub preemption: Preemption,
    /// When reduces may start.
    pub reduce_start: ReduceStart,
}

impl ClusterView {
    /// Those of `waits` that differ from what this view has; `waits[i]` is of the job at
    /// position i.
    pub(crate) fn changed_waits(&self, waits: Vec<Wait>) -> Vec<(JobId, Wait)> {
        (self.jobs.iter().zip(waits))
            .filter(|(job, wait)| job.wait != *wait)
            .map(|(job, wait)| (job.job.id, wait))
            .collect()
    }

    /// Positions of the jobs that are `included`, the oldest first.
    pub(crate) fn by_age(&self, included: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| included(job)).collect();
        order.sort_by_cached_key(|&job| self.jobs[job].job.age());
        order
    }

    /// Positions of the jobs that are `included`, the most urgent first.
    pub(crate) fn by_urgency(&self, included: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| included(job)).collect();
        order.sort_by_cached_key(|&job| self.jobs[job].urgency());
        order
    }

    /// The kind of task that is placed by need for `job`: its maps, or its
    /// reduces once they follow the maps and those are done.
    #[must_use]
    pub fn utility_kind(&self, job: &JobView) -> TaskKind {
        if self.reduce_start == ReduceStart::AfterMaps && job.left(TaskKind::Map) == 0 {
            TaskKind::Reduce
        } else {
            TaskKind::Map
        }
    }

    /// Tasks of `kind` that `job` could have in slots now: all that are not
    /// done, but no reduce before its time.
    #[must_use]
    pub fn usable(&self, job: &JobView, kind: TaskKind) -> u32 {
        let too_early = kind == TaskKind::Reduce
            && self.reduce_start == ReduceStart::AfterMaps
            && job.left(TaskKind::Map) > 0;
        if too_early { 0 } else { job.left(kind) }
    }

    /// The pool that `node` belongs to; a node that is gone counts as regular.
    #[must_use]
    pub fn pool(&self, node: NodeId) -> Pool {
        self.nodes
            .get(node.0 as usize)
            .map_or(Pool::Regular, |node| node.pool)
    }
}

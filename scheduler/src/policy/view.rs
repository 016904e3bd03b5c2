//! What a policy sees: an immutable picture of the cluster at one instant.
//!
//! Built afresh in each control cycle by the simulator or the live runtime.

use crate::availability::Availability;
use crate::model::{Job, Node, NodeId, Phase, Profile, TaskKind};
use std::sync::Arc;

/// What a new placement may do to tasks that already run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Nothing: they keep their slots and the surplus drains. The thesis's
    /// TaskTrackers, and the simulator.
    Never,
    /// Slow them down or pause them, because a slot is a share of a core that
    /// pacing enforces. The live runtime.
    EveryCycle,
}

/// When reduce tasks may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Where it runs.
    pub node: NodeId,
    /// What it does at the moment.
    pub phase: Phase,
    /// How much longer it is expected to run, in seconds in its slot.
    pub remaining_s: f64,
}

/// One unfinished job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Id, submission and goal.
    pub job: Job,
    /// Maps that do not run and are not done.
    pub pending_maps: u32,
    /// Reduces that do not run and are not done.
    pub pending_reduces: u32,
    /// Tasks that hold a slot.
    pub running: Vec<RunningTask>,
    /// Demand of its tasks, and their mean length: as observed once some have
    /// finished, as estimated at submission before that.
    pub profile: Profile,
}

impl JobView {
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

    /// The goal, or infinity without one: the order of urgency.
    #[must_use]
    pub fn deadline_s(&self) -> f64 {
        self.job.goal_s.unwrap_or(f64::INFINITY)
    }
}

/// The cluster as a policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterView {
    /// The present, in seconds.
    pub now_s: f64,
    /// Length of the control cycle that starts now, in seconds.
    pub cycle_s: f64,
    /// The nodes, and what analytics may use of each in the coming cycle.
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
    /// The kind of task that is placed by utility for `job`: its maps, or its
    /// reduces once they follow the maps and those are done.
    #[must_use]
    pub fn utility_kind(&self, job: &JobView) -> TaskKind {
        if self.reduce_start == ReduceStart::AfterMaps && job.left(TaskKind::Map) == 0 {
            TaskKind::Reduce
        } else {
            TaskKind::Map
        }
    }
}

//! Algorithm 1: the heuristic that runs in each control cycle.
//!
//! The optimum of (8)-(10) and (16)-(19) is NP-hard to find. The heuristic gives
//! one slot at a time to the job with the lowest utility until nothing fits, and
//! so raises the lowest utility in the system. The printed algorithm repairs
//! last cycle's matrix by moving slots from the most to the least satisfied job.
//! Starting from the tasks that cannot be moved and adding slots in order of
//! need arrives at the same balance, without a bound on rounds.

use super::matrix::Placement;
use super::utility::reduce_utility;
use super::view::{ClusterView, JobView, Preemption, ReduceStart};
use super::workload::Workload;
use crate::model::{NodeId, Resources, TaskKind};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A placement under construction: what is placed and what is left of each node.
pub(super) struct Placer<'a> {
    view: &'a ClusterView,
    free: Vec<Resources>,
    placement: Placement,
}

impl<'a> Placer<'a> {
    /// Starts from the tasks that hold their slots whatever happens.
    pub fn new(view: &'a ClusterView) -> Self {
        let mut placer = Self {
            view,
            free: view.nodes.iter().map(|node| node.capacity).collect(),
            placement: Placement::new(),
        };
        if view.preemption == Preemption::Never {
            let index: BTreeMap<NodeId, usize> = (0..)
                .zip(&view.nodes)
                .map(|(index, node)| (node.id, index))
                .collect();
            for job in &view.jobs {
                for task in &job.running {
                    placer
                        .placement
                        .add(job.job.id, task.node, task.phase.kind());
                    // A task may outlive its node's turn: it counts, but nowhere.
                    if let Some(&node) = index.get(&task.node) {
                        let demand = job.profile.demand(task.phase);
                        placer.free[node] = placer.free[node].less(&demand);
                    }
                }
            }
        }
        placer
    }

    /// Slots `job` holds for tasks of `kind` so far.
    pub fn placed(&self, job: &JobView, kind: TaskKind) -> u32 {
        match kind {
            TaskKind::Map => self.placement.maps(job.job.id),
            TaskKind::Reduce => self.placement.reduces(job.job.id),
        }
    }

    /// Places one more task of `kind` where the most CPU is free. False when
    /// no node has room for it (the thesis's `room_for_new_job_slot`).
    pub fn place(&mut self, job: &JobView, kind: TaskKind) -> bool {
        let demand = job.profile.demand(job.starting_phase(kind));
        let roomiest = (0..self.free.len())
            .filter(|&node| self.free[node].fits(&demand))
            // max_by_key keeps the last maximum; reversed, the first node wins ties.
            .rev()
            .max_by_key(|&node| self.free[node].cpu_hundredths);
        self.place_on(job, kind, roomiest, demand)
    }

    /// Places one more reduce where the fewest reduces are, then where the
    /// fewest of this job are (Algorithm 1, line 2).
    fn place_reduce_evenly(&mut self, job: &JobView, reduces_on: &mut [u32]) -> bool {
        let demand = job.profile.demand(job.starting_phase(TaskKind::Reduce));
        let node = (0..self.free.len())
            .filter(|&node| self.free[node].fits(&demand))
            .min_by_key(|&node| {
                let own = self
                    .placement
                    .on(job.job.id, self.view.nodes[node].id, TaskKind::Reduce);
                (reduces_on[node], own)
            });
        if let Some(node) = node {
            reduces_on[node] += 1;
        }
        self.place_on(job, TaskKind::Reduce, node, demand)
    }

    fn place_on(
        &mut self,
        job: &JobView,
        kind: TaskKind,
        node: Option<usize>,
        demand: Resources,
    ) -> bool {
        let Some(node) = node else { return false };
        self.free[node] = self.free[node].less(&demand);
        self.placement
            .add(job.job.id, self.view.nodes[node].id, kind);
        true
    }

    /// Algorithm 1, lines 1-9: all reduces there is room for, evenly over the
    /// nodes, jobs in order of urgency.
    fn place_reduces(&mut self) {
        let mut reduces_on: Vec<u32> = (self.view.nodes.iter())
            .map(|node| {
                let placed = self
                    .placement
                    .iter()
                    .filter(|&(_, on, kind, _)| on == node.id && kind == TaskKind::Reduce);
                placed.map(|(_, _, _, slots)| slots).sum()
            })
            .collect();
        let mut jobs: Vec<&JobView> = self.view.jobs.iter().collect();
        jobs.sort_by(|a, b| {
            a.deadline_s()
                .total_cmp(&b.deadline_s())
                .then(a.job.id.cmp(&b.job.id))
        });
        for job in jobs {
            while self.placed(job, TaskKind::Reduce) < job.left(TaskKind::Reduce) {
                if !self.place_reduce_evenly(job, &mut reduces_on) {
                    break;
                }
            }
        }
    }

    /// The result.
    pub fn finish(self) -> Placement {
        self.placement
    }
}

/// What a job needs, for placement by utility.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Need {
    /// Its remaining work.
    pub workload: Workload,
    /// The least to run in the coming cycle, from Algorithm 2.
    pub s_fit: f64,
    /// The slots to hold on average until the goal.
    pub s_req: f64,
}

/// Places by utility: reduces first where they overlap the maps, then one slot
/// at a time to the least satisfied job.
///
/// `needs[i]` belongs to `view.jobs[i]`; `map_part` is the map part of the
/// utility for a number of slots. Equal utilities: earliest deadline, then
/// lowest id.
///
/// A job without a goal wants to be done as early as possible, but behind the
/// promises made to others: it gets slots, in order of submission, once every
/// job with a goal (for which there is room at all) holds its s_fit and s_req,
/// and before any of those gets more than that.
pub(super) fn place_by_utility(
    view: &ClusterView,
    needs: &[Need],
    map_part: impl Fn(&Need, f64) -> f64,
) -> Placement {
    let mut placer = Placer::new(view);
    if view.reduce_start == ReduceStart::Overlapped {
        placer.place_reduces();
    }
    let reduce_part = |placer: &Placer<'_>, job: &JobView| match view.reduce_start {
        ReduceStart::Overlapped => reduce_utility(
            f64::from(placer.placed(job, TaskKind::Reduce)),
            f64::from(job.left(TaskKind::Reduce)),
        ),
        ReduceStart::AfterMaps => 0.0,
    };

    let mut with_goal = BinaryHeap::new();
    let mut without_goal = Vec::new();
    let mut in_need = 0_usize;
    for (index, (job, need)) in view.jobs.iter().zip(needs).enumerate() {
        let candidate = Candidate {
            utility: 0.0,
            deadline_s: job.deadline_s(),
            index,
            job,
            slots: placer.placed(job, need.workload.kind),
            reduce_part: reduce_part(&placer, job),
        };
        if candidate.slots >= need.workload.left {
            continue;
        }
        if job.job.goal_s.is_some() {
            in_need += usize::from(candidate.lacks(need));
            with_goal.push(candidate.rated(need, &map_part));
        } else {
            without_goal.push(candidate);
        }
    }
    without_goal.sort_by(|a, b| {
        a.job
            .job
            .submitted_s
            .total_cmp(&b.job.job.submitted_s)
            .then(a.job.job.id.cmp(&b.job.job.id))
    });
    let mut without_goal = VecDeque::from(without_goal);

    loop {
        let goal_first = in_need > 0 || without_goal.is_empty();
        let next = if goal_first {
            with_goal.pop()
        } else {
            without_goal.pop_front()
        };
        let Some(mut candidate) = next else { break };
        let need = &needs[candidate.index];
        let lacked = goal_first && candidate.lacks(need);
        let placed = placer.place(candidate.job, need.workload.kind);
        candidate.slots += u32::from(placed);
        let goes_on = placed && candidate.slots < need.workload.left;
        if lacked && !(goes_on && candidate.lacks(need)) {
            in_need -= 1;
        }
        if goes_on && goal_first {
            with_goal.push(candidate.rated(need, &map_part));
        } else if goes_on {
            without_goal.push_front(candidate);
        }
    }
    placer.finish()
}

/// A job that still has tasks without a slot.
struct Candidate<'a> {
    utility: f64,
    deadline_s: f64,
    index: usize,
    job: &'a JobView,
    slots: u32,
    reduce_part: f64,
}

impl Candidate<'_> {
    /// Whether it holds less than it needs to meet its goal.
    fn lacks(&self, need: &Need) -> bool {
        f64::from(self.slots) < need.s_fit.max(need.s_req)
    }

    /// Equations (5) and (13).
    fn rated(mut self, need: &Need, map_part: impl Fn(&Need, f64) -> f64) -> Self {
        self.utility = map_part(need, f64::from(self.slots)) + self.reduce_part;
        self
    }
}

/// A max-heap pops the greatest: the least satisfied, most urgent, oldest job.
impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.utility.total_cmp(&self.utility))
            .then(other.deadline_s.total_cmp(&self.deadline_s))
            .then(other.job.job.id.cmp(&self.job.job.id))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate<'_> {}

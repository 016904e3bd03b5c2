//! The Adaptive Scheduler with data affinity (thesis section 3.4.2).

use super::adaptive::adaptive_draft;
use super::priority::{Class, Priority};
use crate::model::{NodeId, TaskKind};
use crate::policy::local::Local;
use crate::policy::places::Places;
use crate::policy::view::{ClusterView, DELAYS_MAX, Wait};
use crate::policy::workload::Workload;
use crate::policy::{Decision, Policy, Refill};
use std::collections::BTreeSet;

/// Like [`Adaptive`](crate::policy::Adaptive), but a job with enough slots for its goal lets others
/// go first on a node without its input, at most `delays_max` times for each task.
///
/// Each free slot is offered to the jobs in the order of the thesis's equation (1). A job takes it
/// if its input is on this node, if it lacks slots for its goal (or is late or unmeasured), or if
/// it has declined often enough. When all jobs have declined, the first of them starts a remote
/// task after all. Jobs without a goal may decline, too: they have no goal to miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveData {
    /// How many slots a job may decline for each task.
    pub delays_max: u32,
}

impl Default for AdaptiveData {
    fn default() -> Self {
        Self {
            delays_max: DELAYS_MAX,
        }
    }
}

impl Policy for AdaptiveData {
    fn name(&self) -> &'static str {
        "adaptive-data"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let workloads = Workload::all(view);
        let places = Places::keeping(adaptive_draft(view, &workloads));
        let mut queue = Queue {
            delays_max: self.delays_max,
            view,
            workloads: &workloads,
            waits: view.jobs.iter().map(|job| job.wait).collect(),
            local: Local::new(view),
            turns: BTreeSet::new(),
        };
        queue.turns = (0..view.jobs.len())
            .filter(|&job| workloads[job].kind == TaskKind::Map && places.has_pending(job))
            .map(|job| queue.turn(&places, job, 0))
            .collect();
        let placement = places.offer(|places, node| queue.choose(places, node));
        Decision {
            placement,
            refill: Refill::LocalTask,
            waits: view.changed_waits(queue.waits),
        }
    }
}

type Turn = (Priority, usize);

/// The jobs with pending maps, in the order of the thesis's equation (1): those that lack most
/// slots for their goals first. Counts for each job the slots that it has declined because its
/// input is not on their nodes.
struct Queue<'a> {
    delays_max: u32,
    view: &'a ClusterView,
    workloads: &'a [Workload],
    waits: Vec<Wait>,
    local: Local<'a>,
    turns: BTreeSet<Turn>,
}

impl Queue<'_> {
    fn turn(&self, places: &Places<'_>, job: usize, more: u32) -> Turn {
        let slots = places.active_maps(job) + more;
        let priority = Priority::of(self.view, job, &self.workloads[job], slots);
        (priority, job)
    }

    fn choose(&mut self, places: &Places<'_>, node: NodeId) -> Option<usize> {
        let mut passed: Vec<Turn> = Vec::new();
        let mut chosen = None;
        for &(priority, job) in &self.turns {
            if !places.can_start(job, node) {
                continue;
            }
            let may_pass = matches!(
                priority.class,
                Class::WithoutGoal | Class::Satisfied | Class::Guest
            );
            if self.local.take_on(job, node) {
                chosen = Some((priority, job));
            } else if may_pass && self.waits[job].skips < self.delays_max {
                passed.push((priority, job));
                continue;
            } else {
                self.local.take_any(job);
                chosen = Some((priority, job));
            }
            break;
        }
        if chosen.is_none()
            && let Some(&(priority, job)) = passed.first()
        {
            self.local.take_any(job);
            chosen = Some((priority, job));
        }
        for (_, job) in passed {
            self.waits[job].skips += 1;
        }
        let (priority, job) = chosen?;
        self.waits[job].skips = 0;
        self.turns.remove(&(priority, job));
        let turn = self.turn(places, job, 1);
        self.turns.insert(turn);
        Some(job)
    }
}

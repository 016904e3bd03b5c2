//! The Adaptive Scheduler's order of jobs: equation (1) and its three classes
//! (thesis section 3.4.1), with a place for jobs without a goal.

use crate::model::{JobId, TaskKind};
use crate::ordered_f64::OrderedF64;
use crate::policy::draft::{Draft, Scope};
use crate::policy::view::ClusterView;
use crate::policy::workload::{Workload, required_slots};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Classes of jobs, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Jobs past their goals; the largest expected lateness first.
    Late,
    /// Jobs without a finished map, whose task lengths are unknown; the oldest first.
    Unmeasured,
    /// Jobs with fewer slots than they need; the largest lack first.
    Needy,
    /// Jobs without a goal; the oldest first. They get the slots that no goal needs.
    WithoutGoal,
    /// Jobs with enough slots; the smallest surplus first. They get slots that the classes above
    /// cannot use.
    Satisfied,
    /// Jobs with enough slots whose next tasks gain little or nothing from an accelerator, in the
    /// pool of machines with accelerators: accelerable jobs come before them.
    Guest,
}

/// A job's position in the queue: the job with the least priority value comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    pub class: Class,
    /// Order within a class, the largest first. For late jobs it is the expected lateness, in
    /// seconds; for needy, satisfied and guest jobs the number of slots that they lack for their
    /// goals; 0 for the classes that are ordered by age only.
    urgency: Reverse<OrderedF64>,
    age: (OrderedF64, JobId),
}

impl Priority {
    pub fn new(view: &ClusterView, job: usize, class: Class, urgency: f64) -> Self {
        Self {
            class,
            urgency: Reverse(OrderedF64(urgency)),
            age: view.jobs[job].job.age(),
        }
    }

    /// Returns the priority of the job at position `job` of the view if it holds `slots` slots. For
    /// a late job, no slot counts as one slot, so that its lateness is finite.
    pub fn of(view: &ClusterView, job: usize, workload: &Workload, slots: u32) -> Self {
        let unmeasured = workload.kind == TaskKind::Map && view.jobs[job].done_maps == 0;
        let (class, urgency) = match view.jobs[job].job.goal_s {
            None => (Class::WithoutGoal, 0.0),
            Some(goal_s) if goal_s <= view.now_s => {
                let finish_s = view.now_s + workload.work_s() / f64::from(slots.max(1));
                (Class::Late, finish_s - goal_s)
            }
            Some(_) if unmeasured => (Class::Unmeasured, 0.0),
            Some(goal_s) => class_of_need(lack(view, workload, goal_s, slots)),
        };
        Self::new(view, job, class, urgency)
    }
}

/// Returns the number of slots that a job needs beyond the `slots` that it holds, by the thesis's
/// equation (1); negative if the job holds more than it needs. As in [`required_slots`], the last
/// tasks have to start [`Workload::tail_s`] before the goal.
pub(super) fn lack(view: &ClusterView, workload: &Workload, goal_s: f64, slots: u32) -> f64 {
    let cap = f64::from(workload.left);
    required_slots(workload.work_s(), goal_s, workload.tail_s, view.now_s, cap) - f64::from(slots)
}

/// Returns the class of a job that is not past its goal and has a finished map, and its urgency
/// within the class. `lack` is the number of slots that the job needs beyond those that it holds; 0
/// or negative if it has enough.
pub(super) fn class_of_need(lack: f64) -> (Class, f64) {
    if lack > 0.0 {
        (Class::Needy, lack)
    } else {
        (Class::Satisfied, lack)
    }
}

/// Drafts the reduces that overlap the maps first. Then drafts slots one at a time, each for the
/// first job of the queue, which then moves back in the queue. `scope` has the nodes to which the
/// slots will belong.
///
/// `priority` gets the position of a job and a number of slots. It returns the priority that the job
/// has with that number of slots, or `None` if the job gets no more slots on these nodes.
/// `reduces_elsewhere[i]` is the number of slots for reduces that the job at position i has on other
/// nodes; the list may be empty.
pub(super) fn draft_by_priority<'a>(
    scope: Scope<'a>,
    workloads: &[Workload],
    reduces_elsewhere: &[u32],
    priority: impl Fn(usize, u32) -> Option<Priority>,
) -> Draft<'a> {
    let view = scope.view;
    let mut draft = Draft::new(scope);
    // Reduces that overlap with maps have slots of their own, or go first as in Algorithm 1:
    // otherwise a job whose maps are done would wait behind the maps of all other jobs. Reduces that
    // start after all maps of their job are chosen by need below, as maps are.
    let follows = |job: usize| match workloads[job].kind {
        TaskKind::Map => {
            let elsewhere = reduces_elsewhere.get(job).copied().unwrap_or(0);
            view.usable(&view.jobs[job], TaskKind::Reduce)
                .saturating_sub(elsewhere)
        }
        TaskKind::Reduce => 0,
    };
    draft.add_reduces(follows);
    if draft.is_full() {
        return draft;
    }

    // Jobs by age: the order of equally urgent jobs.
    let order = view.by_age(|job| workloads[job].left > 0);
    let turn = |rank: u32, priority: Priority| Turn {
        class: priority.class,
        urgency: priority.urgency,
        rank,
    };
    let mut queue: BinaryHeap<Reverse<Turn>> = (0..)
        .zip(&order)
        .filter_map(|(rank, &job)| Some(Reverse(turn(rank, priority(job, 0)?))))
        .collect();
    while !draft.is_full()
        && let Some(mut first) = queue.peek_mut()
    {
        let rank = first.0.rank;
        let job = order[rank as usize];
        let workload = &workloads[job];
        // A job leaves the queue when no node has enough free capacity for its next task, when it
        // has no more tasks, or when `priority` excludes it.
        let next = draft.add(job, workload.kind).then(|| {
            let slots = draft.slots(job, workload.kind);
            priority(job, slots).filter(|_| slots < workload.left)
        });
        // The entry changes in place and sinks: half the work of a pop and a push.
        match next.flatten() {
            Some(next) => *first = Reverse(turn(rank, next)),
            None => {
                PeekMut::pop(first);
            }
        }
    }
    draft
}

/// An entry of the queue: a job and its [`Priority`], in less memory than that type, because the
/// queue is walked once for each slot.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    class: Class,
    urgency: Reverse<OrderedF64>,
    /// The job's position in the order of age, oldest first.
    rank: u32,
}

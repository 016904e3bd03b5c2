//! Algorithm 1: the heuristic that runs in each control cycle.
//!
//! The optimum of (8)-(10) and (16)-(19) is NP-hard to find. The heuristic gives one slot at a time
//! to the job with the lowest utility until nothing fits, and so raises the lowest utility in the
//! system. The printed algorithm repairs last cycle's matrix: it moves slots from the most to the
//! least satisfied job. Starting from an empty matrix leads to the same balance, and needs no limit
//! on the number of rounds. Afterwards the draft keeps running tasks where they are.

use super::utility::reduce_utility;
use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;
use crate::policy::Decision;
use crate::policy::decision::Measure;
use crate::policy::draft::{Draft, Scope};
use crate::policy::view::{ClusterView, JobView, ReduceStart};
use crate::policy::workload::Workload;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// The slots that a job needs, for placement by utility.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::policy) struct Need {
    /// The remaining work of the job.
    pub workload: Workload,
    /// The least number of slots in the coming cycle with which the job can still meet its goal,
    /// from Algorithm 2; 0 under [`Ras`](crate::policy::Ras), which has no forecast.
    pub s_fit: f64,
    /// The number of slots that the job has to hold on average, from now until its goal, to meet
    /// it.
    pub s_req: f64,
}

/// Gives slots by utility, which measures how far a job's slots satisfy its goal. It is the sum of
/// a part for maps and a part for reduces. If reduces may overlap the maps, they get slots first.
/// Then one slot at a time goes to the job with the lowest utility.
///
/// `needs[i]` belongs to `view.jobs[i]`; `map_part` returns the map part of the utility for a
/// number of slots. Jobs with equal utilities are ordered by goal, then by id.
///
/// A job without a goal should end as early as possible, but its slots come after the needs of jobs
/// with a goal. It gets slots, in order of submission, once every job with a goal (for which there
/// is any free capacity) holds [`Need::s_fit`] and [`Need::s_req`] slots, and before any of these
/// jobs gets more.
pub(super) fn place_by_utility(
    view: &ClusterView,
    needs: &[Need],
    map_part: impl Fn(&Need, f64) -> f64,
) -> Decision {
    let mut draft = Draft::new(Scope::all(view, Measure::Resources));
    if view.reduce_start == ReduceStart::Overlapped {
        draft.add_reduces(|job| view.jobs[job].left(TaskKind::Reduce));
    }
    let reduce_part = |draft: &Draft<'_>, index: usize, job: &JobView| match view.reduce_start {
        ReduceStart::Overlapped => reduce_utility(
            f64::from(draft.slots(index, TaskKind::Reduce)),
            f64::from(job.left(TaskKind::Reduce)),
        ),
        // Here reduces get slots like maps, once all maps are done, so the map part counts them.
        ReduceStart::AfterMaps => 0.0,
    };

    // Jobs by urgency: the order of equally satisfied jobs.
    let order = view.by_urgency(|_| true);
    let mut candidates: Vec<Candidate> = Vec::with_capacity(order.len());
    let mut with_goal = Vec::new();
    let mut without_goal = Vec::new();
    // Jobs in `with_goal` that lack slots. A job that cannot get more counts no longer, so that jobs
    // without a goal do not wait for it.
    let mut in_need = 0_usize;
    for index in order {
        let (job, need) = (&view.jobs[index], &needs[index]);
        let candidate = Candidate {
            index,
            slots: 0,
            reduce_part: reduce_part(&draft, index, job),
        };
        let rank = candidates.len() as u32;
        candidates.push(candidate);
        if need.workload.left == 0 {
            continue;
        }
        if job.job.goal_s.is_some() {
            in_need += usize::from(candidate.lacks(need));
            let utility = OrderedF64(candidate.utility(need, &map_part));
            with_goal.push(Reverse(Turn { utility, rank }));
        } else {
            without_goal.push(rank);
        }
    }
    without_goal.sort_by_key(|&rank| view.jobs[candidates[rank as usize].index].job.age());
    let mut without_goal = VecDeque::from(without_goal);
    let mut with_goal = BinaryHeap::from(with_goal);

    while !draft.is_full() {
        let goal_first = in_need > 0 || without_goal.is_empty();
        if !goal_first {
            let candidate = &mut candidates[without_goal[0] as usize];
            let need = &needs[candidate.index];
            if !candidate.add_slot(&mut draft, need) {
                without_goal.pop_front();
            }
            continue;
        }
        // The entry changes in place and sinks: half the work of a pop and a push.
        let Some(mut turn) = with_goal.peek_mut() else {
            break;
        };
        let candidate = &mut candidates[turn.0.rank as usize];
        let need = &needs[candidate.index];
        let lacked = candidate.lacks(need);
        let goes_on = candidate.add_slot(&mut draft, need);
        if lacked && !(goes_on && candidate.lacks(need)) {
            in_need -= 1;
        }
        if goes_on {
            turn.0.utility = OrderedF64(candidate.utility(need, &map_part));
        } else {
            PeekMut::pop(turn);
        }
    }
    // The draft was made from an empty matrix, so a job may be due slots on nodes that are full of
    // running tasks: these yield.
    draft.yielding().carry_out().into()
}

/// A job of the view, with the slots that it has been given so far, apart from those for reduces
/// that overlap the maps.
#[derive(Clone, Copy)]
struct Candidate {
    index: usize,
    slots: u32,
    reduce_part: f64,
}

impl Candidate {
    /// Returns whether the job holds fewer than [`Need::s_fit`] or fewer than [`Need::s_req`] slots.
    fn lacks(&self, need: &Need) -> bool {
        f64::from(self.slots) < need.s_fit.max(need.s_req)
    }

    /// Gives the job a slot. Returns false if no node has enough free capacity, or if the job has
    /// no use for more.
    fn add_slot(&mut self, draft: &mut Draft<'_>, need: &Need) -> bool {
        let placed = draft.add(self.index, need.workload.kind);
        self.slots += u32::from(placed);
        placed && self.slots < need.workload.left
    }

    /// Returns the utility of the job, by the thesis's equations (5) and (13): the map part for its
    /// slots, which `map_part` returns, plus the reduce part.
    fn utility(&self, need: &Need, map_part: impl Fn(&Need, f64) -> f64) -> f64 {
        map_part(need, f64::from(self.slots)) + self.reduce_part
    }
}

/// The sort key of a candidate: the least satisfied, most urgent job comes first. The key takes
/// little memory, because the queue is walked once for each slot.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    utility: OrderedF64,
    /// The candidate's position in the order of goals, then ids: the tie-break among equal
    /// utilities.
    rank: u32,
}

//! Hadoop's Fair Scheduler (Zaharia et al., *Delay Scheduling*, EuroSys 2010,
//! section 2; the baseline of chapters 3 and 4).

use super::decision::Measure;
use super::draft::{Draft, Scope};
use super::view::ClusterView;
use super::{Decision, Policy};
use crate::model::{JobId, TaskKind};
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Gives every job the same number of slots, or slots in proportion to its weight.
///
/// Shares are computed first: one slot at a time is added to the share of the job with the fewest
/// slots for its weight (ties: the oldest). A job has one share for maps and one for reduces. Slots
/// that a job cannot use are divided among the others. Then maps start: a slot that is free goes to
/// the job with the fewest running maps for its weight. Goals make no difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let runs_now = |job: usize, maps: u32| Share::of(view, job, maps);
        fair_draft(view).carry_out_to_least(runs_now).into()
    }
}

/// Drafts the shares of all jobs, in proportion to their weights.
pub(super) fn fair_draft(view: &ClusterView) -> Draft<'_> {
    let mut draft = Draft::new(Scope::all(view, Measure::Slots));
    // Jobs by age: the order of jobs with equal shares.
    let order = view.by_age(|_| true);
    let usable = |rank: u32, kind: TaskKind| view.usable(&view.jobs[order[rank as usize]], kind);
    let claims = (0..order.len() as u32)
        .flat_map(|rank| [TaskKind::Map, TaskKind::Reduce].map(|kind| (rank, kind)));
    let mut heap: BinaryHeap<Reverse<Claim>> = claims
        .filter(|&(rank, kind)| usable(rank, kind) > 0)
        .map(|(rank, kind)| {
            let slots_for_weight = OrderedF64(0.0);
            Reverse(Claim {
                slots_for_weight,
                rank,
                kind,
            })
        })
        .collect();
    while !draft.is_full()
        && let Some(mut first) = heap.peek_mut()
    {
        let Claim { rank, kind, .. } = first.0;
        let job = order[rank as usize];
        if draft.add(job, kind) && draft.slots(job, kind) < usable(rank, kind) {
            // The entry changes in place and sinks: half the work of a pop and a push.
            first.0.slots_for_weight =
                Share::of(view, job, draft.slots(job, kind)).slots_for_weight;
        } else {
            PeekMut::pop(first);
        }
    }
    draft
}

/// Gives slots to reduces and to running tasks as [`Fair`] does. Each idle slot for maps goes to
/// the job whose position `choose` returns; `None` leaves the free capacity of the node idle in
/// this cycle. `choose` gets the node, and a function that returns whether a pending map of a job
/// could start there.
#[cfg(feature = "simulation")]
pub(crate) fn fair_with_idle_slots(
    view: &ClusterView,
    mut choose: impl FnMut(crate::model::NodeId, &dyn Fn(usize) -> bool) -> Option<usize>,
) -> Decision {
    let places = super::places::Places::keeping(fair_draft(view));
    let placement = places.offer(|places, node| choose(node, &|job| places.can_start(job, node)));
    placement.into()
}

/// A job and a kind of task (map or reduce), as an entry of the queue for the next slot. Claims are
/// ordered as [`Share`]s are, but take less memory, because the queue is changed once for each
/// slot.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    slots_for_weight: OrderedF64,
    /// The job's position in the order of age, oldest first.
    rank: u32,
    kind: TaskKind,
}

/// The number of slots of a job divided by its weight, as a sort key: the smallest share comes
/// first, and of equal shares that of the oldest job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    slots_for_weight: OrderedF64,
    age: (OrderedF64, JobId),
}

impl Share {
    pub fn of(view: &ClusterView, job: usize, slots: u32) -> Self {
        let job = &view.jobs[job].job;
        Self {
            slots_for_weight: OrderedF64(f64::from(slots) / job.weight),
            age: job.age(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, running_map, slots, three_goals, view};
    use super::*;
    use crate::model::{Node, NodeId};

    /// The fair shares of four slots are two for J1, the oldest, and one each for J2 and J3. J1
    /// runs one map, J3 two, and one slot is idle. The idle slot goes to J2, which runs nothing,
    /// though J1 has a goal. J3 runs one map more than its share: the slot of the older map goes to
    /// J1, which can use it once that map has ended.
    #[test]
    fn a_free_slot_goes_to_the_job_that_runs_least() {
        let mut jobs = vec![
            job(1, 0.0, Some(50.0), 5),
            job(2, 1.0, None, 5),
            job(3, 2.0, None, 5),
        ];
        for (job, nodes) in [(0, 0..1), (2, 1..3)] {
            let running = nodes.map(|node| running_map(100 + node, node, -f64::from(node)));
            jobs[job].running = running.collect();
        }
        let mut view = view(1, 400.0, jobs);
        view.nodes = (0..4)
            .map(|id| Node::new(NodeId(id), view.nodes[0].capacity))
            .collect();
        let placement = Fair.decide(&view).placement;
        let on = |node| {
            let mut cells = placement.cells().iter();
            let first = cells.find(|cell| cell.node == NodeId(node));
            first.map(|cell| cell.job.0)
        };
        assert_eq!([0, 1, 2, 3].map(on), [1, 3, 1, 2].map(Some));
    }

    /// Ten slots for three jobs are 3 each, and one more for J3, the oldest. Of 28 slots, J1 can
    /// use 7; J2 and J3 share 21: J2 gets 10 and J3, as the older one, 11. A weight of 2 gives J1 4
    /// slots of 8.
    #[test]
    fn slots_are_divided_evenly_or_by_weight() {
        let mut jobs = three_goals();
        let decide = |room, jobs: &Vec<_>| slots(&Fair.decide(&view(room, 400.0, jobs.clone())), 3);
        assert_eq!(decide(10, &jobs), [3, 3, 4]);
        assert_eq!(decide(28, &jobs), [7, 10, 11]);
        jobs[0].job.weight = 2.0;
        assert_eq!(decide(8, &jobs), [4, 2, 2]);
    }
}

//! The Adaptive Scheduler (thesis section 3.4.1): goals, but neither locality
//! nor hardware nor resources.

use super::priority::{Priority, draft_by_priority};
use crate::policy::decision::Measure;
use crate::policy::draft::{Draft, Scope};
use crate::policy::view::ClusterView;
use crate::policy::workload::Workload;
use crate::policy::{Decision, Policy};

/// Equation (1) orders the jobs: the more slots a job lacks to meet its goal,
/// the sooner it gets one.
///
/// - Jobs past their goal come first, the latest of them ahead, so that lateness
///   evens out.
/// - Then jobs of which no map has finished, the oldest first: nothing is known
///   of them.
/// - Then by s_req - |R|, where R are the slots given so far.
///
/// Jobs without a goal get what the others do not need, the oldest first, before
/// those get more than they need. Nodes are counted in slots where they have
/// typed slots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        adaptive_draft(view, &Workload::all(view))
            .carry_out()
            .into()
    }
}

/// Slots per job by the order of equation (1).
pub(super) fn adaptive_draft<'a>(view: &'a ClusterView, workloads: &[Workload]) -> Draft<'a> {
    let scope = Scope::all(view, Measure::Slots);
    draft_by_priority(scope, workloads, &[], |job, slots| {
        Some(Priority::of(view, job, &workloads[job], slots))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{job, slots, three_goals, view};

    /// s_req = 70/30 = 2.33, 120/50 = 2.4 and 200/90 = 2.22, all measured.
    ///
    /// The first three slots go to J2 (2.4), J1 (2.33), J3 (2.22), the next three
    /// to them again in that order (1.4, 1.33, 1.22), and three more, since 0.4,
    /// 0.33 and 0.22 are still lacking. The tenth is excess: at -0.6, -0.67 and
    /// -0.78 J2 is first.
    #[test]
    fn the_job_that_lacks_most_comes_first() {
        let mut jobs = three_goals();
        for job in &mut jobs {
            job.done_maps = 1;
        }
        let decide = |room| slots(&Adaptive.decide(&view(room, 400.0, jobs.clone())), 3);
        assert_eq!(decide(1), [0, 1, 0]);
        assert_eq!(decide(2), [1, 1, 0]);
        assert_eq!(decide(4), [1, 2, 1]);
        assert_eq!(decide(9), [3, 3, 3]);
        assert_eq!(decide(10), [3, 4, 3]);
    }

    /// J1 (6 maps) is 10 s late and expected to finish 60 s from now with one
    /// slot: lateness 70 s; with two 40 s, with three 30 s. J2 (3 maps) is 20 s
    /// late: 50 s with one slot, 35 s with two. (No slot counts as one.) So the
    /// order is J1, J1, J2, J2, J1. J3 is unmeasured and waits behind both, J4,
    /// which needs all of its 5 as no time is left, behind J3, and J5 gets the
    /// rest.
    #[test]
    fn lateness_evens_out_before_anybody_else_gets_a_slot() {
        let mut jobs = vec![
            job(1, 0.0, Some(-10.0), 6),
            job(2, 1.0, Some(-20.0), 3),
            job(3, 2.0, Some(1e4), 2),
            job(4, 3.0, Some(20.0), 5),
            job(5, 0.0, None, 2),
        ];
        jobs[3].done_maps = 1;
        let decide = |room| slots(&Adaptive.decide(&view(room, 400.0, jobs.clone())), 5);
        assert_eq!(decide(1), [1, 0, 0, 0, 0]);
        assert_eq!(decide(2), [2, 0, 0, 0, 0]);
        assert_eq!(decide(3), [2, 1, 0, 0, 0]);
        assert_eq!(decide(4), [2, 2, 0, 0, 0]);
        assert_eq!(decide(5), [3, 2, 0, 0, 0]);
        assert_eq!(decide(9), [6, 3, 0, 0, 0]);
        assert_eq!(decide(10), [6, 3, 1, 0, 0]);
        assert_eq!(decide(17), [6, 3, 2, 5, 1]);
    }
}

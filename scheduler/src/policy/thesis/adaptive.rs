//! The Adaptive Scheduler (thesis section 3.4.1). It uses goals, but neither locality nor hardware
//! nor resources.

use super::priority::{Priority, draft_by_priority};
use crate::policy::decision::Measure;
use crate::policy::draft::{Draft, Scope};
use crate::policy::view::ClusterView;
use crate::policy::workload::Workload;
use crate::policy::{Decision, Policy};

/// Orders jobs by the number of slots that they lack to meet their goals (the thesis's equation
/// (1)): the job that lacks most gets the next slot.
///
/// - Jobs past their goal come first, the latest of them ahead, so that lateness evens out.
/// - Then come jobs without a finished map, the oldest first: their task length is unknown.
/// - The others follow by s_req - |R|: s_req is the number of slots that the job needs to meet its
///   goal, and |R| the number of slots given to it so far.
///
/// Jobs without a goal get the slots that no goal needs, the oldest first, before jobs with a goal
/// get more than they need. Nodes are counted in slots where they have typed slots.
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

/// Computes how many slots each job gets, not yet on which nodes. Gives out one slot at a time, in
/// the order of [`Adaptive`].
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

    /// Maps take 10 s. J1, J2 and J3 have 7, 12 and 20 of them and goals at 40, 60 and 100 s, where
    /// the last 10 s are left for the last map. So they require 70/30 = 2.33, 120/50 = 2.4 and
    /// 200/90 = 2.22 slots. One map of each job has finished, so that its length is known.
    ///
    /// The first three slots go to J2 (2.4), J1 (2.33) and J3 (2.22). So do the next three (1.4,
    /// 1.33, 1.22), and three more, because 0.4, 0.33 and 0.22 are still lacking. The tenth slot
    /// exceeds all needs: of -0.6, -0.67 and -0.78 that of J2 comes first.
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

    /// A map takes 10 s. J1 (6 maps) is 10 s past its goal, and would finish in 60 s with one slot: it
    /// would be 70 s late, with two slots 40 s, with three 30 s. J2 (3 maps) is 20 s past its goal: 50 s
    /// late with one slot, 35 s with two. A job without a slot is rated as if it had one. Each slot goes
    /// to the job that would be the latest: J1 (70), J1 (70), J2 (50), J2 (50), J1 (40). J3, which is not
    /// late and has no finished map, comes after the late jobs. J4 needs 5 slots for 50 s of work in the
    /// 10 s until its last map must start, and comes after J3. J5 has no goal, and gets what is left.
    #[test]
    fn lateness_evens_out_before_other_jobs_get_slots() {
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

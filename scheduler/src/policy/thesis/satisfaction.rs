//! The satisfaction of every job with a placement, whichever policy made it: figures 4.6 and 4.7b.

use super::utility::{map_utility, reduce_utility};
use crate::model::{JobId, TaskKind};
use crate::policy::matrix::Placement;
use crate::policy::view::{ClusterView, JobView, ReduceStart};
use crate::policy::workload::{Workload, required_slots};

/// Returns the utility of each job by equations (5)-(7) of the thesis, ordered by job. The utility
/// measures whether the job's slots suffice for its goal: it is minus infinity for a job that needs
/// slots for its goal and has none, and 1 for a job all of whose tasks have slots.
#[must_use]
pub fn satisfaction(view: &ClusterView, placement: &Placement) -> Vec<(JobId, f64)> {
    let mut jobs: Vec<&JobView> = view.jobs.iter().collect();
    jobs.sort_unstable_by_key(|job| job.job.id);
    let mut slots = vec![[0_u32; 2]; jobs.len()];
    for cell in placement.cells() {
        if let Ok(at) = jobs.binary_search_by_key(&cell.job, |job| job.job.id) {
            slots[at][cell.kind as usize] += cell.slots;
        }
    }
    (jobs.into_iter().zip(slots))
        .map(|(job, slots)| (job.job.id, satisfaction_with(view, job, slots)))
        .collect()
}

/// Returns the utility of one job, as [`satisfaction`] does. `slots` has its number of slots for
/// maps, then that for reduces.
#[must_use]
pub fn satisfaction_with(view: &ClusterView, job: &JobView, slots: [u32; 2]) -> f64 {
    let workload = Workload::of(view, job);
    let left = f64::from(workload.left);
    let s_req = job.job.goal_s.map_or(0.0, |goal_s| {
        required_slots(workload.work_s(), goal_s, workload.tail_s, view.now_s, left)
    });
    let reduce_part = match view.reduce_start {
        ReduceStart::Overlapped => reduce_utility(
            f64::from(slots[TaskKind::Reduce as usize]),
            f64::from(job.left(TaskKind::Reduce)),
        ),
        ReduceStart::AfterMaps => 0.0,
    };
    map_utility(f64::from(slots[workload.kind as usize]), s_req, left) + reduce_part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeId;
    use crate::policy::example::{three_goals, view};

    /// J1, J2 and J3 have 7, 12 and 20 tasks, and to meet their goals need 70/30, 120/50 and 200/90
    /// slots (seconds of work over seconds until the last task must start). J1 has one slot, J2 one
    /// for each of its 12 tasks, J3 none.
    #[test]
    fn satisfaction_depends_on_the_slots_of_each_job() {
        let view = view(20, 400.0, three_goals());
        let slot = |job| (NodeId(0), JobId(job), TaskKind::Map);
        let mut slots = vec![slot(2); 12];
        slots.push(slot(1));
        let utilities = satisfaction(&view, &Placement::of_slots(slots));
        assert_eq!(
            utilities,
            [
                (JobId(1), -1.0),
                (JobId(2), 1.0),
                (JobId(3), f64::NEG_INFINITY)
            ]
        );
    }
}

//! Places for the jobs that were given up: late, but as early as the other jobs can spare the time.
//!
//! The goal of a job that is late, or will be, no longer shows how urgent the job is. Such a job is
//! planned as early as possible among the kept jobs in order of goals: every kept job behind it
//! must be able to spare the time for its whole work:
//!
//! ```text
//!   kept         J1    J2    J3    J4      by goal
//!   to spare      2     9     7    20      room until the goal - work due by then
//!   from then on  2     7     7    20      work of 5: before J2
//! ```
//!
//! The given-up job with the highest response ratio is planned first: its time in the system so
//! far, divided by the time that its work takes (P. Brinch Hansen, 1971). The ratio of small jobs
//! rises fast, and that of large ones rises with age, so no job waits forever.

use super::on_time::{KeptJob, Load, RoomUntil, unstarted_work};
use super::view::ClusterView;
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;

/// A given-up job, which is expected to miss its goal, and the kept job (one that can meet its
/// goal) before which it gets slots. It may go before a kept job if this job and all later kept
/// ones can spare the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedJob {
    /// Position of the given-up job in the view's list of jobs.
    pub job: usize,
    /// Index, among the kept jobs in order of goals, of the job before which the given-up job gets
    /// slots; the number of kept jobs if it comes after all of them.
    pub before: usize,
}

/// The most given-up jobs (expected to miss their goals) that may get slots before kept jobs (those that can
/// meet theirs): the ones with the highest response ratios. All other given-up jobs come after all kept jobs.
/// The limit bounds the time of a decision.
const PLANNED_MAX: usize = 64;

/// Chooses, for each given-up job, the kept job (one that can meet its goal) before which it gets
/// slots. `given_up` has the jobs' positions in the view. The result is sorted by
/// [`PlannedJob::before`]. Where that is equal, the job with the highest response ratio comes
/// first: the time since its submission times its weight, divided by the time that it needs on the
/// whole cluster.
pub(super) fn plan_given_up(
    view: &ClusterView,
    room: &RoomUntil<'_>,
    kept: &[KeptJob],
    given_up: Vec<usize>,
) -> Vec<PlannedJob> {
    let nodes = view.nodes.iter();
    let all_hundredths = nodes
        .map(|node| f64::from(node.capacity.cpu_hundredths))
        .sum();
    let mut ranked: Vec<RankedJob> = (given_up.into_iter())
        .map(|job| RankedJob::of(view, all_hundredths, job))
        .collect();
    ranked.sort_by_key(|ranked| {
        let id = view.jobs[ranked.job].job.id;
        (Reverse(OrderedF64(ranked.response_ratio)), id)
    });
    let mut spare = spare_from(room, kept);
    let mut planned: Vec<PlannedJob> = Vec::with_capacity(ranked.len());
    for (rank, RankedJob { job, work, .. }) in ranked.into_iter().enumerate() {
        let mut before = kept.len();
        if rank < PLANNED_MAX {
            before = spare.partition_point(|&spare| spare < work);
            for spare in &mut spare[before..] {
                *spare -= work;
            }
            if let Some(&least) = spare.get(before) {
                for spare in &mut spare[..before] {
                    *spare = spare.min(least);
                }
            }
        }
        planned.push(PlannedJob { job, before });
    }
    planned.sort_by_key(|planned| planned.before);
    planned
}

/// Returns, for each kept job, how much additional work could be done before it so that neither it
/// nor any later kept job misses its goal; in hundredths of a core times seconds.
fn spare_from(room: &RoomUntil<'_>, kept: &[KeptJob]) -> Vec<f64> {
    let mut load = Load::default();
    let mut spare: Vec<f64> = (kept.iter())
        .map(|kept| {
            load.add(&kept.due);
            load.left(room, kept.due.goal_s, kept.due.task_s)
        })
        .collect();
    for at in (1..spare.len()).rev() {
        spare[at - 1] = spare[at - 1].min(spare[at]);
    }
    spare
}

struct RankedJob {
    job: usize,
    work: f64,
    response_ratio: f64,
}

impl RankedJob {
    fn of(view: &ClusterView, all_hundredths: f64, job: usize) -> Self {
        let one = &view.jobs[job];
        let work = unstarted_work(view, one);
        // A job without work would divide by zero; a cycle is the least that counts.
        let alone_s = (work / all_hundredths.max(1.0)).max(view.cycle_s);
        Self {
            job,
            work,
            response_ratio: one.job.weight * (view.now_s - one.job.submitted_s) / alone_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, view};
    use super::super::on_time::{DueWork, keep_on_time};
    use super::super::workload::Workload;
    use super::*;

    fn places(view: &ClusterView) -> Vec<(u64, usize)> {
        let due_work = (view.jobs.iter().enumerate())
            .filter_map(|(index, job)| DueWork::of(view, index, &Workload::of(view, job)));
        let room = RoomUntil::of(view);
        let kept = keep_on_time(&room, due_work.collect());
        let is_kept = |job: &usize| kept.iter().any(|kept| kept.due.job == *job);
        let given_up = (0..view.jobs.len()).filter(|job| !is_kept(job)).collect();
        (plan_given_up(view, &room, &kept, given_up).into_iter())
            .map(|planned| (view.jobs[planned.job].job.id.0, planned.before))
            .collect()
    }

    /// Four slots, and maps of 10 s. J1 to J4 can meet their goals:
    ///
    /// | job | maps possible by its goal | maps due by then | maps to spare |
    /// | --- | --- | --- | --- |
    /// | J1 | 8 | 6 | 2 |
    /// | J2 | 16 | 7 | 9 |
    /// | J3 | 24 | 17 | 7 |
    /// | J4 | 40 | 20 | 20 |
    ///
    /// J9 is late and has 5 maps. It goes before J2, the first job from which on all can spare 5
    /// maps. This leaves 4, 2 and 15 maps to spare for J2, J3 and J4. J8 is late and has 3 maps, so
    /// it goes before J4.
    #[test]
    fn a_late_job_goes_before_kept_jobs_that_can_all_wait() {
        let jobs = vec![
            job(1, 0.0, Some(20.0), 6),
            job(2, 0.0, Some(40.0), 1),
            job(3, 0.0, Some(60.0), 10),
            job(4, 0.0, Some(100.0), 3),
            job(9, -100.0, Some(-50.0), 5),
        ];
        let mut view = view(4, 400.0, jobs);
        assert_eq!(places(&view), [(9, 1)]);
        view.jobs.push(job(8, -10.0, Some(-5.0), 3));
        assert_eq!(places(&view), [(9, 1), (8, 3)]);
        view.jobs.push(job(7, -10.0, Some(-5.0), 50));
        assert_eq!(places(&view), [(9, 1), (8, 3), (7, 4)]);
    }

    /// Late jobs are ordered by the time since their submission, divided by the time that their
    /// maps take on all four slots: 100 s for the 40 maps of J1, 10 s for the 4 maps of J2. If J1
    /// was submitted 50 s ago and J2 10 s ago, the ratios are 1/2 and 1, and J2 comes first; after
    /// 350 and 20 s they are 3.5 and 2, and J1 comes first.
    #[test]
    fn small_jobs_rise_fast_and_large_ones_with_age() {
        let order = |first_s: f64, second_s: f64| {
            let jobs = vec![
                job(1, -first_s, Some(-1.0), 40),
                job(2, -second_s, Some(-1.0), 4),
            ];
            let order = places(&view(4, 400.0, jobs));
            order.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(order(50.0, 10.0), [2, 1]);
        assert_eq!(order(350.0, 20.0), [1, 2]);
    }
}

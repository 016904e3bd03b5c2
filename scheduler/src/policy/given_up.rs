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

/// A given-up job, which is expected to miss its goal. It still gets slots, before those jobs with
/// reachable goals (kept on time) that can all spare the time for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedJob {
    /// Position of the job in the view.
    pub job: usize,
    /// Position, among the jobs that are kept on time, of the job before which the given-up job is
    /// placed; the number of these jobs if the given-up job comes after all of them.
    pub before: usize,
}

/// The most given-up jobs that get a place among the jobs that are kept on time; the others follow
/// behind all of these.
const PLANNED_MAX: usize = 64;

/// Chooses for each given-up job the kept job that it comes before. `given_up` has the jobs'
/// positions in the view. The result is sorted by [`PlannedJob::before`], and by response ratio
/// where that is equal.
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

/// Returns, for each kept job, the most work that could be done before it while it and all later
/// kept jobs still met their goals.
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

    /// Four slots, and maps of 10 s. J1 to J4 meet their goals. Until these there is room for 8,
    /// 16, 24 and 40 maps, and the maps due by then are 6, 7, 17 and 20, so 2, 9, 7 and 20 can be
    /// spared. J9 is late and needs 5 maps. It goes before J2, the first job from which on all jobs
    /// can spare 5. This leaves 4, 2 and 15 from J2 on. J8 is late and needs 3, so it goes before
    /// J4.
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

    /// J1 has 40 maps, which take 100 s on four slots; J2 has 4 maps, which take 10 s. If J1 was
    /// submitted 50 s ago and J2 10 s ago, the ratios of their waits to these times are 1/2 and 1;
    /// after 350 and 20 s they are 3.5 and 2.
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

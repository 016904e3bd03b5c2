//! Conversion of a placement to shares: the CPU that each job may use until the next cycle.

use crate::model::{Job, JobId};
use crate::ordered_f64::OrderedF64;

/// The most CPU that one task can use: it runs on one thread.
pub(in crate::runtime) const TASK_HUNDREDTHS_MAX: u32 = 100;

/// A job that needs a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claimant {
    /// The job's id, submission time and goal.
    pub job: Job,
    /// The number of slots that the policy's placement gives to the job.
    pub slots: u32,
    /// The number of running tasks, plus the number of tasks that could start beside them now.
    pub runnable_tasks: u32,
    /// The number of second attempts at slow tasks that could run beside the `runnable_tasks`.
    pub speculative: u32,
}

/// Converts the slots of each claimant, of `slot_share_hundredths` each, to a share in hundredths
/// of a core. The result has the order of `claimants`.
///
/// Every job gets its slots, as far as its tasks can use them. The rest of the capacity (fractions
/// of a slot, or slots that no job has enough tasks for) goes to the job with the earliest goal, as
/// far as its tasks can use it, then to the next one; of equal goals, the oldest job comes first.
/// If tasks cannot use all of it, the rest goes to second attempts at slow tasks. The sum of the
/// shares is the capacity, or the CPU that tasks and second attempts can use, whichever is less.
#[must_use]
pub fn shares(
    capacity_hundredths: u32,
    slot_share_hundredths: u32,
    claimants: &[Claimant],
) -> Vec<(JobId, u32)> {
    let mut order: Vec<usize> = (0..claimants.len()).collect();
    order.sort_by_key(|&at| {
        let job = &claimants[at].job;
        (OrderedF64(job.goal_s.unwrap_or(f64::INFINITY)), job.age())
    });
    let usable = |claimant: &Claimant| claimant.runnable_tasks.saturating_mul(TASK_HUNDREDTHS_MAX);

    let mut granted = vec![0_u32; claimants.len()];
    let mut left = capacity_hundredths;
    for &index in &order {
        let claimant = &claimants[index];
        let placed = claimant.slots.saturating_mul(slot_share_hundredths);
        granted[index] = placed.min(usable(claimant)).min(left);
        left -= granted[index];
    }
    for &index in &order {
        let more = (usable(&claimants[index]) - granted[index]).min(left);
        granted[index] += more;
        left -= more;
    }
    for &index in &order {
        let speculative = claimants[index].speculative;
        let more = speculative.saturating_mul(TASK_HUNDREDTHS_MAX).min(left);
        granted[index] += more;
        left -= more;
    }
    claimants
        .iter()
        .zip(granted)
        .map(|(claimant, share)| (claimant.job.id, share))
        .collect()
}

/// The part of a core that a task on the floor (in the ordinary class with nice value 5 or 10) gets
/// at least beside a busy thread of another process, in hundredths. The kernel gives nice 10, for long
/// time slices, a weight of 110, and nice 0 one of 1,024. With short slices, nice 5 and yields it is a
/// seventh of the core.
const FLOOR_TASK_HUNDREDTHS: u32 = 10;

/// Returns the number of tasks of a job that may run at once, at most `cores`: as many as the cores
/// that its share fills, rounded up, and one more, so that a job does not depend on a single core
/// that may be busy. All of them together are paced to the share. 0 without a share.
pub(in crate::runtime) fn concurrency(share_hundredths: u32, cores: u32) -> u32 {
    match share_hundredths {
        0 => 0,
        share => (share.div_ceil(TASK_HUNDREDTHS_MAX) + 1).min(cores),
    }
}

/// Returns the number of tasks of a job that may run at once on the floor (in the ordinary class
/// with a high nice value): as many as use up the share, because each task gets only a part of a
/// busy core.
pub(in crate::runtime) fn floor_concurrency(share_hundredths: u32) -> u32 {
    share_hundredths.div_ceil(FLOOR_TASK_HUNDREDTHS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;

    fn claimant(id: u64, goal_s: Option<f64>, slots: u32, runnable_tasks: u32) -> Claimant {
        Claimant {
            job: Job::new(JobId(id), 0.0, goal_s),
            slots,
            runnable_tasks,
            speculative: 0,
        }
    }

    fn grant(capacity: u32, claimants: &[Claimant]) -> Vec<u32> {
        shares(capacity, 10, claimants)
            .into_iter()
            .map(|(_, share)| share)
            .collect()
    }

    #[test]
    fn a_job_runs_on_one_core_more_than_its_share_fills() {
        for (share, cores, tasks) in [
            (0, 2, 0),
            (10, 2, 2),
            (100, 2, 2),
            (130, 2, 2),
            (10, 1, 1),
            (130, 8, 3),
        ] {
            assert_eq!(
                concurrency(share, cores),
                tasks,
                "a share of {share} on {cores} cores"
            );
        }
    }

    #[test]
    fn on_the_floor_as_many_tasks_run_as_use_up_the_share() {
        let tasks = [0, 1, 10, 15, 60].map(floor_concurrency);
        assert_eq!(tasks, [0, 1, 1, 2, 6]);
    }

    #[test]
    fn slots_become_shares_and_the_rest_goes_to_the_earliest_goal() {
        let jobs = [
            claimant(1, Some(90.0), 6, 5),
            claimant(2, Some(50.0), 12, 5),
        ];
        assert_eq!(grant(195, &jobs), [60, 135]);
    }

    #[test]
    fn one_task_uses_one_core_and_the_next_job_gets_the_rest() {
        let jobs = [
            claimant(1, Some(10.0), 1, 1),
            claimant(2, None, 0, 3),
            claimant(3, None, 0, 3),
        ];
        assert_eq!(grant(200, &jobs), [100, 100, 0]);
        assert_eq!(grant(450, &jobs), [100, 300, 50]);
    }

    #[test]
    fn slots_that_tasks_cannot_use_go_to_the_next_job() {
        let jobs = [
            claimant(1, Some(10.0), 40, 1),
            claimant(2, Some(20.0), 0, 9),
        ];
        assert_eq!(grant(400, &jobs), [100, 300]);
    }

    #[test]
    fn speculation_gets_the_cpu_that_no_task_can_use() {
        let mut jobs = [
            claimant(1, Some(10.0), 10, 1),
            claimant(2, Some(20.0), 0, 2),
        ];
        jobs[0].speculative = 1;
        assert_eq!(grant(300, &jobs), [100, 200]);
        assert_eq!(grant(350, &jobs), [150, 200]);
        assert_eq!(grant(900, &jobs), [200, 200]);
    }

    #[test]
    fn shares_fill_the_capacity_exactly_and_never_exceed_it() {
        let mut rng = test_rng(41);
        for _ in 0..2000 {
            let capacity = rng.random_range(0..1600);
            let jobs: Vec<Claimant> = (0..rng.random_range(0..8))
                .map(|id| {
                    let goal_s = rng.random_bool(0.5).then(|| rng.random_range(0.0..100.0));
                    claimant(id, goal_s, rng.random_range(0..40), rng.random_range(0..6))
                })
                .collect();
            let granted = grant(capacity, &jobs);
            let usable: u32 = jobs.iter().map(|job| job.runnable_tasks * 100).sum();
            assert_eq!(granted.iter().sum::<u32>(), capacity.min(usable));
            assert!(
                granted
                    .iter()
                    .zip(&jobs)
                    .all(|(share, job)| *share <= job.runnable_tasks * 100)
            );
        }
    }
}

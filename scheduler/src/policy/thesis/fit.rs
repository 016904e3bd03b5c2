//! The reverse fit, the thesis's Algorithm 2: tasks are placed as late before their goals as the
//! capacity allows, to find those that must run now.
//!
//! Goals divide the future into intervals. The walk goes from the last interval to the first. Each
//! interval takes as many tasks as it has room for, of the jobs whose goal is not before its end,
//! the latest goal first. Tasks that are left when the walk arrives at the end of the coming
//! control cycle cannot wait: they are s_fit, the least number of tasks to run now.
//!
//! ```text
//!        now  cycle      D1            D2            D3
//!         |----|----------|-------------|-------------|
//!                J3 J2 J1      J3 J2          J3
//!                <──────────── the walk ──────────────
//! ```

use crate::availability::Availability;
use std::collections::VecDeque;

/// A job whose tasks [`reverse_fit`] places as late before its goal as the capacity allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitJob {
    /// Completion time goal in seconds.
    pub goal_s: f64,
    /// Number of tasks without a slot; fractions are parts of a task.
    pub pending_tasks: f64,
    /// CPU work of one task, in hundredths of a core times seconds: 3,000 for a task that takes a
    /// core for 30 s.
    pub task_work: f64,
}

/// A stretch of the future between two goals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The start of the interval, in seconds: the goal before it, or, for the first interval, the
    /// end of the coming control cycle.
    pub from_s: f64,
    /// The end of the interval in seconds.
    pub until_s: f64,
    /// Capacity for new tasks, in hundredths of a core times seconds: the integral of f(t), the
    /// capacity left to analytics, over the interval, minus the remaining work of running tasks.
    pub free_work: f64,
    /// Work that [`reverse_fit`], which plans backwards from the goals, has assigned to this
    /// interval, in hundredths of a core times seconds; never more than `free_work`.
    pub placed_work: f64,
}

/// The result of [`reverse_fit`], which places each task as late before its job's goal as the
/// capacity allows: the tasks that must run now so that all goals can be met.
#[derive(Clone, Debug, PartialEq)]
pub struct ReverseFit {
    /// The number of tasks of each job for which no later interval has capacity, so that they have
    /// to run in the coming cycle; in the order of the input. For a job past its goal these are all
    /// its tasks.
    pub now_tasks: Vec<f64>,
    /// The intervals between the goals of the jobs, earliest first.
    pub intervals: Vec<Interval>,
}

/// Places the tasks of each job as late before its goal as the capacity allows, from the last
/// interval to the first, for a control cycle of `cycle_s` that starts at `now_s`. This is the
/// thesis's Algorithm 2.
///
/// `running_work` is the remaining work of running tasks, in hundredths of a core times seconds; it
/// uses up the availability from now on, earliest first. Jobs with equal goals are fitted in reverse
/// order of the input, so that the first of them runs first.
#[must_use]
pub fn reverse_fit(
    now_s: f64,
    cycle_s: f64,
    availability: &Availability,
    running_work: f64,
    jobs: &[FitJob],
) -> ReverseFit {
    let mut order: Vec<usize> = (0..jobs.len())
        .filter(|&job| jobs[job].goal_s > now_s)
        .collect();
    order.sort_by(|&a, &b| jobs[a].goal_s.total_cmp(&jobs[b].goal_s).then(a.cmp(&b)));

    let mut intervals = intervals_between_goals(
        now_s,
        now_s + cycle_s,
        availability,
        running_work,
        order.iter().map(|&job| jobs[job].goal_s),
    );
    let mut left: Vec<f64> = jobs.iter().map(|job| job.pending_tasks).collect();
    // P in the order of insertion, without jobs that have no tasks left. If a job does not fit in
    // an interval, the jobs behind it do not fit either.
    let mut waiting: VecDeque<usize> = VecDeque::new();
    for position in (0..order.len()).rev() {
        waiting.push_back(order[position]);
        while let Some(&job) = waiting.front() {
            let fitted = intervals[position].fit(left[job], jobs[job].task_work);
            if fitted < left[job] {
                left[job] -= fitted;
                break;
            }
            left[job] = 0.0;
            waiting.pop_front();
        }
    }
    ReverseFit {
        now_tasks: left,
        intervals,
    }
}

impl Interval {
    /// Takes free capacity of this interval for up to `tasks` tasks of `task_work` each, and
    /// returns the number of tasks that fit; fractions are parts of a task. This is the function
    /// fit(p, a, b) of the thesis.
    fn fit(&mut self, tasks: f64, task_work: f64) -> f64 {
        let work = tasks * task_work;
        let room = (self.free_work - self.placed_work).max(0.0);
        if work <= room {
            self.placed_work += work;
            tasks
        } else {
            self.placed_work = self.free_work;
            room / task_work
        }
    }
}

/// Divides the time from `first_from_s`, the end of the coming cycle, into one interval per goal,
/// which ends at the goal; `goals_s` ascend. The capacity of the intervals is the availability
/// minus `running_work`, the rest of the running tasks: these take all availability from `now_s`
/// on, until their work is done.
fn intervals_between_goals(
    now_s: f64,
    first_from_s: f64,
    availability: &Availability,
    running_work: f64,
    goals_s: impl Iterator<Item = f64>,
) -> Vec<Interval> {
    let mut held = (running_work - availability.integral(now_s, first_from_s)).max(0.0);
    let mut from_s = first_from_s;
    goals_s
        .map(|goal_s| {
            let until_s = goal_s.max(from_s);
            let available = availability.integral(from_s, until_s);
            let interval = Interval {
                from_s,
                until_s,
                free_work: (available - held).max(0.0),
                placed_work: 0.0,
            };
            held = (held - available).max(0.0);
            from_s = until_s;
            interval
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;

    fn job(goal_s: f64, pending_tasks: f64) -> FitJob {
        FitJob {
            goal_s,
            pending_tasks,
            task_work: 1000.0,
        }
    }

    /// Fits the jobs into four cores, for a cycle of 10 s from `now_s` on.
    fn fit(now_s: f64, running_work: f64, jobs: &[FitJob]) -> ReverseFit {
        let f = Availability::constant(400.0).unwrap();
        reverse_fit(now_s, 10.0, &f, running_work, jobs)
    }

    /// Four slots of a core; tasks take 10 s. Goals at 40, 60 and 100 s, the
    /// coming cycle ends at 10 s.
    ///
    /// [60, 100] has room for 16: J3's 20 leave 4. [40, 60] has room for 8: J3
    /// takes 4, J2's 12 leave 8. [10, 40] has room for 12: J2 takes 8, J1 4 of
    /// its 7. So J1 has to run 3 tasks now, the others none.
    #[test]
    fn a_walk_by_hand() {
        let jobs = [job(40.0, 7.0), job(60.0, 12.0), job(100.0, 20.0)];
        let fit = fit(0.0, 0.0, &jobs);
        assert_eq!(fit.now_tasks, [3.0, 0.0, 0.0]);
        let rooms: Vec<f64> = fit.intervals.iter().map(|i| i.free_work / 1000.0).collect();
        assert_eq!(rooms, [12.0, 8.0, 16.0]);
        assert!(fit.intervals.iter().all(|i| i.placed_work == i.free_work));
    }

    /// Goals and tasks as in [`a_walk_by_hand`], beside running tasks that need another 50 seconds
    /// of a core. 40 of these are done in the coming cycle, by four cores in 10 s. The remaining 10
    /// take capacity after the cycle, so one task of 10 s less fits until the first goal, at 40 s.
    #[test]
    fn running_tasks_use_up_the_earliest_room() {
        let jobs = [job(40.0, 7.0), job(60.0, 12.0), job(100.0, 20.0)];
        assert_eq!(fit(0.0, 5000.0, &jobs).now_tasks, [4.0, 0.0, 0.0]);
    }

    #[test]
    fn a_job_past_its_goal_or_inside_the_cycle_runs_everything_now() {
        let jobs = [job(50.0, 5.0), job(55.0, 6.0), job(70.0, 4.0)];
        assert_eq!(fit(50.0, 0.0, &jobs).now_tasks, [5.0, 6.0, 0.0]);
    }

    #[test]
    fn the_walk_never_over_commits_an_interval() {
        let mut rng = test_rng(23);
        for _ in 0..500 {
            let f = Availability::constant(rng.random_range(0.0..1000.0)).unwrap();
            let jobs: Vec<FitJob> = (0..rng.random_range(1..12))
                .map(|_| FitJob {
                    goal_s: f64::from(rng.random_range(-5..30_i32)) * 10.0,
                    pending_tasks: f64::from(rng.random_range(0..40_u32)),
                    task_work: rng.random_range(1.0..5000.0),
                })
                .collect();
            let fit = reverse_fit(0.0, 10.0, &f, rng.random_range(0.0..2000.0), &jobs);
            for i in &fit.intervals {
                assert!(i.placed_work <= i.free_work && i.from_s >= 10.0, "{i:?}");
            }
            let total: f64 = jobs.iter().map(|j| j.pending_tasks * j.task_work).sum();
            let now = fit.now_tasks.iter().zip(&jobs);
            let now: f64 = now.map(|(n, j)| n * j.task_work).sum();
            let later: f64 = fit.intervals.iter().map(|i| i.placed_work).sum();
            assert!((total - now - later).abs() < 1e-6 * total.max(1.0));
            assert!(fit.now_tasks.iter().all(|&n| n >= -1e-9));
        }
    }
}

//! The sizes of the jobs, chosen so that a schedule that meets every goal exists, with room to
//! spare. Pure arithmetic on measured costs.

use ebb_scheduler::availability::Availability;

use super::day::Day;

/// The work of the job without a goal, as a fraction of the whole day's capacity.
const EXTRA: f64 = 0.04;
/// The approximate number of tasks of a job.
const TASKS_PER_JOB: f64 = 100.0;
/// The least and the most CPU time of a task, in seconds. The number of tasks differs from
/// [`TASKS_PER_JOB`] where these limits require it.
const TASK_CPU_S: (f64, f64) = (0.02, 0.2);

/// The goals of the motivating example (Polo 2014, 5.3.2), as hours of the day,
/// ascending.
pub const GOAL_HOURS: [f64; 3] = [6.5, 15.0, 23.1];
/// The hour at which the job without a goal is submitted.
pub const EXTRA_HOUR: f64 = 4.0;

/// The sizes of the jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// CPU time of each job with a goal, in seconds.
    pub job_cpu_s: f64,
    /// CPU time of the job without a goal, in seconds.
    pub extra_cpu_s: f64,
    /// CPU time that a task should take, in seconds.
    pub task_cpu_s: f64,
}

impl Plan {
    /// Sizes the jobs by `forecast` (hundredths of a core). All jobs with a goal have the same
    /// size: the largest such that, for each goal, the jobs due by then need at most the fraction
    /// `filled` of the capacity before the goal.
    pub fn new(day: Day, forecast: &Availability, filled: f64) -> Self {
        let cpu_s_before = |hour: f64| forecast.integral(0.0, day.seconds_of(hour)) / 100.0;
        let fits = |(i, hour): (usize, &f64)| cpu_s_before(*hour) / (i + 1) as f64;
        let job_cpu_s = filled
            * GOAL_HOURS
                .iter()
                .enumerate()
                .map(fits)
                .fold(f64::INFINITY, f64::min);
        Self {
            job_cpu_s,
            extra_cpu_s: EXTRA * cpu_s_before(super::day::HOURS),
            task_cpu_s: (job_cpu_s / TASKS_PER_JOB).clamp(TASK_CPU_S.0, TASK_CPU_S.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_colocate::FLOOR_CORES;

    use super::super::day::LoadCost;
    use super::*;

    #[test]
    fn the_work_before_every_goal_leaves_slack() {
        let day = Day { seconds: 60.0 };
        let cost = LoadCost {
            peak_cores: 1.2,
            idle_cores: 0.02,
            peak_ops_per_s: 50_000.0,
        };
        let forecast = cost.forecast(day, 2, 0.1, 1.0).unwrap();
        for filled in [0.8, 0.95] {
            let plan = Plan::new(day, &forecast, filled);
            let part = |(i, hour): (usize, &f64)| {
                let room = forecast.integral(0.0, day.seconds_of(*hour)) / 100.0;
                plan.job_cpu_s * (i + 1) as f64 / room
            };
            let most = GOAL_HOURS.iter().enumerate().map(part).fold(0.0, f64::max);
            assert!((most - filled).abs() < 1e-9, "{most}");
        }
    }

    /// The demo once sized its jobs to nothing where other processes held all cores, and reported
    /// that all goals were met.
    #[test]
    fn beside_busy_processes_jobs_fill_a_third_of_the_day_on_the_floor() {
        let day = Day { seconds: 60.0 };
        let cost = LoadCost {
            peak_cores: 1.0,
            idle_cores: 0.02,
            peak_ops_per_s: 50_000.0,
        };
        let (reserve_cores, others_cores, counted_on) = (0.1, 2.0, 0.75);
        let forecast = cost.forecast(day, 2, reserve_cores + others_cores, counted_on);
        let plan = Plan::new(day, &forecast.unwrap(), 0.8);
        let on_the_floor_s = 3.0 * plan.job_cpu_s / FLOOR_CORES;
        assert!(on_the_floor_s > day.seconds / 3.0, "{plan:?}");
        assert!(on_the_floor_s < day.seconds, "{plan:?}");
    }
}

//! The part of its shares that a job really uses.
//!
//! A task that waits for the disk, or for a core that the load has at that moment, uses less CPU
//! than its job was granted. Predictions use the ratio of the last seconds for the seconds to come.
//!
//! Cycles in which a job ran out of tasks do not count. The share of such a cycle goes partly
//! unused because of the ends of tasks, which a look ahead models itself; with them in the ratio,
//! the look ahead would count this loss twice. Nor do cycles with a share for second attempts
//! count, which no look ahead models. All other cycles of a job with few tasks count, because its
//! share is never larger than these tasks can use.

use super::shares::TASK_HUNDREDTHS_MAX;

/// The time constant of the average of granted and used CPU time, in seconds. Time in which the job
/// has no share does not count. The constant is long compared with a burst of the token bucket, and
/// short compared with a job.
const LATELY_S: f64 = 10.0;
/// The weight of the usual ratio in the estimate of one job's ratio of used to granted CPU time: it
/// counts as much as a grant of this many core-seconds to the job itself. The usual ratio is that
/// of all jobs together. Before the job's first measurement, the estimate is the usual ratio.
const BELIEVED_CPU_S: f64 = 0.5;
/// A limit for the sum of the CPU time granted to jobs, in core-seconds. This sum, and that of the
/// CPU time that these jobs used, give the usual ratio. If the granted sum is above the limit, both
/// sums are halved before another job is added, so later jobs have more weight.
const USUAL_CPU_S: f64 = 100.0;
/// The least ratio of used to granted CPU time that predictions assume. A job with a lower ratio
/// is probably stalled for a while, and will use more later.
const RATIO_MIN: f64 = 0.05;

/// The CPU time that a job was granted and used, in seconds. Older cycles have less weight in the
/// sums.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::runtime) struct GrantUse {
    turned_s: Option<f64>,
    used_before_s: f64,
    granted_cpu_s: f64,
    used_cpu_s: f64,
}

impl GrantUse {
    /// Adds the time from the last call to `now_s`. The job had the share `share_hundredths` in
    /// that time. `runnable_tasks` is the number of tasks that the job can run now. `used_cpu_s` is
    /// the CPU time that the job has used since its start. The time does not count if the share was
    /// 0, or more than the runnable tasks can use.
    pub fn turn(
        &mut self,
        now_s: f64,
        share_hundredths: u32,
        runnable_tasks: u32,
        used_cpu_s: f64,
    ) {
        let length_s = now_s - self.turned_s.replace(now_s).unwrap_or(now_s);
        let used_s = used_cpu_s - std::mem::replace(&mut self.used_before_s, used_cpu_s);
        let usable_hundredths = runnable_tasks.saturating_mul(TASK_HUNDREDTHS_MAX);
        if share_hundredths == 0 || usable_hundredths < share_hundredths || length_s <= 0.0 {
            return;
        }
        let keep = (-length_s / LATELY_S).exp();
        let granted_s = length_s * f64::from(share_hundredths) / 100.0;
        self.granted_cpu_s = self.granted_cpu_s * keep + granted_s;
        self.used_cpu_s = self.used_cpu_s * keep + used_s.max(0.0);
    }

    /// Returns CPU time used divided by CPU time granted, 0.05 to 1. `usual` is the usual ratio of
    /// jobs, which counts most while little was granted to this job.
    pub fn ratio(&self, usual: f64) -> f64 {
        let used_s = self.used_cpu_s + BELIEVED_CPU_S * usual;
        (used_s / (self.granted_cpu_s + BELIEVED_CPU_S)).clamp(RATIO_MIN, 1.0)
    }

    /// Adds the CPU time that another job was granted and used.
    pub fn add(&mut self, other: &Self) {
        if self.granted_cpu_s > USUAL_CPU_S {
            self.granted_cpu_s /= 2.0;
            self.used_cpu_s /= 2.0;
        }
        self.granted_cpu_s += other.granted_cpu_s;
        self.used_cpu_s += other.used_cpu_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The job always has just enough tasks to use up its share.
    #[test]
    fn recent_use_of_shares_counts_and_pauses_do_not() {
        let mut grant_use = GrantUse::default();
        assert_eq!(grant_use.ratio(1.0), 1.0);
        assert_eq!(grant_use.ratio(0.9), 0.9);
        let (mut now_s, mut used_s) = (0.0, 0.0);
        let mut run = |grant_use: &mut GrantUse, share: u32, of_it: f64, seconds: u32| {
            for _ in 0..seconds * 4 {
                now_s += 0.25;
                used_s += 0.25 * f64::from(share) / 100.0 * of_it;
                let tasks = share.div_ceil(TASK_HUNDREDTHS_MAX);
                grant_use.turn(now_s, share, tasks, used_s);
            }
            grant_use.ratio(1.0)
        };
        let whole = run(&mut grant_use, 100, 1.0, 60);
        assert!(whole > 0.99, "{whole}");
        let half = run(&mut grant_use, 150, 0.5, 60);
        assert!((0.49..0.53).contains(&half), "{half}");
        let paused = run(&mut grant_use, 0, 0.0, 600);
        assert_eq!(paused, half);
        assert_eq!(run(&mut grant_use, 100, 0.0, 600), RATIO_MIN);
    }

    /// A job uses nine tenths of its share, and in every fourth cycle a task ends early and none
    /// follows.
    #[test]
    fn cycles_in_which_a_job_ran_out_of_tasks_do_not_count() {
        let mut grant_use = GrantUse::default();
        let mut used_s = 0.0;
        for cycle in 0..400 {
            let (tasks, of_it) = if cycle % 4 == 0 { (1, 0.3) } else { (2, 0.9) };
            used_s += 0.25 * 1.9 * of_it;
            grant_use.turn(0.25 * f64::from(cycle), 190, tasks, used_s);
        }
        let ratio = grant_use.ratio(0.9);
        assert!((ratio - 0.9).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn the_usual_ratio_is_that_of_the_latest_jobs() {
        let job = |used_cpu_s| GrantUse {
            granted_cpu_s: 10.0,
            used_cpu_s,
            ..GrantUse::default()
        };
        let mut usual = GrantUse::default();
        (0..100).for_each(|_| usual.add(&job(5.0)));
        assert!((0.5..0.51).contains(&usual.ratio(1.0)), "{usual:?}");
        (0..100).for_each(|_| usual.add(&job(9.0)));
        assert!((0.89..0.91).contains(&usual.ratio(1.0)), "{usual:?}");
    }
}

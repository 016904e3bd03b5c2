//! What a simulated run comes to, in a few numbers.

use super::report::{JobRecord, SimReport};
use serde::Serialize;

/// Numbers over the jobs that were submitted or finished within the window, as
/// the thesis counts (section 5.3.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Such jobs.
    pub jobs: u32,
    /// Of those, jobs with a goal.
    pub with_goal: u32,
    /// Of those, jobs that missed it.
    pub missed: u32,
    /// `missed` of `with_goal`, 0 to 1; 0 without goals.
    pub missed_fraction: f64,
    /// Jobs with a goal that were submitted within the window and missed it: not
    /// those from before it, of which a policy that lets them wait sees more. What
    /// [`offline_bound`](crate::planning::offline_bound) bounds.
    pub missed_of_submitted: u32,
    /// Jobs not finished when the run ended.
    pub unfinished: u32,
    /// Mean time beyond the goal of the jobs that missed it, in seconds; an
    /// unfinished one counts as if it had finished when the run ended.
    pub beyond_s: f64,
    /// Mean time that was left until the goal for the jobs that met it, in
    /// seconds.
    pub distance_s: f64,
    /// Mean tardiness of the jobs with a goal that were submitted within the window, met
    /// or not, in seconds: max(0, end - goal); an unfinished one counts as if it had
    /// finished when the run ended.
    pub tardiness_s: f64,
    /// What 99% of those jobs' tardiness does not exceed, in seconds (nearest rank).
    pub tardiness_p99_s: f64,
    /// CPU that tasks held of what f(t) left within the window. Tasks that drain
    /// where f(t) fell can bring it above 1.
    pub utilisation: f64,
    /// Attempts of maps that ran where their input lay, 0 to 1.
    pub locality: f64,
    /// What remote maps read over the network, in bytes.
    pub remote_bytes: u64,
    /// End of the last job, in seconds.
    pub makespan_s: f64,
}

impl Metrics {
    /// Of one run.
    #[must_use]
    pub fn of(report: &SimReport) -> Self {
        let (from_s, until_s) = report.window_s;
        let within = |t_s: f64| (from_s..=until_s).contains(&t_s);
        let counted: Vec<&JobRecord> = (report.jobs.iter())
            .filter(|job| within(job.job.submitted_s) || job.finished_s.is_some_and(within))
            .collect();
        let end_s = |job: &JobRecord| job.finished_s.unwrap_or(report.end_s);
        // How long after its goal a job finished; negative before it.
        let late_s = |met: bool| -> Vec<f64> {
            (counted.iter().filter(|job| job.met == Some(met)))
                .filter_map(|job| Some(end_s(job) - job.job.goal_s?))
                .collect()
        };
        let (beyond, distance) = (late_s(false), late_s(true));
        let mut tardiness: Vec<f64> = (counted.iter())
            .filter(|job| within(job.job.submitted_s))
            .filter_map(|job| Some((end_s(job) - job.job.goal_s?).max(0.0)))
            .collect();
        tardiness.sort_by(f64::total_cmp);
        let with_goal = beyond.len() + distance.len();
        let maps = |of: fn(&JobRecord) -> u32| counted.iter().map(|job| of(job)).sum::<u32>();
        let (local, remote) = (maps(|job| job.local_maps), maps(|job| job.remote_maps));
        Self {
            jobs: counted.len() as u32,
            with_goal: with_goal as u32,
            missed: beyond.len() as u32,
            missed_fraction: ratio(beyond.len() as f64, with_goal as f64),
            missed_of_submitted: (counted.iter())
                .filter(|job| job.met == Some(false) && within(job.job.submitted_s))
                .count() as u32,
            unfinished: counted
                .iter()
                .filter(|job| job.finished_s.is_none())
                .count() as u32,
            beyond_s: ratio(beyond.iter().sum(), beyond.len() as f64).max(0.0),
            distance_s: -ratio(distance.iter().sum(), distance.len() as f64),
            tardiness_s: ratio(tardiness.iter().sum(), tardiness.len() as f64),
            tardiness_p99_s: p99(&tardiness),
            utilisation: ratio(report.work_in_window, report.available_in_window),
            locality: ratio(f64::from(local), f64::from(local + remote)),
            remote_bytes: counted.iter().map(|job| job.remote_bytes).sum(),
            makespan_s: (report.jobs.iter().filter_map(|job| job.finished_s)).fold(0.0, f64::max),
        }
    }
}

/// The least of `sorted` that 99% do not exceed; 0 of none.
fn p99(sorted: &[f64]) -> f64 {
    let rank = (0.99 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A mean over replicas and how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Standard deviation between replicas; 0 for one.
    pub sd: f64,
    /// Half the width of the 95% confidence interval of the mean (Student's t); 0
    /// for one replica.
    pub half_width_95: f64,
}

impl Interval {
    /// In another unit, `factor` of which make one of this.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            sd: self.sd * factor,
            half_width_95: self.half_width_95 * factor,
        }
    }

    /// Of independent values.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = ratio(values.iter().sum(), n);
        if values.len() < 2 {
            return Self {
                mean,
                ..Self::default()
            };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (n - 1.0)).sqrt();
        Self {
            mean,
            sd,
            half_width_95: student_t_975(values.len() - 1) * sd / n.sqrt(),
        }
    }
}

/// The 97.5% quantile of Student's t distribution, rounded to three digits; past
/// 30 degrees of freedom that of the normal distribution plus its first
/// correction.
fn student_t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match TABLE.get(degrees - 1) {
        Some(&t) => t,
        None => 1.96 + 2.42 / degrees as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Job, JobId};

    fn record(submitted_s: f64, goal_s: Option<f64>, finished_s: Option<f64>) -> JobRecord {
        let job = Job::new(JobId(1), submitted_s, goal_s);
        JobRecord {
            job,
            maps: 4,
            reduces: 0,
            started_s: None,
            maps_done_s: finished_s,
            finished_s,
            met: job.met(finished_s),
            local_maps: 3,
            remote_maps: 1,
            remote_bytes: 64,
            accelerated_maps: 0,
            lost_attempts: 0,
            slot_s: 0.0,
            cpu_work: 0.0,
        }
    }

    /// Window 100 to 200. Before it: nothing counts, unless it ends inside. One
    /// job is 20 s late, one, unfinished at 500, 350 s; one was 10 s early. Of the two
    /// that were submitted inside, one is 350 s late.
    #[test]
    fn only_jobs_that_touch_the_window_count() {
        let report = SimReport {
            jobs: vec![
                record(10.0, Some(50.0), Some(90.0)),
                record(10.0, Some(130.0), Some(150.0)),
                record(120.0, Some(150.0), None),
                record(130.0, Some(260.0), Some(250.0)),
                record(140.0, None, Some(160.0)),
                record(210.0, Some(220.0), Some(260.0)),
            ],
            tasks: Vec::new(),
            shares: Vec::new(),
            end_s: 500.0,
            window_s: (100.0, 200.0),
            work_in_window: 60.0,
            available_in_window: 80.0,
        };
        let metrics = Metrics::of(&report);
        assert_eq!((metrics.jobs, metrics.with_goal, metrics.missed), (4, 3, 2));
        assert_eq!(metrics.unfinished, 1);
        assert_eq!(metrics.beyond_s, (20.0 + 350.0) / 2.0);
        assert_eq!(metrics.distance_s, 10.0);
        assert_eq!(metrics.tardiness_s, 350.0 / 2.0);
        assert_eq!(metrics.tardiness_p99_s, 350.0);
        assert_eq!(metrics.utilisation, 0.75);
        assert_eq!(metrics.locality, 0.75);
        assert_eq!(metrics.remote_bytes, 4 * 64);
        assert_eq!(metrics.makespan_s, 260.0);
    }

    #[test]
    fn the_99th_of_a_hundred_is_the_99th_percentile() {
        let up_to = |n: u32| -> Vec<f64> { (1..=n).map(f64::from).collect() };
        assert_eq!(p99(&up_to(100)), 99.0);
        assert_eq!(p99(&up_to(101)), 100.0);
        assert_eq!(p99(&[]), 0.0);
    }

    /// 1, 2, 3, 4: mean 2.5, variance 5/3, t = 3.182.
    #[test]
    fn an_interval_by_hand() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(interval.mean, 2.5);
        let half = 3.182 * (5.0_f64 / 3.0).sqrt() / 2.0;
        assert!((interval.half_width_95 - half).abs() < 1e-12);
        assert_eq!(Interval::of(&[7.0]).half_width_95, 0.0);
        assert!((student_t_975(60) - 2.0003).abs() < 1e-3);
    }
}

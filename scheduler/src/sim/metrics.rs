//! Summary metrics of a simulated run.

use super::report::{JobRecord, SimReport};
use serde::Serialize;

/// Metrics over the jobs that were submitted or finished within the window, as the thesis counts
/// (section 5.3.5.1). A mean or a fraction over nothing is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of jobs that were submitted or finished within the window.
    pub jobs: u32,
    /// Number of the counted `jobs` that have a goal.
    pub with_goal: u32,
    /// Number of the counted `jobs` that missed their goal. A job that was unfinished at the end of
    /// the run has missed it.
    pub missed: u32,
    /// `missed` divided by `with_goal`, 0 to 1; `None` without goals.
    pub missed_fraction: Option<f64>,
    /// Number of jobs with a goal that were submitted within the window and missed it. Jobs from
    /// before the window are left out, because a policy that delays jobs carries more of them into
    /// the window. [`offline_bound`](crate::planning::offline_bound) is a lower bound of this
    /// number.
    pub missed_of_submitted: u32,
    /// Number of the counted `jobs` that were not finished when the run ended.
    pub unfinished: u32,
    /// Mean time beyond the goal of the counted `jobs` that missed it, in seconds. An unfinished
    /// job counts as if it had finished when the run ended, with 0 s if its goal is later still.
    /// `None` if no job that was submitted missed its goal.
    pub beyond_s: Option<f64>,
    /// Mean time that was left until the goal for the jobs that met it, in seconds; `None` if
    /// none did.
    pub distance_s: Option<f64>,
    /// Mean tardiness of the jobs with a goal that were submitted within the window, met or not, in
    /// seconds: max(0, end - goal). An unfinished job counts as if it had finished when the run
    /// ended. `None` if no job with a goal was submitted within the window.
    pub tardiness_s: Option<f64>,
    /// 99th percentile (nearest rank) of the tardiness of the jobs with a goal that were submitted
    /// within the window, in seconds; `None` if there is no such job.
    pub tardiness_p99_s: Option<f64>,
    /// CPU that tasks held within the window, divided by the integral of f(t), the capacity left to
    /// analytics, over the window. Tasks that drain while f(t) falls can bring it above 1. `None`
    /// if f(t) was zero.
    pub utilisation: Option<f64>,
    /// The fraction of the map attempts of the counted `jobs` that ran on a node with their input,
    /// 0 to 1. Maps whose input is near to all nodes count as such. `None` if no map ran.
    pub locality: Option<f64>,
    /// Bytes that remote maps of the counted `jobs` read over the network.
    pub remote_bytes: u64,
    /// End of the last finished job, counted or not, in seconds; `None` if no job finished.
    pub makespan_s: Option<f64>,
}

impl Metrics {
    /// Computes the metrics of one run.
    #[must_use]
    pub fn of(report: &SimReport) -> Self {
        let (from_s, until_s) = report.window_s;
        let within = |t_s: f64| (from_s..=until_s).contains(&t_s);
        let counted: Vec<&JobRecord> = (report.jobs.iter())
            .filter(|job| within(job.job.submitted_s) || job.finished_s.is_some_and(within))
            .collect();
        let end_s = |job: &JobRecord| job.finished_s.unwrap_or(report.end_s);
        // The time from a job's goal to its end, negative if it ended earlier. Unknown for a job
        // that was never submitted, because its goal counts from an end that never came.
        let late_s = |job: &JobRecord| Some(end_s(job) - job.job.goal_s?);
        let late_s = |job: &JobRecord| late_s(job).filter(|_| job.was_submitted);
        let with = |met: bool| counted.iter().filter(move |job| job.met == Some(met));
        let beyond: Vec<f64> = with(false)
            .filter_map(|job| Some(late_s(job)?.max(0.0)))
            .collect();
        let distance: Vec<f64> = with(true)
            .filter_map(|job| Some(0.0 - late_s(job)?))
            .collect();
        let mut tardiness: Vec<f64> = (counted.iter())
            .filter(|job| within(job.job.submitted_s))
            .filter_map(|job| Some(late_s(job)?.max(0.0)))
            .collect();
        tardiness.sort_by(f64::total_cmp);
        let unfinished = counted.iter().filter(|job| job.finished_s.is_none());
        let missed = with(false).count();
        let with_goal = missed + with(true).count();
        let maps = |of: fn(&JobRecord) -> u32| -> u64 {
            counted.iter().map(|job| u64::from(of(job))).sum()
        };
        let (local, remote) = (maps(|job| job.local_maps), maps(|job| job.remote_maps));
        Self {
            jobs: counted.len() as u32,
            with_goal: with_goal as u32,
            missed: missed as u32,
            missed_fraction: ratio(missed as f64, with_goal as f64),
            missed_of_submitted: with(false)
                .filter(|job| within(job.job.submitted_s))
                .count() as u32,
            unfinished: unfinished.count() as u32,
            beyond_s: mean(&beyond),
            distance_s: mean(&distance),
            tardiness_s: mean(&tardiness),
            tardiness_p99_s: p99(&tardiness),
            utilisation: ratio(report.work_in_window, report.available_in_window),
            locality: ratio(local as f64, (local + remote) as f64),
            remote_bytes: (counted.iter())
                .fold(0, |bytes, job| job.remote_bytes.saturating_add(bytes)),
            makespan_s: (report.jobs.iter().filter_map(|job| job.finished_s)).reduce(f64::max),
        }
    }
}

/// Returns the smallest value of `sorted` that is at least as large as 99% of the values; `None`
/// without values.
fn p99(sorted: &[f64]) -> Option<f64> {
    let rank = (0.99 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

fn mean(values: &[f64]) -> Option<f64> {
    ratio(values.iter().sum(), values.len() as f64)
}

/// A mean over replicas with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Mean over the replicas.
    pub mean: f64,
    /// Standard deviation between replicas; 0 for one replica.
    pub sd: f64,
    /// Half the width of the 95% confidence interval of the mean (Student's t); 0
    /// for one replica.
    pub half_width_95: f64,
}

impl Interval {
    /// Converts the interval to another unit by multiplication with `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            sd: self.sd * factor,
            half_width_95: self.half_width_95 * factor,
        }
    }

    /// Summarises the replicas that have a value; `None` if none has one.
    #[must_use]
    pub fn of_known(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().flatten().collect();
        (!values.is_empty()).then(|| Self::of(&values))
    }

    /// Summarises independent values; all numbers are 0 if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = mean(values).unwrap_or(0.0);
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

/// Returns the 97.5% quantile of Student's t distribution for at least one degree of freedom,
/// rounded to three decimals. Beyond 30 degrees of freedom it is an approximation: the quantile of
/// the normal distribution plus a term that falls with the degrees.
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
            was_submitted: true,
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

    /// The window is 100 to 200 s. A job that ended before the window does not count, nor does one
    /// that was submitted after it. A job that was submitted before the window and ended within it
    /// counts; it is 20 s late. Of the two jobs with a goal that were submitted within the window,
    /// one is unfinished when the run ends at 500 s, 350 s late, and the other one is 10 s early.
    #[test]
    fn only_jobs_that_touch_the_window_count() {
        let jobs = vec![
            record(10.0, Some(50.0), Some(90.0)),
            record(10.0, Some(130.0), Some(150.0)),
            record(120.0, Some(150.0), None),
            record(130.0, Some(260.0), Some(250.0)),
            record(140.0, None, Some(160.0)),
            record(210.0, Some(220.0), Some(260.0)),
        ];
        let report = SimReport {
            window_s: (100.0, 200.0),
            work_in_window: 60.0,
            available_in_window: 80.0,
            ..report(jobs)
        };
        let metrics = Metrics::of(&report);
        assert_eq!((metrics.jobs, metrics.with_goal, metrics.missed), (4, 3, 2));
        assert_eq!(metrics.unfinished, 1);
        assert_eq!(metrics.missed_fraction, Some(2.0 / 3.0));
        assert_eq!(metrics.beyond_s, Some((20.0 + 350.0) / 2.0));
        assert_eq!(metrics.distance_s, Some(10.0));
        assert_eq!(metrics.tardiness_s, Some(350.0 / 2.0));
        assert_eq!(metrics.tardiness_p99_s, Some(350.0));
        assert_eq!(metrics.utilisation, Some(0.75));
        assert_eq!(metrics.locality, Some(0.75));
        assert_eq!(metrics.remote_bytes, 4 * 64);
        assert_eq!(metrics.makespan_s, Some(260.0));
    }

    fn report(jobs: Vec<JobRecord>) -> SimReport {
        SimReport {
            jobs,
            tasks: Vec::new(),
            shares: Vec::new(),
            end_s: 500.0,
            window_s: (0.0, 500.0),
            work_in_window: 0.0,
            available_in_window: 0.0,
        }
    }

    /// None of the jobs ends before the run does, at 500 s. They have no goal, a goal at 450 s, or
    /// a goal after the end of the run.
    #[test]
    fn jobs_that_never_end_have_no_makespan_and_miss_their_goals() {
        let never = |goal_s| JobRecord {
            local_maps: 0,
            remote_maps: 0,
            ..record(0.0, goal_s, None)
        };
        let none = Metrics::of(&report(vec![never(None)]));
        assert_eq!((none.jobs, none.unfinished, none.missed), (1, 1, 0));
        assert_eq!((none.missed_fraction, none.makespan_s), (None, None));
        assert_eq!((none.beyond_s, none.distance_s), (None, None));
        assert_eq!((none.utilisation, none.locality), (None, None));
        assert_eq!((none.tardiness_s, none.tardiness_p99_s), (None, None));

        let late = Metrics::of(&report(vec![never(Some(450.0)), never(Some(800.0))]));
        assert_eq!(late.missed_fraction, Some(1.0));
        assert_eq!(late.beyond_s, Some(25.0), "50 s and none yet");
        assert_eq!((late.distance_s, late.makespan_s), (None, None));
    }

    /// The job should have been submitted at the end of another job, with a goal 10 s later, but
    /// the other job never ended.
    #[test]
    fn a_job_that_was_never_submitted_misses_its_goal_without_a_tardiness() {
        let never = JobRecord {
            was_submitted: false,
            ..record(0.0, Some(10.0), None)
        };
        let metrics = Metrics::of(&report(vec![never]));
        assert_eq!((metrics.missed, metrics.missed_fraction), (1, Some(1.0)));
        assert_eq!((metrics.beyond_s, metrics.tardiness_s), (None, None));
    }

    #[test]
    fn the_99th_of_a_hundred_is_the_99th_percentile() {
        let up_to = |n: u32| -> Vec<f64> { (1..=n).map(f64::from).collect() };
        assert_eq!(p99(&up_to(100)), Some(99.0));
        assert_eq!(p99(&up_to(101)), Some(100.0));
        assert_eq!(p99(&[]), None);
    }

    /// The values 1, 2, 3, 4 have mean 2.5 and variance 5/3; t is 3.182.
    #[test]
    fn intervals_agree_with_values_by_hand() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(interval.mean, 2.5);
        let half = 3.182 * (5.0_f64 / 3.0).sqrt() / 2.0;
        assert!((interval.half_width_95 - half).abs() < 1e-12);
        assert_eq!(Interval::of(&[7.0]).half_width_95, 0.0);
        let known = Interval::of_known([None, Some(7.0), None]).map(|known| known.mean);
        assert_eq!(known, Some(7.0));
        assert_eq!(Interval::of_known([None, None]), None);
        assert!((student_t_975(60) - 2.0003).abs() < 1e-3);
    }
}

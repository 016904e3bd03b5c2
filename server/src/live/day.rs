//! The load of the last day: 3,600 samples of one second and 8,640 of ten.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The number of one-second samples that are kept.
pub(super) const SECONDS_MAX: usize = 3600;
/// The number of seconds that one coarse sample covers.
pub(super) const COARSE_SECONDS: usize = 10;
/// The number of coarse samples, of ten seconds each, that are kept.
const COARSE_MAX: usize = 8640;
/// The most points of CPU use (one per job and sample) in the one-second samples, and the most in the coarse
/// samples: some 5 MB for each kind. With more than 55 jobs at a time, the one-second samples cover less
/// than an hour, and with more than 23, the coarse samples cover less than a day.
const JOB_POINTS_MAX: usize = 200_000;
/// The most changes of the guard's decision that are kept. The guard, which limits jobs to keep the latency
/// objective, decides ten times a second.
const GUARD_MAX: usize = 4096;
/// The shortest time after a decision of the guard in which another one with the same action is kept, in
/// milliseconds: that of a sample.
const SAME_ACTION_MS_MIN: u64 = 1000;

/// A sample over one second or ten seconds: the load of the server, and the use of the cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoadPoint {
    /// The end of the sample, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Cores that the load used: all threads of the server except tasks of jobs. 0 if the options of the
    /// server fix how many cores jobs may use: then this is not measured.
    pub load_cores: f64,
    /// Cores that other processes used, as estimated. 0 if the options of the server fix how many cores
    /// jobs may use.
    pub others_cores: f64,
    /// Cores that jobs, backups, restores, verifications and the checks of files used.
    pub analytics_cores: f64,
    /// Cores that jobs could use.
    pub capacity_cores: f64,
    /// Requests served per second. Before the server has recorded one, the reads, commits and scans of the
    /// store count.
    pub requests_per_s: f64,
    /// The median latency of the requests in microseconds; `null` without requests. Older servers wrote 0
    /// then, here and in the other quantiles.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the requests' latencies in microseconds; `null` without requests.
    pub p99_us: Option<f64>,
    /// The 99.9th percentile of the requests' latencies in microseconds; `null` without requests.
    pub p999_us: Option<f64>,
    /// The greatest latency that the objective allows at its quantile, in microseconds, at the end
    /// of the sample. `null` without an objective. Also `null` if the objective is a multiple of
    /// the latency without jobs, and that latency is still unknown.
    pub bound_us: Option<f64>,
}

/// A change of the guard's action, or of the cores that it allows. The guard limits the cores of jobs to keep
/// the latency objective of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuardChange {
    /// The time of the change, in milliseconds since 1970. It is later than that of the change
    /// before.
    pub at_unix_ms: u64,
    /// The action: `grow`, `hold`, `shrink`, `stop` or `pause`. It may be that of the change before, with another
    /// `allowed_ratio`.
    pub action: String,
    /// The most cores that jobs may use after the change, as a fraction (0 to 1) of the cores that
    /// the load leaves.
    pub allowed_ratio: f64,
    /// (objective - latency) / objective in the window of latencies, of a second at most, that led
    /// to the change; negative if the objective was missed. `null` without requests. Also `null` if the
    /// objective is a multiple of the latency without jobs, and that latency was still unknown.
    pub slack_ratio: Option<f64>,
}

/// The CPU use of a job, a backup, a restore or a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobShare {
    /// The id of the job.
    pub job_id: String,
    /// The name of the job's application, such as `grep`; `backup`, `restore` or `verify`.
    pub name: String,
    /// Pairs of the end of a sample, in milliseconds since 1970, and the cores that the job used during the
    /// sample.
    #[schema(value_type = Vec<Vec<f64>>)]
    pub points: Vec<(u64, f64)>,
}

/// The id and the application of a job, a backup, a restore or a verification. All samples of it share
/// one object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobName {
    pub id: String,
    pub name: String,
}

/// A sample of the load, with the cores that each job used in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    pub point: LoadPoint,
    pub jobs: Vec<(Arc<JobName>, f64)>,
}

/// A sample as the event `sample` contains it, with the CPU use of all jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The load of the server, and the use of the cores.
    #[serde(flatten)]
    pub point: LoadPoint,
    /// Cores that each job used, by the id of the job. Jobs that used none are left out.
    pub shares: BTreeMap<String, f64>,
}

impl Moment {
    pub(super) fn sample(&self) -> Sample {
        let used = self.jobs.iter().filter(|(_, cores)| *cores > 0.0);
        Sample {
            point: self.point,
            shares: used.map(|(job, cores)| (job.id.clone(), *cores)).collect(),
        }
    }
}

/// A queue of the latest samples. All have the same length: one second, or ten.
#[derive(Debug, Default)]
struct Ring {
    moments: VecDeque<Moment>,
    job_points: usize,
}

impl Ring {
    fn push(&mut self, moment: Moment, moments_max: usize) {
        self.job_points += moment.jobs.len();
        self.moments.push_back(moment);
        while self.moments.len() > moments_max || self.job_points > JOB_POINTS_MAX {
            let oldest = self.moments.pop_front();
            self.job_points -= oldest.map_or(0, |moment| moment.jobs.len());
        }
    }

    /// Removes the samples that end at this time or later.
    fn forget_from(&mut self, unix_ms: u64) {
        let is_later = |last: &Moment| last.point.at_unix_ms >= unix_ms;
        while self.moments.back().is_some_and(is_later) {
            let latest = self.moments.pop_back();
            self.job_points -= latest.map_or(0, |moment| moment.jobs.len());
        }
    }

    fn since(&self, from_unix_ms: u64) -> impl Iterator<Item = &Moment> {
        let first = (self.moments).partition_point(|moment| moment.point.at_unix_ms < from_unix_ms);
        self.moments.range(first..)
    }
}

/// The load samples of the last day, and the actions of the guard, which limits jobs to keep the
/// latency objective.
#[derive(Debug, Default)]
pub(super) struct Day {
    seconds: Ring,
    coarse: Ring,
    /// The one-second samples since the last coarse sample.
    gathered: Vec<Moment>,
    guard: VecDeque<GuardChange>,
    /// True once the oldest decision of the guard was dropped, because there were more than [`GUARD_MAX`].
    has_dropped_guard: bool,
}

impl Day {
    /// Returns whether there is a sample of this time or a later one. As `now_unix_ms` is the present, such a
    /// sample shows that the clock was set back.
    pub(super) fn reaches(&self, now_unix_ms: u64) -> bool {
        let last = self.seconds.moments.back();
        last.is_some_and(|last| last.point.at_unix_ms >= now_unix_ms)
    }

    /// Adds a one-second sample. First removes the samples that end at the same time or later,
    /// which exist if the clock was set back. Returns true when a coarse sample is due, for the
    /// last ten seconds: see [`push_coarse`](Self::push_coarse).
    pub(super) fn push(&mut self, second: Moment) -> bool {
        self.forget_from(second.point.at_unix_ms);
        self.gathered.push(second.clone());
        self.seconds.push(second, SECONDS_MAX);
        self.gathered.len() >= COARSE_SECONDS
    }

    /// Removes samples of the present or later, and changes of the latency guard's action that are
    /// later than the present: the clock was set back after them. Readers need ascending times.
    fn forget_from(&mut self, now_unix_ms: u64) {
        self.seconds.forget_from(now_unix_ms);
        self.coarse.forget_from(now_unix_ms);
        let is_later = |last: &GuardChange| last.at_unix_ms > now_unix_ms;
        while self.guard.back().is_some_and(is_later) {
            self.guard.pop_back();
        }
    }

    /// Adds the mean of the seconds since the last call as a coarse sample. Quantiles of several
    /// seconds do not follow from those of each: `quantiles_us` has the p50, p99 and p99.9 of the
    /// whole time, or `None` without requests. Returns the sample; `None` without a second since the
    /// last call.
    pub(super) fn push_coarse(&mut self, quantiles_us: [Option<f64>; 3]) -> Option<Sample> {
        let gathered = std::mem::take(&mut self.gathered);
        let last = gathered.last()?;
        let count = gathered.len() as f64;
        let mean = |of: fn(&LoadPoint) -> f64| {
            gathered.iter().map(|moment| of(&moment.point)).sum::<f64>() / count
        };
        let [p50_us, p99_us, p999_us] = quantiles_us;
        let point = LoadPoint {
            at_unix_ms: last.point.at_unix_ms,
            load_cores: mean(|point| point.load_cores),
            others_cores: mean(|point| point.others_cores),
            analytics_cores: mean(|point| point.analytics_cores),
            capacity_cores: mean(|point| point.capacity_cores),
            requests_per_s: mean(|point| point.requests_per_s),
            p50_us,
            p99_us,
            p999_us,
            bound_us: last.point.bound_us,
        };
        let mut jobs: BTreeMap<Arc<JobName>, f64> = BTreeMap::new();
        for (job, cores) in gathered.iter().flat_map(|moment| &moment.jobs) {
            *jobs.entry(Arc::clone(job)).or_default() += cores / count;
        }
        let jobs = jobs.into_iter().collect();
        let moment = Moment { point, jobs };
        let sample = moment.sample();
        self.coarse.push(moment, COARSE_MAX);
        Some(sample)
    }

    /// Adds a decision of the latency guard, which limits jobs to keep the latency objective, if
    /// its action differs from that of the last decision that was added. A decision with the same
    /// action is added if it allows another percentage, and if a second has passed since the last one.
    /// Returns the decision as it was added: with a later time than the last one. The given time is an
    /// estimate, and clients ignore a change whose time is not later, because they may have received it
    /// before.
    pub(super) fn push_guard(&mut self, mut change: GuardChange) -> Option<GuardChange> {
        if let Some(last) = self.guard.back() {
            if last.action == change.action && !is_later_step(last, &change) {
                return None;
            }
            change.at_unix_ms = change.at_unix_ms.max(last.at_unix_ms + 1);
        }
        if self.guard.len() == GUARD_MAX {
            self.guard.pop_front();
            self.has_dropped_guard = true;
        }
        self.guard.push_back(change.clone());
        Some(change)
    }

    /// Returns the samples, the actions of the guard, which limits jobs to keep the latency
    /// objective, and the CPU use of jobs in the last `seconds` before `now_unix_ms`. The samples
    /// are those of one second if `seconds` is at most [`SECONDS_MAX`], otherwise the coarse ones.
    /// The first action is the one in force when the time span begins, because a guard may keep its
    /// action for hours.
    pub(super) fn since(
        &self,
        now_unix_ms: u64,
        seconds: u32,
    ) -> (Vec<LoadPoint>, Vec<GuardChange>, Vec<JobShare>) {
        let from_unix_ms = now_unix_ms.saturating_sub(u64::from(seconds) * 1000);
        let ring = if seconds as usize <= SECONDS_MAX {
            &self.seconds
        } else {
            &self.coarse
        };
        let mut shares: BTreeMap<&Arc<JobName>, Vec<(u64, f64)>> = BTreeMap::new();
        let mut points = Vec::new();
        for moment in ring.since(from_unix_ms) {
            points.push(moment.point);
            for (job, cores) in &moment.jobs {
                let series = shares.entry(job).or_default();
                series.push((moment.point.at_unix_ms, *cores));
            }
        }
        let is_before = |change: &GuardChange| change.at_unix_ms <= from_unix_ms;
        let later = self.guard.partition_point(is_before);
        let guard = self.guard.range(later.saturating_sub(1)..);
        let share = |(job, points): (&Arc<JobName>, Vec<(u64, f64)>)| JobShare {
            job_id: job.id.clone(),
            name: job.name.clone(),
            points,
        };
        (
            points,
            guard.cloned().collect(),
            shares.into_iter().map(share).collect(),
        )
    }

    /// Returns the time of the oldest decision of the guard that is kept, in milliseconds since 1970, if older
    /// decisions in the last `seconds` before `now_unix_ms` were dropped; `None` if all of them are kept.
    pub(super) fn guard_cut_unix_ms(&self, now_unix_ms: u64, seconds: u32) -> Option<u64> {
        let from_unix_ms = now_unix_ms.saturating_sub(u64::from(seconds) * 1000);
        let oldest_unix_ms = self.guard.front()?.at_unix_ms;
        (self.has_dropped_guard && oldest_unix_ms > from_unix_ms).then_some(oldest_unix_ms)
    }
}

/// Returns whether a decision of the guard, with the action of the decision before, is kept: it allows another
/// percentage, and is a second later.
fn is_later_step(last: &GuardChange, change: &GuardChange) -> bool {
    let percent = |change: &GuardChange| (change.allowed_ratio * 100.0).round() as i64;
    change.at_unix_ms >= last.at_unix_ms + SAME_ACTION_MS_MIN && percent(change) != percent(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The p50, p99 and p99.9 of coarse samples.
    const QUANTILES_US: [Option<f64>; 3] = [Some(1.0), Some(9.0), Some(10.0)];

    fn second(n: u64, job: &Arc<JobName>) -> Moment {
        Moment {
            point: LoadPoint {
                at_unix_ms: n * 1000,
                load_cores: n as f64,
                bound_us: Some(n as f64),
                ..LoadPoint::default()
            },
            jobs: vec![(Arc::clone(job), 0.5)],
        }
    }

    fn named(id: &str) -> Arc<JobName> {
        Arc::new(JobName {
            id: id.to_string(),
            name: "count".to_string(),
        })
    }

    #[test]
    fn an_hour_is_kept_by_the_second_and_a_day_by_ten() {
        let (mut day, job) = (Day::default(), named("7"));
        let seconds = 90_000;
        for n in 1..=seconds {
            if day.push(second(n, &job)) {
                day.push_coarse(QUANTILES_US);
            }
        }
        assert_eq!(day.push_coarse(QUANTILES_US), None);
        let now_unix_ms = seconds * 1000;
        let (points, _, shares) = day.since(now_unix_ms, 60);
        assert_eq!(points.len(), 61);
        assert_eq!(points[60].load_cores, seconds as f64);
        assert_eq!(shares.len(), 1);
        assert_eq!((shares[0].points.len(), shares[0].points[60].1), (61, 0.5));
        assert_eq!(day.since(now_unix_ms, 3600).0.len(), SECONDS_MAX);
        let (coarse, _, shares) = day.since(now_unix_ms, 1_000_000);
        assert_eq!((coarse.len(), shares[0].points.len()), (8640, 8640));
        let last = coarse[8639];
        assert_eq!(last.load_cores, seconds as f64 - 4.5);
        assert_eq!([last.p50_us, last.p99_us, last.p999_us], QUANTILES_US);
        assert_eq!(last.bound_us, Some(seconds as f64));
    }

    /// Regression: after the clock was set back, the samples from before stayed in the list for an hour, with
    /// later times than the new samples behind them.
    #[test]
    fn times_ascend_after_the_clock_was_set_back() {
        let (mut day, job) = (Day::default(), named("7"));
        for n in (1..=100).chain(51..=60) {
            assert_eq!(day.reaches(n * 1000), n == 51 && !day.guard.is_empty());
            if day.push(second(n, &job)) {
                day.push_coarse(QUANTILES_US);
            }
            if n == 80 {
                day.push_guard(GuardChange {
                    at_unix_ms: n * 1000,
                    action: "hold".to_string(),
                    allowed_ratio: 1.0,
                    slack_ratio: Some(0.5),
                });
            }
        }
        let at_s = |points: Vec<LoadPoint>| -> Vec<u64> {
            points.iter().map(|point| point.at_unix_ms / 1000).collect()
        };
        let (points, guard, shares) = day.since(60_000, 3600);
        assert_eq!(at_s(points), Vec::from_iter(1..=60));
        assert_eq!((guard, shares[0].points.len()), (Vec::new(), 60));
        assert_eq!(day.seconds.job_points, 60);
        let (coarse, ..) = day.since(60_000, 1_000_000);
        assert_eq!(at_s(coarse), [10, 20, 30, 40, 50, 60]);
    }

    #[test]
    fn many_jobs_shorten_what_is_kept() {
        let mut day = Day::default();
        let jobs: Vec<_> = (0..1000).map(|n| named(&n.to_string())).collect();
        for n in 1..=1000 {
            day.push(Moment {
                jobs: jobs.iter().map(|job| (Arc::clone(job), 0.0)).collect(),
                ..second(n, &jobs[0])
            });
        }
        assert_eq!(day.since(1_000_000, 3600).0.len(), JOB_POINTS_MAX / 1000);
    }

    #[test]
    fn only_changes_of_the_guards_action_are_kept() {
        let mut day = Day::default();
        let change = |n: u64, action: &str| GuardChange {
            at_unix_ms: n,
            action: action.to_string(),
            allowed_ratio: 1.0,
            slack_ratio: Some(0.5),
        };
        let changes = [(1, "hold"), (2, "hold"), (3, "shrink"), (4, "hold")];
        let kept = changes.map(|(n, action)| day.push_guard(change(n, action)).is_some());
        assert_eq!(kept, [true, false, true, true]);
        let (_, guard, _) = day.since(10, 1);
        let at: Vec<_> = guard.iter().map(|change| change.at_unix_ms).collect();
        assert_eq!(at, [1, 3, 4]);
    }

    /// Regression: of ten decisions to allow more, only the first was kept, and the console showed what that one
    /// allowed until the next other action.
    #[test]
    fn a_repeated_action_is_kept_once_a_second_if_it_allows_another_percentage() {
        let mut day = Day::default();
        let mut add = |at_unix_ms: u64, allowed_ratio: f64| {
            let added = day.push_guard(GuardChange {
                at_unix_ms,
                action: "grow".to_string(),
                allowed_ratio,
                slack_ratio: Some(0.5),
            });
            added.is_some()
        };
        assert!(add(1000, 0.12));
        assert!(!add(1500, 0.2), "within a second");
        assert!(!add(2000, 0.1201), "the same percentage");
        assert!(add(2100, 0.3));
        assert!(!add(9000, 0.3), "it stands already");
        assert!(add(9100, 1.0));
        let (_, guard, _) = day.since(10_000, 60);
        let allowed: Vec<_> = guard.iter().map(|change| change.allowed_ratio).collect();
        assert_eq!(allowed, [0.12, 0.3, 1.0]);
    }

    /// Regression: the console drew no difference between a time without decisions and one whose decisions were
    /// dropped.
    #[test]
    fn a_span_with_dropped_decisions_has_the_time_of_the_oldest_kept_one() {
        let mut day = Day::default();
        assert_eq!(day.guard_cut_unix_ms(1000, 86_400), None);
        let count = GUARD_MAX as u64 + 5;
        for at_s in 1..=count {
            let action = if at_s % 2 == 0 { "grow" } else { "shrink" };
            day.push_guard(GuardChange {
                at_unix_ms: at_s * 1000,
                action: action.to_string(),
                allowed_ratio: 0.4,
                slack_ratio: Some(0.1),
            });
        }
        let now_unix_ms = count * 1000;
        assert_eq!(day.guard_cut_unix_ms(now_unix_ms, 86_400), Some(6000));
        assert_eq!(day.guard_cut_unix_ms(now_unix_ms, 300), None);
        // The decision in force when the span begins is kept.
        let span_s = GUARD_MAX as u32 - 1;
        assert_eq!(day.guard_cut_unix_ms(now_unix_ms, span_s), None);
    }

    /// Regression: a page that showed a day made its own samples of ten seconds, with the highest quantiles of
    /// the seconds, which are higher than those of the ten seconds.
    #[test]
    fn the_sample_of_ten_seconds_is_returned_as_it_is_listed() {
        let (mut day, job) = (Day::default(), named("7"));
        let mut coarse = None;
        for n in 1..=10 {
            if day.push(second(n, &job)) {
                coarse = day.push_coarse(QUANTILES_US);
            }
        }
        let coarse = coarse.unwrap();
        assert_eq!(day.since(10_000, 86_400).0, [coarse.point]);
        assert_eq!(coarse.point.p99_us, QUANTILES_US[1]);
        assert!(coarse.shares.contains_key("7"), "{:?}", coarse.shares);
    }

    /// Regression: the console ignored a change whose time was not later than that of the change
    /// before, and showed the earlier action until the next change.
    #[test]
    fn the_times_of_the_guards_changes_ascend() {
        let mut day = Day::default();
        let mut add = |at_unix_ms: u64, action: &str| {
            let added = day.push_guard(GuardChange {
                at_unix_ms,
                action: action.to_string(),
                allowed_ratio: 1.0,
                slack_ratio: Some(0.5),
            });
            added.map(|change| change.at_unix_ms)
        };
        assert_eq!(add(1000, "hold"), Some(1000));
        assert_eq!(add(1000, "shrink"), Some(1001));
        assert_eq!(add(950, "stop"), Some(1002));
        assert_eq!(add(1100, "stop"), None);
        assert_eq!(add(1100, "grow"), Some(1100));
    }

    /// Regression: the list was empty if the guard had kept its action for the whole time span, so
    /// the console showed a guard that was not at work.
    #[test]
    fn the_action_in_force_at_the_begin_of_a_span_is_listed() {
        let mut day = Day::default();
        for (at_s, action) in [(10, "shrink"), (20, "hold"), (30, "grow")] {
            let added = day.push_guard(GuardChange {
                at_unix_ms: at_s * 1000,
                action: action.to_string(),
                allowed_ratio: 0.4,
                slack_ratio: Some(0.1),
            });
            assert!(added.is_some());
        }
        let at_s = |now_s: u64, seconds: u32| -> Vec<u64> {
            let (_, guard, _) = day.since(now_s * 1000, seconds);
            let at_s = guard.iter().map(|change| change.at_unix_ms / 1000);
            at_s.collect()
        };
        assert_eq!(at_s(600, 300), [30]);
        assert_eq!(at_s(32, 2), [30]);
        assert_eq!(at_s(31, 2), [20, 30]);
        assert_eq!(at_s(31, 15), [10, 20, 30]);
        assert_eq!(at_s(31, 31), [10, 20, 30]);
    }
}

//! The results of a day of the demo: the JSON, and the table for the terminal.

use std::fmt::Write as _;

use ebb_colocate::{GuardSample, LoadSample, Objective};
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::CycleSample;
use serde::Serialize;

use super::corpus::Corpus;
use super::day::{Day, LoadCost};
use super::forecast::ForecastFrom;
use super::half_way::HalfWay;
use super::options::Goals;

/// The largest fraction of the machine that other processes may use without a warning.
pub(super) const OTHERS_MUCH: f64 = 0.15;

/// The results of one day.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The name of the policy, or `none`.
    pub policy: String,
    /// Length of the compressed day, in seconds.
    pub seconds: f64,
    /// Cores of the machine.
    pub cores: u32,
    /// Cores that other processes, or the host, used on average over the day. The client of the
    /// load is none of them.
    pub others_cores: f64,
    /// The scheduling class that the kernel granted to analytics threads.
    pub scheduling_class: String,
    /// The text that the jobs read.
    pub corpus: Corpus,
    /// The CPU cost of the load on this machine.
    pub load_cost: LoadCost,
    /// The latency objective of the load, if any.
    pub objective: Option<Objective>,
    /// The source of the forecast of the capacity for analytics.
    pub forecast_from: ForecastFrom,
    /// The completion time goals of the jobs.
    pub goals_are: Goals,
    /// Durations of the creations of snapshots on the busy store, in microseconds.
    pub snapshot_create_us: Vec<u64>,
    /// The jobs, in the order of submission.
    pub jobs: Vec<JobOutcome>,
    /// The latency of the load.
    pub transactional: Transactional,
    /// The check of the word counts against an independent count.
    pub word_count_check: WordCountCheck,
    /// The course of the day, for the pictures.
    pub series: Series,
}

/// A job, and whether it met its goal.
#[derive(Debug, Clone, Serialize)]
pub struct JobOutcome {
    /// The job's id, as in the time series of the day.
    pub id: JobId,
    pub name: String,
    pub application: String,
    /// The time at which the job was submitted, in seconds since the start of the day.
    pub submitted_s: f64,
    /// The completion time goal, in seconds since the start of the day.
    pub goal_s: Option<f64>,
    /// The time at which the job's output was complete; `None` if it never was complete.
    pub finished_s: Option<f64>,
    /// The job's completion time in the simulator, with the capacity that was left on this day.
    /// `None` if the job does not complete there, the day had no policy, or the simulation failed.
    pub simulated_finish_s: Option<f64>,
    /// The last prediction of the job's end that was made in the first half of the time from its
    /// submission to its end. `None` if no prediction was made by then, the last one had no end, or
    /// the job failed.
    pub half_way: Option<HalfWay>,
    /// Whether the job finished by its goal; `None` without a goal.
    pub met: Option<bool>,
    pub tasks: u32,
    /// Key and value bytes that the job read.
    pub bytes: u64,
    /// CPU time that the job used, in seconds.
    pub cpu_s: f64,
    /// The cause of a failure, if the job failed.
    pub failure: Option<String>,
}

/// The load's latency without analytics, and with them.
#[derive(Debug, Clone, Serialize)]
pub struct Transactional {
    /// The latency without jobs, from a run of the load alone through the same day at three times
    /// the speed.
    pub alone: Latency,
    /// The latency over the whole day with the jobs, including the hours after the last job.
    pub with_analytics: Latency,
    /// The number of operations that the server rejected for overload on the day with jobs. Their
    /// latencies are not counted.
    pub refused: u64,
}

/// Latency from the intended start of each operation, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latency {
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// Operations per second that were completed.
    pub ops_per_s: f64,
}

/// The result of the check of the word counts.
#[derive(Debug, Clone, Serialize)]
pub struct WordCountCheck {
    /// The number of jobs that were compared.
    pub jobs: usize,
    /// The number of distinct words that the independent count finds in a job's input; the largest
    /// over all jobs.
    pub words: usize,
    /// The number of words whose count in a job's output is not the independent count, over all
    /// jobs.
    pub differences: usize,
}

/// The course of the day.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Measured load and granted capacity, per control cycle.
    pub load: Vec<LoadSample>,
    /// The decision of the latency guard on each of its time windows; empty without a latency
    /// objective.
    pub guard: Vec<GuardSample>,
    /// The capacity that each job was granted and used, per control cycle.
    pub cycles: Vec<CycleSample>,
    /// The forecast f(t): pairs of a time in seconds and hundredths of a core for analytics.
    pub forecast: Vec<(f64, f64)>,
    /// Latency of the load over time.
    pub latency: Vec<LatencySample>,
}

/// The latency of the load over a short interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LatencySample {
    /// Start of the interval, in seconds since the start of the day.
    pub t_s: f64,
    /// The median latency, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of latencies, in microseconds.
    pub p99_us: f64,
}

impl Outcome {
    /// Returns the day that was run.
    pub fn day(&self) -> Day {
        Day {
            seconds: self.seconds,
        }
    }

    /// Formats a time as an hour of the day; "-" for `None`.
    pub(super) fn hour(&self, t_s: Option<f64>) -> String {
        t_s.map_or("-".into(), |t_s| {
            format!("{:.1} h", self.day().hour_of(t_s))
        })
    }

    /// Returns the number of jobs with a goal, and the number of those that met it.
    pub fn goals(&self) -> (usize, usize) {
        let met = || self.jobs.iter().filter_map(|job| job.met);
        (met().count(), met().filter(|met| *met).count())
    }

    /// Returns the number of goals that were met, as a text. If other processes used much of the
    /// machine, the text adds that the number means little: it depends on them more than on the
    /// policy.
    pub fn headline(&self) -> String {
        let (goals, met) = self.goals();
        let counted = format!("{met} of {goals} goals met");
        match self.caveat() {
            Some(caveat) => format!("{counted}, which means little: {caveat}"),
            None => counted,
        }
    }

    /// Returns the reason why the results mean little; `None` if other processes left most of the
    /// machine.
    pub(super) fn caveat(&self) -> Option<String> {
        let (others, cores) = (self.others_cores, self.cores);
        if others <= OTHERS_MUCH * f64::from(cores) {
            return None;
        }
        Some(format!("other processes used {others:.2} of {cores} cores"))
    }

    /// Returns the mean over the jobs of [`HalfWay::error_ratio`], the error of the prediction that
    /// was made half-way through a job. `None` if no job has such a prediction.
    pub fn half_way_error(&self) -> Option<f64> {
        let errors = self.jobs.iter().filter_map(|job| job.half_way);
        let errors: Vec<f64> = errors.map(|half_way| half_way.error_ratio).collect();
        let count = errors.len();
        (count > 0).then(|| errors.iter().sum::<f64>() / count as f64)
    }

    /// Returns the share of the jobs whose real end was within the interval that was predicted half-way through
    /// the job, 0 to 1. `None` if no job has such a prediction.
    pub fn half_way_within(&self) -> Option<f64> {
        let half_ways = self.jobs.iter().filter_map(|job| job.half_way);
        let within: Vec<bool> = half_ways.map(|half_way| half_way.is_within).collect();
        let count = within.iter().filter(|is_within| **is_within).count();
        (!within.is_empty()).then(|| count as f64 / within.len() as f64)
    }

    /// Returns a line on the latency guard: the number of its time windows that kept the objective,
    /// and the lowest limit that the guard set for jobs, as a percentage of the capacity that the
    /// load leaves.
    pub(super) fn guard_line(&self, objective: Objective) -> String {
        let windows = &self.series.guard;
        let broken = windows.iter().filter(|sample| sample.slack < 0.0).count();
        let lowest = windows
            .iter()
            .map(|sample| sample.allowed)
            .fold(1.0, f64::min);
        format!(
            "objective {objective}: kept in {} of {} windows; of what the load left, the guard allowed {:.0}% at the least",
            windows.len() - broken,
            windows.len(),
            lowest * 100.0
        )
    }

    /// Returns the time from midnight to the end of the day, or to the end of late jobs, in
    /// seconds.
    pub(super) fn lasted_s(&self) -> f64 {
        let last = self.series.cycles.last();
        last.map_or(self.seconds, |cycle| cycle.t_s.max(self.seconds))
    }

    /// Returns the results as sentences, one a line.
    pub(super) fn notes(&self) -> Vec<String> {
        let headline = self.headline();
        let latency = |of: Latency| {
            format!(
                "p50 {}, p99 {}, p99.9 {}",
                time(of.p50_us),
                time(of.p99_us),
                time(of.p999_us)
            )
        };
        let Transactional {
            alone,
            with_analytics,
            refused,
        } = &self.transactional;
        let check = &self.word_count_check;
        vec![
            format!(
                "{headline}. ebb demo, policy {}: a day in {:.0} s on {} cores.",
                self.policy, self.seconds, self.cores
            ),
            format!(
                "The load as its client saw it, from when each operation was due: {} beside jobs; \
                 alone, in a third of the time, {}. {refused} were refused as too many.",
                latency(*with_analytics),
                latency(*alone)
            ),
            format!(
                "Word counts of {} jobs over {} words against an independent count: {} differ. \
                 Text: {}.",
                check.jobs, check.words, check.differences, self.corpus.description
            ),
        ]
    }

    /// Returns the table for the terminal.
    pub fn table(&self) -> String {
        // Writing to a string does not fail, so the results of `writeln!` are ignored.
        let mut out = String::new();
        let line = |out: &mut String, cells: [&str; 8]| {
            let [name, app, submitted, goal, finished, verdict, tasks, mb] = cells;
            let _ = writeln!(
                out,
                "  {name:<6} {app:<11} {submitted:>9} {goal:>8} {finished:>9}  {verdict:<7} {tasks:>6} {mb:>9}"
            );
        };
        line(
            &mut out,
            [
                "job",
                "computes",
                "submitted",
                "goal",
                "finished",
                "",
                "tasks",
                "MB read",
            ],
        );
        for job in &self.jobs {
            // A failure comes first: a failed job has not met its goal either.
            let verdict = match (job.met, &job.failure) {
                (_, Some(_)) => "FAILED",
                (Some(true), _) => "met",
                (Some(false), _) => "MISSED",
                (None, _) => "no goal",
            };
            line(
                &mut out,
                [
                    &job.name,
                    &job.application,
                    &self.hour(Some(job.submitted_s)),
                    &self.hour(job.goal_s),
                    &self.hour(job.finished_s),
                    verdict,
                    &job.tasks.to_string(),
                    &format!("{:.0}", job.bytes as f64 / 1e6),
                ],
            );
        }
        let _ = writeln!(out);
        let _ = writeln!(
            out,
            "  transactional load          p50       p99     p99.9       ops/s"
        );
        for (name, latency) in [
            ("alone", self.transactional.alone),
            ("with jobs", self.transactional.with_analytics),
        ] {
            let (p50, p99, p999) = (
                time(latency.p50_us),
                time(latency.p99_us),
                time(latency.p999_us),
            );
            let _ = writeln!(
                out,
                "  {name:<20} {p50:>10} {p99:>9} {p999:>9} {:>11.0}",
                latency.ops_per_s
            );
        }
        if let Some(objective) = self.objective {
            let _ = writeln!(out, "  {}", self.guard_line(objective));
        }
        if let Some(error) = self.half_way_error() {
            let _ = writeln!(
                out,
                "  ends as predicted half-way were off by {:.0}% of the time that remained",
                error * 100.0
            );
        }
        let check = &self.word_count_check;
        let _ = writeln!(out);
        let verdict = match check.differences {
            0 => "all equal to".to_string(),
            n => format!("{n} DIFFER from"),
        };
        let _ = writeln!(
            out,
            "  {} word counts of {} words: {verdict} an independent count over the same snapshot",
            check.jobs, check.words
        );
        // A sorted copy for the median: the JSON has the durations in the order of creation. Nothing is
        // printed without a snapshot.
        let mut times = self.snapshot_create_us.clone();
        times.sort_unstable();
        if let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) {
            let count = times.len();
            let _ = writeln!(
                out,
                "  {count} snapshots created on the busy store: median {median} us, longest {longest} us"
            );
        }
        out
    }
}

/// Formats a time that is given in microseconds.
pub(super) fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.0} us")
    } else {
        format!("{:.2} ms", us / 1000.0)
    }
}

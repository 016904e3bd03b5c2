//! Advice before a job starts: the probability that it meets its goal, and the earliest goal that
//! it almost certainly meets.
//!
//! The work, of a single job or of all jobs of a chain, is estimated from the last execution, whose profile
//! is in the history.
//! The end of the job is computed many times over on the free cores, each time with other random
//! task lengths: those of the profile, times a random factor. The more earlier estimates were wrong,
//! the farther this factor is from 1.
//!
//! The more the sizes of the input and of the measured input differ, the wider is the predicted
//! range. If one is more than ten times as large as the other, there is no prediction
//! ([`WhyUnknown::FarOff`]).

mod expectation;
#[expect(clippy::disallowed_methods, reason = "measures over real time")]
mod free_cores;
mod lateness;
mod spark;
#[cfg(test)]
mod tests;

use distrs::Normal;
use ebb_scheduler::runtime::{JobProfile, MeasuredProfile, TaskMeasures};
use ebb_scheduler::sim::TaskLength;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use self::expectation::{Expected, JobAdvice, SizedJob, WhyUnknown};
pub use self::free_cores::FreeCores;
pub use self::lateness::{Lateness, PUBLICATION, PublicationFacts, PublicationOutlook};

/// The probability of meeting the goal for which [`Advice::safe_goal_s`] is computed.
pub const CONFIDENCE: f64 = 0.95;

/// The largest number of futures: simulated executions of the job, each with other random task
/// lengths. A job with very many tasks has fewer futures, so that all of them together have at most
/// `TASKS_MAX` tasks, but at least `FUTURES_MIN` futures.
const FUTURES_MAX: usize = 200;
const FUTURES_MIN: usize = 40;
const TASKS_MAX: usize = 200_000;

/// The assumed error of an estimate that is based on a run of the same work: the standard deviation of
/// ln(time of a run / estimate). The assumption counts like one measured run (see `off`).
const SAME_WORK_LOG_SD: f64 = 0.2;
/// The assumed error, as in `SAME_WORK_LOG_SD`, of an estimate that is based on a run of other work
/// of the same application.
const OTHER_WORK_LOG_SD: f64 = 0.5;

/// The assumed error of an estimate for an input of another size than the measured one: the
/// standard deviation of ln(time of a run / estimate) for each factor of e (2.718) between the two
/// sizes. The estimate takes all work as proportional to bytes, and some of it may not be.
const LOG_SD_PER_E: f64 = 0.5;

/// The facts about a job that is about to start. Its length is predicted from these facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The jobs of the runtime, which run one after the other: a single one, or the stages of a chain; at least
    /// one.
    pub stages: Vec<PlannedJobs>,
    /// True if the profiles of `stages` were taken from an execution of the same work over the same input.
    pub is_same_work: bool,
    /// The ratios of the times of earlier executions to their estimates, as
    /// [`Advice::took_over_estimate`] returned them.
    pub took_over_estimate: Vec<f64>,
    /// The number of cores that are free for the job, above 0, which may be a fraction: see
    /// [`FreeCores::of`].
    pub free_cores: f64,
    /// The goal: the number of seconds from the start of the job within which it is to end; `None`
    /// if the job has no goal.
    pub goal_s: Option<f64>,
}

/// Jobs of the runtime that run one after the other and do the same work each. A job that is no chain consists of a
/// single one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedJobs {
    /// Number of jobs.
    pub jobs: u32,
    /// Number of map tasks of each job.
    pub maps: u32,
    /// Number of reduce tasks of each job.
    pub reduces: u32,
    /// Bytes of the splits of each job's input; 0 if they are not known.
    pub bytes_in: u64,
    /// The profile of such a job in an earlier execution of the application.
    pub measured: MeasuredProfile,
}

impl PlannedJobs {
    /// Returns the estimated CPU times of a task: one second for a kind of task that the earlier execution did not
    /// have.
    fn estimates(&self) -> JobProfile {
        let otherwise = JobProfile::default();
        (self.measured).estimates(self.bytes_in, self.maps, self.reduces, otherwise)
    }
}

/// The prediction for a job before its start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Advice {
    /// The probability of meeting the goal, 0 to 1; `None` without a goal.
    pub met_probability: Option<f64>,
    /// The median of the predicted length of the job, in seconds.
    pub median_s: f64,
    /// The earliest goal that the job meets with probability [`CONFIDENCE`], in seconds
    /// from its start.
    pub safe_goal_s: f64,
    /// The probability for which `safe_goal_s` was computed.
    pub confidence: f64,
    /// The number of cores that the prediction assumes to be free for the job.
    pub free_cores: f64,
    /// The estimated CPU time of a map task, in seconds, in a chain the mean of all jobs; 1 s if no map task was
    /// measured.
    pub map_task_cpu_s: f64,
    /// The estimated CPU time of a reduce task, in seconds, in a chain the mean of all jobs; 1 s if no reduce task
    /// was measured.
    pub reduce_task_cpu_s: f64,
    /// The factor by which earlier executions took longer than was estimated from their tasks. It is the
    /// geometric mean of the ratios of their times to their estimates, and of one assumed ratio of 1.
    /// `median_s` and `safe_goal_s` include it.
    pub learned_factor: f64,
    /// The standard deviation of ln(time of a run / estimate), which measures how far estimates are off.
    pub log_sd: f64,
}

impl Advice {
    /// Returns the ratio of `took_s`, the time in seconds that the job took, to the estimate
    /// without the learned factor: `median_s / learned_factor`. Later estimates learn their factor
    /// from such ratios. The ratio to `median_s` itself would contain only the error that the
    /// factor leaves.
    pub fn took_over_estimate(&self, took_s: f64) -> f64 {
        took_s / self.median_s * self.learned_factor
    }
}

/// Predicts the length of a job. The result depends on the question only.
///
/// Assumes that this process runs nothing else, that other processes continue to use as much of the
/// machine as now, that work is in proportion to the bytes read, and that a task takes as long as
/// its CPU time on a free core.
pub fn advise(question: &Question) -> Advice {
    let stages = || (question.stages.iter()).map(|stage| (stage, stage.estimates()));
    let (log_mean, log_sd) = off(question);
    let free_cores = question.free_cores;

    // The equal jobs of a stage have one draw together.
    let tasks: u32 = stages().map(|(stage, _)| stage.maps + stage.reduces).sum();
    let tasks = tasks.max(1) as usize;
    let count = (TASKS_MAX / tasks).clamp(FUTURES_MIN, FUTURES_MAX);
    // Constant, so that the same question always has the same answer. The draws do not depend on the
    // cores either, so questions that differ only in these compare the same futures.
    let seed = 0;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ends_s: Vec<f64> = (0..count)
        .map(|nth| {
            // Evenly over the distribution rather than at random: then fewer futures are
            // enough.
            let part = (nth as f64 + rng.random::<f64>()) / count as f64;
            let factor = Normal::ppf(part, log_mean, log_sd).exp();
            let mut phase_s = |tasks: u32, length: TaskLength| {
                makespan_s((0..tasks).map(|_| length.draw(&mut rng)), free_cores)
            };
            // A job starts when the one before has ended, and its reduces when all of its maps have.
            let stages_s = stages().map(|(stage, estimates)| {
                let PlannedJobs { jobs, measured, .. } = stage;
                let map = length(&measured.map, estimates.map_task_cpu_s * factor);
                let reduce = length(&measured.reduce, estimates.reduce_task_cpu_s * factor);
                let job_s = phase_s(stage.maps, map) + phase_s(stage.reduces, reduce);
                f64::from(*jobs) * job_s
            });
            stages_s.sum::<f64>()
        })
        .collect();
    ends_s.sort_by(f64::total_cmp);
    // The earliest end by which at least this part of the futures has ended.
    let quantile = |part: f64| ends_s[(part * count as f64).ceil().max(1.0) as usize - 1];
    let met_probability = question.goal_s.map(|goal_s| {
        let met = ends_s.partition_point(|end_s| *end_s <= goal_s);
        met as f64 / count as f64
    });
    Advice {
        met_probability,
        median_s: quantile(0.5),
        safe_goal_s: quantile(CONFIDENCE),
        confidence: CONFIDENCE,
        free_cores,
        map_task_cpu_s: mean(
            stages().map(|(stage, of)| (stage.jobs * stage.maps, of.map_task_cpu_s)),
        ),
        reduce_task_cpu_s: mean(
            stages().map(|(stage, of)| (stage.jobs * stage.reduces, of.reduce_task_cpu_s)),
        ),
        learned_factor: log_mean.exp(),
        log_sd,
    }
}

/// Returns the time in seconds until tasks with these CPU times, also in seconds, have ended on
/// `cores` free cores; `cores` is positive and may be a fraction.
///
/// A task uses at most one core. Assumes that tasks find the free cores, wherever these are. So
/// other processes slow a job only while the job has more runnable tasks than there are free cores.
/// If instead each task were slowed by the used part of the machine, a single task would be
/// predicted to take twice as long on 2 cores, 1 of them free, as on 1 free core.
///
/// Tasks start in their order. The first ones that run get a whole core each, and the next one gets
/// the fraction of a core that is left. So no task waits for a later one, and no task ends later if
/// there are more cores: a job that may use more cores is never predicted to take longer.
///
/// The runtime divides the cores evenly, between somewhat more tasks at a time. This keeps as many
/// cores busy, but with even shares a task may end later because more tasks run beside it. For
/// example, tasks of 3, 1, 1 and 1 s on 2 free cores end after 4 s if all four share the cores, and
/// after 3 s if at most two run at a time. The difference is at most the longest task.
fn makespan_s(cpu_s: impl Iterator<Item = f64>, cores: f64) -> f64 {
    let mut pending = cpu_s;
    let running_max = cores.ceil() as usize;
    // The CPU time that is left of each running task, in the order of their starts.
    let mut running: Vec<f64> = Vec::with_capacity(running_max);
    let part_of_core = |at: usize| (cores - at as f64).min(1.0);
    let mut now_s = 0.0;
    loop {
        let idle = running_max - running.len();
        running.extend(pending.by_ref().take(idle));
        let ends = running.iter().enumerate();
        let ends = ends.map(|(at, left_s)| (at, left_s / part_of_core(at)));
        let Some((ended, after_s)) = ends.min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return now_s;
        };
        now_s += after_s;
        for (at, left_s) in running.iter_mut().enumerate() {
            *left_s = (*left_s - part_of_core(at) * after_s).max(0.0);
        }
        running.remove(ended);
    }
}

/// Returns the mean CPU time of a task, from the number of tasks in each stage and the CPU time of each of them; that
/// of the first stage if no stage has tasks.
fn mean(stages: impl Iterator<Item = (u32, f64)> + Clone) -> f64 {
    let tasks: u32 = stages.clone().map(|(tasks, _)| tasks).sum();
    let cpu_s: f64 = stages
        .clone()
        .map(|(tasks, cpu_s)| f64::from(tasks) * cpu_s)
        .sum();
    if tasks > 0 {
        cpu_s / f64::from(tasks)
    } else {
        stages.map(|(_, cpu_s)| cpu_s).next().unwrap_or_default()
    }
}

/// Returns the mean and the standard deviation of ln(time of a run / estimate). They are computed
/// from the earlier runs, and from one assumed run. The assumed run adds 0 to the sum for the mean,
/// and the square of `SAME_WORK_LOG_SD` or `OTHER_WORK_LOG_SD` to the sum for the variance. The
/// more the size of the input differs from that of the measured input, the larger is the standard
/// deviation.
fn off(question: &Question) -> (f64, f64) {
    let believed = if question.is_same_work {
        SAME_WORK_LOG_SD
    } else {
        OTHER_WORK_LOG_SD
    };
    let past = question.took_over_estimate.iter().map(|off| off.ln());
    let past: Vec<f64> = past.filter(|log| log.is_finite()).collect();
    let runs = past.len() as f64 + 1.0;
    let mean = past.iter().sum::<f64>() / runs;
    let squares = past.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    // All stages grow with the input of the first job.
    let first = question.stages.first();
    let growth = first.and_then(|stage| stage.measured.growth(stage.bytes_in));
    let growth = growth.unwrap_or(1.0);
    let stretched = (LOG_SD_PER_E * growth.ln()).powi(2);
    (
        mean,
        ((squares + believed.powi(2)) / runs + stretched).sqrt(),
    )
}

/// Returns a log-normal distribution of task lengths with the mean `mean_s`. Its spread is computed from the
/// longest measured task: of n log-normal numbers the largest is about exp(sd * sqrt(2 ln n)) times the
/// median. If fewer than two tasks were measured, all lengths are `mean_s`.
fn length(measured: &TaskMeasures, mean_s: f64) -> TaskLength {
    let tasks = measured.tasks as f64;
    let measured_mean_s = measured.cpu_s / tasks.max(1.0);
    let log_sd = if tasks >= 2.0 && measured_mean_s > 0.0 {
        (measured.cpu_s_max / measured_mean_s).ln() / (2.0 * tasks.ln()).sqrt()
    } else {
        0.0
    };
    TaskLength::LogNormal {
        mean_s: mean_s.max(1e-9),
        log_sd: log_sd.clamp(0.0, 2.0),
    }
}

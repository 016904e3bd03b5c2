//! A job to simulate, and the true lengths of its tasks.

use crate::model::{Job, JobId, Profile, Splits};
use rand::{Rng, RngExt};
use std::f64::consts::TAU;
use std::sync::Arc;

/// The true lengths of a job's tasks: their times on a regular node without other tasks that slow
/// them down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskLength {
    /// All tasks have the same length, in seconds.
    Fixed(f64),
    /// Log-normal lengths around a mean: most tasks are shorter, a few much longer.
    LogNormal {
        /// Mean length in seconds.
        mean_s: f64,
        /// Standard deviation of the natural logarithm of a task's length.
        log_sd: f64,
    },
}

impl TaskLength {
    /// Draws one length, in seconds.
    pub fn draw(&self, rng: &mut impl Rng) -> f64 {
        match *self {
            Self::Fixed(length_s) => length_s,
            Self::LogNormal { mean_s, log_sd } => log_normal(mean_s, log_sd, rng),
        }
    }

    /// Returns the mean length, in seconds.
    #[must_use]
    pub const fn mean_s(&self) -> f64 {
        match *self {
            Self::Fixed(mean_s) | Self::LogNormal { mean_s, .. } => mean_s,
        }
    }

    fn is_valid(&self) -> bool {
        let log_sd = match *self {
            Self::Fixed(_) => 0.0,
            Self::LogNormal { log_sd, .. } => log_sd,
        };
        let mean_s = self.mean_s();
        mean_s.is_finite() && mean_s > 0.0 && log_sd.is_finite() && log_sd >= 0.0
    }
}

/// Draws a log-normal number with this mean, and this standard deviation of its
/// logarithm.
pub(crate) fn log_normal(mean: f64, log_sd: f64, rng: &mut impl Rng) -> f64 {
    // The mean of a log-normal is exp(mu + sd^2 / 2).
    (mean.ln() - log_sd * log_sd / 2.0 + log_sd * normal(rng)).exp()
}

/// Draws a number from the standard normal distribution.
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    // Box-Muller; 1 - u keeps the logarithm's argument above zero.
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos()
}

/// A part of a job's tasks that take much longer than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stragglers {
    /// Part of the job's tasks that are stragglers, 0 to 1.
    pub fraction: f64,
    /// Factor by which a straggler takes longer than the other tasks; at least 1.
    pub factor: f64,
}

/// A job to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct SimJob {
    /// Id, submission, goal and weight. If the job follows another one (`after`),
    /// submission and goal count from the end of that job.
    pub job: Job,
    /// The job that must end before this one is submitted.
    pub after: Option<JobId>,
    /// Number of map tasks; at least 1.
    pub maps: u32,
    /// Number of reduce tasks.
    pub reduces: u32,
    /// Demands of the tasks, and the lengths that the policy assumes before any task has
    /// finished.
    pub profile: Profile,
    /// True lengths of the maps.
    pub map_length: TaskLength,
    /// True lengths of the reduces, without the shuffle. A length counts from the start of the
    /// reduce phase, which begins when all maps are done, or later if its demand does not fit.
    pub reduce_length: TaskLength,
    /// Factor by which a map takes longer if its input lies on another node; at least 1.
    pub remote_factor: f64,
    /// Factor by which maps are faster on accelerated nodes; `None`: the job has no
    /// accelerated version.
    pub speedup: Option<f64>,
    /// The nodes that hold the input of each map; `None`: the input is equally near to all nodes.
    pub splits: Option<Arc<Splits>>,
    /// Stragglers among the tasks; `None`: there are none.
    pub stragglers: Option<Stragglers>,
    /// Bytes that a map reads; over the network if its input lies on another node.
    pub map_input_bytes: u64,
}

impl SimJob {
    /// Returns a job that has only maps. The lengths of all maps have the distribution `length`,
    /// and their input is near to all nodes.
    #[must_use]
    pub const fn of_maps(job: Job, maps: u32, profile: Profile, length: TaskLength) -> Self {
        Self {
            job,
            after: None,
            maps,
            reduces: 0,
            profile,
            map_length: length,
            reduce_length: length,
            remote_factor: 1.0,
            speedup: None,
            splits: None,
            stragglers: None,
            map_input_bytes: 0,
        }
    }

    /// Returns the number of maps and reduces together.
    #[must_use]
    pub const fn tasks(&self) -> u64 {
        self.maps as u64 + self.reduces as u64
    }

    /// Checks the job for a cluster of `nodes` nodes; the error is the violated rule.
    pub(super) fn check(&self, nodes: usize) -> Result<(), &'static str> {
        let at_least_one = |factor: f64| factor.is_finite() && factor >= 1.0;
        let job = &self.job;
        let ok = [
            (
                job.submitted_s.is_finite() && job.submitted_s >= 0.0,
                "the submission must be a finite number of seconds, not before 0",
            ),
            (
                job.goal_s
                    .is_none_or(|goal_s| goal_s.is_finite() && goal_s >= job.submitted_s),
                "the goal must be a finite number of seconds, not before the submission",
            ),
            (
                job.weight.is_finite() && job.weight > 0.0,
                "the weight must be positive and finite",
            ),
            (self.maps > 0, "a job needs at least one map"),
            (
                self.map_length.is_valid() && (self.reduces == 0 || self.reduce_length.is_valid()),
                "task lengths must be positive and finite, their deviation not negative",
            ),
            (
                at_least_one(self.remote_factor),
                "the remote factor must be finite and at least 1",
            ),
            (
                self.speedup
                    .is_none_or(|speedup| speedup.is_finite() && speedup > 0.0),
                "the speedup must be positive and finite",
            ),
            (
                self.stragglers
                    .is_none_or(|s| (0.0..=1.0).contains(&s.fraction) && at_least_one(s.factor)),
                "stragglers are a fraction from 0 to 1, and a finite factor of at least 1",
            ),
            (
                self.splits.as_ref().is_none_or(|splits| {
                    let nodes_of = (0..splits.count()).flat_map(|split| splits.nodes_of(split));
                    let mut nodes_of = nodes_of;
                    splits.count() == self.maps && nodes_of.all(|node| (node.0 as usize) < nodes)
                }),
                "there must be one split per map, on nodes that exist",
            ),
        ];
        ok.into_iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |(_, what)| Err(what))
    }
}

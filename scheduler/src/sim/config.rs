//! What to simulate: the cluster, the jobs and how long their tasks take.

use crate::availability::Availability;
use crate::model::{Job, JobId, Profile, Resources};
use crate::policy::ReduceStart;
use rand::{Rng, RngExt};
use std::f64::consts::TAU;
use std::sync::Arc;
use thiserror::Error;

/// The cluster and the clockwork.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Number of nodes, all alike.
    pub nodes: u32,
    /// A whole node. The thesis's simulator has one slot per node.
    pub node: Resources,
    /// f(t) for the whole cluster, in hundredths of a core: known in advance to
    /// the policy, and the truth.
    pub availability: Arc<Availability>,
    /// Length of a control cycle in seconds; 30 in the thesis.
    pub cycle_s: f64,
    /// When to stop, in seconds, whatever is unfinished.
    pub horizon_s: f64,
    /// When reduces may start.
    pub reduce_start: ReduceStart,
    /// Seed of the task lengths.
    pub seed: u64,
}

impl SimConfig {
    /// `nodes` nodes of one core and one slot each, a 30 s cycle, reduces after
    /// maps, a horizon of 30 days and seed 0.
    #[must_use]
    pub fn one_slot_nodes(nodes: u32, availability: Availability) -> Self {
        Self {
            nodes,
            node: Resources::cpu_bound(100),
            availability: Arc::new(availability),
            cycle_s: 30.0,
            horizon_s: 30.0 * crate::availability::DAY_S,
            reduce_start: ReduceStart::AfterMaps,
            seed: 0,
        }
    }
}

/// How long tasks really take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskLength {
    /// All the same, in seconds.
    Fixed(f64),
    /// Log-normal around a mean; most tasks are shorter, a few much longer.
    LogNormal {
        /// Mean length in seconds.
        mean_s: f64,
        /// Standard deviation of the logarithm.
        log_sd: f64,
    },
}

impl TaskLength {
    /// Draws one length, in seconds.
    pub fn draw(&self, rng: &mut impl Rng) -> f64 {
        match *self {
            Self::Fixed(length_s) => length_s,
            Self::LogNormal { mean_s, log_sd } => {
                // Box-Muller; 1 - u keeps the logarithm's argument above zero.
                let (u, v): (f64, f64) = (rng.random(), rng.random());
                let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos();
                // The mean of a log-normal is exp(mu + sd^2 / 2).
                (mean_s.ln() - log_sd * log_sd / 2.0 + log_sd * normal).exp()
            }
        }
    }

    fn is_valid(&self) -> bool {
        match *self {
            Self::Fixed(length_s) => length_s.is_finite() && length_s > 0.0,
            Self::LogNormal { mean_s, log_sd } => {
                mean_s.is_finite() && mean_s > 0.0 && log_sd.is_finite() && log_sd >= 0.0
            }
        }
    }
}

/// A job to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct SimJob {
    /// Id, submission and goal.
    pub job: Job,
    /// Number of map tasks.
    pub maps: u32,
    /// Number of reduce tasks.
    pub reduces: u32,
    /// What the policy believes about tasks before any has finished.
    pub profile: Profile,
    /// How long maps really take.
    pub map_length: TaskLength,
    /// How long reduces really take once the maps are done.
    pub reduce_length: TaskLength,
}

/// A configuration that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// A number that must be positive and finite is not.
    #[error("{what} must be positive and finite, got {value}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// Two jobs share an id.
    #[error("{0} is there twice")]
    DuplicateJob(JobId),
    /// A job has no maps, or its times or task lengths are not usable numbers.
    #[error("{0} has no maps, or a submission, goal or task length that is not a usable number")]
    BadJob(JobId),
}

pub(super) fn check(config: &SimConfig, jobs: &[SimJob]) -> Result<(), SimError> {
    for (what, value) in [("cycle_s", config.cycle_s), ("horizon_s", config.horizon_s)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(SimError::NotPositive { what, value });
        }
    }
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.job.id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SimError::DuplicateJob(pair[0]));
    }
    for job in jobs {
        let times_ok = job.job.submitted_s.is_finite()
            && job.job.submitted_s >= 0.0
            && job.job.goal_s.is_none_or(f64::is_finite);
        let lengths_ok =
            job.map_length.is_valid() && (job.reduces == 0 || job.reduce_length.is_valid());
        if !times_ok || !lengths_ok || job.maps == 0 {
            return Err(SimError::BadJob(job.job.id));
        }
    }
    Ok(())
}

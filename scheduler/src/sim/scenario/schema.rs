//! A scenario as it is written: TOML tables, every field with a unit in its name
//! and a default where there is a sensible one.

use crate::policy::ReduceStart;
use crate::sim::{ForecastError, NodeLoss, Spread};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub title: Option<String>,
    #[serde(default)]
    pub policies: Vec<String>,
    #[serde(default = "one")]
    pub replicas: u32,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub run: Run,
    pub nodes: Vec<Nodes>,
    pub availability: Option<Availability>,
    pub forecast: Option<Availability>,
    pub forecast_error: Option<ForecastError>,
    /// Also bound from below what must be missed.
    #[serde(default)]
    pub offline_bound: bool,
    #[serde(default)]
    pub applications: BTreeMap<String, Application>,
    pub workload: Option<Workload>,
    #[serde(default, rename = "job")]
    pub jobs: Vec<Job>,
    #[serde(default, rename = "loss")]
    pub losses: Vec<NodeLoss>,
    /// Fields to vary: path to values, every combination is a point.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
}

const fn one() -> u32 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Run {
    pub cycle_s: f64,
    pub horizon_s: f64,
    pub reduces: ReduceStart,
    pub spread: Spread,
    /// What is measured lies between these; jobs count that touch it.
    pub measure_from_s: f64,
    pub measure_until_s: Option<f64>,
    /// Replicas of each split where an application does not say; 0: all nodes are as
    /// near.
    pub replicas: u32,
    /// Record who holds what this often; never by default.
    pub shares_every_s: Option<f64>,
    /// Record every task.
    pub tasks: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            cycle_s: 30.0,
            horizon_s: 30.0 * 86_400.0,
            reduces: ReduceStart::AfterMaps,
            spread: Spread::WholeNodes,
            measure_from_s: 0.0,
            measure_until_s: None,
            replicas: 0,
            shares_every_s: None,
            tasks: false,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nodes {
    pub count: u32,
    #[serde(default = "core")]
    pub cpu_hundredths: u32,
    pub io_bytes_per_s: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub map_slots: Option<u32>,
    pub reduce_slots: Option<u32>,
    #[serde(default)]
    pub accelerated: bool,
    /// What is left of these nodes; by default what `[availability]` says.
    pub availability: Option<Availability>,
}

const fn core() -> u32 {
    100
}

/// Parts of the nodes' CPU, 0 to 1, over time.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Availability {
    Constant {
        fraction: f64,
    },
    SineDay {
        mean: f64,
        amplitude: f64,
        peak_at_s: f64,
        day_s: Option<f64>,
    },
    /// A measured series, `time,value` lines in a file.
    Trace {
        file: String,
        #[serde(default)]
        measures: Measured,
        /// The value that stands for all of the nodes.
        whole: f64,
        /// Where time 0 lies, in seconds after the first value.
        #[serde(default)]
        from_s: f64,
        /// Whether a larger value counts as that, instead of being refused.
        #[serde(default)]
        clip: bool,
    },
    /// The thesis's f(t) of figure 5.22: 0.575 of the nodes on average, 0.375 to
    /// either side at level 3, two thirds and one third of that at 2 and 1.
    Burstiness {
        level: u32,
    },
}

/// What the values of a trace are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Measured {
    /// What the transactional load takes.
    #[default]
    Load,
    /// What is left beside it.
    Availability,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub span_s: f64,
    /// Arriving work, as a part of all CPU there is.
    pub load: Option<f64>,
    /// Or: jobs on average.
    pub jobs: Option<f64>,
    pub maps_mean: f64,
    #[serde(default)]
    pub maps_log_sd: f64,
    pub goal_factor: Option<(f64, f64)>,
    #[serde(default)]
    pub reduces_per_map: f64,
    /// So many jobs at once on average.
    #[serde(default = "unit")]
    pub burst_jobs_mean: f64,
    /// Tail index of Pareto sizes instead of log-normal ones.
    pub maps_pareto: Option<f64>,
    /// Parts of the jobs, and how long their maps take in place of the application's.
    #[serde(default)]
    pub other_map_s: Vec<(f64, f64)>,
    /// What policies believe at first, in parts of the truth: between these.
    pub estimate_factor: Option<(f64, f64)>,
    /// Name of one of `[applications]`.
    pub application: String,
}

/// What the tasks of an application are like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Application {
    pub map_s: f64,
    pub reduce_s: Option<f64>,
    #[serde(default)]
    pub task_log_sd: f64,
    /// What the policy believes before a task has finished; the truth by default.
    pub estimated_map_s: Option<f64>,
    pub map: Option<Demand>,
    pub shuffle: Option<Demand>,
    pub reduce: Option<Demand>,
    /// Of each split; by default as `[run]` says.
    pub replicas: Option<u32>,
    #[serde(default = "unit")]
    pub remote_factor: f64,
    pub speedup: Option<f64>,
    #[serde(default)]
    pub map_input_bytes: u64,
    #[serde(default)]
    pub straggler_fraction: f64,
    #[serde(default = "unit")]
    pub straggler_factor: f64,
}

const fn unit() -> f64 {
    1.0
}

/// What one task of a phase holds; a core and nothing else by default, no CPU
/// while it shuffles.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demand {
    #[serde(default = "core")]
    pub cpu_hundredths: u32,
    #[serde(default)]
    pub io_bytes_per_s: u64,
    #[serde(default)]
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub name: Option<String>,
    #[serde(default)]
    pub submitted_s: f64,
    /// After the submission.
    pub goal_s: Option<f64>,
    #[serde(default = "unit")]
    pub weight: f64,
    pub maps: u32,
    #[serde(default)]
    pub reduces: u32,
    /// Name of one of `[applications]`.
    pub application: String,
    /// Name of the job whose end comes before the submission, which then counts
    /// from there.
    pub after: Option<String>,
}

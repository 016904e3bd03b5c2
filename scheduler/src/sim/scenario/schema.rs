//! The schema of a scenario file: TOML tables whose fields have a unit in their name, and
//! a default where there is a sensible one.

use crate::policy::ReduceStart;
use crate::sim::{ForecastError, NodeLoss, Spread};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole scenario file.
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
    /// True to compute also a lower bound on missed goals.
    #[serde(default)]
    pub offline_bound: bool,
    #[serde(default)]
    pub applications: BTreeMap<String, Application>,
    pub workload: Option<Workload>,
    #[serde(default, rename = "job")]
    pub jobs: Vec<Job>,
    #[serde(default, rename = "loss")]
    pub losses: Vec<NodeLoss>,
    /// Fields to vary: path and values; every combination is a point.
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
    /// Begin of the measured time, in seconds. Only jobs that are submitted or finished
    /// within the measured time count.
    pub measure_from_s: f64,
    pub measure_until_s: Option<f64>,
    /// Replicas of each split for applications that do not set their own; 0: input is
    /// equally near to all nodes.
    pub replicas: u32,
    /// Shortest time between two samples of the jobs' shares, in seconds; by default there are no
    /// samples.
    pub shares_every_s: Option<f64>,
    /// True to record every task.
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
    /// The availability of the nodes of this kind; by default that of `[availability]`, or else all
    /// of their CPU.
    pub availability: Option<Availability>,
}

const fn core() -> u32 {
    100
}

/// The part of the nodes' CPU that is available, 0 to 1, over time.
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
        measures: TraceQuantity,
        /// The value of the series that stands for all CPU of all nodes.
        whole: f64,
        /// The time in the series at which the simulation begins, in seconds after the first
        /// value.
        #[serde(default)]
        from_s: f64,
        /// True if values of the series above `whole` are lowered to `whole`. If false, such
        /// a series is refused.
        #[serde(default)]
        clip: bool,
    },
    /// The thesis's f(t) of figure 5.22, as a fraction of the nodes: a mean of 0.575, with
    /// an amplitude of 0.375 at level 3, 0.25 at level 2 and 0.125 at level 1.
    Burstiness {
        level: u32,
    },
}

/// The quantity that a trace measures.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TraceQuantity {
    /// The trace measures the part of the nodes that the transactional load takes.
    #[default]
    Load,
    /// The trace measures the part of the nodes that the transactional load leaves.
    Availability,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub span_s: f64,
    /// Arriving work, as a part of the CPU of all nodes.
    pub load: Option<f64>,
    /// Mean number of generated jobs; the alternative to `load`.
    pub jobs: Option<f64>,
    pub maps_mean: f64,
    #[serde(default)]
    pub maps_log_sd: f64,
    pub goal_factor: Option<(f64, f64)>,
    #[serde(default)]
    pub reduces_per_map: f64,
    /// Mean number of jobs that arrive at once.
    #[serde(default = "unit")]
    pub burst_jobs_mean: f64,
    /// Tail index, above 1, of a Pareto distribution of the jobs' sizes in place of the log-normal
    /// one.
    pub maps_pareto: Option<f64>,
    /// Jobs whose maps have another length than the application's: pairs of a fraction of
    /// the jobs, 0 to 1, and the length of their maps in seconds.
    #[serde(default)]
    pub other_map_s: Vec<(f64, f64)>,
    /// Lowest and highest value of a random factor. The policy starts with the estimate of a map's
    /// length that follows from the application, times this factor. `None`: the factor is 1.
    pub estimate_factor: Option<(f64, f64)>,
    /// Name of an application in `[applications]`.
    pub application: String,
}

/// Lengths, demands and input of an application's tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Application {
    pub map_s: f64,
    pub reduce_s: Option<f64>,
    #[serde(default)]
    pub task_log_sd: f64,
    /// Length of a map that the policy assumes before a map has finished; the true one by default.
    pub estimated_map_s: Option<f64>,
    pub map: Option<Demand>,
    pub shuffle: Option<Demand>,
    pub reduce: Option<Demand>,
    /// Replicas of each split; by default those of `[run]`.
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

/// The demand of one task in a phase; by default one core and nothing else. Without this table, a
/// map or a reduce has that default, and a shuffle demands nothing.
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
    /// Completion time goal, in seconds after the submission; `None`: no goal.
    pub goal_s: Option<f64>,
    #[serde(default = "unit")]
    pub weight: f64,
    pub maps: u32,
    #[serde(default)]
    pub reduces: u32,
    /// Name of an application in `[applications]`.
    pub application: String,
    /// Name of the job that this one follows: `submitted_s` then counts from the end of that job.
    /// `None`: the job follows no other.
    pub after: Option<String>,
}

//! How large a scenario may be, and how large or small its numbers.
//!
//! A slip of the pen must take neither all memory nor years. Each bound is far beyond what
//! anybody has simulated with these tools (the thesis's week: 100 nodes, 2,500 jobs, 160,000
//! tasks, 20,000 cycles). The book lists them under "How large a scenario may be".

/// Tasks of a run, of all its jobs together: up to a hundred bytes each, on every core.
pub const TASKS_MAX: u64 = 10_000_000;
/// Jobs of a run, listed and generated. The simulator's time grows with the square of those
/// that are unfinished at once.
pub const JOBS_MAX: u64 = 100_000;
/// Copies of splits in a run: maps times the replicas of their input.
pub const COPIES_MAX: u64 = 30_000_000;
/// Nodes of a cluster, of all kinds together.
pub const NODES_MAX: u64 = 100_000;
/// CPU of one node, and of one task, in hundredths of a core.
pub const NODE_HUNDREDTHS_MAX: u32 = 1_000_000;
/// CPU of all nodes, in hundredths of a core: a control cycle counts it in 32 bits.
pub const CLUSTER_HUNDREDTHS_MAX: u64 = 4_000_000_000;
/// Typed slots of one node, of each kind.
pub const SLOTS_MAX: u32 = 10_000;
/// Control cycles until the horizon.
pub const CYCLES_MAX: f64 = 10_000_000.0;
/// Samples of who holds what, until the horizon.
pub const SAMPLES_MAX: f64 = 1_000_000.0;
/// Steps of a measured series.
pub const STEPS_MAX: usize = 1_000_000;
/// Every time and length, in seconds: thirty years.
pub const SECONDS_MAX: f64 = 1e9;
/// The length of a task, in seconds.
pub const TASK_SECONDS_MIN: f64 = 1e-6;
/// The length of a day, in seconds.
pub const DAY_SECONDS_MIN: f64 = 1.0;
/// Standard deviations of logarithms: one of them is a factor of 148 then.
pub const LOG_SD_MAX: f64 = 5.0;
/// Factors and weights. The least is 1 over this.
pub const FACTOR_MAX: f64 = 1_000_000.0;
/// The input of a map, in bytes: a petabyte.
pub const INPUT_BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Points of a sweep.
pub const POINTS_MAX: usize = 10_000;
/// Replicas of a scenario.
pub const REPLICAS_MAX: u32 = 10_000;
/// Runs: points times policies times replicas.
pub const RUNS_MAX: u64 = 1_000_000;
/// Things that are kept until the last run has ended: nodes, listed jobs and steps of series of
/// each point; listed jobs of each run; recorded tasks and samples of each first replica.
pub const KEPT_MAX: u64 = 20_000_000;

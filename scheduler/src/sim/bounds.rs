//! Limits on the size of a scenario and on its numbers.
//!
//! A typing error in a scenario must neither exhaust memory nor run for years. Each bound is
//! far beyond any scenario that these tools have simulated (the thesis's week: 100 nodes, 2,500
//! jobs, 160,000 tasks, 20,000 cycles). The book lists the bounds under "How large a scenario
//! may be".

/// Largest number of tasks of a run, in all its jobs: each takes up to a hundred bytes, in each of
/// the runs that the cores simulate at once.
pub const TASKS_MAX: u64 = 10_000_000;
/// Largest number of jobs of a run, listed and generated. The simulator's time grows with the
/// square of the number of jobs that are unfinished at once.
pub const JOBS_MAX: u64 = 100_000;
/// Largest number of copies of splits in a run: maps times the replicas of their input.
pub const COPIES_MAX: u64 = 30_000_000;
/// Largest number of nodes of a cluster, of all kinds together.
pub const NODES_MAX: u64 = 100_000;
/// Largest CPU of one node, and of one task, in hundredths of a core.
pub const NODE_HUNDREDTHS_MAX: u32 = 1_000_000;
/// Largest CPU of all nodes, in hundredths of a core: a control cycle counts it in 32 bits.
pub const CLUSTER_HUNDREDTHS_MAX: u64 = 4_000_000_000;
/// Largest number of map slots, and of reduce slots, of one node.
pub const SLOTS_MAX: u32 = 10_000;
/// Largest number of control cycles until the horizon.
pub const CYCLES_MAX: f64 = 10_000_000.0;
/// Largest number of samples of the jobs' shares, until the horizon.
pub const SAMPLES_MAX: f64 = 1_000_000.0;
/// Largest number of steps of a measured series.
pub const STEPS_MAX: usize = 1_000_000;
/// Largest time or length, in seconds: thirty years.
pub const SECONDS_MAX: f64 = 1e9;
/// Smallest length in seconds of a task, a control cycle, the horizon, and other times that must
/// not be 0.
pub const TASK_SECONDS_MIN: f64 = 1e-6;
/// Smallest length of a day, in seconds.
pub const DAY_SECONDS_MIN: f64 = 1.0;
/// Largest standard deviation of a logarithm: one deviation is then a factor of 148.
pub const LOG_SD_MAX: f64 = 5.0;
/// Largest factor or weight. A factor that may be below 1 is at least the reciprocal of this
/// number.
pub const FACTOR_MAX: f64 = 1_000_000.0;
/// Largest input of a map, in bytes: a petabyte.
pub const INPUT_BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Largest number of points (combinations of swept values) of a scenario.
pub const POINTS_MAX: usize = 10_000;
/// Largest number of replicas of a scenario: repetitions with other random numbers.
pub const REPLICAS_MAX: u32 = 10_000;
/// Largest number of simulation runs of a scenario: points times policies times replicas.
pub const RUNS_MAX: u64 = 1_000_000;
/// Largest number of items in memory until the last run has ended. Each point of a sweep keeps its
/// nodes, listed jobs and steps of series; each run keeps its listed jobs; the first replica of
/// each point and policy keeps its recorded tasks and samples.
pub const KEPT_MAX: u64 = 20_000_000;

//! What a YCSB run found: the JSON.

use serde::Serialize;

use super::args::DurabilityArg;
use super::snapshots::SnapshotsOutcome;
use crate::resources::Usage;
use crate::ycsb::{LoadReport, Report};

/// Everything that was measured; what `--json-file` writes.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub settings: Settings,
    /// What was loaded; none when the records were there.
    pub load: Option<LoadReport>,
    #[serde(flatten)]
    pub run: Report,
    /// Operations per second of processor time of the whole process, user and
    /// system, with the background work of the run.
    pub ops_per_cpu_s: f64,
    /// What the process used for the run, settling included.
    pub usage: Usage,
    /// How long it took to settle after the run, in seconds.
    pub settle_s: f64,
    /// Bytes that the store wrote for the run.
    pub written: Written,
    /// Bytes that the store wrote in all, load included.
    pub written_with_load: Written,
    pub reads: Reads,
    pub write_stalls: WriteStalls,
    /// Length of all files of the database after the run, in bytes.
    pub directory_bytes: u64,
    /// The most memory that the process had, load included, in bytes.
    pub memory_peak_bytes: u64,
    pub snapshots: Option<SnapshotsOutcome>,
    pub interrupted: bool,
}

/// How a run was set up, as far as the driver does not say.
#[derive(Debug, Serialize)]
pub struct Settings {
    pub cpus: usize,
    pub value_bytes: u64,
    /// Operations after which it was to end.
    pub operations_max: Option<u64>,
    /// Seconds after which it was to end.
    pub duration_s: Option<f64>,
    pub target_ops_per_s: Option<f64>,
    pub durability: DurabilityArg,
    /// Size of the block cache, in MiB.
    pub cache_mb: u64,
    /// Size of a memtable, in MiB.
    pub memtable_mb: u64,
    pub seed: u64,
}

#[derive(Debug, Serialize)]
pub struct Written {
    /// Keys and values that the load or the run wrote, uncompressed.
    pub user_bytes: u64,
    /// Appended to the WAL.
    pub wal_bytes: u64,
    /// Syncs of the WAL.
    pub wal_syncs: u64,
    /// SSTables written by flushes.
    pub flush_bytes: u64,
    /// SSTables written by compactions.
    pub compaction_bytes: u64,
    /// WAL, flushes and compactions by `user_bytes`; none when nothing was
    /// written.
    pub amplification: Option<f64>,
}

/// What point reads cost on average, over all of the run; 0 for what a memtable
/// answered.
#[derive(Debug, Serialize)]
pub struct Reads {
    pub point_reads: u64,
    /// Runs looked into.
    pub runs_touched_per_read: f64,
    pub blocks_read_per_read: f64,
    pub blocks_cached_per_read: f64,
    /// Files that a filter saved.
    pub filter_skips_per_read: f64,
}

/// Writes that were held up until flushes or compactions caught up.
#[derive(Debug, Serialize)]
pub struct WriteStalls {
    /// Writes of the run that were stopped.
    pub stalls: u64,
    /// How long all together, in seconds.
    pub stall_s: f64,
    /// Writes of the run that were slowed, to the pace of flushes and
    /// compactions.
    pub throttles: u64,
    /// How long all together, in seconds.
    pub throttle_s: f64,
    /// The longest that one write was held up, load included, in microseconds.
    pub wait_us_max: u64,
}

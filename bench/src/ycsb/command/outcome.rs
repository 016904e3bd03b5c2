//! The results of a YCSB run: the JSON.

use serde::Serialize;

use super::args::DurabilityArg;
use super::snapshots::SnapshotsOutcome;
use crate::resources::Usage;
use crate::ycsb::{LoadReport, Report};

/// The results of a run on a database in this process, as `--json-file` contains them.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub settings: Settings,
    /// The report of the load; `None` if the records were in the table already.
    pub load: Option<LoadReport>,
    #[serde(flatten)]
    pub run: Report,
    /// Operations per second of CPU time, user and system, of the whole process, with the
    /// background work of the run.
    pub ops_per_cpu_s: f64,
    /// The CPU time and disk traffic of the process from the start of the run until the background
    /// work that the run caused was done.
    pub usage: Usage,
    /// The wait for background work after the run, in seconds.
    pub settle_s: f64,
    /// Bytes that the store wrote for the run, including the background work until it settled.
    pub written: BytesWritten,
    /// Bytes that the store wrote in total, for the load and the run.
    pub written_with_load: BytesWritten,
    pub reads: Reads,
    pub write_stalls: WriteStalls,
    /// Length of all files of the database after the run, in bytes.
    pub directory_bytes: u64,
    /// The peak memory of the process since its start, so the load counts too, in bytes.
    pub memory_peak_bytes: u64,
    pub snapshots: Option<SnapshotsOutcome>,
    pub interrupted: bool,
}

/// The settings of a run that [`Report`] does not contain.
#[derive(Debug, Serialize)]
pub struct Settings {
    pub cpus: usize,
    pub value_bytes: u64,
    /// The number of operations after which the run was to end.
    pub operations_max: Option<u64>,
    /// The number of seconds after which the run was to end.
    pub duration_s: Option<f64>,
    pub target_ops_per_s: Option<f64>,
    pub durability: DurabilityArg,
    /// Size of the block cache, in MiB.
    pub cache_mb: u64,
    /// Size at which a memtable is flushed, in MiB.
    pub memtable_mb: u64,
    pub seed: u64,
}

#[derive(Debug, Serialize)]
pub struct BytesWritten {
    /// Bytes of keys and values that were written, uncompressed.
    pub user_bytes: u64,
    /// Bytes appended to the WAL.
    pub wal_bytes: u64,
    pub wal_syncs: u64,
    /// Bytes of SSTables written by flushes.
    pub flush_bytes: u64,
    /// Bytes of SSTables written by compactions.
    pub compaction_bytes: u64,
    /// Bytes of WAL, flushes and compactions, divided by `user_bytes`; `None` if `user_bytes` is 0.
    pub amplification: Option<f64>,
}

/// The number of point reads of the run, and the mean numbers of sorted runs of SSTables, of blocks
/// and of filters that a point read used. A read that a memtable serves uses none of these.
#[derive(Debug, Serialize)]
pub struct Reads {
    pub point_reads: u64,
    /// The mean number of sorted runs of SSTables that a point read searched, because neither key
    /// bounds nor filters excluded the key.
    pub runs_touched_per_read: f64,
    pub blocks_read_per_read: f64,
    pub blocks_cached_per_read: f64,
    /// The mean number of SSTables that a point read skipped because of their filters.
    pub filter_skips_per_read: f64,
}

/// The delays of writes until flushes or compactions caught up.
#[derive(Debug, Serialize)]
pub struct WriteStalls {
    /// The number of writes that were stopped, because the work left for flushes or compactions was
    /// at its limit.
    pub stalls: u64,
    /// Total time that writes were stopped, in seconds.
    pub stall_s: f64,
    /// The number of writes that were slowed down to the pace of flushes and compactions.
    pub throttles: u64,
    /// Total time that writes were slowed down, in seconds.
    pub throttle_s: f64,
    /// The longest delay of one write, during the load or the run, in microseconds.
    pub wait_us_max: u64,
}

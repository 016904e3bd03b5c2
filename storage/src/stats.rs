//! Statistics of a database: its contents, and its work since it was opened, measured and not
//! estimated. The engine gathers them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::lossy;
use crate::sstable::ReadCounters;

/// An atomic counter or maximum. Its operations have relaxed ordering, because no other data
/// depends on it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of an open database.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: Counter,
    pub(crate) operations_written: Counter,
    pub(crate) user_bytes_written: Counter,
    pub(crate) flush_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) merge_read_failures: Counter,
    pub(crate) picks_refused: Counter,
    pub(crate) compaction_bytes: Counter,
    pub(crate) compaction_read_bytes: Counter,
    pub(crate) compaction_yield_us: Counter,
    pub(crate) stalls: Counter,
    pub(crate) stall_us: Counter,
    pub(crate) stall_us_max: Counter,
    pub(crate) throttles: Counter,
    pub(crate) throttle_us: Counter,
    pub(crate) write_wait_us_max: Counter,
    pub(crate) reads_by_runs: [Counter; Stats::READS_BY_RUNS],
    pub(crate) runs_touched: Counter,
    pub(crate) blocks_read: Counter,
    pub(crate) blocks_cached: Counter,
    pub(crate) filter_skips: Counter,
    pub(crate) prefix_skips: Counter,
}

impl Counters {
    pub(crate) fn count_read(&self, reads: &ReadCounters) {
        // The count of all reads is the sum of these: one line written, not two.
        let bucket = (reads.runs_touched as usize).min(Stats::READS_BY_RUNS - 1);
        self.reads_by_runs[bucket].add(1);
        // A read that needs only a memtable touches none of these lines.
        if reads.runs_touched > 0 {
            self.runs_touched.add(reads.runs_touched);
            self.blocks_read.add(reads.blocks_read);
            self.blocks_cached.add(reads.blocks_cached);
        }
        if reads.filter_skips > 0 {
            self.filter_skips.add(reads.filter_skips);
        }
    }

    pub(crate) fn point_reads(&self) -> u64 {
        self.reads_by_runs.iter().map(Counter::get).sum()
    }
}

/// The statistics of a database at one moment, from [`Db::stats`](crate::Db::stats). Counts begin
/// when the database is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stats {
    /// Batches committed.
    pub writes: u64,
    /// Operations in the committed batches.
    pub operations_written: u64,
    /// Bytes of keys and values in the committed operations. Deletions of key ranges count as 0.
    pub user_bytes_written: u64,
    /// Bytes written to WAL and SSTables per byte of `user_bytes_written`; `None` while that is 0.
    pub write_amplification: Option<f64>,
    /// Point reads. A read of several keys counts once for each key.
    pub reads: u64,
    /// Point reads by the number of runs that each searched: element 0 counts those that needed
    /// only memtables and filters, element 1 those that searched one run, and so on. The last
    /// element also counts those that searched more runs. The list has [`Stats::READS_BY_RUNS`]
    /// elements.
    pub reads_by_runs: Vec<u64>,
    /// Runs that point reads searched: those whose key bounds and filters did not exclude the key.
    pub runs_touched: u64,
    /// Data blocks that point reads fetched from files.
    pub blocks_read: u64,
    /// Data blocks that point reads found in the cache.
    pub blocks_cached: u64,
    /// The mean number of runs that a point read searched; `None` without any read.
    pub runs_per_read: Option<f64>,
    /// The mean number of data blocks that a point read needed, from files or the cache; `None`
    /// without any read.
    pub blocks_per_read: Option<f64>,
    /// Runs that point reads did not search because filters excluded the key. A run counts once for
    /// each read.
    pub filter_skips: u64,
    /// Runs that scans did not search because the key prefixes in a filter excluded them. A run
    /// counts once for each scan, or twice if the scan reads from both ends.
    pub prefix_skips: u64,
    /// Searches of the cache, by point reads and scans, that found the data block.
    pub cache_hits: u64,
    /// Searches of the cache, by point reads and scans, that did not find the data block. Long
    /// scans read most of their blocks without a search of the cache, and merges read all blocks
    /// without one.
    pub cache_misses: u64,
    /// `cache_hits` divided by the sum of `cache_hits` and `cache_misses`; `None` without any
    /// search.
    pub cache_hit_ratio: Option<f64>,
    /// Bytes in the cache: data blocks, and partitions of indexes and filters.
    pub cache_bytes: u64,
    /// The present capacity of the cache, in bytes. It shrinks as open tables take more memory, if
    /// they share a budget with the cache.
    pub cache_bytes_max: u64,
    /// The part of `cache_bytes` that indexes and filters take.
    pub index_bytes: u64,
    /// Reads of a partition (a part of a table's index, with its filter) from a file into the
    /// cache, because it was not in memory.
    pub index_reads: u64,
    /// Memory of all SSTables outside of the cache, in bytes: the top levels of their indexes,
    /// their properties, and range tombstones.
    pub open_table_bytes: u64,
    /// Memory of all memtables, in bytes.
    pub memtable_bytes: u64,
    /// The bound of `memtable_bytes`: `memtables_bytes` of [`Options`](crate::Options), or its
    /// default.
    pub memtable_bytes_max: u64,
    /// The bound of memtables, cache and open tables together, in bytes, if they share one:
    /// [`Options::memory_bytes`](crate::Options::memory_bytes).
    pub memory_bytes_max: Option<u64>,
    /// Bytes of SSTables written by flushes.
    pub flush_bytes: u64,
    /// Merges done. Each part of a merge that is done in parts counts.
    pub compactions: u64,
    /// Merges and checks of files that ended because a file could not be read, and failed retries
    /// to open such a file.
    pub merge_read_failures: u64,
    /// The number of merges that pickers proposed and the engine refused, over all tables, those
    /// that are gone included: see [`TableStats::picks_refused`].
    pub picks_refused: u64,
    /// Bytes of SSTables written by merges.
    pub compaction_bytes: u64,
    /// Bytes of the SSTables that were inputs of merges.
    pub compaction_read_bytes: u64,
    /// The time that merges waited, to leave the disk to writes and syncs of the log, in
    /// microseconds.
    pub compaction_yield_us: u64,
    /// Merges under way.
    pub compactions_running: usize,
    /// The number of living guards of [`Db::pause_merges`](crate::Db::pause_merges): no merge
    /// begins while there is one.
    pub merge_pauses: usize,
    /// Bytes that merges have yet to read until no merge is left to do, over all tables. The merges
    /// under way are included.
    pub compaction_debt_bytes: u64,
    /// Writes that waited because the work left for flushes or merges was at its limit.
    pub stalls: u64,
    /// The time that stalled writes waited, in microseconds.
    pub stall_us: u64,
    /// The longest time that a single write waited in a stall, in microseconds.
    pub stall_us_max: u64,
    /// The approximate time that calls waited because the process had no file descriptor left, in
    /// microseconds.
    pub descriptor_wait_us: u64,
    /// Writes that were slowed to the pace of flushes and merges, because the work left for these
    /// came near its limits.
    pub throttles: u64,
    /// The time that throttled writes waited, in microseconds.
    pub throttle_us: u64,
    /// The longest time that a single write waited by throttling and stalls together, in
    /// microseconds.
    pub write_wait_us_max: u64,
    /// Reads, writes and fsyncs of files of the database that have been under way for at least five seconds.
    pub disk_calls_stuck: usize,
    /// The longest time for which an SSTable was not checked, in milliseconds. A file that was
    /// never checked counts from about its creation, or from the first check of any file. `None` if
    /// there are no files, or none was ever checked: see
    /// [`Db::next_file_check`](crate::Db::next_file_check).
    pub oldest_file_check_ms: Option<u64>,
    /// Free bytes in the file system where the tables are stored; `None` if they are not known.
    pub free_bytes: Option<u64>,
    /// Bytes of the present segments of the WAL.
    pub wal_bytes: u64,
    /// The bound of `wal_bytes`: [`Options::wal_bytes_max`](crate::Options::wal_bytes_max).
    pub wal_bytes_max: u64,
    /// Bytes of the WAL that were replayed when the database was opened.
    pub wal_bytes_replayed: u64,
    /// Bytes written to the WAL since the database was opened.
    pub wal_bytes_written: u64,
    /// Syncs of the WAL's records. One sync may make many writes durable.
    pub wal_syncs: u64,
    /// Number of the WAL's present segments.
    pub wal_segments: usize,
    /// The number of open read views: see [`Db::view`](crate::Db::view).
    pub views: usize,
    /// Named snapshots, over all keyspaces, without those that `holds` counts.
    pub snapshots: usize,
    /// Holds of snapshots, over all keyspaces: see
    /// [`Keyspace::hold_snapshot`](crate::Keyspace::hold_snapshot).
    pub holds: usize,
    /// Bytes of the files that the database does not need any more, and that running backups and
    /// verifications keep until they end: SSTables that no table has (merges have replaced them, or
    /// their table was dropped), and removed segments of the log.
    pub backup_held_bytes: u64,
    /// The time since a look at the statistics first found the run that merges have left out for the
    /// longest time ([`TableStats::unmergeable_bytes`]), in milliseconds; 0 without such a run. Begins
    /// anew when the database is opened.
    #[serde(default)]
    pub oldest_unmergeable_run_ms: u64,
    /// The age of the oldest snapshot in milliseconds; `None` without any. A hold, which keeps a
    /// snapshot's state of one table, has the age of its snapshot, because it pins the same
    /// versions.
    pub snapshot_oldest_age_ms: Option<u64>,
    /// The reason why the database accepts no writes until it is opened anew: it was opened only
    /// for reading, or a failure of the WAL, of the manifest or of a background thread stopped all
    /// writes. `None` if it accepts writes.
    pub read_only_cause: Option<String>,
    /// The failure of the last flush or, if that succeeded, of the last merge, or the reason why
    /// merges leave out a run. `None` without any of these. Commits are safe in the log, and the
    /// work is tried again.
    pub maintenance_failure: Option<String>,
    /// The statistics of each table: first the live ones, by keyspace and name, then the dropped
    /// ones that snapshots still cover.
    pub tables: Vec<TableStats>,
}

/// The statistics of a table at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableStats {
    /// The keyspace that the table is in.
    pub keyspace: String,
    /// The name of the table within its keyspace.
    pub name: String,
    /// Whether the table was dropped and stays only for the snapshots that cover it.
    pub dropped: bool,
    /// Memory of the table's memtables, in bytes.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush, and ingested runs that wait among them.
    pub frozen_memtables: usize,
    /// The degree of throttling of the table's writers, from 0 (none) to 1 (they wait until some
    /// work is done). It rises as flushes or merges fall behind, and as the memory or the log that
    /// all tables share comes near its limit.
    pub pressure: f64,
    /// Bytes of the table's SSTables.
    pub file_bytes: u64,
    /// The approximate number of `file_bytes` that only snapshots and open read views
    /// ([`Db::view`](crate::Db::view)) still need. Versions that only read views need count only if
    /// a newer version or a range tombstone in the same run hides them.
    pub kept_bytes: u64,
    /// The standard error of the estimate `kept_bytes`, in bytes.
    pub kept_error_bytes: u64,
    /// The approximate number of `file_bytes` for versions that flushes and merges kept for
    /// snapshots and read views that no longer exist. Later merges free this space.
    pub garbage_bytes: u64,
    /// The ratio of `file_bytes` to the bytes of those versions in the files that no newer version
    /// in the same run hides; 1 if there are no such versions.
    pub space_amplification: f64,
    /// Bytes that merges have yet to read until no merge of the table is left to do.
    pub compaction_debt_bytes: u64,
    /// The picker that chooses the merges of this table, with its settings: its `Debug` text.
    pub picker: String,
    /// The number of merges that the picker proposed and the engine refused, because they were
    /// invalid or gained nothing.
    pub picks_refused: u64,
    /// The reason of the engine's last refusal of a merge that the picker proposed; `None` if it
    /// refused none.
    pub pick_refused: Option<String>,
    /// Number of the table's SSTables.
    pub files: usize,
    /// Versions in SSTables and memtables, including those that newer versions hide. Range
    /// tombstones in SSTables count, too.
    pub versions: u64,
    /// The runs of the table, newest first.
    pub runs: Vec<RunStats>,
    /// The number of different commits at which snapshots and holds
    /// ([`Keyspace::hold_snapshot`](crate::Keyspace::hold_snapshot)) of the table read.
    pub bookmarks: usize,
    /// The merges of the table that are under way.
    pub merges: Vec<MergeStats>,
    /// The damaged files of the table. Reads that need a damaged file fail; all other reads and all
    /// writes work.
    pub quarantine: Vec<QuarantinedFile>,
    /// Files of the table that were missing or could not be read when they were opened. Reads that
    /// need such a file fail. The engine tries again to open the file after a while. The manifest
    /// does not record that these files cannot be read.
    #[serde(default)]
    pub unreadable: Vec<QuarantinedFile>,
    /// The number of runs that merges leave out for a while, because the last attempt to read or
    /// open their files failed.
    pub left_out_runs: usize,
    /// Bytes of the runs that are not merged: those with a file in `quarantine` or `unreadable`,
    /// and those that `left_out_runs` counts. No garbage in them is freed until they are merged
    /// again.
    pub unmergeable_bytes: u64,
}

/// A damaged or unreadable file, which keeps its place among the runs of its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedFile {
    /// The path of the file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The offset in the file of the first damage that was found; 0 for a file in
    /// [`TableStats::unreadable`].
    pub offset: u64,
    /// A description of the damage or of the error.
    pub detail: String,
    /// Whether no part of the file can be read, because it could not be opened. Then all reads fail
    /// that need a key from `from_key` to `to_key`; otherwise only those that need a damaged block.
    pub is_whole: bool,
    /// The keys of the file are not below this one.
    pub from_key: Vec<u8>,
    /// The keys of the file are below this one; `None` is no bound.
    pub to_key: Option<Vec<u8>>,
}

/// The statistics of a run at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStats {
    /// The number of the run, which no other run of the database ever had.
    pub id: u64,
    /// Bytes of the run's files.
    pub bytes: u64,
    /// Number of the run's files.
    pub files: usize,
    /// Versions and range tombstones in the run's files.
    pub versions: u64,
    /// Different keys in the run's files.
    pub keys: u64,
    /// The smallest sequence number that a version in the run may have.
    pub smallest_seq: u64,
    /// The largest sequence number that a version in the run may have.
    pub largest_seq: u64,
    /// The number of different commits below `smallest_seq` at which snapshots and holds of the
    /// table read. The runs with the same number form a stratum: the same snapshots see versions in
    /// them. 0 is the oldest stratum.
    pub stratum: usize,
    /// The number of the run's files that are in [`TableStats::quarantine`] or
    /// [`TableStats::unreadable`].
    #[serde(default)]
    pub damaged_files: usize,
}

/// A merge under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeStats {
    /// The ids of the merged runs, newest first.
    pub inputs: Vec<u64>,
    /// The number of versions that the current part of the merge has read, updated from time to
    /// time, plus the number that its earlier parts wrote. Rises to about `all_versions`.
    pub read_versions: u64,
    /// The number of versions in the files of the merged runs that are not replaced yet, plus the
    /// number that the earlier parts of the merge wrote.
    pub all_versions: u64,
    /// The bytes of the input files that are not replaced yet. It falls during a merge in parts, in
    /// which each part replaces the files that it has read.
    pub all_bytes: u64,
}

impl Stats {
    /// The length of [`Stats::reads_by_runs`]. A table has fewer runs, except under many snapshots
    /// with [`Bounding::Strict`](crate::Bounding::Strict).
    pub const READS_BY_RUNS: usize = 32;
}

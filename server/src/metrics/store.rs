//! The database: reads, writes, merges, the log, snapshots.

use std::fmt;

use ebb_storage::Stats;

use super::sheet::Sheet;

pub(super) fn write(sheet: &mut Sheet<'_>, stats: &Stats) -> fmt::Result {
    let seconds = |us: u64| us as f64 / 1e6;
    let counts = [
        ("store_reads", "Point reads of the store", stats.reads),
        ("store_writes", "Batches committed", stats.writes),
        (
            "store_operations_written",
            "Operations in committed batches",
            stats.operations_written,
        ),
        (
            "store_written_bytes",
            "Bytes of keys and values in committed batches",
            stats.user_bytes_written,
        ),
        (
            "store_read_runs",
            "Runs that point reads looked into",
            stats.runs_touched,
        ),
        (
            "store_filter_skipped_files",
            "Files that filters saved point reads from searching",
            stats.filter_skips,
        ),
        (
            "store_prefix_skipped_runs",
            "Runs that prefixes in filters saved scans from going to",
            stats.prefix_skips,
        ),
        (
            "block_cache_hits",
            "Blocks that reads found in the cache",
            stats.cache_hits,
        ),
        (
            "block_cache_misses",
            "Blocks that reads did not find in the cache",
            stats.cache_misses,
        ),
        (
            "store_index_reads",
            "Partitions of indexes and filters that reads did not find in the cache",
            stats.index_reads,
        ),
        (
            "flush_written_bytes",
            "Bytes of tables written by flushes",
            stats.flush_bytes,
        ),
        ("compactions", "Merges done", stats.compactions),
        (
            "compaction_written_bytes",
            "Bytes of tables written by merges",
            stats.compaction_bytes,
        ),
        (
            "compaction_read_bytes",
            "Bytes of tables that went into merges",
            stats.compaction_read_bytes,
        ),
        (
            "write_stalls",
            "Writes that waited because flushes or merges were at their limit",
            stats.stalls,
        ),
        (
            "write_throttles",
            "Writes slowed to the pace of flushes and merges",
            stats.throttles,
        ),
        (
            "wal_written_bytes",
            "Bytes written to the log",
            stats.wal_bytes_written,
        ),
        ("wal_syncs", "Syncs of the log", stats.wal_syncs),
    ];
    for (name, help, count) in counts {
        sheet.counter(name, help, count)?;
    }
    let times = [
        (
            "write_stall_seconds",
            "Time that writes waited because flushes or merges were at their limit",
            stats.stall_us,
        ),
        (
            "descriptor_wait_seconds",
            "Time that calls waited because the process may open no more files",
            stats.descriptor_wait_us,
        ),
        (
            "write_throttle_seconds",
            "Time that writes were slowed for flushes and merges",
            stats.throttle_us,
        ),
        (
            "compaction_paced_seconds",
            "Time that merges waited for their limit of bytes",
            stats.compaction_paced_us,
        ),
        (
            "compaction_yielded_seconds",
            "Time that merges waited for writes and syncs of the log",
            stats.compaction_yield_us,
        ),
    ];
    for (name, help, us) in times {
        sheet.counter(name, help, seconds(us))?;
    }
    let is = |that: bool| f64::from(u8::from(that));
    let gauges = [
        (
            "block_cache_bytes",
            "Bytes in the block cache",
            stats.cache_bytes as f64,
        ),
        (
            "block_cache_limit_bytes",
            "Bytes that the block cache may have now",
            stats.cache_bytes_max as f64,
        ),
        (
            "store_memtable_bytes",
            "Memory of all memtables",
            stats.memtable_bytes as f64,
        ),
        (
            "store_memtable_limit_bytes",
            "Memory that all memtables may take",
            stats.memtable_bytes_max as f64,
        ),
        (
            "store_index_bytes",
            "What indexes and filters of tables take of the block cache",
            stats.index_bytes as f64,
        ),
        (
            "store_open_table_bytes",
            "Memory of tables beside what they have in the block cache",
            stats.open_table_bytes as f64,
        ),
        (
            "compactions_running",
            "Merges under way",
            stats.compactions_running as f64,
        ),
        (
            "compaction_debt_bytes",
            "Bytes that merges have to read until none is worth it",
            stats.compaction_debt_bytes as f64,
        ),
        (
            "write_wait_longest_seconds",
            "The longest that one write was held up since the start",
            seconds(stats.write_wait_us_max),
        ),
        ("wal_bytes", "Bytes of the log", stats.wal_bytes as f64),
        (
            "wal_limit_bytes",
            "Bytes that the log may become",
            stats.wal_bytes_max as f64,
        ),
        (
            "wal_segments",
            "Segments of the log",
            stats.wal_segments as f64,
        ),
        ("read_views", "Live read views", stats.views as f64),
        ("snapshots", "Named snapshots", stats.snapshots as f64),
        (
            "store_read_only",
            "1 while the store takes no more writes, else 0",
            is(stats.read_only_cause.is_some()),
        ),
        (
            "store_maintenance_failing",
            "1 while flushing or merging fails, else 0",
            is(stats.maintenance_failure.is_some()),
        ),
    ];
    for (name, help, value) in gauges {
        sheet.gauge(name, help, value)?;
    }
    match stats.free_bytes {
        Some(bytes) => sheet.gauge(
            "disk_free_bytes",
            "Bytes that tables may still take where they lie",
            bytes as f64,
        ),
        None => Ok(()),
    }
}

//! The metrics of the database: reads, writes, merges, the log, snapshots.

use std::fmt;

use ebb_storage::Stats;

use super::sheet::{Sheet, write_each};

pub(super) fn write(sheet: &mut Sheet<'_>, stats: &Stats) -> fmt::Result {
    let seconds = |us: u64| us as f64 / 1e6;
    write_each!(sheet.counter {
        "store_reads": stats.reads, "Point reads of the store";
        "store_writes": stats.writes, "Batches committed";
        "store_operations_written": stats.operations_written, "Operations in committed batches";
        "store_written_bytes": stats.user_bytes_written,
            "Bytes of keys and values in committed batches";
        "store_read_runs": stats.runs_touched, "Runs that point reads looked into";
        "store_filter_skipped_files": stats.filter_skips,
            "Files that filters saved point reads from searching";
        "store_prefix_skipped_runs": stats.prefix_skips,
            "Runs that prefixes in filters saved scans from going to";
        "block_cache_hits": stats.cache_hits, "Blocks that reads found in the cache";
        "block_cache_misses": stats.cache_misses, "Blocks that reads did not find in the cache";
        "store_index_reads": stats.index_reads,
            "Partitions of indexes and filters that reads did not find in the cache";
        "flush_written_bytes": stats.flush_bytes, "Bytes of tables written by flushes";
        "compactions": stats.compactions, "Merges done";
        "compaction_written_bytes": stats.compaction_bytes, "Bytes of tables written by merges";
        "compaction_read_bytes": stats.compaction_read_bytes,
            "Bytes of tables that went into merges";
        "compaction_read_failures": stats.merge_read_failures,
            "Merges and checks that ended because a file could not be read";
        "compaction_picks_refused": stats.picks_refused, "Merges that were chosen and not done";
        "write_stalls": stats.stalls,
            "Writes that waited because flushes or merges were at their limit";
        "write_throttles": stats.throttles, "Writes slowed to the pace of flushes and merges";
        "wal_written_bytes": stats.wal_bytes_written, "Bytes written to the log";
        "wal_syncs": stats.wal_syncs, "Syncs of the log";
    });
    write_each!(sheet.counter {
        "write_stall_seconds": seconds(stats.stall_us),
            "Time that writes waited because flushes or merges were at their limit";
        "descriptor_wait_seconds": seconds(stats.descriptor_wait_us),
            "Time that calls waited because the process may open no more files";
        "write_throttle_seconds": seconds(stats.throttle_us),
            "Time that writes were slowed for flushes and merges";
        "compaction_yielded_seconds": seconds(stats.compaction_yield_us),
            "Time that merges waited for writes and syncs of the log";
    });
    let tables = stats.tables.iter();
    let pinned_bytes: u64 = tables.map(|table| table.kept_bytes).sum();
    let is = |that: bool| f64::from(u8::from(that));
    // The longest wait is a gauge although it never falls: rates are computed of counters, and a maximum has
    // none. The age of the oldest snapshot may be 0 without any: only a great age is a problem.
    write_each!(sheet.gauge {
        "block_cache_bytes": stats.cache_bytes as f64, "Bytes in the block cache";
        "block_cache_limit_bytes": stats.cache_bytes_max as f64,
            "Bytes that the block cache may have now";
        "store_memtable_bytes": stats.memtable_bytes as f64, "Memory of all memtables";
        "store_memtable_limit_bytes": stats.memtable_bytes_max as f64,
            "Memory that all memtables may take";
        "store_index_bytes": stats.index_bytes as f64,
            "What indexes and filters of tables take of the block cache";
        "store_open_table_bytes": stats.open_table_bytes as f64,
            "Memory of tables beside what they have in the block cache";
        "compactions_running": stats.compactions_running as f64, "Merges under way";
        "compaction_debt_bytes": stats.compaction_debt_bytes as f64,
            "Bytes that merges have to read until none is worth it";
        "write_wait_longest_seconds": seconds(stats.write_wait_us_max),
            "The longest that one write was held up since the start";
        "wal_bytes": stats.wal_bytes as f64, "Bytes of the log";
        "wal_limit_bytes": stats.wal_bytes_max as f64, "Bytes that the log may become";
        "wal_segments": stats.wal_segments as f64, "Segments of the log";
        "disk_calls_stuck": stats.disk_calls_stuck as f64,
            "Reads, writes and fsyncs that have not returned for five seconds";
        "read_views": stats.views as f64, "Live read views";
        "snapshots": stats.snapshots as f64, "Named snapshots";
        "snapshot_holds": stats.holds as f64,
            "Snapshots of tables that are kept for the next publication";
        "backup_held_bytes": stats.backup_held_bytes as f64,
            "Bytes of files that the store needs no more and that backups and verifications keep";
        "oldest_unmergeable_run_seconds": stats.oldest_unmergeable_run_ms as f64 / 1e3,
            "Time since a run was first found that merges leave out; 0 without any";
        "snapshots_pinned_bytes": pinned_bytes as f64,
            "About how many bytes of all tables, dropped ones included, only snapshots, holds and views \
             need";
        "snapshot_oldest_age_seconds": stats.snapshot_oldest_age_ms.unwrap_or(0) as f64 / 1e3,
            "Age of the oldest snapshot, those of holds included; 0 without any";
        "store_read_only": is(stats.read_only_cause.is_some()),
            "1 while the store takes no more writes, else 0";
        "store_maintenance_failing": is(stats.maintenance_failure.is_some()),
            "1 while flushing or merging fails, else 0";
    });
    // Left out without files and before the first check: a 0 would mean that all were just checked.
    if let Some(ms) = stats.oldest_file_check_ms {
        let help = "Time since the check of the file whose check is the longest ago";
        sheet.gauge("oldest_file_check_seconds", help, ms as f64 / 1e3)?;
    }
    // Left out where unknown: a 0 would mean a full disk.
    match stats.free_bytes {
        Some(bytes) => sheet.gauge(
            "disk_free_bytes",
            "Bytes that tables may still take where they lie",
            bytes as f64,
        ),
        None => Ok(()),
    }
}

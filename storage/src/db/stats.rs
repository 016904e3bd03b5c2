//! Gathers [`Stats`].

use std::sync::Arc;

use super::choose::table_debt_bytes;
use super::pinned::pinned_together;
use super::unmergeable::is_unmergeable;
use super::{Engine, TableCore};
use crate::key::KeyRange;
use crate::runs::{FileMeta, Quarantine, Run, RunFile};
use crate::snapshots::TableBookmarks;
use crate::stats::{Counter, MergeStats, QuarantinedFile, RunStats, Stats, TableStats};
use crate::version::TableVersion;

impl Engine {
    /// Returns the structure of the database, and counters since it was opened. This takes time in
    /// proportion to the sum of the numbers of tables, runs and snapshots, and not to their
    /// product: tables of a keyspace share one list of snapshots. No lock is held over all figures,
    /// so operations under way may count in some of them and not in others.
    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        // Each read counts in one of them, so the sum is the number of reads.
        let reads_by_runs: Vec<_> = counters.reads_by_runs.iter().map(Counter::get).collect();
        let reads = reads_by_runs.iter().sum();
        let census = self.snapshots.census();
        let age_ms = |created_ms| self.now_ms().saturating_sub(created_ms);
        let tables = self.stats_of(self.tables());
        let user_bytes_written = counters.user_bytes_written.get();
        let wal_bytes_written = self.wal.written_bytes();
        let table_bytes_written = counters.flush_bytes.get() + counters.compaction_bytes.get();
        let cache = self.runs.cache();
        let (hits, misses) = (cache.hits(), cache.misses());
        let per_read = |count: u64| ratio(count, reads);
        Stats {
            user_bytes_written,
            write_amplification: ratio(wal_bytes_written + table_bytes_written, user_bytes_written),
            runs_per_read: per_read(counters.runs_touched.get()),
            blocks_per_read: per_read(counters.blocks_read.get() + counters.blocks_cached.get()),
            cache_hit_ratio: ratio(hits, hits + misses),
            compaction_read_bytes: counters.compaction_read_bytes.get(),
            compaction_yield_us: counters.compaction_yield_us.get(),
            compactions_running: self.claims.running(),
            compaction_debt_bytes: tables.iter().map(|t| t.compaction_debt_bytes).sum(),
            oldest_file_check_ms: self.oldest_file_check_ms(),
            disk_calls_stuck: self.stuck_calls().len(),
            // `None` also if the disk returns an error: statistics never fail.
            free_bytes: self.runs.tables().free_bytes().ok().flatten(),
            wal_bytes_written,
            wal_syncs: self.wal.syncs(),
            writes: counters.writes.get(),
            operations_written: counters.operations_written.get(),
            reads,
            reads_by_runs,
            runs_touched: counters.runs_touched.get(),
            blocks_read: counters.blocks_read.get(),
            blocks_cached: counters.blocks_cached.get(),
            filter_skips: counters.filter_skips.get(),
            prefix_skips: counters.prefix_skips.get(),
            cache_hits: hits,
            cache_misses: misses,
            cache_bytes: cache.used_bytes(),
            cache_bytes_max: cache.bytes_max(),
            index_bytes: cache.partitions_bytes(),
            index_reads: cache.partitions_read(),
            open_table_bytes: cache.tables_bytes(),
            memtable_bytes: self.memtable_bytes(),
            memtable_bytes_max: self.memtable_budget_bytes(),
            memory_bytes_max: self.options.memory_bytes,
            merge_pauses: self.merge_pauses(),
            flush_bytes: counters.flush_bytes.get(),
            compactions: counters.compactions.get(),
            merge_read_failures: counters.merge_read_failures.get(),
            picks_refused: counters.picks_refused.get(),
            compaction_bytes: counters.compaction_bytes.get(),
            stalls: counters.stalls.get(),
            stall_us: counters.stall_us.get(),
            stall_us_max: counters.stall_us_max.get(),
            descriptor_wait_us: self.open_files.waited_us(),
            throttles: counters.throttles.get(),
            throttle_us: counters.throttle_us.get(),
            write_wait_us_max: counters.write_wait_us_max.get(),
            wal_bytes: self.wal.bytes(),
            wal_bytes_max: self.options.wal_bytes_max,
            wal_bytes_replayed: self.wal_bytes_replayed,
            wal_segments: self.wal.segments(),
            views: self.snapshots.views(),
            snapshots: census.snapshots,
            holds: census.holds,
            backup_held_bytes: self.backup_held_bytes(),
            oldest_unmergeable_run_ms: self.oldest_unmergeable_ms(),
            snapshot_oldest_age_ms: census.oldest_ms.map(age_ms),
            maintenance_failure: self.maintenance_failure().map(|e| e.to_string()),
            read_only_cause: self.read_only_cause(),
            tables,
        }
    }

    /// Returns the reason why the database accepts no writes; `None` if it accepts them.
    pub(super) fn read_only_cause(&self) -> Option<String> {
        let opened = self.check_access().err().map(|e| e.to_string());
        opened.or_else(|| self.wal.failure().map(|cause| cause.to_string()))
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        let of_table = |table: &Arc<TableCore>| {
            let version = table.version();
            let runs = version.all_runs().map(|run| run.meta().bytes());
            runs.sum::<u64>()
        };
        self.tables().iter().map(of_table).sum()
    }

    pub(crate) fn table_stats(&self, table: Arc<TableCore>) -> TableStats {
        self.stats_of(vec![table]).remove(0)
    }

    /// Returns the statistics of some tables, in their order.
    fn stats_of(&self, tables: Vec<Arc<TableCore>>) -> Vec<TableStats> {
        let shared_pressure = self.shared_pressure();
        // The versions are read first. Otherwise a run could keep versions for a snapshot that is
        // newer than the overview, and they would count as garbage.
        let with_version = |table: Arc<TableCore>| (table.version(), table);
        let tables: Vec<_> = tables.into_iter().map(with_version).collect();
        let overview = self.snapshots.overview();
        let stats_of = |(version, table): &(Arc<TableVersion>, Arc<TableCore>)| {
            let bookmarks = overview.of(table.span());
            self.stats_at(table, version, &bookmarks, shared_pressure)
        };
        tables.iter().map(stats_of).collect()
    }

    fn stats_at(
        &self,
        table: &TableCore,
        version: &TableVersion,
        bookmarks: &TableBookmarks<'_>,
        shared_pressure: f64,
    ) -> TableStats {
        let memtables = || std::iter::once(&version.memtable).chain(&version.frozen);
        let bookmark_seqs = bookmarks.bookmarks();
        let runs: Vec<_> = version
            .all_runs()
            .map(|run| RunStats {
                id: run.id().0,
                bytes: run.meta().bytes(),
                files: run.files().len(),
                versions: run.meta().entries(),
                smallest_seq: run.meta().smallest_seq.0,
                largest_seq: run.meta().largest_seq.0,
                keys: run.keys(),
                stratum: bookmark_seqs.partition_point(|&seq| seq < run.meta().smallest_seq),
                damaged_files: damaged_files(run),
            })
            .collect();
        let file_bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        // Without ingested runs that wait among the memtables: they record no hidden versions.
        let metas = || version.runs.iter().map(|run| run.meta());
        let has_any = |from, to| bookmarks.has_any(from, to);
        let garbage_bytes = metas().map(|meta| meta.bytes_unless(has_any)).sum();
        let hidden_bytes: u64 = metas().map(|meta| meta.hidden_bytes(|_| true)).sum();
        // Runs record the versions that are hidden within them; the ones that another run hides are
        // estimated.
        let pinned = pinned_together(table, version, bookmark_seqs);
        let kept_bytes = hidden_bytes.saturating_sub(garbage_bytes);
        let kept_bytes = kept_bytes.saturating_add(pinned.bytes);
        let (picks_refused, pick_refused) = table.picks.refused();
        let left_out = table.left_out.all();
        let unmergeable = version
            .all_runs()
            .filter(|run| is_unmergeable(run, &left_out));
        TableStats {
            picker: format!("{:?}", self.options.compaction.picker),
            picks_refused,
            pick_refused: pick_refused.map(|refusal| refusal.to_string()),
            // The estimate may be more than there is.
            kept_bytes: kept_bytes.min(file_bytes),
            kept_error_bytes: pinned.error_bytes,
            garbage_bytes,
            space_amplification: match file_bytes.saturating_sub(hidden_bytes) {
                // No version is live, so there is no ratio.
                0 => 1.0,
                live => file_bytes as f64 / live as f64,
            },
            compaction_debt_bytes: table_debt_bytes(self, table, version, bookmarks),
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            dropped: table.is_dropped(),
            memtable_bytes: memtables().map(|memtable| memtable.bytes() as u64).sum(),
            frozen_memtables: version.frozen.len(),
            // All tables share memory and log, so a lack of these slows writers of each table.
            pressure: self.pressure(table).max(shared_pressure),
            file_bytes,
            files: runs.iter().map(|run| run.files).sum(),
            versions: memtables()
                .map(|m| m.len())
                .chain(runs.iter().map(|run| run.versions))
                .sum(),
            merges: self.merges_of(&runs),
            quarantine: self.bad_files(version, |meta, _| meta.quarantine.clone()),
            unreadable: self.bad_files(version, |_, file| {
                let detail = file.unreadable()?.to_string();
                Some(Quarantine { offset: 0, detail })
            }),
            left_out_runs: left_out.len(),
            unmergeable_bytes: unmergeable.map(|run| run.meta().bytes()).sum(),
            runs,
            bookmarks: bookmark_seqs.len(),
        }
    }
}

impl Engine {
    fn bad_files(
        &self,
        version: &TableVersion,
        damage_of: impl Fn(&FileMeta, &RunFile) -> Option<Quarantine>,
    ) -> Vec<QuarantinedFile> {
        let mut all = Vec::new();
        for run in version.all_runs().filter(|run| !run.is_mergeable()) {
            for (meta, file) in run.meta().files.iter().zip(run.files()) {
                let Some(damage) = damage_of(meta, file) else {
                    continue;
                };
                let bounds = meta.ranges().cloned().reduce(|a, b| a.hull(&b));
                let bounds = bounds.unwrap_or_else(KeyRange::all);
                all.push(QuarantinedFile {
                    path: self.runs.name(meta.number),
                    offset: damage.offset,
                    detail: damage.detail,
                    is_whole: file.table().is_none(),
                    from_key: bounds.start.to_vec(),
                    to_key: bounds.end.map(|end| end.to_vec()),
                });
            }
        }
        all
    }

    /// Returns the merges under way of these runs. A merge whose inputs were replaced meanwhile is
    /// left out.
    fn merges_of(&self, runs: &[RunStats]) -> Vec<MergeStats> {
        let mut merges = Vec::new();
        for merge in self.merges.all() {
            let inputs: Vec<_> = merge.inputs.iter().map(|id| id.0).collect();
            let merged = || runs.iter().filter(|run| inputs.contains(&run.id));
            if merged().count() == inputs.len() {
                merges.push(MergeStats {
                    read_versions: merge.read_versions(),
                    all_versions: merge.done_versions
                        + merged().map(|run| run.versions).sum::<u64>(),
                    all_bytes: merged().map(|run| run.bytes).sum(),
                    inputs,
                });
            }
        }
        merges
    }
}

/// Returns the number of files of a run that are in quarantine or could not be read.
fn damaged_files(run: &Run) -> usize {
    let files = run.meta().files.iter().zip(run.files());
    files
        .filter(|(meta, file)| meta.quarantine.is_some() || file.unreadable().is_some())
        .count()
}

/// Returns `of / to`; `None` if `to` is 0, because nothing was counted yet.
fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

//! Tables, as JSON.

use ebb_storage::{MergeStats, RunStats, TableStats};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A table in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TableSummary {
    /// The keyspace of the table.
    pub keyspace: String,
    /// The name of the table, without the keyspace.
    pub table: String,
    /// Bytes of memory in the memtables of the table.
    pub memtable_bytes: u64,
    /// The number of memtables that wait for their flush, plus the number of ingested runs in the
    /// same queue.
    pub frozen_memtables: u64,
    /// Bytes of the table's SSTables.
    pub file_bytes: u64,
    /// Number of the table's SSTables.
    pub files: u64,
    /// Number of sorted runs.
    pub runs: u64,
    /// Number of distinct commits at which snapshots of the table read, including the snapshots that ebb
    /// keeps for publications. Snapshots of the same commit count once.
    pub bookmarks: u64,
    /// Versions of rows in the files and memtables, including those that newer versions hide. Range
    /// tombstones in files count, too.
    pub versions: u64,
    /// Bytes of the files that are neither pinned nor garbage: `file_bytes` less `pinned_bytes` and
    /// `garbage_bytes`.
    pub live_bytes: u64,
    /// An estimate of the bytes in the files of old versions that only snapshots and views (reads under way,
    /// each at one commit) still need.
    pub pinned_bytes: u64,
    /// An estimate of the bytes in the files of old versions that were kept for snapshots and views that no
    /// longer exist. Merges free this space later.
    pub garbage_bytes: u64,
    /// Bytes that merges have yet to read until no merge of the table is left to do.
    pub compaction_debt_bytes: u64,
    /// Number of merges under way.
    pub merges: u64,
    /// The throttling of writers, because flushes or merges are behind, or memory or log space runs short:
    /// from 0 (none) to 1 (writers wait until some work is done).
    pub pressure_ratio: f64,
    /// The number of the table's files that are damaged, missing or could not be read. Reads that need
    /// such a file fail.
    #[serde(default)]
    pub damaged_files: u64,
}

/// Tables, ordered by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TableList {
    /// The tables of this page.
    pub tables: Vec<TableSummary>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A table with its runs, snapshots and merges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TableView {
    /// The entry of the table in a list.
    pub summary: TableSummary,
    /// The runs of the table, the newest first.
    pub runs: Vec<RunView>,
    /// The snapshots of the table, the newest first.
    pub bookmarks: Vec<BookmarkView>,
    /// The merges under way.
    pub merges: Vec<MergeView>,
}

/// A sorted run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// The id of the run, which the database never gives to another run.
    pub id: u64,
    /// Bytes of the files of this run.
    pub bytes: u64,
    /// Number of files of this run.
    pub files: u64,
    /// Versions of rows and range tombstones in this run.
    pub versions: u64,
    /// Distinct keys in the run.
    pub keys: u64,
    /// The smallest sequence number that a commit in the run may have.
    pub min_sequence: u64,
    /// The largest sequence number that a commit in the run may have.
    pub max_sequence: u64,
    /// The stratum of the run. Runs of one stratum are visible to the same snapshots; 0 is the
    /// oldest.
    pub stratum: u64,
    /// Whether the run is an input of a merge under way.
    pub is_merging: bool,
    /// The number of files of this run that are damaged, missing or could not be read.
    #[serde(default)]
    pub damaged_files: u64,
}

/// A snapshot of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BookmarkView {
    /// The name of the snapshot.
    pub snapshot: String,
    /// The sequence number of the last commit that the snapshot contains.
    pub sequence: u64,
}

/// A merge under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MergeView {
    /// The ids of the input runs, the newest first.
    pub inputs: Vec<u64>,
    /// The number of versions that are done. A long merge is made in parts, and each finished part replaces
    /// some of the input files. This number counts the versions that the current part has read, and those
    /// that finished parts wrote.
    pub read_versions: u64,
    /// The number that `read_versions` rises to, approximately: the versions in the input files that are not
    /// replaced yet, plus those that finished parts of the merge wrote.
    pub all_versions: u64,
    /// The total size of the input files that the merge has not replaced yet.
    pub all_bytes: u64,
}

impl TableSummary {
    /// Returns the summary of a table, made from the store's statistics.
    pub fn of(stats: &TableStats) -> Self {
        Self {
            keyspace: stats.keyspace.clone(),
            table: stats.name.clone(),
            memtable_bytes: stats.memtable_bytes,
            frozen_memtables: stats.frozen_memtables as u64,
            file_bytes: stats.file_bytes,
            files: stats.files as u64,
            runs: stats.runs.len() as u64,
            bookmarks: stats.bookmarks as u64,
            versions: stats.versions,
            live_bytes: (stats.file_bytes)
                .saturating_sub(stats.kept_bytes.saturating_add(stats.garbage_bytes)),
            pinned_bytes: stats.kept_bytes,
            garbage_bytes: stats.garbage_bytes,
            compaction_debt_bytes: stats.compaction_debt_bytes,
            merges: stats.merges.len() as u64,
            pressure_ratio: stats.pressure,
            damaged_files: stats.runs.iter().map(|run| run.damaged_files as u64).sum(),
        }
    }
}

impl TableView {
    /// Returns the view of a table, made from the store's statistics and its snapshots.
    pub fn of(stats: &TableStats, bookmarks: Vec<BookmarkView>) -> Self {
        let merged = |run: u64| stats.merges.iter().any(|merge| merge.inputs.contains(&run));
        let runs = stats.runs.iter();
        Self {
            summary: TableSummary::of(stats),
            runs: runs.map(|run| RunView::of(run, merged(run.id))).collect(),
            bookmarks,
            merges: stats.merges.iter().map(MergeView::of).collect(),
        }
    }
}

impl RunView {
    fn of(run: &RunStats, is_merging: bool) -> Self {
        Self {
            id: run.id,
            bytes: run.bytes,
            files: run.files as u64,
            versions: run.versions,
            keys: run.keys,
            min_sequence: run.smallest_seq,
            max_sequence: run.largest_seq,
            stratum: run.stratum as u64,
            is_merging,
            damaged_files: run.damaged_files as u64,
        }
    }
}

impl MergeView {
    fn of(merge: &MergeStats) -> Self {
        Self {
            inputs: merge.inputs.clone(),
            read_versions: merge.read_versions,
            all_versions: merge.all_versions,
            all_bytes: merge.all_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::Duration;

    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Db, Options, TableOptions};

    use super::*;

    #[test]
    fn a_damaged_file_is_counted_in_its_run_and_in_its_table() {
        let mem = MemDisk::new();
        let options = Options {
            disk: Arc::new(mem.clone()),
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        let app = db.keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        let damaged = || {
            let view = TableView::of(&table.stats(), Vec::new());
            (view.summary.damaged_files, view.runs[0].damaged_files)
        };
        assert_eq!(damaged(), (0, 0));
        let due = db.next_file_check(Duration::ZERO).unwrap();
        let mut check = due.expect("every file is due");
        mem.flip_bit(check.path(), 30, 3).unwrap();
        check.read(&mut |_bytes| ControlFlow::Continue(()));
        assert!(check.finish().unwrap());
        assert_eq!(damaged(), (1, 1));
    }
}

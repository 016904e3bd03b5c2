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
    /// Memtables that wait for their flush.
    pub frozen_memtables: u64,
    /// Bytes of the files of the table.
    pub file_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of sorted runs.
    pub runs: u64,
    /// Number of distinct commits whose state is shown by snapshots of the table. Snapshots of the
    /// same commit count once.
    pub bookmarks: u64,
    /// Versions of rows, hidden ones included.
    pub versions: u64,
    /// Bytes of files that are neither pinned nor garbage.
    pub live_bytes: u64,
    /// Bytes of old versions that only snapshots and views (reads under way, each at one commit)
    /// need, as far as known.
    pub pinned_bytes: u64,
    /// Bytes of old versions that were kept for snapshots and views (reads at one commit) that no
    /// longer exist. Merges free them.
    pub garbage_bytes: u64,
    /// Bytes that merges have to read until no further merge is worth its cost.
    pub compaction_debt_bytes: u64,
    /// Number of merges under way.
    pub merges: u64,
    /// The throttling of writers, from 0 (none) to 1 (writers are stopped).
    pub pressure_ratio: f64,
}

/// Tables, ordered by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TableList {
    /// The tables of this page.
    pub tables: Vec<TableSummary>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A table with its run list.
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
    /// Bytes of the files of the run.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Versions of rows in the run.
    pub versions: u64,
    /// Distinct keys in the run.
    pub keys: u64,
    /// A lower bound of the sequence numbers of the commits in the run.
    pub min_sequence: u64,
    /// An upper bound of the sequence numbers of the commits in the run.
    pub max_sequence: u64,
    /// The stratum of the run. Runs of one stratum are visible to the same snapshots; 0 is the
    /// oldest.
    pub stratum: u64,
    /// Whether the run is an input of a merge under way.
    pub is_merging: bool,
}

/// A snapshot of a table. In the table's runs it reads the versions up to its sequence number.
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
    /// The number of versions that are done. A long merge is made in parts, and each finished part
    /// replaces a part of the inputs: these are the versions that the current part has read, plus
    /// those that finished parts wrote.
    pub read_versions: u64,
    /// The number that `read_versions` rises to: the versions that are left in the input runs, plus
    /// those that finished parts of the merge wrote.
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

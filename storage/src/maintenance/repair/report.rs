//! The report of a repair: what was saved, and what was lost.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names::TableName;
use crate::error::lossy;
use crate::files::{self, FileKind};
use crate::manifest::{State, TableMeta};
use crate::snapshots::Bookmark;

/// A part of a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lost {
    /// The damaged or missing file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The offset in the file, in bytes, at which the lost part begins.
    pub offset: u64,
    /// The length of the lost part in bytes; 0 if it is not known.
    pub bytes: u64,
    /// The table, as `KEYSPACE.TABLE`; `None` if the loss may concern any table.
    pub table: Option<String>,
    /// The smallest key that the loss may concern; `None` for no lower bound.
    pub from_key: Option<Vec<u8>>,
    /// The largest key that the loss may concern; `None` for no upper bound.
    pub to_key: Option<Vec<u8>>,
    /// The damage and its consequences, in words.
    pub detail: String,
}

impl Lost {
    /// Returns whether versions of this key may be missing because of the loss. Then readers may get
    /// an older value, or none. `table` is `KEYSPACE.TABLE`.
    pub fn concerns(&self, table: &str, key: &[u8]) -> bool {
        self.table.as_deref().is_none_or(|lost| lost == table)
            && self.from_key.as_deref().is_none_or(|from| from <= key)
            && self.to_key.as_deref().is_none_or(|to| key <= to)
    }
}

/// A table of the new database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedTable {
    /// The keyspace of the table; `recovered` if it is unknown.
    pub keyspace: String,
    /// The name of the table; `table_N` if it is unknown.
    pub name: String,
    /// The number of versions that were saved, including those that newer versions hide.
    pub versions: u64,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RepairReport {
    /// The tables of the new database.
    pub tables: Vec<RepairedTable>,
    /// The number of versions that were saved, over all tables.
    pub versions: u64,
    /// Bytes of the new files.
    pub bytes: u64,
    /// The number of named snapshots that were saved.
    pub snapshots: u64,
    /// The snapshots that may lack data because of the losses, as `KEYSPACE: NAME`.
    pub snapshots_incomplete: Vec<String>,
    /// All losses. Data that none of them concerns is unchanged.
    pub lost: Vec<Lost>,
}

/// Returns the snapshots that cover a table with a loss, as `KEYSPACE: NAME`. If the table of a loss is
/// not known, returns all snapshots.
pub(super) fn incomplete_snapshots(state: &State, lost: &[Lost]) -> Vec<String> {
    let bookmarks = state.bookmarks.list.iter();
    // It may concern a table that is in no list any more.
    let concerns_any = lost.iter().any(|lost| lost.table.is_none());
    let misses = |bookmark: &&Bookmark| {
        let covered = state.tables.values();
        let mut covered = covered.filter(|table| bookmark.covers(table.span()));
        concerns_any
            || covered.any(|table| {
                // It may have a new name, where a later table has its own.
                let table = format!("{}.{}", table.keyspace, table.name);
                lost.iter().any(|lost| lost.table.as_ref() == Some(&table))
            })
    };
    bookmarks
        .filter(misses)
        .map(|bookmark| &bookmark.record)
        .map(|record| format!("{}: {}", record.keyspace, record.name))
        .collect()
}

/// Returns the path of the first damaged manifest in `lost`, or, if there is none, the path of the
/// file CURRENT in `dir`.
fn manifest(dir: &Path, lost: &[Lost]) -> PathBuf {
    let is_manifest = |path: &&PathBuf| matches!(FileKind::of(path), Some(FileKind::Manifest(_)));
    let manifest = lost.iter().map(|lost| &lost.path).find(is_manifest);
    manifest.cloned().unwrap_or_else(|| files::current(dir))
}

/// Reports that a table in `dir` has lost its name, and is called `table` in the new database.
/// `known` is the old name of the table, if it was found; another table has this name now. The path
/// in the report is that of the first damaged manifest in `lost`, the losses found so far; if there
/// is none, that of CURRENT.
pub(super) fn lost_name(
    dir: &Path,
    table: String,
    known: Option<TableName>,
    lost: &[Lost],
) -> Lost {
    let detail = match known {
        Some((keyspace, name)) => format!(
            "the table was called {keyspace}.{name}, as another one is: no snapshot of {keyspace} shows \
             this one"
        ),
        None => "the names of the table and of its keyspace are lost: no snapshot of the keyspace \
                 shows the table"
            .to_string(),
    };
    Lost {
        path: manifest(dir, lost),
        detail: format!("{detail}; its rows are in {table}"),
        table: Some(table),
        ..Lost::default()
    }
}

/// Reports that the merge operator of a table in `dir` is unknown, so that the operands of the
/// table cannot be read. The path in the report is that of the first damaged manifest in `lost`,
/// the losses found so far; if there is none, that of CURRENT.
pub(super) fn unknown_operator(dir: &Path, table: &TableMeta, lost: &[Lost]) -> Lost {
    Lost {
        path: manifest(dir, lost),
        table: Some(format!("{}.{}", table.keyspace, table.name)),
        detail: "the name of the table's merge operator is lost: what was merged is kept, but \
                 reads of those keys fail"
            .into(),
        ..Lost::default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::SeqNo;
    use crate::key::TableId;
    use crate::snapshots::{CoveredTable, SnapshotRecord};

    /// Regression: a table that was dropped and made again had a new name after a repair. The
    /// repair looked for the losses under the old name only, and reported the snapshot as complete.
    #[test]
    fn a_snapshot_is_incomplete_whatever_its_table_is_named_now() {
        let table = |id, keyspace: &str, name: &str| TableMeta {
            keyspace: keyspace.into(),
            name: name.into(),
            ..TableMeta::example(id)
        };
        let tables = [table(5, "recovered", "table_5"), table(6, "app", "t")];
        let mut state = State {
            tables: tables.map(|table| (table.id, table)).into(),
            ..State::default()
        };
        for (seq, id) in [(1, 5), (2, 6)] {
            let record = SnapshotRecord {
                name: format!("of_{id}"),
                table: Some(CoveredTable {
                    id: TableId(id),
                    name: "t".into(),
                }),
                ..SnapshotRecord::example(seq)
            };
            state.bookmarks.add(SeqNo(seq), record);
        }
        let incomplete = |table: Option<&str>| {
            let lost = Lost {
                path: PathBuf::from("000007.sst"),
                offset: 0,
                bytes: 0,
                table: table.map(str::to_string),
                from_key: None,
                to_key: None,
                detail: "damaged".into(),
            };
            incomplete_snapshots(&state, &[lost])
        };
        assert_eq!(incomplete(Some("recovered.table_5")), ["app: of_5"]);
        assert_eq!(incomplete(Some("app.t")), ["app: of_6"]);
        assert_eq!(incomplete(None), ["app: of_5", "app: of_6"]);
    }
}

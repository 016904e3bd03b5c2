//! `system_views`: the snapshots of users' keyspaces.

use bytes::Bytes;
use ebb_storage::{Db, SnapshotInfo, SnapshotScope};
use ebb_tables::CatalogState;

use super::cells::{bigint, int, list, text, timestamp};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

const KEYSPACE: &str = "system_views";

pub(super) const SNAPSHOTS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "snapshots",
    comment: "snapshots of keyspaces and tables",
    columns: &[
        "keyspace_name text",
        "snapshot_name text",
        "approximate_bytes bigint",
        "created timestamp",
        "expires timestamp",
        "pinned_bytes bigint",
        "pinned_error_bytes bigint",
        "runs int",
        "scope text",
        "tables frozen<list<text>>",
    ],
    primary_key: &["keyspace_name", "snapshot_name"],
    rows: snapshots,
};

fn snapshots(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let all = snapshot_rows(facts.catalog.db(), &facts.state);
    all.into_iter()
        .try_for_each(|snapshot| rows.push(snapshot.cells()))
}

#[derive(Debug, Clone)]
pub struct SnapshotRow {
    pub keyspace: String,
    pub info: SnapshotInfo,
}

/// Returns all snapshots of users' keyspaces: those of each keyspace one after another, oldest
/// first.
pub fn snapshot_rows(db: &Db, state: &CatalogState) -> Vec<SnapshotRow> {
    let keyspaces = state.schema().keyspaces();
    let rows = keyspaces.flat_map(|keyspace| {
        let stored = db.existing_keyspace(keyspace.name());
        let snapshots = stored.map(|stored| stored.snapshots()).unwrap_or_default();
        let row = move |info| SnapshotRow {
            keyspace: keyspace.name().to_string(),
            info,
        };
        snapshots.into_iter().map(row)
    });
    rows.collect()
}

impl SnapshotRow {
    /// Returns the cells of the row, with the names of their columns.
    pub fn cells(&self) -> Vec<(&'static str, Bytes)> {
        let info = &self.info;
        let scope = match info.scope {
            SnapshotScope::Keyspace => "keyspace",
            SnapshotScope::Table(_) => "table",
        };
        let bytes = |bytes: u64| bigint(i64::try_from(bytes).unwrap_or(i64::MAX));
        let mut cells = vec![
            ("keyspace_name", text(&self.keyspace)),
            ("snapshot_name", text(&info.name)),
            ("approximate_bytes", bytes(info.approximate_bytes)),
            ("created", timestamp(info.created)),
            ("pinned_bytes", bytes(info.pinned_bytes)),
            ("pinned_error_bytes", bytes(info.pinned_error_bytes)),
            ("runs", int(i32::try_from(info.runs).unwrap_or(i32::MAX))),
            ("scope", text(scope)),
            ("tables", list(info.tables.iter().map(|name| text(name)))),
        ];
        cells.extend(info.expires.map(|expires| ("expires", timestamp(expires))));
        cells
    }
}

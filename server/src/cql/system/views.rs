//! `system_views`: the snapshots of users' keyspaces, and the jobs of the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ebb_cql::protocol::ErrorResponse;
use ebb_storage::{Db, SnapshotInfo, SnapshotScope};

use super::Facts;
use super::cells::{bigint, int, list, text, timestamp};
use super::virtual_table::{Definition, RowSet};
use crate::catalog::CatalogState;
use crate::jobs::history::{History, RecordState};

const KEYSPACE: &str = "system_views";

/// The columns of `system_views.snapshots` and of LIST SNAPSHOTS.
pub const SNAPSHOT_COLUMNS: &[&str] = &[
    "keyspace_name text",
    "snapshot_name text",
    "approximate_bytes bigint",
    "created timestamp",
    "expires timestamp",
    "runs int",
    "scope text",
    "tables frozen<list<text>>",
];

pub(super) const SNAPSHOTS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "snapshots",
    comment: "snapshots of keyspaces and tables",
    columns: SNAPSHOT_COLUMNS,
    partition_key: &["keyspace_name"],
    clustering: &["snapshot_name"],
    rows: snapshots,
};

fn snapshots(facts: &Facts, rows: &mut RowSet<'_>) -> Result<(), ErrorResponse> {
    let all = snapshot_rows(facts.catalog.db(), &facts.state);
    all.into_iter()
        .try_for_each(|snapshot| rows.push_all(snapshot.cells()))
}

/// A snapshot of a user's keyspace.
#[derive(Debug, Clone)]
pub struct SnapshotRow {
    /// Its keyspace.
    pub keyspace: String,
    /// What the store tells of it.
    pub info: SnapshotInfo,
}

/// All snapshots of users' keyspaces, by keyspace, oldest first.
pub fn snapshot_rows(db: &Db, state: &CatalogState) -> Vec<SnapshotRow> {
    let keyspaces = state.schema().keyspaces();
    let of_keyspace = |name: &str| {
        let found = db
            .existing_keyspace(name)
            .map(|keyspace| keyspace.snapshots());
        found.unwrap_or_default()
    };
    let rows = keyspaces.flat_map(|keyspace| {
        let row = |info| SnapshotRow {
            keyspace: keyspace.name().to_string(),
            info,
        };
        of_keyspace(keyspace.name())
            .into_iter()
            .map(row)
            .collect::<Vec<_>>()
    });
    rows.collect()
}

impl SnapshotRow {
    /// As cells of [`SNAPSHOT_COLUMNS`], by their names.
    pub fn cells(&self) -> Vec<(&'static str, Bytes)> {
        let info = &self.info;
        let scope = match info.scope {
            SnapshotScope::Keyspace => "keyspace",
            SnapshotScope::Table(_) => "table",
        };
        let bytes = i64::try_from(info.approximate_bytes).unwrap_or(i64::MAX);
        let mut cells = vec![
            ("keyspace_name", text(&self.keyspace)),
            ("snapshot_name", text(&info.name)),
            ("approximate_bytes", bigint(bytes)),
            ("created", timestamp(info.created)),
            ("runs", int(i32::try_from(info.runs).unwrap_or(i32::MAX))),
            ("scope", text(scope)),
            ("tables", list(info.tables.iter().map(|name| text(name)))),
        ];
        cells.extend(info.expires.map(|expires| ("expires", timestamp(expires))));
        cells
    }
}

pub(super) const JOBS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "jobs",
    comment: "jobs over tables, running and ended",
    columns: &[
        "id text",
        "application text",
        "ended timestamp",
        "request text",
        "started timestamp",
        "starts int",
        "state text",
    ],
    partition_key: &["id"],
    clustering: &[],
    rows: jobs,
};

fn jobs(facts: &Facts, rows: &mut RowSet<'_>) -> Result<(), ErrorResponse> {
    let server =
        |error: crate::jobs::history::HistoryError| ErrorResponse::server(error.to_string());
    let Some(history) = History::existing(facts.catalog.db()).map_err(server)? else {
        return Ok(());
    };
    let time = |ms: u64| -> Bytes {
        let time: Option<SystemTime> = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        timestamp(time.unwrap_or(UNIX_EPOCH))
    };
    for job in history.jobs().map_err(server)? {
        let state = match job.state {
            RecordState::Started => "started",
            RecordState::Succeeded => "succeeded",
            RecordState::Failed => "failed",
            RecordState::Cancelled => "cancelled",
        };
        let mut cells = vec![
            ("id", text(&job.id)),
            ("application", text(&job.application)),
            ("request", text(&job.request.to_string())),
            ("started", time(job.started_unix_ms)),
            ("starts", int(i32::try_from(job.starts).unwrap_or(i32::MAX))),
            ("state", text(state)),
        ];
        cells.extend(job.ended_unix_ms.map(|ended| ("ended", time(ended))));
        rows.push_all(cells)?;
    }
    Ok(())
}

//! Snapshots, as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebb_jobs::pins::holder;
use ebb_storage::{SnapshotInfo, SnapshotPins, SnapshotScope};
use ebb_tables::lifetime::{LIFETIME_MAX, LIFETIME_YEARS_MAX};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotView {
    /// The keyspace of the snapshot.
    pub keyspace: String,
    /// The name of the snapshot, unique in the keyspace.
    pub name: String,
    /// The sequence number of the last commit that the snapshot contains.
    pub sequence: u64,
    /// The tables that the snapshot covers.
    pub tables: Vec<String>,
    /// Whether the snapshot was created of one table, and not of the whole keyspace.
    pub single_table: bool,
    /// The time of creation, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// The age of the snapshot in seconds.
    pub age_s: f64,
    /// The time at which the snapshot expires, in milliseconds since 1970; `null` if it never does.
    pub expires_unix_ms: Option<u64>,
    /// The number of sorted runs on disk that a scan of the whole snapshot reads.
    pub runs: u64,
    /// The number of files in these runs.
    pub files: u64,
    /// The bytes of the files in these runs.
    pub read_bytes: u64,
    /// An estimate of the bytes of files that are kept for this snapshot alone, made without reading data.
    pub pinned_bytes: u64,
    /// The likely error of `pinned_bytes`: the actual bytes may be that many more or fewer. If it is about as
    /// large as `pinned_bytes`, little is known.
    pub pinned_error_bytes: u64,
    /// The bytes of files that are kept for this snapshot alone, counted by a pass over its tables.
    /// `null` unless the request has `exact=true`, and for a snapshot that was created during the pass.
    pub pinned_exact_bytes: Option<u64>,
    /// The purpose for which ebb keeps the snapshot; absent if a user created it. Snapshots that ebb keeps
    /// are only listed with `exact=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
}

/// A page of the list of snapshots, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotList {
    /// The time of the response by the server's clock, in milliseconds since 1970, to compare with the times
    /// of snapshots: the client's clock may be set differently. Older servers leave it out.
    #[serde(default)]
    pub now_unix_ms: Option<u64>,
    /// The snapshots of this page.
    pub snapshots: Vec<SnapshotView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
    /// The bytes of files that would be freed if all these snapshots were deleted together; `null` unless the
    /// request has `exact=true`.
    pub pinned_exact_together_bytes: Option<u64>,
}

/// A snapshot to be created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRequest {
    /// The keyspace to create a snapshot of.
    #[schema(min_length = 1)]
    pub keyspace: String,
    /// The name of the snapshot: letters, digits, `_` and `-`. The keyspace must have no snapshot of this
    /// name.
    #[schema(min_length = 1)]
    pub name: String,
    /// The only table that the snapshot covers; `null` for all tables.
    #[serde(default)]
    pub table: Option<String>,
    /// The lifetime of the snapshot in seconds; `null` if it does not expire.
    #[serde(default)]
    #[schema(exclusive_minimum = 0, maximum = 31_557_600_000.0)]
    pub expires_in_s: Option<f64>,
}

/// A new lifetime for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRenewal {
    /// The lifetime in seconds from now; `null` if the snapshot no longer expires.
    // Required: a request without the field must not keep a snapshot for ever.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(exclusive_minimum = 0, maximum = 31_557_600_000.0, required)]
    pub expires_in_s: Option<f64>,
}

impl SnapshotView {
    pub fn of(keyspace: &str, info: SnapshotInfo, now: SystemTime) -> Self {
        let age = now.duration_since(info.created).unwrap_or_default();
        Self {
            keyspace: keyspace.to_string(),
            name: info.name,
            sequence: info.seq.0,
            tables: info.tables,
            single_table: matches!(info.scope, SnapshotScope::Table(_)),
            created_unix_ms: unix_ms(info.created),
            age_s: age.as_secs_f64(),
            expires_unix_ms: info.expires.map(unix_ms),
            runs: info.runs as u64,
            files: info.files as u64,
            read_bytes: info.approximate_bytes,
            pinned_bytes: info.pinned_bytes,
            pinned_error_bytes: info.pinned_error_bytes,
            pinned_exact_bytes: None,
            held_for: info.held_for.as_deref().map(holder),
        }
    }

    /// Sets `pinned_exact_bytes` to the bytes that a pass over the tables counted for this snapshot alone;
    /// `None` if the pass did not count it.
    pub fn set_pinned(&mut self, pins: &SnapshotPins) {
        let name = (self.keyspace.clone(), self.name.clone());
        self.pinned_exact_bytes = pins.alone.get(&name).map(|pinned| pinned.file_bytes);
    }
}

/// Returns the lifetime from now that the field `expires_in_s` of a request sets; `None` if the snapshot does
/// not expire.
///
/// # Errors
/// When `expires_in_s` is not a positive duration, or is too long.
pub(in crate::http) fn time_to_come(expires_in_s: Option<f64>) -> Result<Option<Duration>, String> {
    let Some(seconds) = expires_in_s else {
        return Ok(None);
    };
    if seconds > LIFETIME_MAX.as_secs_f64() {
        return Err(format!(
            "expires_in_s: {seconds:e} is more than {LIFETIME_YEARS_MAX} years; use null for no expiry"
        ));
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(format!("expires_in_s: {seconds} is not above 0")),
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

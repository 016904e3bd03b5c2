//! The database as a whole: its statistics, its verification, and the restoring of damaged files.

use std::sync::Arc;

use axum::extract::{Extension, State};
use ebb_jobs::JobError;
use ebb_jobs::history::{MaintenanceOptions, RestoreRequest};
use ebb_storage::RestoreReport;
use ebb_tables::unreadable_objects;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, JsonBytes, Paced, Params, json_of, name_of};
use super::{At, Served};
use crate::http::access::Peer;
use crate::http::permits::check_admin;
use crate::http::problem::Problem;
use crate::http::wire::{BackupPlace, StatsReport, VerifiedDatabase};
use crate::http::work_limits::WorkKind;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(stats))
        .routes(routes!(verify))
        .routes(routes!(restore))
}

/// Shows the statistics of the database
///
/// It takes a token for scope `admin`, because the description of damage has keys and paths. The
/// fields are those of `ebb stats --json`.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "show_stats", tag = "database",
    responses((status = 200, description = "The statistics", body = StatsReport)),
)]
async fn stats(
    State(served): At,
    Extension(principal): Extension<Principal>,
) -> Result<JsonBytes, Problem> {
    check_admin(&principal)?;
    let memory = served.memory;
    let report = served.json_work(WorkKind::SchemaReads, move |node| {
        Ok(StatsReport {
            memory,
            ..StatsReport::of(node.database("a report")?)
        })
    });
    report.await
}

/// Reads every file of the database, and lists what is damaged
///
/// It takes a token for scope `admin`. The response comes at the end. The work uses no more CPU time
/// than jobs may use. The log is read first, and is not shortened until then, unless it reaches its bound:
/// `wal_unchecked_bytes` is the part of it that was not read then. No file is removed until the end. Before
/// that fills the disk, the work ends with an error. Unless the request has an idempotency key, it ends when
/// the client disconnects.
///
/// The verification is among the jobs, as application `verify`, with its progress, and can be
/// cancelled there.
#[utoipa::path(
    post, path = "/v1/verify", operation_id = "verify_database", tag = "database",
    params(Paced),
    responses((status = 200, description = "The damage, if there is any", body = VerifiedDatabase)),
)]
async fn verify(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Params(paced): Params<Paced>,
) -> Result<JsonBytes, Problem> {
    let rate_bytes_per_s = paced.rate()?;
    check_admin(&principal)?;
    let options = MaintenanceOptions {
        by: name_of(principal),
        rate_bytes_per_s,
    };
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let verified = served.json_work(WorkKind::Long, move |node| {
        let files = node.verify(&options, &|| waits.strong_count() > 0)?;
        let unreadable = unreadable_objects(node.database("a verification")?);
        let verified = VerifiedDatabase::new(files, unreadable);
        Ok(verified.map_err(JobError::from)?)
    });
    verified.await
}

/// Replaces damaged files by those of a backup
///
/// It takes a token for scope `admin`. Every file is read. Files that are damaged, missing or unreadable are
/// replaced by the same files of the backup. The reads use no more CPU time than jobs may use. The work ends
/// with an error before the disk is full, because files that merges replace meanwhile stay. It ends early when the
/// server stops, and, unless the request has an idempotency key, when the client disconnects. Files that are
/// restored by then stay restored.
///
/// The restore is among the jobs, as application `restore`, with its progress, and can be cancelled there.
#[utoipa::path(
    post, path = "/v1/restore", operation_id = "restore_files", tag = "database",
    params(Paced), request_body = BackupPlace,
    responses((status = 200, body = Object,
        description = "The files that are whole again, and those that are still damaged")),
)]
async fn restore(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    Params(paced): Params<Paced>,
    body: Body,
) -> Answer<RestoreReport> {
    let (rate_bytes_per_s, place) = (paced.rate()?, json_of::<BackupPlace>(body)?);
    check_admin(&principal)?;
    let backup = place.name.clone().or(place.directory.clone());
    let request = RestoreRequest {
        backup: backup.unwrap_or_default(),
        options: MaintenanceOptions {
            by: name_of(principal),
            rate_bytes_per_s,
        },
    };
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let roots = Arc::clone(&served.roots);
    let report = served.checked_work(WorkKind::Long, move |node| {
        let dir = roots.backup(&place, peer.address.is_none())?;
        Ok(node.restore(&dir, &request, &|| waits.strong_count() > 0)?)
    });
    report.await.map(Json)
}

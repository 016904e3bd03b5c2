//! Snapshots: create, list, show, renew and delete them.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{Extension, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use ebb_jobs::JobError;
use ebb_jobs::history::now_unix_ms;
use ebb_scheduler::runtime::SubmitError;
use ebb_storage::{ErrorKind, Keyspace, SnapshotOptions, SnapshotPins};
use serde::Deserialize;
use tracing::warn;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, JsonBytes, Named, Params, json_of};
use super::paging::{limit_of, page};
use super::{At, Served};
use crate::http::paths;
use crate::http::permits::{check_new_snapshot, check_snapshot, present};
use crate::http::problem::Problem;
use crate::http::wire::{
    SnapshotList, SnapshotRenewal, SnapshotRequest, SnapshotView, time_to_come,
};
use crate::http::work_limits::WorkKind;
use crate::node::Node;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, delete))
        .routes(routes!(renew))
}

/// The query parameters of the list of snapshots.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Lists only snapshots of this keyspace.
    keyspace: Option<String>,
    /// The largest number of snapshots in the page, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The value of `next` in the page before this one.
    after: Option<String>,
    /// Whether to count the bytes that snapshots pin, by one pass over their tables. Then all snapshots are
    /// on one page, and the list includes those that ebb keeps for publications.
    #[serde(default)]
    exact: bool,
}

/// Lists the snapshots, the newest first
#[utoipa::path(
    get, path = "/v1/snapshots", operation_id = "list_snapshots", tag = "snapshots",
    params(Listed),
    responses((status = 200, description = "A page of them", body = SnapshotList)),
)]
async fn list(State(served): At, Params(listed): Params<Listed>) -> Result<JsonBytes, Problem> {
    let limit = limit_of(listed.limit)?;
    // One pass over the tables counts for all snapshots, so they are not split into pages.
    let limit = if listed.exact { usize::MAX } else { limit };
    // When the client goes away, the server drops this future and `client` with it, which ends the pass.
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let after = listed.after.as_deref().map(place_of).transpose()?;
    let list = served.json_work(kind(listed.exact), move |node| {
        let (all, pinned_exact_together_bytes) = snapshots_of(node, &listed, &waits)?;
        let all = all.into_iter();
        let rest = all.filter(|view| after.as_ref().is_none_or(|after| place(view) > *after));
        let (snapshots, next) = page(rest, limit, |view| {
            format!("{}/{}/{}", view.sequence, view.keyspace, view.name)
        });
        Ok(SnapshotList {
            now_unix_ms: Some(now_unix_ms()),
            snapshots,
            next,
            pinned_exact_together_bytes,
        })
    });
    list.await
}

/// Returns the snapshots that the query parameters choose, in the order of their places, and the bytes that
/// they pin together if these are to be counted. The count ends when `waits` has no owner any more.
///
/// # Errors
/// When there is no such keyspace, the client is gone, the node closes, or the store fails.
fn snapshots_of(
    node: &Node,
    listed: &Listed,
    waits: &Weak<()>,
) -> Result<(Vec<SnapshotView>, Option<u64>), JobError> {
    let mut all = Vec::new();
    let Some(db) = node.db() else {
        return Ok((all, None));
    };
    let of = listed.keyspace.as_deref();
    // Before the list: a snapshot that is created during the pass is listed without a number.
    let pins = listed.exact.then(|| pins(node, of, waits));
    let pins = pins.transpose()?;
    let is_named = listed.keyspace.is_some();
    let keyspaces = match &listed.keyspace {
        Some(keyspace) => vec![keyspace.clone()],
        None => db.keyspaces(),
    };
    let now = SystemTime::now();
    for name in keyspaces {
        let keyspace = match db.existing_keyspace(&name) {
            Ok(keyspace) => keyspace,
            // Another client has dropped it since the names were read, and its snapshots with it.
            Err(error) if !is_named && error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let mut infos = keyspace.snapshots();
        if listed.exact {
            // Holds, which ebb keeps for publications, pin bytes, too.
            infos.extend(keyspace.holds());
        }
        let infos = infos.into_iter();
        all.extend(infos.map(|info| SnapshotView::of(&name, info, now)));
    }
    all.sort_by_cached_key(place);
    if let Some(pins) = &pins {
        all.iter_mut().for_each(|view| view.set_pinned(pins));
    }
    Ok((all, pins.map(|pins| pins.together.file_bytes)))
}

/// The key by which lists of snapshots are ordered: the sequence number of the snapshot's last
/// commit, the greatest first; the name of the keyspace; and the name of the snapshot.
type Place = (Reverse<u64>, String, String);

fn place(view: &SnapshotView) -> Place {
    let (keyspace, name) = (view.keyspace.clone(), view.name.clone());
    (Reverse(view.sequence), keyspace, name)
}

fn place_of(cursor: &str) -> Result<Place, Problem> {
    let mut parts = cursor.splitn(3, '/');
    let mut part = || parts.next();
    let place = part().and_then(|sequence| {
        let sequence = sequence.parse().ok()?;
        Some((Reverse(sequence), part()?.to_string(), part()?.to_string()))
    });
    place.ok_or_else(|| Problem::senseless("after: this is no `next` of a page of snapshots"))
}

/// The query parameters of a request that shows one snapshot.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Look {
    /// Whether to count the bytes that are kept for this snapshot alone. Counting reads all tables of the
    /// snapshot.
    #[serde(default)]
    exact: bool,
}

/// Shows a snapshot
#[utoipa::path(
    get, path = "/v1/snapshots/{keyspace}/{name}", operation_id = "show_snapshot",
    tag = "snapshots",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the snapshot"),
        ("name" = String, Path, description = "The name of the snapshot"),
        Look,
    ),
    responses((status = 200, description = "The snapshot", body = SnapshotView)),
)]
async fn show(
    State(served): At,
    Named((keyspace, name)): Named<(String, String)>,
    Params(look): Params<Look>,
) -> Answer<SnapshotView> {
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let view = served.work(kind(look.exact), move |node| {
        let of = node.database("a snapshot")?.existing_keyspace(&keyspace)?;
        let mut view = view(&of, &name)?;
        if look.exact {
            view.set_pinned(&pins(node, Some(&keyspace), &waits)?);
        }
        Ok(view)
    });
    view.await.map(Json)
}

/// Returns the kind of work of a request that reads snapshots. With `exact`, the request counts the bytes
/// that they pin, which takes long.
fn kind(exact: bool) -> WorkKind {
    if exact {
        WorkKind::Long
    } else {
        WorkKind::SchemaReads
    }
}

/// The longest pause in a pass that counts the bytes that snapshots pin.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Counts the bytes that snapshots of a keyspace pin, or those of all keyspaces for `None`. After each step
/// the pass pauses for as long as the step took, but for [`PAUSE_MAX`] at most, so it uses about half of a
/// core.
///
/// # Errors
/// When the client is gone, the node closes, or the store fails.
fn pins(node: &Node, keyspace: Option<&str>, client: &Weak<()>) -> Result<SnapshotPins, JobError> {
    let mut begun = Instant::now();
    let mut step = |_: u64| {
        if node.is_closed() || client.strong_count() == 0 {
            return ControlFlow::Break(());
        }
        thread::sleep(begun.elapsed().min(PAUSE_MAX));
        begun = Instant::now();
        ControlFlow::Continue(())
    };
    let db = node.database("a snapshot")?;
    let pins = db.snapshot_pins(keyspace, &mut step)?;
    pins.ok_or_else(|| SubmitError::ShuttingDown.into())
}

/// Creates a snapshot of a keyspace, or of one table
///
/// A snapshot costs as much as a small write, and is durable when the response is sent.
#[utoipa::path(
    post, path = "/v1/snapshots", operation_id = "create_snapshot", tag = "snapshots",
    request_body = SnapshotRequest,
    responses((status = 201, description = "The snapshot", body = SnapshotView,
        headers(("location" = String, description = "The path of the snapshot")))),
)]
async fn create(
    State(served): At,
    Extension(principal): Extension<Principal>,
    body: Body,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<SnapshotView>), Problem> {
    let request: SnapshotRequest = json_of(body)?;
    check_new_snapshot(&principal, &request.keyspace, request.table.as_deref())?;
    let created = served.checked_work(WorkKind::SnapshotChanges, move |node| {
        let catalog;
        let room = match &principal.role {
            Some(role) => {
                catalog = node.catalog()?;
                let room = catalog.roles().room_for_snapshot(&role.name);
                Some(room.map_err(Problem::forbidden)?)
            }
            None => None,
        };
        let options = SnapshotOptions {
            expires_in: time_to_come(request.expires_in_s).map_err(JobError::senseless)?,
            table: request.table,
        };
        let db = node.database("a snapshot")?;
        let keyspace = db.existing_keyspace(&request.keyspace)?;
        // As CREATE SNAPSHOT: not between the steps of a change of the schema, nor of a DROP SNAPSHOT.
        node.exclusively(|| {
            // Another table or keyspace may have got the name since the check above.
            let (now, table) = (present(node, &principal)?, options.table.as_deref());
            check_new_snapshot(&now, keyspace.name(), table)?;
            keyspace.create_snapshot_with(&request.name, options)?;
            Ok::<_, Problem>(())
        })?;
        // The snapshot must survive a power loss after the response.
        db.sync()?;
        if let Some(room) = room {
            let noted = room.note(keyspace.name(), &request.name);
            noted.map_err(JobError::from)?;
        }
        Ok(view(&keyspace, &request.name)?)
    });
    let view = created.await?;
    let place = paths::snapshot(&view.keyspace, &view.name);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(view)))
}

/// Deletes a snapshot
///
/// Merges reclaim its space later.
#[utoipa::path(
    delete, path = "/v1/snapshots/{keyspace}/{name}", operation_id = "delete_snapshot",
    tag = "snapshots",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the snapshot"),
        ("name" = String, Path, description = "The name of the snapshot"),
    ),
    responses((status = 204, description = "The snapshot is deleted")),
)]
async fn delete(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, name)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let deleted = served.checked_work(WorkKind::SnapshotChanges, move |node| {
        let db = node.database("a snapshot")?;
        let keyspace = db.existing_keyspace(&keyspace)?;
        // No statement and no other request replaces the snapshot between the check and the deletion, and a
        // DROP SNAPSHOT deletes the snapshot whose events it sends.
        node.exclusively(|| {
            check_snapshot(node, &principal, &keyspace, &name)?;
            // The snapshot counts for the quota of a role by this number, which is gone after the deletion.
            let seq = keyspace.snapshot_seq(&name)?;
            keyspace.delete_snapshot(&name)?;
            // The deletion is made, so the request succeeds even if this fails. A record that stays
            // does not count for the quota, and the next start removes it.
            if let Some(catalog) = node.opened_catalog()
                && let Err(error) = catalog.roles().forget_snapshot(seq)
            {
                let of = keyspace.name();
                warn!(
                    target: "http",
                    "the deleted snapshot {name} of {of} is still recorded for its role: {error}"
                );
            }
            Ok::<_, Problem>(())
        })?;
        Ok(db.sync()?)
    });
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes when a snapshot expires
///
/// The change is durable when the response is sent.
#[utoipa::path(
    post, path = "/v1/snapshots/{keyspace}/{name}/renew", operation_id = "renew_snapshot",
    tag = "snapshots",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the snapshot"),
        ("name" = String, Path, description = "The name of the snapshot"),
    ),
    request_body = SnapshotRenewal,
    responses((status = 200, description = "The snapshot", body = SnapshotView)),
)]
async fn renew(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, name)): Named<(String, String)>,
    body: Body,
) -> Answer<SnapshotView> {
    let renewal: SnapshotRenewal = json_of(body)?;
    let renewed = served.checked_work(WorkKind::SnapshotChanges, move |node| {
        let db = node.database("a snapshot")?;
        let keyspace = db.existing_keyspace(&keyspace)?;
        // No other snapshot takes the place of the one that the principal may renew.
        let renewed = node.exclusively(|| {
            check_snapshot(node, &principal, &keyspace, &name)?;
            let expires_in = time_to_come(renewal.expires_in_s).map_err(JobError::senseless)?;
            keyspace.set_snapshot_expiry(&name, expires_in)?;
            Ok::<_, Problem>(view(&keyspace, &name)?)
        })?;
        db.sync()?;
        Ok(renewed)
    });
    renewed.await.map(Json)
}

fn view(keyspace: &Keyspace, name: &str) -> Result<SnapshotView, JobError> {
    let info = keyspace.snapshot_info(name)?;
    Ok(SnapshotView::of(keyspace.name(), info, SystemTime::now()))
}

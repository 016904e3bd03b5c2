//! Backups of the database, below the folder that the server was started with.

use std::fs::{self, DirEntry};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_storage::{Db, Finding, Options};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, blocking, json_of, work};
use super::{At, Served};
use crate::http::access::Peer;
use crate::http::permits::check_admin;
use crate::http::problem::{Problem, broken};
use crate::http::wire::BackupPlace;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(list, create))
}

/// The backups, by their names.
#[derive(Debug, Serialize, ToSchema)]
struct BackupList {
    backups: Vec<BackupView>,
}

/// A backup: a folder that opens as the database.
#[derive(Debug, Serialize, ToSchema)]
struct BackupView {
    /// The name of the backup below the folder for backups.
    name: String,
    /// The time of creation, in milliseconds since 1970.
    created_unix_ms: u64,
    /// The bytes of all files of the backup.
    bytes: u64,
}

/// A backup that was made.
#[derive(Debug, Serialize, ToSchema)]
struct BackupMade {
    /// The name of the backup, or its folder if the request named that.
    name: String,
    /// Number of files.
    files: u64,
    /// The bytes of all files.
    bytes: u64,
    /// The bytes that the backup shares with the database through hard links.
    linked_bytes: u64,
    /// The bytes that were copied.
    copied_bytes: u64,
    /// The files that are damaged, missing or unreadable, each with `path`, `offset` and `detail`.
    /// The backup is made nevertheless, but an older one may have what these lack.
    #[schema(value_type = Vec<Object>)]
    damaged: Vec<Finding>,
}

/// The backups, by their names
#[utoipa::path(
    get, path = "/v1/backups", operation_id = "list_backups", tag = "backups",
    responses((status = 200, description = "The backups", body = BackupList)),
)]
async fn list(State(Served { roots, .. }): At) -> Answer<BackupList> {
    let backups = blocking(move || {
        let root = roots.backups()?;
        list_in(root).map_err(|error| broken(format!("{}: {error}", root.display())))
    });
    let backups = backups.await??;
    Ok(Json(BackupList { backups }))
}

/// Makes a backup
///
/// It takes a token for scope `admin`. Over the network the backup is made below the folder for
/// backups. Files that the backup and the database have in common take no space twice, where they
/// lie on the same file system. Every file is checked, with the CPU time that jobs may use. Unless
/// the request has an idempotency key, the backup is removed when the client disconnects.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "create_backup", tag = "backups",
    request_body = BackupPlace,
    responses((status = 201, description = "The backup", body = BackupMade)),
)]
async fn create(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<(StatusCode, Json<BackupMade>), Problem> {
    let request: BackupPlace = json_of(body)?;
    check_admin(&principal)?;
    let dir = served.roots.backup(&request, peer.address.is_none())?;
    let name = request.name.or(request.directory).unwrap_or_default();
    let place = served.long_work.begin()?;
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let backup = work(served.node, move |node| {
        let _place = place;
        node.backup(&dir, &mut |_| {
            if waits.strong_count() == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
    });
    let info = backup.await?;
    let made = BackupMade {
        name,
        files: info.files,
        bytes: info.bytes,
        linked_bytes: info.linked_bytes,
        copied_bytes: info.copied_bytes,
        damaged: info.damaged,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

fn list_in(root: &Path) -> io::Result<Vec<BackupView>> {
    let mut backups = Vec::new();
    for entry in fs::read_dir(root)? {
        // A folder that disappears meanwhile is left out.
        if let Ok(Some(backup)) = entry.and_then(|entry| view(&entry)) {
            backups.push(backup);
        }
    }
    backups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(backups)
}

/// The view of a folder as a backup; `None` if it is none.
fn view(entry: &DirEntry) -> io::Result<Option<BackupView>> {
    let Ok(name) = entry.file_name().into_string() else {
        return Ok(None);
    };
    let is_database = Db::exists(entry.path(), &Options::default());
    if !is_database.map_err(io::Error::other)? {
        return Ok(None);
    }
    let created = entry.metadata()?.modified()?.duration_since(UNIX_EPOCH);
    let mut bytes = 0;
    for file in fs::read_dir(entry.path())? {
        bytes += file?.metadata()?.len();
    }
    Ok(Some(BackupView {
        name,
        created_unix_ms: created.map_or(0, |created| created.as_millis() as u64),
        bytes,
    }))
}

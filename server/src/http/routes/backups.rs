//! Backups of the database, below the folder that the server was started with.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_jobs::history::{BackupRequest, MaintenanceOptions};
use ebb_storage::{Db, Finding, Options};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, Paced, Params, json_of, name_of};
use super::paging::{PageRequest, Paged};
use super::{At, Served};
use crate::http::access::Peer;
use crate::http::permits::check_admin;
use crate::http::problem::{Problem, broken};
use crate::http::wire::BackupPlace;
use crate::http::work_limits::WorkKind;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(list, create))
}

/// A page of the backups, ordered by name.
#[derive(Debug, Serialize, ToSchema)]
struct BackupList {
    /// The backups of this page.
    backups: Vec<BackupView>,
    /// The value of `after` for the next page; `null` on the last one.
    next: Option<String>,
}

/// A backup: a folder that opens as a database.
#[derive(Debug, Serialize, ToSchema)]
struct BackupView {
    /// The name of the backup below the folder for backups.
    name: String,
    /// The time at which the folder of the backup last changed, in milliseconds since 1970. Usually this is
    /// when the backup was made.
    created_unix_ms: u64,
    /// The bytes of all files of the backup.
    bytes: u64,
}

/// A backup that was made.
#[derive(Debug, Serialize, ToSchema)]
struct BackupMade {
    /// The name of the backup, or its folder if the request named that.
    name: String,
    /// The number of files of the backup.
    files: u64,
    /// The bytes of all files of the backup.
    bytes: u64,
    /// The bytes that the backup shares with the database through hard links.
    linked_bytes: u64,
    /// The bytes that were copied.
    copied_bytes: u64,
    /// The bytes of files that the older backup in the folder had already. They were verified and not copied.
    kept_bytes: u64,
    /// The files that are damaged, missing or unreadable, each with `path`, `offset` and `detail`.
    /// The backup is made nevertheless, but an older backup may have whole copies of these files.
    #[schema(value_type = Vec<Object>)]
    damaged: Vec<Finding>,
    /// True if the folder still has the older backup, because the new one has damage and did not replace it.
    older_stays: bool,
}

/// Lists the backups, ordered by name
#[utoipa::path(
    get, path = "/v1/backups", operation_id = "list_backups", tag = "backups",
    params(Paged),
    responses((status = 200, description = "A page of them", body = BackupList)),
)]
async fn list(State(Served { roots, limits, .. }): At, request: PageRequest) -> Answer<BackupList> {
    let page = limits.run(WorkKind::BackupLists, move || {
        let root = roots.backups()?;
        list_in(root, &request).map_err(|error| broken(format!("{}: {error}", root.display())))
    });
    let (backups, next) = page.await??;
    Ok(Json(BackupList { backups, next }))
}

/// Makes a backup
///
/// It takes a token for scope `admin`. Over the network the backup is made below the folder for
/// backups. Files that the backup and the database have in common take no space twice, where they
/// lie on the same file system. Every file is checked, with the CPU time that jobs may use. Unless
/// the request has an idempotency key, the backup is removed when the client disconnects.
///
/// The folder may have an older backup of this database. Its files are verified, and only those
/// that are missing or damaged are copied. It stays whole until the new one takes its place, and
/// stays for good if the new one has damage.
///
/// The backup is among the jobs, as application `backup`, and can be cancelled there.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "create_backup", tag = "backups",
    params(Paced),
    request_body = BackupPlace,
    responses((status = 201, description = "The backup", body = BackupMade),
        (status = 200, description = "The damage for which the older backup stays",
            body = BackupMade)),
)]
async fn create(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    Params(paced): Params<Paced>,
    body: Body,
) -> Result<(StatusCode, Json<BackupMade>), Problem> {
    let to: BackupPlace = json_of(body)?;
    let rate_bytes_per_s = paced.rate()?;
    check_admin(&principal)?;
    let name = to.name.clone().or(to.directory.clone()).unwrap_or_default();
    let request = BackupRequest {
        target: name.clone(),
        options: MaintenanceOptions {
            by: name_of(principal),
            rate_bytes_per_s,
        },
    };
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let roots = Arc::clone(&served.roots);
    let backup = served.checked_work(WorkKind::Long, move |node| {
        let dir = roots.backup(&to, peer.address.is_none())?;
        Ok(node.backup(&dir, &request, &|| waits.strong_count() > 0)?)
    });
    let info = backup.await?;
    let made = BackupMade {
        name,
        files: info.files,
        bytes: info.bytes,
        linked_bytes: info.linked_bytes,
        copied_bytes: info.copied_bytes,
        kept_bytes: info.kept_bytes,
        damaged: info.damaged,
        older_stays: info.older_stays,
    };
    let status = if made.older_stays {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(made)))
}

fn list_in(root: &Path, request: &PageRequest) -> io::Result<(Vec<BackupView>, Option<String>)> {
    let mut backups = Vec::new();
    for entry in fs::read_dir(root)? {
        // A folder that disappears meanwhile is left out.
        if let Ok(Some(backup)) = entry.and_then(|entry| view(&entry)) {
            backups.push(backup);
        }
    }
    backups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(request.of(backups, |backup| backup.name.clone()))
}

/// Returns the view of an entry of the folder for backups; `None` if the entry is not a backup.
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
        // The file may be gone: a newer backup in this folder removes files that only the older one needed.
        bytes += file?.metadata().map_or(0, |found| found.len());
    }
    Ok(Some(BackupView {
        name,
        created_unix_ms: created.map_or(0, |created| created.as_millis() as u64),
        bytes,
    }))
}

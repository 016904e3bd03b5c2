//! Backups of the database, below the folder that the server was started with.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_jobs::JobError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, blocking, json_of, work};
use super::{At, Served};
use crate::http::problem::{Problem, broken};
use crate::tokens::Scope;

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

/// A backup to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BackupRequest {
    /// The name of the new backup: letters, digits, `_`, `-` and `.`, with no `.` first.
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$"
    )]
    name: String,
}

/// A backup that was made.
#[derive(Debug, Serialize, ToSchema)]
struct BackupMade {
    /// The name of the backup.
    name: String,
    /// Number of files.
    files: u64,
    /// The bytes of all files.
    bytes: u64,
    /// The bytes that the backup shares with the database through hard links.
    linked_bytes: u64,
    /// The bytes that were copied.
    copied_bytes: u64,
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
/// It takes a token for scope `admin`. Files that the backup and the database have in common
/// take no space twice, where they lie on the same file system.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "create_backup", tag = "backups",
    request_body = BackupRequest,
    responses((status = 201, description = "The backup", body = BackupMade)),
)]
async fn create(
    State(served): At,
    Extension(scope): Extension<Scope>,
    body: Body,
) -> Result<(StatusCode, Json<BackupMade>), Problem> {
    let BackupRequest { name } = json_of(body)?;
    if scope < Scope::Admin {
        return Err(Problem::forbidden("a backup takes a token for scope admin"));
    }
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = (1..=128).contains(&name.len()) && !name.starts_with('.');
    if !is_name || !name.chars().all(is_legal) {
        return Err(Problem::senseless(format!(
            "name: {name:?} is not 1 to 128 letters, digits, '_', '-' and '.', with no '.' first"
        )));
    }
    let dir = served.roots.backups()?.join(&name);
    let place = served.long_work.begin()?;
    // Not under a lease, which waits until the policy grants CPU time: the client waits for the
    // response, and most of the work is to make links.
    let backup = work(served.node, move |node| {
        let _place = place;
        let no = || JobError::NoDatabase("a backup".to_string());
        Ok(node.db().ok_or_else(no)?.backup(dir)?)
    });
    let info = backup.await?;
    let made = BackupMade {
        name,
        files: info.files,
        bytes: info.bytes,
        linked_bytes: info.linked_bytes,
        copied_bytes: info.copied_bytes,
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
    // Every database has this file.
    if !entry.path().join("CURRENT").is_file() {
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

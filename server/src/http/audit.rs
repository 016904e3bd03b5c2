//! The log of changes over HTTP: a line of JSON for each in `audit.log`, in the directory of the
//! database.
//!
//! A line is written with the response to a change. Changes that a handler refuses have lines too;
//! requests without a valid token do not. Files are bounded: a full one becomes `audit.log.1`,
//! that one `audit.log.2`, and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Extension, Request, State};
use axum::http::header::LOCATION;
use axum::middleware::Next;
use axum::response::Response;
use ebb_jobs::history::now_unix_ms;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::access::{Peer, is_change};
use crate::tokens::Principal;

/// The name of the log file.
const FILE: &str = "audit.log";
/// The size at which a file is full, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Full files that are kept.
const FULL_KEPT: u32 = 4;
/// Only the server's user reads it.
const MODE: u32 = 0o600;

/// The log of a directory.
#[derive(Debug)]
pub(super) struct AuditLog {
    path: PathBuf,
    file_bytes_max: u64,
    open: Mutex<Option<(File, u64)>>,
}

/// A change, as it is written.
#[derive(Debug, Serialize)]
struct Change {
    at_unix_ms: u64,
    /// The id of the token; `null`: the server's own user, by the socket.
    token: Option<String>,
    /// The role that the token belongs to, if it belongs to one.
    role: Option<String>,
    /// The name of the token, as its creator chose it.
    name: String,
    /// The client's IP address; `null` for the socket.
    address: Option<String>,
    method: String,
    path: String,
    status: u16,
    /// The path of the resource that was created, if one was.
    made: Option<String>,
}

impl AuditLog {
    /// The log of the database in `data`.
    pub(super) fn of(data: &Path) -> Self {
        Self {
            path: data.join(FILE),
            file_bytes_max: FILE_BYTES_MAX,
            open: Mutex::default(),
        }
    }

    fn write(&self, change: &Change) -> io::Result<()> {
        let mut line = serde_json::to_vec(change)?;
        line.push(b'\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |bytes: u64| bytes > 0 && bytes + line.len() as u64 > self.file_bytes_max;
        let (mut file, mut bytes) = match open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        if is_full(bytes) {
            self.rotate()?;
            (file, bytes) = self.open()?;
        }
        // After a failed write the file is opened anew, which finds out how long it is.
        file.write_all(&line)?;
        *open = Some((file, bytes + line.len() as u64));
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(MODE);
        let file = file.open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    /// Makes room for a new file.
    fn rotate(&self) -> io::Result<()> {
        for number in (0..FULL_KEPT).rev() {
            match fs::rename(self.full(number), self.full(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The full file of this number; 0 is the one that is written.
    fn full(&self, number: u32) -> PathBuf {
        match number {
            0 => self.path.clone(),
            number => self.path.with_added_extension(number.to_string()),
        }
    }
}

/// Logs a request that changes something, once it is answered.
pub(super) async fn log(
    State(log): State<Arc<AuditLog>>,
    Extension(peer): Extension<Peer>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Response {
    if !is_change(&request) {
        return next.run(request).await;
    }
    let (method, path) = (
        request.method().to_string(),
        request.uri().path().to_string(),
    );
    let response = next.run(request).await;
    let made = response.headers().get(LOCATION);
    let change = Change {
        at_unix_ms: now_unix_ms(),
        token: (!principal.id.is_empty()).then_some(principal.id),
        role: principal.role.map(|role| role.name),
        name: principal.name,
        address: peer.address.map(|address| address.to_string()),
        method,
        path,
        status: response.status().as_u16(),
        made: made.and_then(|made| made.to_str().ok()).map(str::to_string),
    };
    tracing::info!(
        target: "http",
        user = change.role,
        token = change.token,
        name = change.name,
        address = change.address,
        request = format!("{} {}", change.method, change.path),
        status = change.status,
        made = change.made,
        "change"
    );
    let written = spawn_blocking(move || log.write(&change)).await;
    if let Ok(Err(error)) = written {
        tracing::error!(target: "http", "{FILE} is not written: {error}");
    }
    response
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn change(number: u64) -> Change {
        Change {
            at_unix_ms: number,
            token: None,
            role: None,
            name: "test".to_string(),
            address: None,
            method: "POST".to_string(),
            path: "/v1/jobs".to_string(),
            status: 201,
            made: None,
        }
    }

    fn numbers(path: &Path) -> Vec<u64> {
        let text = fs::read_to_string(path).unwrap();
        let number = |line| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        let lines = text.lines().map(number);
        lines
            .map(|line| line["at_unix_ms"].as_u64().unwrap())
            .collect()
    }

    #[test]
    fn lines_are_added_and_full_files_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let log = || AuditLog {
            file_bytes_max: 300,
            ..AuditLog::of(dir.path())
        };
        let line_bytes = serde_json::to_vec(&change(1)).unwrap().len() as u64 + 1;
        let lines = 300 / line_bytes;
        // Each line by a log of its own: a server continues the files of the one before.
        for number in 0..6 * lines {
            log().write(&change(number)).unwrap();
        }
        let log = log();
        for number in 6 * lines..8 * lines {
            log.write(&change(number)).unwrap();
        }
        let mut found = Vec::new();
        for number in (0..=FULL_KEPT).rev() {
            found.extend(numbers(&log.full(number)));
        }
        let first = (8 - 5) * lines;
        assert_eq!(found, (first..8 * lines).collect::<Vec<_>>());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
        let mode = fs::metadata(log.full(0)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
    }
}

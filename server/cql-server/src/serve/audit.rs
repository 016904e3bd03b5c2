//! The entries of statements of administration in an audit log: one before the statement is executed,
//! and one with its result.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};

use super::events::MaskedText;
use crate::call::Administration;
use crate::outcome::Outcome;

/// A statement of administration that is about to be executed.
#[derive(Debug, Clone)]
pub struct AuditedStatement<'a> {
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without logins.
    pub user: Option<&'a str>,
    /// The statement.
    pub statement: MaskedText<'a>,
    /// The properties that the text of the statement may not show.
    pub administration: Administration<'a>,
}

/// Writes the entry with the result of a statement: `done`, `unauthorized`, `invalid` or `failed`.
pub type AuditEnd = Box<dyn FnOnce(&'static str)>;

type Begin = Arc<dyn Fn(AuditedStatement<'_>) -> io::Result<AuditEnd> + Send + Sync>;

/// The callback that writes entries in an audit log; the default writes none.
#[derive(Clone, Default)]
pub struct Audit(Option<Begin>);

impl Audit {
    /// Calls `begin` before each statement of administration. The statement is executed only if that
    /// succeeds, and its client is answered after the returned callback has run. Both calls are made
    /// on a thread that may wait for the disk.
    pub fn new(
        begin: impl Fn(AuditedStatement<'_>) -> io::Result<AuditEnd> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(begin)))
    }

    /// Executes a statement between its two entries.
    pub(super) fn execute(
        &self,
        statement: AuditedStatement<'_>,
        execute: impl FnOnce() -> Result<Outcome, ErrorResponse>,
    ) -> Result<Outcome, ErrorResponse> {
        let Some(begin) = &self.0 else {
            return execute();
        };
        let end = begin(statement).map_err(|error| not_written(&error))?;
        let ended = execute();
        end(result_of(&ended));
        ended
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

fn not_written(error: &io::Error) -> ErrorResponse {
    let message =
        format!("the statement is not executed, because the audit log cannot be written: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ErrorResponse::overloaded(message)
        }
        _ => ErrorResponse::server(message),
    }
}

fn result_of(ended: &Result<Outcome, ErrorResponse>) -> &'static str {
    match ended.as_ref().map_err(|error| &error.kind) {
        Ok(_) => "done",
        Err(ErrorKind::Unauthorized) => "unauthorized",
        Err(
            ErrorKind::Invalid
            | ErrorKind::Config
            | ErrorKind::AlreadyExists { .. }
            | ErrorKind::Unprepared { .. },
        ) => "invalid",
        Err(_) => "failed",
    }
}

//! The entries of statements in audit logs. An administrative statement has one entry before its
//! execution, and one with its result. A request that writes rows has one entry for each table,
//! with the result.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};

use super::audited_tables::AuditedTables;
use super::events::MaskedText;
use super::slow::Sender;
use super::statements::Entry;
use crate::call::{Administration, Statement, WriteKind};
use crate::error::Result;
use crate::outcome::Outcome;

/// An administrative statement that is about to be executed.
#[derive(Debug, Clone)]
pub struct AuditedStatement<'a> {
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without authentication.
    pub user: Option<&'a str>,
    /// The text of the statement, with masked constants.
    pub statement: MaskedText<'a>,
    /// The properties of the statement, such as the roles that it names. The text does not always
    /// show them, because its constants are masked.
    pub administration: Administration<'a>,
}

/// The callback that writes the audit entry with the result of a statement: `done`, `unauthorized`,
/// `invalid` or `failed`.
pub type AuditEnd = Box<dyn FnOnce(&'static str)>;

type Begin = Arc<dyn Fn(AuditedStatement<'_>) -> io::Result<AuditEnd> + Send + Sync>;

/// The callback that writes the entries of administrative statements to an audit log. The default
/// writes none.
#[derive(Clone, Default)]
pub struct Audit(Option<Begin>);

impl Audit {
    /// Creates an audit that calls `begin` before each administrative statement. The statement is
    /// executed only if `begin` succeeds, and its client gets the response after the returned
    /// callback has run. Both run on a thread that may wait for the disk.
    pub fn new(
        begin: impl Fn(AuditedStatement<'_>) -> io::Result<AuditEnd> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(begin)))
    }

    /// Calls `begin` with the statement, then `execute`, then the callback that `begin` returned,
    /// with the result. Without an audit log calls only `execute`.
    ///
    /// # Errors
    /// The error of `execute`. If the audit log cannot be written, returns an error without calling
    /// `execute`.
    pub(super) fn execute(
        &self,
        statement: AuditedStatement<'_>,
        execute: impl FnOnce() -> Result<Outcome>,
    ) -> Result<Outcome> {
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

/// The writes of a request to a table, successful or not.
#[derive(Debug, Clone, Copy)]
pub struct AuditedWrite<'a> {
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without authentication.
    pub user: Option<&'a str>,
    pub kind: WriteKind,
    pub keyspace: &'a str,
    pub table: &'a str,
    /// The number of statements of the request that write to the table.
    pub statements: u64,
    /// The result: `done`, `unauthorized`, `invalid` or `failed`; `unknown` if the request was
    /// abandoned or panicked.
    pub result: &'static str,
}

type Note = Arc<dyn Fn(AuditedWrite<'_>) + Send + Sync>;

/// The callback that adds writes of rows to an audit log. The default adds none.
#[derive(Clone, Default)]
pub struct WriteAudit(Option<(AuditedTables, Note)>);

impl WriteAudit {
    /// Creates an audit that calls `note` after each request that writes to one of these tables,
    /// once for each table. The call runs on the thread that executed the request, on which other
    /// requests may wait, so `note` must not wait for the disk.
    pub fn new(
        tables: AuditedTables,
        note: impl Fn(AuditedWrite<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self(Some((tables, Arc::new(note))))
    }

    /// Returns the writes to audited tables in a request with these statements; `None` if there are
    /// none.
    pub(super) fn begin(
        &self,
        sender: &Sender,
        statements: &[Arc<Entry<impl Statement>>],
        is_batch: bool,
    ) -> Option<Box<BegunWrites>> {
        let (covered, note) = self.0.as_ref()?;
        let mut tables: Vec<TableWrites> = Vec::new();
        let writes = statements.iter().flat_map(|entry| entry.statement.writes());
        for write in writes.filter(|write| covered.covers(write.keyspace, write.table)) {
            let is_known = |known: &TableWrites| {
                (&*known.keyspace, &*known.table) == (write.keyspace, write.table)
            };
            match tables.iter().position(is_known) {
                Some(at) => tables[at].statements += 1,
                None => tables.push(TableWrites {
                    kind: if is_batch {
                        WriteKind::Batch
                    } else {
                        write.kind
                    },
                    keyspace: write.keyspace.into(),
                    table: write.table.into(),
                    statements: 1,
                }),
            }
        }
        (!tables.is_empty()).then(|| {
            Box::new(BegunWrites {
                note: note.clone(),
                sender: sender.clone(),
                tables,
                result: "unknown",
            })
        })
    }
}

impl fmt::Debug for WriteAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.0.as_ref().map(|(tables, _)| tables);
        f.debug_tuple("WriteAudit").field(&tables).finish()
    }
}

/// The writes of a request to one table.
struct TableWrites {
    kind: WriteKind,
    keyspace: Box<str>,
    table: Box<str>,
    statements: u64,
}

/// The writes of a request. When this is dropped, the writes are added to the audit log, so that a
/// panic does not hide them.
pub(super) struct BegunWrites {
    note: Note,
    sender: Sender,
    tables: Vec<TableWrites>,
    result: &'static str,
}

impl BegunWrites {
    /// Sets the result of the request, and adds the writes to the audit log.
    pub(super) fn end<T>(mut self, ended: &Result<T>) {
        self.result = result_of(ended);
    }
}

impl Drop for BegunWrites {
    fn drop(&mut self) {
        for table in &self.tables {
            (self.note)(AuditedWrite {
                address: self.sender.address,
                user: self.sender.user.name(),
                kind: table.kind,
                keyspace: &table.keyspace,
                table: &table.table,
                statements: table.statements,
                result: self.result,
            });
        }
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

fn result_of<T>(ended: &Result<T>) -> &'static str {
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

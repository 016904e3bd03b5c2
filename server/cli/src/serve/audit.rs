//! The audit logs of a server, and the entries of CQL's statements and logins.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql_server::call::WriteKind;
use ebb_cql_server::serve::{Audit, AuditEnd, AuditedTables, WriteAudit};
use ebb_server::audit::{AuditLog, Entry, EntryKind};

use super::settings::Settings;

/// The audit logs of a server.
#[derive(Debug, Clone)]
pub(super) struct AuditLogs {
    /// The log of logins and of changes, such as statements of administration.
    pub(super) changes: Arc<AuditLog>,
    /// The log of writes of rows; `None` if the settings name no tables for it.
    pub(super) writes: Option<Arc<AuditLog>>,
}

impl AuditLogs {
    /// Opens the audit logs that the settings require, each with a thread that writes its entries.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(settings: &Settings) -> io::Result<Self> {
        let notes_writes = settings.audit_writes != AuditedTables::None;
        let writes = notes_writes.then(|| AuditLog::start_of_writes(&settings.data));
        Ok(Self {
            changes: AuditLog::start(&settings.data)?,
            writes: writes.transpose()?,
        })
    }

    /// Writes all waiting entries to the files of the logs.
    pub(super) fn flush(&self) {
        self.changes.flush();
        if let Some(writes) = &self.writes {
            writes.flush();
        }
    }
}

/// Returns the callback of the CQL server that writes an entry to `log` for each statement of
/// administration.
pub(super) fn of_statements(log: Arc<AuditLog>) -> Audit {
    Audit::new(move |statement| {
        let of = statement.administration;
        let entry = Entry {
            kind: EntryKind::Statement,
            role: statement.user.map(str::to_owned),
            address: Some(statement.address.to_string()),
            keyspace: of.keyspace.map(str::to_owned),
            action: statement.statement.to_string(),
            query: of.query,
            roles: of.roles.into_iter().map(str::to_owned).collect(),
            superuser: of.superuser,
            ..Entry::default()
        };
        let begun = log.begin(entry, of.frees_space)?;
        let end: AuditEnd = Box::new(move |result| begun.end(result));
        Ok(end)
    })
}

/// Returns the callback of the CQL server that writes an entry to `log` for each write to one of
/// `tables`.
pub(super) fn of_writes(tables: AuditedTables, log: Arc<AuditLog>) -> WriteAudit {
    WriteAudit::new(tables, move |write| {
        let entry = Entry {
            kind: EntryKind::Write,
            role: write.user.map(str::to_owned),
            address: Some(write.address.to_string()),
            action: write.kind.name().to_owned(),
            object: Some(format!("{}.{}", write.keyspace, write.table)),
            count: (write.kind == WriteKind::Batch).then_some(write.statements),
            ..Entry::default()
        };
        log.note_write(entry, write.result);
    })
}

/// Returns the entry of a login from `address`. `user` is the name that the client gave, if any.
pub(super) fn login(address: SocketAddr, user: Option<&str>) -> Entry {
    Entry {
        kind: EntryKind::Login,
        role: user.map(str::to_owned),
        address: Some(address.to_string()),
        ..Entry::default()
    }
}

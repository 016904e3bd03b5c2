//! The entries of CQL's statements and logins in the audit log.

use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql_server::serve::{Audit, AuditEnd};
use ebb_server::audit::{AuditLog, Entry, EntryKind};

/// Returns the part of the CQL server that writes the entries of statements of administration.
pub(super) fn of_statements(log: Arc<AuditLog>) -> Audit {
    Audit::new(move |statement| {
        let of = statement.administration;
        let entry = Entry {
            kind: EntryKind::Statement,
            role: statement.user.map(str::to_owned),
            address: Some(statement.address.to_string()),
            keyspace: of.keyspace.map(str::to_owned),
            action: statement.statement.to_string(),
            roles: of.roles.into_iter().map(str::to_owned).collect(),
            superuser: of.superuser,
            ..Entry::default()
        };
        let begun = log.begin(entry, of.frees_space)?;
        let end: AuditEnd = Box::new(move |result| begun.end(result));
        Ok(end)
    })
}

/// Returns the entry of a login as `user`, or as a client that gave no name.
pub(super) fn login(address: SocketAddr, user: Option<&str>) -> Entry {
    Entry {
        kind: EntryKind::Login,
        role: user.map(str::to_owned),
        address: Some(address.to_string()),
        ..Entry::default()
    }
}

//! Events of a server, for the operator's log.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql::syntax::masked;

use super::slow::STATEMENT_BYTES_MAX;

#[derive(Debug, Clone, Copy)]
pub enum ServerEvent<'a> {
    /// A client has logged in; its response is not sent yet.
    LoggedIn {
        /// The address of the client.
        address: SocketAddr,
        /// The role of the client.
        user: &'a str,
    },
    /// A login was rejected.
    LoginRefused {
        /// The address of the client.
        address: SocketAddr,
        /// The name in the client's credentials; `None` if the client sent no name, or a
        /// certificate instead.
        user: Option<&'a str>,
        /// The error message for the client.
        cause: &'a str,
    },
    /// An administrative statement has succeeded: one about the schema, snapshots, roles or
    /// permissions, TRUNCATE or KILL QUERY. The statement may have changed nothing, for example
    /// with `IF NOT EXISTS`.
    Administered {
        /// The address of the client.
        address: SocketAddr,
        /// The role of the client; `None` on a server without authentication.
        user: Option<&'a str>,
        /// The keyspace in which unqualified names in the statement are resolved.
        keyspace: Option<&'a str>,
        /// The text of the statement, with masked constants.
        statement: MaskedText<'a>,
        /// The id of the query that a KILL QUERY ends, which the masked text does not show; `None`
        /// for other statements.
        query: Option<u64>,
    },
    /// A request failed with a server error: a file is damaged, a read or write failed, or there is
    /// a bug.
    Failed {
        /// The address of the client.
        address: SocketAddr,
        /// The role of the client; `None` on a server without authentication.
        user: Option<&'a str>,
        /// The error message for the client.
        cause: &'a str,
    },
    /// An overload began: from now on the server rejects requests that have waited for long.
    OverloadBegan,
    /// An overload ended: the server no longer rejects requests, because for two seconds most
    /// requests were served in time, or because there are no requests.
    OverloadEnded {
        /// The number of requests that were rejected during the overload.
        refused: u64,
    },
}

/// The text of a statement. It is displayed with `?` for each constant, and cut at a kilobyte.
#[derive(Clone, Copy)]
pub struct MaskedText<'a>(pub(super) &'a str);

impl fmt::Display for MaskedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(self.0, STATEMENT_BYTES_MAX))
    }
}

impl fmt::Debug for MaskedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

type Report = Arc<dyn Fn(ServerEvent<'_>) + Send + Sync>;

/// The callback for events of a server. The default ignores them.
#[derive(Clone, Default)]
pub struct ServerEvents(Option<Report>);

impl ServerEvents {
    /// Passes each event to `report`, on the threads that serve connections and execute statements.
    /// `report` must not block, and has to limit what it logs.
    pub fn new(report: impl Fn(ServerEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    pub(super) fn report(&self, event: ServerEvent<'_>) {
        if let Some(report) = &self.0 {
            report(event);
        }
    }
}

impl fmt::Debug for ServerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEvents").finish_non_exhaustive()
    }
}

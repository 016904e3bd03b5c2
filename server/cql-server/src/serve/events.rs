//! Events of a server for the log of its operator.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_cql::syntax::masked;

use super::slow::STATEMENT_BYTES_MAX;

/// An event of a server.
#[derive(Debug, Clone, Copy)]
pub enum ServerEvent<'a> {
    /// A client has logged in, and has not been answered yet.
    LoggedIn {
        /// The address of the client.
        address: SocketAddr,
        /// The role.
        user: &'a str,
    },
    /// A login was refused.
    LoginRefused {
        /// The address of the client.
        address: SocketAddr,
        /// The name that the client gave; `None` if it gave none, or a certificate.
        user: Option<&'a str>,
        /// The error that the client got.
        cause: &'a str,
    },
    /// A statement of administration was executed: it is about the schema, snapshots, roles or
    /// permissions, or TRUNCATE or KILL QUERY. It may have changed nothing, as `IF NOT EXISTS` allows.
    Administered {
        /// The address of the client.
        address: SocketAddr,
        /// The role of the client; `None` on a server without logins.
        user: Option<&'a str>,
        /// The keyspace of the names in the statement that have none.
        keyspace: Option<&'a str>,
        /// The statement.
        statement: MaskedText<'a>,
        /// The id of the query that the statement kills, which is a constant there.
        query: Option<u64>,
    },
    /// Requests that have waited for long are refused from now on.
    OverloadBegan,
    /// No request is refused any more: for two seconds there was nothing to refuse, or there are no
    /// requests.
    OverloadEnded {
        /// Requests that were refused meanwhile.
        refused: u64,
    },
}

/// The text of a statement. It is shown with `?` for each constant, a kilobyte at most.
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

type Tell = Arc<dyn Fn(ServerEvent<'_>) + Send + Sync>;

/// The callback for events of a server; the default ignores them.
#[derive(Clone, Default)]
pub struct ServerEvents(Option<Tell>);

impl ServerEvents {
    /// Passes each event to `tell`. The call is made on the threads that serve connections and
    /// execute statements: `tell` must not block, and has to bound what it logs.
    pub fn new(tell: impl Fn(ServerEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(super) fn tell(&self, event: ServerEvent<'_>) {
        if let Some(tell) = &self.0 {
            tell(event);
        }
    }
}

impl fmt::Debug for ServerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEvents").finish_non_exhaustive()
    }
}

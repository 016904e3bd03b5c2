//! Requests that took long, and where their time went.
//!
//! ```text
//!   received ─┬─ queued ─ prepared ─ executed ─ synced ─┬─ sent
//!             └──────── decides whether it is slow ─────┘
//! ```
//!
//! A request is received when the read returns that brings its last bytes. Queueing is not measured
//! directly: it is the time that the other parts leave, behind other requests of the connection,
//! for a lane, for a turn at a row, or behind a group of commits.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_cql::protocol::{Frame, Request, StatementRef};
use ebb_cql::syntax::masked;

use super::statements::Statements;
use crate::access::User;
use crate::call::Statement;

/// The longest statement that is shown.
pub(super) const STATEMENT_BYTES_MAX: usize = 1024;

/// A request that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without logins.
    pub user: Option<String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The statement with `?` for each constant, a kilobyte at most; the first statement of a
    /// batch; the name of the message if it has none.
    pub statement: String,
    /// The number of statements in the request.
    pub statements: usize,
    /// The time from the last byte of the request until the response was sent, or until it was
    /// ready if the client was gone by then.
    pub total: Duration,
    /// The time in queues.
    pub queued: Duration,
    /// The time for parsing and planning; zero if the statement was prepared before.
    pub prepared: Duration,
    /// The time for executing the request, with waits for the engine.
    pub executed: Duration,
    /// The time for an fsync, which several requests share.
    pub synced: Duration,
    /// The time for sending the response; `None` if the client was gone.
    pub sent: Option<Duration>,
}

type Tell = Arc<dyn Fn(&SlowRequest) + Send + Sync>;

/// The limit above which requests are slow, and the callback for them.
#[derive(Clone)]
pub struct SlowRequests {
    at_least: Duration,
    tell: Tell,
}

impl fmt::Debug for SlowRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("SlowRequests"))
            .field("at_least", &self.at_least)
            .finish_non_exhaustive()
    }
}

impl SlowRequests {
    /// Passes each request to `tell` whose response was ready only after `at_least`. The call is
    /// made on the threads that serve connections: `tell` must not block, and has to bound what it
    /// logs.
    pub fn new(at_least: Duration, tell: impl Fn(&SlowRequest) + Send + Sync + 'static) -> Self {
        Self {
            at_least,
            tell: Arc::new(tell),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub prepared: Duration,
    pub executed: Duration,
    pub synced: Duration,
}

/// The sender of a request, and its keyspace in use.
#[derive(Clone)]
pub(super) struct Sender {
    pub address: SocketAddr,
    pub user: Arc<User>,
    pub keyspace: Option<Arc<str>>,
}

/// A slow request whose response waits to be sent. It is reported when that is done, or when this
/// is dropped because the client is gone.
pub(super) struct Unsent {
    request: SlowRequest,
    ended_at: Instant,
    tell: Tell,
}

impl Unsent {
    /// Returns the request if it is slow. It was received at `received_at`, and its response is
    /// ready now.
    pub(super) fn of<S: Statement>(
        slow: &SlowRequests,
        statements: &Statements<S>,
        sender: &Sender,
        received_at: Instant,
        frame: &Frame,
        spent: Spent,
    ) -> Option<Box<Self>> {
        let ended_at = Instant::now();
        let total = ended_at.saturating_duration_since(received_at);
        if total < slow.at_least {
            return None;
        }
        let (statement, statements) = statement_of(statements, frame);
        let request = SlowRequest {
            address: sender.address,
            user: sender.user.name().map(str::to_owned),
            keyspace: sender.keyspace.as_deref().map(str::to_owned),
            statement,
            statements,
            total,
            queued: total.saturating_sub(spent.prepared + spent.executed + spent.synced),
            prepared: spent.prepared,
            executed: spent.executed,
            synced: spent.synced,
            sent: None,
        };
        Some(Box::new(Self {
            request,
            ended_at,
            tell: slow.tell.clone(),
        }))
    }

    /// Reports the request after its response was sent.
    pub(super) fn sent(mut self) {
        let took = self.ended_at.elapsed();
        self.request.sent = Some(took);
        self.request.total += took;
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        (self.tell)(&self.request);
    }
}

/// Returns the statement of a request without its constants, and the number of its statements.
fn statement_of<S: Statement>(statements: &Statements<S>, frame: &Frame) -> (String, usize) {
    let shown = |text: &str| masked(text, STATEMENT_BYTES_MAX);
    let prepared = |id: &[u8]| match statements.get(id) {
        Some(entry) => shown(entry.statement.text()),
        None => "a statement that is not prepared any more".to_owned(),
    };
    match Request::decode(frame) {
        Ok(Request::Query { text, .. } | Request::Prepare { text, .. }) => (shown(text), 1),
        Ok(Request::Execute { id, .. }) => (prepared(id), 1),
        Ok(Request::Batch(batch)) => {
            let first = batch.statements.first().map(|part| match part.statement {
                StatementRef::Prepared(id) => prepared(id),
                StatementRef::Text(text) => shown(text),
            });
            (first.unwrap_or_default(), batch.statements.len())
        }
        Ok(other) => (other.opcode().name().to_owned(), 0),
        Err(_) => ("a message that is no request".to_owned(), 0),
    }
}

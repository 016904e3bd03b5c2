//! Slow requests, and how their time was spent.
//!
//! ```text
//!   received ─┬─ queued ─ prepared ─ executed ─ synced ─┬─ sent
//!             └──────── slow if at least the limit ─────┘
//! ```
//!
//! A request is received when the read with its last bytes returns. Queueing is not measured
//! directly: it is the rest of the time, behind other requests of the connection, for a lane, for a
//! turn at a row, or behind a commit group.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_cql::protocol::{Frame, Request, StatementRef};
use ebb_cql::syntax::masked;

use super::scan_queue::ScanUser;
use super::statements::Statements;
use crate::access::User;
use crate::call::Statement;

/// The longest statement text, in bytes, in reports of slow requests, in events and in the audit
/// log.
pub(super) const STATEMENT_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without authentication.
    pub user: Option<String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The statement with `?` for each constant, at most a kilobyte; the first statement of a
    /// batch. For a request without a statement, the name of its opcode.
    pub statement: String,
    pub statements: usize,
    /// The time from the last byte of the request until the response was sent, or until it was
    /// ready if the client was gone by then.
    pub total: Duration,
    /// The time in queues: the time until the response was ready, less the times of the other
    /// steps.
    pub queued: Duration,
    /// The time for parsing and planning; zero for a prepared statement.
    pub prepared: Duration,
    /// The time for the execution, including waits for the engine.
    pub executed: Duration,
    /// The time for an fsync, which several requests share.
    pub synced: Duration,
    /// The time for sending the response; `None` if the client was gone.
    pub sent: Option<Duration>,
}

type Report = Arc<dyn Fn(&SlowRequest) + Send + Sync>;

/// The duration from which on a request is slow, and the callback for slow requests.
#[derive(Clone)]
pub struct SlowRequests {
    at_least: Duration,
    report: Report,
}

impl fmt::Debug for SlowRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("SlowRequests"))
            .field("at_least", &self.at_least)
            .finish_non_exhaustive()
    }
}

impl SlowRequests {
    /// Creates a callback for slow requests. `report` is called for each request whose response
    /// took at least `at_least`, on the threads that serve connections. `report` must not block,
    /// and has to limit what it logs.
    pub fn new(at_least: Duration, report: impl Fn(&SlowRequest) + Send + Sync + 'static) -> Self {
        Self {
            at_least,
            report: Arc::new(report),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub prepared: Duration,
    pub executed: Duration,
    pub synced: Duration,
}

/// The client that sent a request, and the keyspace that the client uses.
#[derive(Clone)]
pub(super) struct Sender {
    pub address: SocketAddr,
    pub user: Arc<User>,
    pub keyspace: Option<Arc<str>>,
}

impl Sender {
    /// Returns the user for the queue of a lane that shares its threads among users: the role or,
    /// without a role, the address.
    pub(super) fn scan_user(&self) -> ScanUser {
        match self.user.name() {
            Some(name) => ScanUser::Role(name.into()),
            None => ScanUser::Address(self.address.ip()),
        }
    }
}

/// A slow request whose response is not sent yet. The request is reported after the response was
/// sent, or when this is dropped because the client is gone.
pub(super) struct Unsent {
    request: SlowRequest,
    ended_at: Instant,
    report: Report,
}

impl Unsent {
    /// Returns a report of a request that was received at `received_at` and whose response is ready
    /// now; `None` if the request was not slow.
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
            report: slow.report.clone(),
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
        (self.report)(&self.request);
    }
}

/// Returns the statement of a request, or the first one of a batch, and the number of statements.
/// The constants of the statement are masked, and its text is at most [`STATEMENT_BYTES_MAX`] bytes
/// long. The text is a fixed message if the prepared statement was removed meanwhile, and empty for
/// an empty batch. For a request without a statement, returns the name of its opcode, and 0; for a
/// frame that cannot be decoded, a fixed message, and 0.
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

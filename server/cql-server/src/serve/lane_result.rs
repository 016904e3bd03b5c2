//! The result of a request that ran in a lane, on its way to the connection.

use std::time::Instant;

use bytes::BytesMut;

use super::login::EndedLogin;
use super::response_memory::Waiting;
use super::slow::Unsent;
use crate::error::Result;
use crate::outcome::Outcome;

/// The encoded response to a request with the outcome of its execution, or the error for the
/// client.
pub(super) type RequestResult = Result<(BytesMut, Outcome)>;

/// Returns whether a write has to run again because it conflicted with another one.
pub(super) fn is_in_conflict(ended: &RequestResult) -> bool {
    matches!(ended, Ok((_, outcome)) if outcome.is_in_conflict)
}

pub(super) struct LaneResult {
    pub stream: i16,
    /// True if the request is a scan, by [`is_scan`](crate::call::StatementKind::is_scan).
    pub is_scan: bool,
    /// The reply, with the memory that it holds until it is sent to the client; `None` if the
    /// request panicked.
    pub reply: Option<Waiting<Reply>>,
}

/// The response to a request, and its effects on the connection.
#[derive(Default)]
pub(super) struct Reply {
    pub frame: BytesMut,
    /// The keyspace that the request selected for the connection; `None` if it selected none.
    pub keyspace: Option<String>,
    /// The result of a login; `None` for other requests.
    pub login: Option<EndedLogin>,
    /// The arrival time of a successful write, whose latency is recorded when the reply is sent.
    /// `None` for other requests. Also `None` for a write that was moved to
    /// [`Lane::Moved`](crate::call::Lane::Moved) because it took long by itself: its latency is no
    /// sign of a slow server.
    pub point_received_at: Option<Instant>,
    pub slow: Option<Box<Unsent>>,
}

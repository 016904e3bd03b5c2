//! The result of a request that ran in a lane, on its way to the connection.

use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::ErrorResponse;

use super::lanes::Waiting;
use super::login::EndedLogin;
use super::slow::Unsent;
use crate::outcome::Outcome;

/// The whole response to a request, or the error.
pub(super) type RequestResult = Result<(BytesMut, Outcome), ErrorResponse>;

/// Returns whether a write has to run again because it conflicted with another one.
pub(super) fn is_in_conflict(ended: &RequestResult) -> bool {
    matches!(ended, Ok((_, outcome)) if outcome.is_in_conflict)
}

pub(super) struct LaneResult {
    pub stream: i16,
    /// The reply, with the memory that it holds until it is sent to the client; `None` if the
    /// request panicked.
    pub reply: Option<Waiting<Reply>>,
}

/// The response to a request, and its effects on the connection.
#[derive(Default)]
pub(super) struct Reply {
    pub frame: BytesMut,
    /// The keyspace that the request selected.
    pub keyspace: Option<String>,
    /// The result of a login; `None` for other requests.
    pub login: Option<EndedLogin>,
    /// The arrival time of a successful write, whose latency is recorded when the reply is sent.
    /// `None` for other requests, and for writes that took so long that they were moved to
    /// [`Lane::Moved`](crate::call::Lane::Moved): they are no sign of a slow server.
    pub point_received_at: Option<Instant>,
    pub slow: Option<Box<Unsent>>,
}

//! The log of slow requests of CQL and of HTTP.
//!
//! The rate of its lines is bounded: if all requests are slow, some are logged and the others are
//! counted.

use std::sync::Arc;
use std::time::Duration;

use ebb_cql_server::serve as cql;
use ebb_server::http;
use tracing::warn;

use super::line_bound::LineBound;
use super::log_levels::{CQL, HTTP};

/// The log of slow requests.
#[derive(Debug)]
pub(super) struct SlowLog {
    at_least: Duration,
    bound: LineBound,
}

impl SlowLog {
    /// Creates a log of the requests that take `at_least` this long.
    pub(super) fn new(at_least: Duration) -> Arc<Self> {
        Arc::new(Self {
            at_least,
            bound: LineBound::new(),
        })
    }

    /// Returns the hook with which the CQL server reports slow requests to this log.
    pub(super) fn of_cql(self: &Arc<Self>) -> cql::SlowRequests {
        let log = Arc::clone(self);
        cql::SlowRequests::new(self.at_least, move |request| log.tell_cql(request))
    }

    /// Returns the hook with which the HTTP server reports slow requests to this log.
    pub(super) fn of_http(self: &Arc<Self>) -> http::SlowRequests {
        let log = Arc::clone(self);
        http::SlowRequests::new(self.at_least, move |request| log.tell_http(request))
    }

    fn tell_cql(&self, request: &cql::SlowRequest) {
        let Some(left_out) = self.bound.pass() else {
            return;
        };
        warn!(
            target: CQL,
            protocol = "cql",
            user = request.user,
            address = %request.address,
            keyspace = request.keyspace,
            statement = request.statement,
            statements = request.statements,
            total_ms = ms(request.total),
            queued_ms = ms(request.queued),
            prepared_ms = ms(request.prepared),
            executed_ms = ms(request.executed),
            synced_ms = ms(request.synced),
            sent_ms = request.sent.map(ms),
            left_out,
            "slow request"
        );
    }

    fn tell_http(&self, request: &http::SlowRequest) {
        let Some(left_out) = self.bound.pass() else {
            return;
        };
        warn!(
            target: HTTP,
            protocol = "http",
            user = request.role,
            token = request.token,
            name = request.name,
            address = request.address.map(|address| address.to_string()),
            request = format!("{} {}", request.method, request.path),
            status = request.status,
            total_ms = ms(request.total),
            queued_ms = ms(request.queued),
            worked_ms = ms(request.worked),
            left_out,
            "slow request"
        );
    }
}

/// Returns a time in milliseconds, with three decimal places.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

//! Traces of requests, if their clients request them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{Frame, Request};

use crate::activity::{Activity, Trace};

/// Begins the trace of a request. Returns `None` unless the request is a valid QUERY, EXECUTE,
/// BATCH or PREPARE.
pub(super) fn begin(
    activity: &Arc<Activity>,
    client: SocketAddr,
    received_at: Instant,
    frame: &Frame,
) -> Option<Trace> {
    let (options, text, request) = match Request::decode(frame).ok()? {
        Request::Query { text, parameters } => {
            let options = (parameters.consistency, parameters.page_size_rows);
            (Some(options), Some(text), "Execute CQL3 query")
        }
        Request::Execute { parameters, .. } => {
            let options = (parameters.consistency, parameters.page_size_rows);
            (Some(options), None, "Execute CQL3 prepared query")
        }
        Request::Batch(batch) => {
            let options = (batch.consistency, None);
            (Some(options), None, "Execute batch of CQL3 queries")
        }
        Request::Prepare { text, .. } => (None, Some(text), "Preparing CQL3 query"),
        _ => return None,
    };
    let mut parameters = Vec::new();
    if let Some((consistency, page_size_rows)) = options {
        parameters.push(("consistency_level", consistency.name().to_owned()));
        parameters.extend(page_size_rows.map(|rows| ("page_size", rows.to_string())));
    }
    parameters.extend(text.map(|text| ("query", without_password(text))));
    Some(activity.begin_trace(client, received_at, ("QUERY", request), parameters))
}

/// Cuts a statement's text after the word before a password, since more users may read traces than
/// should read passwords. Reads and writes of rows contain no password of a role, and stay whole.
pub(super) fn without_password(text: &str) -> String {
    const ROWS: [&str; 5] = ["select", "insert", "update", "delete", "begin"];
    const PASSWORD: &str = "password";
    let lower = text.to_ascii_lowercase();
    let is_of_rows = ROWS.iter().any(|word| lower.trim_start().starts_with(word));
    match lower.find(PASSWORD) {
        Some(at) if !is_of_rows => format!("{} *******", &text[..at + PASSWORD.len()]),
        _ => text.to_owned(),
    }
}

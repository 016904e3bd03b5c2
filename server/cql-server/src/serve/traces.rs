//! Traces of requests, if their clients request them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{Consistency, Frame, Request};

use super::statements::Statements;
use crate::activity::{Activity, TRACED_TEXT_BYTES_MAX, Trace};
use crate::call::Statement;

/// Begins the trace of a request. Returns `None` unless the request is a valid QUERY, EXECUTE,
/// BATCH or PREPARE.
pub(super) fn begin<S: Statement>(
    activity: &Arc<Activity>,
    statements: &Statements<S>,
    client: SocketAddr,
    received_at: Instant,
    frame: &Frame,
) -> Option<Trace> {
    let (levels, page_size_rows, text, request) = match Request::decode(frame).ok()? {
        Request::Query { text, parameters } => (
            Some((parameters.consistency, parameters.serial_consistency)),
            parameters.page_size_rows,
            Some(without_password(text)),
            "Execute CQL3 query",
        ),
        Request::Execute { id, parameters } => (
            Some((parameters.consistency, parameters.serial_consistency)),
            parameters.page_size_rows,
            (statements.get(id)).map(|entry| without_password(entry.statement.text())),
            "Execute CQL3 prepared query",
        ),
        Request::Batch(batch) => (
            Some((batch.consistency, batch.serial_consistency)),
            None,
            None,
            "Execute batch of CQL3 queries",
        ),
        Request::Prepare { text, .. } => (
            None,
            None,
            Some(without_password(text)),
            "Preparing CQL3 query",
        ),
        _ => return None,
    };
    // In the order of the names, as a map of CQL has its keys.
    let mut parameters = Vec::new();
    parameters.extend(levels.map(|(level, _)| ("consistency_level", level.name().to_owned())));
    parameters.extend(page_size_rows.map(|rows| ("page_size", rows.to_string())));
    parameters.extend(text.map(|text| ("query", text)));
    parameters.extend(levels.map(|(_, serial)| {
        let serial = serial.unwrap_or(Consistency::Serial);
        ("serial_consistency_level", serial.name().to_owned())
    }));
    Some(activity.begin_trace(client, received_at, ("QUERY", request), parameters))
}

/// Returns as much of a text as a trace keeps. Cuts a statement after the word PASSWORD, since more
/// users may read traces than should read passwords. Reads and writes of rows contain no password
/// of a role, and are not cut there.
pub(super) fn without_password(text: &str) -> String {
    const ROWS: [&str; 5] = ["select", "insert", "update", "delete", "begin"];
    const PASSWORD: &str = "password";
    // Cut first, because texts may be long, and the rest of this function copies them.
    let text = &text[..text.floor_char_boundary(TRACED_TEXT_BYTES_MAX)];
    let lower = text.to_ascii_lowercase();
    let is_of_rows = ROWS.iter().any(|word| lower.trim_start().starts_with(word));
    match lower.find(PASSWORD) {
        Some(at) if !is_of_rows => format!("{} *******", &text[..at + PASSWORD.len()]),
        _ => text.to_owned(),
    }
}

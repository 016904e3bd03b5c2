//! Responses: RESULT around the body of a statement, and common errors.

use bytes::BytesMut;
use ebb_cql::protocol::{
    Coding, Consistency, ErrorKind, ErrorResponse, Head, Opcode, OpenFrame, ProtocolError, Response,
};

use crate::error::Result;
use crate::outcome::Outcome;
use crate::system::CQL_VERSION;

/// Cassandra's message for a request that is rejected in an overload.
const OVERLOADED: &str = "Server is in overloaded state. Cannot accept more requests at this point";

/// Returns the error of a request that is rejected because there are more requests than the server
/// can serve.
pub(super) fn overloaded() -> ErrorResponse {
    ErrorResponse::overloaded(OVERLOADED)
}

/// Returns the error of a request whose response, with the rows that it sorts and the states of its
/// aggregates, has grown to `bytes` bytes, and does not fit into the memory for results.
pub(super) fn no_memory(bytes: usize) -> ErrorResponse {
    let kib = bytes >> 10;
    ErrorResponse::overloaded(format!(
        "the result takes {kib} KiB or more, and results that other clients have not read leave \
         less: read in pages, or try again later"
    ))
}

/// Returns the error of a request during which a thread panicked.
pub(super) fn panicked() -> ErrorResponse {
    ErrorResponse::server("the request failed by a bug of the server; see its log")
}

/// Returns the error of a request that is not executed, or ends early, because the server stops.
pub(super) fn stopping() -> ErrorResponse {
    ErrorResponse::overloaded("the server is stopping")
}

/// Returns the error of a killed read. It is a read failure, because drivers retry a read after a
/// server error or OVERLOADED, but not after a failure.
pub(super) fn killed(consistency: Consistency) -> ErrorResponse {
    let kind = ErrorKind::ReadFailure { consistency };
    ErrorResponse::new(kind, "an operator killed the query")
}

/// Returns the error for bytes that are no valid request.
pub(super) fn in_protocol(error: ProtocolError) -> ErrorResponse {
    ErrorResponse::protocol(error.to_string())
}

pub(super) fn supported() -> Response {
    let option = |name: &str, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned());
        (name.to_owned(), values.collect())
    };
    Response::Supported {
        options: vec![
            option("CQL_VERSION", &[CQL_VERSION]),
            option("COMPRESSION", &["lz4"]),
            option("PROTOCOL_VERSIONS", &["4/v4", "5/v5"]),
        ],
    }
}

/// Appends a RESULT with the body that `write` appends. Appends nothing if `write` fails, its
/// outcome has no body, or the body is too long for a frame.
pub(super) fn respond(
    stream: i16,
    coding: Coding,
    tracing_id: Option<[u8; 16]>,
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<Outcome>,
) -> Result<Outcome> {
    let open = |out: &mut BytesMut, warnings: &[String]| {
        let head = Head {
            tracing_id,
            warnings,
        };
        OpenFrame::response(out, coding.version, stream, Opcode::Result, &head)
    };
    let frame = open(out, &[]);
    let body_at = out.len();
    let outcome = match write(out) {
        Ok(outcome) if !outcome.is_outdated && !outcome.is_in_conflict => outcome,
        without_body => {
            frame.abandon(out);
            return without_body;
        }
    };
    let too_long = |error: ProtocolError| ErrorResponse::invalid(error.to_string());
    if outcome.warnings.is_empty() {
        frame.finish(out, coding.compression).map_err(too_long)?;
        return Ok(outcome);
    }
    // Warnings precede the body, but are known only after it. They are rare, so copying the body is
    // acceptable.
    let body = out.split_off(body_at);
    frame.abandon(out);
    let frame = open(out, &outcome.warnings);
    out.extend_from_slice(&body);
    frame.finish(out, coding.compression).map_err(too_long)?;
    Ok(outcome)
}

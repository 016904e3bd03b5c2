//! The requests of a session that overload control must not reject.

use ebb_cql::protocol::{Frame, Opcode, Request};
use ebb_cql::syntax::first_word;
use memchr::memmem;

use super::Session;
use crate::call::Service;

impl<S: Service> Session<S> {
    /// Returns whether overload control may reject this request: only an EXECUTE, BATCH or QUERY.
    /// Exempt are a QUERY that contains the word `system` (a read of system tables, say), KILL
    /// QUERY, and all requests on a driver's control connection (the one registered for events):
    /// rejecting those makes the driver drop the node.
    pub(in crate::serve) fn may_refuse(&self, frame: &Frame) -> bool {
        if self.has_registered() || !self.has_started {
            return false;
        }
        match Opcode::from_code(frame.opcode) {
            Ok(Opcode::Execute | Opcode::Batch) => true,
            // Reads of system tables are exempt, because they show the state of the server to
            // drivers and operators. So is KILL QUERY, since the query that it ends may be the
            // cause of the overload.
            Ok(Opcode::Query) => {
                memmem::find(&frame.body, b"system").is_none() && !kills_query(frame)
            }
            _ => false,
        }
    }
}

/// Returns whether the statement of a QUERY is KILL QUERY. No other statement begins with KILL.
fn kills_query(frame: &Frame) -> bool {
    let Ok(Request::Query { text, .. }) = Request::decode(frame) else {
        return false;
    };
    first_word(text).is_some_and(|word| word.eq_ignore_ascii_case("KILL"))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ebb_cql::protocol::{QueryParameters, Version, flag, writer};

    use super::*;

    /// Regression: a KILL QUERY behind a comment, or in a frame with a custom payload, was not
    /// recognized, and was rejected in an overload.
    #[test]
    fn kill_query_is_recognized_behind_comments_and_a_custom_payload() {
        for (text, kills) in [
            ("KILL QUERY 7", true),
            (" \n-- KILL\n// it\n/* now */ kill query 7", true),
            ("-- KILL QUERY 7", false),
            ("/* KILL QUERY 7", false),
            ("killed", false),
            ("SELECT * FROM kill", false),
            ("", false),
        ] {
            for flags in [0, flag::CUSTOM_PAYLOAD] {
                let mut body = BytesMut::new();
                if flags != 0 {
                    writer::list(&mut body, &["key"], |out, key| {
                        writer::string(out, key);
                        writer::bytes(out, Some(b"for another handler"));
                    });
                }
                let parameters = QueryParameters::default();
                Request::Query { text, parameters }.encode_body_in(&mut body, Version::V4);
                let frame = Frame {
                    version: Version::V4,
                    flags,
                    stream: 1,
                    opcode: Opcode::Query as u8,
                    body: body.freeze(),
                };
                assert_eq!(kills_query(&frame), kills, "{text:?}, flags {flags}");
            }
        }
    }
}

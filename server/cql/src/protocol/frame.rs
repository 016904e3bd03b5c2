//! Frames: a header of nine bytes, and a body.
//!
//! ```text
//! version  flags  stream   opcode  length           body
//! u8       u8     i16      u8      u32, big-endian  length bytes
//! ```

use bytes::Bytes;

use super::codes::codes;
use super::fault::{ProtocolError, Result};
use super::version::Version;

pub const HEADER_BYTES: usize = 9;
/// The bit of the version byte that marks responses.
pub const RESPONSE_BIT: u8 = 0x80;
/// The stream of frames that do not respond to a request: events.
pub const EVENT_STREAM: i16 = -1;

/// Bits of the header's second byte.
pub mod flag {
    /// The body is compressed with the algorithm of STARTUP.
    pub const COMPRESSION: u8 = 0x01;
    /// In a request: the client asks for a trace. In a response: the body starts with the trace's id.
    pub const TRACING: u8 = 0x02;
    /// The body contains a map for a custom query handler.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// A response's body contains a list of warnings.
    pub const WARNING: u8 = 0x08;
}

codes! {
    /// The kind of a message. It determines how the body is decoded.
    Opcode: u8, "opcode",
    Error = 0x00 "ERROR",
    Startup = 0x01 "STARTUP",
    Ready = 0x02 "READY",
    Authenticate = 0x03 "AUTHENTICATE",
    Options = 0x05 "OPTIONS",
    Supported = 0x06 "SUPPORTED",
    Query = 0x07 "QUERY",
    Result = 0x08 "RESULT",
    Prepare = 0x09 "PREPARE",
    Execute = 0x0A "EXECUTE",
    Register = 0x0B "REGISTER",
    Event = 0x0C "EVENT",
    Batch = 0x0D "BATCH",
    AuthChallenge = 0x0E "AUTH_CHALLENGE",
    AuthResponse = 0x0F "AUTH_RESPONSE",
    AuthSuccess = 0x10 "AUTH_SUCCESS",
}

/// A received frame, with a decompressed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The version of the protocol, which determines the encoding of the body.
    pub version: Version,
    /// Bits of [`flag`]. [`flag::COMPRESSION`] is set if the body arrived compressed.
    pub flags: u8,
    /// The number that pairs a response with its request. Requests use 0 to 32,767.
    pub stream: i16,
    /// The number of the opcode. The response to an unknown one is an error, and the connection
    /// continues.
    pub opcode: u8,
    /// The bytes after the header. They share the memory of the receive buffer unless the body arrived
    /// compressed.
    pub body: Bytes,
}

impl Frame {
    pub fn is_traced(&self) -> bool {
        self.flags & flag::TRACING != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

impl Direction {
    /// Returns the first byte of the header for frames in this direction.
    pub fn version_byte(self, version: Version) -> u8 {
        match self {
            Self::Request => version.number(),
            Self::Response => version.number() | RESPONSE_BIT,
        }
    }
}

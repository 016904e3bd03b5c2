//! Frames: a header of nine bytes, and a body.
//!
//! ```text
//! version  flags  stream   opcode  length           body
//! u8       u8     i16      u8      u32, big-endian  length bytes
//! ```

use bytes::Bytes;

use super::fault::{ProtocolError, Result};
use super::version::Version;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 9;
/// Set in the version's byte of responses.
pub const RESPONSE_BIT: u8 = 0x80;
/// The stream of frames that answer no request: events.
pub const EVENT_STREAM: i16 = -1;

/// Bits of the header's second byte.
pub mod flag {
    /// The body is compressed as STARTUP agreed.
    pub const COMPRESSION: u8 = 0x01;
    /// A request asks for a trace; a response's body starts with its id.
    pub const TRACING: u8 = 0x02;
    /// The body has a map for a query handler of the server's owner.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// A response's body has a list of warnings.
    pub const WARNING: u8 = 0x08;
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the specification's names")]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Error,
        Self::Startup,
        Self::Ready,
        Self::Authenticate,
        Self::Options,
        Self::Supported,
        Self::Query,
        Self::Result,
        Self::Prepare,
        Self::Execute,
        Self::Register,
        Self::Event,
        Self::Batch,
        Self::AuthChallenge,
        Self::AuthResponse,
        Self::AuthSuccess,
    ];

    /// The opcode with a number.
    ///
    /// # Errors
    /// When the protocol has none.
    pub fn from_code(code: u8) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|opcode| *opcode as u8 == code);
        known.ok_or(ProtocolError::UnknownCode {
            what: "opcode",
            code: code.into(),
        })
    }

    /// Its name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Startup => "STARTUP",
            Self::Ready => "READY",
            Self::Authenticate => "AUTHENTICATE",
            Self::Options => "OPTIONS",
            Self::Supported => "SUPPORTED",
            Self::Query => "QUERY",
            Self::Result => "RESULT",
            Self::Prepare => "PREPARE",
            Self::Execute => "EXECUTE",
            Self::Register => "REGISTER",
            Self::Event => "EVENT",
            Self::Batch => "BATCH",
            Self::AuthChallenge => "AUTH_CHALLENGE",
            Self::AuthResponse => "AUTH_RESPONSE",
            Self::AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// A frame as it arrived, its body decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The version of the protocol, which decides the encoding of the body.
    pub version: Version,
    /// Bits of [`flag`]. [`flag::COMPRESSION`] is set if the body arrived compressed.
    pub flags: u8,
    /// The number that pairs a response with its request. Requests have 0 to 32,767.
    pub stream: i16,
    /// The number of the opcode. An unknown one is answered with an error, and the connection goes on.
    pub opcode: u8,
    /// The bytes behind the header. They share the memory that was received.
    pub body: Bytes,
}

impl Frame {
    /// A request that asks for a trace.
    pub fn is_traced(&self) -> bool {
        self.flags & flag::TRACING != 0
    }
}

/// Which way frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a client.
    Request,
    /// From a server.
    Response,
}

impl Direction {
    /// The header's first byte, for frames this way.
    pub fn version_byte(self, version: Version) -> u8 {
        match self {
            Self::Request => version.number(),
            Self::Response => version.number() | RESPONSE_BIT,
        }
    }
}

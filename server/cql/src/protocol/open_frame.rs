//! A frame whose body is written in place.

use bytes::{BufMut, BytesMut};

use super::compression::{Compression, compress_tail};
use super::fault::{ProtocolError, Result};
use super::frame::{Direction, HEADER_BYTES, Opcode, flag};
use super::request::Request;
use super::response::Response;
use super::version::{Coding, Version};
use super::writer;

/// The message of the panic if a [`Request`] or a [`Response`] does not fit into a frame.
const SMALL: &str = "the body of a message is below 2 GiB";

/// The optional fields that precede the response in the body of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head<'a> {
    /// The id of the trace; `None` unless the request has the tracing flag.
    pub tracing_id: Option<[u8; 16]>,
    /// The warnings for the client. Only the first 65,535 are sent, each cut after 65,535 bytes.
    pub warnings: &'a [String],
}

/// A frame whose header is completed after its body: all bytes appended to the buffer until
/// [`finish`](Self::finish) are the body.
#[derive(Debug)]
#[must_use = "a frame that is not finished has no length"]
pub struct OpenFrame {
    start: usize,
}

impl OpenFrame {
    /// Opens a frame at the end of `out`.
    pub fn begin(
        out: &mut BytesMut,
        version: Version,
        direction: Direction,
        stream: i16,
        opcode: Opcode,
    ) -> Self {
        let start = out.len();
        out.put_u8(direction.version_byte(version));
        out.put_u8(0);
        out.put_i16(stream);
        out.put_u8(opcode as u8);
        out.put_u32(0);
        Self { start }
    }

    /// Opens a response, and writes its head.
    pub fn response(
        out: &mut BytesMut,
        version: Version,
        stream: i16,
        opcode: Opcode,
        head: &Head<'_>,
    ) -> Self {
        let frame = Self::begin(out, version, Direction::Response, stream, opcode);
        if let Some(id) = head.tracing_id {
            out[frame.start + 1] |= flag::TRACING;
            out.put_slice(&id);
        }
        if !head.warnings.is_empty() {
            out[frame.start + 1] |= flag::WARNING;
            let count = head.warnings.len().min(u16::MAX.into());
            writer::list(out, &head.warnings[..count], |out, warning| {
                writer::string(out, warning);
            });
        }
        frame
    }

    /// Sets the tracing flag of a request.
    pub fn trace(&self, out: &mut BytesMut) {
        out[self.start + 1] |= flag::TRACING;
    }

    /// Ends the frame. The body is compressed if that was agreed on and makes it smaller. `out`
    /// must be the buffer in which the frame began.
    ///
    /// # Errors
    /// If the body has 2 GiB or more before its compression. Then the frame is removed from `out`.
    pub fn finish(self, out: &mut BytesMut, compression: Compression) -> Result<()> {
        let body = self.start + HEADER_BYTES;
        if let Err(error) = body_length(out.len() - body) {
            self.abandon(out);
            return Err(error);
        }
        if compression == Compression::Lz4 && compress_tail(out, body) {
            out[self.start + 1] |= flag::COMPRESSION;
        }
        let length = body_length(out.len() - body)?;
        out[body - 4..body].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Removes the frame with its body from the buffer, in order to write another one.
    pub fn abandon(self, out: &mut BytesMut) {
        out.truncate(self.start);
    }
}

/// Converts the length of a body, in bytes, to the type of the length field in the frame's header.
///
/// # Errors
/// If the body has 2 GiB or more.
fn body_length(bytes: usize) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| {
        let length = i64::try_from(bytes).unwrap_or(i64::MAX);
        ProtocolError::length("the body of a frame", length)
    })
}

impl Response {
    /// Appends the response as a frame.
    ///
    /// # Panics
    /// If the body has 2 GiB or more. Where that is possible, use an [`OpenFrame`], which returns
    /// an error.
    pub fn encode(
        &self,
        out: &mut BytesMut,
        stream: i16,
        head: &Head<'_>,
        coding: impl Into<Coding>,
    ) {
        let Coding {
            version,
            compression,
        } = coding.into();
        let frame = OpenFrame::response(out, version, stream, self.opcode(), head);
        self.encode_body_in(out, version);
        frame.finish(out, compression).expect(SMALL);
    }
}

impl Request<'_> {
    /// Appends the request as a frame.
    ///
    /// # Panics
    /// If the body has 2 GiB or more. Where that is possible, use an [`OpenFrame`], which returns
    /// an error.
    pub fn encode(&self, out: &mut BytesMut, stream: i16, coding: impl Into<Coding>) {
        let Coding {
            version,
            compression,
        } = coding.into();
        let frame = OpenFrame::begin(out, version, Direction::Request, stream, self.opcode());
        self.encode_body_in(out, version);
        frame.finish(out, compression).expect(SMALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a body of 2 GiB caused a panic, which clients saw as a bug of the server.
    #[test]
    fn a_body_is_below_2_gib() {
        assert_eq!(body_length((1 << 31) - 1), Ok(i32::MAX));
        let error = body_length(1 << 31).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the body of a frame cannot have the length 2147483648"
        );
    }

    /// Regression: the buffer of a response that compresses well kept the size of the plain response.
    #[test]
    fn a_compressed_body_has_no_large_buffer() {
        let mut out = BytesMut::from(&b"first"[..]);
        let version = Version::V4;
        let frame = OpenFrame::begin(&mut out, version, Direction::Response, 1, Opcode::Result);
        out.resize(out.len() + (4 << 20), 0);
        frame.finish(&mut out, Compression::Lz4).unwrap();
        assert!(out.starts_with(b"first") && out.len() < 64 << 10);
        assert!(out.capacity() < 1 << 20, "{}", out.capacity());
    }
}

//! The decoder that splits received bytes into frames.

use bytes::{Buf, BytesMut};

use super::compression::{Compression, decompress, plain_bytes};
use super::fault::ProtocolError;
use super::frame::{Direction, Frame, HEADER_BYTES, RESPONSE_BIT, flag};
use super::version::Version;

/// The default limit of a body, in bytes. Cassandra's limits are 256 MiB for a frame and 16 MiB for
/// one mutation. This is the smaller one, because a connection must hold a frame in memory.
pub const BODY_BYTES_MAX_DEFAULT: usize = 16 << 20;

/// Received bytes that are not a valid frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A version that the server does not support. The response is a protocol error in a frame of
    /// version 4; drivers parse its text and then connect with an older version.
    #[error(
        "Invalid or unsupported protocol version ({version}); supported versions are (4/v4, 5/v5)"
    )]
    Version {
        /// The version as sent, without the bit for the direction.
        version: u8,
        /// The request's stream; 0 if the stream has not been received.
        stream: i16,
    },
    /// The version of the frame is not the one that [`FrameDecoder::set_version`] set.
    #[error(
        "Invalid message version. Got {0}/v{0} but previous messages on this connection had \
         version {1}/v{1}",
        version.number(),
        agreed.number()
    )]
    VersionChange {
        version: Version,
        agreed: Version,
        stream: i16,
    },
    #[error("the frame goes in the wrong direction (version byte {version_byte:#04x})")]
    Direction { version_byte: u8, stream: i16 },
    /// A negative length of the body. The message is Cassandra's.
    #[error("Invalid value for envelope header body length field: {length}")]
    Length { length: i32, stream: i16 },
    /// A body that is longer than the limit. The next frame begins after the header and the body, so
    /// a receiver can discard both and continue.
    #[error("a body of {body_bytes} bytes is longer than the limit of {body_bytes_max}")]
    TooLong {
        body_bytes: u32,
        body_bytes_max: usize,
        stream: i16,
    },
    /// A compressed body whose length after decompression would be above the limit. The frame is
    /// consumed, and later frames can be decoded.
    #[error(
        "a body of {plain_bytes} bytes when decompressed is longer than the limit of {body_bytes_max}"
    )]
    TooLongPlain {
        /// The length after decompression, as the start of the compressed body states it.
        plain_bytes: u32,
        body_bytes_max: usize,
        stream: i16,
    },
    /// The frame has one of three faults: its body is compressed although STARTUP did not request
    /// it, its body cannot be decompressed, or it is a request with a negative stream. The frame is
    /// consumed, and later frames can be decoded.
    #[error("{error}")]
    Body { error: ProtocolError, stream: i16 },
}

impl FrameError {
    /// Returns the stream of the invalid frame, for the response.
    pub fn stream(&self) -> i16 {
        match self {
            Self::Version { stream, .. }
            | Self::VersionChange { stream, .. }
            | Self::Direction { stream, .. }
            | Self::Length { stream, .. }
            | Self::TooLong { stream, .. }
            | Self::TooLongPlain { stream, .. }
            | Self::Body { stream, .. } => *stream,
        }
    }

    /// Returns true if the bad frame is still in the buffer, so that the decoder would fail again.
    /// The receiver then closes the connection after its response. After
    /// [`TooLong`](Self::TooLong) it may discard the frame instead, and continue.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Self::TooLongPlain { .. } | Self::Body { .. })
    }
}

/// Splits a stream of bytes into frames.
///
/// It never reserves memory for a body that has not arrived: the caller's buffer grows with the
/// received bytes, and a length above the limit is an immediate error.
#[derive(Debug, Clone)]
pub struct FrameDecoder {
    direction: Direction,
    body_bytes_max: usize,
    compression: Compression,
    /// The version that all frames must have; `None` until it is set.
    agreed: Option<Version>,
}

impl FrameDecoder {
    /// Creates a decoder of frames in one direction. The limit of their bodies applies before and
    /// after decompression.
    pub fn new(direction: Direction, body_bytes_max: usize) -> Self {
        Self {
            direction,
            body_bytes_max,
            compression: Compression::None,
            agreed: None,
        }
    }

    /// Sets the version that all further frames must have.
    pub fn set_version(&mut self, version: Version) {
        self.agreed = Some(version);
    }

    pub fn set_compression(&mut self, compression: Compression) {
        self.compression = compression;
    }

    pub fn set_body_bytes_max(&mut self, body_bytes_max: usize) {
        self.body_bytes_max = body_bytes_max;
    }

    pub fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Takes the first frame off the buffer; `None` while it is incomplete.
    ///
    /// # Errors
    /// [Fatal](FrameError::is_fatal) errors leave the buffer unchanged; after other errors the next
    /// call continues after the frame.
    pub fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(&version_byte) = buffer.first() else {
            return Ok(None);
        };
        let version = version_byte & !RESPONSE_BIT;
        if version < 3 {
            // The headers of versions 1 and 2 have eight bytes, one of them the stream. Waiting for nine
            // would leave the client of such a version without a response.
            let stream = buffer.get(2).map_or(0, |&stream| (stream as i8).into());
            return Err(FrameError::Version { version, stream });
        }
        let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [_, flags, s0, s1, opcode, l0, l1, l2, l3] = *header;
        let stream = i16::from_be_bytes([s0, s1]);
        let Some(known) = Version::from_number(version) else {
            return Err(FrameError::Version { version, stream });
        };
        if let Some(agreed) = self.agreed
            && agreed != known
        {
            return Err(FrameError::VersionChange {
                version: known,
                agreed,
                stream,
            });
        }
        if version_byte != self.direction.version_byte(known) {
            return Err(FrameError::Direction {
                version_byte,
                stream,
            });
        }
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        if length < 0 {
            return Err(FrameError::Length { length, stream });
        }
        let body_bytes = length.unsigned_abs();
        let body_bytes_max = self.body_bytes_max;
        let body_len = usize::try_from(body_bytes).unwrap_or(usize::MAX);
        // Checked before the body arrives, so that it is never buffered.
        if body_len > body_bytes_max {
            return Err(FrameError::TooLong {
                body_bytes,
                body_bytes_max,
                stream,
            });
        }
        if buffer.len() - HEADER_BYTES < body_len {
            return Ok(None);
        }
        buffer.advance(HEADER_BYTES);
        let mut body = buffer.split_to(body_len).freeze();
        if flags & flag::COMPRESSION != 0 {
            let plain = match (self.compression, plain_bytes(&body)) {
                (Compression::None, _) => Err(ProtocolError::Forbidden(
                    "the body is compressed, and STARTUP did not ask for it",
                )),
                (Compression::Lz4, Some(plain_bytes)) if plain_bytes as usize > body_bytes_max => {
                    return Err(FrameError::TooLongPlain {
                        plain_bytes,
                        body_bytes_max,
                        stream,
                    });
                }
                // A body that is too short for its plain length fails here.
                (Compression::Lz4, _) => decompress(&body, body_bytes_max),
            };
            body = plain.map_err(|error| FrameError::Body { error, stream })?;
        }
        // No client uses negative streams, and a response in one could be mistaken for an event. Checked
        // last, when the frame is consumed, so that the connection can continue.
        if stream < 0 && self.direction == Direction::Request {
            let error = ProtocolError::Forbidden("the stream of a request is negative");
            return Err(FrameError::Body { error, stream });
        }
        // The opcode is checked when the body is decoded.
        Ok(Some(Frame {
            version: known,
            flags,
            stream,
            opcode,
            body,
        }))
    }
}

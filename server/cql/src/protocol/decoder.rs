//! Frames out of a stream of bytes.

use bytes::{Buf, BytesMut};

use super::compression::{Compression, decompress, plain_bytes};
use super::fault::ProtocolError;
use super::frame::{Direction, Frame, HEADER_BYTES, RESPONSE_BIT, flag};
use super::version::Version;

/// The longest body that is taken unless asked otherwise. Cassandra's limit is
/// 256 MiB for the frame and 16 MiB for one mutation; a connection must be able to
/// hold a frame in memory, so this is the smaller.
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
        /// As it was sent, without the bit for the direction.
        version: u8,
        /// The request's stream; 0 where the header does not say.
        stream: i16,
    },
    /// A version that differs from the one that the connection began with.
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
    /// A negative length, in Cassandra's words.
    #[error("Invalid value for envelope header body length field: {length}")]
    Length { length: i32, stream: i16 },
    /// A body that is longer than the limit. The next frame begins behind the header and the body, so
    /// a receiver that discards both can go on.
    #[error("a body of {body_bytes} bytes is longer than the limit of {body_bytes_max}")]
    TooLong {
        body_bytes: u32,
        body_bytes_max: usize,
        stream: i16,
    },
    /// A compressed body that is longer than the limit when it is decompressed. The frame is used up,
    /// and those after it can be decoded.
    #[error(
        "a body of {plain_bytes} bytes when decompressed is longer than the limit of {body_bytes_max}"
    )]
    TooLongPlain {
        /// The length before compression, as the body states it.
        plain_bytes: u32,
        body_bytes_max: usize,
        stream: i16,
    },
    /// A body that was not to be compressed, or does not decompress. The frame is
    /// used up, and those after it can be decoded.
    #[error("{error}")]
    Body { error: ProtocolError, stream: i16 },
}

impl FrameError {
    /// The stream to answer in.
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

    /// Returns true if the frame is still in the buffer: the receiver answers and closes the
    /// connection, or discards the frame if the error is [`TooLong`](Self::TooLong).
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Self::TooLongPlain { .. } | Self::Body { .. })
    }
}

/// Splits a stream of bytes into frames.
///
/// It never reserves room for a body that has not come: the caller's buffer grows by
/// what is received, and a claimed length past the limit is an error at once.
#[derive(Debug, Clone)]
pub struct FrameDecoder {
    direction: Direction,
    body_bytes_max: usize,
    compression: Compression,
    /// The version of the connection, once it is known.
    agreed: Option<Version>,
}

impl FrameDecoder {
    /// For frames that go one way, with bodies of at most so many bytes, before and
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

    /// Takes the first frame off the buffer; `None` while it is not all there.
    ///
    /// # Errors
    /// [`FrameError::is_fatal`] ones leave the buffer as it is; after others the
    /// next call goes on behind the frame.
    pub fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(&version_byte) = buffer.first() else {
            return Ok(None);
        };
        let version = version_byte & !RESPONSE_BIT;
        if version < 3 {
            // The headers of versions 1 and 2 have eight bytes, one of them the stream.
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
                (Compression::Lz4, _) => decompress(&body, body_bytes_max),
            };
            body = plain.map_err(|error| FrameError::Body { error, stream })?;
        }
        // A client has no negative streams: the answer could be taken for an event.
        if stream < 0 && self.direction == Direction::Request {
            let error = ProtocolError::Forbidden("the stream of a request is negative");
            return Err(FrameError::Body { error, stream });
        }
        Ok(Some(Frame {
            version: known,
            flags,
            stream,
            opcode,
            body,
        }))
    }
}

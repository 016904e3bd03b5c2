//! The received bytes of a connection that are not served yet: frames, from version 5 on in
//! segments.

use bytes::BytesMut;
use ebb_cql::protocol::{
    ErrorResponse, Frame, FrameDecoder, FrameError, HEADER_BYTES, SegmentError, Segments,
};

use super::requests::LARGE_BYTES;
use super::skip::Skip;

/// The most segments that are opened for a frame before other connections get their turn: some
/// hundred KiB.
const SEGMENTS_MAX: usize = 4;
/// The flag of a frame with a compressed body. The body begins with its uncompressed length.
const COMPRESSED: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReceivedError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that is too long, and was received and discarded entirely.
    #[error("{0}")]
    Skipped(FrameError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

impl ReceivedError {
    pub(super) fn stream(&self) -> i16 {
        match self {
            Self::Frame(error) | Self::Skipped(error) => error.stream(),
            Self::Segment(_) => 0,
        }
    }

    /// Returns whether the connection has to be closed after the response.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Frame(error) => error.is_fatal(),
            Self::Skipped(_) => false,
            Self::Segment(_) => true,
        }
    }
}

impl From<ReceivedError> for ErrorResponse {
    fn from(error: ReceivedError) -> Self {
        match error {
            ReceivedError::Frame(error) | ReceivedError::Skipped(error) => error.into(),
            ReceivedError::Segment(error) => Self::protocol(error.to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The longest body of a frame in bytes.
    pub body_bytes_max: usize,
    /// The longest body in bytes of a frame that is discarded because its body is longer than
    /// `body_bytes_max`. A frame with a longer body ends the connection.
    pub skipped_bytes_max: usize,
    /// The longest payload of a segment in bytes.
    pub payload_bytes_max: usize,
}

#[derive(Default)]
pub(super) struct Received {
    segments: Option<Segments>,
    /// Received segments (the checksummed units of version 5 of the protocol) that are not opened
    /// yet. Opening a segment verifies and decompresses it. Only one is opened at a time, so that
    /// compressed bytes take no more memory than a frame and a segment.
    sealed: BytesMut,
    frames: BytesMut,
    /// The number of bytes that were appended to `frames` since it was last a new, empty buffer.
    buffer_bytes: usize,
    /// The length in bytes, as received, of the opened segments that contained `frames`.
    opened_bytes: usize,
    /// The first frame, if it is too long and its bytes are being discarded.
    skip: Option<Skip>,
    /// The number of discarded bytes of too long frames since the start of the connection.
    skipped_bytes: u64,
}

impl Received {
    /// Sets the format of segments. From now on, all bytes that are not decoded yet, and those that
    /// are received later, are treated as segments. Does nothing if `segments` is `None`, or if the
    /// format is set already.
    pub(super) fn set_segments(&mut self, segments: Option<Segments>) {
        if self.segments.is_none() && segments.is_some() {
            self.segments = segments;
            self.sealed = std::mem::take(&mut self.frames);
            self.buffer_bytes = 0;
        }
    }

    pub(super) fn has_segments(&self) -> bool {
        self.segments.is_some()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.segments {
            None => {
                self.frames.extend_from_slice(bytes);
                self.buffer_bytes += bytes.len();
            }
            Some(_) => self.sealed.extend_from_slice(bytes),
        }
    }

    /// Returns the number of received bytes that are not served yet. For opened segments this is an
    /// estimate: the uncompressed length of their frames that are left, or the length of the
    /// segments as they were received, whichever is less.
    pub(super) fn bytes(&self) -> usize {
        match self.segments {
            None => self.frames.len(),
            Some(_) => self.sealed.len() + self.frames.len().min(self.opened_bytes),
        }
    }

    /// Returns the memory, in bytes, of the received bytes that are not served yet. Opened segments
    /// count with their uncompressed length.
    pub(super) fn held_bytes(&self) -> usize {
        self.sealed.len() + self.frames.len()
    }

    /// Returns an upper bound of the number of bytes that share a buffer with the last decoded
    /// frame, unless that frame was large. The capacity of the buffer is at most twice as much.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Returns the number of discarded bytes of too long frames since the start of the connection;
    /// `None` if no frame is being discarded now.
    pub(super) fn skipped_bytes(&self) -> Option<u64> {
        self.skip.as_ref().map(|_| self.skipped_bytes)
    }

    /// Returns the stream of the first frame, complete or not. `None` if its header has not
    /// arrived, or is in a segment that is not opened yet.
    pub(super) fn first_stream(&self) -> Option<i16> {
        if let Some(skip) = &self.skip {
            return Some(skip.stream());
        }
        let [_, _, s0, s1, ..] = *self.frames.first_chunk::<HEADER_BYTES>()?;
        Some(i16::from_be_bytes([s0, s1]))
    }

    /// Gives up skipping a too long frame, and returns its error before the rest of its bytes has
    /// arrived; `None` if no frame is being skipped. Nothing can be decoded afterwards.
    pub(super) fn give_up_skip(&mut self) -> Option<ReceivedError> {
        let skip = self.skip.take()?;
        Some(ReceivedError::Frame(skip.into_error()))
    }

    /// Returns whether the first frame is complete and decompressed from its segments, is
    /// [large](LARGE_BYTES), and has a body within the limit.
    pub(super) fn has_large_frame(&self, limits: &Limits) -> bool {
        let large = LARGE_BYTES..=limits.body_bytes_max;
        let bytes = self.first_plain_bytes();
        bytes.is_some_and(|bytes| large.contains(&bytes))
    }

    /// Returns the length of the first frame's body, compressed or uncompressed, whichever is
    /// longer. `None` unless the frame is complete in `frames` and is not being skipped. The
    /// uncompressed length is the one that the client has put into the frame, and may be wrong.
    fn first_plain_bytes(&self) -> Option<usize> {
        if self.skip.is_some() {
            return None;
        }
        let (flags, length, rest) = self.first_header()?;
        let body = rest.get(..length)?;
        let plain = match body.first_chunk() {
            Some(plain) if flags & COMPRESSED != 0 => u32::from_be_bytes(*plain) as usize,
            _ => 0,
        };
        Some(length.max(plain))
    }

    /// Returns the flags of the first bytes as a header, the length of its body, and the bytes behind
    /// it. `None` if the header is not complete in `frames`.
    fn first_header(&self) -> Option<(u8, usize, &[u8])> {
        let (header, rest) = self.frames.split_first_chunk::<HEADER_BYTES>()?;
        let [_, flags, .., l0, l1, l2, l3] = *header;
        Some((flags, u32::from_be_bytes([l0, l1, l2, l3]) as usize, rest))
    }

    /// Takes the first frame. Returns `None` if the frame is incomplete. Also returns `None` if its
    /// segments are more than the [`SEGMENTS_MAX`] that one call opens (decompresses), or if this
    /// call has opened the segments of a large frame: then the next call goes on, and the caller
    /// can move the decoding of a large frame to another thread. `decoder` must have the same limit
    /// on bodies as `limits`.
    ///
    /// # Errors
    /// [`ReceivedError`]. The error of a too long frame is returned after the frame was skipped or,
    /// if it is too long to skip, at once.
    pub(super) fn decode(
        &mut self,
        decoder: &FrameDecoder,
        limits: &Limits,
    ) -> Result<Option<Frame>, ReceivedError> {
        for _ in 0..SEGMENTS_MAX {
            if self.skip.is_none() {
                let bytes_before = self.frames.len();
                let decoded = decoder.decode(&mut self.frames);
                if bytes_before - self.frames.len() >= LARGE_BYTES {
                    // The bytes behind the frame would keep the whole buffer until their own frame
                    // is complete, and no limit counts the part that is served.
                    self.frames = BytesMut::from(&self.frames[..]);
                    self.buffer_bytes = self.frames.len();
                }
                match decoded {
                    Ok(None) => {}
                    Ok(Some(frame)) => return Ok(Some(frame)),
                    Err(error) => self.skip = Some(Skip::begin(error, limits.skipped_bytes_max)?),
                }
            }
            self.discard_skipped()?;
            let Some(segments) = self.segments else {
                return Ok(None);
            };
            if self.frames.is_empty() {
                self.opened_bytes = 0;
            }
            let (payload_bytes_max, bytes_before) = (limits.payload_bytes_max, self.frames.len());
            match segments.open(&mut self.sealed, &mut self.frames, payload_bytes_max)? {
                None => return Ok(None),
                Some(bytes) => self.opened_bytes += bytes,
            }
            self.buffer_bytes += self.frames.len() - bytes_before;
            if self.has_large_frame(limits) {
                break;
            }
        }
        Ok(None)
    }

    /// Discards the available bytes of the frame that is being skipped.
    ///
    /// # Errors
    /// The error of that frame, once the rest of it was discarded.
    fn discard_skipped(&mut self) -> Result<(), ReceivedError> {
        let Some(skip) = &mut self.skip else {
            return Ok(());
        };
        self.skipped_bytes += skip.discard(&mut self.frames) as u64;
        match self.skip.take_if(|skip| skip.is_over()) {
            Some(skip) => Err(ReceivedError::Skipped(skip.into_error())),
            None => Ok(()),
        }
    }

    /// Returns whether [`decode`](Self::decode) can make progress.
    pub(super) fn has_frame(&self, limits: &Limits) -> bool {
        let first_bytes = |it: Segments| it.first_bytes(&self.sealed, limits.payload_bytes_max);
        let of_segments = self.segments.and_then(first_bytes);
        of_segments.is_some() || self.has_frame_opened(limits.body_bytes_max)
    }

    fn has_frame_opened(&self, body_bytes_max: usize) -> bool {
        if self.skip.is_some() {
            return !self.frames.is_empty();
        }
        // A length above the limit is rejected, or skipped, before the body has arrived.
        (self.first_header())
            .is_some_and(|(_, length, rest)| length > body_bytes_max || rest.len() >= length)
    }

    /// Frees the memory of empty buffers.
    pub(super) fn shrink(&mut self) {
        if self.sealed.is_empty() {
            self.sealed = BytesMut::new();
        }
        if self.frames.is_empty() {
            self.frames = BytesMut::new();
            self.buffer_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests;

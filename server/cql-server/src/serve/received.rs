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
        let (header, body) = self.frames.split_first_chunk::<HEADER_BYTES>()?;
        let [_, flags, .., l0, l1, l2, l3] = *header;
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let body = body.get(..length)?;
        let plain = match body.first_chunk() {
            Some(plain) if flags & COMPRESSED != 0 => u32::from_be_bytes(*plain) as usize,
            _ => 0,
        };
        Some(length.max(plain))
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
        let Some(header) = self.frames.first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        // A length above the limit is rejected, or skipped, before the body has arrived.
        let length = length as usize;
        length > body_bytes_max || self.frames.len() - HEADER_BYTES >= length
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
mod tests {
    use ebb_cql::protocol::{Compression, Direction, PAYLOAD_BYTES_MAX, Request, Version};

    use super::*;

    const LIMITS: Limits = Limits {
        body_bytes_max: 1 << 20,
        skipped_bytes_max: 4 << 20,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };

    fn decoder() -> FrameDecoder {
        FrameDecoder::new(Direction::Request, LIMITS.body_bytes_max)
    }

    /// Returns a first frame, which is not in a segment, and segments with PREPARE requests for
    /// texts of these lengths.
    fn received(lengths: &[usize], compression: Compression) -> (BytesMut, BytesMut) {
        let mut first = BytesMut::new();
        Request::Options.encode(&mut first, 7, Version::V5);
        let mut frames = BytesMut::new();
        for (stream, length) in lengths.iter().enumerate() {
            let text = &"SELECT * FROM t ".repeat(length / 16 + 1)[..*length];
            let keyspace = Some("ks");
            let request = Request::Prepare { text, keyspace };
            request.encode(&mut frames, stream as i16, Version::V5);
        }
        let mut sealed = BytesMut::new();
        Segments::new(compression).seal(&frames, &mut sealed);
        (first, sealed)
    }

    #[test]
    fn frames_are_decoded_from_segments_however_the_bytes_are_split() {
        let lengths = [0, 5, 131_000, 700, 400_000, 1];
        for compression in [Compression::None, Compression::Lz4] {
            let (first, sealed) = received(&lengths, compression);
            for piece in [1000, 70_000, 1 << 20] {
                let mut received = Received::default();
                received.push(&first);
                assert!(received.has_frame(&LIMITS));
                let frame = received.decode(&decoder(), &LIMITS).unwrap().unwrap();
                assert_eq!(Request::decode(&frame), Ok(Request::Options));
                received.set_segments(Some(Segments::new(compression)));
                let mut found = Vec::new();
                for bytes in sealed.chunks(piece) {
                    let before = received.bytes();
                    received.push(bytes);
                    assert_eq!(received.bytes(), before + bytes.len());
                    while received.has_frame(&LIMITS) {
                        let Some(frame) = received.decode(&decoder(), &LIMITS).unwrap() else {
                            continue;
                        };
                        assert_eq!(usize::try_from(frame.stream), Ok(found.len()));
                        match Request::decode(&frame).unwrap() {
                            Request::Prepare { text, keyspace } => {
                                assert_eq!(keyspace, Some("ks"));
                                found.push(text.len());
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
                assert_eq!(found, lengths);
                assert_eq!(received.bytes(), 0);
            }
        }
    }

    #[test]
    fn bytes_right_after_startup_are_segments() {
        let (first, sealed) = received(&[9], Compression::None);
        let mut received = Received::default();
        received.push(&[&first[..], &sealed].concat());
        assert!(received.decode(&decoder(), &LIMITS).unwrap().is_some());
        received.set_segments(Some(Segments::new(Compression::None)));
        let frame = received.decode(&decoder(), &LIMITS).unwrap().unwrap();
        assert!(matches!(
            Request::decode(&frame),
            Ok(Request::Prepare { .. })
        ));
    }

    /// A frame of 16 MiB of zeros, which are little more than 64 KiB compressed, and are never
    /// uncompressed all at the same time.
    #[test]
    fn segments_are_opened_one_at_a_time() {
        let segments = Segments::new(Compression::Lz4);
        let mut frame = BytesMut::new();
        let text = &" ".repeat(130_000);
        let keyspace = None;
        Request::Prepare { text, keyspace }.encode(&mut frame, 1, Version::V5);
        let mut sealed = BytesMut::new();
        (0..100).for_each(|_| segments.seal(&frame, &mut sealed));
        let mut received = Received::default();
        received.set_segments(Some(segments));
        received.push(&sealed);
        let mut frames = 0;
        while received.has_frame(&LIMITS) {
            let frame = received.decode(&decoder(), &LIMITS).unwrap();
            frames += usize::from(frame.is_some());
            assert!(received.frames.capacity() <= 2 << 20);
        }
        assert_eq!(frames, 100);
    }

    /// Regression: one call opened the segments of a large frame and took the frame, so that the
    /// caller never saw a large frame, and parsed it on a thread that serves connections.
    #[test]
    fn a_large_frame_is_reported_before_it_is_decoded_from_its_segments() {
        // The body of the first one is a few bytes longer than its text: lengths and flags.
        for (text_bytes, is_large) in [
            (LARGE_BYTES - 100, false),
            (LARGE_BYTES, true),
            (400_000, true),
        ] {
            for compression in [Compression::None, Compression::Lz4] {
                let (_, sealed) = received(&[text_bytes, 5], compression);
                let mut received = Received::default();
                received.set_segments(Some(Segments::new(compression)));
                received.push(&sealed);
                let mut noticed = 0;
                let first = loop {
                    assert!(received.has_frame(&LIMITS));
                    noticed += usize::from(received.has_large_frame(&LIMITS));
                    if let Some(frame) = received.decode(&decoder(), &LIMITS).unwrap() {
                        break frame;
                    }
                };
                assert_eq!(first.stream, 0);
                assert_eq!(
                    noticed,
                    usize::from(is_large),
                    "{text_bytes} bytes, {compression:?}"
                );
                assert!(!received.has_large_frame(&LIMITS));
                let second = received.decode(&decoder(), &LIMITS).unwrap();
                assert_eq!(second.map(|frame| frame.stream), Some(1));
            }
        }
    }

    /// Returns a PREPARE with a body of about `bytes` bytes.
    fn prepare(stream: i16, bytes: usize, version: Version) -> BytesMut {
        let text = &"x".repeat(bytes);
        let keyspace = None;
        let mut frame = BytesMut::new();
        Request::Prepare { text, keyspace }.encode(&mut frame, stream, version);
        frame
    }

    #[test]
    fn a_too_long_frame_is_skipped_and_its_neighbours_are_decoded() {
        let codecs = [
            None,
            Some(Segments::new(Compression::None)),
            Some(Segments::new(Compression::Lz4)),
        ];
        for segments in codecs {
            let version = segments.map_or(Version::V4, |_| Version::V5);
            let mut sent = BytesMut::new();
            for (stream, bytes) in (1..).zip([10, 2 << 20, 3 << 20, 10]) {
                sent.extend_from_slice(&prepare(stream, bytes, version));
            }
            if let Some(segments) = segments {
                let frames = std::mem::take(&mut sent);
                segments.seal(&frames, &mut sent);
            }
            for piece in [1000, 64 << 10, 8 << 20] {
                let mut received = Received::default();
                received.set_segments(segments);
                let mut outcomes = Vec::new();
                for bytes in sent.chunks(piece) {
                    received.push(bytes);
                    while received.has_frame(&LIMITS) {
                        match received.decode(&decoder(), &LIMITS) {
                            Ok(None) => {}
                            Ok(Some(frame)) => outcomes.push((frame.stream, true)),
                            Err(error @ ReceivedError::Skipped(_)) => {
                                assert!(!error.is_fatal());
                                outcomes.push((error.stream(), false));
                            }
                            Err(error) => panic!("{error}"),
                        }
                        let is_small = received.frames.len() <= 2 * PAYLOAD_BYTES_MAX;
                        assert!(segments.is_none() || is_small, "what is skipped is kept");
                    }
                    let held_bytes = received.held_bytes();
                    assert!(held_bytes <= 2 * PAYLOAD_BYTES_MAX, "{held_bytes} bytes");
                }
                let expected = [(1, true), (2, false), (3, false), (4, true)];
                assert_eq!(outcomes, expected, "{segments:?}, pieces of {piece} bytes");
                assert_eq!(received.bytes(), 0);
                assert_eq!(received.skipped_bytes(), None);
            }
        }
    }

    #[test]
    fn the_stream_of_an_incomplete_frame_is_in_its_header() {
        let frame = prepare(7, 2 << 20, Version::V4);
        let mut received = Received::default();
        received.push(&frame[..HEADER_BYTES - 1]);
        assert_eq!(received.first_stream(), None);
        received.push(&frame[HEADER_BYTES - 1..1000]);
        assert_eq!(received.first_stream(), Some(7));
        // The frame is too long. Its header is discarded now, and the next bytes are of its body.
        assert_eq!(received.decode(&decoder(), &LIMITS), Ok(None));
        received.push(&[0; HEADER_BYTES]);
        assert_eq!(received.first_stream(), Some(7));
    }

    /// Regression: the first bytes of the next frame kept the buffer of a frame of many MiB that
    /// was served, for as long as the client sent no more. No limit on memory counted the buffer.
    #[test]
    fn the_bytes_behind_a_large_frame_do_not_keep_its_buffer() {
        // The compressed frame is an error: STARTUP has requested no compression.
        for flags in [0, COMPRESSED] {
            let mut large = prepare(1, 512 << 10, Version::V4);
            large[1] |= flags;
            let mut received = Received::default();
            received.push(&large);
            received.push(&prepare(2, 10, Version::V4)[..HEADER_BYTES]);
            let decoded = received.decode(&decoder(), &LIMITS);
            assert_eq!(decoded.is_ok(), flags == 0);
            drop(decoded);
            assert_eq!(received.held_bytes(), HEADER_BYTES);
            assert_eq!(received.buffer_bytes(), HEADER_BYTES);
            assert_eq!(received.first_stream(), Some(2));
            assert!(!received.frames.try_reclaim(LARGE_BYTES));
        }
    }

    #[test]
    fn all_bytes_that_share_the_buffer_of_a_frame_are_counted() {
        let first = Request::Options;
        for segments in [None, Some(Segments::new(Compression::Lz4))] {
            let version = segments.map_or(Version::V4, |_| Version::V5);
            let mut frames = BytesMut::new();
            first.encode(&mut frames, 1, version);
            frames.extend_from_slice(&prepare(2, 5000, version));
            let mut sent = frames.clone();
            if let Some(segments) = segments {
                sent.clear();
                segments.seal(&frames, &mut sent);
            }
            let mut received = Received::default();
            received.set_segments(segments);
            // The second time, the buffer of the first time may be used again.
            for times in 1..=2 {
                received.push(&sent);
                let mut streams = Vec::new();
                while received.has_frame(&LIMITS) {
                    if let Some(frame) = received.decode(&decoder(), &LIMITS).unwrap() {
                        streams.push(frame.stream);
                        assert_eq!(received.buffer_bytes(), times * frames.len());
                    }
                }
                assert_eq!(streams, [1, 2]);
            }
            received.shrink();
            assert_eq!(received.buffer_bytes(), 0);
        }
    }

    #[test]
    fn a_frame_too_long_to_skip_ends_the_connection_at_its_header() {
        let frame = prepare(3, 5 << 20, Version::V4);
        let mut received = Received::default();
        received.push(&frame[..HEADER_BYTES]);
        assert!(received.has_frame(&LIMITS));
        let error = received.decode(&decoder(), &LIMITS).unwrap_err();
        assert!(error.is_fatal() && error.stream() == 3, "{error}");
        assert_eq!(received.skipped_bytes(), None);
    }

    #[test]
    fn an_abandoned_skip_ends_the_connection_with_its_error() {
        let frame = prepare(3, 2 << 20, Version::V4);
        let mut received = Received::default();
        received.push(&frame[..1000]);
        assert_eq!(received.decode(&decoder(), &LIMITS), Ok(None));
        assert_eq!(received.skipped_bytes(), Some(1000));
        let error = received.give_up_skip().unwrap();
        assert!(error.is_fatal() && error.stream() == 3, "{error}");
        assert_eq!(received.give_up_skip(), None);
    }

    #[test]
    fn a_broken_segment_ends_the_connection() {
        let (_, mut sealed) = received(&[9], Compression::None);
        let last = sealed.len() - 5;
        sealed[last] ^= 1;
        let mut received = Received::default();
        received.set_segments(Some(Segments::new(Compression::None)));
        received.push(&sealed);
        assert!(received.has_frame(&LIMITS));
        let error = received.decode(&decoder(), &LIMITS).unwrap_err();
        assert!(error.is_fatal());
        assert!(error.to_string().starts_with("CRC mismatch in the body"));
    }
}

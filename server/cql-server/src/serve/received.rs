//! The bytes that a connection has received and not yet served: frames, since version 5 in
//! segments.

use bytes::BytesMut;
use ebb_cql::protocol::{Frame, FrameDecoder, FrameError, HEADER_BYTES, SegmentError, Segments};

/// Segments that are opened for a frame before other connections get their turn: some hundred KiB.
const SEGMENTS_MAX: usize = 4;
/// The flag of a frame with a compressed body, which begins with its plain length.
const COMPRESSED: u8 = 1;

/// An error in received bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReceivedError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

impl ReceivedError {
    /// Returns the stream for the response with the error.
    pub(super) fn stream(&self) -> i16 {
        match self {
            Self::Frame(error) => error.stream(),
            Self::Segment(_) => 0,
        }
    }

    /// Returns whether the connection has to be closed after the response.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Frame(error) => error.is_fatal(),
            Self::Segment(_) => true,
        }
    }
}

/// The bytes of one connection.
#[derive(Default)]
pub(super) struct Received {
    segments: Option<Segments>,
    /// Segments that are not yet opened: one at a time, so that what is compressed takes no
    /// more memory than a frame and a segment.
    sealed: BytesMut,
    frames: BytesMut,
    /// The bytes of the opened segments that `frames` came in.
    opened_bytes: usize,
}

impl Received {
    /// Takes bytes from now on for segments, also those that were received and not yet decoded.
    pub(super) fn set_segments(&mut self, segments: Option<Segments>) {
        if self.segments.is_none() && segments.is_some() {
            self.segments = segments;
            self.sealed = std::mem::take(&mut self.frames);
        }
    }

    /// Returns whether frames come in segments.
    pub(super) fn has_segments(&self) -> bool {
        self.segments.is_some()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.segments {
            None => self.frames.extend_from_slice(bytes),
            Some(_) => self.sealed.extend_from_slice(bytes),
        }
    }

    /// Returns the number of received bytes that are not served yet. For an opened segment this is
    /// an estimate, which assumes that all of its frames compress alike.
    pub(super) fn bytes(&self) -> usize {
        match self.segments {
            None => self.frames.len(),
            Some(_) => self.sealed.len() + self.frames.len().min(self.opened_bytes),
        }
    }

    /// Returns the memory of these bytes, with opened segments at their plain length.
    pub(super) fn held_bytes(&self) -> usize {
        self.sealed.len() + self.frames.len()
    }

    /// Returns the length of the first frame's body, compressed or plain, whichever is longer, if
    /// the frame is complete and opened. The plain length is the one that the frame states.
    pub(super) fn first_plain_bytes(&self) -> Option<usize> {
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

    /// Takes the first frame. `None` if it is not complete, or if more than [`SEGMENTS_MAX`]
    /// segments have to be opened before it is: then the next call goes on. `payload_bytes_max` is
    /// the limit on the payload of a segment.
    pub(super) fn decode(
        &mut self,
        decoder: &FrameDecoder,
        payload_bytes_max: usize,
    ) -> Result<Option<Frame>, ReceivedError> {
        for _ in 0..SEGMENTS_MAX {
            if let Some(frame) = decoder.decode(&mut self.frames)? {
                return Ok(Some(frame));
            }
            let Some(segments) = self.segments else {
                return Ok(None);
            };
            if self.frames.is_empty() {
                self.opened_bytes = 0;
            }
            match segments.open(&mut self.sealed, &mut self.frames, payload_bytes_max)? {
                None => return Ok(None),
                Some(bytes) => self.opened_bytes += bytes,
            }
        }
        Ok(None)
    }

    /// Returns whether [`decode`](Self::decode) can go on, with these limits on the bodies of
    /// frames and the payloads of segments.
    pub(super) fn has_frame(&self, body_bytes_max: usize, payload_bytes_max: usize) -> bool {
        let first_bytes = |it: Segments| it.first_bytes(&self.sealed, payload_bytes_max);
        let of_segments = self.segments.and_then(first_bytes);
        of_segments.is_some() || self.has_frame_opened(body_bytes_max)
    }

    fn has_frame_opened(&self, body_bytes_max: usize) -> bool {
        let Some(header) = self.frames.first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        // A length above the limit is refused before the body has come.
        let length = length as usize;
        length > body_bytes_max || self.frames.len() - HEADER_BYTES >= length
    }

    /// Frees the memory of empty buffers.
    pub(super) fn shrink(&mut self) {
        for buffer in [&mut self.sealed, &mut self.frames] {
            if buffer.is_empty() {
                *buffer = BytesMut::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::protocol::{Compression, Direction, PAYLOAD_BYTES_MAX, Request, Version};

    use super::*;

    const BODY_BYTES_MAX: usize = 1 << 20;

    fn decoder() -> FrameDecoder {
        FrameDecoder::new(Direction::Request, BODY_BYTES_MAX)
    }

    /// Returns a first frame without segments, and segments with frames whose texts have these
    /// lengths.
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
    fn frames_come_out_of_segments_however_they_are_cut() {
        let lengths = [0, 5, 131_000, 700, 400_000, 1];
        for compression in [Compression::None, Compression::Lz4] {
            let (first, sealed) = received(&lengths, compression);
            for piece in [1000, 70_000, 1 << 20] {
                let mut received = Received::default();
                received.push(&first);
                assert!(received.has_frame(BODY_BYTES_MAX, PAYLOAD_BYTES_MAX));
                let frame = received
                    .decode(&decoder(), PAYLOAD_BYTES_MAX)
                    .unwrap()
                    .unwrap();
                assert_eq!(Request::decode(&frame), Ok(Request::Options));
                received.set_segments(Some(Segments::new(compression)));
                let mut found = Vec::new();
                for bytes in sealed.chunks(piece) {
                    let before = received.bytes();
                    received.push(bytes);
                    assert_eq!(received.bytes(), before + bytes.len());
                    while received.has_frame(BODY_BYTES_MAX, PAYLOAD_BYTES_MAX) {
                        let Some(frame) = received.decode(&decoder(), PAYLOAD_BYTES_MAX).unwrap()
                        else {
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
    fn what_came_right_behind_startup_is_in_segments() {
        let (first, sealed) = received(&[9], Compression::None);
        let mut received = Received::default();
        received.push(&[&first[..], &sealed].concat());
        assert!(
            received
                .decode(&decoder(), PAYLOAD_BYTES_MAX)
                .unwrap()
                .is_some()
        );
        received.set_segments(Some(Segments::new(Compression::None)));
        let frame = received
            .decode(&decoder(), PAYLOAD_BYTES_MAX)
            .unwrap()
            .unwrap();
        assert!(matches!(
            Request::decode(&frame),
            Ok(Request::Prepare { .. })
        ));
    }

    /// 16 MiB of zeros in little more than 64 KiB: they are not all there at once.
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
        for _ in 0..100 {
            assert!(
                received
                    .decode(&decoder(), PAYLOAD_BYTES_MAX)
                    .unwrap()
                    .is_some()
            );
            assert!(received.frames.capacity() <= 2 << 20);
        }
    }

    #[test]
    fn a_broken_segment_ends_the_connection() {
        let (_, mut sealed) = received(&[9], Compression::None);
        let last = sealed.len() - 5;
        sealed[last] ^= 1;
        let mut received = Received::default();
        received.set_segments(Some(Segments::new(Compression::None)));
        received.push(&sealed);
        assert!(received.has_frame(BODY_BYTES_MAX, PAYLOAD_BYTES_MAX));
        let error = received.decode(&decoder(), PAYLOAD_BYTES_MAX).unwrap_err();
        assert!(error.is_fatal());
        assert!(error.to_string().starts_with("CRC mismatch in the body"));
    }
}

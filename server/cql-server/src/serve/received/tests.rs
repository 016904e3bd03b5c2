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

/// Returns received bytes, in segments if there is a format of segments.
fn holding(segments: Option<Segments>, bytes: &[u8]) -> Received {
    let mut received = Received::default();
    received.set_segments(segments);
    received.push(bytes);
    received
}

#[test]
fn frames_are_decoded_from_segments_however_the_bytes_are_split() {
    let lengths = [0, 5, 131_000, 700, 400_000, 1];
    for compression in [Compression::None, Compression::Lz4] {
        let (first, sealed) = received(&lengths, compression);
        for piece in [1000, 70_000, 1 << 20] {
            let mut received = holding(None, &first);
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
    let mut received = holding(None, &[&first[..], &sealed].concat());
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
    let mut received = holding(Some(segments), &sealed);
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
            let mut received = holding(Some(Segments::new(compression)), &sealed);
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
    let mut received = holding(None, &frame[..HEADER_BYTES - 1]);
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
        let mut received = holding(None, &large);
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
    let mut received = holding(None, &frame[..HEADER_BYTES]);
    assert!(received.has_frame(&LIMITS));
    let error = received.decode(&decoder(), &LIMITS).unwrap_err();
    assert!(error.is_fatal() && error.stream() == 3, "{error}");
    assert_eq!(received.skipped_bytes(), None);
}

#[test]
fn an_abandoned_skip_ends_the_connection_with_its_error() {
    let frame = prepare(3, 2 << 20, Version::V4);
    let mut received = holding(None, &frame[..1000]);
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
    let mut received = holding(Some(Segments::new(Compression::None)), &sealed);
    assert!(received.has_frame(&LIMITS));
    let error = received.decode(&decoder(), &LIMITS).unwrap_err();
    assert!(error.is_fatal());
    assert!(error.to_string().starts_with("CRC mismatch in the body"));
}

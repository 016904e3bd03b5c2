//! The additions of version 5: segments, and fields in some bodies. The tests compare them with
//! another implementation, `cassandra-protocol`.

use bytes::{Bytes, BytesMut};
use cassandra_protocol::compression::Compression as OtherCompression;
use cassandra_protocol::frame::frame_decoder::{
    FrameDecoder as OtherDecoder, Lz4FrameDecoder, UncompressedFrameDecoder,
};
use cassandra_protocol::frame::frame_encoder::{
    FrameEncoder as OtherEncoder, Lz4FrameEncoder, UncompressedFrameEncoder,
};
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::{Envelope, Serialize, Version as OtherVersion};
use cassandra_protocol::types::CBytesShort;

use super::super::*;
use super::samples::*;

/// Calls `each` with every kind of request, without and with the fields that version 5 adds.
fn each_request5(mut each: impl FnMut(Request<'_>)) {
    each_request(|mut request| {
        each(request.clone());
        match &mut request {
            Request::Query { parameters, .. } | Request::Execute { parameters, .. } => {
                parameters.keyspace = Some("größe");
                parameters.now_s = Some(-7);
            }
            Request::Batch(batch) => {
                batch.keyspace = Some("größe");
                batch.now_s = Some(7);
            }
            Request::Prepare { keyspace, .. } => *keyspace = Some("größe"),
            _ => return,
        }
        each(request);
    });
}

/// Adds the id of the result's columns to an EXECUTE, which always has the id in version 5. Returns
/// other requests unchanged.
fn with_id(mut request: Request<'_>) -> Request<'_> {
    if let Request::Execute { parameters, .. } = &mut request {
        parameters.result_metadata_id = Some(&[6; 16]);
    }
    request
}

fn responses5() -> Vec<Response> {
    let with_id = |response| match response {
        Response::Prepared(prepared) => {
            let result_metadata_id = Bytes::from_static(&[5; 16]);
            Response::Prepared(Prepared {
                result_metadata_id,
                ..prepared
            })
        }
        other => other,
    };
    responses().into_iter().map(with_id).collect()
}

#[test]
fn requests_come_back() {
    let mut count = 0;
    each_request5(|request| {
        let request = with_id(request);
        let mut out = BytesMut::new();
        request.encode(&mut out, 77, Version::V5);
        assert_eq!(out[0], 5);
        let frame = decode_one(&out, Direction::Request, Compression::None).unwrap();
        assert_eq!((frame.version, frame.stream), (Version::V5, 77));
        assert_eq!(Request::decode(&frame).unwrap(), request);
        for cut in 0..frame.body.len() {
            let frame = Frame {
                body: frame.body.slice(..cut),
                ..frame.clone()
            };
            assert!(Request::decode(&frame).is_err(), "{request:?} at {cut}");
        }
        count += 1;
    });
    assert_eq!(count, 15);
}

#[test]
fn responses_come_back() {
    for response in responses5() {
        let mut out = BytesMut::new();
        response.encode(&mut out, 3, &Head::default(), Version::V5);
        assert_eq!(out[0], 0x85);
        let frame = decode_one(&out, Direction::Response, Compression::None).unwrap();
        assert_eq!(Answer::decode(&frame).unwrap().response, response);
    }
}

#[test]
fn version_4_omits_the_fields_of_version_5() {
    each_request5(|request| {
        let (mut of_4, mut plain) = (BytesMut::new(), BytesMut::new());
        with_id(request.clone()).encode(&mut of_4, 1, Version::V4);
        let mut request = request;
        match &mut request {
            Request::Query { parameters, .. } | Request::Execute { parameters, .. } => {
                (parameters.keyspace, parameters.now_s) = (None, None);
            }
            Request::Batch(batch) => (batch.keyspace, batch.now_s) = (None, None),
            Request::Prepare { keyspace, .. } => *keyspace = None,
            _ => {}
        }
        request.encode(&mut plain, 1, Version::V4);
        assert_eq!(of_4, plain);
        let frame = decode_one(&of_4, Direction::Request, Compression::None).unwrap();
        assert_eq!(Request::decode(&frame), Ok(request));
    });
}

#[test]
fn our_requests_survive_the_other_implementation() {
    each_request5(|request| {
        let mut request = with_id(request);
        if let Request::Query { parameters, .. } | Request::Execute { parameters, .. } =
            &mut request
        {
            // The other implementation has no `skip_metadata`, and keeps named values in a map, which
            // has no order.
            parameters.skip_metadata = false;
            if parameters.values.is_named() {
                return;
            }
        }
        if let Request::Startup(startup) = &mut request {
            startup.options.truncate(1);
        }
        let mut out = BytesMut::new();
        request.encode(&mut out, 12, Version::V5);
        let parsed = Envelope::from_buffer(&out, OtherCompression::None).unwrap();
        let written = parsed.envelope.request_body().unwrap();
        let mut body = BytesMut::new();
        request.encode_body_in(&mut body, Version::V5);
        let written = written.serialize_to_vec(OtherVersion::V5);
        assert_eq!(body, written, "{request:?}");
    });
}

#[test]
fn the_other_implementation_decodes_prepared_statements_and_failures() {
    let mut count = 0;
    for response in responses5() {
        // The other implementation expects a port after the address of each replica that failed; the
        // specification has none.
        if let Response::Error(error) = &response
            && let ErrorKind::ReadFailure { .. } = error.kind
        {
            continue;
        }
        let mut out = BytesMut::new();
        response.encode(&mut out, 12, &Head::default(), Version::V5);
        let parsed = Envelope::from_buffer(&out, OtherCompression::None).unwrap();
        let read = parsed.envelope.response_body();
        let read = read.unwrap_or_else(|error| panic!("{response:?}: {error}"));
        let mut body = BytesMut::new();
        response.encode_body_in(&mut body, Version::V5);
        match (&response, &read) {
            (Response::Error(_), ResponseBody::Error(theirs)) => {
                assert_eq!(body, theirs.serialize_to_vec(OtherVersion::V5));
                count += 1;
            }
            (Response::Prepared(ours), ResponseBody::Result(theirs)) => {
                let theirs = theirs.clone().into_prepared().unwrap();
                let id = theirs.result_metadata_id.and_then(CBytesShort::into_bytes);
                assert_eq!(id.as_deref(), Some(&ours.result_metadata_id[..]));
                let indexes = theirs.metadata.pk_indexes.len();
                assert_eq!(indexes, ours.partition_key_markers.len());
                count += 1;
            }
            _ => {}
        }
    }
    assert!(count > 10, "{count}");
}

/// The error has the address of the node that failed to read, and the reason.
#[test]
fn a_failure_is_these_bytes() {
    let kind = ErrorKind::ReadFailure {
        consistency: Consistency::One,
    };
    let mut body = BytesMut::new();
    let response = Response::Error(ErrorResponse::new(kind, "no"));
    response.encode_body_in(&mut body, Version::V5);
    let expected: [&[u8]; 5] = [
        &[0, 0, 0x13, 0, 0, 2, b'n', b'o'],
        &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0, 0, 0, 1],
        &[4, 127, 0, 0, 1, 0, 0],
        &[0],
    ];
    assert_eq!(body, expected.concat());
}

/// The bytes are from Python's driver: OPTIONS in stream 3.
#[test]
fn a_segment_is_these_bytes() {
    let frame = [5, 0, 0, 3, 5, 0, 0, 0, 0];
    let crc32 = [0xbe, 0xf4, 0xbc, 0xcb];
    let headers: [(Compression, &[u8]); 2] = [
        (Compression::None, &[0x09, 0, 0x02, 0xa4, 0xc8, 0xc1]),
        (Compression::Lz4, &[0x09, 0, 0, 0, 0x04, 0xc2, 0xb8, 0x95]),
    ];
    for (compression, header) in headers {
        let mut out = BytesMut::new();
        Segments::new(compression).seal(&frame, &mut out);
        assert_eq!(out, [header, &frame, &crc32].concat());
    }
}

/// Returns frames of PREPARE with texts of these lengths in bytes.
fn frames(lengths: &[usize]) -> Vec<Vec<u8>> {
    let encode = |length: &usize| {
        let text = &"SELECT * FROM t ".repeat(length / 16 + 1)[..*length];
        let request = Request::Prepare {
            text,
            keyspace: None,
        };
        let mut out = BytesMut::new();
        request.encode(&mut out, 1, Version::V5);
        out.to_vec()
    };
    lengths.iter().map(encode).collect()
}

const LENGTHS: [usize; 8] = [0, 130_000, 10, PAYLOAD_BYTES_MAX, 400_000, 131_000, 600, 3];

#[test]
fn the_other_implementation_opens_our_segments() {
    let frames = frames(&LENGTHS);
    let decoders: [(Compression, Box<dyn OtherDecoder>); 2] = [
        (
            Compression::None,
            Box::new(UncompressedFrameDecoder::default()),
        ),
        (Compression::Lz4, Box::new(Lz4FrameDecoder::default())),
    ];
    for (compression, mut decoder) in decoders {
        let mut out = BytesMut::new();
        Segments::new(compression).seal(&frames.concat(), &mut out);
        let opened = decoder.consume(&mut out.to_vec(), OtherCompression::None);
        let bodies: Vec<_> = (opened.unwrap().into_iter()).map(|it| it.body).collect();
        let sent: Vec<_> = frames.iter().map(|frame| &frame[HEADER_BYTES..]).collect();
        assert!(bodies == sent);
    }
}

#[test]
fn segments_are_sealed_one_at_a_time() {
    let frames = frames(&LENGTHS).concat();
    let segments = Segments::new(Compression::None);
    let mut all = BytesMut::new();
    segments.seal(&frames, &mut all);
    let (mut sealer, mut left, mut one_by_one) = (Sealer::new(segments), &frames[..], Vec::new());
    while !left.is_empty() {
        let mut sealed = BytesMut::new();
        let taken = sealer.seal_next(left, &mut sealed);
        let whole = segments.first_bytes(&sealed, PAYLOAD_BYTES_MAX);
        assert_eq!(whole, Some(sealed.len()), "one segment");
        assert!(sealed.len() - taken <= SEGMENT_BYTES_MORE_MAX);
        one_by_one.extend_from_slice(&sealed);
        left = &left[taken..];
    }
    assert!(one_by_one == all);
}

#[test]
fn segments_of_the_other_implementation_are_opened() {
    let frames = frames(&LENGTHS);
    let encoders: [(Compression, Box<dyn OtherEncoder>); 2] = [
        (
            Compression::None,
            Box::new(UncompressedFrameEncoder::default()),
        ),
        (Compression::Lz4, Box::new(Lz4FrameEncoder::default())),
    ];
    for (compression, mut encoder) in encoders {
        let mut sealed = BytesMut::new();
        for frame in &frames {
            encoder.reset();
            if encoder.can_fit(frame.len()) {
                encoder.add_envelope(frame.clone());
                sealed.extend_from_slice(encoder.finalize_self_contained());
                continue;
            }
            let mut at = 0;
            while at < frame.len() {
                encoder.reset();
                let (taken, bytes) = encoder.finalize_non_self_contained(&frame[at..]);
                sealed.extend_from_slice(bytes);
                at += taken;
            }
        }
        let (segments, mut opened) = (Segments::new(compression), BytesMut::new());
        while let Some(bytes) = segments.first_bytes(&sealed, PAYLOAD_BYTES_MAX) {
            let taken = segments.open(&mut sealed, &mut opened, PAYLOAD_BYTES_MAX);
            assert_eq!(taken, Ok(Some(bytes)));
        }
        assert!(sealed.is_empty());
        assert!(opened == frames.concat());
    }
}

#[test]
fn every_flipped_bit_of_a_segment_is_detected() {
    for compression in [Compression::None, Compression::Lz4] {
        let segments = Segments::new(compression);
        let mut sealed = BytesMut::new();
        segments.seal(&frames(&[600]).concat(), &mut sealed);
        for bit in 0..sealed.len() * 8 {
            let mut broken = sealed.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let whole = broken.clone();
            let mut opened = BytesMut::new();
            let result = segments.open(&mut broken, &mut opened, PAYLOAD_BYTES_MAX);
            assert!(matches!(result, Err(SegmentError::Checksum { .. })));
            assert!(opened.is_empty() && broken == whole);
        }
        for cut in 0..sealed.len() {
            let mut cut = BytesMut::from(&sealed[..cut]);
            assert_eq!(segments.first_bytes(&cut, PAYLOAD_BYTES_MAX), None);
            let opened = segments.open(&mut cut, &mut BytesMut::new(), PAYLOAD_BYTES_MAX);
            assert_eq!(opened, Ok(None));
        }
    }
}

/// The segment's header is enough for the error: it shows that the payload, before or after
/// compression, is longer than the limit.
#[test]
fn a_segment_that_is_too_long_is_an_error_at_once() {
    let frames = frames(&[6000]).concat();
    for (compression, header_bytes) in [(Compression::None, 6), (Compression::Lz4, 8)] {
        let segments = Segments::new(compression);
        let mut sealed = BytesMut::new();
        segments.seal(&frames, &mut sealed);
        let mut begun = BytesMut::from(&sealed[..header_bytes]);
        let (bytes, bytes_max) = (frames.len(), frames.len() - 1);
        let error = segments.open(&mut begun, &mut BytesMut::new(), bytes_max);
        assert_eq!(error, Err(SegmentError::TooLong { bytes, bytes_max }));
        assert_eq!(segments.first_bytes(&begun, bytes_max), Some(0));
        assert_eq!(segments.first_bytes(&begun, bytes), None);
        let whole = sealed.len();
        let opened = segments.open(&mut sealed, &mut BytesMut::new(), bytes);
        assert_eq!(opened, Ok(Some(whole)));
    }
}

/// The checksums are right, but the block is damaged.
#[test]
fn a_segment_that_does_not_decompress_is_an_error() {
    let segments = Segments::new(Compression::Lz4);
    let mut encoder = Lz4FrameEncoder::default();
    encoder.reset();
    encoder.add_envelope(frames(&[600]).concat());
    let sealed = encoder.finalize_self_contained().to_vec();
    // A header with another plain length, and the checksum of that header.
    let mut sealed = BytesMut::from(&sealed[..]);
    let mut fields = sealed[..5].to_vec();
    fields[2] ^= 0b10;
    let crc = cassandra_protocol::crc::crc24(&fields);
    sealed[..5].copy_from_slice(&fields);
    sealed[5..8].copy_from_slice(&crc.to_le_bytes()[..3]);
    let mut opened = BytesMut::new();
    let error = segments.open(&mut sealed, &mut opened, PAYLOAD_BYTES_MAX);
    assert!(
        matches!(error, Err(SegmentError::Block { .. })),
        "{error:?}"
    );
    assert!(opened.is_empty());
}

#[test]
fn a_version_cannot_change_on_a_connection() {
    let mut decoder = FrameDecoder::new(Direction::Request, 1000);
    let options = |version| {
        let mut out = BytesMut::new();
        Request::Options.encode(&mut out, 9, version);
        out
    };
    for version in Version::ALL {
        let frame = decoder.decode(&mut options(version)).unwrap().unwrap();
        assert_eq!(frame.version, version);
    }
    decoder.set_version(Version::V5);
    assert!(decoder.decode(&mut options(Version::V5)).is_ok());
    let error = decoder.decode(&mut options(Version::V4)).unwrap_err();
    assert_eq!((error.stream(), error.is_fatal()), (9, true));
    let message = "Invalid message version. Got 4/v4 but previous messages on this connection \
                   had version 5/v5";
    assert_eq!(error.to_string(), message);
}

#[test]
fn columns_are_known_by_their_id() {
    let (known, others) = (columns(), columns_of_two_tables());
    let id = known.id();
    let asks = |skip_metadata, id| QueryParameters {
        skip_metadata,
        result_metadata_id: id,
        ..QueryParameters::default()
    };
    let of = |skip, id, columns| Metadata::of(&asks(skip, id), Some(&known), columns);
    assert_eq!(of(true, Some(&id), &known), Metadata::Skipped);
    assert_eq!(of(false, Some(&id), &known), Metadata::Full);
    for skip in [false, true] {
        assert_eq!(of(skip, Some(&id), &others), Metadata::Changed);
    }
    assert_eq!(of(true, None, &known), Metadata::Skipped);
    assert_eq!(of(true, None, &others), Metadata::Full);
    assert_eq!(of(false, None, &known), Metadata::Full);
}

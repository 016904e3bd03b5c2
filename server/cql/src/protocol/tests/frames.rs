//! Frames that are incomplete, invalid or empty.

use bytes::{BufMut, BytesMut};

use super::super::*;
use super::samples::*;

fn requests() -> FrameDecoder {
    FrameDecoder::new(Direction::Request, 1000)
}

fn header(version: u8, flags: u8, stream: i16, opcode: u8, length: u32) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(version);
    out.put_u8(flags);
    out.put_i16(stream);
    out.put_u8(opcode);
    out.put_u32(length);
    out
}

#[test]
fn frames_are_decoded_from_any_pieces() {
    let mut sent = BytesMut::new();
    for text in ["a", "b", "c"] {
        Request::Prepare {
            text,
            keyspace: None,
        }
        .encode(&mut sent, 0, Compression::None);
    }
    for piece in [1, 2, 7, 10, 1000] {
        let mut buffer = BytesMut::new();
        let mut texts = Vec::new();
        for bytes in sent.chunks(piece) {
            buffer.extend_from_slice(bytes);
            while let Some(frame) = requests().decode(&mut buffer).unwrap() {
                match Request::decode(&frame).unwrap() {
                    Request::Prepare {
                        text,
                        keyspace: None,
                    } => texts.push(text.to_owned()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(texts, ["a", "b", "c"]);
    }
}

#[test]
fn an_unsupported_version_is_answered_in_its_stream() {
    for version in [3, 6, 0x41, 0x42, b'G'] {
        let error = requests().decode(&mut header(version, 0, 9, 5, 0));
        let error = error.unwrap_err();
        assert_eq!(error, FrameError::Version { version, stream: 9 });
        assert!(error.is_fatal());
        let mut out = BytesMut::new();
        let answer = Response::Error(error.clone().into());
        answer.encode(
            &mut out,
            error.stream(),
            &Head::default(),
            Compression::None,
        );
        assert_eq!(out[..5], [0x84, 0, 0, 9, 0]);
        let frame = decode_one(&out, Direction::Response, Compression::None).unwrap();
        let Response::Error(error) = Answer::decode(&frame).unwrap().response else {
            panic!("no error");
        };
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(
            error
                .message
                .contains("supported versions are (4/v4, 5/v5)")
        );
    }
}

/// Headers of version 1 and 2 have eight bytes: a decoder that waited for nine would wait forever.
#[test]
fn a_version_with_shorter_headers_is_refused_at_once() {
    let error = requests().decode(&mut BytesMut::from(&[2, 0, 5, 5, 0, 0, 0, 0][..]));
    let (version, stream) = (2, 5);
    assert_eq!(error, Err(FrameError::Version { version, stream }));
}

#[test]
fn a_length_past_the_limit_is_refused_before_the_body_comes() {
    for body_bytes in [1001, i32::MAX as u32] {
        let mut buffer = header(4, 0, 1, 7, body_bytes);
        let error = requests().decode(&mut buffer).unwrap_err();
        let expected = FrameError::TooLong {
            body_bytes,
            body_bytes_max: 1000,
            stream: 1,
        };
        assert_eq!(error, expected);
        assert!(error.is_fatal());
        assert_eq!(buffer.len(), HEADER_BYTES, "the frame is still there");
        let response = ErrorResponse::from(error);
        assert_eq!(response.kind, ErrorKind::Invalid);
        let message =
            format!("Request is too big: length {body_bytes} exceeds maximum allowed length 1000.");
        assert_eq!(response.message, message);
    }
    let waits = requests().decode(&mut header(4, 0, 1, 7, 1000));
    assert_eq!(waits, Ok(None));
}

#[test]
fn a_negative_length_is_an_error_of_the_protocol() {
    for (bytes, length) in [(u32::MAX, -1), (1 << 31, i32::MIN)] {
        let error = requests().decode(&mut header(5, 0, 1, 7, bytes));
        let error = error.unwrap_err();
        assert_eq!(error, FrameError::Length { length, stream: 1 });
        assert!(error.is_fatal());
        assert_eq!(ErrorResponse::from(error).kind, ErrorKind::Protocol);
    }
}

#[test]
fn a_response_is_no_request() {
    let error = requests().decode(&mut header(0x84, 0, 1, 2, 0));
    assert!(matches!(error, Err(FrameError::Direction { .. })));
}

#[test]
fn a_negative_stream_is_refused_and_the_next_frame_comes_out() {
    let mut buffer = header(4, 0, -2, 5, 0);
    buffer.unsplit(header(4, 0, 2, 5, 0));
    let error = requests().decode(&mut buffer).unwrap_err();
    assert_eq!((error.stream(), error.is_fatal()), (-2, false));
    let frame = requests().decode(&mut buffer).unwrap().unwrap();
    assert_eq!(Request::decode(&frame), Ok(Request::Options));
}

#[test]
fn opcodes_that_no_request_has_are_errors() {
    for opcode in 0..=u8::MAX {
        let frame = requests().decode(&mut header(4, 0, 0, opcode, 0));
        let frame = frame.unwrap().unwrap();
        let error = Request::decode(&frame);
        match Opcode::from_code(opcode) {
            Err(unknown) => assert_eq!(error, Err(unknown)),
            Ok(Opcode::Options) => assert_eq!(error, Ok(Request::Options)),
            Ok(_) => assert!(error.is_err(), "an empty body does for opcode {opcode}"),
        }
    }
}

#[test]
fn an_unexpected_compressed_body_ends_its_request_only() {
    let mut buffer = header(4, flag::COMPRESSION, 6, 7, 4);
    buffer.put_u32(0);
    let error = requests().decode(&mut buffer).unwrap_err();
    assert_eq!((error.stream(), error.is_fatal()), (6, false));
    assert!(buffer.is_empty());
}

#[test]
fn a_decompression_bomb_is_refused_by_its_stated_length() {
    let plain = vec![0; 1 << 20];
    let block = lz4_flex::block::compress(&plain);
    let mut decoder = FrameDecoder::new(Direction::Request, 1 << 19);
    decoder.set_compression(Compression::Lz4);
    // More than the limit, and different from the block's content.
    let lies = [1 << 20, u32::MAX, 5, (1 << 20) - 1, (1 << 19) - 1];
    for length in lies {
        let mut buffer = header(4, flag::COMPRESSION, 3, 7, block.len() as u32 + 4);
        buffer.put_u32(length);
        buffer.extend_from_slice(&block);
        let error = decoder.decode(&mut buffer).unwrap_err();
        assert!(buffer.is_empty() && !error.is_fatal(), "{error}");
        assert_eq!(error.stream(), 3);
        let response = ErrorResponse::from(error);
        if length > 1 << 19 {
            assert_eq!(response.kind, ErrorKind::Invalid);
            let start = format!("Request is too big: length {length} exceeds maximum");
            assert!(response.message.starts_with(&start), "{response}");
        } else {
            assert_eq!(response.kind, ErrorKind::Protocol);
        }
    }
    // More than a block of this length can contain.
    let mut small = header(4, flag::COMPRESSION, 0, 7, 6);
    small.put_u32(100_000);
    small.put_u16(0);
    assert!(decoder.decode(&mut small).is_err());
}

#[test]
fn invalid_lengths_are_errors() {
    let body = |value_length: i32| {
        let mut out = BytesMut::new();
        writer::long_string(&mut out, "SELECT 1");
        out.extend_from_slice(&[0, 1, 0x01, 0, 1]);
        out.put_i32(value_length);
        Frame {
            version: Version::V4,
            flags: 0,
            stream: 0,
            opcode: Opcode::Query as u8,
            body: out.freeze(),
        }
    };
    assert!(Request::decode(&body(0)).is_ok());
    assert!(Request::decode(&body(-1)).is_ok());
    assert!(Request::decode(&body(-2)).is_ok());
    for length in [-3, i32::MIN, 1, i32::MAX] {
        assert!(Request::decode(&body(length)).is_err(), "{length}");
    }
}

#[test]
fn a_body_cut_anywhere_is_an_error() {
    each_request(|request| {
        let mut out = BytesMut::new();
        request.encode_body_in(&mut out, Version::V4);
        for cut in 0..out.len() {
            let frame = Frame {
                version: Version::V4,
                flags: 0,
                stream: 0,
                opcode: request.opcode() as u8,
                body: out.clone().freeze().slice(..cut),
            };
            assert!(Request::decode(&frame).is_err(), "{request:?} at {cut}");
        }
    });
    for response in responses() {
        let mut out = BytesMut::new();
        response.encode_body(&mut out);
        for cut in 0..out.len() {
            let frame = Frame {
                version: Version::V4,
                flags: 0,
                stream: 0,
                opcode: response.opcode() as u8,
                body: out.clone().freeze().slice(..cut),
            };
            assert!(Answer::decode(&frame).is_err(), "{response:?} at {cut}");
        }
    }
}

#[test]
fn a_custom_payload_is_skipped() {
    let mut body = BytesMut::new();
    writer::list(&mut body, &["a", "b"], |out, key| {
        writer::string(out, key);
        writer::bytes(out, Some(b"for another handler"));
    });
    Request::Prepare {
        text: "x",
        keyspace: None,
    }
    .encode_body_in(&mut body, Version::V4);
    let frame = Frame {
        version: Version::V4,
        flags: flag::CUSTOM_PAYLOAD,
        stream: 0,
        opcode: Opcode::Prepare as u8,
        body: body.freeze(),
    };
    assert_eq!(
        Request::decode(&frame),
        Ok(Request::Prepare {
            text: "x",
            keyspace: None
        })
    );
}

#[test]
fn a_batch_with_names_of_values_is_refused() {
    // An unlogged batch with no statements, consistency ONE, and names of values.
    let frame = Frame {
        version: Version::V4,
        flags: 0,
        stream: 0,
        opcode: Opcode::Batch as u8,
        body: (&[1, 0, 0, 0, 1, 0x40][..]).into(),
    };
    assert!(matches!(
        Request::decode(&frame),
        Err(ProtocolError::Flags { flags: 0x40, .. })
    ));
}

#[test]
fn a_page_size_is_not_0_and_a_negative_one_turns_paging_off() {
    let refused = ProtocolError::Forbidden("The page size cannot be 0");
    for (rows, expected) in [
        (1, Ok(Some(1))),
        (-1, Ok(None)),
        (i32::MIN, Ok(None)),
        (0, Err(refused)),
    ] {
        // A QUERY without text, with consistency ONE and a page size.
        let mut body = BytesMut::from(&[0, 0, 0, 0, 0, 1, 0x04][..]);
        body.put_i32(rows);
        let frame = Frame {
            version: Version::V4,
            flags: 0,
            stream: 0,
            opcode: Opcode::Query as u8,
            body: body.freeze(),
        };
        let decoded = Request::decode(&frame).map(|request| match request {
            Request::Query { parameters, .. } => parameters.page_size_rows,
            other => panic!("{other:?}"),
        });
        assert_eq!(decoded, expected);
    }
}

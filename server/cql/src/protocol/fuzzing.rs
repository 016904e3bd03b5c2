//! The decoders as functions of any bytes. None may panic, loop, or allocate out of proportion, and
//! each decoded message must survive encoding and decoding.
//!
//! The tests call them with damaged frames; `server/cql/fuzz` calls them from libFuzzer.

use bytes::BytesMut;

use super::{
    Answer, Compression, Direction, Frame, FrameDecoder, FrameError, OpenFrame, Request, Response,
};

const BODY_BYTES_MAX: usize = 1 << 16;

/// Calls `each` with the frames in the bytes, including compressed ones. Skips invalid frames, and
/// stops at a fatal error or an incomplete frame.
fn frames(bytes: &[u8], direction: Direction, mut each: impl FnMut(&Frame)) {
    let mut decoder = FrameDecoder::new(direction, BODY_BYTES_MAX);
    decoder.set_compression(Compression::Lz4);
    let mut buffer = BytesMut::from(bytes);
    loop {
        let left_bytes = buffer.len();
        match decoder.decode(&mut buffer) {
            Ok(None) => return,
            Ok(Some(frame)) => {
                assert!(frame.body.len() <= BODY_BYTES_MAX);
                each(&frame);
            }
            Err(error) if error.is_fatal() => return,
            Err(error) => assert!(matches!(
                error,
                FrameError::Body { .. } | FrameError::TooLongPlain { .. }
            )),
        }
        assert!(buffer.len() < left_bytes, "a frame takes no bytes");
    }
}

/// Returns the frame that `encode` appends to a buffer. Panics if it does not append exactly one
/// whole frame.
fn again(direction: Direction, encode: impl FnOnce(&mut BytesMut)) -> Frame {
    let mut out = BytesMut::new();
    encode(&mut out);
    let decoder = FrameDecoder::new(direction, usize::MAX);
    let frame = decoder.decode(&mut out).expect("our own frame");
    assert!(out.is_empty(), "one frame");
    frame.expect("a whole frame")
}

/// Decodes the requests in any bytes, and checks that each survives encoding and decoding.
pub fn requests(bytes: &[u8]) {
    frames(bytes, Direction::Request, |frame| {
        let Ok(request) = Request::decode(frame) else {
            return;
        };
        let encoded = again(Direction::Request, |out| {
            request.encode(out, frame.stream, frame.version);
        });
        assert_eq!(Request::decode(&encoded), Ok(request));
    });
}

/// Decodes the responses in any bytes, and checks that each survives encoding and decoding.
pub fn responses(bytes: &[u8]) {
    frames(bytes, Direction::Response, |frame| {
        let Ok(answer) = Answer::decode(frame) else {
            return;
        };
        let encoded = again(Direction::Response, |out| {
            let opcode = answer.response.opcode();
            let open = OpenFrame::begin(
                out,
                frame.version,
                Direction::Response,
                frame.stream,
                opcode,
            );
            answer.response.encode_body_in(out, frame.version);
            open.finish(out, Compression::None).unwrap();
        });
        let decoded = Answer::decode(&encoded).map(|answer| answer.response);
        assert_eq!(decoded, Ok(answer.response));
        if let Ok(Response::Rows(rows)) = decoded {
            let cells = rows.len() * rows.column_count();
            assert_eq!(rows.cells().count(), cells);
        }
    });
}

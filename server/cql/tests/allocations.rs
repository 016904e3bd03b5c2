//! The memory that requests and rows take. This is the only test of its binary, so that no other test
//! allocates at the same time.

use bytes::BytesMut;
use ebb_cql::protocol::{
    BODY_BYTES_MAX_DEFAULT, ColumnSpec, Columns, Compression, Direction, Frame, FrameDecoder, Head,
    Metadata, Opcode, OpenFrame, QueryParameters, Request, RowsWriter, Value, ValuesBuf, Version,
};
use ebb_model::types::CqlType;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The number of measurements of a peak.
const MEASUREMENTS: usize = 10;

/// Returns the peak memory of `run` in bytes, without the memory that was allocated before. It is
/// the minimum of several measurements, because the main thread of the test runner may allocate
/// during some of them.
fn peak_bytes(mut run: impl FnMut()) -> usize {
    let mut measure = || {
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        run();
        MEMORY.peak_usage().saturating_sub(before)
    };
    let peaks = (0..MEASUREMENTS).map(|_| measure());
    peaks.min().expect("there are measurements")
}

fn frame(opcode: Opcode, body: Vec<u8>) -> Frame {
    Frame {
        version: Version::V4,
        flags: 0,
        stream: 0,
        opcode: opcode as u8,
        body: body.into(),
    }
}

#[test]
fn the_hot_path_allocates_nothing_and_false_lengths_little() {
    // An EXECUTE, decoded with its values several times in each measurement.
    const DECODED: usize = 4;
    let mut values = ValuesBuf::new();
    for _ in 0..100 {
        values.push(Value::Bytes(b"a value"));
    }
    let parameters = QueryParameters {
        values: values.as_values(),
        skip_metadata: true,
        ..QueryParameters::default()
    };
    let mut buffer = BytesMut::with_capacity(1 << 16);
    let request = Request::Execute {
        id: &[7; 16],
        parameters,
    };
    for _ in 0..1 + MEASUREMENTS * DECODED {
        request.encode(&mut buffer, 1, Compression::None);
    }
    let decoder = FrameDecoder::new(Direction::Request, BODY_BYTES_MAX_DEFAULT);
    let decode = |buffer: &mut BytesMut| {
        let frame = decoder.decode(buffer).unwrap().unwrap();
        let Ok(Request::Execute { parameters, .. }) = Request::decode(&frame) else {
            panic!("no EXECUTE");
        };
        assert_eq!(parameters.values.iter().count(), 100);
        frame
    };
    // The first frame makes the buffer a shared one: once per buffer.
    let first = decode(&mut buffer);
    let peak = peak_bytes(|| {
        for _ in 0..DECODED {
            drop(decode(&mut buffer));
        }
    });
    assert_eq!(peak, 0);
    assert!(buffer.is_empty(), "each frame was decoded");
    drop(first);

    // A page of rows, into a buffer with enough room.
    let column = ColumnSpec {
        keyspace: "ks",
        table: "t",
        name: "v",
        ty: &CqlType::Blob,
    };
    let columns = Columns::new(&[column]);
    let mut out = BytesMut::with_capacity(1 << 20);
    let peak = peak_bytes(|| {
        out.clear();
        let frame = OpenFrame::response(&mut out, Version::V4, 1, Opcode::Result, &Head::default());
        let mut rows = RowsWriter::new(&mut out, &columns, Metadata::Full, Version::V4);
        for _ in 0..1000 {
            rows.cell(Some(&[1; 100]));
            rows.end_row();
        }
        rows.finish(Some(b"state"));
        frame.finish(&mut out, Compression::None).unwrap();
    });
    assert_eq!(peak, 0);

    // Counts far above the content: a batch, rows, columns, options.
    let lies = [
        (Opcode::Batch, vec![1, 0xff, 0xff, 0, 0, 0, 0, 0]),
        (Opcode::Startup, vec![0xff; 100]),
        (Opcode::Register, vec![0xff; 100]),
        (Opcode::Query, vec![0x7f; 100]),
        (Opcode::Execute, vec![0x7f; 100]),
        (Opcode::Prepare, vec![0x7f; 100]),
    ];
    for (opcode, body) in lies {
        let frame = frame(opcode, body);
        let peak = peak_bytes(|| assert!(Request::decode(&frame).is_err()));
        assert!(peak < 4096, "{opcode:?} took {peak} bytes");
    }

    // A batch with the maximal number of statements for its bytes takes a small multiple.
    let statements = 20_000u16;
    let mut body = vec![1];
    body.extend(statements.to_be_bytes());
    (0..statements).for_each(|_| body.extend([1, 0, 0, 0, 0]));
    body.extend([0, 1, 0]);
    let sent_bytes = body.len();
    let frame = frame(Opcode::Batch, body);
    let peak = peak_bytes(|| drop(Request::decode(&frame).unwrap()));
    // A statement has 5 bytes in the frame and some 50 in memory, and the list grows by doubling: its
    // peak is some 25 times the bytes sent. The rest is a margin.
    assert!(
        peak <= 64 * sent_bytes,
        "{peak} bytes for {sent_bytes} sent"
    );

    // A compressed body that states the limit, and is empty.
    let mut decoder = decoder;
    decoder.set_compression(Compression::Lz4);
    let claim = (BODY_BYTES_MAX_DEFAULT as u32).to_be_bytes();
    let mut bomb = BytesMut::from(&[4, 1, 0, 0, 7, 0, 0, 0, 6][..]);
    bomb.extend_from_slice(&claim);
    bomb.extend_from_slice(&[0, 0]);
    // Each measurement decodes a copy of these bytes, because decoding takes them off the buffer.
    let peak = peak_bytes(|| assert!(decoder.decode(&mut bomb.clone()).is_err()));
    assert!(peak < 4096, "a bomb took {peak} bytes");
}

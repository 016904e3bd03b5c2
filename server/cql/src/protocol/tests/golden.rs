//! Frames byte by byte, as in the specification.

use bytes::BytesMut;
use ebb_model::types::CqlType;

use super::super::*;
use super::samples::decode_one;

fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn a_query_is_these_bytes() {
    let mut values = ValuesBuf::new();
    values.push(Value::Bytes(&[1, 2])).push(Value::Unset);
    let request = Request::Query {
        text: "SELECT 1",
        parameters: QueryParameters {
            consistency: Consistency::LocalOne,
            values: values.as_values(),
            skip_metadata: true,
            page_size_rows: Some(100),
            paging_state: Some(&[0xaa]),
            serial_consistency: Some(Consistency::Serial),
            timestamp_us: Some(5),
            ..QueryParameters::default()
        },
    };
    let expected = bytes(&[
        // version 4, no flags, stream 258, QUERY, 46 bytes
        &[0x04, 0x00, 0x01, 0x02, 0x07, 0, 0, 0, 46],
        &[0, 0, 0, 8],
        b"SELECT 1",
        // LOCAL_ONE; values, skip metadata, page size, paging state, serial
        // consistency and timestamp
        &[0x00, 0x0a, 0x3f],
        &[0, 2, 0, 0, 0, 2, 1, 2, 0xff, 0xff, 0xff, 0xfe],
        &[0, 0, 0, 100],
        &[0, 0, 0, 1, 0xaa],
        &[0x00, 0x08],
        &[0, 0, 0, 0, 0, 0, 0, 5],
    ]);
    let mut out = BytesMut::new();
    request.encode(&mut out, 258, Compression::None);
    assert_eq!(out, expected);
}

#[test]
fn an_error_is_these_bytes() {
    let error = ErrorResponse::new(
        ErrorKind::ReadTimeout {
            consistency: Consistency::One,
        },
        "late",
    );
    let expected = bytes(&[
        &[0x84, 0x00, 0x00, 0x07, 0x00, 0, 0, 0, 21],
        &[0x00, 0x00, 0x12, 0x00, 0, 4],
        b"late",
        &[0x00, 0x01, 0, 0, 0, 0, 0, 0, 0, 1, 0],
    ]);
    let mut out = BytesMut::new();
    Response::Error(error).encode(&mut out, 7, &Head::default(), Compression::None);
    assert_eq!(out, expected);
}

#[test]
fn errors_have_the_counts_of_the_only_replica() {
    let consistency = Consistency::One;
    let timeout = ErrorKind::WriteTimeout {
        consistency,
        write_type: WriteType::Cas,
    };
    let failure = ErrorKind::ReadFailure { consistency };
    for (kind, code, rest) in [
        (timeout, 0x11_u8, bytes(&[&[0, 3], b"CAS"])),
        // One replica failed, and there are no data.
        (failure, 0x13, bytes(&[&[0, 0, 0, 1], &[0]])),
    ] {
        let expected = bytes(&[
            &[0, 0, code, 0, 0, 4],
            b"late",
            // ONE; no replica responded, and the server waited for one.
            &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
            &rest[..],
        ]);
        let mut body = BytesMut::new();
        Response::Error(ErrorResponse::new(kind, "late")).encode_body(&mut body);
        assert_eq!(body, expected);
    }
}

#[test]
fn rows_are_these_bytes() {
    let spec = ColumnSpec {
        keyspace: "k",
        table: "t",
        name: "v",
        ty: &ebb_model::types::CqlType::Int,
    };
    let mut out = BytesMut::new();
    let head = Head {
        tracing_id: Some([0x11; 16]),
        warnings: &["w".to_owned()],
    };
    let frame = OpenFrame::response(&mut out, Version::V4, 1, Opcode::Result, &head);
    let mut rows = RowsWriter::new(
        &mut out,
        &Columns::new(&[spec]),
        Metadata::Full,
        Version::V4,
    );
    rows.cell(Some(&[0, 0, 0, 9]));
    rows.end_row();
    rows.cell(None);
    rows.end_row();
    rows.finish(Some(&[0xbb]));
    frame.finish(&mut out, Compression::None).unwrap();
    let expected = bytes(&[
        // RESULT with a trace and warnings
        &[0x84, 0x0a, 0x00, 0x01, 0x08, 0, 0, 0, 65],
        &[0x11; 16],
        &[0, 1, 0, 1],
        b"w",
        // Rows; one table, more pages; one column; paging state
        &[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0xbb],
        &[0, 1, b'k', 0, 1, b't', 0, 1, b'v', 0x00, 0x09],
        &[0, 0, 0, 2],
        &[0, 0, 0, 4, 0, 0, 0, 9],
        &[0xff, 0xff, 0xff, 0xff],
    ]);
    assert_eq!(out, expected);
}

#[test]
fn durations_have_an_id_since_version_5_and_a_class_before() {
    let ty = CqlType::map(
        CqlType::Text,
        CqlType::tuple([CqlType::Duration, CqlType::Int]),
    );
    let spec = ColumnSpec {
        keyspace: "k",
        table: "t",
        name: "v",
        ty: &ty,
    };
    let columns = Columns::new(&[spec, ColumnSpec { name: "w", ..spec }]);
    let class = &b"\0\0\0\x2corg.apache.cassandra.db.marshal.DurationType"[..];
    for (version, duration) in [(Version::V4, class), (Version::V5, &[0, 0x15])] {
        let mut body = BytesMut::new();
        RowsWriter::new(&mut body, &columns, Metadata::Full, version).finish(None);
        let ty = [&[0, 0x21, 0, 0x0d, 0, 0x31, 0, 2], duration, &[0, 0x09]].concat();
        let expected = bytes(&[
            &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
            &[0, 1, b'k', 0, 1, b't'],
            &[0, 1, b'v'],
            &ty,
            &[0, 1, b'w'],
            &ty,
            &[0, 0, 0, 0],
        ]);
        assert_eq!(body, expected);
        // Columns that were decoded in one version can be encoded in the other.
        let frame = Frame {
            version,
            flags: 0,
            stream: 0,
            opcode: Opcode::Result as u8,
            body: body.freeze(),
        };
        let Response::Rows(rows) = Answer::decode(&frame).unwrap().response else {
            panic!("no rows");
        };
        assert_eq!(rows.columns, Some(columns.clone()));
    }
}

#[test]
fn a_schema_change_is_these_bytes() {
    let change = SchemaChange {
        kind: SchemaChangeKind::Updated,
        keyspace: "k".into(),
        target: SchemaTarget::Table("t".into()),
    };
    let mut out = BytesMut::new();
    let event = Response::Event(change);
    event.encode(&mut out, EVENT_STREAM, &Head::default(), Compression::None);
    let expected = bytes(&[
        &[0x84, 0x00, 0xff, 0xff, 0x0c, 0, 0, 0, 37],
        b"\x00\x0dSCHEMA_CHANGE\x00\x07UPDATED\x00\x05TABLE\x00\x01k\x00\x01t",
    ]);
    assert_eq!(out, expected);
}

#[test]
fn a_compressed_body_is_its_length_and_a_block() {
    // A block may consist of literals only: their number is in the upper half of its first byte.
    let body = b"\x00\x00\x00\x04late";
    let block = [&[(body.len() as u8) << 4][..], body].concat();
    let frame = [
        &[0x04, 0x01, 0, 0, 0x09, 0, 0, 0, 13, 0, 0, 0, 8][..],
        &block,
    ]
    .concat();
    let frame = decode_one(&frame, Direction::Request, Compression::Lz4).unwrap();
    assert_eq!(
        Request::decode(&frame).unwrap(),
        Request::Prepare {
            text: "late",
            keyspace: None
        }
    );
}

/// The expected ids come from `md5sum`.
#[test]
fn the_id_of_a_statement_is_the_md5_of_keyspace_and_text() {
    let hex = |id: [u8; 16]| -> String { id.iter().map(|b| format!("{b:02x}")).collect() };
    let text = "SELECT * FROM t WHERE k = ?";
    assert_eq!(
        hex(prepared_id(None, text)),
        "e0eabdfa3f46f160e293bd8f28d998d9"
    );
    assert_eq!(
        hex(prepared_id(Some("ks"), text)),
        "a19706c7d99afa8ca2cf81c196871f10"
    );
}

//! One of each request and response, with every optional part that version 4 of the protocol has.
//! The tests of version 5 add its parts to these.

use bytes::{Bytes, BytesMut};
use ebb_model::types::CqlType;

use super::super::*;

pub fn execute<'a>(id: &'a [u8], values: &'a ValuesBuf) -> Request<'a> {
    let parameters = QueryParameters {
        consistency: Consistency::LocalQuorum,
        values: values.as_values(),
        skip_metadata: true,
        page_size_rows: Some(5000),
        paging_state: Some(b"where it ended"),
        serial_consistency: Some(Consistency::LocalSerial),
        timestamp_us: Some(-1),
        ..QueryParameters::default()
    };
    Request::Execute { id, parameters }
}

/// Calls `each` with every kind of request.
pub fn each_request(mut each: impl FnMut(Request<'_>)) {
    let mut values = ValuesBuf::new();
    values.push(Value::Bytes(b"seven")).push(Value::Null);
    values.push(Value::Unset).push(Value::Bytes(b""));
    let mut named = ValuesBuf::new();
    named.push_named("id", Value::Bytes(&[0, 0, 0, 7]));
    named.push_named("größe", Value::Null);
    let parameters = QueryParameters {
        values: named.as_values(),
        ..QueryParameters::default()
    };
    let startup = Startup {
        options: vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")],
    };
    let batch = Batch {
        kind: BatchKind::Unlogged,
        statements: vec![
            BatchStatement {
                statement: StatementRef::Text("INSERT INTO t (a) VALUES (1)"),
                values: Values::default(),
            },
            BatchStatement {
                statement: StatementRef::Prepared(&[7; 16]),
                values: values.as_values(),
            },
        ],
        consistency: Consistency::One,
        serial_consistency: Some(Consistency::Serial),
        timestamp_us: Some(1_700_000_000_000_000),
        keyspace: None,
        now_s: None,
    };
    let select = "SELECT * FROM system.local WHERE key = 'local'";
    each(Request::Startup(startup));
    each(Request::Options);
    each(Request::Query {
        text: select,
        parameters: QueryParameters::default(),
    });
    each(Request::Query {
        text: "SELECT a FROM t WHERE id = :id",
        parameters,
    });
    each(Request::Prepare {
        text: select,
        keyspace: None,
    });
    each(execute(&[9; 16], &values));
    each(Request::Batch(batch));
    each(Request::Register(EventTypes {
        status: true,
        schema: true,
        ..EventTypes::default()
    }));
    each(Request::AuthResponse {
        token: Some(b"\0user\0word"),
    });
    each(Request::AuthResponse { token: None });
}

pub fn columns() -> Columns {
    let types = [
        CqlType::Int,
        CqlType::map(CqlType::Text, CqlType::Duration),
        CqlType::tuple([CqlType::Bigint, CqlType::list(CqlType::Uuid)]),
    ];
    let names = ["a", "b", "count(*)"];
    let spec = |(name, ty)| ColumnSpec {
        keyspace: "ks",
        table: "t",
        name,
        ty,
    };
    let specs: Vec<_> = names.into_iter().zip(&types).map(spec).collect();
    Columns::new(&specs)
}

pub fn columns_of_two_tables() -> Columns {
    let spec = |table, name| ColumnSpec {
        keyspace: "ks",
        table,
        name,
        ty: &CqlType::Blob,
    };
    Columns::new(&[spec("t", "a"), spec("u", "b"), spec("t", "c")])
}

/// Returns the body of two rows of three cells.
pub fn rows_body(
    columns: &Columns,
    metadata: Metadata,
    paging_state: Option<&[u8]>,
    version: Version,
) -> BytesMut {
    let mut out = BytesMut::new();
    let mut rows = RowsWriter::new(&mut out, columns, metadata, version);
    rows.cell(Some(&[0, 0, 0, 7]));
    rows.cell(None);
    rows.cell(Some(b"made in place"));
    rows.end_row();
    rows.cell(Some(b""));
    rows.cell(Some(b"x"));
    rows.cell(Some(b""));
    rows.end_row();
    rows.finish(paging_state);
    out
}

fn rows(columns: &Columns, metadata: Metadata, paging_state: Option<&[u8]>) -> Response {
    let frame = Frame {
        version: Version::V4,
        flags: 0,
        stream: 0,
        opcode: Opcode::Result as u8,
        body: rows_body(columns, metadata, paging_state, Version::V4).freeze(),
    };
    Answer::decode(&frame).unwrap().response
}

pub fn error_kinds() -> Vec<ErrorKind> {
    let consistency = Consistency::Quorum;
    let (keyspace, strings) = ("ks".to_owned(), vec!["int".to_owned(), "text".to_owned()]);
    vec![
        ErrorKind::Server,
        ErrorKind::Protocol,
        ErrorKind::BadCredentials,
        ErrorKind::Overloaded,
        ErrorKind::WriteTimeout {
            consistency,
            write_type: WriteType::UnloggedBatch,
        },
        // In version 5 it has one more field.
        ErrorKind::WriteTimeout {
            consistency,
            write_type: WriteType::Cas,
        },
        ErrorKind::ReadTimeout { consistency },
        ErrorKind::ReadFailure { consistency },
        ErrorKind::FunctionFailure {
            keyspace: keyspace.clone(),
            function: "f".into(),
            argument_types: strings,
        },
        ErrorKind::Syntax,
        ErrorKind::Unauthorized,
        ErrorKind::Invalid,
        ErrorKind::Config,
        ErrorKind::AlreadyExists {
            keyspace,
            table: "t".into(),
        },
        ErrorKind::Unprepared { id: vec![1; 16] },
    ]
}

fn changes() -> Vec<SchemaChange> {
    let targets = [
        SchemaTarget::Keyspace,
        SchemaTarget::Table("t".into()),
        SchemaTarget::Type("t".into()),
    ];
    let kinds = [
        SchemaChangeKind::Created,
        SchemaChangeKind::Updated,
        SchemaChangeKind::Dropped,
    ];
    let change = |(target, kind)| SchemaChange {
        kind,
        keyspace: "ks".into(),
        target,
    };
    let kinds = kinds.into_iter().cycle();
    targets.into_iter().zip(kinds).map(change).collect()
}

/// Returns every kind of response.
pub fn responses() -> Vec<Response> {
    let token = Some(Bytes::from_static(b"token"));
    let of_error = |kind| Response::Error(ErrorResponse::new(kind, "what happened"));
    let mut all: Vec<_> = error_kinds().into_iter().map(of_error).collect();
    let prepared = Prepared {
        id: Bytes::from_static(&[3; 16]),
        result_metadata_id: Bytes::new(),
        markers: columns(),
        partition_key_markers: vec![2, 0],
        columns: Some(columns_of_two_tables()),
    };
    let of_a_write = Prepared {
        columns: None,
        partition_key_markers: vec![],
        ..prepared.clone()
    };
    all.extend([
        Response::Ready,
        Response::Authenticate {
            authenticator: "org.apache.cassandra.auth.PasswordAuthenticator".into(),
        },
        Response::Supported {
            options: vec![
                ("COMPRESSION".into(), vec!["lz4".into()]),
                ("CQL_VERSION".into(), vec!["3.4.5".into(), "3.0.0".into()]),
            ],
        },
        Response::Void,
        rows(&columns(), Metadata::Full, None),
        rows(&columns(), Metadata::Skipped, Some(b"state")),
        rows(
            &columns_of_two_tables(),
            Metadata::Full,
            Some(b"a longer state"),
        ),
        Response::SetKeyspace {
            keyspace: "ks".into(),
        },
        Response::Prepared(prepared),
        Response::Prepared(of_a_write),
        Response::AuthChallenge {
            token: token.clone(),
        },
        Response::AuthSuccess { token: None },
        Response::AuthSuccess { token },
    ]);
    all.extend(changes().into_iter().map(Response::SchemaChange));
    all.extend(changes().into_iter().map(Response::Event));
    all
}

pub fn decode_one(
    bytes: &[u8],
    direction: Direction,
    compression: Compression,
) -> Result<Frame, FrameError> {
    let mut decoder = FrameDecoder::new(direction, BODY_BYTES_MAX_DEFAULT);
    decoder.set_compression(compression);
    let mut buffer = BytesMut::from(bytes);
    let frame = decoder.decode(&mut buffer)?.expect("a whole frame");
    assert!(buffer.is_empty(), "nothing is left");
    Ok(frame)
}

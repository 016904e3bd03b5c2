//! Frames that `cassandra-protocol`, an independent implementation, decodes and encodes.

use bytes::BytesMut;
use cassandra_protocol::compression::Compression as OtherCompression;
use cassandra_protocol::consistency::Consistency as OtherConsistency;
use cassandra_protocol::frame::events::ServerEvent;
use cassandra_protocol::frame::message_batch::{
    BatchQuery, BatchQuerySubj, BatchType, BodyReqBatch,
};
use cassandra_protocol::frame::message_execute::BodyReqExecuteOwned;
use cassandra_protocol::frame::message_query::BodyReqQuery;
use cassandra_protocol::frame::message_request::RequestBody;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::{ColType, ResResultBody};
use cassandra_protocol::frame::{
    Direction as OtherDirection, Envelope, Flags, Opcode as OtherOpcode, Serialize,
    Version as OtherVersion,
};
use cassandra_protocol::query::{QueryParams, QueryValues};
use cassandra_protocol::types::value::Value as OtherValue;
use cassandra_protocol::types::{CBytes, CBytesShort};

use super::super::*;
use super::samples::*;

const COMPRESSIONS: [(Compression, OtherCompression); 2] = [
    (Compression::None, OtherCompression::None),
    (Compression::Lz4, OtherCompression::Lz4),
];

fn envelope(bytes: &[u8], compression: OtherCompression) -> Envelope {
    let parsed = Envelope::from_buffer(bytes, compression).unwrap();
    assert_eq!(parsed.envelope_len, bytes.len());
    parsed.envelope
}

/// The requests are encoded without the flag to leave out metadata, because `cassandra-protocol`,
/// the other implementation, has no such flag in its type for requests.
#[test]
fn our_requests_survive_the_other_implementation() {
    each_request(|mut request| {
        if let Request::Query { parameters, .. } | Request::Execute { parameters, .. } =
            &mut request
        {
            parameters.skip_metadata = false;
            // The other implementation keeps named values in a map, which has no order.
            if parameters.values.is_named() {
                return;
            }
        }
        if let Request::Startup(startup) = &mut request {
            startup.options.truncate(1);
        }
        for (ours, theirs) in COMPRESSIONS {
            let mut out = BytesMut::new();
            request.encode(&mut out, 12, ours);
            let envelope = envelope(&out, theirs);
            assert_eq!(envelope.stream_id, 12);
            assert_eq!(envelope.direction, OtherDirection::Request);
            let written = envelope.request_body().unwrap();
            let written = written.serialize_to_vec(OtherVersion::V4);
            let mut body = BytesMut::new();
            request.encode_body_in(&mut body, Version::V4);
            assert_eq!(body, written, "{request:?}");
        }
    });
}

fn their_parameters(values: Option<QueryValues>) -> QueryParams {
    QueryParams {
        consistency: OtherConsistency::EachQuorum,
        with_names: values.as_ref().is_some_and(QueryValues::has_names),
        values,
        page_size: Some(77),
        paging_state: Some(CBytes::new(vec![1, 2, 3])),
        serial_consistency: Some(OtherConsistency::Serial),
        timestamp: Some(-5),
        keyspace: None,
        now_in_seconds: None,
    }
}

fn decode_theirs(
    body: &RequestBody,
    opcode: OtherOpcode,
    (ours, theirs): (Compression, OtherCompression),
    check: impl FnOnce(Request<'_>),
) {
    let body = body.serialize_to_vec(OtherVersion::V4);
    let envelope = Envelope::new(
        OtherVersion::V4,
        OtherDirection::Request,
        Flags::empty(),
        opcode,
        300,
        body,
        None,
        vec![],
    );
    let bytes = envelope.encode_with(theirs).unwrap();
    let frame = decode_one(&bytes, Direction::Request, ours).unwrap();
    assert_eq!(frame.stream, 300);
    check(Request::decode(&frame).unwrap());
}

#[test]
fn requests_of_the_other_implementation_are_decoded() {
    let values = vec![
        OtherValue::Some(b"x".to_vec()),
        OtherValue::Null,
        OtherValue::NotSet,
    ];
    let simple = || Some(QueryValues::SimpleValues(values.clone()));
    let named = [("id".to_owned(), values[0].clone())];
    let query = RequestBody::Query(BodyReqQuery {
        query: "SELECT 'é'".into(),
        query_params: their_parameters(Some(QueryValues::NamedValues(named.into()))),
    });
    let execute = RequestBody::Execute(BodyReqExecuteOwned {
        id: CBytesShort::new(vec![8; 16]),
        result_metadata_id: None,
        query_parameters: their_parameters(simple()),
    });
    let batch = RequestBody::Batch(BodyReqBatch {
        batch_type: BatchType::Counter,
        queries: vec![
            BatchQuery {
                subject: BatchQuerySubj::QueryString("UPDATE 1".into()),
                values: QueryValues::SimpleValues(vec![]),
            },
            BatchQuery {
                subject: BatchQuerySubj::PreparedId(CBytesShort::new(vec![9])),
                values: simple().unwrap(),
            },
        ],
        consistency: OtherConsistency::All,
        serial_consistency: None,
        timestamp: Some(6),
        keyspace: None,
        now_in_seconds: None,
    });
    let mut ours = ValuesBuf::new();
    ours.push(Value::Bytes(b"x"));
    ours.push(Value::Null).push(Value::Unset);
    let mut ours_named = ValuesBuf::new();
    ours_named.push_named("id", Value::Bytes(b"x"));
    let parameters = |values| QueryParameters {
        consistency: Consistency::EachQuorum,
        values,
        skip_metadata: false,
        page_size_rows: Some(77),
        paging_state: Some(&[1, 2, 3]),
        serial_consistency: Some(Consistency::Serial),
        timestamp_us: Some(-5),
        ..QueryParameters::default()
    };
    for compression in COMPRESSIONS {
        decode_theirs(&query, OtherOpcode::Query, compression, |request| {
            let parameters = parameters(ours_named.as_values());
            let text = "SELECT 'é'";
            assert_eq!(request, Request::Query { text, parameters });
        });
        decode_theirs(&execute, OtherOpcode::Execute, compression, |request| {
            let (id, parameters) = (&[8; 16][..], parameters(ours.as_values()));
            assert_eq!(request, Request::Execute { id, parameters });
        });
        decode_theirs(&batch, OtherOpcode::Batch, compression, |request| {
            let expected = Batch {
                kind: BatchKind::Counter,
                statements: vec![
                    BatchStatement {
                        statement: StatementRef::Text("UPDATE 1"),
                        values: Values::default(),
                    },
                    BatchStatement {
                        statement: StatementRef::Prepared(&[9]),
                        values: ours.as_values(),
                    },
                ],
                consistency: Consistency::All,
                serial_consistency: None,
                timestamp_us: Some(6),
                keyspace: None,
                now_s: None,
            };
            assert_eq!(request, Request::Batch(expected));
        });
    }
}

fn they_read(response: &Response) -> ResponseBody {
    let warnings = ["careful".to_owned()];
    let head = Head {
        tracing_id: Some([0x11; 16]),
        warnings: &warnings,
    };
    let mut bodies = COMPRESSIONS.map(|(ours, theirs)| {
        let mut out = BytesMut::new();
        response.encode(&mut out, 5, &head, ours);
        let envelope = envelope(&out, theirs);
        assert_eq!(envelope.tracing_id.unwrap().into_bytes(), [0x11; 16]);
        assert_eq!(envelope.warnings, warnings);
        let body = envelope.response_body();
        body.unwrap_or_else(|e| panic!("{response:?}: {e}"))
    });
    let [plain, compressed] = &mut bodies;
    assert_eq!(plain, compressed);
    bodies.into_iter().next().unwrap()
}

#[test]
fn the_other_implementation_decodes_every_response() {
    // For these errors, it expects the field of version 5 also in version 4.
    let is_of_cas = |response: &Response| {
        let Response::Error(error) = response else {
            return false;
        };
        matches!(
            error.kind,
            ErrorKind::WriteTimeout {
                write_type: WriteType::Cas,
                ..
            }
        )
    };
    for response in responses().into_iter().filter(|one| !is_of_cas(one)) {
        let read = they_read(&response);
        let same = match (&response, &read) {
            (Response::Error(ours), ResponseBody::Error(theirs)) => {
                assert_eq!(ours.message, theirs.message);
                assert_eq!(ours.kind.code(), theirs.ty.to_error_code());
                // The bytes after the message are the same.
                let mut body = BytesMut::new();
                response.encode_body(&mut body);
                body == theirs.serialize_to_vec(OtherVersion::V4)
            }
            (Response::Ready, ResponseBody::Ready) => true,
            (Response::Authenticate { authenticator }, ResponseBody::Authenticate(theirs)) => {
                *authenticator == theirs.data
            }
            (Response::Supported { options }, ResponseBody::Supported(theirs)) => {
                theirs.data == options.iter().cloned().collect()
            }
            (Response::AuthChallenge { token }, ResponseBody::AuthChallenge(theirs)) => {
                token.as_deref() == theirs.data.as_slice()
            }
            // The other implementation decodes the token of AUTH_SUCCESS, but has no accessor for
            // it.
            (Response::AuthSuccess { .. }, ResponseBody::AuthSuccess(_)) => true,
            (Response::Event(_), ResponseBody::Event(theirs)) => {
                let mut body = BytesMut::new();
                response.encode_body(&mut body);
                body == ServerEvent::serialize_to_vec(&theirs.event, OtherVersion::V4)
            }
            (_, ResponseBody::Result(theirs)) => result_is_same(&response, theirs),
            _ => false,
        };
        assert!(same, "{response:?} became {read:?}");
    }
}

fn result_is_same(ours: &Response, theirs: &ResResultBody) -> bool {
    match (ours, theirs) {
        (Response::Void, ResResultBody::Void) => true,
        (Response::SetKeyspace { keyspace }, ResResultBody::SetKeyspace(theirs)) => {
            *keyspace == theirs.body
        }
        (Response::SchemaChange(_), ResResultBody::SchemaChange(_)) => {
            let mut body = BytesMut::new();
            ours.encode_body(&mut body);
            body == theirs.serialize_to_vec(OtherVersion::V4)
        }
        (Response::Prepared(ours), ResResultBody::Prepared(theirs)) => {
            let indexes = theirs.metadata.pk_indexes.iter();
            let names = theirs.metadata.col_specs.iter().map(|spec| &spec.name);
            Some(&ours.id[..]) == theirs.id.clone().into_bytes().as_deref()
                && indexes.eq(ours
                    .partition_key_markers
                    .iter()
                    .map(|i| *i as i16)
                    .collect::<Vec<_>>()
                    .iter())
                && names.eq(ours.markers.iter().map(|c| c.name))
                && theirs.result_metadata.columns_count as usize
                    == ours.columns.as_ref().map_or(0, Columns::len)
        }
        (Response::Rows(ours), ResResultBody::Rows(theirs)) => {
            let cells = theirs.rows_content.iter().flatten();
            let state = theirs.metadata.paging_state.as_ref();
            ours.cells().eq(cells.map(CBytes::as_slice))
                && ours.len() == theirs.rows_count as usize
                && ours.paging_state.as_deref() == state.and_then(CBytes::as_slice)
                && theirs.metadata.col_specs.len() == ours.columns.as_ref().map_or(0, Columns::len)
        }
        _ => false,
    }
}

#[test]
fn the_other_implementation_decodes_the_types_of_columns() {
    let body = rows_body(&columns(), Metadata::Full, None, Version::V4).freeze();
    let frame = Frame {
        version: Version::V4,
        flags: 0,
        stream: 0,
        opcode: Opcode::Result as u8,
        body,
    };
    let read = they_read(&Answer::decode(&frame).unwrap().response);
    let ResponseBody::Result(ResResultBody::Rows(rows)) = read else {
        panic!("no rows");
    };
    let global = rows.metadata.global_table_spec.unwrap();
    assert_eq!((&*global.ks_name, &*global.table_name), ("ks", "t"));
    let specs = rows.metadata.col_specs.iter();
    let specs: Vec<_> = specs.map(|c| (&*c.name, c.col_type.id)).collect();
    let expected = [
        ("a", ColType::Int),
        ("b", ColType::Map),
        ("count(*)", ColType::Tuple),
    ];
    assert_eq!(specs, expected);
}

/// The samples are too short for compression, so the test makes longer bodies.
#[test]
fn long_bodies_are_compressed_both_ways() {
    let text = "SELECT a FROM t ".repeat(1000);
    let mut out = BytesMut::new();
    Request::Prepare {
        text: &text,
        keyspace: None,
    }
    .encode(&mut out, 0, Compression::Lz4);
    assert!(out.len() < text.len() / 10);
    let read = envelope(&out, OtherCompression::Lz4).request_body();
    let RequestBody::Prepare(read) = read.unwrap() else {
        panic!("no PREPARE");
    };
    assert_eq!(read.query, text);

    let keyspace = text;
    let response = Response::SetKeyspace { keyspace };
    let mut out = BytesMut::new();
    response.encode(&mut out, 0, &Head::default(), Compression::Lz4);
    assert_eq!(out[1], flag::COMPRESSION);
    let frame = decode_one(&out, Direction::Response, Compression::Lz4).unwrap();
    assert_eq!(Answer::decode(&frame).unwrap().response, response);
    they_read(&response);
}

//! Encoded messages decode to equal ones.

use bytes::{Bytes, BytesMut};
use ebb_model::types::CqlType;

use super::super::*;
use super::samples::*;

const COMPRESSIONS: [Compression; 2] = [Compression::None, Compression::Lz4];

#[test]
fn requests_come_back() {
    for compression in COMPRESSIONS {
        let mut count = 0;
        each_request(|request| {
            let mut out = BytesMut::new();
            request.encode(&mut out, 77, compression);
            let frame = decode_one(&out, Direction::Request, compression).unwrap();
            assert_eq!(frame.stream, 77);
            assert_eq!(Request::decode(&frame).unwrap(), request);
            count += 1;
        });
        assert_eq!(count, 10);
    }
}

#[test]
fn responses_come_back_with_their_heads() {
    let warnings = ["too large".to_owned(), "too many".to_owned()];
    let heads = [
        Head::default(),
        Head {
            tracing_id: Some(*b"a trace of mine!"),
            warnings: &warnings,
        },
    ];
    for response in responses() {
        for head in heads {
            for compression in COMPRESSIONS {
                let mut out = BytesMut::new();
                response.encode(&mut out, 3, &head, compression);
                let frame = decode_one(&out, Direction::Response, compression).unwrap();
                let answer = Answer::decode(&frame).unwrap();
                assert_eq!(answer.response, response);
                assert_eq!(answer.tracing_id, head.tracing_id);
                assert_eq!(answer.warnings, head.warnings);
            }
        }
    }
}

/// Regression: the event of a type with a longer name panicked in every connection that had
/// registered for changes of the schema, and closed it.
#[test]
fn names_of_more_than_65535_bytes_are_cut_at_a_character() {
    // The letter has two bytes, so 65,534 bytes are left: the byte 65,535 is the first half of one.
    let (long, cut) = ("ä".repeat(32_800), "ä".repeat(32_767));
    let change = |name: &str| SchemaChange {
        kind: SchemaChangeKind::Created,
        keyspace: name.to_owned(),
        target: SchemaTarget::Type(name.to_owned()),
    };
    let exists = |name: &str| ErrorResponse {
        kind: ErrorKind::AlreadyExists {
            keyspace: name.to_owned(),
            table: name.to_owned(),
        },
        message: name.to_owned(),
    };
    let failure = |name: &str| {
        let kind = ErrorKind::FunctionFailure {
            keyspace: name.to_owned(),
            function: name.to_owned(),
            argument_types: vec![name.to_owned()],
        };
        ErrorResponse::new(kind, name)
    };
    let columns = |name: &str| {
        let spec = ColumnSpec {
            keyspace: name,
            table: name,
            name,
            ty: &CqlType::Int,
        };
        let columns = Columns::new(&[spec]);
        Response::Prepared(Prepared {
            id: Bytes::from_static(b"id"),
            result_metadata_id: Bytes::new(),
            markers: columns,
            partition_key_markers: Vec::new(),
            columns: None,
        })
    };
    let responses = |name: &str| {
        [
            Response::SchemaChange(change(name)),
            Response::Event(change(name)),
            Response::SetKeyspace {
                keyspace: name.to_owned(),
            },
            Response::Error(exists(name)),
            Response::Error(failure(name)),
            columns(name),
        ]
    };
    for (long, cut) in responses(&long).into_iter().zip(responses(&cut)) {
        let mut out = BytesMut::new();
        long.encode(&mut out, 1, &Head::default(), Compression::None);
        let frame = decode_one(&out, Direction::Response, Compression::None).unwrap();
        assert_eq!(Answer::decode(&frame).unwrap().response, cut);
    }
}

#[test]
fn values_can_be_read_repeatedly() {
    let mut values = ValuesBuf::new();
    values.push(Value::Bytes(b"a")).push(Value::Unset);
    let values = values.as_values();
    for _ in 0..2 {
        let all: Vec<_> = values.iter().collect();
        assert_eq!(all, [(None, Value::Bytes(b"a")), (None, Value::Unset)]);
    }
}

#[test]
fn rows_come_back_cell_by_cell() {
    let cells = [
        Some(&[0, 0, 0, 7][..]),
        None,
        Some(b"made in place"),
        Some(b""),
        Some(b"x"),
        Some(b""),
    ];
    for columns in [columns(), columns_of_two_tables()] {
        for metadata in [Metadata::Full, Metadata::Skipped, Metadata::Changed] {
            for state in [None, Some(&b"where it ended"[..]), Some(b"")] {
                let frame = Frame {
                    version: Version::V5,
                    flags: 0,
                    stream: 0,
                    opcode: Opcode::Result as u8,
                    body: rows_body(&columns, metadata, state, Version::V5).freeze(),
                };
                let Response::Rows(rows) = Answer::decode(&frame).unwrap().response else {
                    panic!("no rows");
                };
                assert_eq!((rows.len(), rows.column_count()), (2, 3));
                assert!(rows.cells().eq(cells));
                assert_eq!(rows.paging_state.as_deref(), state);
                let expected = (metadata != Metadata::Skipped).then_some(&columns);
                assert_eq!(rows.columns.as_ref(), expected);
                let id = rows.new_metadata_id.as_deref();
                let is_new = metadata == Metadata::Changed;
                assert_eq!(id, is_new.then_some(&columns.id()[..]));
            }
        }
    }
}

#[test]
fn columns_of_a_single_table_name_it_once() {
    let names = |columns: &Columns| -> Vec<String> {
        let name = |c: Column<'_>| format!("{}.{}.{}", c.keyspace, c.table, c.name);
        columns.iter().map(name).collect()
    };
    assert_eq!(names(&columns()), ["ks.t.a", "ks.t.b", "ks.t.count(*)"]);
    assert_eq!(
        names(&columns_of_two_tables()),
        ["ks.t.a", "ks.u.b", "ks.t.c"]
    );
    assert_eq!(names(&Columns::default()), [""; 0]);
}

/// Regression: columns were encoded twice even if they contained no durations, and nothing limited
/// their size: a client's statement may name a type of thousands of fields 250,000 times.
#[test]
fn encoding_columns_stops_at_the_error_of_the_charge() {
    let spec = |ty| ColumnSpec {
        keyspace: "ks",
        table: "t",
        name: "c",
        ty,
    };
    let tuple = CqlType::tuple([CqlType::Int, CqlType::Text]);
    let specs = vec![spec(&tuple); 10];
    let mut charged = Vec::new();
    let columns = Columns::try_new::<()>(&specs, &mut |bytes| {
        charged.push(bytes);
        Ok(())
    });
    assert_eq!(columns, Ok(Columns::new(&specs)));
    // For each column the name, the id and number of the types, and their ids.
    assert_eq!(charged, [3 + 4 + 2 * 2; 10]);
    let mut left = 3;
    let ended = Columns::try_new(&specs, &mut |_| {
        left -= 1;
        if left == 0 { Err("full") } else { Ok(()) }
    });
    assert_eq!((ended, left), (Err("full"), 0));
}

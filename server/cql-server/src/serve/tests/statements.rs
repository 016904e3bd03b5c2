//! Prepared statements and batches.

use ebb_cql::protocol::{BatchStatement, Value, ValuesBuf};

use super::*;
use crate::call::NOT_A_WRITE;

/// Prepares a statement, and returns the response.
pub(super) fn prepare(client: &mut Client, text: &str) -> Response {
    let keyspace = None;
    client.send(1, &Request::Prepare { text, keyspace });
    client.response()
}

/// Prepares a statement, and returns its id.
#[track_caller]
pub(super) fn prepared(client: &mut Client, text: &str) -> Vec<u8> {
    match prepare(client, text) {
        Response::Prepared(prepared) => prepared.id.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Executes a prepared statement, and returns whether the server still has it.
#[track_caller]
pub(super) fn is_prepared(client: &mut Client, id: &[u8]) -> bool {
    let parameters = parameters();
    client.send(2, &Request::Execute { id, parameters });
    match client.response() {
        Response::Void => true,
        Response::Error(error) => {
            let id = id.to_vec();
            assert_eq!(error.kind, ErrorKind::Unprepared { id });
            false
        }
        other => panic!("{other:?}"),
    }
}

/// Returns a batch of these statements, without values.
pub(super) fn batch_of<'a>(statements: &[StatementRef<'a>]) -> Batch<'a> {
    let part = |statement: &StatementRef<'a>| BatchStatement {
        statement: *statement,
        values: Values::default(),
    };
    Batch {
        kind: BatchKind::Unlogged,
        statements: statements.iter().map(part).collect(),
        consistency: Consistency::One,
        serial_consistency: None,
        timestamp_us: None,
        keyspace: None,
        now_s: None,
    }
}

#[test]
fn prepared_statements_are_executed_by_id_and_unknown_ids_get_unprepared() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let id = prepared(&mut client, "put");
    assert!(is_prepared(&mut client, &id));
    assert!(!is_prepared(&mut client, b"another"));
    // The id is the same on another connection, unless the statement depends on the keyspace.
    let mut other = Client::new(&server);
    assert!(is_prepared(&mut other, &id));
    let mut ids = Vec::new();
    for keyspace in ["use a", "use b"] {
        for text in ["put", "put unqualified"] {
            other.query(1, keyspace);
            other.receive();
            ids.push(prepared(&mut other, text));
        }
    }
    assert_eq!([&ids[0], &ids[2]], [&id, &id]);
    assert_ne!(ids[1], ids[3]);
}

/// Regression: a statement that was prepared for a table with other types was executed on the table
/// that replaced it. Regression: a schema change, and PREPARE on a thread that serves connections,
/// analysed each prepared statement again without a limit, and all other changes of the schema waited.
#[test]
fn a_schema_change_drops_statements_that_it_made_outdated_or_that_take_too_long_to_analyse_again() {
    for dropped in ["put outdated", "put endless"] {
        let (_, server) = server(options());
        let mut client = Client::new(&server);
        let ids = ["put", dropped].map(|text| prepared(&mut client, text));
        assert!(ids.iter().all(|id| is_prepared(&mut client, id)));
        client.query(3, "alter a");
        assert_eq!(client.response(), Response::Void);
        assert!(is_prepared(&mut client, &ids[0]));
        assert!(!is_prepared(&mut client, &ids[1]), "{dropped}");
    }
}

/// Regression: a QUERY used the statement with its text that another client had prepared without a
/// keyspace in use. `DROP TABLE t` then failed, and `DESCRIBE TABLES` listed those of all keyspaces.
#[test]
fn a_query_uses_no_statement_that_was_prepared_without_its_keyspace() {
    let (_, server) = login::server(options());
    let mut root = Client::logged_in(&server, "root");
    let texts = ["CREATE TYPE pair (a int)", "TRUNCATE t", "DROP TABLE t"];
    for text in texts {
        prepared(&mut root, text);
    }
    root.run("USE ks");
    for text in texts {
        root.run(text);
    }
}

/// A schema change during PREPARE may concern another table. The statement is then still current
/// and stays prepared. If the server returned UNPREPARED for it, the client would prepare it again
/// for ever as long as other tables change.
#[test]
fn only_a_statement_that_a_schema_change_made_outdated_during_prepare_gets_unprepared() {
    for (text, is_current) in [("hold outdated", false), ("hold", true)] {
        let (fake, server) = server(options());
        let (mut client, mut other) = (Client::new(&server), Client::new(&server));
        // Large, so that it is parsed beside the threads that serve the other client.
        let (text, keyspace) = (&format!("{text}{}", " ".repeat(1 << 17)), None);
        client.send(1, &Request::Prepare { text, keyspace });
        wait::until("the analysis to begin", || fake.parsed_holds.get() > 0);
        other.query(1, "alter a");
        other.receive();
        fake.gate.open();
        let Response::Prepared(prepared) = client.response() else {
            panic!("it is prepared");
        };
        assert_eq!(is_prepared(&mut client, &prepared.id), is_current);
    }
}

/// Regression: a QUERY with bound values got UNPREPARED if the schema changed after its analysis,
/// although its client had prepared nothing.
#[test]
fn a_query_is_analysed_again_if_the_schema_changes_before_it_runs() {
    let (fake, server) = server(options());
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    // Both texts are in the cache of statements, and are not dropped from it.
    let ids = ["put marked", "which marked"].map(|text| prepared(&mut client, text));
    let scan = prepared(&mut client, "scan marked");
    client.query(1, "scan marked");
    let parameters = parameters();
    let id = &scan[..];
    client.send(2, &Request::Execute { id, parameters });
    wait::until("both scans to begin", || fake.executed.get() >= 2);
    other.query(1, "alter a");
    other.receive();
    fake.gate.open();
    let [first, second] = client.in_order().map(|answer| answer.response);
    assert_eq!(first, Response::Void);
    let Response::Error(error) = second else {
        panic!("{second:?} is no error");
    };
    let id = scan.clone();
    assert_eq!(error.kind, ErrorKind::Unprepared { id });
    for (text, id) in ["put marked", "which marked"].iter().zip(&ids) {
        client.query(3, text);
        assert_eq!(client.response(), Response::Void, "{text}");
        assert!(!is_prepared(&mut client, id), "{text}");
    }
    // A batch is executed if only texts in it are outdated.
    let fresh = prepared(&mut client, "put");
    let text = StatementRef::Text("put marked");
    for (first, is_executed) in [(text, true), (StatementRef::Prepared(&ids[0]), false)] {
        let statements = [first, text, StatementRef::Prepared(&fresh)];
        client.send(4, &Request::Batch(batch_of(&statements)));
        let response = client.response();
        assert_eq!(response == Response::Void, is_executed, "{response:?}");
    }
}

/// Regression: all texts of a batch were analysed before one that is no write was refused.
/// Thousands of SELECTs took gigabytes, and a prepared BEGIN BATCH that a batch mentioned thousands
/// of times took minutes.
#[test]
fn a_batch_fails_at_its_first_statement_that_is_no_single_write() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    let id = prepared(&mut client, "which");
    let nonsense = StatementRef::Text("nonsense");
    for read in [StatementRef::Text("which"), StatementRef::Prepared(&id)] {
        let statements = [StatementRef::Text("put"), read, nonsense];
        client.send(3, &Request::Batch(batch_of(&statements)));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error:?}");
        assert_eq!(error.message, NOT_A_WRITE);
    }
    assert_eq!(fake.executed.get(), 0);
}

/// Regression: EXECUTE and BATCH with a wrong number of values had the error of QUERY.
#[test]
fn execute_and_batch_with_a_wrong_number_of_values_have_cassandras_errors() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let id = &prepared(&mut client, "put")[..];
    let values = ValuesBuf::from_iter([Value::Null; 2]);
    let parameters = QueryParameters {
        values: values.as_values(),
        ..parameters()
    };
    client.send(1, &Request::Execute { id, parameters });
    let error = client.error();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let expected = "were 0 markers(?) in CQL but 2 bound variables";
    assert_eq!(error.message, format!("there {expected}"));
    for statement in [StatementRef::Prepared(id), StatementRef::Text("put")] {
        let mut batch = batch_of(&[statement]);
        batch.statements[0].values = values.as_values();
        client.send(2, &Request::Batch(batch));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.message, format!("There {expected}"));
    }
}

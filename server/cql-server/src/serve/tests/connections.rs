//! Connections: their begin and end, the order of their responses, and events.

use std::sync::Barrier;

use super::*;
use crate::serve::requests::LARGE_BYTES;

#[test]
fn statements_use_the_keyspace_and_their_responses_carry_warnings() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    client.query(1, "which");
    client.query(2, "use app");
    client.query(3, "which");
    client.query(4, "warn of this");
    client.query(5, "fail for this reason");
    let answers: Vec<_> = (0..5).map(|_| client.receive()).collect();
    let streams: Vec<_> = answers.iter().map(|(stream, _)| *stream).collect();
    assert_eq!(streams, [1, 2, 3, 4, 5]);
    assert_eq!(answers[0].1.response, Response::Void);
    let keyspace = "app".to_owned();
    assert_eq!(answers[2].1.response, Response::SetKeyspace { keyspace });
    assert_eq!(answers[3].1.warnings, ["of this"]);
    let Response::Error(error) = &answers[4].1.response else {
        panic!("{:?}", answers[4]);
    };
    assert_eq!(error.message, "for this reason");
}

#[test]
fn the_first_message_is_startup_or_options() {
    let (_, server) = server(options());
    let mut client = Client::raw(&server);
    client.query(7, "which");
    assert_eq!(client.error().kind, ErrorKind::Protocol);
    client.send(1, &Request::Options);
    let Response::Supported { options } = client.response() else {
        panic!("no SUPPORTED");
    };
    assert!(options.contains(&("CQL_VERSION".into(), vec!["3.4.6".into()])));
    for (options, mistake) in [
        (vec![("COMPRESSION", "lz4")], "CQL_VERSION"),
        (
            vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", "snappy")],
            "snappy",
        ),
    ] {
        client.send(2, &Request::Startup(Startup { options }));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains(mistake), "{}", error.message);
    }
}

#[test]
fn unsupported_protocol_versions_end_the_connection_with_an_error() {
    let (_, server) = server(options());
    for version in [0x06, 0x42, 0x41, 0x03, 0x01, 0x7f] {
        let mut client = Client::raw(&server);
        client
            .stream
            .write_all(&[version, 0, 0, 0, 5, 0, 0, 0, 0])
            .unwrap();
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol, "{version:#x}");
        assert!(error.message.contains("unsupported protocol version"));
        assert!(client.try_receive().is_none(), "the connection ends");
    }
}

#[test]
fn a_scan_delays_no_point_request_of_any_connection() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    for stream in 0..20 {
        client.query(stream, "scan");
    }
    client.assert_served(100);
    let mut other = Client::new(&server);
    other.assert_served(1);
    fake.gate.open();
    assert_eq!(client.streams(20), (0..20).collect::<Vec<_>>());
}

#[test]
fn closing_a_connection_cancels_its_requests() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    client.query(1, "scan");
    client.assert_served(2);
    drop(client);
    wait::until("the scan to be cancelled", || fake.cancelled.get() > 0);
    until_connections(&server, 0);
}

#[test]
fn a_client_that_does_not_read_holds_bounded_memory_and_delays_no_other() {
    let (fake, server) = server(ServeOptions {
        lane_requests_max: 4,
        lane_result_bytes_max: 2 << 20,
        write_timeout: Duration::from_millis(300),
        ..options()
    });
    fake.gate.open();
    let mut slow = Client::new(&server);
    let bytes = (1 << 20) - 100_000;
    let mut frames = BytesMut::new();
    for stream in 0..60 {
        let text = format!("scan {bytes}");
        frames.extend_from_slice(&encoded(stream, &text, Compression::None));
    }
    // The server may close the connection before the client has sent everything.
    drop(slow.stream.write_all(&frames));
    let mut other = Client::new(&server);
    for stream in 0..50 {
        other.assert_served(stream);
    }
    // The connection is closed and its share of the memory is free again, so that scans of others
    // run.
    other.query(77, "scan 10");
    let (stream, _) = other.receive();
    assert_eq!(stream, 77);
    until_connections(&server, 1);
}

/// Regression: a panic on a thread that serves connections ended the connection of the statement.
#[test]
fn a_panic_is_an_error_of_its_request_only() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    // In a lane, in a write on the thread of the connection, in a read there, and in the analysis.
    for text in ["panic", "explode", "crash", "stumble"] {
        client.query(1, text);
        client.query(2, "which");
        let [failed, next] = client.in_order().map(|answer| answer.response);
        assert!(
            matches!(&failed, Response::Error(error) if error.kind == ErrorKind::Server),
            "{text}: {failed:?}"
        );
        assert_eq!(next, Response::Void, "{text}");
    }
}

#[test]
fn schema_changes_are_sent_to_registered_clients() {
    let (fake, server) = server(options());
    let (mut hears, mut deaf, mut alters) = (
        Client::new(&server),
        Client::new(&server),
        Client::new(&server),
    );
    hears.register();
    alters.query(1, "alter app");
    alters.receive();
    let (stream, answer) = hears.receive();
    assert_eq!(stream, -1);
    assert!(
        matches!(&answer.response, Response::Event(change) if change.keyspace == "app"),
        "{answer:?}"
    );
    // Changes that no statement causes are sent, too.
    let made = SchemaChange {
        kind: SchemaChangeKind::Created,
        keyspace: "app".into(),
        target: SchemaTarget::Table("t".into()),
    };
    fake.notify.lock().unwrap().as_ref().unwrap()(made.clone());
    assert_eq!(hears.response(), Response::Event(made));
    deaf.assert_served(3);
}

/// Regression: a statement that changed the schema and then failed caused no event, and drivers
/// kept the earlier schema.
#[test]
fn a_statement_that_fails_after_a_schema_change_causes_its_event() {
    let (_, server) = server(options());
    let (mut registered, mut client) = (Client::new(&server), Client::new(&server));
    registered.register();
    let outdated = prepared(&mut client, "put outdated");
    for keyspace in ["failing", "panicking"] {
        client.query(1, &format!("alter {keyspace}"));
        assert_eq!(client.error().kind, ErrorKind::Server, "{keyspace}");
        let (_, answer) = registered.receive();
        assert!(
            matches!(&answer.response, Response::Event(change) if change.keyspace == keyspace),
            "{answer:?}"
        );
    }
    assert!(!is_prepared(&mut client, &outdated));
}

/// Regression: a large request waited for a thread that the runtime starts on demand. If the system
/// refused the thread, the connection ended without a response.
#[test]
fn a_large_request_runs_on_a_thread_that_exists_from_the_start() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    for (padding_bytes, thread) in [(0, "cql"), (LARGE_BYTES, "cql-large")] {
        client.query(1, &format!("thread {}", " ".repeat(padding_bytes)));
        let keyspace = thread.to_owned();
        assert_eq!(client.response(), Response::SetKeyspace { keyspace });
    }
}

#[test]
fn draining_answers_running_requests_and_accepts_no_more() {
    let (fake, server) = serving(synced(), options());
    let mut client = Client::new(&server);
    client.query(1, "put");
    client.assert_served(2);
    let address = server.address();
    let begun = Arc::new(Barrier::new(2));
    let draining = std::thread::spawn({
        let begun = begun.clone();
        move || {
            begun.wait();
            server.drain(HANG)
        }
    });
    begun.wait();
    wait::until("the server to accept no more connections", || {
        let Ok(stream) = TcpStream::connect(address) else {
            return true;
        };
        // The kernel accepts connections that the server never serves. Those end without a byte.
        let pause = Some(Duration::from_millis(20));
        stream.set_read_timeout(pause).unwrap();
        matches!((&stream).read(&mut [0]), Ok(0))
    });
    fake.sync_gate.open();
    let (stream, answer) = client.receive();
    assert_eq!((stream, answer.response), (1, Response::Void));
    assert!(client.try_receive().is_none());
    assert!(draining.join().unwrap());
}

#[test]
fn one_connection_too_many_is_closed() {
    let (_, server) = server(ServeOptions {
        connections_max: 2,
        ..options()
    });
    let clients = (Client::new(&server), Client::new(&server));
    assert!(Client::raw(&server).try_receive().is_none());
    drop(clients);
    until_connections(&server, 0);
    Client::new(&server);
}

#[test]
fn invalid_bytes_cause_an_error_or_end_the_connection() {
    let test = "invalid_bytes_cause_an_error_or_end_the_connection";
    for_seeds(test, 1, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (_, server) = server(options());
        let mut whole = BytesMut::new();
        let options = vec![("CQL_VERSION", "3.4.6")];
        Request::Startup(Startup { options }).encode(&mut whole, 0, Compression::None);
        for stream in 0..4 {
            whole.extend_from_slice(&encoded(stream, "put something", Compression::None));
        }
        for _ in 0..300 {
            let mut bytes = whole.to_vec();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..3) {
                    0 => bytes[at] = random.random(),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.next_u32() as u8),
                }
            }
            let client = Client::raw(&server);
            // The server may have closed the connection already.
            drop((&client.stream).write_all(&bytes));
        }
        let mut client = Client::new(&server);
        client.assert_served(1);
    });
}

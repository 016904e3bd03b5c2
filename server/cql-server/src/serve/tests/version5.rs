//! Clients of version 5: after STARTUP all frames are in segments.

use super::*;
use crate::serve::requests::LARGE_BYTES;

impl Client {
    pub(super) fn raw5(server: &CqlServer) -> Self {
        Self {
            version: Version::V5,
            ..Self::raw(server)
        }
    }

    pub(super) fn new5(server: &CqlServer, compression: Compression) -> Self {
        let mut client = Self::raw5(server);
        assert_eq!(client.start5(compression), Response::Ready);
        client
    }

    /// Sends STARTUP and returns the response. All later frames are in segments.
    pub(super) fn start5(&mut self, compression: Compression) -> Response {
        let mut options = vec![("CQL_VERSION", "3.4.6")];
        if compression == Compression::Lz4 {
            options.push(("COMPRESSION", "lz4"));
        }
        self.send(0, &Request::Startup(Startup { options }));
        let response = self.response();
        self.segments = Some(Segments::new(compression));
        response
    }
}

fn keyspace(answer: Answer) -> String {
    match answer.response {
        Response::SetKeyspace { keyspace } => keyspace,
        other => panic!("{other:?}"),
    }
}

pub(super) const COMPRESSIONS: [Compression; 2] = [Compression::None, Compression::Lz4];

#[test]
fn requests_and_responses_of_all_lengths_pass_in_segments() {
    let (fake, server) = server(options());
    fake.gate.open();
    for compression in COMPRESSIONS {
        let mut client = Client::new5(&server, compression);
        client.query(1, "use app");
        assert_eq!(client.response(), Response::Void);
        client.query(2, "which");
        assert_eq!(keyspace(client.receive().1), "app");
        client.query(3, "warn of this");
        assert_eq!(client.receive().1.warnings, ["of this"]);
        // Requests and responses that are longer than a segment.
        let long = format!("which {}", "of these ".repeat(50_000));
        client.query(4, &long);
        assert_eq!(keyspace(client.receive().1), "app");
        client.query(5, "scan 500000");
        let (stream, answer) = client.receive();
        assert_eq!((stream, keyspace(answer).len()), (5, 60_000));
        // Many requests at once.
        (0..500).for_each(|stream| client.query(stream, "which"));
        for stream in 0..500 {
            assert_eq!(client.receive().0, stream);
        }
    }
}

/// Regression: a large request in segments was parsed on a thread that serves connections. Two such
/// requests kept both threads from all other connections.
#[test]
fn large_texts_in_segments_are_parsed_beside_the_serving_threads() {
    let (fake, server) = server(options());
    let (text, keyspace) = (&format!("hold {}", " ".repeat(LARGE_BYTES)), None);
    let large = Request::Prepare { text, keyspace };
    let (text, parameters) = ("which", parameters());
    let before = Request::Query { text, parameters };
    // There are two serving threads.
    let mut clients = COMPRESSIONS.map(|compression| {
        let mut client = Client::new5(&server, compression);
        let mut sealed = BytesMut::new();
        for (stream, request) in [(1, &before), (2, &large)] {
            let mut frame = BytesMut::new();
            request.encode(&mut frame, stream, Version::V5);
            Segments::new(compression).seal(&frame, &mut sealed);
        }
        client.stream.write_all(&sealed).unwrap();
        // Compressed, both requests arrive in one read. The first response must not wait for the
        // parser.
        assert_eq!(client.receive().0, 1);
        client
    });
    let held = || fake.parsed_holds.get();
    wait::until("a text to be parsed", || held() > 0);
    let mut small = Client::new(&server);
    small.assert_served(2);
    assert_eq!(held(), 1, "large requests take turns");
    fake.gate.open();
    for client in &mut clients {
        let response = client.response();
        assert!(matches!(response, Response::Prepared(_)), "{response:?}");
    }
}

#[test]
fn a_request_has_a_keyspace_of_its_own() {
    let (_, server) = server(options());
    let mut client = Client::new5(&server, Compression::None);
    client.query(1, "use app");
    client.receive();
    let parameters = QueryParameters {
        keyspace: Some("other"),
        ..parameters()
    };
    let text = "which";
    client.send(2, &Request::Query { text, parameters });
    assert_eq!(keyspace(client.receive().1), "other");
    client.query(3, "which");
    assert_eq!(keyspace(client.receive().1), "app");
    // The id of a statement depends on the keyspace at PREPARE.
    let mut ids = Vec::new();
    for keyspace in [None, Some("app"), Some("other")] {
        let text = "which unqualified";
        client.send(4, &Request::Prepare { text, keyspace });
        match client.response() {
            Response::Prepared(prepared) => {
                assert_eq!(prepared.result_metadata_id.len(), 16);
                ids.push(prepared.id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[1], ids[2]);
}

#[test]
fn events_come_in_segments() {
    let (_, server) = server(options());
    let mut client = Client::new5(&server, Compression::Lz4);
    client.register();
    let mut other = Client::new5(&server, Compression::None);
    other.query(1, "alter app");
    assert_eq!(other.response(), Response::Void);
    let (stream, answer) = client.receive();
    assert_eq!(stream, -1);
    let expected = SchemaChange {
        kind: SchemaChangeKind::Updated,
        keyspace: "app".into(),
        target: SchemaTarget::Keyspace,
    };
    assert_eq!(answer.response, Response::Event(expected));
}

#[test]
fn a_broken_segment_gets_an_error_and_ends_the_connection() {
    let (_, server) = server(options());
    for at in [0, 3, 20] {
        let mut client = Client::new5(&server, Compression::None);
        let mut frame = BytesMut::new();
        Request::Options.encode(&mut frame, 1, Version::V5);
        let mut sealed = BytesMut::new();
        Segments::new(Compression::None).seal(&[&frame[..], &frame].concat(), &mut sealed);
        sealed[at] ^= 4;
        client.stream.write_all(&sealed).unwrap();
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.starts_with("CRC mismatch"), "{error}");
        assert!(client.try_receive().is_none());
    }
}

#[test]
fn a_second_startup_changes_nothing() {
    let (_, server) = server(options());
    for compression in COMPRESSIONS {
        let mut client = Client::new5(&server, compression);
        for options in [vec![], vec![("COMPRESSION", "lz4")]] {
            client.send(1, &Request::Startup(Startup { options }));
            let error = client.error();
            assert_eq!(
                error.message,
                "Unexpected message STARTUP, the connection is already initialized"
            );
        }
        client.assert_served(2);
    }
}

#[test]
fn a_connection_keeps_its_version() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let mut bytes = BytesMut::new();
    Request::Options.encode(&mut bytes, 1, Version::V5);
    client.stream.write_all(&bytes).unwrap();
    let error = client.error();
    assert!(error.message.contains("Got 5/v5"), "{error}");
    assert!(client.try_receive().is_none());
    // Until STARTUP each frame may have its own version.
    let mut client = Client::raw5(&server);
    let mut bytes = BytesMut::new();
    Request::Options.encode(&mut bytes, 1, Version::V4);
    client.stream.write_all(&bytes).unwrap();
    let mut answer = [0; 9];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0x84);
}

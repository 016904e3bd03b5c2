//! Many clients, hostile clients and careless clients, against a server in a process of its own: other
//! clients are served meanwhile, and the memory of the server stays bounded.
//!
//! `EBB_STATEMENTS` and `EBB_CONNECTIONS` are the numbers of prepared statements and of
//! connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use ebb_cql::client::{Client, set_stream};
use ebb_cql::protocol::{
    Answer, Compression, ErrorKind, Opcode, QueryParameters, Request, Response, Startup,
};
use ebb_test_support::seed::number;
use ebb_test_support::wait::{HANG, uninterrupted, until_some};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::http::get;
use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

/// The number of distinct statements that a test prepares if the environment variable
/// `EBB_STATEMENTS` is not set: more than twice as many as the cache holds, since the test checks that the
/// cache evicts over half of them.
const STATEMENTS: u64 = 60_000;
const CONNECTIONS: u64 = 1_000;
/// The most MiB by which prepared statements may enlarge the server: the 64 MiB that their cache
/// may have, and as much again for what allocators and hash tables leave unused.
const STATEMENTS_MIB_MAX: u64 = 2 * 64;
/// The most memory that the server may take for each idle connection, besides 8 MiB for all of them
/// together.
const CONNECTION_KIB_MAX: u64 = 10;

/// Connects, and sends nothing.
fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

fn encoded(request: &Request<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    request.encode(&mut out, 0, Compression::None);
    out
}

/// Creates the table `shop.wide`, with one partition of 10,000 rows of 1 KiB.
pub fn wide_table(client: &mut Client) {
    query(client, KEYSPACE).unwrap();
    let table = "CREATE TABLE shop.wide (k int, n int, v text, PRIMARY KEY (k, n))";
    query(client, table).unwrap();
    let v = "v".repeat(1024);
    for batch in 0..200 {
        let mut text = "BEGIN UNLOGGED BATCH ".to_owned();
        for n in batch * 50..(batch + 1) * 50 {
            text += &format!("INSERT INTO shop.wide (k, n, v) VALUES (0, {n}, '{v}'); ");
        }
        query(client, &(text + "APPLY BATCH")).unwrap();
    }
}

/// Prepares distinct statements while another client is served all the time, and checks that the
/// server has evicted most of these statements. Returns by how many MiB the memory of the server grew.
fn prepare_distinct_statements() -> u64 {
    let statements = number("EBB_STATEMENTS").unwrap_or(STATEMENTS);
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client_with(Compression::None);
    query(&mut client, KEYSPACE).unwrap();
    query(
        &mut client,
        "CREATE TABLE shop.orders (id int PRIMARY KEY, v int)",
    )
    .unwrap();
    let before_mib = server.resident_kib() >> 10;
    let text = |n: u64| format!("SELECT v FROM shop.orders WHERE id = {n}");
    // Requests that are sent before their responses are read.
    const IN_FLIGHT: u64 = 100;
    const SAMPLED: u64 = 1_000;
    // The ids of every thousandth statement.
    let mut ids = Vec::new();
    let mut other = server.client();
    for begin in (0..statements).step_by(IN_FLIGHT as usize) {
        let mut frames = Vec::new();
        for n in begin..statements.min(begin + IN_FLIGHT) {
            let mut frame = encoded(&Request::Prepare {
                text: &text(n),
                keyspace: None,
            });
            set_stream(&mut frame, (n - begin) as i16);
            frames.extend_from_slice(&frame);
        }
        client.send(&frames).unwrap();
        for _ in begin..statements.min(begin + IN_FLIGHT) {
            let frame = client.receive().unwrap();
            assert_eq!(frame.opcode, Opcode::Result as u8);
            if frame.stream == 0 && begin % SAMPLED == 0 {
                // The id has 16 bytes. The kind of the result (4 bytes) and the id's length (2) precede it.
                ids.push(frame.body.slice(6..22));
            }
        }
        query(&mut other, "SELECT v FROM shop.orders WHERE id = 1").unwrap();
    }
    let grown_mib = (server.resident_kib() >> 10).saturating_sub(before_mib);
    println!("{statements} statements: {grown_mib} MiB above {before_mib} MiB");
    // The error for an evicted statement is Unprepared: drivers prepare it again.
    let is_gone = |id: &bytes::Bytes| {
        let parameters = QueryParameters::default();
        match client.request(&Request::Execute { id, parameters }) {
            Ok(Response::Rows(_)) => false,
            Err(ebb_cql::client::ClientError::Refused(error)) => {
                assert!(
                    matches!(error.kind, ErrorKind::Unprepared { .. }),
                    "{error}"
                );
                true
            }
            answer => panic!("{answer:?}"),
        }
    };
    let sampled = ids.len();
    ids.retain(is_gone);
    println!("{} of {sampled} are gone", ids.len());
    assert!(ids.len() > sampled / 2, "they are kept for ever");
    query(&mut client, &text(0)).unwrap();
    assert_eq!(server.stop(), Some(0));
    grown_mib
}

#[test]
fn the_oldest_of_many_prepared_statements_are_evicted() {
    prepare_distinct_statements();
}

#[test]
#[ignore = "nightly: measures RSS"]
fn any_number_of_prepared_statements_takes_bounded_memory() {
    let grown_mib = prepare_distinct_statements();
    assert!(grown_mib <= STATEMENTS_MIB_MAX, "{grown_mib} MiB");
}

/// Opens connections that send nothing after the handshake, while another client is served. Returns
/// their number, and by how many KiB the memory of the server grew.
fn open_idle_connections() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let most = limit.maximum.unwrap_or(u64::MAX).saturating_sub(500);
    let connections = number("EBB_CONNECTIONS").unwrap_or(CONNECTIONS).min(most);
    let place = Place::new();
    let server = Server::start(&place, "");
    let before_kib = server.resident_kib();
    let startup = encoded(&Request::Startup(Startup {
        options: vec![("CQL_VERSION", "3.4.6")],
    }));
    let idle: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(&startup).unwrap();
            let mut ready = [0; 9];
            stream.read_exact(&mut ready).unwrap();
            assert_eq!(ready[4], Opcode::Ready as u8);
            stream
        })
        .collect();
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    let grown_kib = server.resident_kib().saturating_sub(before_kib);
    println!("{connections} connections: {grown_kib} KiB above {before_kib} KiB");
    drop(idle);
    query(&mut client, "SELECT key FROM system.local").unwrap();
    assert_eq!(server.stop(), Some(0));
    (connections, grown_kib)
}

#[test]
fn a_client_is_served_beside_many_connections_that_do_nothing() {
    open_idle_connections();
}

#[test]
#[ignore = "nightly: measures RSS"]
fn connections_that_do_nothing_take_little() {
    let (connections, grown_kib) = open_idle_connections();
    assert!(
        grown_kib <= connections * CONNECTION_KIB_MAX + (8 << 10),
        "{grown_kib} KiB"
    );
}

/// Opens connections that request 2,400 MiB and read nothing, while another client is served.
/// Returns by how many MiB the memory of the server grew.
fn request_everything_and_read_nothing() -> u64 {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    wide_table(&mut client);
    let before_mib = server.resident_kib() >> 10;
    // Each response is a page of 1 MiB that is not read.
    let parameters = QueryParameters {
        page_size_rows: Some(5_000),
        ..QueryParameters::default()
    };
    let text = "SELECT * FROM shop.wide";
    let request = encoded(&Request::Query { text, parameters });
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut one = server.client_with(Compression::None);
        let frames: Vec<u8> = (0..300_i16)
            .flat_map(|stream| {
                let mut frame = request.to_vec();
                set_stream(&mut frame, stream);
                frame
            })
            .collect();
        one.send(&frames).unwrap();
        deaf.push(one);
    }
    for n in 0..500 {
        let select = format!("SELECT v FROM shop.wide WHERE k = 0 AND n = {n}");
        assert!(matches!(query(&mut client, &select), Ok(Response::Rows(_))));
    }
    let grown_mib = (server.resident_kib() >> 10).saturating_sub(before_mib);
    println!("2,400 MiB requested and not read: {grown_mib} MiB above {before_mib} MiB");
    // The server drops the responses of a connection that ends.
    drop(deaf);
    query(&mut client, "SELECT v FROM shop.wide WHERE k = 0 AND n = 1").unwrap();
    assert_eq!(server.stop(), Some(0));
    grown_mib
}

#[test]
fn a_client_is_served_beside_others_that_request_everything_and_read_nothing() {
    request_everything_and_read_nothing();
}

#[test]
#[ignore = "nightly: measures RSS"]
fn unread_responses_take_bounded_memory() {
    let grown_mib = request_everything_and_read_nothing();
    // Responses that are not sent may take an eighth of the server's memory, 352 MiB at most. Blocks of the
    // table are cached in other parts of the memory.
    assert!(grown_mib <= 2 * 256, "{grown_mib} MiB");
}

/// Connects, and requests more bytes of the table of [`wide_table`] than sockets hold. Returns the
/// client once the first response has begun to arrive. The client reads no response.
pub fn deaf(server: &Server) -> Client {
    let mut deaf = server.client_with(Compression::None);
    let text = "SELECT * FROM shop.wide";
    let parameters = QueryParameters::default();
    let request = encoded(&Request::Query { text, parameters });
    let frames: Vec<u8> = (0..10_i16)
        .flat_map(|stream| {
            let mut frame = request.to_vec();
            set_stream(&mut frame, stream);
            frame
        })
        .collect();
    deaf.send(&frames).unwrap();
    uninterrupted(|| deaf.socket().peek(&mut [0])).unwrap();
    deaf
}

/// Starts another server over the directory, and checks that it has all rows that [`wide_table`]
/// wrote.
fn check_wide_table(place: &Place) {
    let server = Server::start(place, "");
    let mut client = server.client();
    let count = match query(&mut client, "SELECT n FROM shop.wide WHERE k = 0") {
        Ok(Response::Rows(rows)) => rows.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count, 10_000);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_waits_for_a_client_is_not_ready_and_ends_at_a_second_signal() {
    let place = Place::new();
    let mut server = Server::start(&place, "--http 127.0.0.1:0");
    wide_table(&mut server.client());
    let _deaf = deaf(&server);
    server.signal(Signal::TERM);
    server.error_line_with("a second signal ends it at once");
    let problem = until_some("the server to be unready", || {
        let (status, body) = get(server.http(), "/health/ready", "");
        (status == 503).then_some(body)
    });
    assert!(problem.contains("the server is stopping"), "{problem}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(128 + 15));
    check_wide_table(&place);
}

/// Regression: a reload during a shutdown counted as the second signal, and ended the server.
#[test]
fn a_reload_has_no_effect_on_a_supervised_server_that_is_stopping() {
    if !crate::signals::heard().contains(&"-HUP") {
        return;
    }
    let place = Place::new();
    let mut server = Server::start_after(&place, crate::supervised::AS_SYSTEMD, "");
    wide_table(&mut server.client());
    let _deaf = deaf(&server);
    server.signal(Signal::TERM);
    server.error_line_with("a second signal ends it at once");
    server.signal(Signal::HUP);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(128 + 15));
}

#[test]
fn a_client_that_does_not_read_is_cut_off_within_the_grace() {
    let place = Place::new();
    let mut server = Server::start(&place, "--grace 1s");
    wide_table(&mut server.client());
    let _deaf = deaf(&server);
    server.signal(Signal::TERM);
    server.error_line_with("some requests did not end in time");
    assert_eq!(server.wait(), Some(0));
    check_wide_table(&place);
}

#[test]
fn a_scan_that_runs_when_the_server_stops_ends_with_cassandras_code() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client_with(Compression::None);
    query(&mut client, KEYSPACE).unwrap();
    let table = "CREATE TABLE shop.wide (a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d))";
    query(&mut client, table).unwrap();
    // The query looks up four billion rows.
    let all: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    let all = all.join(", ");
    let text = &format!(
        "SELECT count(*) FROM shop.wide WHERE a IN ({all}) AND b IN ({all}) AND c IN ({all}) \
         AND d IN ({all})"
    );
    let parameters = QueryParameters::default();
    let mut scan = encoded(&Request::Query { text, parameters });
    set_stream(&mut scan, 7);
    client.send(&scan).unwrap();
    // The server starts requests of a connection in order.
    query(&mut client, "SELECT key FROM system.local").unwrap();
    server.signal(Signal::TERM);
    let frame = client.receive().unwrap();
    assert_eq!(frame.stream, 7);
    match Answer::decode(&frame).unwrap().response {
        Response::Error(error) => {
            assert_eq!(error.kind.code(), 0x1001);
            assert_eq!(error.message, "the server is stopping");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_scan_that_takes_too_long_ends_with_cassandras_code() {
    let place = Place::new();
    let server = Server::start(&place, "");
    wide_table(&mut server.client());
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&place, "--request-timeout 1ms");
    let mut client = server.client();
    // Reading rows of 10 MiB takes longer than a millisecond.
    let error = query(&mut client, "SELECT count(v) FROM shop.wide").unwrap_err();
    assert!(matches!(error, ErrorKind::ReadTimeout { .. }), "{error:?}");
    assert_eq!(error.code(), 0x1200);
    // The connection goes on. On a slow machine even a row takes longer than a millisecond.
    match query(&mut client, "SELECT v FROM shop.wide WHERE k = 0 AND n = 1") {
        Ok(Response::Rows(_)) | Err(ErrorKind::ReadTimeout { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn connections_that_break_off_anywhere_do_not_harm_others() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    wide_table(&mut client);
    let startup = encoded(&Request::Startup(Startup {
        options: vec![("CQL_VERSION", "3.4.6")],
    }));
    let parameters = QueryParameters::default();
    let text = "SELECT * FROM shop.wide";
    let query_all = encoded(&Request::Query { text, parameters });
    let whole = [&startup[..], &query_all, &query_all].concat();
    for end in 0..=whole.len() {
        let mut stream = connect(&server);
        stream.write_all(&whole[..end]).unwrap();
    }
    for version in [0_u8, 3, 5, 0x42, 0x84, 0xff] {
        let mut stream = connect(&server);
        // The length of a body that does not follow.
        stream
            .write_all(&[version, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff])
            .unwrap();
        // The server answers with an error, and closes the connection.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    query(&mut client, "SELECT v FROM shop.wide WHERE k = 0 AND n = 1").unwrap();
    assert_eq!(server.stop(), Some(0));
}

//! Too large requests: they are skipped and answered, and their connections go on.

use std::iter::repeat_n;

use ebb_cql::protocol::HEADER_BYTES;

use super::version5::COMPRESSIONS;
use super::*;

const BODY_BYTES_MAX: usize = 1 << 20;

fn limited() -> ServeOptions {
    ServeOptions {
        body_bytes_max: BODY_BYTES_MAX,
        ..options()
    }
}

/// Returns a text of 2 MiB whose compressed length is about three quarters of that.
fn random_text(seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let letters = (0..3 << 19).map(|_| char::from(random.random_range(b'a'..=b'z')));
    letters.chain(repeat_n(' ', 1 << 19)).collect()
}

/// Checks that the next response is to `stream`, and rejects a body of `bytes` bytes as too long.
#[track_caller]
fn refused<T: Read + Write>(client: &mut Client<T>, stream: i16, bytes: usize) {
    let (answered, answer) = client.receive();
    assert_eq!(answered, stream);
    let Response::Error(error) = answer.response else {
        panic!("{answer:?}");
    };
    assert_eq!(error.kind, ErrorKind::Invalid);
    let message =
        format!("Request is too big: length {bytes} exceeds maximum allowed length 1048576.");
    assert_eq!(error.message, message);
}

#[test]
fn a_too_large_request_is_rejected_and_its_neighbours_are_served() {
    let (_, server) = server(limited());
    let long = format!("which {}", "x".repeat(2 << 20));
    let clients = [
        Client::new(&server),
        Client::new5(&server, Compression::None),
        Client::new5(&server, Compression::Lz4),
    ];
    for mut client in clients {
        let body_bytes = encoded(0, &long, client.version).len() - HEADER_BYTES;
        for stream in [1, 3, 5] {
            client.query(stream, "which");
            client.query(stream + 1, &long);
        }
        client.query(7, "which");
        for stream in [1, 3, 5] {
            assert_eq!(client.receive().0, stream);
            refused(&mut client, stream + 1, body_bytes);
        }
        assert_eq!(client.receive().0, 7);
    }
    assert_eq!(server.counters().counts().requests_refused, 0);
}

#[test]
fn a_compressed_body_may_be_too_large_before_and_after_decompression() {
    let test = "a_compressed_body_may_be_too_large_before_and_after_decompression";
    for_seeds(test, 1, |seed| {
        let (_, server) = server(limited());
        let mut client = Client::raw(&server);
        let options = vec![("CQL_VERSION", "3.4.6"), ("COMPRESSION", "lz4")];
        client.send(0, &Request::Startup(Startup { options }));
        assert_eq!(client.response(), Response::Ready);
        let before = encoded(1, &random_text(seed), Compression::Lz4);
        let spaces = " ".repeat(2 << 20);
        let after = encoded(2, &spaces, Compression::Lz4);
        assert!(before.len() - HEADER_BYTES > BODY_BYTES_MAX && before[1] == 1);
        assert!(after.len() < BODY_BYTES_MAX && after[1] == 1);
        let next = encoded(3, "which", Compression::Lz4);
        let all = [&before[..], &after, &next].concat();
        client.stream.write_all(&all).unwrap();
        refused(&mut client, 1, before.len() - HEADER_BYTES);
        let plain_bytes = encoded(2, &spaces, Compression::None).len() - HEADER_BYTES;
        refused(&mut client, 2, plain_bytes);
        assert_eq!(client.receive().0, 3);
    });
}

#[test]
fn a_too_large_request_may_arrive_in_pieces() {
    let (_, server) = server(limited());
    for compression in COMPRESSIONS {
        let mut client = Client::new5(&server, compression);
        let frame = encoded(1, &"x".repeat(2 << 20), Version::V5);
        let mut sealed = BytesMut::new();
        let frames = [&frame[..], &encoded(2, "which", Version::V5)].concat();
        Segments::new(compression).seal(&frames, &mut sealed);
        for piece in sealed.chunks(997) {
            client.stream.write_all(piece).unwrap();
        }
        refused(&mut client, 1, frame.len() - HEADER_BYTES);
        assert_eq!(client.receive().0, 2);
    }
}

#[test]
fn a_client_that_stops_within_a_too_large_request_gets_an_error_and_is_disconnected() {
    let (_, server) = server(ServeOptions {
        request_timeout: Duration::from_millis(100),
        ..limited()
    });
    let mut client = Client::new(&server);
    let frame = encoded(7, &"x".repeat(2 << 20), Version::V4);
    client.stream.write_all(&frame[..100_000]).unwrap();
    refused(&mut client, 7, frame.len() - HEADER_BYTES);
    assert!(client.try_receive().is_none(), "the connection ends");
}

/// Regression: the server closed the connection with unread bytes, which resets it, so that the
/// client lost the error.
#[test]
fn a_client_that_sends_too_much_to_skip_can_read_the_error() {
    let (_, server) = server(limited());
    let mut client = Client::new(&server);
    let bytes = 300 << 20;
    let header = [&[4, 0, 0, 1, 7][..], &u32::to_be_bytes(bytes)].concat();
    client.stream.write_all(&header).unwrap();
    client.stream.write_all(&vec![0; 8 << 20]).unwrap();
    refused(&mut client, 1, bytes as usize);
    assert!(client.try_receive().is_none(), "the connection ends");
    drop(client);
    until_connections(&server, 0);
}

#[test]
fn a_too_large_request_before_startup_ends_the_connection() {
    let (_, server) = server(limited());
    let mut client = Client::raw(&server);
    let frame = encoded(1, &"x".repeat(2 << 20), Version::V4);
    client.stream.write_all(&frame).unwrap();
    let error = client.error();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.message.contains("the limit of 1048576"), "{error}");
    assert!(client.try_receive().is_none(), "the connection ends");
}

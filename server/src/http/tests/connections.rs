//! The limit on connections from one address.

use super::*;

/// Regression: a process without a token opened all connections, sent the beginnings of requests over them, and
/// no other client got a connection.
#[test]
fn a_client_that_sends_half_requests_keeps_no_other_client_out() {
    let dir = tempfile::tempdir().unwrap();
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        // Three of the four may be from one address.
        connections_max: Some(4),
        ..HttpOptions::default()
    };
    let (_node, server) = serve_with(dir.path(), options);
    let token = token(dir.path(), Scope::Read);
    let half = || {
        let mut stream = connect(&server);
        let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        stream.write_all(request).unwrap();
        stream
    };
    let mut first = half();
    let _others = [half(), half()];
    let (status, answer) = ask(&server, "GET /v1/jobs", "localhost", Some(&token), "");
    assert_eq!(status, 200, "{answer}");
    // The oldest connection without a credential was closed for it, and its request gets no response.
    let _ = first.write_all(b"\r\n");
    let mut answer = Vec::new();
    let _ = first.read_to_end(&mut answer);
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

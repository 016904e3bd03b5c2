//! A server that stops beside scans, writes and clients that do not read.

use super::*;
use crate::serve::replies::stopping;

#[test]
fn a_stop_rejects_scans_and_waiting_requests_and_running_writes_get_their_results() {
    let (fake, server) = serving(
        synced(),
        ServeOptions {
            lane_requests_max: 2,
            ..options()
        },
    );
    let mut client = Client::new(&server);
    client.query(1, "scan");
    client.query(2, "put");
    wait::until("both to run", || {
        let executed = fake.executed.get();
        executed == 2 && fake.syncs_begun.get() == 1
    });
    // The connection has no room for these while both run.
    for stream in 3..6 {
        client.query(stream, "put");
    }
    let counters = server.counters();
    let draining = std::thread::spawn(move || server.drain(HANG));
    let mut refused: Vec<_> = (0..4)
        .map(|_| {
            let (stream, answer) = client.receive();
            assert_eq!(answer.response, Response::Error(stopping()));
            stream
        })
        .collect();
    refused.sort_unstable();
    assert_eq!(refused, [1, 3, 4, 5]);
    assert_eq!(stopping().kind.code(), 0x1001);
    // The connection goes on, but the thread of the scan is free.
    wait::until("the scan to end", || fake.cancelled.get() == 1);
    // Regression: a server that stops counted the most connections that it may have.
    assert_eq!(counters.counts().connections, 1);
    fake.sync_gate.open();
    let (stream, answer) = client.receive();
    assert_eq!((stream, answer.response), (2, Response::Void));
    assert!(client.try_receive().is_none());
    assert!(draining.join().unwrap());
    assert_eq!(counters.counts().connections, 0);
    assert_eq!(fake.executed.get(), 2);
}

/// Regression: the bytes that a stop read did not count as read. In a debug build, the next read
/// caused a panic.
#[test]
fn a_request_that_arrives_in_part_before_a_stop_is_rejected_once_it_is_complete() {
    let (fake, server) = serving(
        synced(),
        ServeOptions {
            lane_requests_max: 1,
            ..options()
        },
    );
    let mut client = Client::new(&server);
    client.query(1, "put");
    wait::until("the write to be applied", || fake.syncs_begun.get() == 1);
    // The connection has no room for these, so the stop reads them: a whole request, and a part of
    // another that is longer than everything before.
    let mut bytes = BytesMut::new();
    let long = format!("put {}", "x".repeat(4000));
    for (stream, text) in [(2, "put"), (3, &*long)] {
        bytes.extend_from_slice(&encoded(stream, text, client.version));
    }
    let (before, after) = bytes.split_at(bytes.len() - 1000);
    client.stream.write_all(before).unwrap();
    let draining = std::thread::spawn(move || server.drain(HANG));
    for stream in [2, 3] {
        if stream == 3 {
            client.stream.write_all(after).unwrap();
        }
        let (of, answer) = client.receive();
        assert_eq!((of, answer.response), (stream, Response::Error(stopping())));
    }
    fake.sync_gate.open();
    assert_eq!(client.receive().0, 1);
    assert!(client.try_receive().is_none());
    assert!(draining.join().unwrap());
}

#[test]
fn a_stop_rejects_a_scan_that_waits_for_its_turn() {
    let (_, server) = server(ServeOptions {
        scans_max: 1,
        ..options()
    });
    let mut client = Client::new(&server);
    for stream in 0..3 {
        client.query(stream, "scan");
    }
    client.assert_served(100);
    assert!(server.drain(HANG));
    for _ in 0..3 {
        assert_eq!(client.error(), stopping());
    }
    assert!(client.try_receive().is_none());
}

#[test]
fn a_stop_drops_results_that_a_client_does_not_read() {
    const BYTES: u64 = 64 << 20;
    let (fake, server) = server(options());
    fake.gate.open();
    let mut deaf = Client::new(&server);
    deaf.query(1, &format!("scan {BYTES}"));
    // The client has got the start of the result, which is longer than the sockets hold.
    wait::uninterrupted(|| deaf.stream.peek(&mut [0])).unwrap();
    assert!(!server.drain(Duration::from_millis(1)));
    match io::copy(&mut deaf.stream, &mut io::sink()) {
        Ok(received) => assert!(received < BYTES, "{received} bytes"),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

#[test]
fn a_write_that_does_not_end_in_time_gets_no_response() {
    let (fake, server) = serving(synced(), options());
    let mut client = Client::new(&server);
    client.query(1, "put");
    wait::until("the write to be applied", || fake.syncs_begun.get() == 1);
    let Served { _gates, server } = server;
    assert!(!server.drain(Duration::ZERO));
    assert!(client.try_receive().is_none());
}

//! Where writes run, and what a trace tells of it.

use super::*;

fn synced() -> Fake {
    Fake {
        waits_for_sync: true,
        ..Fake::default()
    }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn writes_that_come_during_a_sync_share_the_next_one_and_hold_up_no_read() {
    let (fake, server) = serving(synced(), ServeOptions::default());
    let mut clients: Vec<_> = (0..8).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        for stream in 0..20 {
            client.query(stream, "put");
        }
        // Answered while all writes wait for the disk: reads are not behind them.
        client.query(100, "which");
        assert_eq!(client.receive().0, 100);
    }
    assert_eq!(fake.syncs.load(Ordering::SeqCst), 0);
    fake.sync_gate.open();
    for client in &mut clients {
        let mut streams: Vec<_> = (0..20).map(|_| client.receive().0).collect();
        streams.sort_unstable();
        assert_eq!(streams, (0..20).collect::<Vec<_>>());
    }
    // The first sync may have had any number of them, the second had the rest.
    let syncs = fake.syncs.load(Ordering::SeqCst);
    assert!((1..=3).contains(&syncs), "{syncs} syncs for 160 writes");
}

#[test]
fn nobody_is_told_that_a_write_happened_whose_sync_failed() {
    let (fake, server) = serving(synced(), ServeOptions::default());
    fake.sync_gate.open();
    fake.sync_fails.store(true, Ordering::SeqCst);
    let mut client = Client::new(&server);
    client.query(1, "put");
    assert_eq!(client.error().message, "the disk is gone");
    client.send(
        2,
        &Request::Batch(ebb_cql::protocol::Batch {
            kind: BatchKind::Unlogged,
            statements: Vec::new(),
            consistency: Consistency::One,
            serial_consistency: None,
            timestamp_us: None,
        }),
    );
    assert_eq!(client.error().message, "the disk is gone");
}

#[test]
fn a_write_that_panics_in_the_commit_lane_harms_no_other() {
    let (fake, server) = serving(synced(), ServeOptions::default());
    fake.sync_gate.open();
    let mut client = Client::new(&server);
    client.query(1, "explode");
    client.query(2, "put");
    let mut answers = [client.receive(), client.receive()];
    answers.sort_by_key(|(stream, _)| *stream);
    assert!(
        matches!(&answers[0].1.response, Response::Error(error) if error.kind == ErrorKind::Server)
    );
    assert_eq!(answers[1].1.response, Response::Void);
}

#[test]
fn writes_that_stall_leave_a_thread_for_reads() {
    let (fake, server) = server(ServeOptions::default());
    let mut stalled = Client::new(&server);
    stalled.query(0, "stall");
    // One thread is in that write. Those that come later go elsewhere.
    std::thread::sleep(Duration::from_millis(20));
    let mut clients: Vec<_> = (0..10).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        client.query(1, "stall");
        client.query(2, "which");
    }
    // The runtime may have put a connection onto the thread that waits: the other
    // thread takes it over.
    for client in &mut clients {
        assert_eq!(client.receive().0, 2);
    }
    fake.gate.open();
    for client in &mut clients {
        assert_eq!(client.receive().0, 1);
    }
    assert_eq!(stalled.receive().0, 0);
}

#[test]
fn a_traced_request_has_an_id_under_which_its_steps_are_kept() {
    let options = ServeOptions::default();
    let activity = options.activity.clone();
    let (fake, server) = server(options);
    fake.gate.open();
    let mut client = Client::new(&server);
    for (text, steps) in [
        ("which", "thread of the connection"),
        ("put", "thread of the connection"),
        ("scan", "thread of its lane"),
        ("fail for this reason", "for this reason"),
    ] {
        let mut bytes = BytesMut::new();
        let parameters = parameters();
        Request::Query { text, parameters }.encode(&mut bytes, 5, Compression::None);
        bytes[1] |= ebb_cql::protocol::flag::TRACING;
        client.stream.write_all(&bytes).unwrap();
        let id = client.receive().1.tracing_id.expect("it was asked for");
        let trace = activity.trace(&id).expect("kept before the response");
        assert!(trace.parameters.contains(&("query", text.to_owned())));
        assert_eq!(trace.client, client.stream.local_addr().unwrap());
        let told = |event: &crate::activity::TraceEvent| event.activity.contains(steps);
        assert!(trace.events.iter().any(told), "{trace:?}");
    }
    client.query(6, "which");
    assert_eq!(client.receive().1.tracing_id, None);
    assert_eq!(activity.clients()[0].requests(), 6);
    drop(client);
    until("still a client", || activity.clients().is_empty());
}

#[test]
fn serial_reads_wait_for_the_sync_of_what_they_may_have_seen() {
    let (fake, server) = serving(synced(), ServeOptions::default());
    let mut client = Client::new(&server);
    for (stream, text) in [(1, "which"), (2, "scan")] {
        let parameters = QueryParameters {
            consistency: Consistency::Serial,
            ..parameters()
        };
        client.send(stream, &Request::Query { text, parameters });
    }
    fake.gate.open();
    client.query(3, "which");
    assert_eq!(client.receive().0, 3);
    assert_eq!(fake.syncs.load(Ordering::SeqCst), 0);
    fake.sync_gate.open();
    let mut streams = [client.receive().0, client.receive().0];
    streams.sort_unstable();
    assert_eq!(streams, [1, 2]);
    assert_eq!(fake.syncs.load(Ordering::SeqCst), 2);
}

//! More requests than the server can serve.

use std::sync::atomic::AtomicU32;
use std::thread;

use super::*;

/// The numbers of requests by their outcome.
#[derive(Debug, Default)]
struct Outcomes {
    served: AtomicU32,
    refused: AtomicU32,
}

/// Sends 8,000 requests at once and reads their responses. Checks that each is answered once and in
/// order, and that reads of system tables and KILL QUERY are not rejected.
fn flood(server: &CqlServer, outcomes: &Outcomes) {
    const REQUESTS: i16 = 8000;
    let is_about_server = |stream: i16| stream % 500 == 499;
    let mut client = Client::new(server);
    let mut frames = BytesMut::new();
    for stream in 0..REQUESTS {
        let text = match stream % 1000 {
            499 => "/* it is endless */ kill query 7",
            999 => "spin system",
            _ => "spin",
        };
        frames.extend_from_slice(&encoded(stream, text, Compression::None));
    }
    client.stream.write_all(&frames).unwrap();
    for expected in 0..REQUESTS {
        let (stream, answer) = client.receive();
        assert_eq!(stream, expected);
        match answer.response {
            Response::Void => outcomes.served.fetch_add(1, Ordering::Relaxed),
            Response::Error(error) => {
                assert_eq!(error.kind.code(), 0x1001);
                assert!(error.message.contains("overloaded"), "{error}");
                assert!(!is_about_server(stream), "{error}");
                outcomes.refused.fetch_add(1, Ordering::Relaxed)
            }
            other => panic!("{other:?}"),
        };
    }
}

/// Floods a server from three clients until it rejects a request of theirs, and returns the
/// outcomes of their requests. Checks that meanwhile the server rejects neither requests of a
/// control connection (one that is registered for events) nor new connections.
fn overload(overload_wait: Duration) -> Outcomes {
    let (_, server) = server(ServeOptions {
        overload_wait,
        ..options()
    });
    let outcomes = Outcomes::default();
    let mut control = Client::new(&server);
    control.register();
    wait::until("a request to be refused", || {
        thread::scope(|scope| {
            let floods = [(); 3].map(|()| scope.spawn(|| flood(&server, &outcomes)));
            while floods.iter().any(|flood| !flood.is_finished()) {
                control.query(2, "spin");
                assert_eq!(control.response(), Response::Void);
                let mut late = Client::new(&server);
                late.send(3, &Request::Options);
                let answer = late.response();
                assert!(matches!(answer, Response::Supported { .. }), "{answer:?}");
            }
        });
        outcomes.refused.load(Ordering::Relaxed) > 0
    });
    // The overload ends when no more requests arrive.
    let overload = server.counters().overload;
    let mut client = Client::new(&server);
    wait::until("a request to be served", || {
        wait::until("the overload to end", || overload.target().is_none());
        client.query(1, "spin");
        client.response() == Response::Void
    });
    outcomes
}

#[test]
fn in_an_overload_each_request_is_answered_and_control_is_not_rejected() {
    // Every wait exceeds this limit, so that the flood is an overload on any machine.
    let outcomes = overload(Duration::from_nanos(1));
    let (served, refused) = (outcomes.served.into_inner(), outcomes.refused.into_inner());
    assert_eq!((served + refused) % (3 * 8000), 0);
    assert!(
        served > 0,
        "the server rejects nothing before it has seen an overload"
    );
}

#[test]
#[ignore = "nightly: whether requests wait for too long depends on the machine"]
fn requests_that_waited_for_long_are_rejected() {
    let outcomes = overload(Duration::from_millis(5));
    let (served, refused) = (outcomes.served.into_inner(), outcomes.refused.into_inner());
    assert!(refused >= 100, "{refused} are refused, {served} served");
    assert!(served > 100, "{refused} are refused, {served} served");
}

/// The wait above which [`limited_to_one_request`] makes the server reject requests in an overload.
const TARGET: Duration = Duration::from_secs(1);

/// Returns options for a connection that has room for a single request on other threads.
fn limited_to_one_request() -> ServeOptions {
    ServeOptions {
        lane_requests_max: 1,
        // The target is a twentieth of this.
        overload_wait: 20 * TARGET,
        ..options()
    }
}

/// Sends statements at once, so that the server reads all of them before it executes the first one.
fn send_at_once(client: &mut Client, texts: &[&str]) {
    let mut frames = BytesMut::new();
    for (stream, &text) in (1..).zip(texts) {
        frames.extend_from_slice(&encoded(stream, text, Compression::None));
    }
    client.stream.write_all(&frames).unwrap();
}

/// Waits for longer than [`TARGET`] on the clock of overload control, then opens `gate` in an
/// overload. Returns the responses to the `count` requests of `client`, which waited for the gate.
fn responses_in_overload(
    server: &CqlServer,
    gate: &Gate,
    client: &mut Client,
    count: usize,
) -> Vec<Response> {
    let overload = server.counters().overload;
    let begun = overload.now();
    wait::until("the clock to reach the target", || {
        // The clock stops while there are no requests.
        overload.served(0, Duration::ZERO);
        overload.now() - begun > TARGET + TARGET / 10
    });
    thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Vec<Response> {
            let responses = (0..count).map(|_| client.response());
            responses.collect()
        });
        wait::until("the responses", || {
            // The counts of other clients, whose requests wait for too long.
            overload.served(1, 40 * TARGET);
            overload.rejected(1);
            if overload.target().is_some() {
                gate.open();
            }
            receiver.is_finished()
        });
        receiver.join().unwrap()
    })
}

/// Regression: a client had more scans under way than its connection may have, and no other client
/// sent anything. The server took the wait for these scans for an overload, and rejected the rest.
#[test]
fn requests_that_waited_for_scans_of_their_connection_are_not_rejected() {
    let (fake, server) = server(limited_to_one_request());
    let mut client = Client::new(&server);
    send_at_once(&mut client, &["scan", "which"]);
    wait::until("the scan to run", || fake.executed.get() == 1);
    let responses = responses_in_overload(&server, &fake.gate, &mut client, 2);
    assert_eq!(responses, [Response::Void, Response::Void]);
}

/// A connection that has waited for its scans is not exempt from overload control afterwards.
#[test]
fn requests_that_waited_for_writes_of_their_connection_after_a_scan_are_rejected() {
    let (fake, server) = serving(synced(), limited_to_one_request());
    fake.gate.open();
    let mut client = Client::new(&server);
    send_at_once(&mut client, &["scan", "put", "which"]);
    wait::until("the sync to begin", || fake.syncs_begun.get() == 1);
    let responses = responses_in_overload(&server, &fake.sync_gate, &mut client, 3);
    let [Response::Void, Response::Void, Response::Error(error)] = &responses[..] else {
        panic!("{responses:?}");
    };
    assert_eq!(error.kind, ErrorKind::Overloaded);
}

#[test]
fn an_address_has_a_limited_number_of_connections() {
    let (_, server) = server(ServeOptions {
        connections_per_address_max: Some(2),
        ..options()
    });
    let first = Client::new(&server);
    let _second = Client::new(&server);
    assert!(Client::raw(&server).try_receive().is_none());
    drop(first);
    wait::until("a place for another connection", || {
        let mut next = Client::raw(&server);
        next.send(1, &Request::Options);
        next.try_receive().is_some()
    });
}

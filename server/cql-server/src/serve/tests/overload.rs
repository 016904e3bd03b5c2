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
            499 => " kill query 7",
            999 => "spin system",
            _ => "spin",
        };
        let parameters = parameters();
        let request = Request::Query { text, parameters };
        request.encode(&mut frames, stream, Compression::None);
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
    control.send(
        1,
        &Request::Register(EventTypes {
            schema: true,
            ..EventTypes::default()
        }),
    );
    assert_eq!(control.receive().1.response, Response::Ready);
    wait::until("a request to be refused", || {
        thread::scope(|scope| {
            let floods = [(); 3].map(|()| scope.spawn(|| flood(&server, &outcomes)));
            while floods.iter().any(|flood| !flood.is_finished()) {
                control.query(2, "spin");
                assert_eq!(control.receive().1.response, Response::Void);
                let mut late = Client::new(&server);
                late.send(3, &Request::Options);
                let answer = late.receive().1.response;
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
        client.receive().1.response == Response::Void
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

//! More requests than there is time for.

use std::sync::atomic::AtomicU32;
use std::thread;

use super::*;

#[test]
fn requests_that_waited_long_are_refused_and_control_is_not() {
    let (_, server) = server(ServeOptions {
        overload_wait: Duration::from_millis(5),
        ..ServeOptions::default()
    });
    const REQUESTS: i16 = 8000;
    let (refused, served) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut control = Client::new(&server);
    control.send(
        1,
        &Request::Register(EventTypes {
            schema: true,
            ..EventTypes::default()
        }),
    );
    assert_eq!(control.receive().1.response, Response::Ready);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = Client::new(&server);
                let mut frames = BytesMut::new();
                for stream in 0..REQUESTS {
                    let text = if stream % 1000 == 999 {
                        "spin system"
                    } else {
                        "spin"
                    };
                    let parameters = parameters();
                    let request = Request::Query { text, parameters };
                    request.encode(&mut frames, stream, Compression::None);
                }
                client.stream.write_all(&frames).unwrap();
                for expected in 0..REQUESTS {
                    let (stream, answer) = client.receive();
                    assert_eq!(stream, expected, "in order, each once");
                    match answer.response {
                        Response::Void => served.fetch_add(1, Ordering::Relaxed),
                        Response::Error(error) => {
                            assert_eq!(error.kind.code(), 0x1001);
                            assert!(error.message.contains("overloaded"), "{error}");
                            assert_ne!(stream % 1000, 999, "a question about the server");
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
        while refused.load(Ordering::Relaxed) < 100 {
            control.query(2, "spin");
            assert_eq!(control.receive().1.response, Response::Void);
        }
        // Whoever comes meanwhile can start, and ask what the server can.
        let mut late = Client::new(&server);
        late.send(3, &Request::Options);
        assert!(matches!(
            late.receive().1.response,
            Response::Supported { .. }
        ));
    });
    assert!(served.load(Ordering::Relaxed) > 100, "{served:?}");
    // It ends with the requests.
    let mut client = Client::new(&server);
    let begun = Instant::now();
    client.query(1, "spin");
    while !matches!(client.receive().1.response, Response::Void) {
        assert!(begun.elapsed() < Duration::from_secs(10));
        client.query(1, "spin");
    }
}

#[test]
fn one_address_has_so_many_connections() {
    let (_, server) = server(ServeOptions {
        connections_per_address_max: Some(2),
        ..ServeOptions::default()
    });
    let first = Client::new(&server);
    let _second = Client::new(&server);
    assert!(Client::raw(&server).try_receive().is_none());
    drop(first);
    let begun = Instant::now();
    loop {
        let mut next = Client::raw(&server);
        next.send(1, &Request::Options);
        if next.try_receive().is_some() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

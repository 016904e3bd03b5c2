//! Clients that are many, or mean harm.

use ebb_cql::protocol::{Batch, WriteType};
use rustix::process::{Resource, getrlimit};

use super::*;

#[test]
fn idle_connections_are_cheap_and_harm_nobody() {
    // Client and server share the limit of open files here.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = usize::try_from(files.saturating_sub(200) / 2)
        .unwrap()
        .min(2000);
    let (_, server) = server(ServeOptions::default());
    let idle: Vec<_> = (0..connections).map(|_| Client::new(&server)).collect();
    assert_eq!(server.connections(), connections);
    let mut client = Client::new(&server);
    client.query(1, "which");
    assert_eq!(client.receive().0, 1);
    drop(idle);
    let begun = Instant::now();
    while server.connections() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "still open");
        std::thread::yield_now();
    }
}

#[test]
fn prepared_statements_take_what_they_may_however_many_there_are() {
    let statement_bytes_max = 1 << 20;
    let (_, server) = server(ServeOptions {
        statement_bytes_max,
        ..ServeOptions::default()
    });
    let mut client = Client::new(&server);
    let mut ids = Vec::new();
    for number in 0..20_000 {
        let text = format!("put {number}");
        client.send(1, &Request::Prepare { text: &text });
        match client.receive().1.response {
            Response::Prepared(prepared) => ids.push(prepared.id),
            other => panic!("{other:?}"),
        }
    }
    let mut kept = 0;
    for id in &ids {
        let parameters = parameters();
        client.send(2, &Request::Execute { id, parameters });
        match client.receive().1.response {
            Response::Void => kept += 1,
            Response::Error(error) => {
                let id = id.to_vec();
                assert_eq!(error.kind, ErrorKind::Unprepared { id });
            }
            other => panic!("{other:?}"),
        }
    }
    // Each takes its text and a few hundred bytes of bookkeeping.
    assert!(
        (100..=statement_bytes_max / 256).contains(&kept),
        "{kept} are kept"
    );
}

#[test]
fn bodies_that_would_become_too_large_are_refused_before_they_do() {
    let (_, server) = server(ServeOptions {
        body_bytes_max: 1 << 20,
        ..ServeOptions::default()
    });
    // A length past the limit is not waited for.
    let mut client = Client::new(&server);
    client
        .stream
        .write_all(&[4, 0, 0, 1, 7, 0x7f, 0xff, 0xff, 0xff])
        .unwrap();
    assert_eq!(client.error().kind, ErrorKind::Protocol);
    assert!(client.try_receive().is_none(), "the connection ends");
    // LZ4 blocks start with their length: one that says more than the limit.
    let mut client = Client::raw(&server);
    let options = vec![("CQL_VERSION", "3.4.6"), ("COMPRESSION", "lz4")];
    client.send(0, &Request::Startup(Startup { options }));
    assert_eq!(client.receive().1.response, Response::Ready);
    let mut bomb = vec![4, 1, 0, 2, 7, 0, 0, 0, 8, 0x7f, 0xff, 0xff, 0xff];
    bomb.extend([0xff; 4]);
    client.stream.write_all(&bomb).unwrap();
    assert_eq!(client.error().kind, ErrorKind::Protocol);
}

#[test]
fn counts_that_no_body_can_hold_are_errors_of_the_request() {
    let (_, server) = server(ServeOptions::default());
    let mut client = Client::new(&server);
    // QUERY: a text of 2^31 - 1 bytes; EXECUTE: an id of 65,535; BATCH: 65,535 parts;
    // STARTUP and REGISTER: 65,535 entries. None of them is there.
    let bodies: [(u8, &[u8]); 5] = [
        (7, &[0x7f, 0xff, 0xff, 0xff]),
        (10, &[0xff, 0xff]),
        (13, &[0, 0xff, 0xff]),
        (1, &[0xff, 0xff]),
        (11, &[0xff, 0xff]),
    ];
    for (stream, (opcode, body)) in (1_u8..).zip(bodies) {
        let mut bytes = vec![4, 0, 0, stream, opcode, 0, 0, 0, body.len() as u8];
        bytes.extend_from_slice(body);
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(client.error().kind, ErrorKind::Protocol, "opcode {opcode}");
    }
    // Opcodes of responses, and those that are none.
    for opcode in [0, 2, 3, 6, 8, 12, 14, 16, 0x77, 0xff] {
        client
            .stream
            .write_all(&[4, 0, 0, 9, opcode, 0, 0, 0, 0])
            .unwrap();
        assert_eq!(client.error().kind, ErrorKind::Protocol, "opcode {opcode}");
    }
    client.query(1, "which");
    assert_eq!(client.receive().0, 1);
}

#[test]
fn requests_whose_time_is_over_end_with_cassandras_codes_and_are_not_executed() {
    // Every deadline has passed when it is looked at.
    let fake = Fake {
        waits_for_sync: true,
        ..Fake::default()
    };
    fake.gate.open();
    fake.sync_gate.open();
    let options = ServeOptions {
        request_timeout: Duration::ZERO,
        ..ServeOptions::default()
    };
    let (fake, server) = serving(fake, options);
    let mut client = Client::new(&server);
    client.query(1, "scan");
    let error = client.error();
    assert_eq!(error.kind.code(), 0x1200, "{error:?}");
    client.query(2, "put");
    let error = client.error();
    assert!(
        matches!(
            error.kind,
            ErrorKind::WriteTimeout {
                write_type: WriteType::Simple,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.kind.code(), 0x1100);
    for (kind, expected) in [
        (BatchKind::Logged, WriteType::Batch),
        (BatchKind::Unlogged, WriteType::UnloggedBatch),
    ] {
        client.send(
            3,
            &Request::Batch(Batch {
                kind,
                statements: Vec::new(),
                consistency: Consistency::One,
                serial_consistency: None,
                timestamp_us: None,
            }),
        );
        let error = client.error();
        assert!(
            matches!(&error.kind, ErrorKind::WriteTimeout { write_type, .. } if *write_type == expected),
            "{error:?}"
        );
    }
    assert_eq!(fake.executed.load(Ordering::SeqCst), 0);
    // What is answered at once is not looked at.
    client.query(4, "which");
    assert_eq!(client.receive().0, 4);
}

#[test]
fn who_does_not_start_is_cut_off() {
    let (_, server) = server(ServeOptions {
        startup_timeout: Duration::from_secs(1),
        ..ServeOptions::default()
    });
    let mut started = Client::new(&server);
    let mut silent = Client::raw(&server);
    let mut asks_only = Client::raw(&server);
    asks_only.send(1, &Request::Options);
    assert_eq!(asks_only.receive().0, 1);
    let mut slow = Client::raw(&server);
    slow.stream.write_all(&[4, 0, 0]).unwrap();
    for client in [&mut silent, &mut asks_only, &mut slow] {
        assert!(client.try_receive().is_none());
    }
    started.query(1, "which");
    assert_eq!(started.receive().0, 1);
}

//! Many clients, and hostile ones.

use std::fs;
use std::net::SocketAddr;

use ebb_cql::protocol::{Batch, WriteType};
use rustix::process::{Resource, getrlimit};

use super::*;

#[test]
fn idle_connections_take_little_memory_and_delay_no_other() {
    // The test takes at most a quarter of the process's file descriptors, because other tests run
    // at the same time. A connection takes two: client and server are in one process.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = usize::try_from(files / 4 / 2).unwrap().min(2000);
    let (_, server) = server(options());
    let idle: Vec<_> = (0..connections).map(|_| Client::new(&server)).collect();
    assert_eq!(server.counters().counts().connections, connections as u64);
    let mut client = Client::new(&server);
    client.assert_served(1);
    drop(idle);
    until_connections(&server, 1);
}

/// Regression: the connection of a client whose machine was gone stayed open for ever.
#[test]
fn silent_clients_are_probed_by_the_kernel() {
    let (_, server) = server(options());
    let client = Client::new(&server);
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let own = port(server.address());
    let peer = port(client.stream.local_addr().unwrap());
    // Until the client's kernel has acknowledged READY, the timer is the one for sending it again.
    wait::until("the timer of the probes", || {
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
        table.lines().any(|line| {
            // Number, local and remote address, state, queues, timer.
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, _, _, timer, ..] = columns.as_slice() else {
                return false;
            };
            local.ends_with(&own) && remote.ends_with(&peer) && timer.starts_with("02:")
        })
    });
}

#[test]
fn prepared_statements_take_bounded_memory() {
    let statement_bytes_max = 1 << 20;
    let (_, server) = server(ServeOptions {
        statement_bytes_max,
        ..options()
    });
    let mut client = Client::new(&server);
    let mut ids = Vec::new();
    for number in 0..20_000 {
        let text = format!("put {number}");
        ids.push(prepared(&mut client, &text));
    }
    let kept = (ids.iter().filter(|id| is_prepared(&mut client, id))).count();
    // Each statement takes its text and a few hundred bytes of bookkeeping.
    assert!(
        (100..=statement_bytes_max / 256).contains(&kept),
        "{kept} are kept"
    );
}

/// Regression: PREPARE of a statement that was too long for the cache succeeded, and each EXECUTE
/// got UNPREPARED. A statement was too long already if it took a small part of the cache's memory.
#[test]
fn a_statement_is_kept_or_refused_when_it_is_prepared() {
    let (_, server) = server(ServeOptions {
        statement_bytes_max: 1 << 20,
        ..options()
    });
    let mut client = Client::new(&server);
    let text = |bytes: usize| format!("put {}", "x".repeat(bytes));
    for bytes in [1000, 100_000, 500_000] {
        let id = prepared(&mut client, &text(bytes));
        assert!(is_prepared(&mut client, &id), "{bytes} bytes");
    }
    match prepare(&mut client, &text(600_000)) {
        Response::Error(error) => {
            assert_eq!(error.kind, ErrorKind::Invalid);
            let start = "Prepared statement of size 600260 bytes is larger than allowed maximum of \
                         524288 bytes: put xxx";
            assert!(error.message.starts_with(start), "{}", error.message);
            assert!(error.message.len() < 400);
        }
        other => panic!("{other:?}"),
    }
}

/// Regression: only 3% of the cache was for new statements. While older statements that were used
/// more than once filled the rest, the new statements of one batch evicted each other.
#[test]
fn statements_of_a_batch_are_kept_beside_statements_that_are_used_more() {
    let (_, server) = server(ServeOptions {
        statement_bytes_max: 1 << 20,
        ..options()
    });
    let mut client = Client::new(&server);
    for number in 0..4000 {
        let id = prepared(&mut client, &format!("put {number}"));
        assert!(is_prepared(&mut client, &id));
    }
    let text = |number: usize| format!("put {number} {}", "x".repeat(1000));
    let ids: Vec<_> = (0..100)
        .map(|number| prepared(&mut client, &text(number)))
        .collect();
    assert!(ids.iter().all(|id| is_prepared(&mut client, id)));
}

/// Regression: the parsed statements of waiting requests were not counted, only their texts.
#[test]
fn parsed_statements_of_waiting_requests_take_bounded_memory() {
    let (fake, server) = server(ServeOptions {
        body_bytes_max: 1 << 20,
        request_bytes_max: 0,
        ..options()
    });
    let mut client = Client::new(&server);
    // Text and statement have the same length, and there are 2 MiB of memory.
    let text = format!("scan {}", "x".repeat(900_000));
    client.query(1, &text);
    client.query(2, &text);
    let (stream, answer) = client.receive();
    assert_eq!(stream, 2);
    match answer.response {
        Response::Error(error) => assert_eq!(error.kind, ErrorKind::Overloaded),
        other => panic!("{other:?}"),
    }
    // The error is no rejection by overload control.
    let counters = server.counters();
    assert_eq!(counters.counts().requests_refused, 0);
    assert!(counters.errors().contains(&(0x1001, 1)));
    fake.gate.open();
    assert_eq!(client.receive().0, 1);
    let id = prepared(&mut client, &text);
    assert!(is_prepared(&mut client, &id));
}

/// Regression: the memory of waiting requests did not include a statement that was in the cache
/// when its request began to wait, although the cache could then drop the statement, which the
/// request kept.
#[test]
fn a_prepared_statement_counts_once_for_all_requests_that_wait_with_it() {
    let (fake, server) = server(ServeOptions {
        body_bytes_max: 1 << 20,
        request_bytes_max: 0,
        statement_bytes_max: 16 << 20,
        ..options()
    });
    let mut client = Client::new(&server);
    // There are 2 MiB of memory, for two of the statements.
    let ids = ["a", "b", "c"].map(|letter| {
        let text = format!("scan {}", letter.repeat(900_000));
        prepared(&mut client, &text)
    });
    let [a, b, c] = &ids;
    for (stream, id) in [(1, a), (2, a), (3, a), (4, b), (5, c)] {
        let parameters = parameters();
        client.send(stream, &Request::Execute { id, parameters });
    }
    let (stream, answer) = client.receive();
    assert_eq!(stream, 5);
    match answer.response {
        Response::Error(error) => assert_eq!(error.kind, ErrorKind::Overloaded),
        other => panic!("{other:?}"),
    }
    fake.gate.open();
    assert_eq!(client.streams(4), [1, 2, 3, 4]);
    assert!(is_prepared(&mut client, c));
}

#[test]
fn too_large_bodies_are_rejected_before_they_are_inflated() {
    let (_, server) = server(ServeOptions {
        body_bytes_max: 1 << 20,
        ..options()
    });
    // The server does not wait for a body whose length no request can have.
    for (length, kind) in [
        (0x7fff_ffff_u32, ErrorKind::Invalid),
        (0xffff_ffff, ErrorKind::Protocol),
    ] {
        let mut client = Client::new(&server);
        let header = [&[4, 0, 0, 1, 7][..], &length.to_be_bytes()].concat();
        client.stream.write_all(&header).unwrap();
        assert_eq!(client.error().kind, kind, "{length:#x}");
        assert!(client.try_receive().is_none(), "the connection ends");
    }
    // LZ4 blocks begin with their length, which is above the limit here.
    let mut client = Client::raw(&server);
    let options = vec![("CQL_VERSION", "3.4.6"), ("COMPRESSION", "lz4")];
    client.send(0, &Request::Startup(Startup { options }));
    assert_eq!(client.response(), Response::Ready);
    let mut bomb = vec![4, 1, 0, 2, 7, 0, 0, 0, 8, 0x7f, 0xff, 0xff, 0xff];
    bomb.extend([0xff; 4]);
    client.stream.write_all(&bomb).unwrap();
    assert_eq!(client.error().kind, ErrorKind::Invalid);
    client.assert_served(3);
}

#[test]
fn counts_that_no_body_can_hold_are_errors_of_the_request() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    // QUERY: a text of 2^31 - 1 bytes; EXECUTE: an id of 65,535; BATCH: 65,535 parts; STARTUP and
    // REGISTER: 65,535 entries. The bodies contain none of that.
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
    // Opcodes of responses, and undefined ones.
    for opcode in [0, 2, 3, 6, 8, 12, 14, 16, 0x77, 0xff] {
        client
            .stream
            .write_all(&[4, 0, 0, 9, opcode, 0, 0, 0, 0])
            .unwrap();
        assert_eq!(client.error().kind, ErrorKind::Protocol, "opcode {opcode}");
    }
    client.assert_served(1);
}

#[test]
fn requests_past_their_deadline_get_cassandras_error_and_are_not_executed() {
    // Every deadline has passed at the first look.
    let fake = synced();
    fake.gate.open();
    fake.sync_gate.open();
    let options = ServeOptions {
        request_timeout: Duration::ZERO,
        ..options()
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
        let batch = Batch {
            kind,
            ..batch_of(&[])
        };
        client.send(3, &Request::Batch(batch));
        let error = client.error();
        assert!(
            matches!(&error.kind, ErrorKind::WriteTimeout { write_type, .. } if *write_type == expected),
            "{error:?}"
        );
    }
    assert_eq!(fake.executed.get(), 0);
    // A request that is answered at once does not check its deadline.
    client.assert_served(4);
}

#[test]
fn connections_that_do_not_start_are_closed() {
    let (_, server) = server(ServeOptions {
        startup_timeout: Duration::from_millis(200),
        ..options()
    });
    let mut started = wait::until_some("a client to start in time", || {
        Client::raw(&server).try_started()
    });
    let mut silent = Client::raw(&server);
    let mut asks_only = Client::raw(&server);
    asks_only.send(1, &Request::Options);
    let mut slow = Client::raw(&server);
    slow.stream.write_all(&[4, 0, 0]).unwrap();
    for client in [&mut silent, &mut asks_only, &mut slow] {
        while let Some((stream, _)) = client.try_receive() {
            assert_eq!(stream, 1, "OPTIONS is answered");
        }
    }
    // The deadline for STARTUP has passed for the first client, too.
    started.assert_served(1);
}

/// Returns a QUERY with a text of slightly more than `bytes` bytes: one word, followed by spaces.
fn long_query(stream: i16, bytes: usize) -> BytesMut {
    let text = format!("which {}", " ".repeat(bytes));
    encoded(stream, &text, Compression::None)
}

#[test]
fn a_client_that_does_not_read_leaves_most_result_memory_to_others() {
    let (fake, server) = server(ServeOptions {
        lane_result_bytes_max: 8 << 20,
        ..options()
    });
    fake.gate.open();
    let mut deaf = Client::new(&server);
    for stream in 0..60 {
        deaf.query(stream, "scan 900000");
    }
    let mut other = Client::new(&server);
    for stream in 0..20 {
        other.query(stream, "scan 900000");
        assert_eq!(other.receive().0, stream);
    }
    // The client that does not read is still connected.
    assert_eq!(server.counters().counts().connections, 2);
}

/// Regression: no limit on memory covered the responses of point reads. The server kept up to 256
/// MiB for each connection whose client did not read.
#[test]
fn unread_responses_of_point_reads_take_memory_from_the_pool_of_results() {
    let options = ServeOptions {
        lane_result_bytes_max: 24 << 20,
        ..options()
    };
    // A serial read is answered by the commit lane.
    for consistency in [Consistency::One, Consistency::Serial] {
        let fake = synced();
        fake.sync_gate.open();
        let (_, server) = serving(fake, options.clone());
        let mut deaf = Client::new(&server);
        // More than the sockets can buffer. A quarter of the memory is for results of at most a page.
        let text = &format!("read {}", 16 << 20);
        let parameters = QueryParameters {
            consistency,
            ..parameters()
        };
        deaf.send(1, &Request::Query { text, parameters });
        // The response has its memory before its first byte is sent.
        let peeked = wait::uninterrupted(|| deaf.stream.peek(&mut [0]));
        assert_eq!(peeked.unwrap(), 1);
        let mut other = Client::new(&server);
        other.query(1, "read 4000000");
        let refused = other.error();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        assert!(refused.message.contains("read in pages"), "{refused:?}");
        for text in ["read 10000", "read 1000000"] {
            other.query(2, text);
            assert_eq!(other.receive().0, 2, "{text}");
        }
        drop(deaf);
        wait::until("the memory to be free", || {
            other.query(3, "read 4000000");
            matches!(other.response(), Response::SetKeyspace { .. })
        });
    }
}

#[test]
fn halves_of_large_requests_take_bounded_memory_and_delay_no_small_request() {
    const HALF: usize = 1_800_000;
    let (_, server) = server(ServeOptions {
        body_bytes_max: 2 << 20,
        request_bytes_max: 0,
        request_timeout: Duration::from_millis(300),
        ..options()
    });
    let frame = long_query(1, 1_900_000);
    let clients = [(); 3].map(|()| {
        let mut client = Client::new(&server);
        // The server may close the connection meanwhile.
        drop(client.stream.write_all(&frame[..HALF]));
        client
    });
    let mut brief = Client::new(&server);
    brief.assert_served(7);
    // There is memory for two, because there is always memory for twice the longest body (2 MiB each).
    // A client that waits for more is rejected, and then the others do not have to wait.
    wait::until("a half to be refused", || {
        let is_answered = |client: &Client| {
            client.stream.set_nonblocking(true).unwrap();
            let peeked = wait::uninterrupted(|| client.stream.peek(&mut [0]));
            client.stream.set_nonblocking(false).unwrap();
            !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        };
        clients.iter().any(is_answered)
    });
    let (mut served, mut refused) = (Vec::new(), 0);
    for mut client in clients {
        drop(client.stream.write_all(&frame[HALF..]));
        // Otherwise the connection was closed, and the error is lost because the server had not read
        // everything.
        if let Some((stream, answer)) = client.try_receive() {
            // Regression: the error was in stream 0, and the client may have sent a write in that stream.
            assert_eq!(stream, 1);
            if let Response::Error(error) = answer.response {
                assert_eq!(error.kind, ErrorKind::Overloaded);
                refused += 1;
                continue;
            }
            // The memory of a request is free again by the next one.
            client.assert_served(2);
            served.push(client);
        }
    }
    assert!(refused > 0, "{} are served", served.len());
    until_connections(&server, 1 + served.len() as u64);
    brief.stream.write_all(&frame).unwrap();
    assert_eq!(brief.receive().0, 1);
}

#[test]
fn a_large_request_is_served_in_order_among_small_ones() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let mut all = BytesMut::new();
    for stream in 0..90 {
        let bytes = [0, 100, 200_000][stream % 3];
        all.extend_from_slice(&long_query(stream as i16, bytes));
    }
    let mut sends = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || sends.write_all(&all));
    assert!((0..90).eq((0..90).map(|_| client.receive().0)));
    sending.join().unwrap().unwrap();
}

/// Regression: the analysis of a small request ran until the deadline on a thread that serves
/// connections. One such request per thread delayed everyone's point reads and KILL QUERY.
#[test]
fn a_long_analysis_delays_no_other_connection() {
    let (fake, server) = server(options());
    // More than threads that serve connections.
    let mut clients: Vec<_> = (0..8).map(|_| Client::new(&server)).collect();
    let text = "study";
    let keyspace = None;
    for (client, kind) in clients.iter_mut().zip([0, 1, 2, 3].iter().cycle()) {
        match kind {
            0 => client.query(1, text),
            1 => client.send(1, &Request::Prepare { text, keyspace }),
            2 => {
                let write = StatementRef::Text("put study");
                client.send(1, &Request::Batch(batch_of(&[write])));
            }
            // The request after the long one waits, because it may depend on its outcome.
            _ => {
                client.query(1, text);
                client.query(2, "which");
            }
        }
    }
    for _ in 0..4 {
        let mut other = Client::new(&server);
        other.query(1, "which");
        assert_eq!(other.response(), Response::Void);
    }
    fake.gate.open();
    for (client, kind) in clients.iter_mut().zip([0, 1, 2, 3].iter().cycle()) {
        let (stream, answer) = client.receive();
        assert_eq!(stream, 1);
        let is_answered = match kind {
            1 => matches!(answer.response, Response::Prepared(_)),
            _ => answer.response == Response::Void,
        };
        assert!(is_answered, "{answer:?}");
        if *kind == 3 {
            assert_eq!(client.receive().0, 2);
        }
    }
}

/// Regression: the analysis of each text of a batch began with a new allowance of work before it
/// first read the clock. Thousands of short texts held a thread that serves connections, and on any
/// thread they ran past the deadline.
#[test]
fn no_text_of_a_batch_is_analysed_after_the_texts_before_it_took_too_long() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let texts = ["linger", "put"].map(StatementRef::Text);
    client.send(1, &Request::Batch(batch_of(&texts)));
    let keyspace = "cql-large".to_owned();
    assert_eq!(client.response(), Response::SetKeyspace { keyspace });
}

/// Regression: after a change of the schema, the second analysis of each text of a batch began with
/// a new allowance of work before it first read the clock. Thousands of short texts held a thread
/// that serves connections.
#[test]
fn the_texts_of_a_batch_that_are_analysed_again_have_one_limit_together() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    // In the cache of statements.
    for text in ["linger marked", "put marked"] {
        prepared(&mut client, text);
    }
    client.query(1, "alter a");
    client.receive();
    let mut texts = vec![StatementRef::Text("put marked"); 2 * interrupt::UNITS_PER_LOOK as usize];
    texts[0] = StatementRef::Text("linger marked");
    client.send(2, &Request::Batch(batch_of(&texts)));
    let keyspace = "cql-moved".to_owned();
    assert_eq!(client.response(), Response::SetKeyspace { keyspace });
}

/// Regression: the JSON text of an INSERT was parsed at PREPARE, without a limit.
#[test]
fn a_statement_prepared_past_the_deadline_ends_with_a_timeout() {
    let (_, server) = server(ServeOptions {
        request_timeout: Duration::ZERO,
        ..options()
    });
    let mut client = Client::new(&server);
    let text = "analyse for ever";
    client.query(1, text);
    assert_eq!(client.error().kind.code(), 0x1200);
    let keyspace = None;
    client.send(2, &Request::Prepare { text, keyspace });
    assert_eq!(client.error().kind.code(), 0x1200);
}

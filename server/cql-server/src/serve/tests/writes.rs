//! The threads on which writes run, and the traces of requests.

use super::*;
use crate::serve::pace::STUCK;

#[test]
fn writes_during_a_sync_share_the_next_one_and_delay_no_read() {
    let (fake, server) = serving(synced(), options());
    let mut clients: Vec<_> = (0..8).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        for stream in 0..20 {
            client.query(stream, "put");
        }
        // The read is answered although all writes wait for the disk.
        client.assert_served(100);
    }
    assert_eq!(fake.syncs.get(), 0);
    fake.sync_gate.open();
    for client in &mut clients {
        assert_eq!(client.streams(20), (0..20).collect::<Vec<_>>());
    }
    // The first sync may have had any number of them, the second had the rest.
    let syncs = fake.syncs.get();
    assert!((1..=3).contains(&syncs), "{syncs} syncs for 160 writes");
}

#[test]
fn a_write_whose_sync_failed_is_not_acknowledged() {
    let (fake, server) = serving(synced(), options());
    fake.sync_gate.open();
    fake.sync_fails.store(true, Ordering::SeqCst);
    let mut client = Client::new(&server);
    client.query(1, "put");
    assert_eq!(client.error().message, "the disk is gone");
    client.send(2, &Request::Batch(batch_of(&[])));
    assert_eq!(client.error().message, "the disk is gone");
}

#[test]
fn a_panic_in_the_commit_lane_affects_no_other_write() {
    let (fake, server) = serving(synced(), options());
    fake.sync_gate.open();
    let mut client = Client::new(&server);
    client.query(1, "explode");
    client.query(2, "put");
    let [first, second] = client.in_order().map(|answer| answer.response);
    assert!(matches!(first, Response::Error(error) if error.kind == ErrorKind::Server));
    assert_eq!(second, Response::Void);
}

#[test]
fn writes_that_stall_leave_a_thread_for_reads() {
    let (fake, server) = server(options());
    let mut stalled = Client::new(&server);
    stalled.query(0, "stall");
    wait::until("the write to begin", || fake.executed.get() > 0);
    // From now on writes do not run on the serving threads.
    std::thread::sleep(2 * STUCK); // clock: a write of this age counts as slow
    let mut clients: Vec<_> = (0..10).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        client.query(1, "stall");
        client.query(2, "which");
    }
    // The runtime may have put a connection onto the waiting thread. The other thread takes it
    // over.
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
fn the_traces_of_prepare_and_execute_have_the_statement() {
    let options = options();
    let activity = options.activity.clone();
    let (_, server) = server(options);
    let mut client = Client::new(&server);
    let (text, keyspace) = ("which", None);
    let prepare = Request::Prepare { text, keyspace };
    let Response::Prepared(prepared) = client.traced(&prepare).response else {
        panic!("not prepared");
    };
    let execute = Request::Execute {
        id: &prepared.id,
        parameters: parameters(),
    };
    assert_eq!(client.traced(&execute).response, Response::Void);
    let traces = activity.traces();
    let statement = ("query", text.to_owned());
    assert_eq!(traces[0].parameters, std::slice::from_ref(&statement));
    assert_eq!(traces[0].events.len(), 1);
    let (level, serial) = ("consistency_level", "serial_consistency_level");
    let expected = [
        (level, "ONE".to_owned()),
        statement,
        (serial, "SERIAL".to_owned()),
    ];
    assert_eq!(traces[1].parameters, expected);
}

#[test]
fn the_trace_of_a_request_has_its_id_and_its_steps() {
    let options = options();
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
        let parameters = parameters();
        let answer = client.traced(&Request::Query { text, parameters });
        let id = answer.tracing_id.expect("the request is traced");
        let mut traces = activity.traces().into_iter();
        let trace = traces.find(|trace| trace.id == id);
        let trace = trace.expect("kept before the response");
        assert!(trace.parameters.contains(&("query", text.to_owned())));
        assert_eq!(trace.client, client.stream.local_addr().unwrap());
        let has_steps = |event: &crate::activity::TraceEvent| event.activity.contains(steps);
        assert!(trace.events.iter().any(has_steps), "{trace:?}");
        // Clients add a last step of their own.
        let is_last = |event: &crate::activity::TraceEvent| event.activity == "Request complete";
        assert!(!trace.events.iter().any(is_last), "{trace:?}");
    }
    client.query(6, "which");
    assert_eq!(client.receive().1.tracing_id, None);
    assert_eq!(activity.clients()[0].requests(), 6);
    drop(client);
    wait::until("the client to be gone", || activity.clients().is_empty());
}

#[test]
fn serial_reads_wait_for_a_sync_of_the_writes_that_they_read() {
    let (fake, server) = serving(synced(), options());
    let mut client = Client::new(&server);
    for (stream, text) in [(1, "which"), (2, "scan")] {
        let parameters = QueryParameters {
            consistency: Consistency::Serial,
            ..parameters()
        };
        client.send(stream, &Request::Query { text, parameters });
    }
    fake.gate.open();
    client.assert_served(3);
    assert_eq!(fake.syncs.get(), 0);
    fake.sync_gate.open();
    assert_eq!(client.streams(2), [1, 2]);
    assert_eq!(fake.syncs.get(), 2);
}

/// If writes have waited longer than `overload_wait`, the server executes five groups of them (each
/// of up to 1,024 writes that share a sync) and rejects the others. It rejects no other requests,
/// and no write of a connection that is registered for events.
#[test]
fn writes_that_have_waited_for_several_groups_are_rejected() {
    /// All clients together send 6,400 writes, more than fit into five groups.
    const CLIENTS: usize = 50;
    /// The number of batches in which each client sends its writes. After each batch a client waits
    /// until the server has queued it, so that no write is rejected for its wait before the queue.
    const BATCHES: i16 = 4;
    const BATCH: i16 = 32;
    const EACH: i16 = BATCHES * BATCH;
    const WAIT: Duration = Duration::from_millis(300);
    let (fake, server) = serving(
        synced(),
        ServeOptions {
            lane_requests_max: EACH as usize + 1,
            overload_wait: WAIT,
            ..options()
        },
    );
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        for batch in 0..BATCHES {
            for stream in batch * BATCH..(batch + 1) * BATCH {
                client.query(stream, "put");
            }
            // The server reads requests in order: once this one is answered, the writes are queued.
            client.assert_served(EACH);
        }
    }
    let mut control = Client::new(&server);
    control.register();
    control.query(2, "put");
    control.assert_served(3);
    std::thread::sleep(WAIT + Duration::from_millis(1)); // clock: writes are late after this time
    fake.sync_gate.open();
    let (mut done, mut refused) = (0_u64, 0_u64);
    for client in &mut clients {
        for _ in 0..EACH {
            match client.response() {
                Response::Error(error) => {
                    assert_eq!(error.kind, ErrorKind::Overloaded);
                    refused += 1;
                }
                _ => done += 1,
            }
        }
    }
    assert_eq!(control.response(), Response::Void);
    // The first group has at least one write, and the four after it are full.
    assert!((4 * 1024..=5 * 1024).contains(&done), "{done} done");
    assert_eq!(done + refused, (CLIENTS * EACH as usize) as u64);
    assert_eq!(server.counters().counts().requests_refused, refused);
}

//! Long scans, and other requests beside them.

use ebb_colocate::FloorShare;
use ebb_threads::{FLOOR_NICE, current_nice, lower_current_thread, raise_current_thread};

use super::*;
use crate::serve::replies::stopping;

/// Returns a statement that looks up four billion missing rows.
fn endless() -> String {
    let all: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    let all = all.join(", ");
    format!(
        "SELECT count(*) FROM ks.wide WHERE a IN ({all}) AND b IN ({all}) AND c IN ({all}) \
         AND d IN ({all})"
    )
}

/// Creates the table of [`endless`], and permits `ada` and another role `eve` to read it.
pub(super) fn prepare(root: &mut Client) {
    for text in [
        "CREATE TABLE ks.wide (a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d))",
        "CREATE ROLE eve WITH PASSWORD = 'eve' AND LOGIN = true",
        "GRANT SELECT ON ks.wide TO ada",
        "GRANT SELECT ON ks.wide TO eve",
    ] {
        root.run(text);
    }
}

/// Sends `count` endless statements on a new connection, and returns the connection once the server
/// has received all of them.
pub(super) fn begin_endless(server: &CqlServer, user: &str, count: i16) -> Client {
    let mut client = Client::logged_in(server, user);
    for stream in 0..count {
        client.query(stream, &endless());
    }
    // This point read is answered while they run.
    client.query(100, "SELECT * FROM system.local");
    assert_eq!(client.receive().0, 100);
    client
}

/// Returns whether the kernel lets a thread of the idle class return to the normal class, with the
/// nice value at which scans get a minimum of CPU even while other processes use all cores.
pub(super) fn may_leave_idle_class() -> bool {
    let is_raised = std::thread::spawn(|| {
        let nice = current_nice().max(FLOOR_NICE);
        lower_current_thread();
        raise_current_thread(nice)
    });
    is_raised.join().unwrap()
}

#[test]
fn a_scan_is_answered_at_its_deadline_while_its_thread_goes_on() {
    let (fake, server) = server(ServeOptions {
        request_timeout: Duration::from_millis(50),
        ..options()
    });
    let mut client = Client::new(&server);
    // On a slow machine the first deadline may pass before the scan begins.
    while fake.executed.get() == 0 {
        client.query(1, "scan");
        assert_eq!(client.error().kind.code(), 0x1200);
    }
    // The thread still waits at the gate, and the connection goes on.
    assert_eq!(fake.cancelled.get(), 0);
    client.assert_served(2);
    drop(client);
    wait::until("the scan to notice that its client is gone", || {
        fake.cancelled.get() > 0
    });
}

#[test]
fn statements_that_compute_for_long_move_to_other_threads() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    for text in ["compute", "compute-put"] {
        client.query(1, text);
        assert_eq!(client.response(), Response::Void, "{text}");
    }
}

#[test]
fn a_write_that_computes_for_long_leaves_the_commit_lane_and_is_synced() {
    let fake = synced();
    fake.sync_gate.open();
    let (fake, server) = serving(fake, options());
    let mut client = Client::new(&server);
    // A moved read waits for no sync.
    for (text, syncs) in [("compute", 0), ("compute-put", 1)] {
        client.query(1, text);
        assert_eq!(client.response(), Response::Void);
        assert_eq!(fake.syncs.get(), syncs, "{text}");
    }
}

/// Regression: on a server without authentication all clients of an address are one user. Ten scans
/// of one client made a large batch of another client wait until its timeout.
#[test]
fn a_moved_statement_waits_neither_for_scans_of_its_user_nor_for_result_memory() {
    let (fake, server) = server(ServeOptions {
        lane_result_bytes_max: 1 << 20,
        ..options()
    });
    let mut scans = Client::new(&server);
    for stream in 0..10 {
        scans.query(stream, "scan");
    }
    // One of them has taken all the memory for results.
    wait::until("a scan to run", || fake.executed.get() > 0);
    let mut other = Client::new(&server);
    for client in [&mut scans, &mut other] {
        for (stream, text) in [(100, "compute"), (101, "compute-put")] {
            client.query(stream, text);
            let (answered, answer) = client.receive();
            assert_eq!((answered, answer.response), (stream, Response::Void));
        }
    }
    fake.gate.open();
    for _ in 0..10 {
        assert!((0..10).contains(&scans.receive().0));
    }
}

#[test]
fn a_result_without_memory_is_rejected_and_leaves_the_memory_to_others() {
    let (fake, server) = server(ServeOptions {
        lane_result_bytes_max: 2 << 20,
        ..options()
    });
    fake.gate.open();
    let mut client = Client::new(&server);
    client.query(1, "scan 4000000");
    let refused = client.error();
    assert_eq!(refused.kind, ErrorKind::Overloaded);
    assert!(refused.message.contains("read in pages"), "{refused:?}");
    client.query(2, "scan 1000000");
    let (stream, answer) = client.receive();
    assert_eq!(stream, 2);
    assert!(matches!(answer.response, Response::SetKeyspace { .. }));
}

/// Regression: if other processes took all cores while a scan was in the idle class, the scan made
/// no progress until its timeout, while later scans ran on the floor (a minimum of CPU for scans).
#[test]
fn a_scan_in_the_idle_class_continues_on_the_floor_once_that_is_in_use() {
    let share = Arc::new(FloorShare::new());
    let (fake, server) = server(ServeOptions {
        idle_class: true,
        floor: Some(share.clone()),
        ..options()
    });
    let mut client = Client::new(&server);
    client.query(1, "starve");
    wait::until("the scan to run", || fake.executed.get() == 1);
    share.set(Some(1.0));
    assert_eq!(client.response(), Response::Void);
    // The thread enters the floor if the kernel lets it, or else the scan begins anew.
    let executions = if may_leave_idle_class() { 1 } else { 2 };
    assert_eq!(fake.executed.get(), executions);
}

/// Regression: two statements that never ended kept all users' scans waiting.
#[test]
fn twenty_endless_statements_of_two_users_do_not_delay_scans_of_a_third() {
    let (_, server) = login::server(options());
    let mut root = Client::logged_in(&server, "root");
    prepare(&mut root);
    let bad = ["ada", "eve"].map(|user| begin_endless(&server, user, 10));
    let scan = "SELECT * FROM ks.wide WHERE a = 1 AND b = 1";
    for _ in 0..3 {
        assert!(matches!(root.run(scan), Response::Rows(_)));
    }
    // The end of a connection cancels its requests, so that the same users can scan again.
    drop(bad);
    for user in ["ada", "eve"] {
        let rows = Client::logged_in(&server, user).run(scan);
        assert!(matches!(rows, Response::Rows(_)));
    }
}

#[test]
fn a_server_that_stops_ends_statements_that_never_end() {
    let (executor, server) = login::server(options());
    let mut root = Client::logged_in(&server, "root");
    prepare(&mut root);
    let mut bad = begin_endless(&server, "ada", 3);
    assert!(server.drain(HANG));
    wait::until("the threads to end", || Arc::strong_count(&executor) == 1);
    for _ in 0..3 {
        assert_eq!(bad.error(), stopping());
    }
    assert!(bad.try_receive().is_none());
}

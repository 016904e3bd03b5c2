//! Queries in lanes, which operators list and kill.

use std::sync::mpsc::channel;
use std::time::Instant;

use ebb_colocate::FloorShare;

use super::*;
use crate::access::User;
use crate::queries::{Listed, Progress, Queries, Query, QueryRow};
use crate::serve::replies::killed;
use crate::serve::{ServerEvent, ServerEvents};

/// Waits until the listed queries have these states, the oldest first.
#[track_caller]
fn until_listed(queries: &Queries, states: &[&str]) -> Vec<QueryRow> {
    wait::until_some("the queries to be listed", || {
        let rows = queries.rows();
        let found = rows.iter().map(|row| row.state);
        found.eq(states.iter().copied()).then_some(rows)
    })
}

#[test]
fn a_killed_scan_ends_with_an_error_and_a_scan_of_another_user_goes_on() {
    let (_, server) = login::server(options());
    scans::prepare(&mut Client::logged_in(&server, "root"));
    let queries = server.queries();
    let mut ada = scans::begin_endless(&server, "ada", 1);
    until_listed(&queries, &["running"]);
    let _eve = scans::begin_endless(&server, "eve", 1);
    let rows = until_listed(&queries, &["running"; 2]);
    let users: Vec<_> = rows.iter().map(|row| row.user.as_deref()).collect();
    assert_eq!(users, [Some("ada"), Some("eve")]);
    let statement = &rows[0].statement;
    let begin = "SELECT count(*) FROM ks.wide WHERE a IN (?, ?, ";
    let is_masked = statement.starts_with(begin) && statement.ends_with("...");
    assert!(is_masked, "{statement}");
    assert_eq!(queries.kill(rows[0].id), Some(true));
    assert_eq!(ada.error(), killed(parameters().consistency));
    // The thread of the killed scan ends.
    let left = until_listed(&queries, &["running"]);
    assert_eq!(left[0].id, rows[1].id);
    assert_eq!(queries.kill(rows[0].id), None);
    // The client's error counts, a read failure, and not also the thread's, a read timeout.
    let mut errors = server.counters().errors();
    errors.retain(|(code, _)| [0x1200, 0x1300].contains(code));
    assert_eq!(errors, [(0x1200, 0), (0x1300, 1)]);
    ada.run("SELECT * FROM system.local");
}

#[test]
fn kill_query_is_permitted_to_the_user_of_the_query_and_to_superusers() {
    let (sender, reported) = channel();
    let report = move |event: ServerEvent<'_>| {
        if let ServerEvent::Administered {
            user: Some(user),
            query: Some(id),
            ..
        } = event
        {
            drop(sender.send((user.to_owned(), id)));
        }
    };
    let (_, server) = login::server(ServeOptions {
        events: ServerEvents::new(report),
        ..options()
    });
    let mut root = Client::logged_in(&server, "root");
    scans::prepare(&mut root);
    let queries = server.queries();
    let mut scans = scans::begin_endless(&server, "ada", 2);
    let rows = until_listed(&queries, &["running"; 2]);
    let kill = |row: &QueryRow| format!("KILL QUERY {}", row.id);
    let refused = Client::logged_in(&server, "eve").refused(&kill(&rows[0]));
    assert_eq!(refused.kind, ErrorKind::Unauthorized);
    let mut ada = Client::logged_in(&server, "ada");
    for (client, row) in [(&mut ada, &rows[0]), (&mut root, &rows[1])] {
        assert_eq!(client.run(&kill(row)), Response::Void);
        // The same error as for a kill over HTTP.
        assert_eq!(scans.error(), killed(parameters().consistency));
    }
    until_listed(&queries, &[]);
    let gone = ada.refused(&kill(&rows[0]));
    let message = format!("no query {} waits or runs", rows[0].id);
    assert_eq!((gone.kind, gone.message), (ErrorKind::Invalid, message));
    let killers = [
        ("ada".to_owned(), rows[0].id),
        ("root".to_owned(), rows[1].id),
    ];
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), killers);
}

/// Regression: a killed scan that waited for memory kept its thread until its timeout.
#[test]
fn a_scan_killed_while_it_waits_for_memory_frees_its_thread() {
    let (fake, server) = server(ServeOptions {
        scans_max: 2,
        scan_threads_max: 2,
        lane_result_bytes_max: 1 << 20,
        ..options()
    });
    let (mut client, queries) = (Client::new(&server), server.queries());
    let until_waits = |waits: &[Option<&'static str>]| {
        wait::until_some("the queries to wait", || {
            let rows = queries.rows();
            let found = rows.iter().map(|row| row.waits_for);
            found.eq(waits.iter().copied()).then_some(rows)
        })
    };
    client.query(1, "scan 'one'");
    until_waits(&[None]);
    client.query(2, "scan 'two'");
    until_waits(&[None, Some("memory")]);
    client.query(3, "scan 'three'");
    let rows = until_waits(&[None, Some("memory"), Some("turn")]);
    assert_eq!(queries.kill(rows[1].id), Some(true));
    assert_eq!(client.error(), killed(parameters().consistency));
    until_waits(&[None, Some("memory")]);
    fake.gate.open();
    assert_eq!(client.streams(2), [1, 3]);
}

#[test]
fn a_role_sees_its_own_queries_or_with_select_those_of_all_users() {
    let (_, server) = login::server(options());
    let mut root = Client::logged_in(&server, "root");
    scans::prepare(&mut root);
    let _running = ["ada", "eve"].map(|user| scans::begin_endless(&server, user, 1));
    until_listed(&server.queries(), &["running"; 2]);
    let users = |client: &mut Client| {
        let Response::Rows(rows) = client.run("SELECT username FROM system_views.queries") else {
            panic!("it selects rows");
        };
        let mut users: Vec<_> = rows.cells().map(|cell| cell.unwrap().to_vec()).collect();
        users.sort_unstable();
        users
    };
    let mut ada = Client::logged_in(&server, "ada");
    assert_eq!(users(&mut ada), [b"ada"]);
    assert_eq!(users(&mut root), [b"ada", b"eve"]);
    root.run("GRANT SELECT ON system_views.queries TO ada");
    assert_eq!(users(&mut ada), [b"ada", b"eve"]);
}

#[test]
fn a_waiting_scan_can_be_killed_and_a_schema_change_cannot() {
    let (fake, server) = server(ServeOptions {
        scans_max: 1,
        ..options()
    });
    let (mut client, queries) = (Client::new(&server), server.queries());
    client.query(1, "scan 'one'");
    until_listed(&queries, &["running"]);
    client.query(2, "scan 'two'");
    let rows = until_listed(&queries, &["running", "waiting"]);
    assert_eq!((&*rows[1].statement, rows[1].lane), ("scan ?", "scan"));
    assert_eq!(queries.kill(rows[1].id), Some(true));
    let (stream, answer) = client.receive();
    let error = Response::Error(killed(parameters().consistency));
    assert_eq!((stream, answer.response), (2, error));
    client.query(3, "alter slowly");
    let rows = until_listed(&queries, &["running"; 2]);
    assert_eq!(queries.kill(rows[1].id), Some(false));
    fake.gate.open();
    assert_eq!(client.streams(2), [1, 3]);
    until_listed(&queries, &[]);
    // The killed scan has never begun.
    assert_eq!(fake.executed.get(), 2);
}

/// Lists a read that waits, as the first query of `queries`.
fn list_read(queries: &Arc<Queries>) -> (Listed, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let statement = FakeStatement {
        text: "starve".to_owned(),
        columns: Columns::default(),
        is_of_altered: false,
    };
    let query = Query {
        address: ([127, 0, 0, 1], 9).into(),
        user: Arc::new(User::anyone()),
        keyspace: None,
        statement: Some(Arc::new(statement)),
        statements: 1,
        lane: Lane::Range,
        is_read: true,
        received_at: Instant::now(), // clock: a query has the instant of its arrival
        progress: progress.clone(),
    };
    (queries.list(&Arc::new(query)), progress)
}

/// Regression: a kill of a query whose client already had an error was reported as successful.
#[test]
fn a_query_whose_client_has_an_error_cannot_be_killed() {
    let queries = Arc::new(Queries::default());
    let (_listed, progress) = list_read(&queries);
    assert_eq!(queries.kill(1), Some(true));
    progress.begin(Instant::now()); // clock: an attempt has the instant of its start
    progress.end_with_error();
    assert_eq!(queries.rows()[0].state, "ending");
    assert_eq!(queries.kill(1), None);
}

/// Regression: a scan that began anew was listed as running while it waited.
#[test]
fn a_query_that_begins_anew_is_listed_as_waiting_until_it_runs_again() {
    let queries = Arc::new(Queries::default());
    let (_listed, progress) = list_read(&queries);
    let row = || {
        let row = queries.rows().pop().unwrap();
        (row.state, row.waits_for)
    };
    assert_eq!(row(), ("waiting", Some("client")));
    for _ in 0..2 {
        progress.has_place.store(true, Ordering::Relaxed);
        assert_eq!(row(), ("waiting", Some("turn")));
        progress.has_turn.store(true, Ordering::Relaxed);
        assert_eq!(row(), ("waiting", Some("memory")));
        progress.begin(Instant::now()); // clock: an attempt has the instant of its start
        assert_eq!(row(), ("running", None));
        let before = queries.rows().pop().unwrap().running;
        progress.wait_anew();
        assert_eq!(row(), ("waiting", Some("client")));
        let waiting = queries.rows().pop().unwrap();
        assert!(waiting.running >= before, "the first attempt counts");
    }
}

#[test]
fn a_scan_left_behind_in_the_idle_class_waits_for_a_thread_of_the_floor() {
    let share = Arc::new(FloorShare::new());
    let (fake, server) = server(ServeOptions {
        idle_class: true,
        floor: Some(share.clone()),
        scans_max: 1,
        scan_threads_max: 1,
        ..options()
    });
    let (mut client, queries) = (Client::new(&server), server.queries());
    // Its thread is in the idle class before the floor comes into use.
    client.query(0, "range");
    assert_eq!(client.receive().0, 0);
    share.set(Some(1.0));
    client.query(1, "occupy");
    until_listed(&queries, &["running"]);
    share.set(None);
    client.query(2, "starve");
    wait::until("the scan to run in the idle class", || {
        fake.executed.get() == 3
    });
    share.set(Some(1.0));
    if !scans::may_leave_idle_class() {
        wait::until("the scan to wait for its turn on the floor", || {
            let rows = queries.rows();
            let waits = rows.iter().map(|row| row.waits_for);
            waits.eq([None, Some("turn")])
        });
    }
    fake.gate.open();
    assert_eq!(client.streams(2), [1, 2]);
}

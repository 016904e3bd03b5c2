//! A server whose store takes no more writes, because one has failed.

use ebb_cql::client::Client;
use ebb_cql::protocol::Response;
use ebb_test_support::wait::until;
use rustix::process::Signal;

use crate::hostile::{deaf, wide_table};
use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

/// A command of a shell, after which its processes may write at most 4 MiB to a file. A write beyond this limit
/// fails as on a broken disk, not as on a full one.
pub const LIMIT: &str = "ulimit -f 4096";

const TABLE: &str = "CREATE TABLE shop.orders (id int PRIMARY KEY, v text)";

/// Starts a server within the [`LIMIT`].
fn limited(place: &Place, more: &str) -> Server {
    Server::start_after(place, LIMIT, more)
}

pub fn create_table(client: &mut Client) {
    query(client, KEYSPACE).unwrap();
    query(client, TABLE).unwrap();
}

/// Writes rows of 1 MiB until the server refuses one. Returns the number of those that it accepted.
pub fn write_until_one_fails(client: &mut Client) -> usize {
    let value = "v".repeat(1 << 20);
    let fails = |id: &usize| {
        let insert = format!("INSERT INTO shop.orders (id, v) VALUES ({id}, '{value}')");
        query(client, &insert).is_err()
    };
    (0..100).find(fails).expect("the log has a limit")
}

/// Creates the table, and writes until a write fails. Returns the number of rows that the server accepted.
fn create_and_write_until_one_fails(client: &mut Client) -> usize {
    create_table(client);
    let written = write_until_one_fails(client);
    assert!(written > 0);
    written
}

fn count(client: &mut Client) -> usize {
    match query(client, "SELECT id FROM shop.orders") {
        Ok(Response::Rows(rows)) => rows.len(),
        other => panic!("{other:?}"),
    }
}

/// Checks that the server has all rows that it accepted, and takes others.
fn check_written(server: &Server, written: usize) {
    let mut client = server.client();
    // The failed write may have reached the log.
    let there = count(&mut client);
    assert!((written..=written + 1).contains(&there), "{there}");
    query(&mut client, "INSERT INTO shop.orders (id) VALUES (-1)").unwrap();
}

#[test]
fn after_a_failed_write_the_same_process_has_what_was_written_before() {
    let place = Place::new();
    let mut server = limited(&place, "");
    let written = create_and_write_until_one_fails(&mut server.client());
    server.error_line_with("rejects all writes until its database is opened again");
    let line = server.error_line_with("reopenings within an hour: 1 of at most 3");
    assert!(line.contains("File too large"), "{line}");
    server.until_started_again();
    let line = server.error_line_with(r#""reopenings":1"#);
    assert!(line.contains(r#""message":"started""#), "{line}");
    check_written(&server, written);
    // The old program left none open.
    assert_eq!(server.sockets_for_jobs(), 1);
    // The signal goes to the process that the test started.
    assert_eq!(server.stop(), Some(0));
}

/// Regression: a process of a task that ended later than the shutdown stayed as a zombie.
#[test]
fn a_server_that_started_again_collects_the_children_of_the_old_program() {
    let place = Place::new();
    // The shell becomes the server, so its child becomes that of the server. The child ends after a write.
    let child = "mkfifo gate && { cat gate >/dev/null 2>&1 & }";
    let mut server = Server::start_after(&place, &format!("{child} && {LIMIT}"), "");
    assert_eq!(server.children(), 1);
    create_and_write_until_one_fails(&mut server.client());
    server.until_started_again();
    assert_eq!(server.children(), 1);
    place.write("gate", "");
    until("the end of the child", || server.children() == 0);
    assert_eq!(server.stop(), Some(0));
}

/// Regression: the new start read the settings from the empty pipe, and served another directory with the
/// default settings.
#[test]
fn a_failed_write_ends_a_server_whose_settings_came_through_a_pipe() {
    let place = Place::new();
    let mut server = limited(&place, r#"--config <(echo 'cluster-name = "here"')"#);
    let warning = server.error_line_with("is no regular file");
    assert!(warning.contains("the server exits"), "{warning}");
    create_and_write_until_one_fails(&mut server.client());
    server.error_line_with("ebb: the server stopped");
    assert_eq!(server.wait(), Some(1));
}

#[test]
fn the_fourth_failed_write_within_an_hour_ends_the_server() {
    let place = Place::new();
    let mut server = limited(&place, "");
    create_and_write_until_one_fails(&mut server.client());
    for reopenings in 1..=3 {
        let line = format!("reopenings within an hour: {reopenings} of at most 3");
        server.error_line_with(&line);
        server.until_started_again();
        write_until_one_fails(&mut server.client());
    }
    let message = server.error_line_with("ebb: the server stopped");
    assert!(message.contains("File too large"), "{message}");
    assert!(message.contains("opened again 3 times"), "{message}");
    assert_eq!(server.wait(), Some(1));
}

/// Regression: the third new start gave the job up. The server had parked it each time, and could not record it.
#[test]
fn a_job_goes_on_after_each_new_start() {
    let place = Place::new();
    let mut server = limited(&place, "");
    create_table(&mut server.client());
    let run = "run pi --points 1000000000000000 --output pi.tsv --detach";
    place.ebb(run).ok();
    for _ in 1..=3 {
        write_until_one_fails(&mut server.client());
        server.until_started_again();
        until("the job to run", || {
            place.ebb("jobs last").ok().contains(": running")
        });
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_signal_ends_a_server_that_is_about_to_start_again() {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let mut client = server.client();
    wide_table(&mut client);
    query(&mut client, TABLE).unwrap();
    // The shutdown waits for this client.
    let _deaf = deaf(&server);
    // The log is already longer than that.
    server.limit_file_bytes(1 << 20);
    write_until_one_fails(&mut client);
    server.error_line_with("a signal ends it at once");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(128 + 15));
}

#[test]
fn a_failed_write_ends_a_server_that_is_to_exit_and_the_next_one_has_what_was_written_before() {
    let place = Place::new();
    let mut server = limited(&place, "--on-failed-write exit");
    let written = create_and_write_until_one_fails(&mut server.client());
    server.error_line_with("rejects all writes until its database is opened again");
    let message = server.error_line_with("ebb: the server stopped");
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(server.wait(), Some(1));

    let server = Server::start(&place, "");
    check_written(&server, written);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_is_to_stay_up_answers_reads_after_a_failed_write() {
    let place = Place::new();
    let mut server = limited(&place, "--on-failed-write read-only");
    let mut client = server.client();
    let written = create_and_write_until_one_fails(&mut client);
    server.error_line_with("rejects all writes until its database is opened again");
    assert!(count(&mut client) >= written);
    let insert = "INSERT INTO shop.orders (id) VALUES (-1)";
    assert!(query(&mut client, insert).is_err());
    assert!(!server.has_ended());
    // The exit code is 1, because memtables cannot be flushed; 0 if they were flushed before.
    assert!(matches!(server.stop(), Some(0 | 1)));
}

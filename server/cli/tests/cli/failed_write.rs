//! A server whose store takes no more writes, because one has failed.

use ebb_cql::client::Client;
use ebb_cql::protocol::Response;

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

/// Starts a server that may write at most 4 MiB to a file. A write beyond this limit fails as on a broken
/// disk, not as on a full one.
fn limited(place: &Place, more: &str) -> Server {
    Server::start_after(place, "ulimit -f 4096", more)
}

/// Writes rows of 1 MiB until the server refuses one. Returns the number of those that it accepted.
fn write_until_one_fails(client: &mut Client) -> usize {
    query(client, KEYSPACE).unwrap();
    let table = "CREATE TABLE shop.orders (id int PRIMARY KEY, v text)";
    query(client, table).unwrap();
    let value = "v".repeat(1 << 20);
    let fails = |id: &usize| {
        let insert = format!("INSERT INTO shop.orders (id, v) VALUES ({id}, '{value}')");
        query(client, &insert).is_err()
    };
    (0..100).find(fails).expect("the log has a limit")
}

fn count(client: &mut Client) -> usize {
    match query(client, "SELECT id FROM shop.orders") {
        Ok(Response::Rows(rows)) => rows.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_write_ends_the_server_and_the_next_one_has_what_was_written_before() {
    let place = Place::new();
    let mut server = limited(&place, "");
    let written = write_until_one_fails(&mut server.client());
    assert!(written > 0);
    server.error_line_with("rejects all writes until it is restarted");
    let message = server.error_line_with("ebb: the server stopped");
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(server.wait(), Some(1));

    let server = Server::start(&place, "");
    let mut client = server.client();
    // The failed write may have reached the log.
    let there = count(&mut client);
    assert!((written..=written + 1).contains(&there), "{there}");
    query(&mut client, "INSERT INTO shop.orders (id) VALUES (-1)").unwrap();
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_is_to_stay_up_answers_reads_after_a_failed_write() {
    let place = Place::new();
    let mut server = limited(&place, "--on-failed-write read-only");
    let mut client = server.client();
    let written = write_until_one_fails(&mut client);
    server.error_line_with("rejects all writes until it is restarted");
    assert!(count(&mut client) >= written);
    let insert = "INSERT INTO shop.orders (id) VALUES (-1)";
    assert!(query(&mut client, insert).is_err());
    assert!(!server.has_ended());
    // The exit code is 1, because memtables cannot be flushed; 0 if they were flushed before.
    assert!(matches!(server.stop(), Some(0 | 1)));
}

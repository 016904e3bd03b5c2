//! Logged batches over tables of two keyspaces: each is written whole, or not at all.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;

use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Response};

use super::clients::run;

/// The tables that each batch writes to.
pub const TABLES: [&str; 3] = ["ks.a", "ks.b", "other.c"];

/// Writes `requests` batches with the numbers `first`, `first + 1` and so on. Stops early if the
/// connection ends. Returns the numbers of the acknowledged batches.
fn client(address: SocketAddr, requests: usize, first: i32) -> Vec<i32> {
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = Client::connect(address, Compression::None) else {
        return acknowledged;
    };
    for number in (first..).take(requests) {
        let one = |table| {
            format!(
                "INSERT INTO {table} (k, c) VALUES ({}, {number});",
                number % 5
            )
        };
        let text = format!("BEGIN BATCH {} APPLY BATCH", TABLES.map(one).join(" "));
        if run(&mut connection, &text).is_err() {
            break;
        }
        acknowledged.push(number);
    }
    acknowledged
}

/// Runs `clients` clients at once, which write `requests` batches each, with different numbers from
/// `first` on. Returns the numbers of the acknowledged batches.
pub fn clients(
    address: SocketAddr,
    (clients, requests): (usize, usize),
    first: i32,
) -> BTreeSet<i32> {
    thread::scope(|scope| {
        let start = |n: usize| {
            let first = first + (n * requests) as i32;
            scope.spawn(move || client(address, requests, first))
        };
        let running: Vec<_> = (0..clients).map(start).collect();
        let all = running.into_iter().map(|client| client.join());
        all.flat_map(|numbers| numbers.expect("a client does not panic"))
            .collect()
    })
}

/// Reads the numbers of the batches whose rows are in a table.
pub fn read(client: &mut Client, table: &str) -> BTreeSet<i32> {
    let text = format!("SELECT c FROM {table}");
    let Ok(Response::Rows(rows)) = run(client, &text) else {
        panic!("{text} gives rows");
    };
    assert_eq!(rows.paging_state, None, "{text} has one page");
    let cells = rows.cells().flatten();
    cells
        .map(|cell| i32::from_be_bytes(cell.try_into().expect("an int")))
        .collect()
}

//! Counters: each increment that was acknowledged counts once, over threads and crashes.

use std::net::SocketAddr;
use std::thread;

use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Response};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::clients::run;

/// The number of rows. Every client adds to the counters of all rows.
pub const ROWS: usize = 3;

/// The bounds of the sum that clients have added to a counter: increments without a response may
/// have happened or not.
#[derive(Debug, Default, Clone, Copy)]
pub struct Expected {
    pub least: i64,
    pub greatest: i64,
}

impl Expected {
    fn add(&mut self, by: i64, is_known: bool) {
        // An increment without a response may have happened.
        self.least += if is_known { by } else { by.min(0) };
        self.greatest += if is_known { by } else { by.max(0) };
    }
}

/// Sends `requests` requests that add to the counters, singly and in batches over several
/// partitions. Stops early if the connection ends. Returns the bounds of the sum that the client
/// has added to each counter.
fn client(address: SocketAddr, requests: usize, seed: u64) -> [Expected; ROWS] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut expected = [Expected::default(); ROWS];
    let Ok(mut connection) = Client::connect(address, Compression::None) else {
        return expected;
    };
    for _ in 0..requests {
        let count = rng.random_range(1..4);
        let changes: Vec<(usize, i64)> = (0..count)
            .map(|_| (rng.random_range(0..ROWS), rng.random_range(-3..10)))
            .collect();
        let one = |(row, by): &(usize, i64)| {
            format!("UPDATE ks.n SET c = c + {by} WHERE k = {row} AND r = 0")
        };
        let text = match &changes[..] {
            [change] => one(change),
            changes => {
                let all: Vec<String> = changes.iter().map(one).collect();
                format!("BEGIN COUNTER BATCH {}; APPLY BATCH", all.join("; "))
            }
        };
        let is_known = run(&mut connection, &text).is_ok();
        for (row, by) in changes {
            expected[row].add(by, is_known);
        }
        if !is_known {
            break;
        }
    }
    expected
}

/// Runs `clients` clients at once, which send `requests` requests each. Returns, for the counter of
/// each row, the bounds of the sum that they have added.
pub fn clients(
    address: SocketAddr,
    (clients, requests): (usize, usize),
    seed: u64,
) -> [Expected; ROWS] {
    let mut sum = [Expected::default(); ROWS];
    thread::scope(|scope| {
        let start = |n: usize| {
            let seed = seed.wrapping_mul(1_000_003) + n as u64;
            scope.spawn(move || client(address, requests, seed))
        };
        let running: Vec<_> = (0..clients).map(start).collect();
        for client in running {
            let expected = client.join().expect("a client does not panic");
            for (sum, one) in sum.iter_mut().zip(expected) {
                sum.least += one.least;
                sum.greatest += one.greatest;
            }
        }
    });
    sum
}

/// Reads the counter of each row.
pub fn read(client: &mut Client) -> [i64; ROWS] {
    std::array::from_fn(|row| {
        let text = format!("SELECT c FROM ks.n WHERE k = {row} AND r = 0");
        let Ok(Response::Rows(rows)) = run(client, &text) else {
            panic!("{text} gives rows");
        };
        let cell = rows.cells().next().flatten();
        cell.map_or(0, |bytes| {
            i64::from_be_bytes(bytes.try_into().expect("a counter"))
        })
    })
}

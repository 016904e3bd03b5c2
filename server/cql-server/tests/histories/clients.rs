//! Clients that ask for conditional writes over sockets, and write down what they were told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ebb_cql::client::{Client, ClientError};
use ebb_cql::protocol::{Compression, Consistency, QueryParameters, Request, Response, ValuesBuf};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::history::{Ask, Operation, Told};

/// Values are few, so that conditions on them often hold.
const VALUES: i32 = 4;

/// Gives times: each later than all before it, over all threads.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Runs one statement.
pub fn run(client: &mut Client, text: &str) -> Result<Response, ClientError> {
    let values = ValuesBuf::new();
    client.request(&Request::Query {
        text,
        parameters: QueryParameters {
            values: values.as_values(),
            consistency: match text.starts_with("SELECT") {
                true => Consistency::Serial,
                false => Consistency::Quorum,
            },
            serial_consistency: Some(Consistency::Serial),
            ..QueryParameters::default()
        },
    })
}

fn int(cell: Option<&[u8]>) -> Option<i32> {
    cell.map(|bytes| i32::from_be_bytes(bytes.try_into().expect("an int")))
}

/// Asks, and says what it was told; `None` where the connection ended or the server failed.
fn ask(client: &mut Client, row: &str, ask: Ask) -> Option<Told> {
    let text = match ask {
        Ask::Insert(value) => {
            let columns = row.replace(" = ", ", ").replace(" AND ", ", ");
            let [k, k_value, c, c_value] = columns.split(", ").collect::<Vec<_>>()[..] else {
                panic!("{row} is not of two columns");
            };
            format!(
                "INSERT INTO ks.t ({k}, {c}, v) VALUES ({k_value}, {c_value}, {value}) IF NOT EXISTS"
            )
        }
        Ask::Swap(from, to) => format!("UPDATE ks.t SET v = {to} WHERE {row} IF v = {from}"),
        Ask::Set(value) => format!("UPDATE ks.t SET v = {value} WHERE {row} IF EXISTS"),
        Ask::Delete => format!("DELETE FROM ks.t WHERE {row} IF EXISTS"),
        Ask::Read => format!("SELECT v FROM ks.t WHERE {row}"),
    };
    let Ok(Response::Rows(rows)) = run(client, &text) else {
        return None;
    };
    let cells: Vec<Option<&[u8]>> = rows.cells().collect();
    if ask == Ask::Read {
        return Some(Told::Value(cells.first().and_then(|cell| int(*cell))));
    }
    Some(match &cells[..] {
        [Some([1])] => Told::Applied,
        // [applied] alone: there is no row.
        [Some([0])] => Told::Refused(Some(None)),
        [Some([0]), .., value] => Told::Refused(Some(int(*value))),
        other => panic!("{text} gives {other:?}"),
    })
}

/// One of several clients of `row`: asks `requests` times or until the connection ends.
pub fn client(
    address: SocketAddr,
    row: &str,
    requests: usize,
    seed: u64,
    ticks: &Ticks,
) -> Vec<Operation> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut history = Vec::with_capacity(requests);
    let Ok(mut connection) = Client::connect(address, Compression::None) else {
        return history;
    };
    for _ in 0..requests {
        let asked = match rng.random_range(0..10) {
            0..2 => Ask::Insert(value(&mut rng)),
            2..6 => Ask::Swap(value(&mut rng), value(&mut rng)),
            6 => Ask::Set(value(&mut rng)),
            7 => Ask::Delete,
            _ => Ask::Read,
        };
        let began = ticks.next();
        let told = ask(&mut connection, row, asked);
        history.push(Operation {
            ask: asked,
            told: told.unwrap_or(Told::Nothing),
            began,
            ended: told.map_or(u64::MAX, |_| ticks.next()),
        });
        if told.is_none() {
            break;
        }
    }
    history
}

fn value(rng: &mut ChaCha8Rng) -> i32 {
    rng.random_range(0..VALUES)
}

/// Several clients for each of some rows, at once: what each row's were told.
pub fn clients(
    address: SocketAddr,
    rows: &[&str],
    (clients, requests): (usize, usize),
    seed: u64,
    ticks: &Ticks,
) -> Vec<Vec<Operation>> {
    thread::scope(|scope| {
        let running: Vec<Vec<_>> = (rows.iter().enumerate())
            .map(|(at, row)| {
                let start = |n: usize| {
                    let seed = seed.wrapping_mul(1_000_003) + (at * clients + n) as u64;
                    scope.spawn(move || client(address, row, requests, seed, ticks))
                };
                (0..clients).map(start).collect()
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<Operation>>| {
            thread.join().expect("a client does not panic")
        };
        let of_row = |threads: Vec<_>| threads.into_iter().flat_map(join).collect();
        running.into_iter().map(of_row).collect()
    })
}

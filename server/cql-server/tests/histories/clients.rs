//! Clients that execute conditional writes over sockets, and record the outcomes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ebb_cql::client::{Client, ClientError};
use ebb_cql::protocol::{Compression, Consistency, QueryParameters, Request, Response, ValuesBuf};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::history::{Action, Operation, Outcome};

/// The number of different values that clients write: few, so that conditions on values often hold.
const VALUES: i32 = 4;

/// A clock shared by all threads, each of whose times is greater than all before.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

pub fn run(client: &mut Client, text: &str) -> Result<Response, ClientError> {
    let values = ValuesBuf::new();
    client.request(&Request::Query {
        text,
        parameters: QueryParameters {
            values: values.as_values(),
            consistency: if text.starts_with("SELECT") {
                Consistency::Serial
            } else {
                Consistency::Quorum
            },
            serial_consistency: Some(Consistency::Serial),
            ..QueryParameters::default()
        },
    })
}

fn int(cell: Option<&[u8]>) -> Option<i32> {
    cell.map(|bytes| i32::from_be_bytes(bytes.try_into().expect("an int")))
}

/// Executes an action on the row that the restrictions `row` select, and returns its outcome;
/// `None` if the connection ended or the server failed.
fn execute(client: &mut Client, row: &str, action: Action) -> Option<Outcome> {
    let text = match action {
        Action::Insert(value) => {
            let columns = row.replace(" = ", ", ").replace(" AND ", ", ");
            let [k, k_value, c, c_value] = columns.split(", ").collect::<Vec<_>>()[..] else {
                panic!("{row} is not of two columns");
            };
            format!(
                "INSERT INTO ks.t ({k}, {c}, v) VALUES ({k_value}, {c_value}, {value}) IF NOT EXISTS"
            )
        }
        Action::Swap(from, to) => format!("UPDATE ks.t SET v = {to} WHERE {row} IF v = {from}"),
        Action::Set(value) => format!("UPDATE ks.t SET v = {value} WHERE {row} IF EXISTS"),
        Action::Delete => format!("DELETE FROM ks.t WHERE {row} IF EXISTS"),
        Action::Read => format!("SELECT v FROM ks.t WHERE {row}"),
    };
    let Ok(Response::Rows(rows)) = run(client, &text) else {
        return None;
    };
    let cells: Vec<Option<&[u8]>> = rows.cells().collect();
    if action == Action::Read {
        return Some(Outcome::Value(cells.first().and_then(|cell| int(*cell))));
    }
    Some(match &cells[..] {
        [Some([1])] => Outcome::Applied,
        // [applied] alone: there is no row.
        [Some([0])] => Outcome::Refused(Some(None)),
        [Some([0]), .., value] => Outcome::Refused(Some(int(*value))),
        other => panic!("{text} gives {other:?}"),
    })
}

/// Executes `requests` random actions of one client on `row`. Stops early if the connection ends.
/// Returns the operations.
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
        let action = match rng.random_range(0..10) {
            0..2 => Action::Insert(value(&mut rng)),
            2..6 => Action::Swap(value(&mut rng), value(&mut rng)),
            6 => Action::Set(value(&mut rng)),
            7 => Action::Delete,
            _ => Action::Read,
        };
        let began = ticks.next();
        let outcome = execute(&mut connection, row, action);
        history.push(Operation {
            action,
            outcome: outcome.unwrap_or(Outcome::Unknown),
            began,
            ended: outcome.map_or(u64::MAX, |_| ticks.next()),
        });
        if outcome.is_none() {
            break;
        }
    }
    history
}

fn value(rng: &mut ChaCha8Rng) -> i32 {
    rng.random_range(0..VALUES)
}

/// Runs `clients` clients for each of `rows`, all at once, each with `requests` actions. Returns
/// the operations on each row, in the order of `rows`.
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

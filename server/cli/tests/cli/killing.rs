//! A server that is killed while connections write: with durability `sync` every
//! acknowledged write is there afterwards, and what was in flight is there whole or not at
//! all.
//!
//! `EBB_KILLS` is the number of kills of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use ebb_cql::client::Client;
use ebb_cql::protocol::Response;
use ebb_test_support::seed::{for_seeds, number};
use ebb_test_support::wait::until;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::place::Place;
use crate::serving::{Server, query};

/// The number of kills if the environment variable `EBB_KILLS` is not set.
const KILLS: u64 = 4;
const WRITERS: i32 = 4;
/// A writer that has this many rows deletes the older half of them.
const ROWS_MAX: i32 = 200;

/// The rows that one connection has written, over all restarts of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writer {
    id: i32,
    /// The number of the oldest row that is not deleted.
    begin: i32,
    /// The number of the next row to write.
    end: i32,
}

impl Writer {
    /// Returns the statement of this connection's next write, and the state of the writer once that statement
    /// has been executed.
    fn next(self) -> (String, Self) {
        let Self { id, begin, end } = self;
        if end - begin == ROWS_MAX {
            let begin = begin + ROWS_MAX / 2;
            let one = |table| format!("DELETE FROM k.{table} WHERE w = {id} AND n < {begin};");
            let text = [one("rows"), one("copies")].concat();
            let after = Self { begin, ..self };
            return (format!("BEGIN UNLOGGED BATCH {text} APPLY BATCH"), after);
        }
        let v = value(id, end);
        let one = |table| format!("INSERT INTO k.{table} (w, n, v) VALUES ({id}, {end}, '{v}');");
        let text = [one("rows"), one("copies")].concat();
        let last = format!("UPDATE k.last SET n = {end} WHERE w = {id};");
        let after = Self {
            end: end + 1,
            ..self
        };
        (
            format!("BEGIN UNLOGGED BATCH {text} {last} APPLY BATCH"),
            after,
        )
    }

    /// Returns whether the server has exactly the rows that this state describes.
    fn is_what(self, client: &mut Client) -> bool {
        let expected: Vec<String> = (self.begin..self.end)
            .map(|n| format!("{n} {}", value(self.id, n)))
            .collect();
        let rows = ["rows", "copies"].map(|table| {
            let select = format!("SELECT n, v FROM k.{table} WHERE w = {}", self.id);
            cells(client, &select)
        });
        let last = format!("SELECT n FROM k.last WHERE w = {}", self.id);
        let last = cells(client, &last);
        let expected_last: Vec<String> = (self.end > 0)
            .then(|| (self.end - 1).to_string())
            .into_iter()
            .collect();
        rows.iter().all(|rows| *rows == expected) && last == expected_last
    }
}

fn value(writer: i32, n: i32) -> String {
    format!("{writer}-{n}-{}", "x".repeat((n as usize * 31) % 300))
}

/// A connection that creates, alters and drops tables and snapshots. `steps` is the number of such
/// statements that it has executed.
#[derive(Debug, Clone, Copy)]
struct Definer {
    steps: i32,
}

impl Definer {
    fn next(self) -> (String, Self) {
        let (number, old) = (self.steps / 4, self.steps / 4 - 2);
        let text = match self.steps % 4 {
            0 => format!("CREATE TABLE k.made{number} (id int PRIMARY KEY)"),
            1 => format!("CREATE SNAPSHOT s{number} ON KEYSPACE k"),
            _ if old < 0 => format!("ALTER TABLE k.last WITH comment = 'number {number}'"),
            2 => format!("DROP TABLE k.made{old}"),
            _ => format!("DROP SNAPSHOT s{old} ON KEYSPACE k"),
        };
        let steps = self.steps + 1;
        (text, Self { steps })
    }

    /// Returns the numbers in the names of the tables, and those in the names of the snapshots, that exist
    /// after these steps.
    fn has(self) -> (BTreeSet<i32>, BTreeSet<i32>) {
        let (mut tables, mut snapshots) = (BTreeSet::new(), BTreeSet::new());
        for step in 0..self.steps {
            let (number, old) = (step / 4, step / 4 - 2);
            match step % 4 {
                0 => drop(tables.insert(number)),
                1 => drop(snapshots.insert(number)),
                2 => drop(tables.remove(&old)),
                _ => drop(snapshots.remove(&old)),
            }
        }
        (tables, snapshots)
    }

    fn is_what(self, client: &mut Client) -> bool {
        let numbers = |all: Vec<String>, prefix: &str| -> BTreeSet<i32> {
            let of = all.iter().filter_map(|name| name.strip_prefix(prefix));
            of.filter_map(|number| number.parse().ok()).collect()
        };
        let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'";
        let tables = numbers(cells(client, tables), "made");
        let snapshots = "SELECT snapshot_name FROM system_views.snapshots";
        let snapshots = numbers(cells(client, snapshots), "s");
        (tables, snapshots) == self.has()
    }
}

/// Executes a statement, and returns its rows as lines, with spaces between cells. The cells must be text or
/// ints: four bytes that begin with 0 are shown as an int.
#[track_caller]
fn cells(client: &mut Client, text: &str) -> Vec<String> {
    let rows = match query(client, text) {
        Ok(Response::Rows(rows)) => rows,
        other => panic!("{text}: {other:?}"),
    };
    let columns = rows.columns.as_ref().expect("they are sent").iter().count();
    let show = |cell: Option<&[u8]>| match cell {
        None => "null".to_owned(),
        Some(cell) => match <[u8; 4]>::try_from(cell) {
            Ok(int) if int[0] == 0 => i32::from_be_bytes(int).to_string(),
            _ => String::from_utf8_lossy(cell).into_owned(),
        },
    };
    let cells: Vec<String> = rows.cells().map(show).collect();
    cells.chunks(columns).map(|row| row.join(" ")).collect()
}

/// Sends the statements that `next` returns until the connection ends. Returns the state after the
/// last acknowledged statement.
fn work<S: Copy>(
    client: &mut Client,
    mut state: S,
    next: impl Fn(S) -> (String, S),
    acknowledged: &AtomicU64,
) -> S {
    loop {
        let (text, after) = next(state);
        if !request(client, &text) {
            return state;
        }
        state = after;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns whether a statement was acknowledged; false if the connection ended before.
fn request(client: &mut Client, text: &str) -> bool {
    use ebb_cql::client::ClientError;
    use ebb_cql::protocol::{QueryParameters, Request};
    let parameters = QueryParameters::default();
    match client.request(&Request::Query { text, parameters }) {
        Ok(_) => true,
        Err(ClientError::Io(_)) => false,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Returns the state of one connection's data on the server after a kill: either the acknowledged `state`, or
/// the state after the statement that was in flight, which `next` computes. `is_what` returns whether the
/// server has the given state.
#[track_caller]
fn found<S: Copy + std::fmt::Debug>(
    state: S,
    next: impl Fn(S) -> (String, S),
    mut is_what: impl FnMut(S) -> bool,
) -> S {
    if is_what(state) {
        return state;
    }
    let (text, after) = next(state);
    assert!(
        is_what(after),
        "the server has neither what was acknowledged, {state:?}, nor that and: {text}"
    );
    after
}

#[test]
fn what_was_acknowledged_survives_a_kill_of_the_server_under_load() {
    for_seeds(
        "what_was_acknowledged_survives_a_kill_of_the_server_under_load",
        1,
        kill_under_load,
    );
}

/// Kills a server again and again while connections write to it, at moments drawn from `seed`, and compares
/// the rows after each restart with the acknowledged writes.
fn kill_under_load(seed: u64) {
    let kills = number("EBB_KILLS").unwrap_or(KILLS);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let place = Place::new();
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|id| Writer {
            id,
            begin: 0,
            end: 0,
        })
        .collect();
    let mut definer = Definer { steps: 0 };
    let mut total = 0;
    for life in 0..=kills {
        let server = Server::start(&place, "--durability sync");
        let mut client = server.client();
        if life == 0 {
            let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
            for text in [
                &format!("CREATE KEYSPACE k WITH replication = {replication}"),
                "CREATE TABLE k.rows (w int, n int, v text, PRIMARY KEY (w, n))",
                "CREATE TABLE k.copies (w int, n int, v text, PRIMARY KEY (w, n))",
                "CREATE TABLE k.last (w int PRIMARY KEY, n int)",
            ] {
                query(&mut client, text).unwrap();
            }
        }
        for writer in &mut writers {
            *writer = found(*writer, Writer::next, |state| state.is_what(&mut client));
        }
        definer = found(definer, Definer::next, |state| state.is_what(&mut client));
        // Each snapshot is complete, too.
        for number in definer.has().1 {
            let count = |table| {
                let text = format!("SELECT n FROM k.{table} USING SNAPSHOT s{number}");
                move |client: &mut Client| cells(client, &text).len()
            };
            assert_eq!(count("rows")(&mut client), count("copies")(&mut client));
        }
        if life == kills {
            assert_eq!(server.stop(), Some(0));
            break;
        }
        // The moment of the kill is a number of acknowledgements, so that it does not depend on
        // the speed of the machine.
        // Both ranges are arbitrary: the short one is for kills soon after the start, the long one for kills
        // after many writes.
        let kill_after = if rng.random_bool(0.3) {
            rng.random_range(0..20)
        } else {
            rng.random_range(0..600)
        };
        let acknowledged = AtomicU64::new(0);
        // The schema changes seldom enough that most of the time goes to writes.
        let defines = rng.random_bool(0.5);
        std::thread::scope(|scope| {
            let acknowledged = &acknowledged;
            let threads: Vec<_> = writers
                .iter()
                .map(|writer| {
                    let (mut client, writer) = (server.client(), *writer);
                    scope.spawn(move || work(&mut client, writer, Writer::next, acknowledged))
                })
                .collect();
            let defining = defines.then(|| {
                let (mut client, definer) = (server.client(), definer);
                scope.spawn(move || work(&mut client, definer, Definer::next, acknowledged))
            });
            until("the acknowledgements before the kill", || {
                let is_due = acknowledged.load(Ordering::Relaxed) >= kill_after;
                let have_ended = threads.iter().all(ScopedJoinHandle::is_finished);
                assert!(is_due || !have_ended, "all connections of writers ended");
                is_due
            });
            server.kill();
            for (writer, thread) in writers.iter_mut().zip(threads) {
                *writer = thread.join().unwrap();
            }
            if let Some(thread) = defining {
                definer = thread.join().unwrap();
            }
        });
        total += acknowledged.into_inner();
    }
    println!("{kills} kills, {total} acknowledged writes, {writers:?}, {definer:?}");
    let written: i32 = writers.iter().map(|writer| writer.end).sum();
    assert!(written > 0, "nothing was written");
}

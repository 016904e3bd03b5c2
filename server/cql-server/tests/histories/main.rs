//! Histories of clients on sockets: whether the outcomes of their conditional writes, counters and
//! logged batches are consistent.
//!
//! ```text
//!   clients ── statements ──> server over a disk in memory, which loses its power now and then
//!      │
//!      └─ history: actions, outcomes, times ──> own checker, and a published one
//! ```
//!
//! A seed (see `ebb_test_support::seed`) replays a run as far as threads allow. `EBB_LIVES` is the
//! number of power losses.

mod batches;
mod checker;
mod clients;
mod counters;
mod history;
mod published;
mod server;

use std::collections::BTreeSet;

use ebb_storage::simulation::MemDisk;
use ebb_test_support::seed::{for_seeds, number};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use clients::Ticks;
use history::Operation;
use server::{Server, keyspace};

/// Two rows of one partition, whose writes wait for each other, and one of another partition.
const ROWS: [&str; 3] = ["k = 1 AND c = 1", "k = 1 AND c = 2", "k = 2 AND c = 1"];

const T: &str = "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))";
const N: &str = "CREATE TABLE ks.n (k int, r int, c counter, PRIMARY KEY (k, r))";

fn lives() -> u64 {
    number("EBB_LIVES").unwrap_or(6)
}

#[track_caller]
fn check(row: &str, history: &[Operation]) {
    let found = checker::check(history, None);
    assert_eq!(
        published::is_linearizable(history),
        found.is_ok(),
        "{row}: the published checker disagrees"
    );
    let Err(order) = found else {
        return;
    };
    let lines = |operations: &[Operation]| {
        let lines = operations.iter().map(|one| format!("{one:?}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    panic!(
        "{row}: no order fits. The longest:\n{}\nof:\n{}",
        lines(&order),
        lines(history)
    );
}

#[test]
fn conditional_writes_of_many_clients_are_linearizable() {
    for_seeds(
        "conditional_writes_of_many_clients_are_linearizable",
        1,
        check_conditional_writes,
    );
}

fn check_conditional_writes(seed: u64) {
    for waits in [false, true] {
        let server = Server::start(&MemDisk::new(), waits);
        server.run(&[&keyspace("ks"), T]);
        let ticks = Ticks::default();
        let histories = clients::clients(server.address(), &ROWS, (8, 300), seed, &ticks);
        for (row, history) in ROWS.iter().zip(&histories) {
            assert_eq!(history.len(), 8 * 300, "all are answered");
            check(row, history);
            let applied = history
                .iter()
                .filter(|one| one.outcome == history::Outcome::Applied);
            assert!(applied.count() > 100, "many are applied");
        }
        server.stop();
    }
}

#[test]
fn conditional_writes_are_linearizable_over_losses_of_power() {
    for_seeds(
        "conditional_writes_are_linearizable_over_losses_of_power",
        1,
        check_conditional_writes_over_losses_of_power,
    );
}

fn check_conditional_writes_over_losses_of_power(seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = MemDisk::new();
    let server = Server::start(&disk, true);
    server.run(&[&keyspace("ks"), T]);
    server.stop();
    let ticks = Ticks::default();
    let mut histories: Vec<Vec<Operation>> = ROWS.iter().map(|_| Vec::new()).collect();
    for life in 0..lives() {
        let server = Server::start(&disk, true);
        disk.crash_at(rng.random_range(1..400));
        let of_life = clients::clients(server.address(), &ROWS, (4, 40), rng.random(), &ticks);
        for (history, more) in histories.iter_mut().zip(of_life) {
            history.extend(more);
        }
        server.stop();
        disk.restart(seed.wrapping_add(life));
    }
    let server = Server::start(&disk, true);
    let last = clients::clients(server.address(), &ROWS, (1, 30), seed, &ticks);
    for ((row, mut history), last) in ROWS.iter().zip(histories).zip(last) {
        history.extend(last);
        check(row, &history);
    }
    server.stop();
}

#[test]
fn counters_are_exact() {
    for_seeds("counters_are_exact", 1, check_counters);
}

fn check_counters(seed: u64) {
    for waits in [false, true] {
        let disk = MemDisk::new();
        let server = Server::start(&disk, waits);
        server.run(&[&keyspace("ks"), N]);
        let expected = counters::clients(server.address(), (8, 200), seed);
        let exact = expected.map(|one| {
            assert_eq!(one.least, one.greatest, "all are answered");
            one.least
        });
        assert_eq!(counters::read(&mut server.client()), exact);
        server.stop();
        // After restarts the values are read from files, and nothing in the log counts twice.
        for _ in 0..2 {
            let server = Server::start(&disk, waits);
            assert_eq!(counters::read(&mut server.client()), exact);
            server.stop();
        }
    }
}

#[test]
fn counters_are_exact_over_losses_of_power() {
    for_seeds(
        "counters_are_exact_over_losses_of_power",
        1,
        check_counters_over_losses_of_power,
    );
}

fn check_counters_over_losses_of_power(seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = MemDisk::new();
    let server = Server::start(&disk, true);
    server.run(&[&keyspace("ks"), N]);
    server.stop();
    let mut before = [0; counters::ROWS];
    for life in 0..lives() {
        let server = Server::start(&disk, true);
        disk.crash_at(rng.random_range(1..400));
        let added = counters::clients(server.address(), (4, 100), rng.random());
        server.stop();
        disk.restart(seed.wrapping_add(life));
        let server = Server::start(&disk, true);
        let found = counters::read(&mut server.client());
        for row in 0..counters::ROWS {
            let of_life = found[row] - before[row];
            let fits = (added[row].least..=added[row].greatest).contains(&of_life);
            assert!(
                fits,
                "life {life}, row {row}: {of_life}, not {:?}",
                added[row]
            );
        }
        before = found;
        server.stop();
    }
}

#[test]
fn logged_batches_are_whole_in_snapshots_and_over_losses_of_power() {
    for_seeds(
        "logged_batches_are_whole_in_snapshots_and_over_losses_of_power",
        1,
        check_logged_batches_over_losses_of_power,
    );
}

fn check_logged_batches_over_losses_of_power(seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = MemDisk::new();
    let server = Server::start(&disk, true);
    let tables = batches::TABLES;
    let table = |name| format!("CREATE TABLE {name} (k int, c int, PRIMARY KEY (k, c))");
    let made = tables.map(table);
    server.run(&[
        &keyspace("ks"),
        &keyspace("other"),
        &made[0],
        &made[1],
        &made[2],
    ]);
    server.stop();
    let mut acknowledged = BTreeSet::new();
    // The lives whose snapshot was acknowledged.
    let mut snapshots = BTreeSet::new();
    for life in 0..lives() {
        let server = Server::start(&disk, true);
        disk.crash_at(rng.random_range(30..600));
        let address = server.address();
        std::thread::scope(|scope| {
            let writers = scope.spawn(move || {
                // A life writes at most 4 * 100 numbers, so no two lives write the same one.
                let first = 1_000 * life as i32;
                batches::clients(address, (4, 100), first)
            });
            // Snapshots are created during the writes; the power may be lost by then.
            let create = format!("CREATE SNAPSHOT s{life} ON KEYSPACE ks");
            if clients::run(&mut server.client(), &create).is_ok() {
                snapshots.insert(life);
            }
            acknowledged.extend(writers.join().expect("clients do not panic"));
        });
        server.stop();
        disk.restart(seed.wrapping_add(life));
        let server = Server::start(&disk, true);
        let mut client = server.client();
        let found = tables.map(|table| batches::read(&mut client, table));
        assert_eq!(found[0], found[1], "life {life}: in one keyspace");
        assert_eq!(found[0], found[2], "life {life}: over keyspaces");
        let lost: Vec<_> = acknowledged.difference(&found[0]).collect();
        assert!(lost.is_empty(), "life {life}: {lost:?} were acknowledged");
        for snapshot in 0..=life {
            let of = |table| format!("\"ks@s{snapshot}\".{table}");
            if let Err(error) = clients::run(&mut client, &format!("SELECT c FROM {}", of("a"))) {
                // A snapshot is durable before its creation is acknowledged. One that was not
                // acknowledged may be there or not.
                assert!(
                    !snapshots.contains(&snapshot),
                    "life {life}: snapshot {snapshot} was acknowledged: {error}"
                );
                continue;
            }
            let found = ["a", "b"].map(|table| batches::read(&mut client, &of(table)));
            assert_eq!(found[0], found[1], "life {life}, snapshot {snapshot}");
        }
        server.stop();
    }
    assert!(!acknowledged.is_empty() && !snapshots.is_empty());
}

//! States that come back, and those that somebody made up.

use std::collections::BTreeSet;

use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::executor::harness::Server;

#[test]
fn a_state_comes_back_and_others_are_refused() {
    let state = PagingState {
        statement: 7,
        key: vec![1, 2, 3],
        had_rows: true,
        left: u64::MAX,
        left_in_partition: 5,
    };
    let bytes = state.encode();
    assert_eq!(PagingState::decode(&bytes, 7).unwrap(), state);
    assert!(PagingState::decode(&bytes, 8).is_err());
    for len in 0..HEAD_BYTES {
        assert!(PagingState::decode(&bytes[..len], 7).is_err());
    }
    for at in [0, 9] {
        let mut other = bytes.clone();
        other[at] ^= 0x80;
        assert!(PagingState::decode(&other, 7).is_err());
    }
}

/// Statements of every kind that has pages, over two partitions and one of static columns.
const STATEMENTS: [&str; 10] = [
    "SELECT k, c, d, s, v FROM t",
    "SELECT k, c, d, v FROM t LIMIT 7",
    "SELECT k, c FROM t PER PARTITION LIMIT 2",
    "SELECT DISTINCT k, s FROM t",
    "SELECT k, c FROM t WHERE token(k) > -4000000000000000000",
    "SELECT k, c, d FROM t WHERE k IN (1, 2)",
    "SELECT k, c, d FROM t WHERE k = 1 AND c > 1",
    "SELECT k, c, d FROM t WHERE k = 1 AND c IN (1, 3) ORDER BY c DESC, d DESC",
    "SELECT k, c, d FROM t WHERE k = 2 AND (c, d) >= (1, 1) AND (c, d) < (3, 0)",
    "SELECT k, c, d FROM t WHERE v > 3 ALLOW FILTERING",
];

fn filled() -> Server {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, d int, s int STATIC, v int, PRIMARY KEY (k, c, d))",
        "INSERT INTO t (k, s) VALUES (3, 9)",
    ]);
    for k in 1..3 {
        for c in 0..4 {
            for d in 0..2 {
                let v = k + c + d;
                server.run(&format!(
                    "INSERT INTO t (k, c, d, v, s) VALUES ({k}, {c}, {d}, {v}, {k})"
                ));
            }
        }
    }
    server
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut impl Rng) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=bytes.len());
        // The hash of the statement stays, mostly: behind it lies what is looked at.
        let from = if rng.random_bool(0.9) { 9.min(at) } else { 0 };
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at.max(from)] ^= 1 << rng.random_range(0..8),
            1 => bytes.truncate(at.max(HEAD_BYTES)),
            2 => bytes.insert(at.max(from).min(bytes.len()), rng.random()),
            3 => {
                // The place of another statement's page.
                bytes.truncate(HEAD_BYTES);
                bytes.extend(other.get(HEAD_BYTES..).unwrap_or_default());
            }
            _ => {
                let end = bytes.len().min(HEAD_BYTES);
                let at = at.min(end);
                bytes[at..end].fill([0, 0x7f, 0xff][rng.random_range(0..3)]);
            }
        }
    }
}

/// A state that somebody made up is refused, or shows rows that the statement asks for: no
/// others, and no more than LIMIT lets through.
#[test]
fn states_that_were_made_up_show_nothing_that_was_not_asked_for() {
    let seed = std::env::var("EBB_SEED");
    let seed = seed.map_or_else(|_| rand::random(), |seed| seed.parse().expect("EBB_SEED"));
    let rounds = std::env::var("EBB_ROUNDS");
    let rounds: usize = rounds.map_or(400, |rounds| rounds.parse().expect("EBB_ROUNDS"));
    println!("EBB_SEED={seed} EBB_ROUNDS={rounds}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut server = filled();
    let mut states: Vec<(&str, Vec<u8>)> = Vec::new();
    for text in STATEMENTS {
        let mut state = None;
        loop {
            let page = server.page(text, &[], Some(1), state.as_deref()).unwrap();
            match page.state {
                Some(next) => states.push((text, next.to_vec())),
                None => break,
            }
            state = states.last().map(|(_, state)| state.clone());
        }
    }
    let (mut refused, mut shown) = (0, 0);
    for round in 0..rounds {
        for at in 0..states.len() {
            let (text, state) = &states[at];
            let most = server.page(text, &[], None, None).unwrap().rows.len();
            let unlimited = text.split(" PER PARTITION").next().unwrap();
            let unlimited = unlimited.split(" LIMIT").next().unwrap();
            let all = server.page(unlimited, &[], None, None).unwrap().rows;
            let all: BTreeSet<Vec<String>> = all.into_iter().collect();
            let mut state = state.clone();
            let (_, other) = &states[(at * 31 + round) % states.len()];
            mutate(&mut state, other, &mut rng);
            let size = rng.random_bool(0.7).then(|| rng.random_range(1..9));
            match server.page(text, &[], size, Some(&state)) {
                Err(error) => {
                    assert_eq!(error.kind.code(), 0x000a, "{text}: {error}: {state:02x?}");
                    refused += 1;
                }
                Ok(page) => {
                    let most = size.map_or(most, |size| most.min(size as usize));
                    assert!(page.rows.len() <= most, "{text}: {state:02x?}");
                    // A state may say that a partition had no rows. Then it has one of its
                    // static columns, which is no secret where all of it is asked for.
                    let is_whole = !text.contains("k =") && !text.contains("v >");
                    let is_asked =
                        |row: &Vec<String>| all.contains(row) || is_whole && row[1] == "null";
                    assert!(page.rows.iter().all(is_asked), "{text}: {state:02x?}");
                    shown += 1;
                }
            }
        }
    }
    println!("{refused} refused, {shown} shown");
    assert!(refused > 0 && shown > 0);
}

//! Valid and forged paging states.

use ebb_model::key::PartitionKey;
use ebb_test_support::seed::{for_seeds, number};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::fuzzing::Pages;
use super::*;
use crate::executor::harness::Server;

#[test]
fn a_state_decodes_to_itself_and_invalid_bytes_are_rejected() {
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

/// Regression: a scan reported a forged key, which cannot be a key of its table, as damage of the
/// table.
#[test]
fn a_state_with_a_partition_key_of_other_columns_is_rejected() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, PRIMARY KEY ((a, b)))"]);
    let select = "SELECT a FROM t";
    let of_one_column = PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap();
    let state = PagingState {
        statement: server.prepare(select).unwrap().hash,
        key: of_one_column.header_key(),
        had_rows: true,
        left: u64::MAX,
        left_in_partition: u64::MAX,
    };
    let page = server.page(select, &[], Some(10), Some(&state.encode()));
    let error = page.map(|page| page.rows).unwrap_err();
    assert_eq!(error, invalid());
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut impl Rng) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=bytes.len());
        // The statement's hash is mostly left alone, so that the bytes after it are examined.
        let from = if rng.random_bool(0.9) { 9.min(at) } else { 0 };
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at.max(from)] ^= 1 << rng.random_range(0..8),
            1 => bytes.truncate(at.max(HEAD_BYTES)),
            2 => bytes.insert(at.max(from).min(bytes.len()), rng.random()),
            3 => {
                // The position in the pages of another statement.
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

#[test]
fn forged_states_reveal_no_rows_outside_of_the_statement() {
    let rounds = number("EBB_ROUNDS").unwrap_or(100) as usize;
    let test = "forged_states_reveal_no_rows_outside_of_the_statement";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pages = Pages::new();
        let cases = pages.cases().iter().enumerate();
        let states: Vec<(usize, Vec<u8>)> = cases
            .flat_map(|(case, of)| of.states.iter().map(move |state| (case, state.clone())))
            .collect();
        let (mut refused, mut shown) = (0, 0);
        for round in 0..rounds {
            for (at, (case, state)) in states.iter().enumerate() {
                let mut state = state.clone();
                let (_, other) = &states[(at * 31 + round) % states.len()];
                mutate(&mut state, other, &mut rng);
                let size = rng.random_bool(0.7).then(|| rng.random_range(1..9));
                if pages.shows(*case, size, &state) {
                    shown += 1;
                } else {
                    refused += 1;
                }
            }
        }
        println!("{refused} refused, {shown} shown");
        assert!(refused > 0 && shown > 0);
    });
}

#[test]
fn any_bytes_are_a_state_or_are_rejected() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..rng.random_range(0..60)).map(|_| rng.random()).collect();
        fuzzing::state(&bytes);
    }
    let pages = Pages::new();
    for (number, case) in (0_u8..).zip(pages.cases()) {
        for state in &case.states {
            fuzzing::state(&[&[number, 1], &state[..]].concat());
        }
    }
}

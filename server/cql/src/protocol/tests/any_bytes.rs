//! Bytes similar to valid frames. `EBB_ROUNDS` is the number of mutations of each frame.

use bytes::BytesMut;
use ebb_test_support::seed::{for_seeds, number};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::fuzzing;
use super::super::*;
use super::samples::*;

/// The number of mutations of each frame, unless `EBB_ROUNDS` sets another.
const ROUNDS: u64 = 400;

/// Damages bytes in one to three random places: flips, overwrites, inserts or copies bytes, or cuts
/// the end off.
fn mutate(bytes: &mut Vec<u8>, rng: &mut impl Rng) {
    for _ in 0..rng.random_range(1..4) {
        let len = bytes.len();
        let at = rng.random_range(0..=len.saturating_sub(1));
        match rng.random_range(0..6) {
            _ if len == 0 => bytes.push(rng.random()),
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, rng.random()),
            4 => {
                // Sums overflow with lengths at the ends of their range.
                let end = (at + [1, 2, 4][rng.random_range(0..3)]).min(len);
                bytes[at..end].fill([0, 0xff, 0x7f][rng.random_range(0..3)]);
            }
            _ => {
                let end = rng.random_range(at..len.min(at + 64) + 1).min(len);
                let copied = bytes[at..end].to_vec();
                let to = rng.random_range(0..=len);
                bytes.splice(to..to, copied);
            }
        }
    }
}

fn no_harm(test: &str, target: fn(&[u8]), inputs: &[Vec<u8>]) {
    let rounds = number("EBB_ROUNDS").unwrap_or(ROUNDS);
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for input in inputs {
            target(input);
            for _ in 0..rounds {
                let mut mutated = input.clone();
                mutate(&mut mutated, &mut rng);
                target(&mutated);
            }
        }
        for _ in 0..rounds {
            let mut random = vec![0; rng.random_range(0..64)];
            rng.fill(&mut random[..]);
            target(&random);
        }
    });
}

fn codings() -> [Coding; 3] {
    [
        Compression::None.into(),
        Compression::Lz4.into(),
        Version::V5.into(),
    ]
}

#[test]
fn no_bytes_close_to_requests_do_harm() {
    let mut inputs = Vec::new();
    for coding in codings() {
        each_request(|request| {
            let mut out = BytesMut::new();
            request.encode(&mut out, 1, coding);
            inputs.push(out.to_vec());
        });
    }
    let test = "no_bytes_close_to_requests_do_harm";
    no_harm(test, fuzzing::requests, &inputs);
}

#[test]
fn no_bytes_close_to_responses_do_harm() {
    let mut inputs = Vec::new();
    for coding in codings() {
        for response in responses() {
            let mut out = BytesMut::new();
            response.encode(&mut out, 1, &Head::default(), coding);
            inputs.push(out.to_vec());
        }
    }
    let test = "no_bytes_close_to_responses_do_harm";
    no_harm(test, fuzzing::responses, &inputs);
}

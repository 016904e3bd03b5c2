//! Bytes close to real ones. `EBB_SEED` replays one seed, `EBB_ROUNDS` makes it longer.

use bytes::BytesMut;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::fuzzing;
use super::super::*;
use super::samples::*;

/// Mutations of each frame, unless the environment says how many.
const ROUNDS: usize = 400;

/// Damages bytes as lies, bugs and bad lines do.
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
                // A length at its ends is where sums overflow.
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

fn no_harm(target: fn(&[u8]), inputs: Vec<Vec<u8>>) {
    let seed = std::env::var("EBB_SEED");
    let seed = seed.map_or_else(|_| rand::random(), |seed| seed.parse().expect("EBB_SEED"));
    eprintln!("replay with EBB_SEED={seed}");
    let rounds = std::env::var("EBB_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("EBB_ROUNDS"));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for input in &inputs {
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
}

#[test]
fn no_bytes_close_to_requests_do_harm() {
    let mut inputs = Vec::new();
    for compression in [Compression::None, Compression::Lz4] {
        each_request(|request| {
            let mut out = BytesMut::new();
            request.encode(&mut out, 1, compression);
            inputs.push(out.to_vec());
        });
    }
    no_harm(fuzzing::requests, inputs);
}

#[test]
fn no_bytes_close_to_responses_do_harm() {
    let mut inputs = Vec::new();
    for compression in [Compression::None, Compression::Lz4] {
        for response in responses() {
            let mut out = BytesMut::new();
            response.encode(&mut out, 1, &Head::default(), compression);
            inputs.push(out.to_vec());
        }
    }
    no_harm(fuzzing::responses, inputs);
}

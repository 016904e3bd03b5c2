//! Malicious bytes: random ones, and damaged statements.

use ebb_test_support::seed::{for_seeds, number};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::corpus::statements;
use crate::syntax::fuzzing;

/// The number of mutations of each statement, unless `EBB_ROUNDS` sets another.
const ROUNDS: u64 = 200;
/// The number of statements that are made of random pieces, as a multiple of the number of
/// mutations of each statement ([`rounds`]).
const RANDOM: u64 = 25;

fn rounds() -> u64 {
    number("EBB_ROUNDS").unwrap_or(ROUNDS)
}

/// Pieces with a meaning to the lexer or the parser.
const PIECES: &[&str] = &[
    "'", "\"", "$$", "(", ")", "[", "]", "{", "}", "<", ">", "..", ".", "--", "//", "/*", "*/",
    ";", ":", "?", "-", "+", "*", "P1Y", "1e", "0x", "1h", "é", "\u{b5}s", "\0", " AND ", " IN ",
    " AS ", " IF ", " JSON ", "token(", "CAST(", "ttl(", "count(", " WHERE ", " USING ", "NaN",
    "NULL", "frozen<", " LIST ", "BEGIN ", "BATCH ", "APPLY ", "=", "+=", "a", "a.", "1", ",",
];

fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut impl Rng) {
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=bytes.len());
        let end = rng.random_range(at..=bytes.len().min(at + 20));
        match rng.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, rng.random()),
            3 => {
                let copied = bytes[at..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                bytes.splice(to..to, copied);
            }
            4 => {
                let from = rng.random_range(0..=other.len());
                bytes.splice(at..end, other[from..].iter().copied().take(40));
            }
            _ => {
                let piece = PIECES.choose(rng).unwrap();
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
}

#[test]
fn damaged_statements_are_statements_or_errors() {
    let statements = statements();
    for_seeds("damaged_statements_are_statements_or_errors", 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for text in &statements {
            for _ in 0..rounds() {
                let mut bytes = text.as_bytes().to_vec();
                let other = statements.choose(&mut rng).unwrap().as_bytes();
                damage(&mut bytes, other, &mut rng);
                fuzzing::statement(&bytes);
            }
        }
    });
}

#[test]
fn random_pieces_are_statements_or_errors() {
    let starts = [
        "",
        "SELECT ",
        "INSERT INTO t (a) VALUES (",
        "UPDATE t SET a = ",
    ];
    for_seeds("random_pieces_are_statements_or_errors", 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..RANDOM * rounds() {
            let mut text = starts.choose(&mut rng).unwrap().as_bytes().to_vec();
            for _ in 0..rng.random_range(0..40) {
                match rng.random_range(0..10) {
                    0 => text.push(rng.random()),
                    _ => text.extend(PIECES.choose(&mut rng).unwrap().bytes()),
                }
            }
            fuzzing::statement(&text);
        }
    });
}

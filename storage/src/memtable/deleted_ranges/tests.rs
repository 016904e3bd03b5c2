use bytes::Bytes;
use ebb_test_support::seed::for_seeds;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::key::KeyRange;

fn key(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_be_bytes())
}

/// Returns the `n`th key: keys differ in length, and share a prefix that may be longer than the
/// part of a key that is compared as a number.
fn named(prefix: &str, n: u32) -> Bytes {
    Bytes::from(format!(
        "{prefix}{}",
        "x".repeat(n as usize % 3) + &n.to_string()
    ))
}

fn up_to(n: u32, seq: u64) -> RangeTombstone {
    RangeTombstone {
        range: KeyRange {
            start: Bytes::new(),
            end: Some(key(n)),
        },
        seq: SeqNo(seq),
    }
}

fn all_of(tombstones: &[RangeTombstone]) -> DeletedRanges {
    let none = DeletedRanges::default();
    let with = |ranges: DeletedRanges, tombstone: &RangeTombstone| ranges.with(tombstone.clone());
    tombstones.iter().fold(none, with)
}

/// Compares the lookups with those in a plain list. The tombstones come in any order, as from
/// commits that are written at the same time.
#[test]
fn a_reader_at_any_number_finds_the_newest_over_a_key() {
    let test = "a_reader_at_any_number_finds_the_newest_over_a_key";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..if cfg!(miri) { 2 } else { 60 } {
            let len = [3, 20, 70, 300, 1100][rng.random_range(0..5)];
            let keys = [5, 100, 10_000][rng.random_range(0..3)];
            let prefix = ["", "a prefix", "a prefix of nineteen"][rng.random_range(0..3)];
            let key = |n| named(prefix, n);
            let mut all = Vec::new();
            for seq in 1..=len {
                let range = KeyRange {
                    start: if rng.random_bool(0.3) {
                        Bytes::new()
                    } else {
                        key(rng.random_range(0..keys))
                    },
                    end: rng.random_bool(0.9).then(|| key(rng.random_range(0..keys))),
                };
                if range.is_empty() {
                    continue;
                }
                all.push(RangeTombstone {
                    range,
                    seq: SeqNo(seq),
                });
            }
            // Some early, some late.
            for part in all.chunks_mut(50) {
                part.shuffle(&mut rng);
            }
            let ranges = all_of(&all);
            let mut listed: Vec<_> = ranges.iter().collect();
            listed.sort_by_key(|tombstone| tombstone.seq);
            let mut expected = all.clone();
            expected.sort_by_key(|tombstone| tombstone.seq);
            assert_eq!(listed, expected);
            for _ in 0..200 {
                let at = if rng.random_bool(0.9) {
                    key(rng.random_range(0..keys))
                } else {
                    Bytes::from(prefix[..prefix.len() / 2].to_string())
                };
                let seq = if rng.random_bool(0.5) {
                    SeqNo::MAX
                } else {
                    SeqNo(rng.random_range(0..len + 2))
                };
                let over = all.iter().filter(|t| t.range.contains(&at) && t.seq <= seq);
                let newest = over.map(|tombstone| tombstone.seq).max();
                assert_eq!(ranges.covering(&at, seq), newest, "{at:?} at {seq}");
            }
        }
    });
}

/// Regression: a queue deletes up to its front again and again. For each key, all ranges over it
/// were listed: after 1500 deletions these were a million numbers, all copied at the next deletion.
#[test]
fn ranges_within_ranges_take_memory_in_proportion_to_their_number() {
    let len = if cfg!(miri) { 100 } else { 50_000 };
    let mut ranges = DeletedRanges::default();
    for n in 1..=len {
        ranges = ranges.with(up_to(n, u64::from(n)));
    }
    for n in [1, 2, len / 2, len] {
        assert_eq!(
            ranges.covering(&key(n - 1), SeqNo::MAX),
            Some(SeqNo(u64::from(len)))
        );
        let seq = SeqNo(u64::from(n));
        assert_eq!(ranges.covering(&key(n - 1), seq), Some(seq));
        assert_eq!(ranges.covering(&key(n), seq), None);
    }
    let each = ranges.bytes() / len as usize;
    assert!((100..500).contains(&each), "{each} bytes for each");
    let pieces = ranges.indexes.len() + ranges.tail.len();
    assert!(pieces < 50, "a reader looks into {pieces}");
}

use std::ops::Bound;

use bytes::Bytes;
use ebb_test_support::seed::for_seeds;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::key::{KeyRange, PIECES_MAX};

fn key(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_be_bytes())
}

/// Returns the `n`th key. The keys differ in length, and share `prefix`, which may be longer than the
/// part of a key that an index compares as a number.
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

fn keys(from: u32, to: u32) -> KeyRange {
    KeyRange {
        start: key(from),
        end: Some(key(to)),
    }
}

/// Returns a tombstone over the keys from `key(n)` (included) to `key(n + 1)` (not), with the sequence
/// number `n + 1`.
fn piece(n: u32) -> RangeTombstone {
    RangeTombstone {
        range: keys(n, n + 1),
        seq: SeqNo(u64::from(n) + 1),
    }
}

fn all_of(tombstones: &[RangeTombstone]) -> DeletedRanges {
    let none = DeletedRanges::default();
    let with = |ranges: DeletedRanges, tombstone: &RangeTombstone| ranges.with(tombstone.clone());
    tombstones.iter().fold(none, with)
}

/// Compares the lookups with those in a plain list. The tombstones do not arrive exactly in the order
/// of their sequence numbers, because commits may be written at the same time.
#[test]
fn a_reader_at_any_number_finds_the_newest_over_a_key() {
    let test = "a_reader_at_any_number_finds_the_newest_over_a_key";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..if cfg!(miri) { 2 } else { 60 } {
            // About a third of the ranges are empty, and left out below. So the tombstones go from a few in
            // the tail alone to indexes of three size classes.
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
                let largest_seq = SeqNo(rng.random_range(0..len + 2));
                let hidden = ranges.hide(&KeyRange::spanning(&at, &at), largest_seq, seq);
                let is_covered = newest > Some(largest_seq);
                // Under tombstones that the reader does not see, others may be missed.
                assert!(is_covered || !hidden, "{at:?} with {largest_seq} at {seq}");
                assert!(hidden || !is_covered || seq < SeqNo::MAX);
            }
        }
    });
}

/// Each case: the first key of a range and its exclusive end, the largest sequence number of the
/// versions in it, the sequence number at which the reader reads, and whether tombstones hide all these
/// versions from the reader.
#[test]
fn a_range_is_hidden_by_touching_tombstones_of_an_index_or_by_one_of_the_tail() {
    let touching: Vec<_> = (0..TAIL_LEN as u32).map(piece).collect();
    let index = all_of(&touching);
    assert_eq!((index.tail.len(), index.indexes.len()), (0, 1));
    for (from, to, largest_seq, seq, hidden) in [
        (0, 16, 0, 16, true),
        (0, 16, 1, 16, false),
        (0, 16, 0, 15, false),
        (0, 15, 0, 15, true),
        (3, 4, 3, 4, true),
        (3, 4, 4, 16, false),
        (0, 17, 0, 16, false),
        (16, 17, 0, 16, false),
    ] {
        let (largest_seq, seq) = (SeqNo(largest_seq), SeqNo(seq));
        let is_hidden = index.hide(&keys(from, to), largest_seq, seq);
        assert_eq!(is_hidden, hidden, "{from} to {to} at {seq}");
    }
    assert!(!index.hide(&up_to(9, 0).range, SeqNo::ZERO, SeqNo::MAX));

    let tail = all_of(&touching[..TAIL_LEN - 1]);
    assert!(tail.indexes.is_empty());
    let hide = |range: KeyRange, seq: u64| tail.hide(&range, SeqNo(3), SeqNo(seq));
    assert!(hide(keys(3, 4), 4));
    assert!(!hide(keys(3, 4), 3) && !hide(keys(2, 3), 9));
    // Each hides only what it covers alone.
    assert!(!hide(keys(3, 5), 9));
}

#[test]
fn a_key_between_two_tombstones_of_an_index_is_not_hidden() {
    let behind_5 = KeyRange::new::<Bytes, _>((Bound::Excluded(key(5)), Bound::Excluded(key(6))));
    let mut all: Vec<_> = (0..TAIL_LEN as u32).map(piece).collect();
    all[5].range = behind_5.clone();
    let ranges = all_of(&all);
    let hide = |range: &KeyRange| ranges.hide(range, SeqNo::ZERO, SeqNo::MAX);
    let one = |n: u32| KeyRange::spanning(&key(n), &key(n));
    assert!(hide(&keys(0, 5)) && hide(&behind_5) && hide(&keys(6, 16)));
    assert!(hide(&one(4)) && !hide(&one(5)) && hide(&one(6)) && hide(&one(15)));
    assert!(!hide(&keys(0, 6)) && !hide(&keys(5, 6)) && !hide(&one(16)));
    // The end of a tombstone is not a part of it.
    assert!(!hide(&KeyRange::spanning(&key(3), &key(5))));
}

#[test]
fn more_pieces_of_an_index_than_are_compared_hide_nothing() {
    let len = 4 * PIECES_MAX as u32;
    let ranges = all_of(&(0..len).map(piece).collect::<Vec<_>>());
    assert_eq!((ranges.tail.len(), ranges.indexes.len()), (0, 1));
    let hide = |from: u32, to: u32| ranges.hide(&keys(from, to), SeqNo::ZERO, SeqNo::MAX);
    let most = PIECES_MAX as u32;
    assert!(hide(0, most) && hide(1, most + 1) && hide(len - most, len));
    assert!(!hide(0, most + 1) && !hide(len - most - 1, len));
    let ranges = ranges.with(up_to(len, u64::from(len) + 1));
    assert!(ranges.hide(&keys(0, len), SeqNo::ZERO, SeqNo::MAX));
}

/// Regression: a table that is used as a queue deletes all keys before its front again and again. The
/// tombstones over each key were listed: after 1500 deletions these lists had a million sequence
/// numbers, and the next deletion copied all of them.
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

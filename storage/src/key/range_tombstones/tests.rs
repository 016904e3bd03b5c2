use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::key::ReadPoint;
use crate::key::range_tombstones::*;

/// Parses a range: "a-m" goes from a (included) to m (not), and "m-" to the end.
fn range(text: &str) -> KeyRange {
    let (start, end) = text.split_once('-').unwrap();
    let bytes = |key: &str| Bytes::copy_from_slice(key.as_bytes());
    KeyRange {
        start: bytes(start),
        end: (!end.is_empty()).then(|| bytes(end)),
    }
}

fn tombstone((text, seq): &(&str, u64)) -> RangeTombstone {
    RangeTombstone {
        range: range(text),
        seq: SeqNo(*seq),
    }
}

fn tombstones(list: &[(&str, u64)]) -> RangeTombstones {
    RangeTombstones::build(list.iter().map(tombstone), None)
}

/// Returns the fragments as text, each with its key range and the sequence numbers of its tombstones,
/// newest first: for example "a-f 4, f-m 9 4".
fn show(tombstones: &RangeTombstones) -> String {
    let show = |fragment: &Arc<Fragment>| {
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let (start, end) = (&fragment.range.start, fragment.range.end.as_deref());
        let mut shown = format!("{}-{}", text(start), end.map_or_else(String::new, text));
        for seq in &fragment.seqs {
            shown += &format!(" {seq}");
        }
        shown
    };
    let fragments = tombstones.fragments.iter().map(show);
    fragments.collect::<Vec<_>>().join(", ")
}

fn boundaries(list: &[u64]) -> Boundaries {
    let point = |&seq: &u64| ReadPoint {
        seq: SeqNo(seq),
        read_time_ms: 0,
    };
    Boundaries::new(list.iter().map(point).collect(), 0)
}

#[test]
fn fragments_by_table() {
    for (list, expected) in [
        (&[("a-m", 4), ("f-t", 9)][..], "a-f 4, f-m 9 4, m-t 9"),
        (&[("f-t", 9), ("a-m", 4)], "a-f 4, f-m 9 4, m-t 9"),
        (
            &[("a-b", 1), ("c-d", 2), ("-", 3)],
            "-a 3, a-b 3 1, b-c 3, c-d 3 2, d- 3",
        ),
        (&[("-", 1), ("c-d", 2)], "-c 1, c-d 2 1, d- 1"),
        (&[("a-z", 1), ("a-z", 2)], "a-z 2 1"),
        (&[("a-c", 1), ("c-e", 2)], "a-c 1, c-e 2"),
        (&[("c-", 1), ("a-c", 2), ("e-", 3)], "a-c 2, c-e 1, e- 3 1"),
        (&[("b-b", 1), ("c-b", 1)], ""),
    ] {
        assert_eq!(show(&tombstones(list)), expected, "{list:?}");
    }
}

#[test]
fn the_newest_of_each_stripe_stays_and_the_oldest_goes_when_it_hides_nothing() {
    let list = [("a-m", 4), ("f-t", 9), ("f-m", 7)];
    for (points, older, expected) in [
        (&[][..], "-", "a-f 4, f-t 9"),
        (&[], "g-h", "f-m 9"),
        (&[], "t-u", ""),
        (&[4], "-", "a-f 4, f-m 9 4, m-t 9"),
        (&[4], "z-", "f-t 9"),
        (&[8], "-", "a-f 4, f-m 9 7, m-t 9"),
        (&[8], "z-", "f-t 9"),
        (&[3], "z-", "a-f 4, f-t 9"),
    ] {
        let older = range(older);
        let kept = tombstones(&list).retained(&boundaries(points), |range| range.overlaps(&older));
        assert_eq!(show(&kept), expected, "at {points:?} over {older:?}");
    }
    let parts = tombstones(&list).split(&[SeqNo(4), SeqNo(8)]);
    let parts: Vec<_> = parts.iter().map(show).collect();
    assert_eq!(parts, ["a-m 4", "f-m 7", "f-t 9"]);
}

#[test]
fn a_range_is_covered_by_fragments_without_a_gap() {
    let list = tombstones(&[("b-d", 5), ("d-f", 7), ("g-", 5)]);
    for (text, fits, covered) in [
        ("b-f", 9, true),
        ("b-f", 6, false),
        ("b-c", 6, true),
        ("a-c", 9, false),
        ("c-g", 9, false),
        ("c-h", 9, false),
        ("h-", 9, true),
        ("b-", 9, false),
    ] {
        assert_eq!(
            list.cover(&range(text), |seq| seq.0 < fits),
            covered,
            "{text}"
        );
    }
}

/// Each case: a range, the largest sequence number of the versions in it, the sequence number at
/// which the reader reads, and whether tombstones hide all these versions from the reader.
#[test]
fn a_range_is_hidden_by_tombstones_above_its_versions_that_the_reader_sees() {
    let list = tombstones(&[
        ("b-h", 2),
        ("b-d", 5),
        ("d-f", 7),
        ("f\0-h", 5),
        ("h\0-", 5),
    ]);
    for (text, largest_seq, seq, hidden) in [
        // The pieces touch.
        ("b-f", 4, 9, true),
        ("b-f", 5, 9, false),
        ("b-f", 4, 7, true),
        // A snapshot is between the tombstones of the pieces.
        ("b-f", 4, 6, false),
        ("b-d", 4, 6, true),
        ("b-f", 1, 6, true),
        ("b-f", 1, 1, false),
        // The key f has only the tombstone 2, and the key h has none.
        ("e-g", 4, 9, false),
        ("e-g", 1, 9, true),
        ("f\0-h", 4, 9, true),
        ("f\0-h\0", 4, 9, false),
        ("f\0-j", 1, 9, false),
        ("h\0-", 4, 9, true),
        ("h-", 4, 9, false),
        ("a-c", 1, 9, false),
        // Ranges of one key.
        ("c-c\0", 4, 9, true),
        ("d-d\0", 6, 9, true),
        ("f-f\0", 4, 9, false),
        ("h-h\0", 1, 9, false),
        ("h\0-h\0\0", 4, 9, true),
    ] {
        assert_eq!(
            list.hide(&range(text), SeqNo(largest_seq), SeqNo(seq)),
            hidden,
            "{text} with {largest_seq} at {seq}"
        );
    }
}

#[test]
fn more_pieces_than_are_compared_hide_nothing() {
    let key = |n: usize| Bytes::copy_from_slice(&(n as u32).to_be_bytes());
    let keys = |from: usize, to: usize| KeyRange {
        start: key(from),
        end: Some(key(to)),
    };
    // Neighbours with the same number would be one fragment.
    let piece = |n: usize| RangeTombstone {
        range: keys(n, n + 1),
        seq: SeqNo(n as u64 + 1),
    };
    let list = RangeTombstones::build((0..=PIECES_MAX).map(piece), None);
    let hide = |range: KeyRange| list.hide(&range, SeqNo::ZERO, SeqNo::MAX);
    assert!(hide(keys(0, PIECES_MAX)));
    assert!(hide(keys(1, PIECES_MAX + 1)));
    assert!(list.cover(&keys(0, PIECES_MAX + 1), |_| true));
    assert!(!hide(keys(0, PIECES_MAX + 1)));
    // Only a part of the first piece, and of the last.
    let within = KeyRange::spanning(&[0, 0, 0, 0, 1], &key(PIECES_MAX));
    assert!(list.cover(&within, |_| true));
    assert!(!hide(within));
}

/// Compares the fragments with the list of the tombstones that they were built from, for random keys
/// and ranges.
#[test]
fn every_key_has_the_tombstones_that_were_put_over_it() {
    let test = "every_key_has_the_tombstones_that_were_put_over_it";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let key = |n: u32| Bytes::from(vec![b'a' + n as u8]);
        for _ in 0..3000 {
            let mut all: Vec<RangeTombstone> = Vec::new();
            // With so few keys, tombstones often share a bound, and some ranges are empty: these must count
            // for nothing. The numbers 10 and 11 stand for no end.
            for seq in 1..rng.random_range(2..12) {
                let end = rng.random_range(0..12);
                let range = KeyRange {
                    start: key(rng.random_range(0..10)),
                    end: (end < 10).then(|| key(end)),
                };
                all.push(RangeTombstone {
                    range,
                    seq: SeqNo(seq),
                });
            }
            let one = RangeTombstones::build(all.iter().cloned(), None);
            // Two sources may have the same.
            let again = RangeTombstones::build(one.iter().chain(all.iter().cloned()), None);
            assert_eq!(again, one);
            let boundaries = boundaries(&[rng.random_range(0..12), rng.random_range(0..12)]);
            let thinned = RangeTombstones::build(all.iter().cloned(), Some(&boundaries));
            let over = |key: &[u8]| {
                let over = all.iter().rev().filter(|t| t.range.contains(key));
                over.map(|tombstone| tombstone.seq).collect::<Vec<_>>()
            };
            for n in 0..11 {
                let mut expected = over(&key(n));
                assert_eq!(one.over(&key(n)), expected, "{all:?}");
                expected.dedup_by_key(|seq| boundaries.stripe(*seq));
                assert_eq!(thinned.over(&key(n)), expected, "{all:?} {boundaries:?}");
                let seq = SeqNo(rng.random_range(0..12));
                let newest = over(&key(n))
                    .into_iter()
                    .find(|&tombstone| tombstone <= seq);
                assert_eq!(one.covering(&key(n), seq), newest, "{all:?}");
            }
            let from = rng.random_range(0..10_u32);
            let to = rng.random_range(from + 1..=10);
            let [largest_seq, seq] = [(); 2].map(|()| SeqNo(rng.random_range(0..12)));
            let hides = |&tombstone: &SeqNo| largest_seq < tombstone && tombstone <= seq;
            let hidden = (from..to).all(|n| over(&key(n)).iter().any(hides));
            let range = KeyRange {
                start: key(from),
                end: Some(key(to)),
            };
            assert_eq!(
                one.hide(&range, largest_seq, seq),
                hidden,
                "{range:?} {largest_seq} {seq} {all:?}"
            );
            let ranges = one.fragments.iter().map(|fragment| &fragment.range);
            let ranges: Vec<_> = ranges.collect();
            assert!(ranges.iter().all(|range| !range.is_empty()));
            assert!(
                ranges
                    .windows(2)
                    .all(|w| w[0].end.as_ref().is_some_and(|end| *end <= w[1].start))
            );
        }
    });
}

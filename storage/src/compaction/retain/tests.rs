use bytes::Bytes;
use ebb_test_support::cases::parse_cases;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::key::{ReadPoint, ReadTime};
use crate::read::{MergeOperator, MergeOperators};

const NOW_MS: u64 = 100;

/// A merge operator that concatenates operands, so that their order shows, and refuses those that
/// contain a "!".
#[derive(Debug)]
struct Picky;

impl MergeOperator for Picky {
    fn name(&self) -> &str {
        "picky"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        let merged = [older, newer].concat();
        if merged.contains(&b'!') {
            return Err("it has a !".into());
        }
        Ok(merged)
    }
}

fn merger(known: bool) -> Merger {
    let operators = if known {
        MergeOperators::none().with(Picky)
    } else {
        MergeOperators::none()
    };
    Merger::new("app.users".into(), Some("picky"), &operators)
}

fn version(seq: u64, kind: Kind, value: &str) -> Version {
    Version {
        seq: SeqNo(seq),
        kind,
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn expiring(seq: u64, expiry_ms: u64, value: &str) -> Version {
    let bytes = [&expiry_ms.to_le_bytes(), value.as_bytes()].concat();
    Version {
        value: bytes.into(),
        ..version(seq, Kind::ExpiringPut, "")
    }
}

/// Parses versions: "9! 8 7+ 6d 5e70" are versions 9 (an operand that fails), 8 (a put), 7 (an
/// operand), 6 (a tombstone) and 5 (a put that expires at 70). A put or an operand has its number
/// as its value. "8=78" is a put with another value, "8+78" an operand with another value.
fn versions(text: &str) -> Vec<Version> {
    let one = |word: &str| {
        let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = word.split_at(digits);
        let seq = number.parse().unwrap();
        match rest.split_at(rest.len().min(1)) {
            ("", _) => version(seq, Kind::Put, number),
            ("=", value) => version(seq, Kind::Put, value),
            ("d", _) => version(seq, Kind::Delete, ""),
            ("+", "") => version(seq, Kind::Merge, number),
            ("+", value) => version(seq, Kind::Merge, value),
            ("!", _) => version(seq, Kind::Merge, "!"),
            ("e", expiry_ms) => expiring(seq, expiry_ms.parse().unwrap(), number),
            _ => panic!("{word}"),
        }
    };
    let words = text.split_whitespace().filter(|word| *word != "-");
    words.map(one).collect()
}

fn seqs(list: &[u64]) -> Vec<SeqNo> {
    list.iter().map(|&seq| SeqNo(seq)).collect()
}

/// Builds boundaries from pairs of a sequence number and a read time.
fn boundaries(list: &[(u64, u64)]) -> Boundaries {
    let point = |&(seq, read_time_ms): &(u64, u64)| ReadPoint {
        seq: SeqNo(seq),
        read_time_ms,
    };
    Boundaries::new(list.iter().map(point).collect(), NOW_MS)
}

/// The state of a table at which the versions of a key are looked at.
#[derive(Debug, Default)]
struct Circumstances {
    /// The boundaries, each a sequence number and a read time.
    points: Vec<(u64, u64)>,
    /// The sequence numbers of the range tombstones over the key.
    covering: Vec<SeqNo>,
    /// The sequence numbers at which the output is split into runs.
    splits: Vec<SeqNo>,
    /// Whether no older version of the key is anywhere else.
    is_bottom: bool,
}

impl Circumstances {
    /// Parses circumstances: "@5" is a boundary at the sequence number 5, "@9:70" one at 9 with the read
    /// time 70, "under7" a range tombstone 7 over the key, and "split5" a split at 5.
    fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        for word in text.split_whitespace().filter(|word| *word != "-") {
            let number = |text: &str| text.parse().unwrap();
            if let Some(point) = word.strip_prefix('@') {
                let (seq, time_ms) = point.split_once(':').unwrap_or((point, "0"));
                parsed.points.push((number(seq), number(time_ms)));
            } else if let Some(seq) = word.strip_prefix("under") {
                parsed.covering.push(SeqNo(number(seq)));
            } else if let Some(seq) = word.strip_prefix("split") {
                parsed.splits.push(SeqNo(number(seq)));
            } else {
                assert_eq!(word, "bottom");
                parsed.is_bottom = true;
            }
        }
        parsed
    }
}

/// Checks cases. Each has the versions of a key, the [`Circumstances`], and the versions that must be
/// kept; "-" stands for none.
fn check(known: bool, cases: &str) {
    for [before, circumstances, after] in parse_cases(cases) {
        let at = Circumstances::parse(circumstances);
        let retain = Retain {
            boundaries: &boundaries(&at.points),
            merger: &merger(known),
        };
        let mut kept = versions(before);
        retain.versions(b"k", &mut kept, &at.covering, at.is_bottom);
        assert_eq!(kept, versions(after), "{before} with {circumstances}");
    }
}

#[test]
fn the_newest_version_of_each_stripe_stays() {
    let cases = "
        8 6 3 1 => - => 8
        8 6 3 1 => @3 @5 => 8 3
        8 6 3 1 => @6 => 8 6
        8 6 3 1 => @1 @3 @6 @8 => 8 6 3 1
        8 6 3 1 => @2 @4 => 8 3 1
        8d 3 => - => 8d
        8d 3 => bottom => -
        8d 3 => @5 bottom => 8d 3
        8 3d => @5 bottom => 8
        8 3d => @5 => 8 3d
        8d 5d 3d => @3 @5 bottom => -
        - => @3 bottom => -
    ";
    check(true, cases);
}

#[test]
fn operands_fold_within_their_stripe() {
    let cases = "
        8+ 6+ => - => 8+68
        8+ 6+ => bottom => 8=68
        8+ 6+ 3 1 => - => 8=368
        8+ 6+ 3d 1 => - => 8=68
        8+ 6+ 3 1+ => @7 => 8+ 6=36
        8+ 6+ 3+ 1+ => @4 => 8+68 3+13
        8+ 6+ 3+ 1+ => @4 bottom => 8+68 3=13
        8+ 6d => @7 bottom => 8
        8+ 6d => @7 => 8+ 6d
    ";
    check(true, cases);
}

#[test]
fn operands_that_cannot_be_folded_stay() {
    let cases = "
        8! 6+ 3 1 => - => 8! 6+ 3
        8! 6+ 3d 1 => - => 8! 6+ 3d
        8! 6+ 3 => @5 => 8! 6+ 3
        8+ 6+ 3! 1 => @5 => 8+68 3! 1
        // Nothing lies below the last one, and it fails with nothing.
        8! => bottom => 8=!
    ";
    check(true, cases);
    let cases = "
        8+ 6+ 3 1 => - => 8+ 6+ 3
        8+ => bottom => 8+
        8+ 3d => bottom => 8+
        8 6+ 3 => bottom => 8
    ";
    check(false, cases);
}

#[test]
fn a_put_becomes_a_tombstone_once_it_is_expired_for_all_who_see_it() {
    let cases = "
        8e100 3 => - => 8d
        8e100 3 => bottom => -
        8e101 3 => bottom => 8e101
        // A reader at 9 judged at 70, and sees it; one at 5 does not.
        8e100 => @9:70 bottom => 8e100
        8e70 => @9:70 bottom => -
        8e100 => @5:70 bottom => -
        8e60 3e60 2 => @5:50 => 8d 3e60
        // Two readers at one number: the earlier one counts.
        8e80 => @9:90 @9:70 bottom => 8e80
    ";
    check(true, cases);
}

#[test]
fn operands_fold_onto_no_put_that_a_reader_may_see_expire() {
    let cases = "
        9+ 8+ 7e101 3 => - => 9+89 7e101
        9+ 8+ 7e100 3 => - => 9=89
        9+ 8+ 7e100 3 => @9:99 => 9+89 7e100
        9+ 7e100 3 => @8:99 => 9+ 7e100
        9+ 7e100 => @8:100 bottom => 9
    ";
    check(true, cases);
}

#[test]
fn versions_under_a_range_tombstone_of_their_stripe_go() {
    let cases = "
        8 6 3 => under9 => -
        8 6 3 => under7 => 8
        8+ 6+ 3 => under7 => 8
        8+ 6+ 3 => under4 => 8=68
        8+ 6+ 3 => under7 under5 => 8
        // A reader at 5 sees 3; one at 7 sees nothing, by the tombstone.
        8+ 6 3 => @5 @7 under7 => 8+ 3
        8+ 3 => @5 under4 => 8+
        6 3 => @5 under9 => 3
        8d 6 3 => @5 under7 bottom => 8d 3
        // All is hidden but its tombstone lies below: an operand is whole.
        8+ => under7 => 8
        8e100 => under7 => 8d
    ";
    check(true, cases);
}

/// Returns the value that a reader at a sequence number and a time sees, given all versions, newest
/// first, and the range tombstones `covering` the key. The outer `None` means that the operands
/// cannot be merged, the inner one that there is no value.
fn read(
    versions: &[Version],
    covering: &[SeqNo],
    (seq, read_time_ms): (u64, u64),
    merger: &Merger,
) -> Option<Option<Bytes>> {
    let mut fold = Fold::new(ReadTime::At(read_time_ms));
    if let Some(&tombstone) = covering.iter().find(|tombstone| tombstone.0 <= seq) {
        fold.hide_below(tombstone);
    }
    let mut seen = versions.iter().filter(|version| version.seq.0 <= seq);
    let _base_reached = seen.any(|version| fold.take(version.clone()));
    fold.finish(b"k", merger).ok()
}

fn random_version(rng: &mut ChaCha8Rng, seq: u64) -> Version {
    let text = format!("{seq},");
    match rng.random_range(0..10) {
        0..=2 => version(seq, Kind::Put, &text),
        3 => version(seq, Kind::Delete, ""),
        4..=6 => version(seq, Kind::Merge, &text),
        7 if rng.random_bool(0.2) => version(seq, Kind::Merge, "!"),
        _ => expiring(seq, NOW_MS - 20 + rng.random_range(0..40), &text),
    }
}

fn some_of(rng: &mut ChaCha8Rng, range: std::ops::Range<u64>, chance: f64) -> Vec<u64> {
    range.rev().filter(|_| rng.random_bool(chance)).collect()
}

/// Asserts that every possible reader reads the same from the kept versions as from all versions.
#[test]
fn every_reader_reads_the_same_as_if_all_versions_were_kept() {
    let test = "every_reader_reads_the_same_as_if_all_versions_were_kept";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for case in 0..20_000 {
            let bottom = rng.random_bool(0.5);
            let older: Vec<_> = if bottom {
                Vec::new()
            } else {
                some_of(&mut rng, 1..10, 0.3)
            };
            let chance = rng.random_range(0.1..0.9);
            let mut numbers = some_of(&mut rng, 10..30, chance);
            let tombstones = rng.random_range(0..3) as f64 / 10.0;
            let (covering, ours): (Vec<_>, Vec<_>) =
                numbers.drain(..).partition(|_| rng.random_bool(tombstones));
            let mut make = |list: Vec<u64>| -> Vec<Version> {
                let one = |seq| random_version(&mut rng, seq);
                list.into_iter().map(one).collect()
            };
            let (ours, older) = (make(ours), make(older));
            let points: Vec<_> = (0..rng.random_range(0..5))
                .map(|_| {
                    (
                        rng.random_range(0..32),
                        NOW_MS - 20 + rng.random_range(0..=20),
                    )
                })
                .collect();
            let covering = seqs(&covering);
            let known = merger(rng.random_bool(0.9));

            let mut kept = ours.clone();
            let retain = Retain {
                boundaries: &boundaries(&points),
                merger: &known,
            };
            retain.versions(b"k", &mut kept, &covering, bottom);

            let all = |ours: &[Version]| [ours, &older[..]].concat();
            let later = (0..3).map(|_| (u64::MAX, NOW_MS + rng.random_range(0..30)));
            for point in points.iter().copied().chain(later.collect::<Vec<_>>()) {
                assert_eq!(
                    read(&all(&kept), &covering, point, &known),
                    read(&all(&ours), &covering, point, &known),
                    "case {case}: {kept:?} of {ours:?} over {older:?} under {covering:?} \
                 at {point:?} of {points:?}"
                );
            }
            for version in &kept {
                assert!(version.kind.fits(version.value.len()));
            }
            assert!(kept.is_sorted_by(|a, b| a.seq > b.seq), "{kept:?}");
        }
    });
}

/// The cases are like those of [`check`], but for the versions that must be kept: each has its number,
/// the index of its run, and the first and the last boundary in its `only_for`, if it has one.
#[test]
fn a_kept_version_lists_its_readers_unless_a_version_in_another_run_hides_it() {
    let cases = "
        8 3 => - => 8/0
        8 3 => @5 => 8/0 3/0@5-5
        8 6 3 => @3 @4 @7 => 8/0 6/0@7-7 3/0@3-4
        // In another run.
        8 3 => @5 split5 => 8/1 3/0
        // A range tombstone hides as a newer version does.
        3 => @5 under8 => 3/0@5-5
        3 => @5 under8 split5 => 3/0
        // The nearest of what hides it counts.
        9 3 => @5 @7 under6 => 9/0 3/0@5-5
        6 3 => @5 @7 under9 => 6/0@7-7 3/0@5-5
    ";
    for [before, circumstances, expected] in parse_cases(cases) {
        let at = Circumstances::parse(circumstances);
        let retain = Retain {
            boundaries: &boundaries(&at.points),
            merger: &merger(true),
        };
        let mut versions = versions(before);
        let (covering, splits) = (&at.covering, &at.splits);
        let kept = retain.kept(b"k", &mut versions, covering, false, splits, None);
        let shown = |kept: KeptVersion| {
            let readers = kept
                .only_for
                .map(|(first, last)| format!("@{first}-{last}"));
            let readers = readers.unwrap_or_default();
            format!("{}/{}{readers}", kept.version.seq, kept.part)
        };
        let found: Vec<_> = kept.map(shown).collect();
        assert_eq!(found.join(" "), expected, "{before} with {circumstances}");
        assert_eq!(versions, []);
    }
}

use std::ops::Range;
use std::sync::Arc;

use super::super::estimate::merged;
use super::*;
use crate::key::{RunId, SeqNo};
use crate::sstable::{KeySketch, key_hash};

/// Returns a run without a key sketch: the keys that it overwrites are unknown.
fn run(bytes: u64, smallest_seq: u64) -> RunShape {
    RunShape {
        id: RunId(0),
        bytes,
        largest_file_bytes: bytes,
        entries: bytes,
        keys: bytes,
        tombstones: 0,
        overwrites: None,
        garbage_bytes: 0,
        smallest_seq: SeqNo(smallest_seq),
        largest_seq: SeqNo(smallest_seq),
        is_busy: false,
    }
}

/// Returns a run with one byte for each of these keys, and with a sketch of the keys.
fn run_of(keys: Range<u64>) -> RunShape {
    let mut overwrites = KeySketch::default();
    let bytes = keys.end - keys.start;
    keys.for_each(|key| overwrites.add(key_hash(&key.to_be_bytes())));
    RunShape {
        overwrites: Some(Arc::new(overwrites)),
        ..run(bytes, 1)
    }
}

fn picker(bounding: Bounding) -> TieredPicker {
    TieredPicker {
        bounding,
        runs_before_merge: 4,
        ..TieredPicker::default()
    }
}

fn pick_with(
    picker: TieredPicker,
    runs: &[RunShape],
    bookmarks: &[u64],
    is_idle: bool,
) -> Option<Range<usize>> {
    let bookmarks: Vec<_> = bookmarks.iter().map(|&s| SeqNo(s)).collect();
    picker.choose(&TableShape {
        keyspace: "app",
        name: "users",
        runs,
        bookmarks: &bookmarks,
        is_idle,
    })
}

fn pick(runs: &[RunShape], bookmarks: &[u64], bounding: Bounding) -> Option<Range<usize>> {
    pick_with(picker(bounding), runs, bookmarks, false)
}

/// Returns the positions of the runs that are picked from a list of (bytes, smallest sequence
/// number), newest first.
fn picked(list: &[(u64, u64)], bookmarks: &[u64], bounding: Bounding) -> Option<Range<usize>> {
    let runs: Vec<_> = list.iter().map(|&(bytes, seq)| run(bytes, seq)).collect();
    pick(&runs, bookmarks, bounding)
}

#[test]
fn decisions_by_table() {
    use Bounding::*;
    let old = 1000;
    for (list, bookmarks, bounding, expected) in [
        (&[][..], &[][..], Preferred, None),
        (&[(10, 1)], &[], Preferred, None),
        (&[(10, 50), (10, 1)], &[], Preferred, Some(0..2)),
        (&[(10, 50), (old, 1)], &[], Preferred, None),
        (
            &[(10, 90), (10, 80), (10, 70), (old, 1)],
            &[],
            Preferred,
            Some(0..3),
        ),
        (
            &[(5, 90), (30, 80), (35, 70), (old, 1)],
            &[],
            Preferred,
            Some(1..3),
        ),
        (
            &[(1, 90), (10, 80), (100, 70), (old, 1)],
            &[],
            Preferred,
            None,
        ),
        // A bookmark at 60 keeps the strata apart ...
        (&[(10, 70), (10, 1)], &[60], Preferred, None),
        (&[(10, 70), (10, 1)], &[60], Strict, None),
        (&[(10, 70), (10, 1)], &[60], Off, Some(0..2)),
        (&[(10, 80), (10, 70), (10, 1)], &[60], Strict, Some(0..2)),
        // ... and one that a run straddles counts by the run's smallest number.
        (&[(10, 60), (10, 1)], &[60], Strict, Some(0..2)),
    ] {
        assert_eq!(
            picked(list, bookmarks, bounding),
            expected,
            "{list:?} {bookmarks:?} {bounding:?}"
        );
    }
}

#[test]
fn strata_are_merged_across_only_when_there_are_too_many_runs() {
    let many: Vec<_> = (1..=30).rev().map(|i| (10, i * 10 + 1)).collect();
    let bookmarks: Vec<_> = (1..=30).map(|i| i * 10).collect();
    assert_eq!(picked(&many, &bookmarks, Bounding::Strict), None);
    let runs = picked(&many, &bookmarks, Bounding::Preferred).unwrap();
    assert_eq!(runs.len(), 30 - TABLE_RUNS_MAX + 1);
}

/// In a case, "5" is a run of 5 bytes, "30*" a busy run of 30 bytes, and "40g" a run of 40 bytes of
/// which 11 are garbage.
#[test]
fn busy_runs_are_left_alone_and_garbage_is_rewritten() {
    for (text, expected) in [
        ("10* 10*", None),
        ("10 10*", None),
        ("10 10* 10", None),
        ("10* 10 10", Some(1..3)),
        // Large beside what is idle, but not beside what is below.
        ("10 10 10 10 20*", Some(0..4)),
        ("10 10 20* 20*", None),
        ("40g", Some(0..1)),
        ("40g*", None),
        ("1 40g 1000", Some(1..2)),
        ("40 40g", Some(0..2)),
    ] {
        let runs: Vec<_> = text
            .split_whitespace()
            .map(|word| {
                let bytes: String = word.chars().filter(char::is_ascii_digit).collect();
                RunShape {
                    is_busy: word.contains('*'),
                    garbage_bytes: if word.contains('g') { 11 } else { 0 },
                    ..run(bytes.parse().unwrap(), 1)
                }
            })
            .collect();
        let pick = pick(&runs, &[], Bounding::Preferred);
        assert_eq!(pick, expected, "{text}");
    }
}

#[test]
fn space_is_worth_a_merge_where_keys_were_overwritten() {
    let known = |ranges: &[(u64, u64)]| -> Vec<_> {
        ranges.iter().map(|&(from, to)| run_of(from..to)).collect()
    };
    for (ranges, busy, idle) in [
        // Nothing is.
        (&[(0, 10_000), (10_000, 20_000)][..], false, false),
        // A fifth is.
        (&[(0, 2000), (0, 8000)], false, true),
        // Half is.
        (&[(0, 10_000), (0, 10_000)], true, true),
        (&[(0, 3000), (3000, 6000), (0, 3500), (0, 6000)], true, true),
        // One part in fifty is.
        (&[(0, 2000), (0, 98_000)], false, false),
    ] {
        let runs = known(ranges);
        for (is_idle, expected) in [(false, busy), (true, idle)] {
            let pick = pick_with(TieredPicker::default(), &runs, &[], is_idle);
            let all = 0..runs.len();
            assert_eq!(pick, expected.then_some(all), "{ranges:?}, idle: {is_idle}");
        }
    }
}

#[test]
fn tombstones_with_little_below_them_are_worth_a_merge_at_the_bottom() {
    let deletes = RunShape {
        tombstones: 6000,
        ..run_of(0..6000)
    };
    let runs = [deletes, run_of(4000..10_000)];
    assert_eq!(pick(&runs, &[], Bounding::Preferred), Some(0..2));
    // Above an older stratum they stay.
    let newer = runs.clone().map(|run| RunShape {
        smallest_seq: SeqNo(10),
        ..run
    });
    let list = [newer.to_vec(), vec![run_of(0..100_000)]].concat();
    assert_eq!(pick(&list, &[5], Bounding::Preferred), None);
    // Those of the oldest run were not dropped the last time either.
    let [deletes, _] = runs;
    let runs = [run_of(10_000..11_000), deletes];
    assert_eq!(pick(&runs, &[], Bounding::Preferred), None);
}

#[test]
fn the_newest_stratum_may_have_more_runs_than_older_ones() {
    let picker = TieredPicker::default();
    let list = |newest: u64| -> Vec<_> {
        let newest = (0..newest).map(|i| run(10, 200 - i));
        newest.chain([run(1000, 100)]).collect()
    };
    assert_eq!(pick_with(picker, &list(6), &[], false), None);
    assert_eq!(pick_with(picker, &list(7), &[], false), Some(0..7));
    let mut runs = vec![run(1, 300)];
    runs.extend(list(3));
    assert_eq!(pick_with(picker, &runs, &[250], false), Some(1..4));
}

/// Puts a flushed run on top of the list, and merges until the picker finds no further merge.
/// Returns the bytes that the merges read.
fn flush(list: &mut Vec<RunShape>, flushed: RunShape, picker: TieredPicker) -> u64 {
    let mut merged_bytes = 0;
    list.insert(0, flushed);
    while let Some(places) = pick_with(picker, list, &[], false) {
        let runs = &list[places.clone()];
        merged_bytes += total(runs);
        let merged = merged(runs);
        list.splice(places, [merged]);
    }
    merged_bytes
}

#[test]
fn a_ladder_of_flushes_stays_short() {
    for (picker, written_max) in [
        (picker(Bounding::Preferred), 12 * 1000),
        (TieredPicker::default(), 6 * 1000),
    ] {
        let mut list: Vec<RunShape> = Vec::new();
        let mut written = 0;
        for _ in 0..1000 {
            written += flush(&mut list, run(1, 1), picker);
            assert!(list.len() <= STRATUM_RUNS_MAX);
        }
        assert!(
            written <= written_max,
            "{written} bytes rewritten for 1000 flushed"
        );
    }
}

#[test]
fn overwriting_takes_no_more_than_twice_the_space_for_long() {
    let picker = TieredPicker::default();
    let mut list = vec![run_of(0..16_000)];
    for i in 0..64 {
        let first = (i * 2000) % 16_000;
        flush(&mut list, run_of(first..first + 2000), picker);
        let times = total(&list) as f64 / 16_000.0;
        assert!(times < 2.1, "{times} times as large as what is live");
    }
}

use std::ops::Range;

use super::*;
use crate::key::SeqNo;

fn run(bytes: u64, smallest_seq: u64) -> RunShape {
    RunShape {
        bytes,
        garbage_bytes: 0,
        smallest_seq: SeqNo(smallest_seq),
        largest_seq: SeqNo(smallest_seq),
        is_busy: false,
    }
}

fn pick(runs: &[RunShape], bookmarks: &[u64], bounding: Bounding) -> Option<Pick> {
    let bookmarks: Vec<_> = bookmarks.iter().map(|&s| SeqNo(s)).collect();
    let picker = TieredPicker {
        bounding,
        ..TieredPicker::default()
    };
    picker.pick(&TableShape {
        runs,
        bookmarks: &bookmarks,
    })
}

/// Runs newest first as (bytes, smallest sequence number).
fn picked(
    list: &[(u64, u64)],
    bookmarks: &[u64],
    bounding: Bounding,
) -> Option<(Range<usize>, Reason)> {
    let runs: Vec<_> = list.iter().map(|&(bytes, seq)| run(bytes, seq)).collect();
    let pick = pick(&runs, bookmarks, bounding)?;
    Some((pick.runs, pick.reason))
}

#[test]
fn decisions_by_table() {
    use Bounding::*;
    use Reason::*;
    let old = 1000;
    for (list, bookmarks, bounding, expected) in [
        (&[][..], &[][..], Preferred, None),
        (&[(10, 1)], &[], Preferred, None),
        (&[(10, 50), (10, 1)], &[], Preferred, Some((0..2, Space))),
        (&[(10, 50), (old, 1)], &[], Preferred, None),
        (
            &[(10, 90), (10, 80), (10, 70), (old, 1)],
            &[],
            Preferred,
            Some((0..3, Ladder)),
        ),
        (
            &[(5, 90), (30, 80), (35, 70), (old, 1)],
            &[],
            Preferred,
            Some((1..3, Ladder)),
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
        (&[(10, 70), (10, 1)], &[60], Off, Some((0..2, Space))),
        (
            &[(10, 80), (10, 70), (10, 1)],
            &[60],
            Strict,
            Some((0..2, Space)),
        ),
        // ... and one that a run straddles counts by the run's smallest number.
        (&[(10, 60), (10, 1)], &[60], Strict, Some((0..2, Space))),
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
    let (runs, reason) = picked(&many, &bookmarks, Bounding::Preferred).unwrap();
    assert_eq!(
        (runs.len(), reason),
        (30 - TABLE_RUNS_MAX + 1, Reason::Count)
    );
}

/// "5 30* 40g" are runs of 5 bytes, of 30 that is busy, and of 40 with 11 of
/// garbage.
#[test]
fn what_is_busy_is_left_alone_and_garbage_is_rewritten() {
    use Reason::*;
    for (text, expected) in [
        ("10* 10*", None),
        ("10 10*", None),
        ("10 10* 10", None),
        ("10* 10 10", Some((1..3, Space))),
        // Large beside what is idle, but not beside what is below.
        ("10 10 10 10 20*", Some((0..4, Ladder))),
        ("10 10 20* 20*", None),
        ("40g", Some((0..1, Garbage))),
        ("40g*", None),
        ("1 40g 1000", Some((1..2, Garbage))),
        ("40 40g", Some((0..2, Space))),
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
        assert_eq!(
            pick.map(|pick| (pick.runs, pick.reason)),
            expected,
            "{text}"
        );
    }
}

#[test]
fn a_ladder_of_flushes_stays_short() {
    let mut list: Vec<RunShape> = Vec::new();
    let mut written = 0;
    for flush in 0..1000 {
        list.insert(0, run(1, flush));
        while let Some(pick) = pick(&list, &[], Bounding::Preferred) {
            let bytes = total(&list[pick.runs.clone()]);
            written += bytes;
            let merged = RunShape {
                bytes,
                ..list[pick.runs.start]
            };
            list.splice(pick.runs, [merged]);
        }
        assert!(list.len() <= STRATUM_RUNS_MAX);
    }
    assert!(
        written <= 12 * 1000,
        "{written} bytes rewritten for 1000 flushed"
    );
}

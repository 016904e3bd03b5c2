//! What to merge next: a pure function of the run list and the bookmarks.
//!
//! The thesis's *bounded compaction* (Polo 2014, 5.2.3.2) merges only runs that
//! share exactly the same set of snapshots, so that a snapshot's files stay
//! apart from what was written after it. Here a *stratum* is a stretch of
//! neighbours of the run list that the same bookmarks see. Inside a stratum
//! runs form a ladder of sizes, as in RocksDB's universal compaction.

use crate::key::SeqNo;
use crate::run::RunId;

/// Whether merges respect the boundaries that snapshots draw. Content is right
/// in every case; this decides where versions lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bounding {
    /// Only runs with the same snapshot set are merged, as in the thesis.
    Strict,
    /// The same, unless the table would have more than 24 runs.
    #[default]
    Preferred,
    /// Bookmarks are no boundaries.
    Off,
}

/// A stratum of this many runs is looked at for merges that make reads cheaper.
const RUNS_BEFORE_MERGE: usize = 4;
/// More runs than this in a stratum are too many for reads, whatever their sizes.
const STRATUM_RUNS_MAX: usize = 12;
/// More runs than this in a table are too many, whatever their snapshots.
const TABLE_RUNS_MAX: usize = 24;

/// A run, as far as the picker needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunSize {
    pub(crate) id: RunId,
    pub(crate) bytes: u64,
    pub(crate) smallest_seq: SeqNo,
}

/// A decision: merge these neighbours, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) inputs: Vec<RunId>,
    pub(crate) reason: Reason,
}

/// Why a merge is worth its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The newer runs are as large as the oldest: up to half may be garbage.
    Space,
    /// Runs of similar size: reads get cheaper for little writing.
    Ladder,
    /// Too many runs.
    Count,
    /// Nothing in it is seen any more, or it hides nothing: dropped unread.
    Covered,
}

/// Picks the next merge, if any. `runs` newest first, `bookmarks` ascending,
/// `size_ratio > 0`.
pub(crate) fn pick(
    runs: &[RunSize],
    bookmarks: &[SeqNo],
    size_ratio: f64,
    bounding: Bounding,
) -> Option<Pick> {
    let boundaries = if bounding == Bounding::Off {
        &[]
    } else {
        bookmarks
    };
    // Bookmarks at or above a run's smallest number see it.
    let stratum =
        |run: &RunSize| boundaries.partition_point(|&bookmark| bookmark < run.smallest_seq);
    let strata = || runs.chunk_by(|a, b| stratum(a) == stratum(b));
    strata()
        .find_map(|runs| pick_in_stratum(runs, size_ratio))
        .or_else(|| {
            let crowded = bounding != Bounding::Strict && runs.len() > TABLE_RUNS_MAX;
            crowded.then(|| cheapest_window(runs, runs.len() - TABLE_RUNS_MAX + 1))
        })
}

fn pick_in_stratum(runs: &[RunSize], size_ratio: f64) -> Option<Pick> {
    let (oldest, newer) = runs.split_last()?;
    if !newer.is_empty() && total(newer) >= oldest.bytes {
        return Some(decision(runs, Reason::Space));
    }
    if runs.len() < RUNS_BEFORE_MERGE {
        return None;
    }
    (0..runs.len())
        .map(|start| ladder(&runs[start..], size_ratio))
        .find(|window| window.len() >= 2)
        .map(|window| decision(window, Reason::Ladder))
        .or_else(|| {
            let crowded = runs.len() > STRATUM_RUNS_MAX;
            crowded.then(|| cheapest_window(runs, runs.len() - STRATUM_RUNS_MAX + 1))
        })
}

/// The longest prefix in which each run is at most `size_ratio` times as large
/// as all newer ones together.
fn ladder(runs: &[RunSize], size_ratio: f64) -> &[RunSize] {
    let mut sum = runs[0].bytes;
    let mut len = 1;
    while let Some(next) = runs
        .get(len)
        .filter(|next| next.bytes as f64 <= sum as f64 * size_ratio)
    {
        sum += next.bytes;
        len += 1;
    }
    &runs[..len]
}

fn cheapest_window(runs: &[RunSize], len: usize) -> Pick {
    let window = runs
        .windows(len)
        .min_by_key(|window| total(window))
        .expect("the list is longer than the window");
    decision(window, Reason::Count)
}

fn decision(runs: &[RunSize], reason: Reason) -> Pick {
    Pick {
        inputs: runs.iter().map(|run| run.id).collect(),
        reason,
    }
}

fn total(runs: &[RunSize]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs newest first as (bytes, smallest sequence number); ids are positions.
    fn runs(list: &[(u64, u64)]) -> Vec<RunSize> {
        let run = |(id, &(bytes, seq)): (usize, &(u64, u64))| RunSize {
            id: RunId(id as u64),
            bytes,
            smallest_seq: SeqNo(seq),
        };
        list.iter().enumerate().map(run).collect()
    }

    fn picked(
        list: &[(u64, u64)],
        bookmarks: &[u64],
        bounding: Bounding,
    ) -> Option<(Vec<u64>, Reason)> {
        let bookmarks: Vec<_> = bookmarks.iter().map(|&s| SeqNo(s)).collect();
        let pick = pick(&runs(list), &bookmarks, 1.2, bounding)?;
        Some((pick.inputs.iter().map(|id| id.0).collect(), pick.reason))
    }

    #[test]
    fn decisions_by_table() {
        use Bounding::*;
        use Reason::*;
        let old = 1000;
        for (list, bookmarks, bounding, expected) in [
            (&[][..], &[][..], Preferred, None),
            (&[(10, 1)], &[], Preferred, None),
            (
                &[(10, 50), (10, 1)],
                &[],
                Preferred,
                Some((vec![0, 1], Space)),
            ),
            (&[(10, 50), (old, 1)], &[], Preferred, None),
            (
                &[(10, 90), (10, 80), (10, 70), (old, 1)],
                &[],
                Preferred,
                Some((vec![0, 1, 2], Ladder)),
            ),
            (
                &[(5, 90), (30, 80), (35, 70), (old, 1)],
                &[],
                Preferred,
                Some((vec![1, 2], Ladder)),
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
            (&[(10, 70), (10, 1)], &[60], Off, Some((vec![0, 1], Space))),
            (
                &[(10, 80), (10, 70), (10, 1)],
                &[60],
                Strict,
                Some((vec![0, 1], Space)),
            ),
            // ... and one that a run straddles counts by the run's smallest number.
            (
                &[(10, 60), (10, 1)],
                &[60],
                Strict,
                Some((vec![0, 1], Space)),
            ),
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
        let (inputs, reason) = picked(&many, &bookmarks, Bounding::Preferred).unwrap();
        assert_eq!(
            (inputs.len(), reason),
            (30 - TABLE_RUNS_MAX + 1, Reason::Count)
        );
    }

    #[test]
    fn a_ladder_of_flushes_stays_short() {
        let mut list: Vec<RunSize> = Vec::new();
        let mut written = 0;
        for flush in 0..1000 {
            list.insert(
                0,
                RunSize {
                    id: RunId(flush),
                    bytes: 1,
                    smallest_seq: SeqNo(flush),
                },
            );
            while let Some(pick) = pick(&list, &[], 1.2, Bounding::Preferred) {
                let at = list
                    .iter()
                    .position(|run| run.id == pick.inputs[0])
                    .unwrap();
                let bytes = list[at..at + pick.inputs.len()]
                    .iter()
                    .map(|run| run.bytes)
                    .sum();
                written += bytes;
                let merged = RunSize { bytes, ..list[at] };
                list.splice(at..at + pick.inputs.len(), [merged]);
            }
            assert!(list.len() <= STRATUM_RUNS_MAX);
        }
        assert!(
            written <= 12 * 1000,
            "{written} bytes rewritten for 1000 flushed"
        );
    }
}

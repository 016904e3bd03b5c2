//! Tiered compaction that respects snapshots: the picker that is used unless
//! another one is given.
//!
//! The thesis's *bounded compaction* (Polo 2014, 5.2.3.2) merges only runs that share exactly
//! the same set of snapshots, so that a snapshot's files stay apart from what was written
//! after it. Here a *stratum* is a stretch of neighbours of the run list that the same
//! bookmarks see. Inside a stratum runs form a ladder of sizes, as in RocksDB's universal
//! compaction. RocksDB merges all runs when half of the bytes may be garbage; here the runs'
//! key sketches give an estimate of the garbage.

use std::ops::Range;

use super::estimate::overwritten;
use super::pick::{CompactionPicker, Pick};
use super::shape::{RunShape, TableShape};

/// Whether merges join runs that different snapshots see. This decides only in which files versions
/// lie: every reader sees the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bounding {
    /// Only runs that the same snapshots see are merged, as in the *bounded compaction* of Polo's
    /// thesis (2014).
    Strict,
    /// Like `Strict`, except in a table that would otherwise have more than 24 runs: there, runs
    /// that different snapshots see are merged, too.
    #[default]
    Preferred,
    /// Merges ignore snapshots when they choose runs.
    Off,
}

/// Merges runs of similar size, and prefers runs that the same snapshots see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TieredPicker {
    /// A run joins a merge while it is at most this many times as large as all newer runs of the
    /// merge together; above 0. A larger ratio makes merges more eager: reads become faster, and
    /// more is written. Default: 1.2.
    pub size_ratio: f64,
    /// The number of runs from which on the newest stratum (neighbouring runs that the same
    /// snapshots see) is merged for the sake of reads. Such a merge takes neighbours of similar
    /// size (see `size_ratio`): at least half of this number (rounded down), and at least two.
    /// Until enough runs have similar sizes, no such merge begins. Older strata are merged from 4
    /// runs on, or earlier if `runs_before_merge` is smaller. A higher number means less writing,
    /// and slower reads of recent writes. Default: 8.
    pub runs_before_merge: usize,
    /// A stratum (neighbouring runs that the same snapshots see) is merged when the size of its
    /// runs is at least this multiple of their estimated size as one run; above 1. A smaller factor
    /// means less space and more writing. Default: 2. In an idle database
    /// ([`TableShape::is_idle`]), the picker uses 1.125 instead if that is less.
    pub space_amplification_max: f64,
    /// Whether merges join runs that different snapshots see. Default: [`Bounding::Preferred`].
    pub bounding: Bounding,
}

impl Default for TieredPicker {
    fn default() -> Self {
        Self {
            size_ratio: 1.2,
            runs_before_merge: 8,
            space_amplification_max: 2.0,
            bounding: Bounding::default(),
        }
    }
}

/// The number of runs from which on a stratum (neighbouring runs that the same snapshots see) other
/// than the newest is merged for the sake of reads; [`TieredPicker::runs_before_merge`] if that is
/// less. The number is small, because no new runs come into such a stratum.
const OLD_RUNS_BEFORE_MERGE: usize = 4;
/// In an idle database, a stratum (neighbouring runs that the same snapshots see) is merged when
/// its size is at least this multiple of its estimated size as one run: when at least one byte in
/// nine is garbage.
const IDLE_SPACE_AMPLIFICATION_MAX: f64 = 1.125;
/// A stratum (neighbouring runs that the same snapshots see) with more runs than this is merged
/// whatever the sizes of the runs, because each read looks into all of them.
const STRATUM_RUNS_MAX: usize = 12;
/// A table with more runs than this is merged even across snapshots, because a read may look into
/// all of them; [`Bounding::Strict`] forbids it.
const TABLE_RUNS_MAX: usize = 24;
/// A run is rewritten alone when more than 1 / `GARBAGE_FRACTION` of its bytes are garbage.
const GARBAGE_FRACTION: u64 = 4;

impl CompactionPicker for TieredPicker {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let places = self.choose(table)?;
        Some(Pick::merge(&table.runs[places]))
    }
}

impl TieredPicker {
    /// Returns the positions of the runs to merge; `None` if no merge is worth it.
    fn choose(&self, table: &TableShape<'_>) -> Option<Range<usize>> {
        let runs = table.runs;
        let boundaries = match self.bounding {
            Bounding::Off => &[],
            Bounding::Strict | Bounding::Preferred => table.bookmarks,
        };
        // Bookmarks at or above a run's smallest number see it.
        let stratum = |run: &RunShape| boundaries.partition_point(|&b| b < run.smallest_seq);
        let space_max = if table.is_idle {
            IDLE_SPACE_AMPLIFICATION_MAX.min(self.space_amplification_max)
        } else {
            self.space_amplification_max
        };
        let mut start = 0;
        for runs in runs.chunk_by(|a, b| stratum(a) == stratum(b)) {
            let runs_before_merge = match start {
                0 => self.runs_before_merge,
                _ => OLD_RUNS_BEFORE_MERGE.min(self.runs_before_merge),
            };
            let limits = Limits {
                runs_before_merge,
                space_max,
                is_bottom: start + runs.len() == table.runs.len(),
            };
            if let Some(places) = self.pick_in_stratum(start, runs, limits) {
                return Some(places);
            }
            start += runs.len();
        }
        let is_garbage = |run: &RunShape| {
            !run.is_busy && run.garbage_bytes.saturating_mul(GARBAGE_FRACTION) > run.bytes
        };
        if let Some(at) = runs.iter().position(is_garbage) {
            return Some(at..at + 1);
        }
        match self.bounding {
            Bounding::Strict => None,
            Bounding::Preferred | Bounding::Off => thin_out(0, runs, TABLE_RUNS_MAX),
        }
    }
}

/// The limits at which a stratum (neighbouring runs that the same snapshots see) is merged.
#[derive(Clone, Copy)]
struct Limits {
    runs_before_merge: usize,
    space_max: f64,
    /// Whether the stratum (neighbouring runs that the same snapshots see) has the oldest run of
    /// the table.
    is_bottom: bool,
}

impl TieredPicker {
    /// Returns the next merge in a stratum (neighbouring runs that the same snapshots see), whose
    /// `runs` begin at position `start` of the table's list; `None` if no merge is worth it. Busy
    /// runs ([`RunShape::is_busy`]) divide the stratum into stretches of other runs. Each stretch
    /// is considered by itself, because a merge takes neighbouring runs only.
    fn pick_in_stratum(
        &self,
        start: usize,
        runs: &[RunShape],
        limits: Limits,
    ) -> Option<Range<usize>> {
        let width_min = (limits.runs_before_merge / 2).max(2);
        let mut at = 0;
        for stretch in runs.chunk_by(|a, b| a.is_busy == b.is_busy) {
            let (first, is_oldest) = (start + at, at + stretch.len() == runs.len());
            at += stretch.len();
            if stretch[0].is_busy {
                continue;
            }
            let wastes_space = match overwritten(stretch, is_oldest && limits.is_bottom) {
                Some(it) => exceeds(stretch, it.bytes, limits.space_max),
                // No sketch: in the worst case each byte of a newer run hides one of the
                // oldest run.
                None => {
                    let newer = total(&stretch[..stretch.len() - 1]);
                    is_oldest && exceeds(stretch, newer, self.space_amplification_max)
                }
            };
            if stretch.len() > 1 && wastes_space {
                return Some(first..first + stretch.len());
            }
            if stretch.len() < limits.runs_before_merge {
                continue;
            }
            let ladder = (0..stretch.len())
                .map(|from| (from, ladder(&stretch[from..], self.size_ratio)))
                .find(|&(_, len)| len >= width_min);
            if let Some((from, len)) = ladder {
                return Some(first + from..first + from + len);
            }
        }
        thin_out(start, runs, STRATUM_RUNS_MAX)
    }
}

/// Returns whether runs with `garbage_bytes` that no reader needs are at least `times` as large as
/// they would be without these bytes.
fn exceeds(runs: &[RunShape], garbage_bytes: u64, times: f64) -> bool {
    let bytes = total(runs);
    bytes as f64 >= bytes.saturating_sub(garbage_bytes) as f64 * times
}

/// Returns the number of runs in the longest prefix of `runs` (newest first) in which each run is
/// at most `size_ratio` times as large as all newer ones together.
fn ladder(runs: &[RunShape], size_ratio: f64) -> usize {
    let mut sum = runs[0].bytes;
    let mut len = 1;
    while let Some(next) = runs
        .get(len)
        .filter(|next| next.bytes as f64 <= sum as f64 * size_ratio)
    {
        sum += next.bytes;
        len += 1;
    }
    len
}

/// Returns a merge after which at most `runs_max` runs are left, counted as if the merges under way
/// had ended: of several such merges, the one that reads the fewest bytes. Returns `None` if no
/// merge is needed or possible. `runs` begin at position `start` of the table's list.
fn thin_out(start: usize, runs: &[RunShape], runs_max: usize) -> Option<Range<usize>> {
    let stretches = runs.chunk_by(|a, b| a.is_busy && b.is_busy);
    let len = (stretches.count() + 1).checked_sub(runs_max)?;
    if len < 2 {
        return None;
    }
    let idle = |(_, window): &(usize, &[RunShape])| window.iter().all(|run| !run.is_busy);
    runs.windows(len)
        .enumerate()
        .filter(idle)
        .min_by_key(|(_, window)| total(window))
        .map(|(at, _)| start + at..start + at + len)
}

fn total(runs: &[RunShape]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

#[cfg(test)]
mod tests;

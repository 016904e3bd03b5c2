//! Estimates of the results of merges, from the metadata of the runs alone.

use std::sync::Arc;

use super::pick::{CompactionPicker, ask};
use super::shape::{RunShape, TableShape};
use crate::sstable::KeySketch;

/// Estimates the bytes that the merges of a table will read until the picker finds no further merge
/// worth it, if nothing else is written meanwhile. The caller must not mark the inputs of merges
/// under way as busy in `table`, so that the estimate includes their bytes.
pub(crate) fn debt_bytes(picker: &dyn CompactionPicker, table: &TableShape<'_>) -> u64 {
    let mut runs = table.runs.to_vec();
    let mut debt_bytes = 0;
    // Each merge leaves fewer runs, or one of less garbage.
    for _ in 0..2 * table.runs.len() {
        let runs_now = TableShape {
            runs: &runs,
            is_idle: false,
            ..*table
        };
        let Ok(Some(pick)) = ask(picker, &runs_now) else {
            break;
        };
        let Ok(places) = pick.places(&runs) else {
            break;
        };
        let inputs = &runs[places.clone()];
        let merged = merged(inputs);
        debt_bytes += inputs.iter().map(|run| run.bytes).sum::<u64>();
        let gains = inputs.len() > 1 || merged.bytes < inputs[0].bytes;
        runs.splice(places, [merged]);
        if !gains {
            break;
        }
    }
    debt_bytes
}

/// Estimates the shape of the run into which `runs`, newest first, would be merged. The estimate
/// has the id of the oldest input, as the new run has none yet.
///
/// # Panics
/// If `runs` is empty.
pub(crate) fn merged(runs: &[RunShape]) -> RunShape {
    let oldest = runs.last().expect("a merge has inputs");
    let sum = |of: fn(&RunShape) -> u64| runs.iter().map(of).sum::<u64>();
    let overwritten = overwritten(runs, false);
    let (entries, bytes) = match &overwritten {
        Some(it) => (it.entries, it.bytes),
        None => (0, 0),
    };
    let smallest = runs.iter().map(|run| run.smallest_seq).min();
    let largest = runs.iter().map(|run| run.largest_seq).max();
    let largest_file = runs.iter().map(|run| run.largest_file_bytes).max();
    RunShape {
        id: oldest.id,
        bytes: sum(|run| run.bytes.saturating_sub(run.garbage_bytes)).saturating_sub(bytes),
        largest_file_bytes: largest_file.unwrap_or_default(),
        entries: sum(|run| run.entries).saturating_sub(entries),
        keys: sum(|run| run.keys).saturating_sub(entries),
        tombstones: sum(|run| run.tombstones),
        overwrites: overwritten.map(|it| Arc::new(it.all)),
        garbage_bytes: 0,
        smallest_seq: smallest.unwrap_or_default(),
        largest_seq: largest.unwrap_or_default(),
        is_busy: false,
    }
}

/// The estimated saving of a merge of some runs.
pub(super) struct Overwritten {
    /// The number of versions that the merge would drop, approximately.
    entries: u64,
    /// The bytes that the merge would save, approximately.
    pub(super) bytes: u64,
    /// A sketch of the keys whose versions in these runs hide older versions in older runs.
    all: KeySketch,
}

/// Estimates the versions that a merge of `runs` (newest first) would drop. These are the versions
/// that a newer one of `runs` overwrites. If `is_bottom` is true (the table has no older run), the
/// tombstones of all runs but the oldest are dropped, too. (Tombstones in the oldest run were kept
/// for snapshots or views when it was written.) Returns `None` if the keys that a run overwrites
/// are unknown: see [`RunShape::overwrites`].
pub(super) fn overwritten(runs: &[RunShape], is_bottom: bool) -> Option<Overwritten> {
    let mut all = KeySketch::default();
    let (mut bytes, mut entries, mut keys, mut distinct) = (0_u64, 0_u64, 0_u64, 0_u64);
    for run in runs {
        let overwrites = run.overwrites.as_ref()?;
        all.union(overwrites);
        distinct = distinct.saturating_add(overwrites.distinct());
        bytes = bytes.saturating_add(run.bytes);
        entries = entries.saturating_add(run.entries);
        keys = keys.saturating_add(run.keys);
    }
    // Only a ratio of estimates is used: both have the same bias, which cancels out.
    let twice = share(keys, distinct.saturating_sub(all.distinct()), distinct);
    let newer = runs.split_last().map_or(&[][..], |(_, newer)| newer);
    let tombstones = newer.iter().filter(|_| is_bottom).map(|run| run.tombstones);
    let dropped = tombstones.fold(twice, u64::saturating_add).min(entries);
    Some(Overwritten {
        entries: dropped,
        bytes: share(bytes, dropped, entries),
        all,
    })
}

/// Returns `of` * `part` / `whole`, rounded up. If `whole` is 0, divides by 1.
pub(super) fn share(of: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(of) * u128::from(part);
    product
        .div_ceil(u128::from(whole.max(1)))
        .try_into()
        .unwrap_or(u64::MAX)
}

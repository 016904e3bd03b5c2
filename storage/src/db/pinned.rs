//! The bytes that snapshots pin: a count by one pass over the tables, and an estimate.

use std::collections::{BTreeMap, HashMap};
use std::iter::once;
use std::ops::ControlFlow;

use super::{Engine, TableCore};
use crate::compaction::{PinCounter, PinEstimate, PinEstimates, PinnedBytes, pin_estimates};
use crate::error::Result;
use crate::key::{Cursor, RangeTombstones, SeqNo};
use crate::read::Merge;
use crate::runs::{Run, Sought, plain_bytes};
use crate::snapshots::PinPoints;
use crate::version::{Source, TableVersion};

/// The bytes that snapshots pin, that is, keep merges from freeing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotPins {
    /// For each snapshot and each hold
    /// ([`Keyspace::hold_snapshot`](crate::Keyspace::hold_snapshot)), by its keyspace and its name:
    /// the bytes that merges free if it alone is deleted. Zero if a view (an open reader), or
    /// another snapshot or hold, shows the state of the same commit, because it needs the same
    /// versions.
    pub alone: BTreeMap<(String, String), PinnedBytes>,
    /// The bytes that merges free if all these snapshots and holds are deleted. May be more than
    /// the sum of `alone`, which lacks the versions that several of them need.
    pub together: PinnedBytes,
}

/// The bytes of keys and values that a pass reads between two calls of `step`: those of some
/// blocks.
const STEP_BYTES: u64 = 64 << 10;

impl Engine {
    /// Counts the bytes that the snapshots and holds of a keyspace, or of all keyspaces, pin. Calls
    /// `step` after each [`STEP_BYTES`] of keys and values with the bytes read since the last call.
    /// `None` if `step` ends the pass.
    pub(crate) fn snapshot_pins(
        &self,
        keyspace: Option<&str>,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<SnapshotPins>> {
        let is_of = |other: &str| keyspace.is_none_or(|name| name == other);
        let now_ms = self.now_ms();
        let mut bookmarks = self.snapshots.bookmarks_where(|it| is_of(&it.keyspace));
        if let Some(last) = bookmarks.last() {
            // Writes below it may be under way that a later one will not change.
            self.queue.wait_visible(last.seq);
        }
        let mut by_id: HashMap<u64, PinnedBytes> = HashMap::new();
        let mut together = PinnedBytes::default();
        let tables = self.tables().into_iter();
        let tables = tables.filter(|table| is_of(&table.keyspace));
        // Only the table that is read is held: a dropped one goes once there is no handle on it.
        for id in tables.map(|table| table.id).collect::<Vec<_>>() {
            let table = self.catalog.read().unwrap().by_id(id).cloned();
            let Some(table) = table else {
                continue;
            };
            let points = self.snapshots.pin_points(table.span(), now_ms);
            if points.bookmarks == 0 {
                continue;
            }
            let Some((alone, all)) = count(&table, &points, step)? else {
                return Ok(None);
            };
            for ((_, id), pinned) in points.lone.iter().zip(alone) {
                *by_id.entry(*id).or_default() += pinned;
            }
            together += all;
        }
        bookmarks.retain(|bookmark| !bookmark.record.has_expired(now_ms));
        let alone = bookmarks.into_iter().map(|bookmark| {
            let pinned = by_id.remove(&bookmark.record.id).unwrap_or_default();
            ((bookmark.record.keyspace, bookmark.record.name), pinned)
        });
        let alone = alone.collect();
        Ok(Some(SnapshotPins { alone, together }))
    }

    /// Estimates the bytes of a table that snapshots pin (keep from being dropped). Versions that
    /// something newer in the same run hides are left out.
    pub(crate) fn pin_estimates(&self, table: &TableCore, version: &TableVersion) -> PinEstimates {
        let bookmarks = self.snapshots.bookmark_seqs(table.span());
        let mut estimates = estimate(table, version, &bookmarks);
        for shared in self.snapshots.shared_seqs(table.span()) {
            estimates.alone.remove(&shared);
        }
        if let ([last], true) = (&bookmarks[..], table.is_dropped()) {
            // The table goes with its last snapshot.
            estimates.alone.insert(*last, estimates.together);
        }
        estimates
    }
}

/// Estimates the bytes of a table that all snapshots together pin, as [`Engine::pin_estimates`]
/// does. `bookmarks` are the commits at which the table's snapshots and holds read, ascending.
pub(super) fn pinned_together(
    table: &TableCore,
    version: &TableVersion,
    bookmarks: &[SeqNo],
) -> PinEstimate {
    estimate(table, version, bookmarks).together
}

fn estimate(table: &TableCore, version: &TableVersion, bookmarks: &[SeqNo]) -> PinEstimates {
    let runs: Vec<&Run> = version.all_runs().map(|run| &**run).collect();
    let mut estimates = pin_estimates(&runs, bookmarks);
    if table.is_dropped() {
        // Only snapshots need the table.
        estimates.together = PinEstimate::exactly(stored(runs.into_iter()).file_bytes);
    }
    estimates
}

/// Counts the bytes that each lone snapshot of a table pins, and those that all snapshots pin
/// together, by a pass that does not fill the block cache. A snapshot is lone if no view and no
/// other snapshot reads at its commit. `None` if `step` ends the pass.
fn count(
    table: &TableCore,
    points: &PinPoints,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<(Vec<PinnedBytes>, PinnedBytes)>> {
    let version = table.version();
    let whole = stored(version.all_runs().map(|run| &**run));
    if table.is_dropped() && points.bookmarks == 1 {
        return Ok(Some((vec![whole; points.lone.len()], whole)));
    }
    let tombstones = version.range_tombstones(SeqNo::MAX);
    let tombstones = tombstones.iter().flat_map(|of_source| of_source.list());
    let tombstones = RangeTombstones::build(tombstones, Some(&points.with));
    let (mut cursors, _) = version.cursors(SeqNo::MAX, &Sought::all(), &[], false);
    for cursor in &mut cursors {
        cursor.seek_to_first()?;
    }
    let of_source = |source: &Source| match source {
        Source::Run(cursor) => weight(stored(once(cursor.run()))),
        Source::Memtable(_) => weight(whole),
    };
    let of_sources: Vec<f64> = cursors.iter().map(of_source).collect();
    let mut merge: Merge<_, false> = Merge::new(cursors);
    let boundaries = (&points.with, &points.without);
    let lone = points.lone.iter().map(|(seq, _)| *seq);
    let mut counter = PinCounter::new(&table.merger, boundaries, lone);
    let (mut versions, mut weights, mut read_bytes) = (Vec::new(), Vec::new(), 0);
    while let Some(key) =
        merge.next_key_from(&mut versions, |source| weights.push(of_sources[source]))?
    {
        counter.add(&key, &versions, &weights, tombstones.over(&key));
        let bytes = versions.drain(..).map(|v| plain_bytes(&key, &v.value));
        read_bytes += bytes.sum::<u64>();
        weights.clear();
        if read_bytes >= STEP_BYTES && step(std::mem::take(&mut read_bytes)).is_break() {
            return Ok(None);
        }
    }
    let (alone, together) = counter.finish();
    let together = if table.is_dropped() { whole } else { together };
    Ok(Some((alone, together)))
}

/// Returns the total size of some runs, in files and uncompressed.
fn stored<'r>(runs: impl Iterator<Item = &'r Run>) -> PinnedBytes {
    let mut stored = PinnedBytes::default();
    for run in runs {
        stored.file_bytes += run.meta().bytes();
        stored.plain_bytes += run.plain_bytes();
    }
    stored
}

/// Returns the ratio of file size to uncompressed size; 1 where nothing is stored.
fn weight(stored: PinnedBytes) -> f64 {
    match stored.plain_bytes {
        0 => 1.0,
        plain_bytes => stored.file_bytes as f64 / plain_bytes as f64,
    }
}

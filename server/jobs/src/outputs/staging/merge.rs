//! The rows of several sorted runs, ascending by key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Take;

use ebb_scheduler::runtime::{Checkpoint, Row, TaskError};

use super::reader::{ClosedFile, RowReader};
use super::{READ_BYTES, StagedRows, StagingWriter};
use crate::outputs::spill_place::SpillPlace;

/// The least size of reads from a run, in bytes. In a merge of few runs it is [`READ_BYTES`].
const READ_BYTES_MIN: usize = 16 << 10;

/// The memory of a merge, in bytes: a read buffer and a row for each run. It is as much as a task
/// has for its records by default.
const MERGE_BYTES: usize = 16 << 20;

/// The number of runs that are merged at once even if their rows are so long that they take more
/// than `MERGE_BYTES`: with fewer runs, a merge would copy the rows too often.
const FAN_IN_MIN: usize = 8;

/// A sorted run, from its start.
type Run = Take<ClosedFile>;

/// Passes the rows of several writers to `row`, ascending by key. If rows have the same key, only
/// the last one is passed: that of the writer that comes later in `staged`. If one writer wrote
/// them, it is the row that was written later. Rows that are too many for one pass are merged into
/// files in `place` before.
pub(in crate::outputs) fn merge(
    place: &SpillPlace,
    staged: impl IntoIterator<Item = StagedRows>,
    row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    merge_with(place, staged, &|| Ok(()), row, |_, _, _| Ok(()))
}

/// Passes rows as [`merge`] does, but combines rows with the same key: `unite` receives the key,
/// the value of the earlier row, and the value of the later row, which it may change. It must not
/// matter which of several neighbours with the same key are combined first. `checkpoint` is called
/// for each row that is not yet passed to `row` but merged into a file; its error ends the merge.
pub(in crate::outputs) fn merge_with(
    place: &SpillPlace,
    staged: impl IntoIterator<Item = StagedRows>,
    checkpoint: Checkpoint<'_>,
    row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut unite: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let (mut runs, mut row_bytes_max) = (Vec::new(), 0);
    for rows in staged {
        row_bytes_max = row_bytes_max.max(rows.row_bytes_max);
        runs.extend(rows.into_runs());
    }
    let bounds = Bounds::of(row_bytes_max);
    let runs = narrowed(place, runs, bounds, checkpoint, &mut unite)?;
    merge_at_once(runs, bounds, row, unite)
}

/// The bounds of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    /// The number of runs that may be merged at once, at least two.
    runs_max: usize,
    /// The length of the longest row, key and value, in bytes.
    row_bytes_max: usize,
}

impl Bounds {
    /// Returns the bounds with which a merge of rows of at most `row_bytes_max` bytes fits into
    /// `MERGE_BYTES`.
    fn of(row_bytes_max: usize) -> Self {
        let runs_max = MERGE_BYTES / READ_BYTES_MIN.saturating_add(row_bytes_max);
        Self {
            runs_max: runs_max.max(FAN_IN_MIN),
            row_bytes_max,
        }
    }

    /// Returns the size in bytes of reads from each of `runs` runs that are merged at once.
    fn read_bytes(self, runs: usize) -> usize {
        let run_bytes = MERGE_BYTES / runs.max(1);
        let left_bytes = run_bytes.saturating_sub(self.row_bytes_max);
        left_bytes.clamp(READ_BYTES_MIN, READ_BYTES)
    }
}

/// Merges neighbouring runs into longer ones, in files in `place`, until they may be merged at
/// once. See [`merge_with`] for `checkpoint` and `unite`.
fn narrowed<U>(
    place: &SpillPlace,
    mut runs: Vec<Run>,
    bounds: Bounds,
    checkpoint: Checkpoint<'_>,
    unite: &mut U,
) -> Result<Vec<Run>, TaskError>
where
    U: FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
{
    let unwritten = || TaskError::io("writing rows to a temporary file");
    let directory = place.directory();
    let runs_max = bounds.runs_max;
    while runs.len() > runs_max {
        let mut surplus = runs.len() - runs_max;
        let mut left = runs.into_iter();
        runs = Vec::new();
        // A merge of n runs leaves n - 1 fewer. Runs that need not be merged are not copied.
        while surplus > 0 {
            let group: Vec<Run> = left.by_ref().take(runs_max.min(surplus + 1)).collect();
            if group.len() < 2 {
                // The last run of this pass.
                runs.extend(group);
                break;
            }
            surplus -= group.len() - 1;
            // The rows come in order, so the file is a single run.
            let writer = StagingWriter::create_unsorted(directory);
            let mut writer = writer.map_err(unwritten())?;
            let mut grant = place.grant();
            let write = |key: &[u8], value: &[u8]| {
                checkpoint()?;
                grant.take(directory, (key.len() + value.len()) as u64)?;
                writer.push(key, value).map_err(unwritten())
            };
            merge_at_once(group, bounds, write, &mut *unite)?;
            let merged = writer.finish().map_err(unwritten())?;
            runs.extend(merged.into_runs());
        }
        runs.extend(left);
    }
    Ok(runs)
}

/// Passes the rows of runs to `row` as [`merge_with`] does, and reads all runs at the same time.
fn merge_at_once(
    runs: Vec<Run>,
    bounds: Bounds,
    mut row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut unite: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let unread = || TaskError::io("reading the rows that wait for the commit");
    let read_bytes = bounds.read_bytes(runs.len());
    let reader = |run| RowReader::new(run, read_bytes);
    let mut runs: Vec<RowReader<ClosedFile>> = runs.into_iter().map(reader).collect();
    // Ordered by key, then by the place of the run. The value plays no part, because the
    // heap has one row of each run.
    let mut heads = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        if let Some((key, value)) = run.next().map_err(unread())? {
            heads.push(Reverse((key, at, value)));
        }
    }
    let mut pending: Option<Row> = None;
    while let Some(Reverse((key, at, value))) = heads.pop() {
        if let Some((key, value)) = runs[at].next().map_err(unread())? {
            heads.push(Reverse((key, at, value)));
        }
        let mut next = (key, value);
        match pending.take() {
            Some((before, last)) if before == next.0 => unite(&before, &last, &mut next.1)?,
            Some((before, last)) => row(&before, &last)?,
            None => {}
        }
        pending = Some(next);
    }
    pending.map_or(Ok(()), |(key, value)| row(&key, &value))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::fs;

    use rand::{RngExt, SeedableRng};

    use super::*;

    fn merged(staged: Vec<StagedRows>) -> Vec<Row> {
        let mut rows = Vec::new();
        let add = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        // So few runs are merged in one pass, which makes no file.
        merge(&SpillPlace::from("unused"), staged, add).unwrap();
        rows
    }

    #[test]
    fn rows_in_any_order_come_sorted_and_the_last_of_a_key_counts() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..50 {
            println!("seed {seed}");
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut staged, mut expected) = (Vec::new(), BTreeMap::new());
            for _ in 0..rng.random_range(0..4) {
                let buffer_bytes = rng.random_range(1..3000);
                let mut writer = StagingWriter::create(dir.path(), buffer_bytes).unwrap();
                for _ in 0..rng.random_range(0..200) {
                    let key = vec![b'k'; rng.random_range(0..40)];
                    let value =
                        rng.random::<u64>().to_le_bytes()[..rng.random_range(0..8)].to_vec();
                    writer.push(&key, &value).unwrap();
                    expected.insert(key, value);
                }
                staged.push(writer.finish().unwrap());
            }
            assert_eq!(merged(staged), expected.into_iter().collect::<Vec<_>>());
        }
    }

    /// Regression: all runs were read at once, each with a buffer and a row in memory, so the
    /// memory of a commit grew with its rows.
    #[test]
    fn many_runs_are_merged_in_passes_that_read_few_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = SpillPlace::from(dir.path());
        let (mut staged, mut expected) = (Vec::new(), BTreeMap::new());
        for value in [b"first", b"later", b"final"] {
            // The keys descend, and no buffer holds two rows: each row is a run.
            let mut writer = StagingWriter::create(dir.path(), 1).unwrap();
            for key in (0..20_u8).rev() {
                writer.push(&[key], value).unwrap();
                expected.insert(vec![key], value.to_vec());
            }
            staged.push(writer.finish().unwrap());
        }
        let united = Cell::new(0);
        let mut unite = |_: &[u8], _: &[u8], _: &mut Vec<u8>| {
            united.set(united.get() + 1);
            Ok(())
        };
        for runs_max in [2, 7, 59, 60] {
            let bounds = Bounds {
                runs_max,
                ..Bounds::of(6)
            };
            let all = staged.iter().cloned();
            let runs: Vec<Run> = all.flat_map(StagedRows::into_runs).collect();
            assert_eq!(runs.len(), 60);
            let runs = narrowed(&place, runs, bounds, &|| Ok(()), &mut unite).unwrap();
            assert!(runs.len() <= runs_max, "{} of {runs_max}", runs.len());
            let mut rows = BTreeMap::new();
            let add = |key: &[u8], value: &[u8]| {
                rows.insert(key.to_vec(), value.to_vec());
                Ok(())
            };
            merge_at_once(runs, bounds, add, &mut unite).unwrap();
            assert_eq!(rows, expected, "{runs_max}");
            assert_eq!(united.take(), 40, "each earlier row once");
        }
    }

    #[test]
    fn a_merge_of_files_can_be_ended_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 1).unwrap();
        for key in [b"c", b"b", b"a"] {
            writer.push(key, b"value").unwrap();
        }
        let runs = writer.finish().unwrap().into_runs().collect();
        let bounds = Bounds {
            runs_max: 2,
            row_bytes_max: 6,
        };
        let cancel = || -> Result<(), TaskError> { Err(TaskError::Cancelled) };
        let place = SpillPlace::from(dir.path());
        let ended = narrowed(&place, runs, bounds, &cancel, &mut |_, _, _| Ok(()));
        assert!(matches!(ended.err(), Some(TaskError::Cancelled)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_merge_has_as_many_runs_and_reads_as_much_as_the_memory_has_room_for() {
        let runs_max = |row_bytes| Bounds::of(row_bytes).runs_max;
        assert_eq!([0, 1 << 20, 1 << 30].map(runs_max), [1024, 15, FAN_IN_MIN]);
        for row_bytes in (0..1 << 20).step_by(1000) {
            let bounds = Bounds::of(row_bytes);
            for runs in 1..=bounds.runs_max {
                let read_bytes = bounds.read_bytes(runs);
                assert!((READ_BYTES_MIN..=READ_BYTES).contains(&read_bytes));
                assert!(runs * (read_bytes + row_bytes) <= MERGE_BYTES);
            }
        }
    }

    #[test]
    fn rows_in_order_are_one_run_however_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StagingWriter::create(dir.path(), 100).unwrap();
        for i in 0..1000u32 {
            writer.push(&i.to_be_bytes(), b"v").unwrap();
        }
        let rows = writer.finish().unwrap();
        assert_eq!(rows.runs.len(), 1);
        assert_eq!(merged(vec![rows]).len(), 1000);
    }
}

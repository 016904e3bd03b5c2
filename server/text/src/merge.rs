//! Merges sorted runs, and resolves rows with the same key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::options::Duplicates;
use super::sorter::{Origin, Run, SortedRow};

/// The memory for the read buffers of all runs together, in bytes. The buffer of each run has at least
/// 4 KiB, so more than 4,096 runs take more.
const READ_BYTES: usize = 16 << 20;

/// The reason why a merge failed.
#[derive(Debug)]
pub(super) enum MergeError<E> {
    /// A run cannot be read.
    Io(io::Error),
    /// Two rows have the same key, and duplicates are refused.
    Duplicate {
        key: Vec<u8>,
        first: Origin,
        second: Origin,
    },
    /// The error that `take`, the receiver of the rows, returned.
    Sink(E),
}

/// Passes the rows of all runs to `take`, ascending by key. Of several rows with the same key, only the
/// one with the greatest origin is passed, unless `duplicates` refuses them. Returns the number of rows
/// that were not passed because of a later one.
///
/// Memory holds the next key of each run, but only two values, because the values of all runs
/// together might not fit.
pub(super) fn merge<E>(
    runs: Vec<Run>,
    duplicates: Duplicates,
    mut take: impl FnMut(&SortedRow) -> Result<(), E>,
) -> Result<u64, MergeError<E>> {
    // At least a page: a thousand runs mean 64 GB of rows.
    let buffer_bytes = (READ_BYTES / runs.len().max(1)).clamp(4 << 10, 1 << 20);
    let mut runs: Vec<Run> = (runs.into_iter())
        .map(|run| run.with_buffer(buffer_bytes))
        .collect();
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for (at, run) in runs.iter_mut().enumerate() {
        let row = run.next_key().map_err(MergeError::Io)?;
        heads.extend(row.map(|row| Reverse((row, at))));
    }
    let (mut last, mut replaced): (Option<SortedRow>, u64) = (None, 0);
    while let Some(Reverse((mut row, at))) = heads.pop() {
        row.value = runs[at].read_value().map_err(MergeError::Io)?;
        let next = runs[at].next_key().map_err(MergeError::Io)?;
        heads.extend(next.map(|row| Reverse((row, at))));
        match last.take() {
            Some(before) if before.key == row.key => {
                if duplicates == Duplicates::Refuse {
                    return Err(MergeError::Duplicate {
                        key: row.key,
                        first: before.origin,
                        second: row.origin,
                    });
                }
                replaced += 1;
            }
            Some(before) => take(&before).map_err(MergeError::Sink)?,
            None => {}
        }
        last = Some(row);
    }
    if let Some(last) = last {
        take(&last).map_err(MergeError::Sink)?;
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::super::sorter::Sorter;
    use super::*;
    use ebb_storage::simulation::{FaultOp, MemDisk};
    use std::sync::Arc;

    fn runs(rows: &[(&str, &str)], bytes_max: usize) -> Vec<Run> {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(ebb_storage::LocalDisk::default());
        let mut sorter = Sorter::new(disk, dir.path().join("runs"), bytes_max);
        for (line, (key, value)) in (1..).zip(rows) {
            let origin = Origin { file: 0, line };
            sorter
                .push(key.as_bytes(), value.as_bytes(), origin)
                .unwrap();
        }
        // The file has no name any more.
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        sorter.finish().unwrap()
    }

    fn merged(
        runs: Vec<Run>,
        duplicates: Duplicates,
    ) -> Result<Vec<(String, String)>, MergeError<()>> {
        let mut all = Vec::new();
        merge(runs, duplicates, |row| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push((text(&row.key), text(&row.value)));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn rows_come_sorted_with_any_amount_of_memory() {
        let keys: Vec<String> = (0..500).map(|n| format!("{:03}", n * 7919 % 500)).collect();
        let rows: Vec<(&str, &str)> = keys.iter().map(|key| (&key[..], &key[1..])).collect();
        for (bytes_max, runs_expected) in [(1 << 20, 1), (1 << 10, 10), (0, 500)] {
            let runs = runs(&rows, bytes_max);
            assert!(runs.len() >= runs_expected, "{} runs", runs.len());
            let merged = merged(runs, Duplicates::Refuse).unwrap();
            let expected = (0..500).map(|n| format!("{n:03}"));
            assert!(merged.iter().map(|(key, _)| key.clone()).eq(expected));
            assert!(merged.iter().all(|(key, value)| key[1..] == *value));
        }
    }

    #[test]
    fn rows_with_the_same_key_are_refused_or_the_last_wins() {
        let rows = [("b", "1"), ("a", "2"), ("b", "3"), ("b", "4")];
        for bytes_max in [1 << 20, 0] {
            let last = merged(runs(&rows, bytes_max), Duplicates::Last).unwrap();
            let expected = [("a", "2"), ("b", "4")];
            assert_eq!(last, expected.map(|(k, v)| (k.to_string(), v.to_string())));
            match merged(runs(&rows, bytes_max), Duplicates::Refuse) {
                Err(MergeError::Duplicate { key, first, second }) => {
                    assert_eq!((&key[..], first.line, second.line), (&b"b"[..], 1, 3));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Regression: memory held the next row of each run with its value, so that a load of long rows
    /// took as much memory as all rows together.
    #[test]
    fn a_value_is_read_only_when_its_row_is_the_next_of_all_runs() {
        const RUNS: u8 = 20;
        let disk = MemDisk::new();
        let mut sorter = Sorter::new(Arc::new(disk.clone()), "/runs".into(), 0);
        // Longer than the read buffer of a run, so that one more read takes the rest of it.
        let value = vec![b'v'; READ_BYTES / usize::from(RUNS) + 1000];
        for key in 0..RUNS {
            let line = u64::from(key);
            let origin = Origin { file: 0, line };
            sorter.push(&[key], &value, origin).unwrap();
        }
        let runs = sorter.finish().unwrap();
        assert_eq!(runs.len(), usize::from(RUNS));
        // The first read of a run has the key, and the second one has the end of the value.
        let nth = u64::from(RUNS) + 10;
        disk.fail_next(FaultOp::Read, nth, io::ErrorKind::Other);
        let mut taken = 0;
        let merged = merge(runs, Duplicates::Refuse, |row| {
            assert!(row.value == value);
            taken += 1;
            Ok::<_, ()>(())
        });
        assert!(matches!(merged, Err(MergeError::Io(_))), "{merged:?}");
        // The tenth value cannot be read. The ninth row was not passed yet, because the merge
        // compares its key with the next one first.
        assert_eq!(taken, 8);
    }
}

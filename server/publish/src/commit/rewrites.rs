//! The choice of the files that a publication writes anew, so that readers read about as much as they
//! would of a table that was published at once.
//!
//! Each publication that keeps the files before it adds a *layer*: the data files with its Iceberg sequence
//! number. A reader opens the files of all layers, and for each data file all files of its deletes. Both numbers
//! are limited, each by itself: publications that change few files each would add up to a limit that
//! no rewrite brings down.
//!
//! Opening a file takes as long as reading some MiB, in a bucket even longer. So the limit on layers
//! of small files is lower: such files cost readers much, and are cheap to write again.
//!
//! A publication plans from the files before it, and then adds a layer and delete files of its own.
//! So readers may find one layer more than a limit allows, and one delete file more.

use std::collections::{BTreeMap, BTreeSet};

use super::live::LiveFile;

/// The limit on the number of layers of a table. The oldest layer does not count. Above the limit,
/// the next publication merges newer layers.
const LAYERS_MAX: usize = 16;

/// The limit on the number of layers that have small data files. Above the limit, the next
/// publication merges the small files of newer layers.
const SMALL_LAYERS_MAX: usize = 4;

/// The size, in bytes, below which a data file is small.
const SMALL_BYTES: i64 = 4 << 20;

/// The limit on the number of delete files of one data file. Above the limit, the next publication
/// merges the delete files.
const DELETES_MAX: usize = 2;

/// A data file is written anew if at least one in this many of its rows is deleted.
const DELETED_PART: u64 = 10;

/// The files that a publication writes anew, by their ascending positions among the live files. No position
/// is in both lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// The data files that leave the table. Their rows that are not deleted are copied into new
    /// files.
    pub files: Vec<usize>,
    /// The data files that stay, but each get one delete file in place of several.
    pub deletes: Vec<usize>,
}

/// Decides which of the live files the next publication writes anew. A layer consists of the data files that
/// one publication added. The publication writes anew:
///
/// - data files of which at least a tenth of the rows is deleted,
/// - the small data files of newer layers, if more than four layers have small files (the oldest layer
///   counts here),
/// - the data files of newer layers, if there are more than 16 layers besides the oldest one,
/// - the delete files of any other data file that has more than two of them.
pub fn plan_rewrites(files: &[LiveFile]) -> Rewrites {
    let mut all = rows_of_layers(files.iter());
    // The oldest layer stays, because it mostly has most of the rows.
    all.pop_first();
    let merged = layers_to_merge(all, LAYERS_MAX);
    let is_small = |live: &LiveFile| live.file.file_size_in_bytes < SMALL_BYTES;
    let small = rows_of_layers(files.iter().filter(|live| is_small(live)));
    let merged_small = layers_to_merge(small, SMALL_LAYERS_MAX);
    let mut rewrites = Rewrites::default();
    for (place, live) in files.iter().enumerate() {
        let deleted = live.deleted_rows();
        let is_worn = deleted > 0 && deleted.saturating_mul(DELETED_PART) >= live.rows();
        let layer = &live.sequence_number;
        let is_merged = merged.contains(layer) || is_small(live) && merged_small.contains(layer);
        if is_worn || is_merged {
            rewrites.files.push(place);
        } else if live.deletes.len() > DELETES_MAX {
            rewrites.deletes.push(place);
        }
    }
    rewrites
}

/// Returns the number of rows of each layer of `files`, by sequence number. Deleted rows count, too.
fn rows_of_layers<'f>(files: impl Iterator<Item = &'f LiveFile>) -> BTreeMap<i64, u64> {
    let mut rows_of: BTreeMap<i64, u64> = BTreeMap::new();
    for live in files {
        let rows = rows_of.entry(live.sequence_number).or_default();
        *rows = rows.saturating_add(live.rows());
    }
    rows_of
}

/// Chooses the layers to be merged into one, given the number of rows of each layer. Returns their
/// sequence numbers; none unless there are more than `layers_max` layers.
///
/// The newer half is chosen, and then older ones, as long as each has no more rows than all newer
/// ones together. So if a layer of the older half is merged, the resulting layer has at least twice
/// as many rows.
fn layers_to_merge(rows_of: BTreeMap<i64, u64>, layers_max: usize) -> BTreeSet<i64> {
    if rows_of.len() <= layers_max {
        return BTreeSet::new();
    }
    let at_least = rows_of.len().div_ceil(2);
    let (mut merged, mut rows_taken) = (BTreeSet::new(), 0_u64);
    for (number, rows) in rows_of.into_iter().rev() {
        if merged.len() >= at_least && rows > rows_taken {
            break;
        }
        merged.insert(number);
        rows_taken = rows_taken.saturating_add(rows);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::live::DeleteFile;
    use super::*;
    use crate::iceberg::manifest::DataFile;
    use crate::iceberg::testing::data_file;

    /// Returns a data file of `rows` rows of 100 bytes that publication `sequence_number` added. Each element
    /// of `deletes` stands for a delete file: its sequence number, and the number of rows that it deletes.
    fn live(sequence_number: i64, rows: i64, deletes: &[(i64, i64)]) -> LiveFile {
        let file = |rows: i64| DataFile {
            file_size_in_bytes: rows.saturating_mul(100),
            ..data_file(&format!("file:///t/{sequence_number}"), rows)
        };
        let deletes = deletes.iter().map(|&(sequence_number, rows)| DeleteFile {
            file: file(rows),
            sequence_number,
        });
        LiveFile {
            file: file(rows),
            sequence_number,
            deletes: deletes.collect(),
        }
    }

    #[test]
    fn a_file_is_written_anew_once_a_tenth_of_its_rows_is_deleted() {
        let files = [
            live(1, 100, &[(2, 9)]),
            live(1, 100, &[(2, 4), (3, 6)]),
            live(2, 0, &[]),
            live(3, 5, &[(4, 1)]),
        ];
        let expected = Rewrites {
            files: vec![1, 3],
            deletes: Vec::new(),
        };
        assert_eq!(plan_rewrites(&files), expected);
        assert_eq!(plan_rewrites(&[]), Rewrites::default());
    }

    #[test]
    fn above_two_the_delete_files_of_a_data_file_are_merged() {
        let with_deletes = |count: i64| {
            let deletes: Vec<(i64, i64)> = (0..count).map(|at| (at + 2, 1)).collect();
            live(1, 1_000_000, &deletes)
        };
        // The last file is written anew, which leaves no deletes to merge.
        let worn = live(1, 30, &[(2, 1), (3, 1), (4, 1)]);
        let files = [with_deletes(2), with_deletes(3), with_deletes(0), worn];
        let expected = Rewrites {
            files: vec![3],
            deletes: vec![1],
        };
        assert_eq!(plan_rewrites(&files), expected);
    }

    #[test]
    fn above_four_layers_of_small_files_the_newer_ones_are_merged() {
        // Small files beside large ones of the same layers.
        let mut files = vec![live(1, 1_000_000, &[]), live(2, 1_000_000, &[])];
        files.extend([live(2, 30_000, &[]), live(3, 10, &[])]);
        files.extend([live(4, 10, &[]), live(5, 10, &[])]);
        assert_eq!(plan_rewrites(&files), Rewrites::default());
        files.push(live(6, 10, &[]));
        assert_eq!(plan_rewrites(&files).files, [3, 4, 5, 6]);
        // Together, the merged files have as many rows as the small file of the layer before them.
        files[6] = live(6, 29_970, &[]);
        assert_eq!(plan_rewrites(&files).files, [2, 3, 4, 5, 6]);
    }

    #[test]
    fn publications_that_each_delete_rows_of_another_file_rewrite_nothing() {
        let files: Vec<LiveFile> = (0..40).map(|at| live(1, 100, &[(at + 2, 1)])).collect();
        assert_eq!(plan_rewrites(&files), Rewrites::default());
    }

    #[test]
    fn a_large_layer_is_not_merged_with_smaller_ones_again_and_again() {
        let mut files = vec![live(1, 1 << 40, &[]), live(2, 1 << 30, &[])];
        files.extend((3..=17).map(|number| live(number, 1 << 20, &[])));
        assert_eq!(plan_rewrites(&files), Rewrites::default());
        files.push(live(18, 1 << 20, &[]));
        assert_eq!(plan_rewrites(&files).files, (2..18).collect::<Vec<_>>());
        // Half of the layers go, however much each is larger than the newer ones.
        let mut files = vec![live(1, 1 << 50, &[])];
        files.extend((0..17).map(|at| live(at + 2, 1 << (40 - at), &[])));
        assert_eq!(plan_rewrites(&files).files, (9..18).collect::<Vec<_>>());
    }
}

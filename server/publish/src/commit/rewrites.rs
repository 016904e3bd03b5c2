//! The choice of the files that a publication writes anew, so that readers read about as much as they
//! would of a table that was published at once.
//!
//! Each publication that keeps the files before it adds a *layer*: the data files with its Iceberg sequence
//! number. A reader opens the files of all layers, and for each data file all files of its deletes. Both numbers
//! are limited, each by itself: publications that change few files each would add up to a limit that
//! no rewrite brings down.

use std::collections::{BTreeMap, BTreeSet};

use super::live::LiveFile;

/// A limit on two numbers: the number of layers of a table (the oldest one does not count), and the number of
/// delete files for one data file. Above the limit, layers or delete files are merged. A layer consists of
/// the data files that one publication added.
pub const PUBLICATIONS_MAX: usize = 16;

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
/// - the data files of newer layers, if there are more than [`PUBLICATIONS_MAX`] layers besides the oldest
///   one,
/// - the delete files of any other data file that has more than [`PUBLICATIONS_MAX`] of them.
pub fn plan_rewrites(files: &[LiveFile]) -> Rewrites {
    let merged = layers_to_merge(files);
    let mut rewrites = Rewrites::default();
    for (place, live) in files.iter().enumerate() {
        let deleted = live.deleted_rows();
        let is_worn = deleted > 0 && deleted.saturating_mul(DELETED_PART) >= live.rows();
        if is_worn || merged.contains(&live.sequence_number) {
            rewrites.files.push(place);
        } else if live.deletes.len() > PUBLICATIONS_MAX {
            rewrites.deletes.push(place);
        }
    }
    rewrites
}

/// Chooses the layers to be merged into one; a layer consists of the data files that one
/// publication added. Returns their sequence numbers; none unless there are more than
/// [`PUBLICATIONS_MAX`] layers besides the oldest one.
///
/// The oldest layer stays. Of the others, the newer half is chosen, and then older ones, as long as
/// each has no more rows than all newer ones together. So if a layer of the older half is merged,
/// the resulting layer has at least twice as many rows. Deleted rows count, too.
fn layers_to_merge(files: &[LiveFile]) -> BTreeSet<i64> {
    let mut rows_of: BTreeMap<i64, u64> = BTreeMap::new();
    for live in files {
        let rows = rows_of.entry(live.sequence_number).or_default();
        *rows = rows.saturating_add(live.rows());
    }
    rows_of.pop_first();
    if rows_of.len() <= PUBLICATIONS_MAX {
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
    use super::super::tests::data_file;
    use super::*;

    /// Returns a data file of `rows` rows that publication `sequence_number` added. Each element of `deletes`
    /// stands for a delete file: its sequence number, and the number of rows that it deletes.
    fn live(sequence_number: i64, rows: i64, deletes: &[(i64, i64)]) -> LiveFile {
        let file = |rows: i64| data_file(&format!("file:///t/{sequence_number}"), rows);
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
    fn above_sixteen_publications_layers_and_deletes_are_merged() {
        let base = |deletes: i64| {
            let deletes: Vec<(i64, i64)> = (0..deletes).map(|at| (at + 2, 1)).collect();
            live(1, 1_000_000, &deletes)
        };
        let mut files = vec![base(16), live(1, 1_000_000, &[(2, 1)])];
        files.extend((2..=17).map(|number| live(number, 10, &[])));
        assert_eq!(plan_rewrites(&files), Rewrites::default());
        files[0] = base(17);
        files.push(live(18, 10, &[]));
        let expected = Rewrites {
            files: (2..19).collect(),
            deletes: vec![0],
        };
        assert_eq!(plan_rewrites(&files), expected);
    }

    #[test]
    fn publications_that_each_delete_rows_of_another_file_rewrite_nothing() {
        let files: Vec<LiveFile> = (0..40).map(|at| live(1, 100, &[(at + 2, 1)])).collect();
        assert_eq!(plan_rewrites(&files), Rewrites::default());
    }

    #[test]
    fn a_large_layer_is_not_merged_with_small_ones_again_and_again() {
        let mut files = vec![live(1, 1_000_000, &[]), live(2, 50_000, &[])];
        files.extend((3..=18).map(|number| live(number, 10, &[])));
        let rewrites = plan_rewrites(&files);
        assert_eq!(rewrites.files, (2..18).collect::<Vec<_>>());
        // Half of the layers go, however much each is larger than the newer ones.
        let mut files = vec![live(1, 1 << 40, &[])];
        files.extend((0..17).map(|at| live(at + 2, 1 << (20 - at), &[])));
        assert_eq!(plan_rewrites(&files).files, (9..18).collect::<Vec<_>>());
    }
}

//! Estimates the data that a table has in a key range, piece by piece, from its index, without
//! reading data.

use super::index::IndexEntry;
use super::reader::SsTable;
#[cfg(test)]
use crate::error::Result;
use crate::key::{KeyRange, SeqNo, is_before};

/// A piece of a file's data: its upper bound and its stored size in bytes. No key of the piece is
/// above the bound, and no key of the next piece is below it.
pub(crate) type Piece = (Vec<u8>, u64);

impl SsTable {
    /// Returns the number of partitions of the index that may have keys of `range`.
    pub(crate) fn partitions_in(&self, range: &KeyRange) -> usize {
        self.partitions_over(range).count()
    }

    /// Divides the data of a key range into pieces, in the order of the keys, without reading data
    /// blocks. With `in_detail` each data block is a piece. Otherwise an index partition that lies
    /// wholly within the range is one piece, and only the index partitions at the ends of the range
    /// are read, and divided into blocks. An index partition that cannot be read is one piece, too;
    /// a read of its data returns the error.
    pub(crate) fn pieces(&self, range: &KeyRange, in_detail: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for position in self.partitions_over(range) {
            let (mut first, last) = (self.first_key(position), self.top().bound(position).0);
            let is_within = *first >= *range.start && is_before(&last, range.end.as_ref());
            let index =
                (in_detail || !is_within).then(|| self.partition_past_cache(position, true));
            let Some(Ok(partition)) = index else {
                pieces.push((last, self.top().place(position).data.len));
                continue;
            };
            for IndexEntry { bound, handle } in partition.index.entries() {
                if *bound.0 >= *range.start && is_before(&first, range.end.as_ref()) {
                    pieces.push((bound.0.clone(), handle.len));
                }
                first = bound.0;
            }
        }
        pieces
    }

    fn partitions_over(&self, range: &KeyRange) -> impl Iterator<Item = usize> {
        let first = self.top().position(&range.start, SeqNo::MAX);
        (first..self.top().len())
            .take_while(|&position| is_before(&self.first_key(position), range.end.as_ref()))
    }

    /// Returns a lower bound of the keys in the partition of the index at `position`: the upper
    /// bound of the keys in the partition before it or, for the first partition, the smallest key.
    fn first_key(&self, position: usize) -> Vec<u8> {
        match position.checked_sub(1) {
            Some(before) => self.top().bound(before).0,
            None => self.properties().smallest_key.clone(),
        }
    }

    /// Returns the index entries of all data blocks, in the order of the keys.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    #[cfg(test)]
    pub(super) fn index_entries(&self) -> Result<Vec<IndexEntry>> {
        let mut entries = Vec::new();
        for position in 0..self.top().len() {
            entries.extend(self.partition_past_cache(position, true)?.index.entries());
        }
        Ok(entries)
    }
}

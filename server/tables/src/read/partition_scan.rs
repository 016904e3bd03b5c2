//! Scans over the rows of one partition whose key is known, in either direction.
//!
//! ```text
//!   PartitionScan ── open ─► the header, and the row if only one is selected
//!        └─ advance ─► RowStep: the rows of each range, or each row by its key
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::Bytes;
use ebb_model::key::{ByteRange, DecodedKey, ROW};

use super::entries::{EntryStep, SourceEntries};
use super::error::Result;
use super::row_reader::RowReader;
use super::rows::Rows;
use super::source::Source;
use super::stored_row::RowStep;

/// A scan over the selected rows of one partition.
///
/// The scan reads the partition's header (its deletions and static columns) before any row or with
/// it: see [the purge race](super#the-purge-race).
#[derive(Debug)]
pub struct PartitionScan<'s> {
    source: Source<'s>,
    /// The prefix that all keys of the partition share.
    prefix: &'s [u8],
    rows: &'s Rows,
    bounds: ByteRange,
    reversed: bool,
    /// The indexes in `rows` of the clusterings, or of the ranges of clusterings, that the scan has
    /// not begun yet.
    left: Range<usize>,
    /// The step for the row, if a single row within the bounds is selected: it was read together
    /// with the partition's header. `None` once the scan has returned the step, and for other
    /// selections.
    only: Option<RowStep>,
    /// The range of keys that the next step opens; `None` if it opens none.
    next_range: Option<ByteRange>,
    /// The open iterator over a range of rows; `None` if no range is open.
    entries: Option<SourceEntries<'s>>,
}

impl<'s> PartitionScan<'s> {
    /// Reads the header of a partition, and opens a scan over those of its selected rows whose keys lie
    /// within `bounds`. `header_key` is the header's key, and `partition` any key of the partition.
    /// Returns the header as it is stored (`None` if there is none), and the scan.
    ///
    /// # Errors
    /// If the store cannot read a key.
    pub fn open(
        reader: &RowReader<'s>,
        partition: DecodedKey<'s>,
        header_key: &[u8],
        rows: &'s Rows,
        bounds: ByteRange,
        reversed: bool,
    ) -> Result<(Option<Bytes>, Self)> {
        let mut scan = Self {
            source: reader.source,
            prefix: partition.prefix,
            rows,
            bounds,
            reversed,
            left: 0..0,
            only: None,
            next_range: None,
            entries: None,
        };
        let count = match rows {
            Rows::All => 1,
            Rows::In(ranges) => ranges.len(),
            Rows::Exactly(clusterings) => match &clusterings[..] {
                [only] => {
                    let key = scan.key_of(only);
                    let [header, row] = reader.read_row(partition, [header_key, &key])?;
                    if scan.bounds.contains(&key) {
                        scan.only = Some(RowStep::of_key(key.into(), scan.prefix.len(), row));
                    }
                    return Ok((header, scan));
                }
                clusterings => clusterings.len(),
            },
        };
        scan.left = 0..count;
        Ok((reader.source.get(header_key)?, scan))
    }

    /// Returns the next step, after at most one short search (see [`EntryStep`]): a stored row
    /// (visible or not), the key of a selected row that the table does not have,
    /// [`RowStep::Passed`] among keys that the reader does not see, [`RowStep::Seek`] if the
    /// following step opens a range of keys, or the end.
    ///
    /// # Errors
    /// If the store cannot read an entry.
    #[inline]
    pub fn advance(&mut self) -> Result<RowStep> {
        if let Some(range) = self.next_range.take() {
            let entries = self.source.entries(&range.from, range.to.as_deref())?;
            self.entries = Some(entries);
        }
        let step = match &mut self.entries {
            Some(entries) if self.reversed => entries.search_back()?,
            Some(entries) => entries.search()?,
            None => EntryStep::Done,
        };
        match step {
            EntryStep::Entry((key, operand)) => {
                Ok(RowStep::of_key(key, self.prefix.len(), Some(operand)))
            }
            EntryStep::Passed(key) => Ok(RowStep::Passed(key)),
            EntryStep::Done => self.begin_next(),
        }
    }

    /// Returns the step for the next row that is selected by its clustering, or [`RowStep::Seek`] before
    /// the next range of rows, or [`RowStep::Done`].
    fn begin_next(&mut self) -> Result<RowStep> {
        if let Some(only) = self.only.take() {
            return Ok(only);
        }
        loop {
            let next = if self.reversed {
                self.left.next_back()
            } else {
                self.left.next()
            };
            let Some(at) = next else {
                return Ok(RowStep::Done);
            };
            let range = match self.rows {
                Rows::Exactly(clusterings) => {
                    let key = self.key_of(&clusterings[at]);
                    if !self.bounds.contains(&key) {
                        continue;
                    }
                    let row = self.source.get(&key)?;
                    return Ok(RowStep::of_key(key.into(), self.prefix.len(), row));
                }
                Rows::All => self.keys_of(&[], None),
                Rows::In(ranges) => self.keys_of(&ranges[at].from, ranges[at].to.as_deref()),
            };
            if !range.is_empty() {
                self.next_range = Some(range);
                return Ok(RowStep::Seek);
            }
        }
    }

    /// Returns the key of the row with an encoded clustering.
    fn key_of(&self, clustering: &[u8]) -> Vec<u8> {
        [self.prefix, &[ROW], clustering].concat()
    }

    /// Returns the keys of the clusterings from `from` to before `to`, cut to the bounds of the scan.
    /// Without `to`, the range ends with the partition.
    fn keys_of(&self, from: &[u8], to: Option<&[u8]>) -> ByteRange {
        let from = self.key_of(from).max(self.bounds.from.clone());
        let mut to = match to {
            Some(to) => self.key_of(to),
            None => [self.prefix, &[ROW + 1]].concat(),
        };
        if let Some(end) = &self.bounds.to {
            to = to.min(end.clone());
        }
        ByteRange { from, to: Some(to) }
    }
}

//! Forward scans over the partitions in a range of keys.
//!
//! ```text
//!   RowScan ─┬─ next_partition ─► PartitionStart ─► Partition or ProjectedPartition
//!            │                                        │ row: existence and visible content
//!            └─ next_row ───────► StoredRow ──────────┘
//! ```
//!
//! The partition lives in the caller, and a scan returns keys and operands as the engine yields them:
//! it allocates nothing per row. Every stored row passes through the caller, visible or not, so that
//! the caller can pace itself, check for interrupts and count tombstones.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use ebb_model::key::{ByteRange, KeyError, Place, ROW, header_key, partition_prefix};
use ebb_model::schema::TableSchema;
use ebb_storage::Entry;

use super::entries::SourceEntries;
use super::error::{Result, TableError};
use super::partition::{Partition, read_key};
use super::source::Source;
use super::stored_row::StoredRow;

/// A scan over the partitions in a range of keys.
///
/// A range may begin among the rows of a partition. The scan reads the header of that partition before
/// it opens the iterator: see [the purge race](super#the-purge-race).
#[derive(Debug)]
pub struct RowScan<'s> {
    source: Source<'s>,
    schema: &'s TableSchema,
    /// The end of the scanned range of keys; `None` if it has no upper end.
    to: Option<&'s [u8]>,
    entries: SourceEntries<'s>,
    /// An entry that was read ahead: the first row of the current partition, or the first entry after
    /// the partition.
    pending: Option<Entry>,
    /// The key and the stored header (deletions and static columns) of the partition in which the
    /// range begins, if the header lies before the range. `None` after the first partition.
    header_before: Option<Entry>,
    /// The prefix of the keys of the current partition.
    prefix: Bytes,
    /// False before the first partition, and once all rows of the current one were read or skipped.
    is_in_partition: bool,
}

/// The start of a partition in a scan, with the partition's header: its deletions and static columns.
#[derive(Debug)]
pub struct PartitionStart {
    /// The first key of the partition in the range: that of its header (deletions and static columns),
    /// or of a row.
    pub key: Bytes,
    /// The stored header of the partition (its deletions and static columns), if it has one.
    pub header: Option<Bytes>,
    /// True if the scanned range contains the key of the header. If several ranges cut a partition,
    /// only one of them does.
    pub header_in_range: bool,
}

impl<'s> RowScan<'s> {
    /// Opens a scan over the keys from `from` to before `to`. `from` is not below
    /// [`PARTITIONS_START`](ebb_model::key::PARTITIONS_START): the schema and the entries of indexes
    /// are no partitions.
    ///
    /// # Errors
    /// If the store cannot read the range, or the [`Pace`](super::Pace) of the source ends the read.
    pub fn open(
        source: Source<'s>,
        schema: &'s TableSchema,
        from: &[u8],
        to: Option<&'s [u8]>,
    ) -> Result<Self> {
        let header_before = match header_key_before(from) {
            Some(key) => source.get(&key)?.map(|header| (Bytes::from(key), header)),
            None => None,
        };
        let mut entries = source.entries(from, to)?;
        let pending = entries.next().transpose()?;
        Ok(Self {
            source,
            schema,
            to,
            entries,
            pending,
            header_before,
            prefix: Bytes::new(),
            is_in_partition: false,
        })
    }

    /// Returns the next partition; `None` at the end of the range. Rows of the current partition that
    /// were not read are skipped.
    ///
    /// # Errors
    /// See [`RowScan::next_row`].
    pub fn next_partition(&mut self) -> Result<Option<PartitionStart>> {
        self.skip_rows()?;
        let Some((key, operand)) = self.pending.take() else {
            return Ok(None);
        };
        let decoded = read_key(self.schema, &key)?;
        let header_before = self.header_before.take();
        let (header, header_in_range) = match decoded.place {
            Place::Header => (Some(operand), true),
            Place::Row(_) => {
                self.pending = Some((key.clone(), operand));
                let header = header_before.filter(|(key, _)| key.starts_with(decoded.prefix));
                (header.map(|(_, header)| header), false)
            }
        };
        self.prefix = key.slice(..decoded.prefix.len());
        self.is_in_partition = true;
        Ok(Some(PartitionStart {
            key,
            header,
            header_in_range,
        }))
    }

    /// Returns whether the range has a partition after the current one. Rows of the current partition
    /// that were not read are skipped.
    ///
    /// # Errors
    /// See [`RowScan::next_row`].
    pub fn has_next_partition(&mut self) -> Result<bool> {
        self.skip_rows()?;
        Ok(self.pending.is_some())
    }

    /// Returns the next row of the current partition, visible or not; `None` after the last one.
    ///
    /// # Errors
    /// If the store cannot read an entry, if a key is damaged, or if the [`Pace`](super::Pace) of the
    /// source ends the read.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<StoredRow>> {
        if !self.is_in_partition {
            return Ok(None);
        }
        let entry = match self.pending.take() {
            Some(entry) => Some(entry),
            None => self.entries.next().transpose()?,
        };
        match entry {
            Some((key, operand)) if key.starts_with(&self.prefix) => {
                let prefix_len = self.prefix.len();
                if key.get(prefix_len) != Some(&ROW) {
                    return Err(self.damaged(&key));
                }
                Ok(Some(StoredRow {
                    key,
                    operand,
                    prefix_len,
                }))
            }
            behind => {
                self.is_in_partition = false;
                self.pending = behind;
                Ok(None)
            }
        }
    }

    /// Returns whether any unread row of the current partition exists. `partition` is the current
    /// partition.
    ///
    /// # Errors
    /// As [`RowScan::next_row`], and if an operand is damaged.
    pub fn has_live_row(&mut self, partition: &Partition<'_>) -> Result<bool> {
        while let Some(row) = self.next_row()? {
            if partition.row(row.clustering(), &row.operand)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Skips the rows of the current partition.
    fn skip_rows(&mut self) -> Result<()> {
        // Many partitions end here, and opening the range again costs more than reading one entry.
        if self.next_row()?.is_none() {
            return Ok(());
        }
        self.is_in_partition = false;
        let behind = ByteRange::of_prefix(self.prefix.to_vec()).to;
        let behind = behind.filter(|behind| self.to.is_none_or(|to| behind[..] < *to));
        if let Some(behind) = behind {
            self.entries = self.source.entries(&behind, self.to)?;
            self.pending = self.entries.next().transpose()?;
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, key: &[u8]) -> TableError {
        let error = KeyError::Corrupt {
            what: "neither a header nor a row",
            at: self.prefix.len(),
            len: key.len(),
        };
        TableError::damaged(self.schema, key, error)
    }
}

/// Returns the key of the header (deletions and static columns) of the partition in which `from` lies,
/// if the header is before `from` and rows of the partition may follow.
fn header_key_before(from: &[u8]) -> Option<Vec<u8>> {
    let prefix = partition_prefix(from)?;
    let header_key = header_key(prefix);
    let is_among_rows = *from > header_key[..] && from[prefix.len()] <= ROW;
    is_among_rows.then_some(header_key)
}

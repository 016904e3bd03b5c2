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
//! the caller can pace itself, check for interrupts and count tombstones. `search_partition` and
//! `search_row` are for callers that may end the scan among keys without rows: `search_row` makes at
//! most one short search, and `search_partition` two.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use ebb_model::key::{ByteRange, KeyError, Place, ROW, header_key, partition_prefix};
use ebb_model::schema::TableSchema;
use ebb_storage::Entry;

use super::entries::{EntryStep, SourceEntries};
use super::error::{Result, TableError};
use super::partition::{Partition, read_key};
use super::source::Source;
use super::stored_row::{RowStep, StoredRow};

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
    /// the partition. `None` if the scan goes on with `entries`.
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
    /// True if the scanned range contains the key of the header. If several ranges divide a
    /// partition, only one of them contains this key.
    pub header_in_range: bool,
}

/// A step of a scan to its next partition.
#[derive(Debug)]
pub enum PartitionStep {
    /// The next partition.
    Start(PartitionStart),
    /// No partition yet: a short search has passed keys that the reader does not see. The key is
    /// one behind which a later scan can continue, because all keys up to it were read or passed.
    /// It lies behind all partitions that the scan has returned. `None` if there is no such key
    /// yet, and always in a transaction.
    Passed(Option<Bytes>),
    /// The end of the range.
    Done,
}

impl<'s> RowScan<'s> {
    /// Opens a scan over the keys from `from` to before `to`. `from` is not below
    /// [`PARTITIONS_START`](ebb_model::key::PARTITIONS_START): the schema and the entries of indexes
    /// are no partitions.
    ///
    /// # Errors
    /// If the store cannot read the header before the range, or open the range.
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
        Ok(Self {
            source,
            schema,
            to,
            entries: source.entries(from, to)?,
            pending: None,
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
        match self.next_entry()? {
            Some(entry) => Ok(Some(self.begin_partition(entry)?)),
            None => Ok(None),
        }
    }

    /// Searches for the next partition in one short search (see [`EntryStep`]). If the scan has not
    /// reached the end of the current partition, another short search first looks for this end. If
    /// it does not find the end, the scan skips the rest of the partition.
    ///
    /// # Errors
    /// See [`RowScan::search_row`].
    pub fn search_partition(&mut self) -> Result<PartitionStep> {
        self.skip_rows()?;
        Ok(match self.search()? {
            EntryStep::Entry(entry) => PartitionStep::Start(self.begin_partition(entry)?),
            EntryStep::Passed(key) => PartitionStep::Passed(key),
            EntryStep::Done => PartitionStep::Done,
        })
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
        let entry = self.next_entry()?;
        self.row_of(entry)
    }

    /// Searches for the next row of the current partition, visible or not, in one short search (see
    /// [`EntryStep`]). Returns [`RowStep::Row`], [`RowStep::Passed`] (with a key of the partition, or
    /// `None`), or [`RowStep::Done`].
    ///
    /// # Errors
    /// If the store cannot read an entry, or if a key is damaged.
    #[inline]
    pub fn search_row(&mut self) -> Result<RowStep> {
        if !self.is_in_partition {
            return Ok(RowStep::Done);
        }
        let entry = match self.search()? {
            EntryStep::Entry(entry) => Some(entry),
            EntryStep::Passed(Some(key)) if !key.starts_with(&self.prefix) => {
                // All keys of the partition lie before this one.
                self.is_in_partition = false;
                return Ok(RowStep::Done);
            }
            EntryStep::Passed(key) => return Ok(RowStep::Passed(key)),
            EntryStep::Done => None,
        };
        Ok(self.row_of(entry)?.map_or(RowStep::Done, RowStep::Row))
    }

    /// Reads on until it finds a visible row of the current partition, which the caller passes as
    /// `partition`. Returns false if none of the rows that are left in it is visible.
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

    /// Makes the partition of `entry` the current one. The entry is the first one of the partition
    /// in the range.
    fn begin_partition(&mut self, (key, operand): Entry) -> Result<PartitionStart> {
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
        Ok(PartitionStart {
            key,
            header,
            header_in_range,
        })
    }

    /// Returns an entry as a row of the current partition. If the entry belongs to another partition, or is
    /// `None`, because the range has ended, ends the current partition and returns `None`.
    #[inline]
    fn row_of(&mut self, entry: Option<Entry>) -> Result<Option<StoredRow>> {
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

    /// Returns the next entry of the range.
    #[inline]
    fn next_entry(&mut self) -> Result<Option<Entry>> {
        match self.pending.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.entries.next().transpose(),
        }
    }

    /// Searches for the next entry of the range, in one short search.
    #[inline]
    fn search(&mut self) -> Result<EntryStep> {
        match self.pending.take() {
            Some(entry) => Ok(EntryStep::Entry(entry)),
            None => self.entries.search(),
        }
    }

    /// Skips the rows of the current partition that were not read.
    fn skip_rows(&mut self) -> Result<()> {
        // Many partitions end here, and opening the range again costs more than a short search.
        if matches!(self.search_row()?, RowStep::Done) {
            return Ok(());
        }
        self.is_in_partition = false;
        let behind = ByteRange::of_prefix(self.prefix.to_vec()).to;
        let behind = behind.filter(|behind| self.to.is_none_or(|to| behind[..] < *to));
        self.entries = match behind {
            Some(behind) => self.source.entries(&behind, self.to)?,
            // The range ends in the partition.
            None => Source::Memory(&[]).entries(&[], None)?,
        };
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

//! A table that CQL made, at a snapshot, as the input of a job.
//!
//! ```text
//!   SnapshotInput: splits, a reader ─> RowScan: partitions, rows ─> CqlText ─> key, value
//! ```
//!
//! A record is a row as a reader at the time of the snapshot sees it: without values that a
//! deletion hides or that had expired by then. So a job that starts again reads the same records.

#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::{ByteRange, PARTITIONS_START, Place, header_key};
use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_storage::Cache;
use ebb_tables::read::{Pace, Partition, RowScan, Source, TableError, Unpaced};

use self::text::Buffers;
pub use self::text::CqlText;
use super::snapshot::{Piece, SnapshotInput};
use super::task_pace::TaskPace;
use crate::error::of_table;

/// The rows of a CQL table, at a snapshot. For a split that begins inside a partition, the
/// partition's header (its deletions and static columns) is read in addition.
#[derive(Debug, Clone)]
pub struct CqlInput {
    /// The keys and the stored forms (operands) of the table's rows and of its partitions' headers
    /// (deletions and static columns). The schema and the index entries are left out: their keys
    /// sort before those of all partitions.
    table: SnapshotInput,
    text: Arc<CqlText>,
}

impl CqlInput {
    /// Creates an input of all rows of the CQL table `table`, as key and value in the form that
    /// `text` writes.
    pub fn new(table: SnapshotInput, text: CqlText) -> Self {
        // The schema and the entries of indexes come before the partitions.
        Self {
            table: table.within(PARTITIONS_START.to_vec(), None),
            text: Arc::new(text),
        }
    }

    fn source<'s>(&'s self, pace: &'s dyn Pace) -> Source<'s> {
        Source::Stored(self.table.reader(), Cache::Bypass, pace)
    }

    fn scan<'s>(
        &'s self,
        from: &[u8],
        to: Option<&'s [u8]>,
        pace: &'s dyn Pace,
    ) -> Result<RowScan<'s>, TableError> {
        RowScan::open(self.source(pace), self.text.schema(), from, to)
    }

    fn header(&self, prefix: &[u8]) -> Result<Option<Bytes>, TaskError> {
        let header = self.source(&Unpaced).get(&header_key(prefix));
        header.map_err(of_table)
    }

    /// Returns whether the partition whose keys begin with `prefix` has a visible row at or after
    /// the key `from`.
    fn has_row_from(
        &self,
        from: &[u8],
        partition: &Partition<'_>,
        prefix: &[u8],
        pace: &TaskPace<'_>,
    ) -> Result<bool, TableError> {
        let to = ByteRange::of_prefix(prefix.to_vec()).to;
        let mut rest = self.scan(from, to.as_deref(), pace)?;
        Ok(rest.next_partition()?.is_some() && rest.has_live_row(partition)?)
    }
}

impl Input for CqlInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        self.table.splits()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.read_with_checkpoints(split, record, &|| Ok(()))
    }

    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let piece = Piece::of(split)?;
        let to = piece.upper.as_deref();
        let pace = TaskPace::new(checkpoint);
        let mut scan = self.scan(&piece.lower, to, &pace).map_err(of_table)?;
        let mut buffers = Buffers::default();
        while let Some(start) = scan.next_partition().map_err(of_table)? {
            let key = self.text.read_key(&start.key)?;
            let header = start.header.as_deref();
            let projected = self.text.partition(key, header, &mut buffers, &pace)?;
            let partition = projected.partition();
            let mut had_rows = false;
            while let Some(row) = scan.next_row().map_err(of_table)? {
                let (clustering, operand) = (row.clustering(), &row.operand);
                if (self.text).write_row(&projected, clustering, operand, &mut buffers, &pace)? {
                    had_rows = true;
                    record(&buffers.key, &buffers.value)?;
                } else {
                    checkpoint()?;
                }
            }
            // A partition with static columns only counts as one row, of the split that has
            // the header.
            if !start.header_in_range || !partition.has_static_row(had_rows).map_err(of_table)? {
                continue;
            }
            let has_row_behind = match &piece.upper {
                Some(upper) if upper.starts_with(key.prefix) => {
                    self.has_row_from(upper, partition, key.prefix, &pace)
                }
                _ => Ok(false),
            };
            if !has_row_behind.map_err(of_table)? {
                self.text.write_statics(&mut buffers);
                record(&buffers.key, &buffers.value)?;
            }
        }
        Ok(())
    }

    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let pace = TaskPace::new(checkpoint);
        let mut buffers = Buffers::default();
        let mut header: Option<(Vec<u8>, Option<Bytes>)> = None;
        let mut visible = |key: &[u8], _: &[u8]| {
            let decoded = self.text.read_key(key)?;
            let Place::Row(clustering) = decoded.place else {
                return Ok(());
            };
            let of_partition = header.take_if(|(of, _)| of[..] == *decoded.prefix);
            let (_, header) = header.insert(match of_partition {
                Some(known) => known,
                None => (decoded.prefix.to_vec(), self.header(decoded.prefix)?),
            });
            // The operand of the sample is older than the header. So it is read again: see
            // the purge race in `ebb_tables::read`.
            let Some(operand) = self.source(&Unpaced).get(key).map_err(of_table)? else {
                return Ok(());
            };
            let partition = self
                .text
                .partition(decoded, header.as_deref(), &mut buffers, &pace)?;
            if (self.text).write_row(&partition, clustering, &operand, &mut buffers, &pace)? {
                record(&buffers.key, &buffers.value)
            } else {
                Ok(())
            }
        };
        self.table.sample(split, records, &mut visible, checkpoint)
    }
}

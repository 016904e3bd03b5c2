//! A table that CQL made, at a snapshot, as the input of a job.
//!
//! ```text
//!   SnapshotInput: splits, keys and operands ─> partitions ─> CqlText ─> key, value
//! ```
//!
//! A record is a row as its reader at the time of the snapshot sees it: under the deletions
//! of its partition, without what had expired. So a job that starts again reads the same.

#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::{DecodedKey, PARTITIONS_START, Place, header_key};
use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use ebb_storage::Entries;

pub use self::text::CqlText;
use self::text::{Buffers, PartitionText};
use super::snapshot::{Piece, SnapshotInput};
use crate::error::of_table;

/// The rows of a table that CQL made, as a snapshot has it. A split may begin inside of a
/// partition, whose header is fetched then.
#[derive(Debug, Clone)]
pub struct CqlInput {
    /// Its keys and operands, the schema left out where it cuts splits.
    table: SnapshotInput,
    text: Arc<CqlText>,
}

impl CqlInput {
    /// The rows of `table`, all of it, as `text` writes them.
    pub fn new(table: SnapshotInput, text: CqlText) -> Self {
        // After the schema and the entries of indexes.
        Self {
            table: table.within(PARTITIONS_START.to_vec(), None),
            text: Arc::new(text),
        }
    }

    fn header(&self, prefix: &[u8]) -> Result<Option<Bytes>, TaskError> {
        self.table.get(&header_key(prefix))
    }

    /// Whether a partition has a row from `from` on that is there.
    fn has_row_from(
        &self,
        from: Bytes,
        partition: &PartitionText<'_>,
        prefix: &[u8],
    ) -> Result<bool, TaskError> {
        let rest = Piece {
            lower: from,
            upper: None,
        };
        for entry in self.table.scan(&rest)? {
            let (key, operand) = entry.map_err(TaskError::failed)?;
            if !key.starts_with(prefix) {
                break;
            }
            let clustering = key.get(prefix.len() + 1..).unwrap_or_default();
            let row = partition.partition().row(clustering, &operand);
            if row.map_err(of_table)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes the rows of one partition to `record`, from the entry `row` to the end of the partition or
    /// of the split. `of` is any key of the partition. Returns the first entry after the partition, if
    /// the split has one.
    fn read_partition(
        &self,
        walk: &mut Walk<'_, '_>,
        of: DecodedKey<'_>,
        header: Option<Bytes>,
        mut row: Option<(Bytes, Bytes)>,
        begins_here: bool,
    ) -> Result<Option<(Bytes, Bytes)>, TaskError> {
        let prefix = of.prefix;
        let partition = self.text.partition(of, header.as_deref())?;
        let mut had_rows = false;
        while let Some((key, operand)) = row {
            if !key.starts_with(prefix) {
                row = Some((key, operand));
                break;
            }
            let clustering = key.get(prefix.len() + 1..).unwrap_or_default();
            if partition.write_row(clustering, &operand, &mut walk.buffers)? {
                had_rows = true;
                (walk.record)(&walk.buffers.key, &walk.buffers.value)?;
            }
            row = walk.next()?;
        }
        // Static columns without a row are a row, once, where the partition begins.
        let has_static_row = || partition.partition().has_static_row(had_rows);
        if begins_here && has_static_row().map_err(of_table)? {
            let elsewhere = match (&row, &walk.upper) {
                (None, Some(upper)) if upper.starts_with(prefix) => {
                    self.has_row_from(upper.clone(), &partition, prefix)?
                }
                _ => false,
            };
            if !elsewhere {
                partition.write_statics(&mut walk.buffers)?;
                (walk.record)(&walk.buffers.key, &walk.buffers.value)?;
            }
        }
        Ok(row)
    }
}

/// A walk over the entries of a split.
struct Walk<'e, 'r> {
    entries: Entries<'e>,
    /// Where the split ends.
    upper: Option<Bytes>,
    buffers: Buffers,
    record: RecordSink<'r>,
}

impl Walk<'_, '_> {
    fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, TaskError> {
        self.entries.next().transpose().map_err(TaskError::failed)
    }
}

impl Input for CqlInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        self.table.splits()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let piece = Piece::of(split);
        // Read before the iterator opens: see `ebb_tables::read`, the purge race. Only the first
        // partition may have begun before the split.
        let begun = match prefix_of(&piece.lower) {
            Some(prefix) => self.header(prefix)?.map(|header| (prefix.to_vec(), header)),
            None => None,
        };
        let mut walk = Walk {
            entries: self.table.scan(&piece)?,
            upper: piece.upper,
            buffers: Buffers::default(),
            record,
        };
        let mut pending = walk.next()?;
        while let Some((key, value)) = pending.take() {
            let decoded = self.text.read_key(&key)?;
            pending = match decoded.place {
                Place::Header => {
                    let row = walk.next()?;
                    self.read_partition(&mut walk, decoded, Some(value), row, true)?
                }
                Place::Row(_) => {
                    let begun = begun.as_ref().filter(|(of, _)| of[..] == *decoded.prefix);
                    let header = begun.map(|(_, header)| header.clone());
                    let row = Some((key.clone(), value));
                    self.read_partition(&mut walk, decoded, header, row, false)?
                }
            };
        }
        Ok(())
    }

    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let mut buffers = Buffers::default();
        let mut header: Option<(Vec<u8>, Option<Bytes>)> = None;
        self.table.sample(split, records, &mut |key, _| {
            let decoded = self.text.read_key(key)?;
            let Place::Row(clustering) = decoded.place else {
                return Ok(());
            };
            let of_partition = header.take_if(|(of, _)| of[..] == *decoded.prefix);
            let (_, header) = header.insert(match of_partition {
                Some(known) => known,
                None => (decoded.prefix.to_vec(), self.header(decoded.prefix)?),
            });
            // Not the operand that the walk brings: the header is newer. See `ebb_tables::read`,
            // the purge race.
            let Some(operand) = self.table.get(key)? else {
                return Ok(());
            };
            let partition = self.text.partition(decoded, header.as_deref())?;
            match partition.write_row(clustering, &operand, &mut buffers)? {
                true => record(&buffers.key, &buffers.value),
                false => Ok(()),
            }
        })
    }
}

/// What the keys of the partition begin with in which a split begins that begins with this
/// key; `None` where it begins before a partition.
fn prefix_of(lower: &[u8]) -> Option<&[u8]> {
    let length: [u8; 2] = lower.get(8..10)?.try_into().ok()?;
    lower.get(..10 + usize::from(u16::from_be_bytes(length)))
}

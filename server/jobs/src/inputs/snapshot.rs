//! A snapshot of a table, or of a range of its keys, as the input of a job.

mod sampler;

use std::mem;
use std::ops::Bound;

use bytes::Bytes;
use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_storage::{Cache, DetachedTable, SnapshotTable, TableReader};
use ebb_tables::read::{Pace, Source, SourceEntries, Unpaced};

use self::sampler::Sampler;
use super::SPLIT_BYTES_MIN;
use super::sample::places;
use super::task_pace::TaskPace;
use crate::error::of_table;

/// The least size on disk, in bytes, of a table whose splits are cut by the index of its files. If
/// a table is smaller, most of its data may be in memtables.
const INDEXED_BYTES_MIN: u64 = 4 << 20;

/// The rows of a table, keys and values, as they were when a snapshot was created.
///
/// The rows (all of them, or those in [`SnapshotInput::within`]) are cut into splits of about equal
/// size, at most as many as requested:
///
/// - If the SSTables hold at least a few MiB, their index blocks determine the splits, and no rows
///   are read. Rows in memtables are not counted then, so a split may be larger than the others by
///   the size of its rows in memtables.
/// - Otherwise, one scan at submission adds up the sizes of all rows, which are in memory or few. A
///   table of less than twice [`SPLIT_BYTES_MIN`] is one split.
///
/// Reads bypass the block cache.
#[derive(Debug, Clone)]
pub struct SnapshotInput {
    rows: Rows,
    keys: Piece,
    splits: usize,
}

/// The source of the rows.
#[derive(Debug, Clone)]
enum Rows {
    Snapshot(SnapshotTable),
    Detached(DetachedTable),
}

impl SnapshotInput {
    /// Creates an input of all rows of `table`, in at most `splits` splits, at least one.
    pub fn new(table: SnapshotTable, splits: usize) -> Self {
        Self {
            rows: Rows::Snapshot(table),
            keys: Piece::default(),
            splits: splits.max(1),
        }
    }

    /// Creates the input in a process without the database, which can read splits but not
    /// cut any.
    pub fn detached(table: DetachedTable) -> Self {
        Self {
            rows: Rows::Detached(table),
            keys: Piece::default(),
            splits: 1,
        }
    }

    /// Restricts the input to the keys from `from` (included) to `to` (excluded; `None` for no
    /// end).
    #[must_use]
    pub fn within(mut self, from: impl Into<Bytes>, to: Option<Bytes>) -> Self {
        self.keys = Piece {
            lower: from.into(),
            upper: to,
        };
        self
    }

    /// Returns the range of the input's keys.
    #[cfg(feature = "publish")]
    pub(super) fn keys(&self) -> &Piece {
        &self.keys
    }

    /// Returns the table as a reader that bypasses the block cache.
    pub(super) fn reader(&self) -> &dyn TableReader {
        match &self.rows {
            Rows::Snapshot(table) => table,
            Rows::Detached(table) => table,
        }
    }

    /// Opens the entries of a range of keys. Calls `pace` while the search passes keys without an
    /// entry, for example deleted ones.
    fn scan<'s>(
        &'s self,
        piece: &Piece,
        pace: &'s dyn Pace,
    ) -> Result<SourceEntries<'s>, TaskError> {
        let source = Source::Stored(self.reader(), Cache::Bypass, pace);
        let entries = source.entries(&piece.lower, piece.upper.as_deref());
        entries.map_err(of_table)
    }

    /// Cuts the keys of the input into ranges. Returns the first keys of all ranges but the first,
    /// ascending, and the number of bytes of all ranges together.
    fn cut(&self, table: &SnapshotTable) -> Result<(Vec<Bytes>, u64), TaskError> {
        let keys = self.keys.bounds();
        let indexed_bytes = table.approximate_bytes::<&[u8], _>(keys);
        if indexed_bytes >= INDEXED_BYTES_MIN {
            let cuts = table.split_keys::<&[u8], _>(keys, self.splits);
            return Ok((cuts, indexed_bytes));
        }
        let mut sampler = Sampler::default();
        for row in self.scan(&self.keys, &Unpaced)? {
            let (key, value) = row.map_err(of_table)?;
            let bytes = (key.len() + value.len()) as u64;
            sampler.add(key, bytes);
        }
        let parts_max = (sampler.total_bytes / SPLIT_BYTES_MIN).max(1);
        let parts = parts_max.min(self.splits as u64);
        Ok((sampler.cut(parts), sampler.total_bytes))
    }
}

impl Input for SnapshotInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let Rows::Snapshot(table) = &self.rows else {
            let text = "a table without its database cannot be cut into splits";
            return Err(TaskError::failed(text));
        };
        let (keys, bytes) = self.cut(table)?;
        let parts = keys.len() as u64 + 1;
        let split = |(index, piece): (u32, Piece)| Split {
            index,
            bytes: bytes / parts,
            payload: piece.encode(),
            ..Split::default()
        };
        let pieces = self.keys.clone().cut_at(keys);
        Ok((0..).zip(pieces).map(split).collect())
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
        let pace = TaskPace::new(checkpoint);
        for row in self.scan(&piece, &pace)? {
            let (key, value) = row.map_err(of_table)?;
            record(&key, &value)?;
        }
        Ok(())
    }

    /// Reads the first rows at each of several keys of the split's range. The index of the files
    /// yields these keys, at even distances. If the index covers too little, because the data is in
    /// memory, reads the whole range and takes rows at even distances.
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let piece = Piece::of(split)?;
        let pace = TaskPace::new(checkpoint);
        let places = places(records);
        let cuts = match &self.rows {
            Rows::Snapshot(table) => table.split_keys::<&[u8], _>(piece.bounds(), places),
            Rows::Detached(table) => table.split_keys::<&[u8], _>(piece.bounds(), places),
        };
        if 2 * (cuts.len() + 1) < places {
            let distance_bytes = split.bytes / records.max(1) as u64;
            return self.sample_evenly(&piece, distance_bytes, record, &pace);
        }
        let per_place = records.div_ceil(cuts.len() + 1);
        for place in piece.cut_at(cuts) {
            for row in self.scan(&place, &pace)?.take(per_place) {
                let (key, value) = row.map_err(of_table)?;
                record(&key, &value)?;
            }
        }
        Ok(())
    }
}

impl SnapshotInput {
    /// Passes rows of the key range `piece` to `record`, about one for every `distance_bytes` bytes
    /// of rows.
    fn sample_evenly(
        &self,
        piece: &Piece,
        distance_bytes: u64,
        record: RecordSink<'_>,
        pace: &TaskPace<'_>,
    ) -> Result<(), TaskError> {
        let (mut bytes, mut next) = (0, 0);
        for row in self.scan(piece, pace)? {
            let (key, value) = row.map_err(of_table)?;
            if bytes >= next {
                record(&key, &value)?;
                next += distance_bytes;
            }
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }
}

/// A range of keys, which the payload of a split has in this form:
///
/// ```text
///   1 if there is an upper end, else 0 | length of lower, u32 LE | lower | upper
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first key of the range, included.
    pub(super) lower: Bytes,
    /// The end of the range, excluded; `None` for no end.
    pub(super) upper: Option<Bytes>,
}

impl Piece {
    /// Decodes the range of keys of a split of [`SnapshotInput`].
    ///
    /// # Errors
    /// If [`Piece::encode`] did not write the payload.
    pub(super) fn of(split: &Split) -> Result<Self, TaskError> {
        let damaged = || TaskError::fatal("a split that names no range of keys");
        Self::decode(&split.payload).ok_or_else(damaged)
    }

    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let upper = self.upper.as_deref();
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(&self.lower[..]), upper)
    }

    /// Cuts the range at `keys`, which must lie in it and ascend. Each piece but the first begins
    /// with one of these keys.
    pub(super) fn cut_at(self, keys: Vec<Bytes>) -> impl Iterator<Item = Self> {
        let Self { mut lower, upper } = self;
        let uppers = keys.into_iter().map(Some).chain([upper]);
        uppers.map(move |upper| Self {
            lower: mem::replace(&mut lower, upper.clone().unwrap_or_default()),
            upper,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = vec![u8::from(self.upper.is_some())];
        payload.extend_from_slice(&(self.lower.len() as u32).to_le_bytes());
        payload.extend_from_slice(&self.lower);
        payload.extend_from_slice(self.upper.as_deref().unwrap_or_default());
        payload
    }

    /// Decodes a payload; `None` for bytes that [`Piece::encode`] did not write.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (has_upper, rest) = payload.split_first()?;
        let (length, keys) = rest.split_first_chunk::<4>()?;
        let (lower, upper) = keys.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Self {
            lower: Bytes::copy_from_slice(lower),
            upper: (*has_upper == 1).then(|| Bytes::copy_from_slice(upper)),
        })
    }
}

#[cfg(test)]
mod tests;

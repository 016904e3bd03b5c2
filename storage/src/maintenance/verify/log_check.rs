//! The commits of the log, held against the manifest's state.

use bytes::Bytes;

use crate::commit::{Op, OpReader};
use crate::key::{SeqNo, TableId};
use crate::manifest::State;
use crate::runs::RunMeta;
use crate::snapshots::Bookmarks;

/// The contents of the log, as far as it has been read.
#[derive(Debug)]
pub(super) struct LogCheck<'a> {
    /// The state of the manifest; `None` if the manifest is not readable.
    state: Option<&'a State>,
    last_seq: SeqNo,
    /// The snapshots that exist after the commits that have been read.
    pub(super) bookmarks: Bookmarks,
    /// Ingested runs that only the log names.
    pub(super) waiting: Vec<(TableId, RunMeta)>,
}

impl<'a> LogCheck<'a> {
    pub(super) fn new(state: Option<&'a State>) -> Self {
        Self {
            state,
            last_seq: SeqNo::ZERO,
            bookmarks: state.map_or_else(Bookmarks::default, |state| state.bookmarks.clone()),
            waiting: Vec::new(),
        }
    }

    /// Checks the next commit: `count` operations in `ops`, numbered from
    /// `first` on. The error describes what no valid commit contains.
    pub(super) fn commit(&mut self, first: SeqNo, count: u32, ops: Bytes) -> Result<(), String> {
        if first <= self.last_seq {
            return Err(format!("sequence number {first} after {}", self.last_seq));
        }
        let mut operations = 0;
        for item in OpReader::new(&ops, first) {
            let (seq, op) = item?;
            self.op(seq, op)?;
            self.last_seq = seq;
            operations += 1;
        }
        if operations != count {
            return Err(format!(
                "{operations} operations where {count} are announced"
            ));
        }
        Ok(())
    }

    fn op(&mut self, seq: SeqNo, op: Op<'_>) -> Result<(), String> {
        let Some(state) = self.state else {
            return Ok(());
        };
        // A lower id without a table is of a table that was dropped since.
        if let Some(unknown) = table_of(&op).filter(|table| *table > state.last_table_id) {
            return Err(format!("no table {}", unknown.0));
        }
        let is_news = seq > self.bookmarks.as_of;
        match op {
            Op::Ingest { table, run } => {
                let meta = state.tables.get(&table);
                if meta.is_some_and(|meta| seq > meta.flushed_seq) {
                    self.waiting.push((table, run.ingested_by(seq)));
                }
            }
            Op::SnapshotCreate(record) if is_news => {
                self.bookmarks.add(seq, record);
            }
            Op::SnapshotDelete(id) if is_news => {
                self.bookmarks.remove(seq, id);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the table that must exist before an operation, because the operation names it; `None`
/// for an operation that names no table.
pub(crate) fn table_of(op: &Op<'_>) -> Option<TableId> {
    match op {
        Op::Write { table, .. } | Op::RangeDelete { table, .. } | Op::Ingest { table, .. } => {
            Some(*table)
        }
        Op::SnapshotCreate(record) => record.table.as_ref().map(|only| only.id),
        Op::SnapshotDelete(_) | Op::SnapshotExpiry(_) => None,
    }
}

//! The commits of the log, held against the manifest's state.

use std::collections::HashMap;

use crate::commit::{Op, OpReader};
use crate::key::{SeqNo, TableId};
use crate::manifest::State;
use crate::runs::RunMeta;
use crate::snapshots::{Bookmarks, SnapshotOp};
use crate::wal::Lsn;

/// The state of a check of the log, after the part of the log that has been read.
#[derive(Debug)]
pub(crate) struct LogCheck {
    /// The largest id that a table ever had; `None` if the manifest is not readable.
    last_table_id: Option<TableId>,
    /// For each table, the sequence number up to which its runs have all writes.
    flushed_seqs: HashMap<TableId, SeqNo>,
    last_seq: SeqNo,
    /// The position at which the segment that was checked last ended; `None` before the first
    /// segment, and after a damaged one.
    pub(super) end: Option<Lsn>,
    /// The snapshots and holds that exist after the commits that have been read.
    pub(super) bookmarks: Bookmarks,
    /// Ingested runs that the log names, and the manifest does not.
    pub(super) waiting: Vec<(TableId, RunMeta)>,
}

impl LogCheck {
    /// Returns the check of a log of which nothing has been read. `state` is the state of the
    /// manifest; `None` if the manifest is not readable.
    pub(crate) fn new(state: Option<&State>) -> Self {
        let tables = state.map(|state| &state.tables).into_iter().flatten();
        Self {
            last_table_id: state.map(|state| state.last_table_id),
            flushed_seqs: tables.map(|(id, table)| (*id, table.flushed_seq)).collect(),
            last_seq: SeqNo::ZERO,
            end: None,
            bookmarks: state.map_or_else(Bookmarks::default, |state| state.bookmarks.clone()),
            waiting: Vec::new(),
        }
    }

    /// Checks the next commit: `count` operations in `ops`, numbered from
    /// `first` on. The error describes what no valid commit contains.
    pub(super) fn commit(&mut self, first: SeqNo, count: u32, ops: &[u8]) -> Result<(), String> {
        if first <= self.last_seq {
            return Err(format!("sequence number {first} after {}", self.last_seq));
        }
        let mut operations = 0;
        for item in OpReader::new(ops, first) {
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
        let Some(last_table_id) = self.last_table_id else {
            return Ok(());
        };
        // A lower id without a table is of a table that was dropped since.
        if let Some(unknown) = table_of(&op).filter(|table| *table > last_table_id) {
            return Err(format!("no table {}", unknown.0));
        }
        match op {
            Op::Ingest { table, run } => {
                let flushed_seq = self.flushed_seqs.get(&table);
                if flushed_seq.is_some_and(|flushed_seq| seq > *flushed_seq) {
                    self.waiting.push((table, run.ingested_by(seq)));
                }
            }
            Op::Snapshot(op) if seq > self.bookmarks.as_of => self.bookmarks.apply(seq, op),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the table that an operation names, which must have been created before; `None` for an
/// operation that names no table.
pub(crate) fn table_of(op: &Op<'_>) -> Option<TableId> {
    match op {
        Op::Write { table, .. } | Op::RangeDelete { table, .. } | Op::Ingest { table, .. } => {
            Some(*table)
        }
        Op::Snapshot(SnapshotOp::Create(record)) => record.table.as_ref().map(|only| only.id),
        Op::Snapshot(_) => None,
    }
}

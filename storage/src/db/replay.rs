//! Replaying the WAL into memtables and bookmarks.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{Catalog, TableCore};
use crate::commit::{Op, OpReader};
use crate::error::{Error, Result};
use crate::key::{FileNumber, SeqNo, TableId};
use crate::log_store::LogStore;
use crate::manifest::State;
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::runs::RunStore;
use crate::snapshots::{SnapshotOp, SnapshotRegistry};
use crate::wal::{self, Lsn, Segment};

/// The WAL after a replay: its last sequence number, its segments, and its end.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// The sequence number of the last operation in the log; 0 for an empty log.
    pub(super) last_seq: SeqNo,
    /// The segments of the log that stay, ascending: the number and the size in bytes of each.
    pub(super) segments: Vec<(FileNumber, u64)>,
    /// The position at which the log ends.
    pub(super) end: Lsn,
    /// The last segment of the log, with the number of bytes before a torn tail; `None` if there is
    /// no segment.
    last: Option<(Segment, u64)>,
}

impl Recovered {
    /// Makes the replayed part of the log durable, and cuts off a torn tail. Removes the last
    /// segment if not even its header is whole. But if this segment is `floor`, the first one that
    /// the manifest needs, replaces it by an empty segment: without one, the next opening would
    /// report a missing segment. If there is no space for that, the first write makes the segment.
    pub(super) fn settle(
        &mut self,
        log_store: &dyn LogStore,
        dir: &Path,
        floor: FileNumber,
    ) -> Result<()> {
        match &self.last {
            None => Ok(()),
            // A database that never removed a segment may have none.
            Some((segment, 0)) if segment.number == floor && floor > FileNumber::default() => {
                match wal::create_segment(log_store, dir, floor, self.end) {
                    Ok(_) => {
                        let bytes = wal::SEGMENT_HEADER_BYTES as u64;
                        self.segments.push((floor, bytes));
                    }
                    // A full disk must not keep a database from being read.
                    Err(Error::DiskFull { .. }) => {}
                    Err(e) => return Err(e),
                }
                Ok(())
            }
            Some((segment, 0)) => log_store
                .remove(&segment.path)
                .map_err(Error::no_space_or_io("remove", &segment.path)),
            Some((segment, good_bytes)) => mutation::unless(Mutation::LeaveTornTail, || {
                wal::settle(log_store, dir, &segment.path, *good_bytes)
            }),
        }
    }
}

/// Replays the operations that are not yet in the manifest into the tables of `catalog` and into
/// `snapshots`. Writes nothing.
pub(super) fn replay_wal(
    log_store: &dyn LogStore,
    dir: &Path,
    state: &State,
    catalog: &Catalog,
    snapshots: &SnapshotRegistry,
    memtable_bytes: usize,
    runs: &RunStore,
) -> Result<Recovered> {
    let segments = wal::segments(log_store, dir, state.wal_segments())?;
    let tables = catalog.tables().map(|table| {
        (
            table.id,
            (table.clone(), state.tables[&table.id].flushed_seq),
        )
    });
    let mut replay = Replay {
        tables: tables.collect(),
        bookmarks_as_of: state.bookmarks.as_of,
        last_table_id: state.last_table_id,
        snapshots,
        memtable_bytes,
        runs,
        touched: HashSet::new(),
        failed: None,
        recovered: Recovered::default(),
    };
    // Only the last segment may have a torn tail: the log syncs a segment before it begins the next
    // one. Each segment must begin where the one before it ended, so that none is missing.
    for (i, segment) in segments.iter().enumerate() {
        let is_last = i + 1 == segments.len();
        let base = (i > 0).then_some(replay.recovered.end);
        let replayed = wal::replay_segment(
            log_store,
            segment,
            is_last,
            base,
            |first, count, payload, offset| {
                // `failed` is the error of an ingested run that does not open. It names the file of
                // the run; the segment is not damaged then.
                if let Err(detail) = replay.commit(first, count, payload) {
                    let damaged = || Error::corruption(&segment.path, offset, detail);
                    return Err(replay.failed.take().unwrap_or_else(damaged));
                }
                replay.note_segment(segment);
                Ok(())
            },
        )?;
        replay.recovered.end = replayed.end;
        let good_bytes = replayed.good_bytes;
        if is_last {
            replay.recovered.last = Some((segment.clone(), good_bytes));
        }
        // `Recovered::settle` removes or replaces a segment without a whole header.
        if good_bytes > 0 {
            let segments = &mut replay.recovered.segments;
            segments.push((segment.number, good_bytes));
        }
    }
    Ok(replay.recovered)
}

struct Replay<'a> {
    /// The tables, each with the sequence number up to which its runs have all writes.
    tables: HashMap<TableId, (Arc<TableCore>, SeqNo)>,
    /// The sequence number up to which the manifest has the operations on snapshots. Newer ones are
    /// replayed.
    bookmarks_as_of: SeqNo,
    /// The largest id that a table ever had. An id up to this one that no table has is that of a
    /// removed table.
    last_table_id: TableId,
    snapshots: &'a SnapshotRegistry,
    memtable_bytes: usize,
    runs: &'a RunStore,
    /// The tables to which the commit that is being replayed writes.
    touched: HashSet<TableId>,
    /// The error of opening an ingested run; `None` until one does not open.
    failed: Option<Error>,
    recovered: Recovered,
}

impl Replay<'_> {
    fn commit(&mut self, first: SeqNo, count: u32, payload: Bytes) -> Result<(), String> {
        let last = self.recovered.last_seq;
        if first <= last {
            return Err(format!("sequence number {first} after {last}"));
        }
        let mut operations = 0;
        for item in OpReader::new(&payload, first) {
            let (seq, op) = item?;
            if operations == 0 || !mutation::is(Mutation::ReplayHalfABatch) {
                self.apply(seq, op)?;
            }
            self.recovered.last_seq = seq;
            operations += 1;
        }
        if operations != count {
            return Err(format!(
                "{operations} operations where {count} are announced"
            ));
        }
        Ok(())
    }

    fn apply(&mut self, seq: SeqNo, op: Op<'_>) -> Result<(), String> {
        // Also if the write is flushed already: `note_segment` skips memtables without entries.
        if let Op::Write { table, .. } | Op::RangeDelete { table, .. } | Op::Ingest { table, .. } =
            &op
        {
            self.touched.insert(*table);
        }
        match op {
            Op::Write {
                table,
                kind,
                key,
                value,
            } => {
                if let Some(core) = self.unflushed(table, seq)? {
                    core.peek().memtable.insert(key, seq, kind, value);
                }
            }
            Op::RangeDelete { table, range } => {
                if let Some(core) = self.unflushed(table, seq)? {
                    core.peek().memtable.delete_range(&range, seq);
                }
            }
            // Not by `unflushed`, whose result would keep `self.failed` from being set.
            Op::Ingest { table, run } => match self.tables.get(&table) {
                // The manifest has the run already.
                Some((_, flushed_seq)) if seq <= *flushed_seq => {}
                Some((core, _)) => {
                    // The manifest cannot record damage of a file that it does not name yet.
                    let run = self
                        .runs
                        .open_run(&run.ingested_by(seq), |_, _| ())
                        .map_err(|e| {
                            let detail = format!("an ingested run that does not open: {e}");
                            self.failed = Some(e);
                            detail
                        })?;
                    let layer = Arc::new(Memtable::of_run(run, seq));
                    core.update(|version| Some(version.ingested(&layer)));
                }
                // The table was dropped after the commit.
                None if table <= self.last_table_id => {}
                None => return Err(format!("no table {}", table.0)),
            },
            Op::Snapshot(op) => {
                // The manifest has the operations up to `bookmarks_as_of` already.
                let is_news =
                    seq > self.bookmarks_as_of || mutation::is(Mutation::ReplayKnownBookmarks);
                let is_renewal = matches!(op, SnapshotOp::Expiry(_));
                if is_news && !(is_renewal && mutation::is(Mutation::ForgetRenewals)) {
                    self.snapshots.apply(seq, op);
                }
            }
        }
        Ok(())
    }

    /// Returns the table to which the write numbered `seq` must be applied; `None` if the table was
    /// dropped, or its runs already have the write. A table that never existed is an error.
    fn unflushed(&self, table: TableId, seq: SeqNo) -> Result<Option<&TableCore>, String> {
        match self.tables.get(&table) {
            Some((core, flushed_seq)) => Ok((seq > *flushed_seq).then_some(&**core)),
            // The table was dropped after this write.
            None if table <= self.last_table_id => Ok(None),
            // A table is in the manifest before the first write to it.
            None => Err(format!("no table {}", table.0)),
        }
    }

    /// Called after each replayed commit: notes that its memtables need the WAL segment of its
    /// record, and freezes full ones.
    fn note_segment(&mut self, segment: &Segment) {
        for id in self.touched.drain() {
            let Some((table, _)) = self.tables.get(&id) else {
                continue;
            };
            let version = table.version();
            if version.memtable.len() > 0 {
                version.memtable.note_segment(segment.number);
            }
            // Sets it for a run that this commit ingested.
            if let Some(layer) = version.frozen.first().filter(|layer| layer.run().is_some()) {
                layer.note_segment(segment.number);
            }
            if version.memtable.bytes() >= self.memtable_bytes {
                table.update(|version| version.rotated(self.recovered.last_seq));
            }
        }
    }
}

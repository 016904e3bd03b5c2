//! Truncations, which give their space back on a full disk, too.
//!
//! A truncation is a range tombstone over all keys. The runs below it are dropped, unread, once a
//! flush has written it. On a full disk:
//!
//! - the commit may use the reserve, and is admitted though flushes or merges find no space;
//! - the memtable of the truncation is frozen at once;
//! - flushes of older memtables leave out what the truncation hides (see `flush`);
//! - after a round of flushes that found no space, truncated tables are flushed by themselves,
//!   and these flushes may use the reserve, too.

use std::sync::Arc;

use super::flush::{install, write_oldest};
use super::{Engine, TableCore};
use crate::commit::{Op, OpReader, Payload};
use crate::error::{ErrorKind, Result};
use crate::key::{KeyRange, SeqNo, TableId};
use crate::memtable::Memtable;
use crate::meter::RequestKind;
use crate::mutation::{self, Mutation};
use crate::options::WriteOptions;

/// While flushes find no space, a table with this many frozen memtables refuses truncations: each
/// truncation adds a frozen memtable, and readers look into all of them.
const FROZEN_MAX: usize = 64;

impl Engine {
    /// Commits writes even on a full disk, on which other writes are refused. Callers use this for
    /// truncations, and for writes without which space cannot be freed later. Tables that these
    /// writes truncate are flushed soon.
    ///
    /// # Errors
    /// `DiskFull` if there is no space even so, or if flushes or merges find no space and one of
    /// the tables has [`FROZEN_MAX`] frozen memtables; the other errors of a write.
    pub(crate) fn write_freeing(
        &self,
        payload: Payload,
        tables: &[Arc<TableCore>],
        options: WriteOptions,
    ) -> Result<()> {
        if payload.len() == 0 {
            return payload.finish(0).map(drop);
        }
        self.check_access()?;
        let begun = self.metering.begin();
        let encoded = payload.finish(self.now_ms())?;
        let has_room = |table: &Arc<TableCore>| table.peek().frozen.len() < FROZEN_MAX;
        match self.admit_write(tables, encoded.0.len()) {
            // This write may be what makes the flush or the merge fit.
            Err(e) if e.kind() == ErrorKind::DiskFull && tables.iter().all(has_room) => {}
            admitted => admitted?,
        }
        self.with_reserve(|| self.commit(encoded.clone(), tables, options, |_| Ok(())))?;
        self.metering.end(RequestKind::Write, begun, 0);
        if !mutation::is(Mutation::TruncateWithoutFlush) {
            let truncated = tables.iter().filter(|of| truncates(&encoded.0, of.id));
            truncated.for_each(|table| self.flush_soon(table));
        }
        Ok(())
    }

    /// Flushes the truncated tables whose runs can then be dropped. Called after a round of flushes
    /// that found no space, while the lock `flushing` is held. A table whose flush finds no space
    /// even so waits for the next round.
    pub(super) fn flush_truncated(&self) -> Result<()> {
        for table in self.tables() {
            match self.with_reserve(|| self.flush_up_to_truncation(&table)) {
                Err(e) if e.kind() == ErrorKind::DiskFull => {}
                flushed => flushed?,
            }
        }
        Ok(())
    }

    /// Flushes memtables of a table, oldest first, as long as a truncation in one of them hides a
    /// run from all readers: once it is flushed, the run can be dropped. The truncation hides the
    /// content of older memtables, too, so these flushes write little.
    fn flush_up_to_truncation(&self, table: &Arc<TableCore>) -> Result<()> {
        while self.hides_run(table)
            && let Some(written) = write_oldest(self, table)?
        {
            let written = [written];
            install(self, &written)?;
            // A dropped table keeps its memtable.
            if !written[0].is_seen() {
                break;
            }
            drop(written);
            self.add_up_memtables();
            self.write_stall.work_ended();
            self.signal.compact();
        }
        Ok(())
    }

    /// Returns whether a truncation in a frozen memtable hides a run of the table from all readers,
    /// so that flushing it allows the run to be dropped.
    fn hides_run(&self, table: &TableCore) -> bool {
        let version = table.version();
        let Some(truncation) = first_truncation(&version.frozen) else {
            return false;
        };
        let boundaries = self.boundaries(table);
        let truncated = boundaries.stripe(truncation);
        let mut runs = version.runs.iter().map(|run| run.meta().smallest_seq);
        runs.any(|smallest| boundaries.stripe(smallest) == truncated)
    }
}

/// Returns the sequence number of the oldest truncation in these memtables; `None` if they have
/// none.
///
/// Callers need no later truncation to find the data from before these memtables that is hidden
/// from all readers. A truncation hides such data from all readers if no boundary (a commit at
/// which readers read) lies between the data and the truncation. Any boundary before the oldest
/// truncation is also before the later ones.
pub(super) fn first_truncation<'a>(
    memtables: impl IntoIterator<Item = &'a Arc<Memtable>>,
) -> Option<SeqNo> {
    let first_of = |memtable: &Arc<Memtable>| {
        let tombstones = memtable.range_tombstones()?;
        let all = tombstones.iter().filter(|of| of.range == KeyRange::all());
        all.map(|tombstone| tombstone.seq).min()
    };
    memtables.into_iter().filter_map(first_of).min()
}

/// Returns whether encoded operations truncate a table: one of them is a range delete over all
/// keys.
fn truncates(payload: &[u8], table: TableId) -> bool {
    OpReader::new(payload, SeqNo::ZERO).any(|item| match item {
        Ok((_, Op::RangeDelete { table: of, range })) => of == table && range == KeyRange::all(),
        _ => false,
    })
}

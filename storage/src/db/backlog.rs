//! The pressure on writers from unfinished background work: the backlogs of tables, as a writer to
//! them sees them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::background::Work;
use super::write_stall::{Admission, Backlog};
use super::write_throttling::{
    Limit, RUNS, cost_bytes, memtable_level, memtable_limit, throttle_wait_max,
};
use super::{Engine, TableCore};
use crate::db::choose::wants_compaction;
use crate::error::{Error, Result};
use crate::mutation::{self, Mutation};
use crate::options::Maintenance;
use crate::version::TableVersion;

/// The limit on saved tokens is 1 / `TOKENS_MAX_FRACTION` of the bytes of a full memtable, so that
/// tokens from a quiet time do not let a long burst of writes pass. Throttled writers spend tokens
/// for the bytes that they write, and each flushed or merged byte brings one token.
pub(super) const TOKENS_MAX_FRACTION: usize = 8;

/// The longest time that a merge waits, after each chunk, for writes and syncs of the log. A merge
/// that reads from memory needs about as long for a chunk, so the waits at most double its time.
const YIELD_MAX: Duration = Duration::from_millis(2);

/// A write of `bytes` to these tables, which may have to wait for background work.
struct Write<'a> {
    engine: &'a Engine,
    tables: &'a [Arc<TableCore>],
    bytes: usize,
    /// The kinds of work that the last call of `look` found unfinished.
    behind: Cell<Behind>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Behind {
    flush: bool,
    compaction: bool,
}

impl Backlog for Write<'_> {
    /// Decides by the largest of the backlogs whether the write goes on, is throttled or stalls. A
    /// backlog whose flush or merge finds no space on the disk does not throttle the write: a
    /// throttled write waits for tokens, which only flushes and merges bring. At its hard limit
    /// such a backlog makes the write fail, because the write might wait for ever.
    ///
    /// # Errors
    /// `DiskFull` from such a backlog; `ReadOnly` if there is any backlog and the log has failed.
    fn look(&self) -> Result<Admission> {
        let mut worst = 0.0_f64;
        let mut behind = Behind::default();
        let mut weigh = |(work, pressure): (Work, f64)| -> Result<()> {
            if pressure == 0.0 {
                return Ok(());
            }
            match work {
                Work::Flush => behind.flush = true,
                Work::Compaction => behind.compaction = true,
            }
            if let Some(cause) = self.engine.wal.failure() {
                return Err(Error::ReadOnly { cause });
            }
            match self.engine.starved(work) {
                Some(starved) if pressure >= 1.0 => return Err(starved),
                Some(_) => {}
                None => worst = worst.max(pressure),
            }
            Ok(())
        };
        weigh((Work::Flush, self.engine.shared_pressure()))?;
        for table in self.tables {
            self.engine
                .pressures(table)
                .into_iter()
                .try_for_each(&mut weigh)?;
        }
        self.behind.set(behind);
        Ok(if worst >= 1.0 {
            Admission::Stalled
        } else {
            match cost_bytes(self.bytes, worst) {
                0 => Admission::Free,
                cost => Admission::Throttled(cost),
            }
        })
    }

    fn ask(&self) {
        let behind = self.behind.get();
        if behind.flush {
            // Another thread may have failed to flush.
            self.engine.signal.flush();
        }
        if behind.compaction {
            // A new snapshot may just have made the merge worth it.
            self.engine.signal.compact();
        }
    }

    fn throttle_wait_max(&self) -> Duration {
        throttle_wait_max(self.bytes)
    }

    fn waits(&self, admission: Admission) {
        let counters = &self.engine.counters;
        match admission {
            Admission::Stalled => counters.stalls.add(1),
            _ => counters.throttles.add(1),
        }
    }
}

impl Engine {
    /// Holds up a write of `bytes` to these tables while too much background work is unfinished: on
    /// one of these tables, or on the memtables and the log of all tables. Under
    /// [`Maintenance::Manual`], which has no background threads, the write does not wait: if the
    /// last flush found no space and the memtables are at a limit, the write flushes them itself.
    ///
    /// # Errors
    /// `DiskFull` if that work finds no space, `LowSpace` if the write would leave too little free
    /// space, `ReadOnly` if the write would be held up and writes have stopped; the error of the
    /// flush under [`Maintenance::Manual`].
    pub(super) fn admit_write(&self, tables: &[Arc<TableCore>], bytes: usize) -> Result<()> {
        self.check_space(bytes)?;
        if self.options.maintenance == Maintenance::Manual {
            let too_many = |table: &Arc<TableCore>| {
                memtable_pressure(self.options.frozen_memtables_max, &table.peek(), 0) >= 1.0
            };
            let is_too_much = || self.memory_pressure() >= 1.0 || tables.iter().any(too_many);
            if self.starved(Work::Flush).is_some() && is_too_much() {
                // No other thread tries again, and memtables must not grow for ever.
                self.flush_frozen()?;
            }
            return Ok(());
        }
        let waits = self.write_stall.admit(&Write {
            engine: self,
            tables,
            bytes,
            behind: Cell::default(),
        })?;
        if let Some(waited) = waits.stalled {
            self.counters.stall_us.add(waited.as_micros() as u64);
            self.counters.stall_us_max.raise(waited.as_micros() as u64);
        }
        if let Some(waited) = waits.throttled {
            self.counters.throttle_us.add(waited.as_micros() as u64);
        }
        if let Some(waited) = waits.total() {
            self.counters
                .write_wait_us_max
                .raise(waited.as_micros() as u64);
        }
        Ok(())
    }

    /// Returns the pressure of the memtables and the log of all tables on all writers, from 0
    /// (none) to 1 (writers wait until some work is done). Below their limits this costs two atomic
    /// loads.
    pub(super) fn shared_pressure(&self) -> f64 {
        self.memory_pressure().max(self.wal_pressure())
    }

    /// Returns the pressure of the log on all writers, from 0 to 1: see
    /// [`Engine::shared_pressure`]. It is 0 if no flush could shorten the log, because a backup
    /// holds the segments, or there is none but the newest one.
    fn wal_pressure(&self) -> f64 {
        let hard = self.options.wal_bytes_max as f64;
        let limit = Limit {
            soft: hard / 8.0 * 7.0,
            hard,
        };
        let pressure = limit.pressure(self.wal.bytes() as f64);
        let can_shrink = || self.wal.has_free_below(self.wal.newest_segment());
        if pressure > 0.0 && can_shrink() && !mutation::is(Mutation::LogBeyondBound) {
            pressure
        } else {
            0.0
        }
    }

    /// Returns the pressure of each kind of unfinished work on the writers of a table, from 0 to 1.
    /// Without unfinished work this costs one or two atomic loads.
    fn pressures(&self, table: &TableCore) -> [(Work, f64); 2] {
        let version = table.peek();
        let memtables = memtable_pressure(
            self.options.frozen_memtables_max,
            &version,
            self.options.memtable_bytes,
        );
        let mut runs = RUNS.pressure(version.runs.len() as f64);
        if runs > 0.0 {
            let left_out = table.left_out.all();
            runs = RUNS.pressure(version.mergeable_runs(&left_out) as f64);
        }
        drop(version);
        let pressures = [(Work::Flush, memtables), (Work::Compaction, runs)];
        if memtables == 0.0 && runs == 0.0 {
            return pressures;
        }
        // No thread works on a dropped table; the commit refuses the write.
        if table.is_dropped() {
            return [(Work::Flush, 0.0), (Work::Compaction, 0.0)];
        }
        if runs > 0.0 && !self.has_merges(table) {
            // Snapshots may hold any number of runs apart.
            return [(Work::Flush, memtables), (Work::Compaction, 0.0)];
        }
        pressures
    }

    /// Returns the pressure of a table's own unfinished work on its writers, from 0 (none) to 1
    /// (writers wait until some is done).
    pub(crate) fn pressure(&self, table: &TableCore) -> f64 {
        let pressures = self.pressures(table).into_iter();
        pressures.map(|(_, pressure)| pressure).fold(0.0, f64::max)
    }

    /// Called by a merge between two chunks, with the bytes of keys and values of the last one.
    /// Adds them to the tokens of throttled writers, and waits briefly for a busy log if no writer
    /// is throttled. Returns when the merge may go on.
    pub(crate) fn after_chunk(&self, bytes: u64) {
        self.write_stall.refill(bytes);
        let is_pressed = self.shared_pressure() > 0.0
            || self.tables().iter().any(|table| self.pressure(table) > 0.0);
        if !is_pressed {
            let yielded = self.wal.wait_while_busy(YIELD_MAX);
            let yielded_us = yielded.as_micros() as u64;
            self.counters.compaction_yield_us.add(yielded_us);
        }
    }

    /// Returns whether a merge of the table is under way or worth doing. The result false is
    /// remembered until the next request to look for merges.
    fn has_merges(&self, table: &TableCore) -> bool {
        let asked = self.signal.merges_asked();
        if table.is_merged_as_of(asked) {
            return false;
        }
        let wanted = wants_compaction(self, table);
        if !wanted {
            table.set_merged_as_of(asked);
        }
        wanted
    }
}

/// Returns the pressure of the memtables of a table on its writers: 0 does not slow them, and at 1
/// they wait. It is 0 without frozen memtables. `memtable_bytes` is the size of a full open
/// memtable; with 0 the open memtable does not count.
fn memtable_pressure(frozen_max: usize, version: &TableVersion, memtable_bytes: usize) -> f64 {
    let frozen = version.frozen.len();
    if frozen == 0 {
        return 0.0;
    }
    let open_bytes = match memtable_bytes {
        0 => 0,
        _ => version.memtable.bytes(),
    };
    memtable_limit(frozen_max).pressure(memtable_level(frozen, open_bytes, memtable_bytes))
}

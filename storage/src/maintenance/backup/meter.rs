//! The progress of a backup, and the free space that it leaves the database.

use std::ops::ControlFlow;

use crate::db::{Capture, Engine};
use crate::error::{Error, Result};
use crate::maintenance::progress::{MaintenanceProgress, Step};
use crate::runs::RunMeta;

/// The free space that a backup leaves on the disk of the database, as a multiple of the low-water
/// mark (the space that writes leave free), so that no write is refused because of the backup. If
/// less than twice this space is free when the backup starts, the backup leaves half of the free
/// space.
const LOW_WATER_MARKS: u64 = 2;

/// The number of processed bytes between two looks at the free space. A look takes a system call, and
/// pieces may be small, so not every piece takes a look.
const LOOK_EVERY_BYTES: u64 = 256 << 10;

/// The progress of a backup, and the free space that it must leave on the disk.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) bytes_done: u64,
    bytes_total: u64,
    /// The free bytes below which the backup ends; `None` if the free space is not known.
    free_bytes_min: Option<u64>,
    /// The value of `bytes_done` at which the free space is looked up next.
    look_at: u64,
    /// Whether there was too little free space at the last look.
    is_full: bool,
}

impl Meter {
    pub(super) fn new(engine: &Engine, capture: &Capture<'_>) -> Self {
        let runs = capture.state.runs().chain(&capture.waiting);
        let in_runs: u64 = runs.map(RunMeta::bytes).sum();
        let in_log: u64 = capture.segments.iter().map(|(_, bytes)| bytes).sum();
        let free_bytes = free_bytes(engine);
        let left_bytes = engine.low_water_bytes().saturating_mul(LOW_WATER_MARKS);
        Self {
            bytes_done: 0,
            bytes_total: in_runs + in_log,
            free_bytes_min: free_bytes.map(|free| left_bytes.min(free / 2)),
            look_at: LOOK_EVERY_BYTES,
            is_full: false,
        }
    }

    /// Raises the total by `bytes` that the total did not include at the start.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.bytes_total += bytes;
    }

    /// Counts `bytes` as done. Returns `Break`, so that the backup ends, if too little space is left.
    /// Otherwise calls `step`, and returns its result.
    pub(super) fn advance(
        &mut self,
        engine: &Engine,
        bytes: u64,
        step: Step<'_>,
    ) -> ControlFlow<()> {
        self.bytes_done += bytes;
        if self.bytes_done >= self.look_at {
            self.look_at = self.bytes_done + LOOK_EVERY_BYTES;
            let free = free_bytes(engine).zip(self.free_bytes_min);
            self.is_full = free.is_some_and(|(free, min)| free < min);
        }
        if self.is_full {
            return ControlFlow::Break(());
        }
        step(MaintenanceProgress {
            bytes_done: self.bytes_done,
            bytes_total: self.bytes_total.max(self.bytes_done),
        })
    }

    /// Returns the result of a backup that ends because [`Self::advance`] returned `Break`: an
    /// error if the disk is too full, else `Break`.
    pub(super) fn stopped(&self, engine: &Engine) -> Result<ControlFlow<()>> {
        if self.is_full {
            let path = engine.dir().to_path_buf();
            return Err(Error::DiskFull { path });
        }
        Ok(ControlFlow::Break(()))
    }
}

fn free_bytes(engine: &Engine) -> Option<u64> {
    engine.disk().free_bytes(engine.dir()).ok().flatten()
}

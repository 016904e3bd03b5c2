//! The progress of a backup, and the free space that it leaves the database.

use std::ops::ControlFlow;

use crate::db::{Capture, Engine};
use crate::error::Result;
use crate::maintenance::progress::{MaintenanceProgress, Step};
use crate::maintenance::space::SpaceLooks;
use crate::runs::RunMeta;

/// The progress of a backup, and the free space that it must leave on the disk.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) bytes_done: u64,
    bytes_total: u64,
    space: SpaceLooks,
}

impl Meter {
    pub(super) fn new(engine: &Engine, capture: &Capture<'_>) -> Self {
        let runs = capture.state.runs().chain(&capture.waiting);
        let in_runs: u64 = runs.map(RunMeta::bytes).sum();
        let in_log: u64 = capture.segments.iter().map(|(_, bytes)| bytes).sum();
        Self {
            bytes_done: 0,
            bytes_total: in_runs + in_log,
            space: SpaceLooks::new(engine),
        }
    }

    /// Raises the total by `bytes` that the total did not include at the start.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.bytes_total += bytes;
    }

    /// Counts `bytes` as done. Returns `Break`, so that the backup ends, if too little space is left.
    /// Otherwise calls `step`, and returns its result.
    pub(super) fn advance(&mut self, bytes: u64, step: Step<'_>) -> ControlFlow<()> {
        self.bytes_done += bytes;
        self.space.look(self.bytes_done)?;
        step(MaintenanceProgress {
            bytes_done: self.bytes_done,
            bytes_total: self.bytes_total.max(self.bytes_done),
        })
    }

    /// Returns the result of a backup that ends because [`Self::advance`] returned `Break`: an
    /// error if the disk is too full, else `Break`.
    pub(super) fn stopped(&self) -> Result<ControlFlow<()>> {
        self.space
            .shortage()
            .map_or(Ok(ControlFlow::Break(())), Err)
    }
}

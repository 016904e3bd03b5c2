//! Snapshots during a run, and the latencies of writes beside them.
//!
//! Each snapshot is created in the middle of a window of 10 ms. Windows without a snapshot
//! alternate with these: the largest of a few latencies is smaller than the largest of many, so the
//! effect of a snapshot shows only against windows of the same length.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_storage::{Keyspace, SeqNo};
use serde::Serialize;

use crate::ycsb::{Driver, Report, WatchGroup};

/// The name, in the report, of the time windows in which a snapshot is created.
const AROUND: &str = "around a snapshot";
/// The name, in the report, of the time windows in which no snapshot is created. They are compared
/// with the windows [`AROUND`] snapshots.
const BETWEEN: &str = "between snapshots";
/// The time that a window with a snapshot lasts before the creation of the snapshot, and again
/// after it. A window without a snapshot lasts twice this time.
const HALF_WINDOW: Duration = Duration::from_millis(5);

/// Takes snapshots at even intervals of a run's progress.
pub struct SnapshotProbe<'a> {
    keyspace: &'a Keyspace,
    requested: u64,
    /// The prefix of the snapshots' names, which differs from that of earlier runs on the same
    /// directory.
    prefix: String,
    /// The number of time windows so far. Snapshots are created in the first window, the third, and
    /// so on; no snapshot is created in the windows between them, for comparison.
    windows: u64,
    creation_us: Vec<f64>,
}

/// The durations of the creations of a run's snapshots, and the latencies of writes at these times.
#[derive(Debug, Clone, Serialize)]
pub struct SnapshotsOutcome {
    pub requested: u64,
    /// The number of snapshots that were taken: fewer than requested if the run was too short for
    /// their windows.
    pub taken: u64,
    pub creation_p50_us: f64,
    pub creation_max_us: f64,
    /// The duration of each creation, in order.
    pub creation_us: Vec<f64>,
    /// Latencies of the writes that overlapped the creation of a snapshot, or the 5 ms before or
    /// after it.
    pub writes_around: WatchGroup,
    /// Latencies of the writes that overlapped a window of 10 ms without a creation. There are as
    /// many of these windows as creations, or one fewer if the run ended early.
    pub writes_between: WatchGroup,
}

impl<'a> SnapshotProbe<'a> {
    /// Creates a probe that takes `requested` snapshots during a run. `seq` is the last commit
    /// before the run, and makes the names of the snapshots unique.
    pub fn new(keyspace: &'a Keyspace, requested: u64, seq: SeqNo) -> Self {
        Self {
            keyspace,
            requested,
            prefix: format!("ycsb-{}", seq.0),
            windows: 0,
            creation_us: Vec::new(),
        }
    }

    /// Opens the next window if the run has progressed far enough, and returns when the window is
    /// over. Otherwise returns at once. In the first window, the third and so on, creates a
    /// snapshot in the middle of the window.
    pub fn poll(&mut self, driver: &Driver) -> Result<()> {
        let windows_all = 2 * self.requested;
        let due = (self.windows + 1) as f64 / (windows_all + 1) as f64;
        if self.windows == windows_all || driver.progress() < due {
            return Ok(());
        }
        if self.windows.is_multiple_of(2) {
            let _watch = driver.watch(AROUND);
            driver.wait_for_end(HALF_WINDOW);
            let name = self.name(self.creation_us.len());
            let started = Instant::now();
            self.keyspace.create_snapshot(&name)?;
            self.creation_us.push(started.elapsed().as_secs_f64() * 1e6);
            driver.wait_for_end(HALF_WINDOW);
        } else {
            let _watch = driver.watch(BETWEEN);
            driver.wait_for_end(2 * HALF_WINDOW);
        }
        self.windows += 1;
        Ok(())
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    /// Deletes the snapshots, and summarizes the measurements.
    pub fn finish(self, report: &Report) -> Result<SnapshotsOutcome> {
        for number in 0..self.creation_us.len() {
            self.keyspace.delete_snapshot(&self.name(number))?;
        }
        let mut sorted = self.creation_us.clone();
        sorted.sort_by(f64::total_cmp);
        let group = |kind| group(&report.watches, kind);
        Ok(SnapshotsOutcome {
            requested: self.requested,
            taken: sorted.len() as u64,
            creation_p50_us: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
            creation_max_us: sorted.last().copied().unwrap_or(0.0),
            creation_us: self.creation_us,
            writes_around: group(AROUND),
            writes_between: group(BETWEEN),
        })
    }
}

fn group(watches: &BTreeMap<&'static str, WatchGroup>, kind: &str) -> WatchGroup {
    watches.get(kind).cloned().unwrap_or_default()
}

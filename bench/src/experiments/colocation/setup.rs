//! What the windows run on: a store with records for the load and a snapshot of
//! text for the jobs, and what the load costs on this machine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ebb_colocate::{Latencies, LoadMonitor};
use ebb_storage::{Db, Options, SnapshotTable, Table, TableOptions};
use tempfile::TempDir;

use super::args::ColocationArgs;
use super::shape::Shape;
use super::text::write_text;
use crate::console::temporary_directory;
use crate::ycsb::{self, Driver, Pace, ReadFrom, RunOptions, Workload};

const RECORDS: u64 = 100_000;
/// Of a record: small enough that what a request costs is the store's work, not
/// copying.
const VALUE_BYTES: usize = 256;
/// Operations that are due together where nothing else is asked for: those of a page
/// that a front end builds.
pub const BATCH: u32 = 50;
/// What a load does before it counts: its threads get warm, and the governor sees it.
pub const LEAD: Duration = Duration::from_millis(500);
/// The longest measurement of what the load costs; a window, where that is less.
const MEASURED_MAX: Duration = Duration::from_secs(2);
/// Where what counts is no longer, what was due while the machine paused is left out.
const PAUSES_WITHIN: Duration = Duration::from_secs(10);
/// How far what a load uses may be from what it is to use, as a part of it.
const SHARE_OFF_MAX: f64 = 0.02;
/// How often a rate is corrected at most until it is that near.
const CORRECTIONS_MAX: usize = 8;

/// A load, and how it is looked at.
#[derive(Debug, Clone)]
pub struct Load {
    /// When operations are due.
    pub pace: Pace,
    /// Operations that are due together. One by one they wake a thread tens of
    /// thousands of times a second, and much of what is measured is the wake-ups.
    pub batch: u32,
    /// How long it runs before it counts.
    pub lead: Duration,
    /// Ends of the pieces in which what counts is cut, but for the last; from the end of
    /// the lead on.
    pub cuts: Vec<Duration>,
}

pub struct Setup {
    pub db: Db,
    users: Table,
    pub text: SnapshotTable,
    pub folder: TempDir,
    pub cores: u32,
    workload: Workload,
    /// How long it is measured what the load costs.
    measured: Duration,
    /// Operations per second that use one core, flat out; a first guess.
    ops_per_core_s: f64,
}

impl Setup {
    /// Loads a fresh store, whose block cache holds `cache_bytes`, or as much as
    /// a store's does.
    pub fn new(args: &ColocationArgs, cache_bytes: Option<u64>) -> Result<Self> {
        let folder = temporary_directory("colocation")?;
        let mut options = Options::default();
        if let Some(cache_bytes) = cache_bytes {
            options.cache_bytes = cache_bytes;
        }
        let db = Db::open(folder.path().join("store"), options)?;
        let keyspace = db.keyspace("colocation")?;
        let users = keyspace.table("users", TableOptions::default())?;
        let load = ycsb::LoadOptions {
            value_bytes: VALUE_BYTES,
            ..Default::default()
        };
        ycsb::load(&db, &users, 0..RECORDS, &load, |_| ())?;
        let text = keyspace.table("text", TableOptions::default())?;
        write_text(&db, &text)?;
        db.flush()?;
        db.compact()?;
        keyspace.create_snapshot("analysed")?;
        let text = keyspace.snapshot("analysed")?.table("text")?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut setup = Self {
            db,
            users,
            text,
            folder,
            cores,
            workload: args.workload,
            measured: args.window.map_or(MEASURED_MAX, |w| w.min(MEASURED_MAX)),
            ops_per_core_s: 0.0,
        };
        let (ops_per_s, used) = setup.used_by(Pace::Closed, 1)?;
        setup.ops_per_core_s = ops_per_s / used.max(0.01);
        Ok(setup)
    }

    /// The operations per second with which the load, in batches of so many and with all
    /// that the store does for it, uses `share` of the machine, give or take a fiftieth of
    /// it where the machine is steady enough to tell.
    pub fn ops_per_s(&self, share: f64, batch: u32) -> Result<f64> {
        let wanted = share * f64::from(self.cores);
        let mut ops_per_s = self.ops_per_core_s * wanted;
        // The one that came nearest, and how near.
        let mut nearest = (f64::INFINITY, ops_per_s);
        for _ in 0..CORRECTIONS_MAX {
            let (done, used) = self.used_by(Pace::steady(ops_per_s), batch)?;
            let off = (used / wanted - 1.0).abs();
            if off < nearest.0 {
                nearest = (off, done);
            }
            if off <= SHARE_OFF_MAX {
                break;
            }
            // An operation among few costs more than one among many.
            ops_per_s = done * (wanted / used.max(0.01)).clamp(0.5, 2.0);
        }
        Ok(nearest.1)
    }

    pub fn steady(&self, share: f64, batch: u32) -> Result<Load> {
        Ok(Load {
            pace: Pace::steady(self.ops_per_s(share, batch)?),
            batch,
            lead: LEAD,
            cuts: Vec::new(),
        })
    }

    /// Rates for a shape, from what two steady loads cost.
    pub fn pace(&self, shape: Shape) -> Result<Pace> {
        let (low, high) = shape.bounds();
        let low_ops_per_s = self.ops_per_s(low, BATCH)?;
        let slope = (self.ops_per_s(high, BATCH)? - low_ops_per_s) / (high - low);
        Ok(Pace::Open(Arc::new(move |t_s| {
            low_ops_per_s + (shape.at(t_s) - low) * slope
        })))
    }

    /// Starts the load, which counts for `length` after its lead, and enters its latencies
    /// for a guard where one wants them. The sections of its
    /// report are the lead, and the pieces.
    pub fn start_load(
        &self,
        load: &Load,
        length: Duration,
        latencies: Option<Latencies>,
    ) -> Result<Driver> {
        let mut section_ends = vec![load.lead];
        section_ends.extend(load.cuts.iter().map(|cut| load.lead + *cut));
        section_ends.push(load.lead + length);
        let options = RunOptions {
            threads: self.cores.max(2) as usize,
            pace: load.pace.clone(),
            duration: Some(load.lead + length),
            section_ends,
            leave_out_pauses: length <= PAUSES_WITHIN,
            latencies,
            value_bytes: VALUE_BYTES,
            // A thread that spins for its next operation would use what the
            // analytics could.
            spin: Duration::ZERO,
            burst: load.batch,
            ..RunOptions::new(self.workload)
        };
        Ok(Driver::start(
            &self.db,
            &self.users,
            &ReadFrom::Live,
            options,
        )?)
    }

    /// Operations per second, and cores used.
    fn used_by(&self, pace: Pace, batch: u32) -> Result<(f64, f64)> {
        let length = self.measured;
        let load = Load {
            pace,
            batch,
            lead: LEAD.min(length),
            cuts: Vec::new(),
        };
        let driver = self.start_load(&load, length, None)?;
        driver.wait_for_end(load.lead);
        let mut monitor = LoadMonitor::start()?;
        // Measured while it runs: a thread that has ended is not counted.
        driver.wait_for_end(length.mul_f64(0.95));
        let used = monitor.sample()?.transactional_cores;
        Ok((driver.join()?.throughput_ops_per_s, used))
    }
}

//! The store of the windows: records for the load, a snapshot of text for the jobs, and the
//! measured cost of the load on this machine.

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
/// Length of a record's value, in bytes: small, so that the cost of a request is the store's work
/// and not copying.
const VALUE_BYTES: usize = 256;
/// The default number of operations that are due together: those of one page that a front end
/// builds.
pub const BATCH: u32 = 50;
/// The time for which a load runs before it is measured: threads get warm, and the governor, which
/// grants CPU time to jobs, measures the load.
pub const LEAD: Duration = Duration::from_millis(500);
/// The longest measurement of the load's CPU cost; with shorter windows the measurement is as short
/// as a window.
const MEASURED_MAX: Duration = Duration::from_secs(2);
/// In windows up to this length, operations that were due while the machine paused are left out.
/// In longer windows these operations count.
const PAUSES_WITHIN: Duration = Duration::from_secs(10);
/// The largest accepted error of a rate: how far the CPU that the load uses may be from the
/// intended CPU, as a fraction of the latter.
const SHARE_OFF_MAX: f64 = 0.02;
/// The most measurements of the CPU that the load uses at a rate. After each one the rate is
/// corrected, until the error is within [`SHARE_OFF_MAX`].
const CORRECTIONS_MAX: usize = 8;

/// The parameters of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// The moments at which operations are due.
    pub pace: Pace,
    /// The number of operations that are due together. If operations were due one by one, they
    /// would wake a thread tens of thousands of times a second, and much of the measurement would
    /// be of wake-ups.
    pub batch: u32,
    /// The time at the start of the load, for warming up. Its latencies are kept apart from those
    /// of the measured time.
    pub lead: Duration,
    /// The times at which the measured time is divided into sections, counted from the end of the
    /// lead. The end of the last section is not in the list.
    pub cuts: Vec<Duration>,
}

pub struct Setup {
    pub db: Db,
    users: Table,
    pub text: SnapshotTable,
    pub folder: TempDir,
    pub cores: u32,
    workload: Workload,
    /// The length of each measurement of the CPU time that the load uses at a given rate.
    measured: Duration,
    /// Operations per second for one core, from a closed loop: the first guess for rates.
    ops_per_core_s: f64,
}

impl Setup {
    /// Creates a store and loads it. Its block cache has `cache_bytes`, or the default size.
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

    /// Returns the rate, in operations per second, at which the load uses the fraction `share` of
    /// the machine's CPU, background work included. Operations are due in batches of `batch`. The
    /// error is at most 2%, if the machine is steady enough to measure that.
    pub fn ops_per_s(&self, share: f64, batch: u32) -> Result<f64> {
        let target = share * f64::from(self.cores);
        let mut ops_per_s = self.ops_per_core_s * target;
        // The nearest rate so far, and its error.
        let mut nearest = (f64::INFINITY, ops_per_s);
        for _ in 0..CORRECTIONS_MAX {
            let (done, used) = self.used_by(Pace::steady(ops_per_s), batch)?;
            let off = (used / target - 1.0).abs();
            if off < nearest.0 {
                nearest = (off, done);
            }
            if off <= SHARE_OFF_MAX {
                break;
            }
            // An operation costs more at a low rate than at full speed, so one correction may not
            // be enough.
            ops_per_s = done * (target / used.max(0.01)).clamp(0.5, 2.0);
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

    /// Returns the request rates over time at which the load uses the CPU as `shape` describes,
    /// interpolated between two measured steady loads.
    pub fn pace(&self, shape: Shape) -> Result<Pace> {
        let (low, high) = shape.bounds();
        let low_ops_per_s = self.ops_per_s(low, BATCH)?;
        let slope = (self.ops_per_s(high, BATCH)? - low_ops_per_s) / (high - low);
        Ok(Pace::Open(Arc::new(move |t_s| {
            low_ops_per_s + (shape.at(t_s) - low) * slope
        })))
    }

    /// Starts the load: first its lead, for warming up, and then the measured time of this
    /// `length`. Also records the latencies in `latencies`, for a latency guard. The sections of
    /// the report are the lead, and then the pieces of the measured time between the moments
    /// `load.cuts`.
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
            // Threads sleep until the next operation: spinning would use CPU time that is left for
            // jobs.
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

    /// Runs the load at this pace for a while. Returns the operations per second that were done,
    /// and the cores that the load used.
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
        // Samples before the end of the run: a thread that has ended is no longer counted.
        driver.wait_for_end(length.mul_f64(0.95));
        let used = monitor.sample()?.transactional_cores;
        Ok((driver.join()?.throughput_ops_per_s, used))
    }
}

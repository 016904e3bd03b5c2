//! The operations of the other parts, on a store in this process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_storage::{Db, Options, Table, TableOptions};

use crate::resources::Usage;
use crate::ycsb::{Driver, LoadOptions, ReadFrom, RunOptions, Workload, load};

pub struct Embedded {
    db: Db,
    table: Table,
    value_bytes: usize,
}

impl Embedded {
    /// Loads a store, and waits until its background work is done.
    pub fn load(folder: &Path, records: u64, value_bytes: usize) -> Result<Self> {
        let db = Db::open(folder, Options::default())?;
        let table = db
            .keyspace("ycsb")?
            .table("usertable", TableOptions::default())?;
        let options = LoadOptions {
            value_bytes,
            ..LoadOptions::default()
        };
        load(&db, &table, 0..records, &options, |_| ())?;
        db.flush()?;
        db.compact()?;
        Ok(Self {
            db,
            table,
            value_bytes,
        })
    }

    /// Returns the CPU time of this process for an operation, in microseconds. It includes the
    /// driver's own work, and background work that falls into the run.
    pub fn cpu_us(&self, workload: Workload, length: Duration) -> Result<f64> {
        let options = RunOptions {
            duration: Some(length),
            value_bytes: self.value_bytes,
            ..RunOptions::new(workload)
        };
        let before = Usage::now()?;
        let report = Driver::start(&self.db, &self.table, &ReadFrom::Live, options)?.join()?;
        let used = Usage::now()?.since(&before);
        let wrong = report.mismatches + report.not_found;
        ensure!(wrong == 0, "{wrong} values were wrong or missing");
        Ok(used.cpu_s * 1e6 / report.operations.max(1) as f64)
    }
}

//! The load phase: writes the records that a run starts with.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ebb_storage::{Db, Result, Table, WriteBatch};
use serde::Serialize;

use super::records::{KEY_BYTES, Stamp, VALUE_BYTES_DEFAULT, key, write_value};
use crate::threads::value_of;

#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The number of threads that write. Default: 2.
    pub threads: usize,
    /// Length of each value, in bytes, at least
    /// [`VALUE_BYTES_MIN`](super::VALUE_BYTES_MIN). Default: 1024.
    pub value_bytes: usize,
    /// The number of records in one write batch. Default: 64.
    pub batch_records: u64,
    /// A flag that ends the load early.
    pub stop: Arc<AtomicBool>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            threads: 2,
            value_bytes: VALUE_BYTES_DEFAULT,
            batch_records: 64,
            stop: Arc::default(),
        }
    }
}

/// The result of a load. The records may still be in memtables, and compactions may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct LoadReport {
    /// The number of records that were written; fewer than requested if the load was stopped.
    pub records: u64,
    /// Duration of the load, in seconds.
    pub elapsed_s: f64,
    pub records_per_s: f64,
    /// Keys and values, uncompressed, in megabytes (10^6 bytes) per second.
    pub mb_per_s: f64,
}

/// Writes the records of `numbers`; the threads take batches of them in ascending order. Threads
/// call `progress` with the number of records written so far by all of them.
///
/// # Errors
/// An error of the store; other threads end after their batch.
pub fn load(
    db: &Db,
    table: &Table,
    numbers: Range<u64>,
    options: &LoadOptions,
    progress: impl Fn(u64) + Sync,
) -> Result<LoadReport> {
    let started = Instant::now();
    let next = AtomicU64::new(numbers.start);
    let done = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let end = numbers.end;
    let worker = || -> Result<()> {
        let mut value = Vec::new();
        while !failed.load(Ordering::Relaxed) && !options.stop.load(Ordering::Relaxed) {
            let from = next.fetch_add(options.batch_records, Ordering::Relaxed);
            if from >= end {
                break;
            }
            let to = end.min(from + options.batch_records);
            let mut batch = WriteBatch::new();
            for number in from..to {
                let stamp = Stamp { number, version: 0 };
                write_value(&mut value, stamp, options.value_bytes);
                batch.put(table, &key(number), &value);
            }
            db.write(batch)
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            progress(done.fetch_add(to - from, Ordering::Relaxed) + (to - from));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads.max(1))
            .map(|_| scope.spawn(worker))
            .collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| value_of(thread.join()))
    })?;
    let (records, elapsed_s) = (done.into_inner(), started.elapsed().as_secs_f64());
    let records_per_s = records as f64 / elapsed_s;
    Ok(LoadReport {
        records,
        elapsed_s,
        records_per_s,
        mb_per_s: records_per_s * (KEY_BYTES + options.value_bytes) as f64 / 1e6,
    })
}

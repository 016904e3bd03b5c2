//! One process: copies the data, and runs a workload on the copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_storage::{
    Bounding, Db, Disk, Keyspace, LocalDisk, Options, RunStats, Stats, Table, TieredPicker,
};
use serde::{Deserialize, Serialize};

use super::args::{CaseArgs, Scale};
use super::data::{self, KEYSPACE, TABLE};
use super::plan::{Load, Memory, Run};
use super::reads::Reads;
use super::uncached_disk::UncachedDisk;
use crate::resources::Usage;
use crate::ycsb::{
    Driver, Latencies, LatencyFrom, Operation, Pace, ReadFrom, Report, RunOptions, Source, Workload,
};

/// The number of records divided by the number of reads of the warm-up. A process whose cache holds
/// only a part of the data runs these reads before the measurement. At the usual sizes they fill
/// the cache. All compared processes warm up in the same way.
const RECORDS_PER_WARM_UP: u64 = 4;

/// The fewest operations of an execution at a target rate: the mean of fewer is not meaningful.
const TARGET_OPERATIONS_MIN: u64 = 100;

/// The work of a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Case {
    /// Creates the data that executions start with, flushed and merged.
    Load {
        /// The directory for the data: missing or empty.
        dir: PathBuf,
        scale: Scale,
    },
    /// Runs a workload on a copy of the data.
    Execute {
        /// The directory of the prepared data.
        base: PathBuf,
        /// The directory for the copy of the data on which the operations run: missing or empty.
        dir: PathBuf,
        scale: Scale,
        run: Run,
        /// The target rate, in operations per second; `None` for full speed.
        target_ops_per_s: Option<f64>,
        /// The seed of the random choice of operations.
        seed: u64,
    },
}

/// The measurements of one execution of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub operations: u64,
    pub throughput_ops_per_s: f64,
    /// Operations for each second of the process's CPU time, which includes background work until
    /// the end of the execution.
    pub ops_per_cpu_s: f64,
    pub target_ops_per_s: Option<f64>,
    /// Latencies of reads, each measured from its start, without the reads of read-modify-writes.
    pub reads: Latencies,
    /// Latencies of updates, inserts and read-modify-writes.
    pub writes: Latencies,
    /// The number of point reads by the number of SSTables that they searched. Element i counts
    /// reads that searched i runs of the table; the last element also counts reads that searched
    /// more. A run's SSTables have disjoint keys, so a read searches one of them.
    pub reads_by_sstables: Vec<u64>,
    /// Blocks that a point read fetched from the disk, on average.
    pub blocks_read_per_read: f64,
    /// The number of SSTables at the end. In a series of executions on the same data, merges are
    /// completed before the count.
    pub sstables: usize,
    /// The number of sorted runs of SSTables at the end of the execution: a key may be in one
    /// SSTable of each.
    pub runs: usize,
    /// The number of sorted runs that a reader of the snapshot searches; `None` if no snapshot is
    /// read.
    pub runs_of_snapshot: Option<usize>,
}

/// Runs a case, and prints its measurements as JSON: a list with an [`Execution`] for each
/// iteration; empty for [`Case::Load`].
///
/// # Errors
/// The errors of the store and of the disk; if a read returned a wrong value or none.
pub fn run(args: &CaseArgs) -> Result<()> {
    let case = serde_json::from_str(&args.case).context("not a case of this experiment")?;
    let executions = match case {
        Case::Load { dir, scale } => {
            data::make(&dir, &scale)?;
            Vec::new()
        }
        Case::Execute {
            base,
            dir,
            scale,
            run,
            target_ops_per_s,
            seed,
        } => {
            data::link(&base, &dir)?;
            let database = Database::open(&dir, &scale, run, seed)?;
            database.execute_all(target_ops_per_s)?
        }
    };
    println!("{}", serde_json::to_string(&executions)?);
    Ok(())
}

struct Database<'a> {
    db: Db,
    keyspace: Keyspace,
    table: Table,
    scale: &'a Scale,
    run: Run,
    seed: u64,
    workload: Workload,
}

impl<'a> Database<'a> {
    fn open(dir: &Path, scale: &'a Scale, run: Run, seed: u64) -> Result<Self> {
        let picker = TieredPicker {
            bounding: match run.reads {
                Reads::Original => Bounding::Off,
                _ => Bounding::default(),
            },
            ..TieredPicker::default()
        };
        let data_bytes = scale.data_bytes();
        let (disk, cache_bytes): (Arc<dyn Disk>, _) = match run.memory {
            Memory::Part => (
                Arc::new(UncachedDisk),
                data_bytes / 100 * scale.memory_percent,
            ),
            // Enough for a new version of each record, and for the overhead of blocks.
            Memory::All => (Arc::new(LocalDisk::default()), 3 * data_bytes),
        };
        let memtable_bytes = (scale.memtable_kb << 10) / u64::from(run.sstable_frequency);
        let options = Options {
            create_if_missing: false,
            memtable_bytes: memtable_bytes as usize,
            cache_bytes,
            compaction: picker.into(),
            disk,
            ..Options::default()
        };
        let db = Db::open(dir, options)?;
        let keyspace = db.existing_keyspace(KEYSPACE)?;
        let table = keyspace.existing_table(TABLE)?;
        Ok(Self {
            db,
            keyspace,
            table,
            scale,
            run,
            seed,
            workload: run.workload.workload().parse()?,
        })
    }

    fn execute_all(&self, target_ops_per_s: Option<f64>) -> Result<Vec<Execution>> {
        if matches!(self.run.reads, Reads::BesideSnapshot | Reads::Snapshot) {
            self.keyspace.create_snapshot(&snapshot_name(0))?;
        }
        self.warm_up()?;
        (0..self.run.iterations)
            .map(|iteration| {
                if self.run.reads == Reads::NewestSnapshot {
                    self.keyspace.create_snapshot(&snapshot_name(iteration))?;
                }
                let read_from = match self.run.reads {
                    Reads::Original | Reads::Regular | Reads::BesideSnapshot => ReadFrom::Live,
                    Reads::Snapshot => ReadFrom::Snapshot(snapshot_name(0)),
                    Reads::NewestSnapshot => ReadFrom::Snapshot(snapshot_name(iteration)),
                };
                self.execute(&read_from, target_ops_per_s, iteration)
                    .with_context(|| format!("{}, execution {iteration}", self.run.label()))
            })
            .collect()
    }

    /// Fills the block cache before the measurement. Reads all records if memory is to hold all of
    /// them, else random records, drawn by the workload's distribution.
    fn warm_up(&self) -> Result<()> {
        if self.run.memory == Memory::All {
            for entry in self.table.range::<&[u8], _>(..) {
                entry?;
            }
            return Ok(());
        }
        let options = RunOptions {
            distribution: Some(self.workload.distribution),
            operations_max: Some(self.scale.records.div_ceil(RECORDS_PER_WARM_UP)),
            // A seed that differs from those of the executions.
            seed: !self.seed,
            ..self.options("thesis-d".parse()?)
        };
        self.drive(&ReadFrom::Live, options)?;
        Ok(())
    }

    fn execute(
        &self,
        read_from: &ReadFrom,
        target_ops_per_s: Option<f64>,
        iteration: u32,
    ) -> Result<Execution> {
        let mut options = RunOptions {
            // A seed that differs between executions.
            seed: self.seed.wrapping_add(u64::from(iteration) << 32),
            ..self.options(self.workload)
        };
        match (self.run.load, target_ops_per_s) {
            (Load::Target(_), Some(target)) => {
                let operations = (target * self.scale.target_s) as u64;
                options.pace = Pace::steady(target);
                options.operations_max = Some(operations.max(TARGET_OPERATIONS_MIN));
            }
            _ => options.operations_max = Some(self.scale.operations),
        }
        let (before, usage_before) = (self.db.stats(), Usage::now()?);
        let report = self.drive(read_from, options)?;
        let usage = Usage::now()?.since(&usage_before);
        if self.run.iterations > 1 {
            // An execution of the thesis took half an hour, which was enough for merges. Here
            // executions take seconds, so the merges are completed explicitly.
            self.db.compact()?;
        }
        let snapshot_seq = match read_from.open(&self.db, &self.table)? {
            Source::Live(_) => None,
            Source::Snapshot { seq, .. } => Some(seq.0),
        };
        let stats = (&before, &self.db.stats());
        Ok(Execution {
            target_ops_per_s,
            ..measured(&report, stats, usage.cpu_s, snapshot_seq)
        })
    }

    fn options(&self, workload: Workload) -> RunOptions {
        RunOptions {
            threads: self.scale.threads as usize,
            value_bytes: self.scale.value_bytes as usize,
            latency_from: LatencyFrom::Start,
            // Threads do not spin: there are more of them than cores.
            spin: Duration::ZERO,
            ..RunOptions::new(workload)
        }
    }

    fn drive(&self, read_from: &ReadFrom, options: RunOptions) -> Result<Report> {
        let driver = Driver::start(&self.db, &self.table, read_from, options)?;
        let report = driver.join()?;
        let (mismatches, not_found) = (report.mismatches, report.not_found);
        ensure!(
            mismatches == 0 && not_found == 0,
            "{mismatches} reads returned wrong values and {not_found} none"
        );
        Ok(report)
    }
}

fn measured(
    report: &Report,
    (before, after): (&Stats, &Stats),
    cpu_s: f64,
    snapshot_seq: Option<u64>,
) -> Execution {
    let counts = after.reads_by_runs.iter().zip(&before.reads_by_runs);
    let reads = (after.reads - before.reads).max(1);
    let table = after
        .tables
        .iter()
        .find(|table| table.name == TABLE)
        .expect("the table is open");
    let seen_by = |seq: u64| {
        let seen = |run: &&RunStats| run.smallest_seq <= seq;
        table.runs.iter().filter(seen).count()
    };
    let of_reads = report.latencies.get(&Operation::Read);
    Execution {
        operations: report.operations,
        throughput_ops_per_s: report.throughput_ops_per_s,
        ops_per_cpu_s: report.operations as f64 / cpu_s,
        target_ops_per_s: None,
        reads: of_reads.map_or_else(Latencies::default, |read| read.latencies),
        writes: report.latencies_writes,
        reads_by_sstables: counts.map(|(after, before)| after - before).collect(),
        blocks_read_per_read: (after.blocks_read - before.blocks_read) as f64 / reads as f64,
        sstables: table.files,
        runs: table.runs.len(),
        runs_of_snapshot: snapshot_seq.map(seen_by),
    }
}

fn snapshot_name(iteration: u32) -> String {
    format!("s{iteration}")
}

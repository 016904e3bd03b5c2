//! One process: a copy of the data, and a workload that runs on it.

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

/// A process warms its cache with one read for so many records: enough to fill it
/// at the usual sizes, and the same for all that are compared.
const RECORDS_PER_WARM_UP: u64 = 4;

/// An execution at a target has this many operations at least: a mean of fewer
/// says nothing.
const TARGET_OPERATIONS_MIN: u64 = 100;

/// What a process does.
#[derive(Debug, Serialize, Deserialize)]
pub enum Case {
    /// Makes the data that executions begin with, flushed and merged.
    Load {
        /// Where to: missing or empty.
        dir: PathBuf,
        scale: Scale,
    },
    /// Runs a workload on a copy of it.
    Execute {
        /// Where the data is.
        base: PathBuf,
        /// Where the copy is to be: missing or empty.
        dir: PathBuf,
        scale: Scale,
        run: Run,
        /// The target, in operations per second; full speed without.
        target_ops_per_s: Option<f64>,
        /// Draws the operations.
        seed: u64,
    },
}

/// What one execution of a workload measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub operations: u64,
    pub throughput_ops_per_s: f64,
    /// Operations per second of the process's CPU time, background work until the
    /// end of the execution included.
    pub ops_per_cpu_s: f64,
    pub target_ops_per_s: Option<f64>,
    /// Reads, without those of read-modify-writes, each from its start.
    pub reads: Latencies,
    /// Updates, inserts and read-modify-writes.
    pub writes: Latencies,
    /// Point reads by the number of SSTables that each searched: element i
    /// counts those that searched i runs of the table, the last those that
    /// searched as many or more. A run's SSTables have disjoint keys, so a read
    /// searches one of them.
    pub reads_by_sstables: Vec<u64>,
    /// Blocks that a point read fetched from the disk, on average.
    pub blocks_read_per_read: f64,
    /// SSTables at the end; in a series, once merges were done.
    pub sstables: usize,
    /// Runs then: the SSTables that a key may be in.
    pub runs: usize,
    /// Those of them that a reader of the snapshot looks at, if one is read.
    pub runs_of_snapshot: Option<usize>,
}

/// Runs a case and prints what it measured: nothing, or a list with an
/// [`Execution`] for each iteration.
///
/// # Errors
/// What the store or the disk says; reads that returned wrong values or none.
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
            // New versions of everything, and what a block costs beside its bytes.
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

    /// Brings into the cache what the workload will read first.
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
            // Other draws than those of the executions.
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
            // Other records in each execution.
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
            // The thesis's executions took half an hour each, and left merges the
            // time for what these ask of them in seconds.
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
            // There are more threads than cores, and nothing to gain from those
            // that spin.
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

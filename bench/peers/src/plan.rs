//! The plan of a measurement: the jobs that the chosen workloads need, and the order of the
//! engines.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use crate::engine::{Durability, EngineName, Settings};
use crate::sequence::{BesideSnapshots, Bill, Step};

/// The workloads of `--workloads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadName {
    /// Inserts all records, one by one
    Load,
    /// YCSB A: 50% read, 50% update
    A,
    /// YCSB B: 95% read, 5% update
    B,
    /// YCSB C: reads
    C,
    /// YCSB D: 95% read of the latest, 5% insert
    D,
    /// YCSB E: 95% scan, 5% insert
    E,
    /// YCSB F: 50% read, 50% read-modify-write
    F,
    /// A and C with 1 and with 8 threads
    Threads,
    /// Reads after the page cache was emptied
    Cold,
    /// A and C with uniformly chosen records and a block cache of a sixteenth of the data
    Big,
    /// Reads everything, live and from a snapshot
    Scan,
    /// Writes that wait for an fsync, from 1, 8 and 64 threads
    Sync,
    /// Sync, with a delay added to every fsync
    SyncSlow,
    /// Disk and memory while records are overwritten, with one idle snapshot and without
    Bill,
    /// Reads beside ten snapshots, and from the oldest
    Held,
    /// Reads of the same records live and from a snapshot, half overwritten
    Read,
}

impl WorkloadName {
    const YCSB: [(Self, &'static str); 6] = [
        (Self::A, "a"),
        (Self::B, "b"),
        (Self::C, "c"),
        (Self::D, "d"),
        (Self::E, "e"),
        (Self::F, "f"),
    ];
}

/// The sizes of data and workloads.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scale {
    /// Records of the YCSB workloads; half as many for held and read.
    pub records: u64,
    /// Length of the values of these records, in bytes.
    pub value_bytes: usize,
    /// Operations of each YCSB workload; a tenth as many for E, half as many for runs with other
    /// numbers of threads.
    pub operations: u64,
    /// Reads in each measurement of held and read.
    pub snapshot_reads: u64,
    /// Threads of the workloads that do not set a number of their own.
    pub threads: usize,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    pub memtable_bytes: u64,
    /// Duration of each phase of synced writes, in seconds.
    pub sync_s: f64,
    /// Records that synced writes overwrite.
    pub sync_records: u64,
    /// Entries of workload bill, which overwrites eight times as many.
    pub bill_records: u64,
    /// The wait of workload bill after the last write, in seconds; three times as long after the
    /// snapshot is dropped.
    pub bill_idle_s: f64,
    /// The most rounds of workload bill: one takes as long as all other workloads together.
    pub bill_rounds: u32,
}

impl Scale {
    /// A million records: the default.
    pub const FULL: Self = Self {
        records: 1_000_000,
        value_bytes: 1024,
        operations: 1_000_000,
        snapshot_reads: 100_000,
        threads: 2,
        cache_bytes: 256 << 20,
        memtable_bytes: 64 << 20,
        sync_s: 3.0,
        sync_records: 100_000,
        bill_records: 1_000_000,
        bill_idle_s: 10.0,
        bill_rounds: 1,
    };
    /// A quarter of the records, the cache and the memtable, so that the numbers of flushes and
    /// levels stay the same; an eighth of the operations.
    pub const QUICK: Self = Self {
        records: 250_000,
        operations: 120_000,
        snapshot_reads: 25_000,
        cache_bytes: 64 << 20,
        memtable_bytes: 16 << 20,
        sync_s: 1.0,
        sync_records: 25_000,
        bill_records: 250_000,
        bill_idle_s: 3.0,
        ..Self::FULL
    };
    /// A check that everything runs, too small to measure anything.
    pub const TINY: Self = Self {
        records: 4_000,
        operations: 4_000,
        snapshot_reads: 1_000,
        cache_bytes: 1 << 20,
        memtable_bytes: 256 << 10,
        sync_s: 0.1,
        sync_records: 1_000,
        bill_records: 20_000,
        bill_idle_s: 0.1,
        ..Self::FULL
    };
    /// Length of the values of workload bill, in bytes: an entry has 116 with its key.
    pub const BILL_VALUE_BYTES: usize = 92;
}

/// The work of one child process.
#[derive(Debug, Clone)]
pub struct Part {
    pub steps: Vec<Step>,
    /// Records that the steps load, or that the directory holds from an earlier part.
    pub records: u64,
    pub value_bytes: usize,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    /// The point at which writes are acknowledged.
    pub durability: Durability,
    /// Whether a thread holds several snapshots.
    pub holds_snapshots: bool,
    /// Whether every fsync is delayed.
    pub delays_fsync: bool,
}

impl Part {
    /// Returns the settings of an engine for this part.
    pub fn settings(&self, dir: PathBuf, memtable_bytes: u64) -> Settings {
        Settings {
            dir,
            durability: self.durability,
            cache_bytes: self.cache_bytes,
            memtable_bytes,
            holds_snapshots: self.holds_snapshots,
        }
    }
}

/// A sequence of parts that share one directory.
#[derive(Debug, Clone)]
pub struct Job {
    /// The name in tables and files.
    pub name: &'static str,
    pub parts: Vec<Part>,
    /// The most rounds in which the job is run.
    pub rounds_max: u32,
    /// Whether the job is run with LMDB too.
    pub suits_b_trees: bool,
}

impl Job {
    /// Returns whether the job is run with an engine.
    pub fn suits(&self, engine: EngineName) -> bool {
        self.suits_b_trees || !engine.is_b_tree()
    }
}

/// The jobs that the workloads need.
pub fn jobs(workloads: &[WorkloadName], scale: &Scale) -> Vec<Job> {
    let has = |name| workloads.contains(&name);
    let part = |records, steps| Part {
        steps,
        records,
        value_bytes: scale.value_bytes,
        cache_bytes: scale.cache_bytes,
        durability: Durability::Os,
        holds_snapshots: false,
        delays_fsync: false,
    };
    let job = |name, parts| Job {
        name,
        parts,
        rounds_max: u32::MAX,
        suits_b_trees: true,
    };
    let mut jobs = Vec::new();

    let main = main_steps(workloads, scale);
    let reopened = reopened_steps(workloads, scale);
    if has(WorkloadName::Load) || !main.is_empty() || !reopened.is_empty() {
        let mut first = if has(WorkloadName::Load) {
            vec![Step::Load {
                threads: scale.threads,
            }]
        } else {
            vec![Step::Prepare]
        };
        first.extend(main);
        let mut parts = vec![part(scale.records, first)];
        if !reopened.is_empty() {
            let data_bytes = scale.records * scale.value_bytes as u64;
            parts.push(Part {
                cache_bytes: data_bytes / 16,
                ..part(scale.records, reopened)
            });
        }
        jobs.push(job("ycsb", parts));
    }
    for (name, job_name, delays_fsync) in [
        (WorkloadName::Sync, "sync", false),
        (WorkloadName::SyncSlow, "sync-slow", true),
    ] {
        if has(name) {
            let mut steps = vec![Step::Prepare];
            steps.extend([1, 8, 64].map(|threads| Step::Writes {
                phase: format!("{job_name}-{threads}"),
                threads,
                duration_s: scale.sync_s,
            }));
            let part = Part {
                durability: Durability::Sync,
                delays_fsync,
                ..part(scale.sync_records, steps)
            };
            jobs.push(job(job_name, vec![part]));
        }
    }
    let held = [
        (
            WorkloadName::Held,
            "held",
            Step::Held(BesideSnapshots {
                rounds: 10,
                reads: scale.snapshot_reads,
            }),
        ),
        (
            WorkloadName::Read,
            "read",
            Step::Read {
                reads: scale.snapshot_reads,
            },
        ),
    ];
    for (name, job_name, step) in held {
        if has(name) {
            let part = Part {
                holds_snapshots: true,
                ..part(scale.records / 2, vec![Step::Prepare, step])
            };
            jobs.push(job(job_name, vec![part]));
        }
    }
    if has(WorkloadName::Bill) {
        for (job_name, with_snapshot) in [("bill-none", false), ("bill", true)] {
            let bill = Step::Bill(Bill {
                with_snapshot,
                overwrites: 8 * scale.bill_records,
                threads: scale.threads,
                idle_s: scale.bill_idle_s,
                idle_after_drop_s: 3.0 * scale.bill_idle_s,
            });
            let part = Part {
                value_bytes: Scale::BILL_VALUE_BYTES,
                ..part(scale.bill_records, vec![Step::Prepare, bill])
            };
            jobs.push(Job {
                rounds_max: scale.bill_rounds,
                // With an old reader open, LMDB keeps one to four pages for each write, which would
                // fill the disk. LMDB takes part in this comparison for its reads.
                suits_b_trees: false,
                ..job(job_name, vec![part])
            });
        }
    }
    jobs
}

fn main_steps(workloads: &[WorkloadName], scale: &Scale) -> Vec<Step> {
    let mix = |phase: String, workload: &str, threads, operations| Step::Mix {
        phase,
        workload: workload.to_string(),
        uniform: false,
        threads,
        operations,
    };
    let mut steps = Vec::new();
    for (name, workload) in WorkloadName::YCSB {
        if workloads.contains(&name) {
            let operations = match name {
                WorkloadName::E => scale.operations / 10,
                _ => scale.operations,
            };
            steps.push(mix(
                workload.to_string(),
                workload,
                scale.threads,
                operations,
            ));
        }
    }
    if workloads.contains(&WorkloadName::Threads) {
        for (workload, threads) in [("a", 1), ("a", 8), ("c", 1), ("c", 8)] {
            let phase = format!("{workload}-{threads}");
            steps.push(mix(phase, workload, threads, scale.operations / 2));
        }
    }
    steps
}

fn reopened_steps(workloads: &[WorkloadName], scale: &Scale) -> Vec<Step> {
    let has = |name| workloads.contains(&name);
    let mix = |phase: &str, workload: &str, operations| Step::Mix {
        phase: phase.to_string(),
        workload: workload.to_string(),
        uniform: true,
        threads: scale.threads,
        operations,
    };
    let mut steps = Vec::new();
    if has(WorkloadName::Cold) {
        steps.push(mix("cold", "c", scale.operations / 20));
    }
    if has(WorkloadName::Scan) {
        steps.extend([Step::Scan, Step::SnapshotScan]);
    }
    if has(WorkloadName::Big) {
        steps.push(mix("big-c", "c", scale.operations / 2));
        steps.push(mix("big-a", "a", scale.operations / 2));
    }
    steps
}

/// A column of the tables: an engine. ebb has a second one, whose difference from the first is
/// noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Entrant {
    pub engine: EngineName,
    /// Whether this is the second column of the same engine.
    pub is_again: bool,
}

impl Entrant {
    /// Returns the columns of the chosen engines, in the order of the tables.
    pub fn all(engines: &[EngineName]) -> Vec<Self> {
        let mut entrants = Vec::new();
        for &engine in engines {
            let entrant = |is_again| Self { engine, is_again };
            entrants.push(entrant(false));
            if engine == EngineName::Ebb {
                entrants.push(entrant(true));
            }
        }
        entrants
    }

    /// Returns whether this is the first column of ebb, the one that the ratios compare.
    pub fn is_ebb(&self) -> bool {
        self.engine == EngineName::Ebb && !self.is_again
    }

    /// Returns the name in tables and files.
    pub fn label(&self) -> String {
        let again = if self.is_again { "-again" } else { "" };
        format!("{}{again}", self.engine)
    }
}

/// Returns the order of a turn: the items, rotated so that each goes first equally often.
pub fn rotated<T: Copy>(items: &[T], turn: usize) -> Vec<T> {
    let mut items = items.to_vec();
    if !items.is_empty() {
        let len = items.len();
        items.rotate_left(turn % len);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_goes_first_equally_often() {
        let first: Vec<_> = (0..6).map(|turn| rotated(&[1, 2, 3], turn)[0]).collect();
        assert_eq!(first, [1, 2, 3, 1, 2, 3]);
        assert_eq!(rotated(&[1, 2, 3], 1), [2, 3, 1]);
        assert!(rotated::<u8>(&[], 5).is_empty());
    }

    #[test]
    fn only_ebb_runs_twice() {
        let labels = |engines: &[EngineName]| -> Vec<_> {
            Entrant::all(engines).iter().map(Entrant::label).collect()
        };
        assert_eq!(labels(&[EngineName::Ebb]), ["ebb", "ebb-again"]);
        #[cfg(feature = "fjall")]
        assert_eq!(labels(&[EngineName::Fjall]), ["fjall"]);
    }

    #[test]
    fn each_workload_loads_its_records_once() {
        for &workload in WorkloadName::value_variants() {
            let jobs = jobs(&[workload], &Scale::TINY);
            assert!(!jobs.is_empty(), "{workload:?}");
            for job in jobs {
                let steps = job.parts.iter().flat_map(|part| &part.steps);
                let loads = steps
                    .filter(|step| matches!(step, Step::Load { .. } | Step::Prepare))
                    .count();
                assert_eq!(loads, 1, "{workload:?}");
            }
        }
    }
}

//! The steps of a sequence.

use std::time::Duration;

use anyhow::{Context, Result};
use ebb_bench::ycsb::{Distribution, Operation, Workload};
use serde::{Deserialize, Serialize};

use super::snapshots::{BesideSnapshots, Bill};
use super::{Spec, load, scan, snapshots};
use crate::engine::Engine;
use crate::mix::{self, Mix, Records};
use crate::phase::Phase;

/// A step of a sequence.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Writes the records in large batches, and reports no phase.
    Prepare,
    /// Writes the records one by one.
    Load { threads: usize },
    /// Runs a workload of YCSB.
    Mix {
        phase: String,
        /// `a` to `f`.
        workload: String,
        /// Whether records are chosen uniformly, in place of the workload's own distribution.
        uniform: bool,
        threads: usize,
        /// The number of operations of all threads together.
        operations: u64,
    },
    /// Overwrites records for a fixed time, to measure latency and rate of acknowledgements.
    Writes {
        phase: String,
        threads: usize,
        duration_s: f64,
    },
    /// Scans all records of the live content.
    Scan,
    /// Scans all records of a snapshot.
    SnapshotScan,
    /// Measures an idle snapshot while records are overwritten.
    Bill(Bill),
    /// Reads while snapshots exist, and from the oldest snapshot.
    Held(BesideSnapshots),
    /// Overwrites half of the records, then reads them from the live content and from a snapshot.
    Read {
        /// Number of reads of each kind.
        reads: u64,
    },
}

/// A workload of updates only.
const UPDATES: Workload = Workload {
    name: "updates",
    mix: &[(100, Operation::Update)],
    distribution: Distribution::Uniform,
};

impl Step {
    pub(super) fn run(
        &self,
        spec: &Spec,
        engine: &dyn Engine,
        records: &Records,
    ) -> Result<Vec<Phase>> {
        Ok(match self {
            Self::Prepare => {
                load::prepare(engine, spec)?;
                engine.settle()?;
                Vec::new()
            }
            Self::Load { threads } => {
                let work = || load::load(engine, spec, *threads);
                vec![Phase::measure("load", engine, spec.dir(), work)?]
            }
            Self::Mix {
                phase,
                workload,
                uniform,
                threads,
                operations,
            } => {
                let workload: Workload = workload.parse().context("the spec")?;
                let distribution = if *uniform {
                    Distribution::Uniform
                } else {
                    workload.distribution
                };
                let mix = Mix {
                    workload,
                    distribution,
                    threads: *threads,
                    operations_max: *operations,
                    duration_max: None,
                    seed: spec.seed,
                };
                let work = || mix::run(engine, records, &mix);
                vec![Phase::measure(phase, engine, spec.dir(), work)?]
            }
            Self::Writes {
                phase,
                threads,
                duration_s,
            } => {
                let mix = Mix {
                    workload: UPDATES,
                    distribution: UPDATES.distribution,
                    threads: *threads,
                    operations_max: u64::MAX,
                    duration_max: Some(Duration::from_secs_f64(*duration_s)),
                    seed: spec.seed,
                };
                let work = || mix::run(engine, records, &mix);
                vec![Phase::measure(phase, engine, spec.dir(), work)?]
            }
            Self::Scan => vec![scan::live(engine, spec)?],
            Self::SnapshotScan => vec![scan::snapshot(engine, spec)?],
            Self::Bill(bill) => vec![bill.run(engine, spec, records)?],
            Self::Held(held) => vec![held.run(engine, spec, records)?],
            Self::Read { reads } => vec![snapshots::read(engine, spec, records, *reads)?],
        })
    }
}

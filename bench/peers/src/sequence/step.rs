//! The steps that sequences are made of.

use std::time::Duration;

use anyhow::{Context, Result};
use ebb_bench::ycsb::{Distribution, Operation, Workload};
use serde::{Deserialize, Serialize};

use super::snapshots::{Bill, Held};
use super::{Spec, load, scan, snapshots};
use crate::engine::Engine;
use crate::mix::{self, Mix, Records};
use crate::phase::Phase;

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Writes the records in large batches and reports nothing.
    Prepare,
    /// Writes the records one by one.
    Load {
        /// In so many threads.
        threads: usize,
    },
    /// A workload of YCSB.
    Mix {
        /// What the phase is called.
        phase: String,
        /// `a` to `f`.
        workload: String,
        /// Records are chosen all alike, not as the workload says.
        uniform: bool,
        /// In so many threads.
        threads: usize,
        /// So many operations.
        operations: u64,
    },
    /// Writes for a time, for the latency and the rate of acknowledgements.
    Writes {
        /// What the phase is called.
        phase: String,
        /// In so many threads.
        threads: usize,
        /// For so long.
        duration_s: f64,
    },
    /// Reads everything once, live.
    Scan,
    /// Reads everything once from a snapshot.
    SnapshotScan,
    /// What an idle snapshot costs under overwriting.
    Bill(Bill),
    /// Reads beside and from snapshots that are held.
    Held(Held),
    /// Overwrites half, then reads the same keys live and from a snapshot.
    Read {
        /// So many reads of each.
        reads: u64,
    },
}

/// Only updates.
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
                let distribution = match uniform {
                    true => Distribution::Uniform,
                    false => workload.distribution,
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

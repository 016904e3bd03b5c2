//! The work of a child process: a sequence of steps with one engine on one directory. Each step
//! yields phases.

mod load;
mod raw;
mod scan;
mod snapshots;
mod step;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::engine::{EngineName, Settings};
use crate::mix::Records;
use crate::phase::Phase;

pub use snapshots::{BesideSnapshots, Bill};
pub use step::Step;

/// Everything that a child process needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    pub engine: EngineName,
    pub settings: Settings,
    /// Records that the first step loads, or that the directory holds.
    pub records: u64,
    pub value_bytes: usize,
    /// The seed of the random choice of operations and records.
    pub seed: u64,
    pub steps: Vec<Step>,
}

impl Spec {
    /// Runs all steps, and calls `on_phase` with each phase when it ends.
    ///
    /// # Errors
    /// The first error of a step.
    pub fn run(&self, mut on_phase: impl FnMut(&Phase)) -> Result<()> {
        let engine = self.engine.open(&self.settings)?;
        let records = Records::new(self.records, self.value_bytes);
        for step in &self.steps {
            for phase in step.run(self, engine.as_ref(), &records)? {
                on_phase(&phase);
            }
        }
        Ok(())
    }

    fn dir(&self) -> &Path {
        &self.settings.dir
    }
}

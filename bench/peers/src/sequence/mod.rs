//! What a child process does with one engine: a sequence of steps on one
//! directory, each of which yields phases.

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

pub use snapshots::{Bill, Held};
pub use step::Step;

/// All that a child process needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// Which store.
    pub engine: EngineName,
    /// What it is given.
    pub settings: Settings,
    /// Records that the first step loads, or that the directory holds.
    pub records: u64,
    /// Length of values, in bytes.
    pub value_bytes: usize,
    /// Chooses operations and records.
    pub seed: u64,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

impl Spec {
    /// Does it all; `tell` is given each phase as soon as it is over.
    ///
    /// # Errors
    /// The first one.
    pub fn run(&self, mut tell: impl FnMut(&Phase)) -> Result<()> {
        let engine = self.engine.open(&self.settings)?;
        let records = Records::new(self.records, self.value_bytes);
        for step in &self.steps {
            for phase in step.run(self, engine.as_ref(), &records)? {
                tell(&phase);
            }
        }
        Ok(())
    }

    fn dir(&self) -> &Path {
        &self.settings.dir
    }
}

//! A database after a list of operations, and what it holds: what backups,
//! verification and repair are tried on.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, Durability, ManualClock, Options};
use rand::RngExt;

use crate::disk::{MemDisk, manual};
use crate::model::{Outcome, World};
use crate::operation::{Generator, Mix, Operation, TableNo};
use crate::seed::rng;
use crate::session::{Session, Setup};
use crate::setup::{START_MS, drawn};

/// An open database.
#[derive(Debug)]
pub struct Made {
    /// It, as its tables and snapshots.
    pub session: Session,
    /// What it holds.
    pub world: World,
    /// What was done to it, refused operations left out.
    pub operations: Vec<Operation>,
}

impl Made {
    /// A database with everything drawn from a seed, writes synced, after so many
    /// operations, and with every table.
    ///
    /// # Errors
    /// What the database says, or does otherwise than the model.
    pub fn drawn(seed: u64, mem: &MemDisk, mix: Mix, operations: usize) -> Result<Self> {
        let mut rng = rng(seed);
        let bytes = 1 << rng.random_range(13..16);
        let mut setup = drawn(&mut rng, mem, bytes);
        setup.options.durability = Durability::Sync;
        let mut operations = Generator::new(rng, mix).list(operations);
        operations.extend(TableNo::all().map(Operation::CreateTable));
        Self::of(setup, &operations)
    }

    /// A database after these operations.
    ///
    /// # Errors
    /// What the database says, or does otherwise than the model.
    pub fn of(setup: Setup, operations: &[Operation]) -> Result<Self> {
        let mut made = Self {
            session: Session::open(setup)?,
            world: World::default(),
            operations: Vec::new(),
        };
        for operation in operations {
            made.apply(operation)?;
        }
        Ok(made)
    }

    /// Does one more.
    ///
    /// # Errors
    /// What the database says, or does otherwise than the model.
    pub fn apply(&mut self, operation: &Operation) -> Result<()> {
        let found = self.session.apply(operation);
        let found = found.with_context(|| operation.to_string())?;
        let must = self.world.apply(operation);
        ensure!(found == must, "{operation}: {}", found.difference(&must));
        if !matches!(found, Outcome::Refused(_)) {
            self.operations.push(operation.clone());
        }
        Ok(())
    }
}

/// Opens what must be a database, at the time of a world.
///
/// # Errors
/// What the database says.
pub fn open_at(mem: &MemDisk, dir: &str, world: &World) -> ebb_storage::Result<Db> {
    let options = Options {
        create_if_missing: false,
        clock: Arc::new(ManualClock::at_ms(START_MS + world.now_ms)),
        ..manual(mem)
    };
    Db::open(dir, options)
}

//! A database after a list of operations, with its expected content, for tests of backup,
//! verification and repair.

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

/// An open database whose content is known.
#[derive(Debug)]
pub struct Made {
    /// The open database.
    pub session: Session,
    /// The expected content.
    pub world: World,
    /// The operations that were run on the database, without those that it refused.
    pub operations: Vec<Operation>,
}

impl Made {
    /// Creates a database with a random set-up and synced writes, runs `operations` random
    /// operations, and then creates the tables that do not exist.
    ///
    /// # Errors
    /// Any error of the database, and any outcome that differs from the model's.
    pub fn drawn(seed: u64, mem: &MemDisk, mix: Mix, operations: usize) -> Result<Self> {
        let mut rng = rng(seed);
        let bytes = 1 << rng.random_range(13..16);
        let mut setup = drawn(&mut rng, mem, bytes);
        setup.options.durability = Durability::Sync;
        let mut operations = Generator::new(rng, mix).list(operations);
        operations.extend(TableNo::all().map(Operation::CreateTable));
        Self::of(setup, &operations)
    }

    /// Creates a database and runs these operations.
    ///
    /// # Errors
    /// Any error of the database, and any outcome that differs from the model's.
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

    /// Runs one more operation.
    ///
    /// # Errors
    /// Any error of the database, and an outcome that differs from the model's.
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

/// Opens the database in `dir`, which must exist, at the time of `world`.
///
/// # Errors
/// Any error of [`Db::open`].
pub fn open_at(mem: &MemDisk, dir: &str, world: &World) -> ebb_storage::Result<Db> {
    let options = Options {
        create_if_missing: false,
        clock: Arc::new(ManualClock::at_ms(START_MS + world.now_ms)),
        ..manual(mem)
    };
    Db::open(dir, options)
}

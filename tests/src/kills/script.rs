//! A script: the operations of one thread of a process that is killed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, ManualClock, Options};

use super::protocol::ingest_dir;
use crate::crash::reached;
use crate::model::{Outcome, World};
use crate::operation::{Generator, Mix, Operation, TableNo};
use crate::seed::rng;
use crate::session::{Setup, read_prefixed};
use crate::setup::{START_MS, tables};

/// All kinds of changes in the thread's own keyspaces, without reopenings, backups and moves of the
/// clock. As the clock stands still, a TTL ends either at once, or later than any process lives.
/// Flushes and merges are rare: the store does them all the time for the writers of batches, and a
/// thread that requests one has to wait for that work, too.
const MIX: Mix = Mix {
    advance: 0,
    reopen: 0,
    backup: 0,
    maintain: 1,
    ..Mix::CHANGES
};

/// The operations of a thread, in order, with their outcomes. Two scripts of the same seed
/// and thread are equal, also in different processes.
pub struct Script {
    thread: u32,
    generator: Generator,
    next: Operation,
    world: World,
    done: u64,
}

impl Script {
    /// Creates the script of a thread, with no operation done.
    pub fn new(seed: u64, thread: u32) -> Self {
        let rng = rng(seed.wrapping_mul(31).wrapping_add(u64::from(thread)));
        Self {
            thread,
            generator: Generator::new(rng, MIX),
            next: Operation::CreateTable(TableNo(0)),
            world: World::default(),
            done: 0,
        }
    }

    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Returns the number of operations done so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    pub fn next(&self) -> &Operation {
        &self.next
    }

    /// Returns the model after the operations done so far.
    #[cfg(test)]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Marks the next operation as done, and returns the outcome that it must have.
    pub fn advance(&mut self) -> Outcome {
        let outcome = self.world.apply(&self.next);
        self.done += 1;
        let table = TableNo::all().find(|table| table.index() as u64 == self.done);
        self.next = match table {
            Some(table) => Operation::CreateTable(table),
            None => self.generator.operation(),
        };
        outcome
    }

    /// Marks operations as done until `done` of them are.
    pub fn advance_to(&mut self, done: u64) {
        while self.done < done {
            self.advance();
        }
    }

    /// Returns the prefix of the names of the thread's keyspaces.
    pub fn prefix(&self) -> String {
        format!("t{}-", self.thread)
    }

    /// Returns the set-up for a session in which the thread's operations run. `root` is the
    /// directory that contains the store.
    pub fn setup(&self, root: &Path, options: Options) -> Setup {
        Setup {
            options,
            // No operation of the script moves the clock.
            clock: ManualClock::at_ms(START_MS),
            tables: tables(Default::default),
            prefix: self.prefix(),
            ingest_dir: ingest_dir(root, self.thread),
        }
    }

    /// Compares the content of the store with the model: all operations that are marked as done
    /// must be there, and the next one entirely or not at all. If the next one is there, it is
    /// marked as done.
    ///
    /// # Errors
    /// If the store has other content.
    pub fn check(&mut self, db: &Db) -> Result<()> {
        let found = read_prefixed(db, &self.prefix())?;
        let mut after = self.world.clone();
        after.apply(&self.next);
        let worlds = [self.world.clone(), after];
        reached(&worlds, 0, 0, &found)
            .with_context(|| format!("after {} operations, then {}", self.done, self.next))?;
        // Compares which tables exist, too: a table that was not created completely is created
        // again by the next process.
        if found == worlds[1].seen() {
            self.advance();
        } else {
            let must = self.world.seen().without_existence();
            let found = found.without_existence();
            ensure!(
                found == must,
                "a part of it is done: {}",
                found.difference(&must)
            );
        }
        Ok(())
    }
}

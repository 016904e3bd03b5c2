//! The operations of one thread of a process that is killed.

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

/// All that changes something, in keyspaces of the thread's own. Time stands still:
/// what expires does so at once, or later than any process lives. The store flushes
/// and merges all the time for the writers of batches; a thread that asks for it
/// waits for their work too.
const MIX: Mix = Mix {
    advance: 0,
    reopen: 0,
    backup: 0,
    maintain: 1,
    ..Mix::CHANGES
};

/// Operations in the order in which a thread does them, and what they come to.
/// Two from the same seed are the same, in whichever process.
pub struct Script {
    thread: u32,
    generator: Generator,
    next: Operation,
    world: World,
    done: u64,
}

impl Script {
    /// The script of a thread, at its beginning.
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

    /// The thread whose script it is.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// How many operations are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The next operation.
    pub fn next(&self) -> &Operation {
        &self.next
    }

    /// What is there when these are done.
    #[cfg(test)]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Takes the next operation for done; what must come of it.
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

    /// Goes on to where so many operations are done.
    pub fn advance_to(&mut self, done: u64) {
        while self.done < done {
            self.advance();
        }
    }

    /// What the names of the thread's keyspaces begin with.
    pub fn prefix(&self) -> String {
        format!("t{}-", self.thread)
    }

    /// How the thread does its operations; `root` has the store and all beside it.
    pub fn setup(&self, root: &Path, options: Options) -> Setup {
        Setup {
            options,
            // Nothing moves it.
            clock: ManualClock::at_ms(START_MS),
            tables: tables(Default::default),
            prefix: self.prefix(),
            ingest_dir: ingest_dir(root, self.thread),
        }
    }

    /// Holds what is there against what must be: all that is taken for done, and
    /// the next operation whole or not at all. Takes it for done if it is.
    ///
    /// # Errors
    /// When something else is there.
    pub fn check(&mut self, db: &Db) -> Result<()> {
        let found = read_prefixed(db, &self.prefix())?;
        let mut after = self.world.clone();
        after.apply(&self.next);
        let worlds = [self.world.clone(), after];
        reached(&worlds, 0, 0, &found)
            .with_context(|| format!("after {} operations, then {}", self.done, self.next))?;
        // With tables and all: one that could not be made yet is made next.
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

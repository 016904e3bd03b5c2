//! A disk that runs out of space now and then, and whose power may fail at any time.
//!
//! An operation that finds no space is refused entirely, as `DiskFull` and nothing else, and the
//! database keeps running: later operations are tried as usual, and once there is space again they
//! succeed, without the database being reopened. After a power loss, acknowledged operations are
//! there, refused ones are not, and the one under way is there entirely or not at all.

use anyhow::{Context, Result, bail, ensure};
use ebb_storage::{Durability, ErrorKind};
use rand::RngExt;

use crate::caught::caught;
use crate::disk::{MemDisk, lose_power, no_orphans};
use crate::model::{State, World};
use crate::operation::{Generator, Mix, Operation};
use crate::report::{Budget, Counter, Report};
use crate::seed::{Rng, rng};
use crate::session::{Session, read_everything};
use crate::setup::drawn;

/// Number of operations while space comes and goes.
const OPERATIONS: usize = 150;
/// Number of operations once there is space for good.
const OPERATIONS_AFTER: usize = 10;
/// In half of the runs, power is lost at an I/O call with a random number below this. A run that
/// makes fewer calls keeps its power.
const CALLS: u64 = 2000;
/// The usual changes, without reopenings: a reopening needs space too, and `faults` covers that.
const MIX: Mix = Mix {
    reopen: 0,
    ..Mix::CHANGES
};

/// Runs the list of operations of this seed on a disk that runs out of space now and then. Runs it
/// whole, whatever the budget.
pub fn run(seed: u64, _: &Budget) -> Report {
    let mut report = Report::default();
    let mut refused = 0;
    let outcome = caught(|| survives(seed, &mut refused));
    report.count(Counter::Faults, refused);
    report.note(outcome, || format!("scarcity:{seed}"));
    report
}

/// Runs the list of operations of `seed`, and compares the database with the model. Adds the number
/// of refused operations to `refused`.
fn survives(seed: u64, refused: &mut u64) -> Result<()> {
    let mut rng = rng(seed);
    let mem = MemDisk::new();
    let bytes = 1 << rng.random_range(13..16);
    let mut setup = drawn(&mut rng, &mem, bytes);
    setup.options.durability = Durability::Sync;
    let mut session = Session::open(setup.clone())?;
    let mut generator = Generator::new(crate::seed::rng(seed ^ 0x5ca), MIX);
    let mut states = States::default();
    for operation in generator.list(0) {
        states.does(&mut session, &operation)?;
    }
    if rng.random_bool(0.5) {
        mem.crash_at(rng.random_range(1..CALLS));
    }
    for _ in 0..OPERATIONS {
        if rng.random_bool(0.2) {
            change_space(&mut rng, &mem);
        }
        let operation = generator.operation();
        *refused += u64::from(!states.tries(&mut session, &operation, &mem)?);
        if !mem.has_power() {
            break;
        }
    }
    if mem.has_power() {
        mem.crash_at(u64::MAX);
        mem.set_capacity_bytes(None);
        goes_on(&mut states, &mut session, &mut generator, &mem).context("with space again")?;
    }
    mem.set_capacity_bytes(None);
    lose_power(&mem, session, seed);
    let session = Session::open(setup).context("after a power loss")?;
    let found = read_everything(session.db()).context("after a power loss")?;
    states
        .check(&found)
        .with_context(|| format!("after {refused} refusals and a power loss"))?;
    session.db().verify().context("after a power loss")?;
    no_orphans(&mem, session.db())
}

/// Leaves a little free space on the disk, or lifts the limit.
fn change_space(rng: &mut Rng, mem: &MemDisk) {
    let room = mem.used_bytes() + rng.random_range(0..3000);
    mem.set_capacity_bytes(rng.random_bool(0.7).then_some(room));
}

/// Checks, on a disk that has space again, that flushes, merges and more operations succeed without
/// the database being reopened, and that the content is right.
fn goes_on(
    states: &mut States,
    session: &mut Session,
    generator: &mut Generator,
    mem: &MemDisk,
) -> Result<()> {
    for operation in [Operation::Flush, Operation::Compact] {
        states.does(session, &operation)?;
    }
    let failure = session.db().stats().maintenance_failure;
    ensure!(
        failure.is_none(),
        "maintenance goes on failing: {failure:?}"
    );
    no_orphans(mem, session.db())?;
    for _ in 0..OPERATIONS_AFTER {
        states.does(session, &generator.operation())?;
    }
    states.check(&read_everything(session.db())?)
}

/// The expected content. After a power loss, the content may also be `under_way`, which includes
/// the effect of the operation that the power loss interrupted.
#[derive(Default)]
struct States {
    world: World,
    under_way: Option<World>,
}

impl States {
    /// Runs an operation that must succeed.
    fn does(&mut self, session: &mut Session, operation: &Operation) -> Result<()> {
        let found = session
            .apply(operation)
            .with_context(|| operation.to_string())?;
        let must = self.world.apply(operation);
        ensure!(found == must, "{operation}: {}", found.difference(&must));
        Ok(())
    }

    /// Runs an operation that may find no space, or lose power. Returns false if it was refused for
    /// lack of space.
    fn tries(
        &mut self,
        session: &mut Session,
        operation: &Operation,
        mem: &MemDisk,
    ) -> Result<bool> {
        let mut after = self.world.clone();
        let must = after.apply(operation);
        match session.apply(operation) {
            Ok(found) => {
                ensure!(found == must, "{operation}: {}", found.difference(&must));
                self.world = after;
                Ok(true)
            }
            Err(_) if !mem.has_power() => {
                self.under_way = Some(after);
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::DiskFull => {
                match read_everything(session.db()) {
                    Err(_) if !mem.has_power() => {}
                    found => self
                        .check(&found?)
                        .with_context(|| format!("after {operation} was refused"))?,
                }
                Ok(false)
            }
            Err(e) => Err(e).context(operation.to_string()),
        }
    }

    fn check(&self, found: &State) -> Result<()> {
        let now_ms = self.world.now_ms;
        let states = [Some(&self.world), self.under_way.as_ref()];
        let mut states = states.into_iter().flatten();
        if !states.any(|world| world.seen_at(now_ms) == *found) {
            bail!("{}", found.difference(&self.world.seen()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_keeps_what_it_refused_is_caught() {
        let mut states = States::default();
        let mut kept = World::default();
        for operation in ["create-table app.users", "write put app.users k20 v1x5"] {
            kept.apply(&operation.parse().unwrap());
        }
        assert!(states.check(&kept.seen()).is_err());
        states.under_way = Some(kept.clone());
        assert!(states.check(&kept.seen()).is_ok());
    }
}

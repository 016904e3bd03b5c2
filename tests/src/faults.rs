//! I/O calls that fail, and disks that fill up, at each place of a list of operations.
//!
//! Whichever call fails: no read returns a wrong value, nothing panics, a failed operation takes
//! effect entirely or not at all, and after reopening everything acknowledged is there. The content
//! that a reopening found is final: new synced writes and a power loss do not change it. A failed
//! fsync loses what it was to write, as on Linux.
//!
//! A full disk is reported as `DiskFull` and nothing else. Nothing of the refused operation is
//! left, the database keeps running, and once there is space it accepts writes again without being
//! reopened.

use anyhow::{Context, Result, bail, ensure};
use ebb_storage::{Durability, Error, ErrorKind, Maintenance};
use rand::RngExt;
use std::io;

use crate::caught::caught;
use crate::crash::goes_on;
use crate::disk::{FaultOp, MemDisk, lose_power};
use crate::model::{State, World};
use crate::operation::{Generator, Key, Mix, Operation, TableNo, Val, Write};
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use crate::session::{Session, Setup, read_everything};
use crate::setup::drawn;

/// Number of operations in a list: small, because the list runs once for each fault.
const OPERATIONS: std::ops::Range<usize> = 15..40;
/// Approximate number of bytes that a list of operations writes.
const WRITTEN_BYTES: u64 = 4000;
/// Number of disk sizes that are tried with each list of operations.
const CAPACITIES: u64 = 50;
/// Number of failed operations after which a disk that is full gets space again.
const REFUSALS: usize = 3;
/// One seed in this many runs its list of operations with background threads. Then it is a matter
/// of chance which call is the nth one, and fails.
const BACKGROUND_EVERY: u64 = 15;

/// The errors with which calls fail. `UnexpectedEof` stands for a short read, as past the end of a
/// file.
const KINDS: [io::ErrorKind; 6] = [
    io::ErrorKind::Other,
    io::ErrorKind::Interrupted,
    io::ErrorKind::TimedOut,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::StorageFull,
];

/// The kinds of calls that fail. `Any` makes every call fail in turn, whatever its kind; each other
/// entry makes every call of a single kind fail in turn.
const OPS: [FaultOp; 4] = [
    FaultOp::Any,
    FaultOp::Sync,
    FaultOp::Append,
    FaultOp::SyncDir,
];

/// The fault that one run of a list of operations has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A call of some kind fails: the position of the kind in `OPS`, and the number of the call
    /// among those of its kind, counted from 1.
    Call(usize, u64),
    /// The disk has room for this many bytes.
    Full(u64),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(op, nth) => write!(f, "call:{op}:{nth}"),
            Self::Full(bytes) => write!(f, "full:{bytes}"),
        }
    }
}

impl std::str::FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match *text.split(':').collect::<Vec<_>>() {
            ["call", op, nth] => {
                let op = op.parse()?;
                ensure!(op < OPS.len(), "there is no kind of call {op}");
                Ok(Self::Call(op, nth.parse()?))
            }
            ["full", bytes] => Ok(Self::Full(bytes.parse()?)),
            _ => bail!("{text} is neither call:KIND:NTH nor full:BYTES"),
        }
    }
}

/// Runs the list of operations of this seed again and again, with another fault each time: the disk
/// fills up at many places, then each I/O call fails.
pub fn run(seed: u64, budget: &Budget) -> Report {
    let mut report = Report::default();
    let case = Case::new(seed);
    // Returns whether the fault occurred. A failed case counts as one in which it did, so that the
    // cases after it run too.
    let mut look = |fault: Fault| {
        report.count(Counter::Faults, 1);
        match caught(|| case.survives(fault)) {
            Ok(struck) => struck,
            Err(e) => {
                report.note(Err(e), || format!("faults:{seed}:{fault}"));
                true
            }
        }
    };
    // Full disks come first, because they are few.
    let whole_bytes = case.whole_bytes();
    let mut cases = 0;
    for i in 0..CAPACITIES {
        let bytes = (i * whole_bytes + seed % CAPACITIES) / CAPACITIES;
        look(Fault::Full(bytes));
        cases += 1;
        if budget.is_spent_after(cases) {
            return report;
        }
    }
    for op in 0..OPS.len() {
        for nth in (1..).step_by(case.step()) {
            let struck = look(Fault::Call(op, nth));
            cases += 1;
            if budget.is_spent_after(cases) {
                return report;
            }
            if !struck {
                break;
            }
        }
    }
    report
}

/// Runs the list of operations of this seed with one fault.
///
/// # Errors
/// Describes the check that failed.
pub fn replay(seed: u64, fault: Fault) -> Result<()> {
    caught(|| Case::new(seed).survives(fault)).map(drop)
}

struct Case {
    seed: u64,
    durability: Durability,
    maintenance: Maintenance,
    operations: Vec<Operation>,
}

/// The states that the database may have, by the model: `world`, and any that is in `failed` or
/// `twin`.
struct Expected {
    world: World,
    /// The state if the first operation that failed took effect after all. A reopening may find
    /// this state, until a later commit changes something. `None` if there is no such operation.
    failed: Option<World>,
    /// A second possible state beside `world`, or `None` if `world` is the only one. The reads so
    /// far did not distinguish the two states, because the effect of a failed operation may show
    /// only when the clock moves on.
    twin: Option<World>,
    /// Whether, since the last opening, an operation failed with an error other than a full disk.
    broken: bool,
    /// The number of failed operations. When it reaches [`REFUSALS`], a full disk gets space again.
    /// After the last operation of the list the disk gets space anyway, and this is set to
    /// [`REFUSALS`].
    refusals: usize,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = rng(seed);
        let count = rng.random_range(OPERATIONS);
        let background = seed % BACKGROUND_EVERY == BACKGROUND_EVERY - 1;
        Self {
            seed,
            durability: [Durability::Sync, Durability::Os][(seed % 2) as usize],
            maintenance: if background {
                Maintenance::Background
            } else {
                Maintenance::Manual
            },
            operations: Generator::new(rng, Mix::CHANGES).list(count),
        }
    }

    /// Returns the distance between the I/O calls that fail in two successive runs: each run has
    /// one failing call. With background threads the order of the calls is random, so a sample of
    /// them is enough.
    fn step(&self) -> usize {
        match self.maintenance {
            Maintenance::Background => 7,
            Maintenance::Manual => 1,
        }
    }

    fn setup(&self, mem: &MemDisk) -> Setup {
        let mut setup = drawn(&mut rng(self.seed ^ 0xfa), mem, WRITTEN_BYTES);
        setup.options.durability = self.durability;
        setup.options.maintenance = self.maintenance;
        setup
    }

    /// Returns the number of bytes that the disk holds after all operations of the list have run.
    fn whole_bytes(&self) -> u64 {
        let mem = MemDisk::new();
        if let Ok(mut session) = Session::open(self.setup(&mem)) {
            for operation in &self.operations {
                let _ = session.apply(operation);
            }
        }
        mem.used_bytes()
    }

    /// Runs the list of operations with the fault; returns whether the fault occurred.
    fn survives(&self, fault: Fault) -> Result<bool> {
        let mem = MemDisk::new();
        if self.maintenance == Maintenance::Background {
            mem.set_slow(4, self.seed);
        }
        match fault {
            Fault::Call(op, nth) => {
                let kind = KINDS[((nth + self.seed) % KINDS.len() as u64) as usize];
                mem.fail_next(OPS[op], nth, kind);
            }
            Fault::Full(bytes) => mem.set_capacity_bytes(Some(bytes)),
        }
        let mut expected = Expected {
            world: World::default(),
            failed: None,
            twin: None,
            broken: false,
            refusals: 0,
        };
        let setup = self.setup(&mem);
        let mut session = match Session::open(setup.clone()) {
            Ok(session) => session,
            Err(e) => {
                accept(&e, fault)?;
                mem.set_capacity_bytes(None);
                Session::open(setup.clone()).context("opening again after a failure")?
            }
        };
        for operation in &self.operations {
            self.step_on(&mem, &mut session, operation, (&mut expected, fault))
                .with_context(|| operation.to_string())?;
        }
        if matches!(fault, Fault::Full(_)) {
            mem.set_capacity_bytes(None);
            expected.refusals = REFUSALS;
            for operation in writes_everywhere() {
                self.step_on(&mem, &mut session, &operation, (&mut expected, fault))
                    .with_context(|| format!("with space again, {operation}"))?;
            }
        }
        let found = read_patiently(&session, fault).context("in the end")?;
        expected.choose(|world| world.seen() == found);
        let must = expected.world.seen();
        ensure!(found == must, "in the end: {}", found.difference(&must));
        self.survives_the_end(&mem, &setup, session, expected, fault)
    }

    /// Runs one operation, which may fail because of the fault. Compares its outcome, and after a
    /// failure the whole content, with the states in `expected`, and updates these states.
    fn step_on(
        &self,
        mem: &MemDisk,
        session: &mut Session,
        operation: &Operation,
        (expected, fault): (&mut Expected, Fault),
    ) -> Result<()> {
        let mut outcome = session.apply(operation);
        let full = |error: &Error| error.kind() == ErrorKind::DiskFull;
        if self.maintenance == Maintenance::Background
            && expected.refusals >= REFUSALS
            && outcome.as_ref().is_err_and(full)
        {
            // Background threads notice the space only after a while, or when a flush or a merge is requested.
            // Both are requested, because writes are refused while either finds no space.
            session.apply(&Operation::Flush)?;
            session.apply(&Operation::Compact)?;
            outcome = session.apply(operation);
        }
        // Only one of the two possible states may lead to this outcome.
        if let Ok(found) = &outcome {
            expected.choose(|world| world.clone().apply(operation) == *found);
        }
        let mut after = expected.world.clone();
        let must = after.apply(operation);
        let error = match outcome {
            Ok(found) => {
                ensure!(found == must, "{}", found.difference(&must));
                // A reopening may find the effect of a failed operation, which the model of a
                // reopening does not have.
                if *operation == Operation::Reopen {
                    let found = read_patiently(session, fault)?;
                    return expected.settle(&found);
                }
                if let Some(twin) = &mut expected.twin {
                    twin.apply(operation);
                }
                // Once a commit has changed something, no reopening may find the state that an
                // earlier failure left behind.
                if operation.is_commit() && after.seen() != expected.world.seen() {
                    expected.failed = None;
                }
                expected.world = after;
                return Ok(());
            }
            Err(error) => error,
        };
        accept(&error, fault)?;
        expected.refusals += 1;
        let full = full(&error);
        ensure!(
            !full || expected.refusals <= REFUSALS || expected.broken,
            "there is space again: {error}"
        );
        // From here on there is space, and operations must succeed again.
        if expected.refusals == REFUSALS {
            mem.set_capacity_bytes(None);
        }
        if !session.is_open() {
            // A reopening failed. The second try must find space, as opening the database may need
            // some.
            mem.set_capacity_bytes(None);
            session.reopen().context("a second try")?;
            let found = read_patiently(session, fault)?;
            return expected.settle(&found);
        }
        if expected.broken && error.kind() == ErrorKind::ReadOnly {
            // The content was compared when the database broke, and is compared again in the end.
            return Ok(());
        }
        let found = read_patiently(session, fault)?;
        // If the creation of a table failed, its keyspace may still have been created.
        let existence = matches!(operation, Operation::CreateTable(_));
        let is = |world: &World| {
            if existence {
                found.clone().without_existence() == world.seen().without_existence()
            } else {
                found == world.seen()
            }
        };
        // Although it failed, the operation may have taken effect, if it did so entirely.
        if is(&after) && !is(&expected.world) {
            expected.world = after;
        } else {
            expected.choose(is);
            ensure!(
                is(&expected.world),
                "it failed ({error}) and left something else: {}",
                found.difference(&expected.world.seen())
            );
            // A full disk leaves nothing of the operation. After other errors the log or the
            // manifest may contain it, so a reopening may find its effect.
            let changes = operation.is_commit() || matches!(operation, Operation::DropTable(_));
            if changes && !full && !expected.broken {
                expected.failed = Some(after);
            }
        }
        // Takes over the keyspace that a failed creation of a table may have left.
        expected.world.exist_as(&found);
        // After an error other than a full disk the database may refuse all writes.
        expected.broken |= !full;
        Ok(())
    }

    /// Closes the database or cuts the power, reopens the database, writes more, and cuts the
    /// power. Returns whether the fault occurred. With background threads, a fault that has not
    /// occurred yet is removed before the database is closed.
    fn survives_the_end(
        &self,
        mem: &MemDisk,
        setup: &Setup,
        session: Session,
        mut expected: Expected,
        fault: Fault,
    ) -> Result<bool> {
        mem.set_capacity_bytes(None);
        let mut struck = mem.armed_faults() == 0;
        if self.maintenance == Maintenance::Background {
            // With threads the fault could occur anywhere from here on: the number of calls varies.
            mem.clear_faults();
        }
        let cut = self.durability == Durability::Sync
            && matches!(fault, Fault::Call(_, n) | Fault::Full(n) if n % 2 == 0);
        if cut {
            lose_power(mem, session, self.seed);
        } else {
            drop(session);
        }
        let mut session = match Session::open(setup.clone()) {
            Ok(session) => session,
            // The fault may occur only here.
            Err(e) => {
                accept(&e, fault)?;
                Session::open(setup.clone()).context("opening at last")?
            }
        };
        let found = read_patiently(&session, fault).context("after the end")?;
        expected.settle(&found).context("after the end")?;
        if mem.armed_faults() > 0 {
            return Ok(false);
        }
        struck |= self.maintenance == Maintenance::Manual;
        let written = goes_on(&mut session, found, self.seed.is_multiple_of(3))?;
        lose_power(mem, session, self.seed + 1);
        let session = Session::open(setup.clone()).context("after more writes and a power loss")?;
        let found = read_everything(session.db()).context("after more writes and a power loss")?;
        ensure!(
            found == written,
            "after more writes and a power loss: {}",
            found.difference(&written)
        );
        Ok(struck)
    }
}

impl Expected {
    /// If there are two possible states, and `is` returns true for only one of them, drops the
    /// other one. If `is` returns false for both, keeps `world`.
    fn choose(&mut self, is: impl Fn(&World) -> bool) {
        let Some(twin) = self.twin.take() else {
            return;
        };
        match (is(&self.world), is(&twin)) {
            (true, true) => self.twin = Some(twin),
            (false, true) => self.world = twin,
            _ => {}
        }
    }

    /// Continues with the state that a reopening found.
    ///
    /// # Errors
    /// If it is none of the possible states.
    fn settle(&mut self, found: &State) -> Result<()> {
        self.broken = false;
        let now_ms = self.world.now_ms;
        let found_content = found.clone().without_existence();
        let is = |world: &World| found_content == world.seen_at(now_ms).without_existence();
        self.choose(is);
        match self.failed.take() {
            Some(failed) if is(&failed) => {
                let other = std::mem::replace(&mut self.world, failed);
                self.twin = is(&other).then_some(other);
            }
            _ => ensure!(
                is(&self.world),
                "reopened: {}",
                found.difference(&self.world.seen())
            ),
        }
        if let Some(twin) = &mut self.twin {
            twin.now_ms = now_ms;
            twin.exist_as(found);
        }
        self.world.now_ms = now_ms;
        self.world.exist_as(found);
        Ok(())
    }
}

/// Checks that the fault explains the error. A full disk must be reported as `DiskFull`.
fn accept(error: &Error, fault: Fault) -> Result<()> {
    let explained = match (error, fault) {
        // One of the errors of failing calls is `StorageFull`.
        (Error::DiskFull { .. }, Fault::Full(_) | Fault::Call(..)) => true,
        (Error::Io { .. } | Error::ReadOnly { .. }, Fault::Call(..)) => true,
        // A short read looks like a file that was cut. A file that cannot be read is a finding of
        // the verification of a backup.
        (Error::Corruption { detail, .. }, Fault::Call(..)) => {
            ["the file ends within", "it cannot be read"]
                .iter()
                .any(|start| detail.starts_with(start))
        }
        _ => false,
    };
    ensure!(explained, "a wrong error: {error}");
    Ok(())
}

/// Returns operations that write to every table, then flush, merge and sync.
fn writes_everywhere() -> Vec<Operation> {
    let mut operations: Vec<_> = TableNo::all().map(Operation::CreateTable).collect();
    let value = Val {
        number: 900_000,
        bytes: 40,
    };
    let write = |table| Write::Put(table, Key(30), value);
    operations.push(Operation::Write(TableNo::all().map(write).collect()));
    operations.extend([Operation::Flush, Operation::Compact, Operation::Sync]);
    operations
}

/// Reads everything. If the fault occurs in the first read, reads once more.
fn read_patiently(session: &Session, fault: Fault) -> Result<State> {
    read_everything(session.db())
        .or_else(|e| {
            accept(&e, fault)?;
            Ok::<_, anyhow::Error>(read_everything(session.db())?)
        })
        .context("reading everything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_call_may_fail_and_any_disk_may_fill_up() {
        // The first seed syncs each write, the second none.
        for seed in 0..2 {
            let report = run(seed, &Budget::UNLIMITED);
            assert_eq!(report.failures, []);
            assert!(report.counted(Counter::Faults) > 100);
        }
    }

    /// Regression of this randomized test: with background threads, a fault that never occurred
    /// counted as one that did. So `run` tried later and later calls until its budget was spent, or
    /// for ever.
    #[test]
    fn a_fault_at_a_call_that_never_comes_does_not_count_with_threads_either() {
        let case = Case::new(BACKGROUND_EVERY - 1);
        assert_eq!(case.maintenance, Maintenance::Background);
        assert!(case.survives(Fault::Call(0, 1)).unwrap());
        assert!(!case.survives(Fault::Call(0, 1_000_000)).unwrap());
    }

    #[test]
    fn a_store_that_keeps_what_it_refused_is_caught() {
        let mut expected = Expected {
            world: World::default(),
            failed: None,
            twin: None,
            broken: false,
            refusals: 0,
        };
        let mut world = World::default();
        world.apply(&"create-table app.users".parse().unwrap());
        world.apply(&"write put app.users k20 v1x5".parse().unwrap());
        let found = world.seen();
        assert!(expected.settle(&found).is_err());
        expected.failed = Some(world);
        assert!(expected.settle(&found).is_ok());
    }

    #[test]
    fn a_full_disk_that_is_reported_as_another_error_is_caught() {
        let path = std::path::PathBuf::from("/db/1.log");
        let failure = Error::Io {
            action: "write",
            path: path.clone(),
            source: std::sync::Arc::new(io::ErrorKind::StorageFull.into()),
        };
        assert!(accept(&failure, Fault::Full(10)).is_err());
        assert!(accept(&Error::DiskFull { path }, Fault::Full(10)).is_ok());
    }

    #[test]
    fn faults_read_back_as_they_were_printed() {
        for fault in [Fault::Call(2, 17), Fault::Full(4096)] {
            assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
        }
        assert!("call:9:1".parse::<Fault>().is_err());
    }
}

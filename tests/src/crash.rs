//! Power losses at every I/O call of a list of operations.
//!
//! After each loss the machine restarts (in every second case, power is lost again during the
//! recovery), and the database is compared with the states that the list went through:
//!
//! - with synced writes, everything acknowledged is there; otherwise a prefix of the commit order
//!   that contains everything that was made durable in another way;
//! - the operation under way took effect entirely or not at all, over all its tables;
//! - every snapshot has exactly the content that it was created with;
//! - no obsolete file is left;
//! - a second recovery finds the same state;
//! - later writes get numbers above every snapshot, and survive.

use anyhow::{Context, Result, bail, ensure};
use ebb_storage::{Db, Durability, Maintenance};
use rand::RngExt;

use crate::caught::caught;
use crate::disk::{DIR, MemDisk, lose_power, no_orphans};
use crate::model::{Outcome, State, World};
use crate::operation::{Generator, Key, Mix, Operation, TableNo, Val, Write};
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use crate::session::{Session, Setup, read_everything};
use crate::setup::drawn;

/// Number of operations in a list. It is small, because the list runs twice for each of its I/O
/// calls.
const OPERATIONS: std::ops::Range<usize> = 15..50;
/// Approximate number of bytes that a list of operations writes; the sizes of memtables and files
/// are derived from it.
const WRITTEN_BYTES: u64 = 5000;
/// Approximate number of I/O calls of a recovery; the second power loss falls on one of them.
const RECOVERY_CALLS: u64 = 60;
/// Approximate number of I/O calls of [`drop_everything`]; a power loss falls on one of them.
const EMPTYING_CALLS: u64 = 60;
/// If threads flush and compact, power is lost at one in this many I/O calls only. A sample is
/// enough, because the order of the calls then differs from run to run.
const SAMPLE_EVERY: usize = 7;

/// The kind of list of operations. It follows from the seed of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All kinds of changes, in the usual proportions.
    Plain,
    /// Many ingested files.
    Ingests,
    /// Many dropped tables and many snapshots.
    Drops,
    /// All kinds of changes, in the usual proportions, while threads flush and compact.
    Threads,
}

/// The kinds of lists of operations. Seeds `2n` and `2n + 1` have the same kind, with one
/// durability each, and successive pairs of seeds take the kinds in turn.
const KINDS: [Kind; 8] = {
    use Kind::{Drops, Ingests, Plain, Threads};
    [Plain, Plain, Plain, Plain, Plain, Ingests, Drops, Threads]
};
/// The durabilities with which lists of operations run; seeds take them in turn.
const DURABILITIES: [Durability; 2] = [Durability::Sync, Durability::Os];

/// The number of consecutive seeds in which each kind of list occurs with each durability.
pub const PERIOD: u64 = (KINDS.len() * DURABILITIES.len()) as u64;

/// Returns the kind of the list of operations that is generated from `seed`.
pub fn kind(seed: u64) -> Kind {
    let nth = seed / DURABILITIES.len() as u64;
    KINDS[(nth % KINDS.len() as u64) as usize]
}

/// Returns the durability with which the list of operations of `seed` runs.
pub fn durability(seed: u64) -> Durability {
    DURABILITIES[(seed % DURABILITIES.len() as u64) as usize]
}

/// Runs this seed's list of operations again and again. Each I/O call of the list gets two runs, in
/// which the power is lost at that call; in the second of them it is lost again during the
/// recovery. If threads flush and compact, only a sample of the calls is tried. Ends early once the
/// budget is spent.
pub fn run(seed: u64, budget: &Budget) -> Report {
    let mut report = Report::default();
    let case = match caught(|| Case::new(seed)) {
        Ok(case) => case,
        Err(e) => {
            report.note(Err(e), || format!("crash:{seed}"));
            return report;
        }
    };
    for crash_at in (1..=case.calls).step_by(case.step()) {
        // Each case loses power at another call of the recovery; 7 and 60 have no common divisor,
        // so all calls get their turn.
        let again = 1 + (seed.wrapping_mul(31) + crash_at * 7) % RECOVERY_CALLS;
        for again_at in [None, Some(again)] {
            report.count(Counter::CrashPoints, 1);
            let outcome = caught(|| case.recovers_from(crash_at, again_at));
            report.note(outcome, || match again_at {
                None => format!("crash:{seed}:{crash_at}"),
                Some(again) => format!("crash:{seed}:{crash_at}:{again}"),
            });
        }
        if budget.is_spent_after(report.counted(Counter::CrashPoints)) {
            break;
        }
    }
    report
}

/// Loses power at the I/O call `crash_at`, and at the call `again_at` of the recovery, if given.
///
/// # Errors
/// Describes the check that failed.
pub fn replay(seed: u64, crash_at: u64, again_at: Option<u64>) -> Result<()> {
    caught(|| Case::new(seed)?.recovers_from(crash_at, again_at))
}

/// A list of operations, with everything that makes a run of it reproducible.
struct Case {
    seed: u64,
    durability: Durability,
    /// The durability that the checks expect. It differs from `durability` only in tests of the
    /// checks.
    promised: Durability,
    maintenance: Maintenance,
    operations: Vec<Operation>,
    /// The outcome that each operation must have, by the model.
    outcomes: Vec<Outcome>,
    /// `worlds[n]` is the model after the first `n` operations.
    worlds: Vec<World>,
    /// Number of I/O calls of a run without a power loss.
    calls: u64,
}

/// A run of the list of operations, up to the power loss.
struct Run {
    mem: MemDisk,
    /// Number of operations that returned without an error.
    acknowledged: usize,
    /// Number of operations that must survive the power loss: fewer than `acknowledged` if not
    /// every write is synced.
    durable: usize,
    /// The first outcome before the power loss that differs from the model's; `None` if none does.
    wrong: Option<String>,
}

impl Case {
    fn new(seed: u64) -> Result<Self> {
        let mut rng = rng(seed);
        let count = rng.random_range(OPERATIONS);
        let mix = match kind(seed) {
            Kind::Ingests => Mix {
                ingest: 60,
                ..Mix::CHANGES
            },
            Kind::Drops => Mix {
                drop: 40,
                snapshot: 80,
                ..Mix::CHANGES
            },
            _ => Mix::CHANGES,
        };
        let operations = Generator::new(rng, mix).list(count);
        let mut worlds = vec![World::default()];
        let mut outcomes = Vec::new();
        for operation in &operations {
            let mut world = worlds.last().expect("there is a first").clone();
            outcomes.push(world.apply(operation));
            worlds.push(world);
        }
        let durability = durability(seed);
        let mut case = Self {
            seed,
            durability,
            promised: durability,
            maintenance: match kind(seed) {
                Kind::Threads => Maintenance::Background,
                _ => Maintenance::Manual,
            },
            operations,
            outcomes,
            worlds,
            calls: 0,
        };
        let whole = case.run(None);
        if let Some(wrong) = whole.wrong {
            bail!("with power all the time: {wrong}");
        }
        ensure!(
            whole.acknowledged == case.operations.len(),
            "with power all the time only {} operations succeed",
            whole.acknowledged
        );
        case.calls = whole.mem.io_calls();
        Ok(case)
    }

    /// Returns the step from one I/O call at which power is lost to the next one that is tried.
    fn step(&self) -> usize {
        match self.maintenance {
            Maintenance::Background => SAMPLE_EVERY,
            Maintenance::Manual => 1,
        }
    }

    /// Returns the set-up of the database and its tables, which is equal for every run except for
    /// the clock. The clock is at the time to which the acknowledged operations moved it, because
    /// the machine's clock continues over a power loss.
    fn setup(&self, mem: &MemDisk, acknowledged: usize) -> Setup {
        let mut setup = drawn(&mut rng(self.seed ^ 0xebb), mem, WRITTEN_BYTES);
        setup.options.durability = self.durability;
        setup.clock.advance_ms(self.worlds[acknowledged].now_ms);
        setup
    }

    /// Runs the list of operations until its end or, if `crash_at` is given, until the power fails
    /// at this I/O call.
    fn run(&self, crash_at: Option<u64>) -> Run {
        let mem = MemDisk::new();
        if let Some(call) = crash_at {
            mem.crash_at(call);
        }
        let mut run = Run {
            mem: mem.clone(),
            acknowledged: 0,
            durable: 0,
            wrong: None,
        };
        let mut setup = self.setup(&mem, 0);
        setup.options.maintenance = self.maintenance;
        let Ok(mut session) = Session::open(setup) else {
            return run;
        };
        let mut last_write = 0;
        for (i, (operation, expected)) in self.operations.iter().zip(&self.outcomes).enumerate() {
            match session.apply(operation) {
                Err(_) if !mem.has_power() => break,
                Err(e) => {
                    run.wrong = Some(format!("{operation}: {e}"));
                    break;
                }
                Ok(found) if found != *expected => {
                    let difference = found.difference(expected);
                    run.wrong = Some(format!("{operation}: {difference}"));
                    break;
                }
                Ok(_) => {}
            }
            run.acknowledged = i + 1;
            if operation.is_write() {
                last_write = i + 1;
            }
            match operation {
                // Closing the database syncs everything, as long as there is power. A drop syncs
                // everything before it.
                Operation::Sync | Operation::Reopen | Operation::DropTable(_) => {
                    run.durable = i + 1
                }
                _ if self.promised == Durability::Sync => run.durable = i + 1,
                // A flush syncs what it writes out, and everything before.
                Operation::Flush => run.durable = last_write.max(run.durable),
                _ => {}
            }
        }
        run
    }

    /// Loses power at the I/O call `crash_at` and, if `again_at` is given, at that call of the
    /// recovery. Checks that the recovered content is one of the allowed states, that a second
    /// recovery finds the same, and that later writes survive another power loss.
    fn recovers_from(&self, crash_at: u64, again_at: Option<u64>) -> Result<()> {
        let run = self.run(Some(crash_at));
        if let Some(wrong) = run.wrong {
            bail!("before the crash: {wrong}");
        }
        let mem = &run.mem;
        mem.restart(self.seed.wrapping_mul(1000).wrapping_add(crash_at));
        if let Some(call) = again_at {
            mem.crash_at(call);
            drop(Db::open(DIR, self.setup(mem, run.acknowledged).options));
            mem.restart(crash_at + call);
        }
        let found = {
            let session = Session::open(self.setup(mem, run.acknowledged)).context("recovery")?;
            let found = read_everything(session.db()).context("after the recovery")?;
            self.check(run.acknowledged, run.durable, &found)?;
            no_orphans(mem, session.db())?;
            session.db().verify().context("after the recovery")?;
            found
        };
        let mut session =
            Session::open(self.setup(mem, run.acknowledged)).context("second recovery")?;
        let second = read_everything(session.db()).context("after a second recovery")?;
        ensure!(
            second == found,
            "a second recovery finds something else: {}",
            second.difference(&found)
        );
        let written = goes_on(&mut session, found, crash_at.is_multiple_of(2))?;
        lose_power(mem, session, crash_at);
        let session = Session::open(self.setup(mem, run.acknowledged))
            .context("recovery of what came next")?;
        let third = read_everything(session.db()).context("of what came next")?;
        ensure!(
            third == written,
            "what was written next did not survive as it was: {}",
            third.difference(&written)
        );
        if kind(self.seed) == Kind::Drops {
            drop(session);
            self.empties(mem, run.acknowledged, crash_at)?;
        }
        Ok(())
    }

    /// Checks that no unneeded file is left once all tables are dropped and all snapshots deleted,
    /// also if the power fails in between.
    fn empties(&self, mem: &MemDisk, acknowledged: usize, crash_at: u64) -> Result<()> {
        let open = || {
            let mut setup = self.setup(mem, acknowledged);
            // Past every expiry.
            setup.clock.advance_ms(u64::from(u32::MAX));
            setup.options.durability = Durability::Sync;
            Session::open(setup)
        };
        let mut session = open().context("before all is dropped")?;
        let before = read_everything(session.db()).context("before all is dropped")?;
        for table in TableNo::all().filter(|table| before.table(*table).is_some()) {
            session.apply(&Operation::DropTable(table))?;
            session.apply(&Operation::CreateTable(table))?;
        }
        let after = read_everything(session.db()).context("with all made anew")?;
        let mut contents = after.tables.iter().flatten();
        ensure!(
            contents.all(|content| content.is_empty()) && after.snapshots == before.snapshots,
            "with all made anew: {}",
            after.difference(&before)
        );
        mem.crash_at(1 + crash_at % EMPTYING_CALLS);
        let _ = drop_everything(session.db());
        lose_power(mem, session, crash_at);
        let session = open().context("half of it dropped")?;
        drop_everything(session.db())?;
        drop(session);
        let session = open().context("after all is dropped")?;
        let tables = session.db().stats().tables.len();
        ensure!(tables == 0, "{tables} tables are left, and all are dropped");
        no_orphans(mem, session.db()).context("after all is dropped")
    }

    fn check(&self, acknowledged: usize, durable: usize, found: &State) -> Result<()> {
        let reached = reached(&self.worlds, acknowledged, durable, found);
        reached.map(drop).with_context(|| {
            let next = self.operations.get(acknowledged);
            format!(
                "after {acknowledged} acknowledged operations, {durable} of them durable, then {}",
                next.map_or("the end".into(), |operation| operation.to_string())
            )
        })
    }
}

/// Drops all tables, deletes all snapshots, and flushes, which also removes expired snapshots.
fn drop_everything(db: &Db) -> ebb_storage::Result<()> {
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name)?;
        for table in keyspace.tables() {
            keyspace.drop_table(&table)?;
        }
        for snapshot in keyspace.snapshots() {
            keyspace.delete_snapshot(&snapshot.name)?;
        }
    }
    db.flush()
}

/// Returns the number of operations that a recovery preserved: `worlds[n]` is the model after `n`
/// operations, and the recovery led to the state `found` of one of these models. Returns the
/// largest number if several fit. The number must be at least `durable`, and at most one more than
/// `acknowledged`: the operation that the power loss interrupted may be done entirely.
///
/// # Errors
/// If no such number of operations leads to `found`, or if the keyspaces or tables in `found` are
/// neither those after `acknowledged` operations nor those after one more.
pub(crate) fn reached(
    worlds: &[World],
    acknowledged: usize,
    durable: usize,
    found: &State,
) -> Result<usize> {
    let last = (acknowledged + 1).min(worlds.len() - 1);
    let exist = |state: &State| {
        (
            state.keyspaces,
            state.tables.each_ref().map(Option::is_some),
        )
    };
    // A keyspace is created before its first table, by an edit of its own.
    let (keyspaces, tables) = exist(found);
    let [before, after] = [acknowledged, last].map(|i| exist(&worlds[i].seen()));
    ensure!(
        [before.1, after.1].contains(&tables) && [before.0, after.0].contains(&keyspaces),
        "keyspaces and tables exist: {:?}",
        (keyspaces, tables)
    );
    let content = found.clone().without_existence();
    // Expiry is judged by the clock as it stands. The latest state comes first: it fits most often.
    let now_ms = worlds[acknowledged].now_ms;
    let at = |i: usize| worlds[i].seen_at(now_ms).without_existence();
    let is = |i: &usize| at(*i) == content;
    (durable..=last).rev().find(is).with_context(|| {
        let [durable, last] = [durable, last].map(|i| content.difference(&at(i)));
        format!("{durable}; or {last}")
    })
}

/// Checks that the database accepts writes, with sequence numbers above those of all snapshots, so
/// that no write becomes visible in a snapshot. Returns the final content. With `flush` the writes
/// are in files, otherwise in the log, behind the part of it that the crash left.
pub(crate) fn goes_on(session: &mut Session, found: State, flush: bool) -> Result<State> {
    // The clock stands still, so nothing expires.
    let mut expected = World::of(found, 0);
    for keyspace in session.db().keyspaces() {
        let snapshots = session.db().existing_keyspace(&keyspace)?.snapshots();
        let newest = snapshots.into_iter().map(|snapshot| snapshot.seq).max();
        let visible = session.db().view().seq();
        ensure!(
            newest <= Some(visible),
            "a snapshot at {newest:?}, and only {visible} is visible"
        );
    }
    // Two puts and a deletion in all tables, of keys that the list may use, too. The numbers lie above
    // those of the list's values, so no value of the list is mistaken for one of these.
    let everywhere = |i: u8| {
        let write = |table| match i {
            1 => Write::Delete(table, Key(20 + i)),
            _ => Write::Put(
                table,
                Key(20 + i),
                Val {
                    number: 1_000_000 + u32::from(i),
                    bytes: 30,
                },
            ),
        };
        Operation::Write(TableNo::all().map(write).collect())
    };
    // The list, or the crash, may have left some tables missing.
    let mut operations: Vec<_> = TableNo::all().map(Operation::CreateTable).collect();
    operations.extend((0..3).map(everywhere));
    // Callers lose power next, and with `Durability::Os` only a sync makes the writes durable.
    operations.push(Operation::Sync);
    if flush {
        operations.extend([Operation::Flush, Operation::Compact]);
    }
    for operation in &operations {
        let must = expected.apply(operation);
        let found = session
            .apply(operation)
            .with_context(|| format!("after the recovery: {operation}"))?;
        ensure!(
            found == must,
            "after the recovery: {operation}: {}",
            found.difference(&must)
        );
    }
    let found = read_everything(session.db()).context("after more writes")?;
    let expected = expected.seen();
    ensure!(
        found == expected,
        "after more writes: {}",
        found.difference(&expected)
    );
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(seeds: std::ops::Range<u64>, change: fn(&mut Case)) -> bool {
        seeds.into_iter().any(|seed| {
            let mut case = Case::new(seed).unwrap();
            change(&mut case);
            (1..=case.calls).any(|call| case.recovers_from(call, None).is_err())
        })
    }

    #[test]
    fn a_store_that_promises_more_than_it_syncs_is_caught() {
        assert!(!fails(1..2, |_| ()));
        assert!(fails(1..2, |case| case.promised = Durability::Sync));
    }

    #[test]
    fn a_store_that_is_in_another_state_than_the_reference_is_caught() {
        assert!(fails(0..1, |case| {
            let create = "create-table app.mails".parse().unwrap();
            let write = "write put app.mails k20 v1x1".parse().unwrap();
            for world in &mut case.worlds {
                world.apply(&create);
                world.apply(&write);
            }
        }));
    }
}

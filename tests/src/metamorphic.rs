//! The same operations under many configurations: every read returns the same in all of them, and
//! what the model returns. In the end, with no open reader, no obsolete file is left.
//!
//! A list that fails is made shorter, by removing operations as long as it still fails, and
//! printed.

use anyhow::{Context, Result, ensure};
use ebb_storage::Maintenance;

use crate::caught::caught;
use crate::disk::{MemDisk, no_orphans};
use crate::model::{Model, Outcome};
use crate::operation::{Generator, Mix, Operation, print_list};
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use crate::session::Session;
use crate::setup::configuration::{CONFIGURATIONS, Way};
use crate::shrink::shrink;

/// The numbers of operations in a list. Consecutive seeds take them in turn, from seed 0 on.
const OPERATIONS: [usize; 5] = [200, 600, 200, 200, 2000];
/// The number of operations above which a list of operations takes seconds under all
/// configurations.
const OPERATIONS_LONG: usize = 1000;
/// Limit on the number of runs in which a failing list of operations is made shorter.
const SHRINK_TRIES: usize = 2000;
/// Limits on the number of snapshots that exist at once; pairs of consecutive seeds take them in
/// turn. The largest one is above 48, the number of sorted runs of a table at which its writers
/// stall, because snapshots keep runs apart.
const SNAPSHOTS_MAX: [usize; 4] = [2, 8, 8, 80];

/// Runs this seed's list of operations under a configuration that is drawn from the seed, and then
/// under every named configuration. If the list is long (`OPERATIONS_LONG`), ends early once the
/// budget is spent; each configuration is a case of the budget.
pub fn run(seed: u64, budget: &Budget) -> Report {
    let mut report = Report::default();
    let operations = list(seed);
    for way in [Way::Drawn(seed)].into_iter().chain(named()) {
        let (done, outcome) = run_one(way, &operations);
        report.count(Counter::MetamorphicOps, done as u64);
        report.count(Counter::Configurations, 1);
        let outcome = outcome.with_context(|| format!("under {:?}", way.name()));
        let outcome = outcome.map_err(|e| {
            let short = shrink(&operations, SHRINK_TRIES, |list| {
                run_one(way, list).1.is_err()
            });
            e.context(format!("the operations that fail:\n{}", print_list(&short)))
        });
        report.note(outcome, || format!("metamorphic:{seed}:{}", way.name()));
        let cases = report.counted(Counter::Configurations);
        if operations.len() > OPERATIONS_LONG && budget.is_spent_after(cases) {
            break;
        }
    }
    report
}

fn named() -> impl Iterator<Item = Way> {
    CONFIGURATIONS.iter().map(Way::Named)
}

/// Runs the list of operations of a seed under one configuration.
///
/// # Errors
/// Describes the check that failed.
pub fn replay(seed: u64, way: Way) -> Result<()> {
    run_one(way, &list(seed)).1
}

/// Generates `operations` operations from the seed, and runs them under the configuration that is
/// drawn from the same seed.
///
/// # Errors
/// Describes the check that failed.
pub fn run_drawn(seed: u64, operations: usize) -> Result<()> {
    run_one(Way::Drawn(seed), &list_of(seed, operations)).1
}

/// Runs a list of operations under every named configuration.
///
/// # Errors
/// Describes the first check that failed, and names its configuration.
pub fn run_list(operations: &[Operation]) -> Result<()> {
    for way in named() {
        let outcome = run_one(way, operations).1;
        outcome.with_context(|| format!("under {:?}", way.name()))?;
    }
    Ok(())
}

fn list(seed: u64) -> Vec<Operation> {
    list_of(seed, OPERATIONS[(seed % OPERATIONS.len() as u64) as usize])
}

fn list_of(seed: u64, operations: usize) -> Vec<Operation> {
    let mix = [Mix::EVERYTHING, Mix::CHANGES_AND_READS][(seed % 2) as usize];
    let mix = Mix {
        snapshots_max: SNAPSHOTS_MAX[(seed / 2 % SNAPSHOTS_MAX.len() as u64) as usize],
        ..mix
    };
    Generator::new(rng(seed), mix).list(operations)
}

/// Runs a list of operations under one configuration; also returns the number of operations done.
fn run_one(way: Way, operations: &[Operation]) -> (usize, Result<()>) {
    let mut done = 0;
    let outcome = caught(|| {
        let mut run = Run::begin(way)?;
        for (i, operation) in operations.iter().enumerate() {
            if way.reopen_every().is_some_and(|n| i % n == n - 1) {
                run.step(&Operation::Reopen)?;
            }
            run.step(operation)
                .with_context(|| format!("operation {i}, {operation}"))?;
            done += 1;
        }
        run.end().context("in the end")
    });
    (done, outcome)
}

/// A run of a list of operations under one configuration.
struct Run {
    way: Way,
    mem: MemDisk,
    session: Session,
    model: Model,
    reopenings: u64,
}

impl Run {
    fn begin(way: Way) -> Result<Self> {
        let mem = MemDisk::new();
        let session = Session::open(way.setup(&mem))?;
        Ok(Self {
            way,
            mem,
            session,
            model: Model::default(),
            reopenings: 0,
        })
    }

    fn step(&mut self, operation: &Operation) -> Result<()> {
        if *operation == Operation::Reopen {
            self.reopenings += 1;
            if let Some(options) = self.way.reopened(&self.mem, self.reopenings) {
                self.session.reconfigure(options);
            }
        }
        let found = self.session.apply(operation)?;
        agree(&found, &self.model.apply(operation))
    }

    fn end(mut self) -> Result<()> {
        for operation in [Operation::ReadAll, Operation::Reopen, Operation::ReadAll] {
            self.step(&operation)?;
        }
        if self.session.options().maintenance == Maintenance::Manual {
            for operation in [Operation::Flush, Operation::Compact, Operation::ReadAll] {
                self.step(&operation)?;
            }
            no_orphans(&self.mem, self.session.db())?;
        }
        Ok(())
    }
}

fn agree(found: &Outcome, must: &Outcome) -> Result<()> {
    ensure!(
        found == must,
        "found and expected: {}",
        found.difference(must)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{TABLES, parse_list};

    #[test]
    fn every_configuration_gives_what_the_model_gives() {
        let report = run(0, &Budget::UNLIMITED);
        assert_eq!(report.failures, []);
        assert_eq!(
            report.counted(Counter::Configurations),
            1 + CONFIGURATIONS.len() as u64
        );
    }

    /// Simulates a store that loses deletions of single keys. The run must fail, and its list must
    /// be cut down to a few operations that show the loss.
    #[test]
    fn a_wrong_answer_is_caught_and_its_list_made_shorter() {
        let wrong = |list: &[Operation]| {
            let mem = MemDisk::new();
            let mut session = Session::open(CONFIGURATIONS[0].setup(&mem)).unwrap();
            let mut model = Model::default();
            list.iter().any(|operation| {
                let must = model.apply(operation);
                let text = operation.to_string();
                if text.starts_with("write delete ") {
                    return false;
                }
                agree(&session.apply(operation).unwrap(), &must).is_err()
            })
        };
        let mut operations = list(0);
        let tail = "write put app.users k20 v2x5\nwrite delete app.users k20\nget app.users k20\n";
        operations.extend(parse_list(tail).unwrap());
        assert!(wrong(&operations));
        let short = shrink(&operations, SHRINK_TRIES, wrong);
        // The tables that a batch needs, the deletion, and a read.
        assert!(short.len() <= TABLES.len() + 2, "{}", print_list(&short));
    }
}

//! The same operations under many configurations: every read gives the same in
//! all of them, and what the model gives.
//!
//! A list that fails is made short by removing operations as long as it goes on
//! failing, and printed.

use anyhow::{Context, Result, bail};
use ebb_storage::vfs::MemVfs;

use crate::caught::caught;
use crate::model::{Model, Outcome};
use crate::operation::{Generator, Mix, Operation, print_list};
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use crate::session::Session;
use crate::setup::{CONFIGURATIONS, Configuration};
use crate::shrink::shrink;

/// Lengths of lists, by seed in turn.
const OPERATIONS: [usize; 5] = [200, 600, 200, 200, 2000];
/// A list of more takes seconds under all configurations.
const OPERATIONS_LONG: usize = 1000;
/// Runs that making a list short may take.
const SHRINK_TRIES: usize = 2000;

/// Runs the list of this seed under every configuration; a long one under fewer
/// when time is up.
pub fn run(seed: u64, budget: &Budget) -> Report {
    let mut report = Report::default();
    let operations = list(seed);
    for configuration in CONFIGURATIONS {
        if operations.len() > OPERATIONS_LONG && budget.is_spent() {
            break;
        }
        let (done, outcome) = run_one(configuration, &operations);
        report.count(Counter::MetamorphicOps, done as u64);
        report.count(Counter::Configurations, 1);
        let outcome = outcome.with_context(|| format!("under {:?}", configuration.name));
        let outcome = outcome.map_err(|e| {
            let short = shrink(&operations, SHRINK_TRIES, |list| {
                run_one(configuration, list).1.is_err()
            });
            e.context(format!("the operations that fail:\n{}", print_list(&short)))
        });
        report.note(outcome, || {
            format!("metamorphic:{seed}:{}", configuration.name)
        });
    }
    report
}

/// The configuration of this name.
///
/// # Errors
/// Names those that there are.
pub fn find(name: &str) -> Result<&'static Configuration> {
    let found = CONFIGURATIONS.iter().find(|c| c.name == name);
    found.with_context(|| {
        let names = CONFIGURATIONS.iter().map(|c| c.name).collect::<Vec<_>>();
        format!("no configuration {name:?}; there are {names:?}")
    })
}

/// Runs the list of a seed under one configuration.
///
/// # Errors
/// What does not hold.
pub fn replay(seed: u64, configuration: &Configuration) -> Result<()> {
    run_one(configuration, &list(seed)).1
}

/// Runs a list under every configuration.
///
/// # Errors
/// What does not hold in the first in which something does not.
pub fn run_list(operations: &[Operation]) -> Result<()> {
    for configuration in CONFIGURATIONS {
        run_one(configuration, operations)
            .1
            .with_context(|| format!("under {:?}", configuration.name))?;
    }
    Ok(())
}

fn list(seed: u64) -> Vec<Operation> {
    let count = OPERATIONS[(seed % OPERATIONS.len() as u64) as usize];
    let mix = [Mix::EVERYTHING, Mix::CHANGES_AND_READS][(seed % 2) as usize];
    Generator::new(rng(seed), mix).list(count)
}

/// Runs a list under one configuration; how many operations were done.
fn run_one(configuration: &Configuration, operations: &[Operation]) -> (usize, Result<()>) {
    let mut done = 0;
    let outcome = caught(|| {
        let mem = MemVfs::new();
        let mut session = Session::open(configuration.setup(&mem))?;
        let mut model = Model::default();
        for (i, operation) in operations.iter().enumerate() {
            if configuration.reopen_every.is_some_and(|n| i % n == n - 1) {
                step(&mut session, &mut model, &Operation::Reopen)?;
            }
            step(&mut session, &mut model, operation)
                .with_context(|| format!("operation {i}, {operation}"))?;
            done += 1;
        }
        for operation in [Operation::ReadAll, Operation::Reopen, Operation::ReadAll] {
            step(&mut session, &mut model, &operation).context("in the end")?;
        }
        Ok(())
    });
    (done, outcome)
}

fn step(session: &mut Session, model: &mut Model, operation: &Operation) -> Result<()> {
    let found = session.apply(operation)?;
    agree(&found, &model.apply(operation))
}

fn agree(found: &Outcome, must: &Outcome) -> Result<()> {
    match found == must {
        true => Ok(()),
        false => bail!("found and expected: {}", found.difference(must)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{TABLES, parse_list};

    #[test]
    fn every_configuration_gives_what_the_model_gives() {
        assert!(CONFIGURATIONS.len() >= 25);
        let report = run(0, &Budget::UNLIMITED);
        assert_eq!(report.failures, []);
        assert_eq!(
            report.counted(Counter::Configurations),
            CONFIGURATIONS.len() as u64
        );
    }

    #[test]
    fn configurations_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = CONFIGURATIONS.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), CONFIGURATIONS.len());
    }

    /// A store that loses a delete is caught, and the list is cut down to the
    /// operations that show it.
    #[test]
    fn a_wrong_answer_is_caught_and_made_short() {
        let wrong = |list: &[Operation]| {
            let mem = MemVfs::new();
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
        // A table, or those that a batch needs; the deletion; a read.
        assert!(short.len() <= TABLES.len() + 2, "{}", print_list(&short));
    }
}

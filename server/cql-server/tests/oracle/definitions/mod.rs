//! Random statements that change the schema, on a server that is stopped or killed and started
//! again over the same database.
//!
//! ```text
//!   generate ── a statement over the model ─┬─► machine   a server that is stopped, loses its
//!       ▲                                   │             power, or is killed
//!       └─────────── model ◄────────────────┘ if accepted
//!                      │
//!                      └─► after each opening: observed is equal, and check
//! ```
//!
//! There are few names, some of them odd: with capitals or quotes, reserved words, the names of
//! native types, lengths at the limit. Types nest in every way. About half of the statements are
//! valid. The server decides which, and the model follows the accepted ones. An error of the server
//! (0x0000) is always a flaw.
//!
//! After each opening `system_schema` must contain what was accepted. Every table must take a row
//! and return it, by its key and by each index, every snapshot must be readable, and the statements
//! of DESCRIBE must create the same schema in an empty database. The last statement of some lives
//! is interrupted: by a loss of power of the disk in memory, or by SIGKILL of a server in a
//! process. Such a statement must take effect whole or not at all.
//!
//! `EBB_LIVES` is the number of lives for each seed. See `ebb_test_support::seed` for how to choose
//! seeds.

mod check;
mod generate;
mod literal;
mod machine;
mod model;
mod names;
mod observed;
mod process;
mod run;
mod statement;
mod step;
mod types;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebb_test_support::seed::{for_seeds, number};

use self::generate::Generator;
use self::machine::{Machine, Memory};
use self::model::Model;
use self::process::{Process, serve_if_child};
use self::run::{Counts, Depth, Event, Run};
use self::statement::KINDS;
use self::step::Step;
use crate::shrink::shrink;

/// The number of statements in each life of a server, from one opening of the database to the next.
const STATEMENTS: u64 = 50;

/// The number of seeds, unless the environment sets another number.
const SEEDS: u64 = 2;
/// The number of lives of a server (from one opening to the next) for each seed, unless `EBB_LIVES`
/// sets another number. With `SEEDS` and `STATEMENTS` these are 2,000 statements and 40 openings.
const LIVES: u64 = 20;

/// The number of lives (starts of the server) in the test that kills the server: few, because that
/// server waits for a real disk at every change.
const KILLED_LIVES: u64 = 2;

/// The number of seeds within which the test must detect lost statements. For each kind of
/// statement, it must notice if all statements of this kind had no effect.
const LOSS_SEEDS: u64 = 20;

/// The most runs that are tried to shorten a failing one.
const TRIES_MAX: usize = 500;

/// A failed run.
struct Failure {
    how: String,
    steps: Vec<Step>,
    log: Vec<String>,
}

/// Executes a step, and turns a panic into an error.
fn take<M: Machine>(run: &mut Run<M>, step: &Step) -> Result<(), String> {
    let taken = catch_unwind(AssertUnwindSafe(|| run.step(step)));
    taken.unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

/// Runs random statements from a seed on a server, for `lives` lives: each ends when the server is
/// stopped or killed, and is opened again over the same database. Each statement is drawn for the
/// schema after the earlier ones.
fn explore<M: Machine>(mut run: Run<M>, seed: u64, lives: u64) -> Result<Run<M>, Failure> {
    let mut generator = Generator::new(seed);
    let mut steps = Vec::new();
    for _ in 0..lives {
        for at in 0..=STATEMENTS {
            let next = if at == STATEMENTS {
                [Some(generator.ending(run.model())), None]
            } else {
                let statement = Step::Run(generator.statement(run.model()));
                [Some(statement), generator.row()]
            };
            for step in next.into_iter().flatten() {
                let taken = take(&mut run, &step);
                steps.push(step);
                if let Err(how) = taken {
                    let log = run.log;
                    return Err(Failure { how, steps, log });
                }
            }
        }
    }
    Ok(run)
}

/// Executes steps over an empty database in memory.
fn replay(steps: &[Step]) -> Result<(), Failure> {
    let mut run = Run::new(Memory::new(), Depth::Everything);
    for (at, step) in steps.iter().enumerate() {
        if let Err(how) = take(&mut run, step) {
            let (steps, log) = (steps[..=at].to_vec(), run.log);
            return Err(Failure { how, steps, log });
        }
    }
    Ok(())
}

/// Describes a failure, with as few steps as possible that reproduce it. The steps of a server in a
/// process of its own are shortened only if a server in memory fails on them, too.
fn report(mut failure: Failure) -> String {
    let fails = |steps: &[Step]| replay(steps).is_err();
    if fails(&failure.steps) {
        let short = shrink(&failure.steps, TRIES_MAX, fails);
        if let Err(shorter) = replay(&short) {
            failure = shorter;
        }
    }
    let Failure { how, log, .. } = failure;
    format!("{how}\nafter:\n{}", log.join(";\n"))
}

#[test]
fn a_schema_is_whole_after_stops_and_losses_of_power() {
    let lives = number("EBB_LIVES").unwrap_or(LIVES);
    let (mut seeds, mut counts) = (0, Counts::default());
    let test = "a_schema_is_whole_after_stops_and_losses_of_power";
    for_seeds(test, SEEDS, |seed| {
        seeds += 1;
        let run = Run::new(Memory::new(), Depth::Everything);
        match explore(run, seed, lives) {
            Ok(run) => counts.add(run.counts),
            Err(failure) => panic!("with EBB_LIVES={lives}: {}", report(failure)),
        }
    });
    println!("{counts:?}");
    assert!(counts.tables > seeds, "no tables were there: {counts:?}");
}

#[test]
fn a_schema_is_whole_after_kills() {
    if serve_if_child() {
        return;
    }
    let lives = number("EBB_LIVES").unwrap_or(KILLED_LIVES);
    let mut counts = Counts::default();
    for_seeds("a_schema_is_whole_after_kills", 1, |seed| {
        let process = Process::start("definitions::a_schema_is_whole_after_kills");
        let process = process.unwrap_or_else(|error| panic!("the server: {error}"));
        match explore(Run::new(process, Depth::Everything), seed, lives) {
            Ok(run) => counts.add(run.counts),
            Err(failure) => panic!("with EBB_LIVES={lives}: {}", report(failure)),
        }
    });
    println!("{counts:?}");
    assert!(counts.openings > 0, "nothing was opened: {counts:?}");
}

/// Checks the test itself: for each kind of statement, if a model leaves out the accepted
/// statements of that kind, the test must detect it, as [`is_loss_detected`] decides.
#[test]
fn the_loss_of_any_kind_of_statement_is_detected() {
    let mut undetected = KINDS.to_vec();
    for seed in 0..LOSS_SEEDS {
        let run = explore(Run::new(Memory::new(), Depth::Schema), seed, 4);
        let run = run.unwrap_or_else(|failure| panic!("with seed {seed}: {}", failure.how));
        undetected.retain(|kind| !is_loss_detected(&run.trace, kind));
        if undetected.is_empty() {
            return;
        }
    }
    panic!("the loss of these is not detected: {undetected:?}");
}

/// Returns whether the test detects that all statements of a kind were lost: without them a later
/// statement is impossible, or the schema differs from one that was read after an opening of the
/// database.
fn is_loss_detected(trace: &[Event], kind: &str) -> bool {
    let mut model = Model::default();
    trace.iter().any(|event| match event {
        Event::Accepted(statement) if statement.kind() == kind => false,
        Event::Accepted(statement) => model.apply(statement).is_err(),
        Event::Opened(found) => model != *found,
    })
}

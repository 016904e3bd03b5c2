//! Replays cases by the text that a failure prints.

use anyhow::{Context, Result, bail, ensure};

use crate::report::{Budget, Counter, Report};
use crate::setup::configuration::Way;
use crate::soak::Programs;
use crate::{crash, damage, faults, isolation, kills, metamorphic, scarcity, schedules, space};

/// Number of transactions in one seed of the isolation proof.
const TRANSACTIONS: u64 = 4000;
/// Number of threads that run the transactions of the isolation proof.
const TRANSACTION_THREADS: usize = 3;
/// The most databases that one seed of the isolation proof may use. A seed's databases have
/// consecutive seeds, starting at the seed times this number, so different seeds share no database.
const HISTORIES_MAX: u64 = 10_000;

/// Runs the isolation test of one seed and checks its histories. Even seeds have power losses.
pub(super) fn isolation(seed: u64, _: &Budget) -> Report {
    let crashes = seed.is_multiple_of(2);
    let first = seed.wrapping_mul(HISTORIES_MAX);
    let found = isolation::run(first, TRANSACTION_THREADS, TRANSACTIONS, crashes);
    let mut report = Report::default();
    report.count(Counter::TransactionsChecked, found.transactions_checked);
    for failure in found.failures {
        report.note(Err(anyhow::Error::msg(failure)), || {
            format!("isolation:{seed}")
        });
    }
    report
}

/// Replays one case, or all cases of a seed: `crash:SEED[:CALL[:CALL]]`, `faults:SEED[:FAULT]`,
/// `scarcity:SEED`, `damage:SEED[:DAMAGE]`, `metamorphic:SEED[:CONFIGURATION]`, `isolation:SEED`,
/// `schedules:SEED`, `kills:SEED`, `space:SEED`. The inner result is an error if a check of the
/// case failed.
///
/// # Errors
/// If `words` name no case, or the case cannot run on this machine.
pub fn replay(words: &str, programs: &Programs) -> Result<Result<()>> {
    let (part, rest) = words.split_once(':').context("a case is PART:SEED...")?;
    let (seed, rest) = match rest.split_once(':') {
        Some((seed, rest)) => (seed, Some(rest)),
        None => (rest, None),
    };
    let seed: u64 = seed.parse().with_context(|| format!("{seed} is no seed"))?;
    let unlimited = &Budget::UNLIMITED;
    let outcome = match (part, rest) {
        ("crash", None) => all(crash::run(seed, unlimited)),
        ("crash", Some(calls)) => {
            let calls: Vec<u64> = calls
                .split(':')
                .map(|call| call.parse().with_context(|| format!("{call} is no call")))
                .collect::<Result<_>>()?;
            ensure!(calls.iter().all(|&call| call > 0), "calls count from 1");
            match calls[..] {
                [at] => crash::replay(seed, at, None),
                [at, again] => crash::replay(seed, at, Some(again)),
                _ => bail!("power is lost at one call or at two"),
            }
        }
        ("faults", None) => all(faults::run(seed, unlimited)),
        ("faults", Some(fault)) => faults::replay(seed, fault.parse()?),
        ("scarcity", None) => all(scarcity::run(seed, unlimited)),
        ("damage", None) => all(damage::run(seed, unlimited)),
        ("damage", Some(one)) => damage::replay(seed, &one.parse()?),
        ("metamorphic", None) => all(metamorphic::run(seed, unlimited)),
        ("metamorphic", Some(name)) => metamorphic::replay(seed, Way::find(name)?),
        ("isolation", None) => all(isolation(seed, unlimited)),
        ("kills", None) => all(kills::run(seed, unlimited, &programs.soak)),
        ("space", None) => {
            if let Some(why) = space::unavailable() {
                bail!("space: {why}");
            }
            all(space::run(seed, unlimited, &programs.soak))
        }
        ("schedules", None) => {
            let program = programs.schedules.clone();
            let program = program.map_or_else(schedules::build, Ok)?;
            all(schedules::run(seed, unlimited, &program))
        }
        _ => bail!("no case {words:?}; see --help for their forms"),
    };
    Ok(outcome)
}

/// Returns an error with the first failure of a report and the number of its failures; `Ok` if it
/// has none.
fn all(report: Report) -> Result<()> {
    match report.failures.first() {
        None => Ok(()),
        Some(first) => bail!(
            "{} failures, the first of them {}: {}",
            report.failures.len(),
            first.replay,
            first.detail
        ),
    }
}

//! Tests of snapshot isolation: long concurrent histories of transactions, judged by two checkers
//! that share no code.
//!
//! ```text
//!   life (a database between two openings)
//!     workers: each with some open transactions, a step in one of them at a time
//!        │ history: every step, what it read, when it began and ended
//!        ▼
//!   numbers    every read returns what the commits up to the start number left
//!   black box  no cycle that snapshot isolation forbids; needs no sequence numbers
//! ```
//!
//! [`run`] drives both. A life with one worker repeats from its seed, step by step. With several
//! workers the steps repeat, but their timing does not.

mod black_box;
mod history;
mod life;
mod numbers;
mod worker;

#[cfg(test)]
mod tests;

use std::fmt;

pub use history::{Content, History, Key, Outcome, Step, Transaction};

/// The number of transactions between opening a database and closing it or losing power: enough for
/// lists to grow and files to be merged, and few enough for people to read a failure.
const TRANSACTIONS_PER_LIFE: usize = 400;

/// The result of a run.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Transactions in the histories, with any outcome.
    pub transactions_checked: u64,
    /// The transactions that committed.
    pub committed: u64,
    /// The transactions that were refused.
    pub conflicts: u64,
    /// The transactions during whose commit the power failed.
    pub unknown: u64,
    /// The number of lives: how often a database was opened, and then closed or cut off by a power
    /// loss.
    pub lives: u64,
    /// The first few failures, each with the seed of its database and the number of the life, the
    /// time between opening the database and closing it or losing power.
    pub failures: Vec<String>,
}

/// A fault of the runner, on purpose, to show that the checkers notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// No fault.
    #[default]
    None,
    /// A transaction's writes are committed as a plain batch, without a check for other writers of
    /// its keys.
    NoValidation,
    /// Reads of single keys that the transaction has not written return the latest content rather
    /// than the content at the beginning of the transaction.
    ReadsNow,
}

/// Number of failures after which a run stops.
const FAILURES_MAX: usize = 5;

/// Runs at least `transactions` transactions on in-memory databases, on `threads` threads, and
/// checks their histories. With `crashes`, each life of a database ends with a power loss, often
/// while transactions run. Stops after a few failures.
pub fn run(seed: u64, threads: usize, transactions: u64, crashes: bool) -> Report {
    run_sabotaged(seed, threads, transactions, crashes, Sabotage::None)
}

/// Does the same as [`run`], with the fault `sabotage` in the runner.
pub fn run_sabotaged(
    seed: u64,
    threads: usize,
    transactions: u64,
    crashes: bool,
    sabotage: Sabotage,
) -> Report {
    let mut report = Report::default();
    for database in 0.. {
        if report.transactions_checked >= transactions || report.failures.len() >= FAILURES_MAX {
            break;
        }
        // Consecutive seeds: a run that starts with the seed of a failure repeats that failure
        // first.
        let seed = seed.wrapping_add(database);
        let config = life::Config {
            seed,
            threads,
            crashes,
            sabotage,
            transactions: TRANSACTIONS_PER_LIFE,
        };
        life::run_database(&config, |life, history| {
            report.lives += 1;
            report.transactions_checked += history.transactions.len() as u64;
            for transaction in &history.transactions {
                match transaction.outcome {
                    Outcome::Committed { .. } => report.committed += 1,
                    Outcome::Conflict { .. } => report.conflicts += 1,
                    Outcome::Unknown => report.unknown += 1,
                    Outcome::RolledBack => {}
                }
            }
            let mut violations = history.violations.clone();
            if sabotage != Sabotage::NoValidation {
                // A plain batch returns no sequence number.
                violations.extend(numbers::check(history));
            }
            violations.extend(black_box::check(history));
            let context = format!("seed {seed}, {threads} threads, crashes {crashes}, life {life}");
            report
                .failures
                .extend(violations.iter().map(|what| format!("{context}: {what}")));
        });
    }
    report.failures.truncate(FAILURES_MAX);
    report
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} transactions in {} lives: {} committed, {} refused, {} cut off; {} failures",
            self.transactions_checked,
            self.lives,
            self.committed,
            self.conflicts,
            self.unknown,
            self.failures.len()
        )?;
        self.failures
            .iter()
            .try_for_each(|failure| writeln!(f, "{failure}"))
    }
}

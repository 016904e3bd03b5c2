//! Is it snapshot isolation? Long concurrent histories of transactions, judged
//! by two checkers that share nothing.
//!
//! ```text
//!   life (a database between two openings)
//!     workers: each with some open transactions, a step in one of them at a time
//!        │ history: every step, what it read, when it began and ended
//!        ▼
//!   numbers    every read is what the commits up to the start number left
//!   black box  no cycle that snapshot isolation forbids, and no use of numbers
//! ```
//!
//! [`run`] drives both. A life of one worker repeats from its seed, step by step;
//! of several the steps repeat, their timing does not.

mod black_box;
mod history;
mod life;
mod numbers;
mod worker;

#[cfg(test)]
mod tests;

use std::fmt;

pub use history::{Content, History, Key, Outcome, Step, Transaction};

/// Transactions of one life: enough for lists to grow and files to be merged,
/// few enough for a failure to be read.
const TRANSACTIONS_PER_LIFE: usize = 400;

/// What the checkers found.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Transactions in the histories, however they ended.
    pub transactions_checked: u64,
    /// Of these the ones that committed.
    pub committed: u64,
    /// Of these the ones that were refused.
    pub conflicts: u64,
    /// Of these the ones that the power failed under.
    pub unknown: u64,
    /// Databases that were opened and closed, or lost power.
    pub lives: u64,
    /// Each with the seed of its life; not more than a few.
    pub failures: Vec<String>,
}

/// How the runner breaks the rules on purpose, to show that it would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// It does not.
    #[default]
    None,
    /// What a transaction wrote is committed as a plain batch: nobody asks who
    /// else wrote it.
    NoValidation,
    /// Reads show the present rather than the instant of the beginning.
    ReadsNow,
}

/// Failures after which a run stops.
const FAILURES_MAX: usize = 5;

/// Runs about `transactions` transactions on databases in memory, on `threads`
/// threads, with `crashes` in the middle of things, and checks them. Stops after
/// a few failures.
pub fn run(seed: u64, threads: usize, transactions: u64, crashes: bool) -> Report {
    run_sabotaged(seed, threads, transactions, crashes, Sabotage::None)
}

/// [`run`], breaking the rules on purpose.
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
        // Consecutive seeds: the first of a failure alone repeats it.
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
                // Plain batches tell no numbers.
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

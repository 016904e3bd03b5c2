//! The result of a proof: counts of what it checked, and failures with the text that replays them.

use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Power losses, each followed by a recovery that was checked.
    CrashPoints,
    /// Faults that were tried (a failing call or a full disk), and operations refused for lack of
    /// space.
    Faults,
    /// The number of flipped bits, one in each copy of a database.
    BitsFlipped,
    /// The number of files that were cut short, one in each copy of a database.
    FilesCut,
    /// Operations that were run and compared, over all configurations.
    MetamorphicOps,
    /// Configurations under which a list of operations was run.
    Configurations,
    /// Transactions whose history was checked.
    TransactionsChecked,
    /// Random schedules of the threads of a scenario.
    Schedules,
    /// Processes killed.
    Kills,
    /// Times that the disk of the test `space`, which is a real file system, was full.
    FullDisks,
}

impl Counter {
    /// All counters, in the order of reports, each with its name there.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::CrashPoints, "crash_points"),
        (Self::Faults, "faults"),
        (Self::BitsFlipped, "bits_flipped"),
        (Self::FilesCut, "files_cut"),
        (Self::MetamorphicOps, "metamorphic_ops"),
        (Self::Configurations, "configurations"),
        (Self::TransactionsChecked, "transactions_checked"),
        (Self::Schedules, "schedules"),
        (Self::Kills, "kills"),
        (Self::FullDisks, "full_disks"),
    ];
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The argument of `--replay` that repeats the failure.
    pub replay: String,
    /// The message of the check, mostly with the actual and the expected result.
    pub detail: String,
}

/// The result of a randomized test.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The value of each counter; a counter that is missing is 0.
    pub counts: BTreeMap<Counter, u64>,
    pub failures: Vec<Failure>,
}

impl Report {
    pub fn count(&mut self, counter: Counter, by: u64) {
        *self.counts.entry(counter).or_default() += by;
    }

    pub fn counted(&self, counter: Counter) -> u64 {
        self.counts.get(&counter).copied().unwrap_or(0)
    }

    /// Records the failure, if `outcome` is one; `replay` returns the text that repeats it.
    pub fn note(&mut self, outcome: anyhow::Result<()>, replay: impl FnOnce() -> String) {
        if let Err(error) = outcome {
            self.failures.push(Failure {
                replay: replay(),
                detail: format!("{error:#}"),
            });
        }
    }

    /// Adds another report. Counters are added up, except for the number of configurations: each
    /// list of operations runs under the same named ones, so the larger number is kept.
    pub fn add(&mut self, other: Self) {
        for (counter, count) in other.counts {
            let total = self.counts.entry(counter).or_default();
            *total = match counter {
                Counter::Configurations => count.max(*total),
                _ => *total + count,
            };
        }
        self.failures.extend(other.failures);
    }
}

/// The limit on the work that a randomized test does with one seed: a deadline, or a number of
/// cases, such as power losses. Every test runs at least one case. Tests whose seeds are not
/// divided into cases ignore it.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    deadline: Option<Instant>,
    cases_max: u64,
}

impl Budget {
    /// A budget without a deadline and without a limit on the number of cases.
    pub const UNLIMITED: Self = Self {
        deadline: None,
        cases_max: u64::MAX,
    };

    /// Returns a budget that is spent at `deadline`, however few cases have run.
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::UNLIMITED
        }
    }

    /// Returns a budget of `cases_max` cases: the same ones on a slow machine and on a fast one.
    pub fn cases(cases_max: u64) -> Self {
        Self {
            cases_max,
            ..Self::UNLIMITED
        }
    }

    /// Returns whether a randomized test that has run this many cases has to stop.
    pub fn is_spent_after(&self, cases: u64) -> bool {
        cases >= self.cases_max || self.is_late()
    }

    /// Returns whether the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}

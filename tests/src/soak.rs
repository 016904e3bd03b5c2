//! Running the proofs seed after seed, each for its share of the time.

mod replay;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::report::{Budget, Counter, Failure, Report};
use crate::{crash, damage, faults, kills, metamorphic, scarcity, schedules, space};
pub use replay::replay;

/// Number of failures in all seeds of a randomized test after which it stops: more would show
/// nothing new.
const FAILURES_MAX: usize = 20;
/// The number of seeds of each randomized test in [`Extent::Quick`].
const QUICK_SEEDS: u64 = 2;

/// A function that runs one seed of a randomized test.
type Case = Box<dyn Fn(u64, &Budget) -> Report + Sync>;

/// A randomized test of the storage engine that `soak` runs.
pub struct Part {
    /// The name for `--only` and in replays.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The weight of this randomized test: the total time is divided among the tests in proportion
    /// to their weights.
    share: u32,
    /// The number of cases that run for each seed in [`Extent::Quick`], so that a seed takes a second
    /// or two. Tests whose seeds are not cut into cases ignore it.
    quick_cases: u64,
    /// Whether seeds run at the same time, on all cores.
    parallel: bool,
    /// Counters that must not be 0 in the end; otherwise the run is a failure.
    counters: &'static [Counter],
    /// The reason to skip this randomized test, if there is one.
    pub skipped: Option<String>,
    /// The function that runs this test with one seed.
    case: Case,
}

/// The programs that randomized tests start.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The path of `soak` itself: some tests start it again as a child process, which they kill, or
    /// which fills a disk.
    pub soak: PathBuf,
    /// The program that explores schedules; `None` if it has not been built.
    pub schedules: Option<PathBuf>,
}

/// Returns all randomized tests, in the order in which they run. The total time is divided among
/// the tests in proportion to their `share`; skipped tests get no time.
pub fn parts(programs: &Programs) -> Vec<Part> {
    let (soak, explorer) = (programs.soak.clone(), programs.schedules.clone());
    let filler = soak.clone();
    vec![
        Part {
            name: "crash",
            about: "power lost at every I/O call, in recoveries too",
            share: 6,
            quick_cases: 100,
            parallel: true,
            counters: &[Counter::CrashPoints],
            skipped: None,
            case: Box::new(crash::run),
        },
        Part {
            name: "faults",
            about: "every call fails once, disks fill up anywhere",
            share: 4,
            quick_cases: 100,
            parallel: true,
            counters: &[Counter::Faults],
            skipped: None,
            case: Box::new(faults::run),
        },
        Part {
            name: "scarcity",
            about: "a disk without space now and then, and power lost meanwhile",
            share: 1,
            quick_cases: 1,
            parallel: true,
            counters: &[Counter::Faults],
            skipped: None,
            case: Box::new(scarcity::run),
        },
        Part {
            name: "damage",
            about: "every bit flipped, every file cut at every length",
            share: 4,
            quick_cases: 200,
            parallel: true,
            counters: &[Counter::BitsFlipped, Counter::FilesCut],
            skipped: None,
            case: Box::new(damage::run),
        },
        Part {
            name: "metamorphic",
            about: "the same reads under every configuration, and in a model",
            share: 4,
            quick_cases: 10,
            parallel: true,
            counters: &[Counter::MetamorphicOps, Counter::Configurations],
            skipped: None,
            case: Box::new(metamorphic::run),
        },
        Part {
            name: "isolation",
            about: "histories of transactions, judged by two checkers",
            share: 3,
            quick_cases: 1,
            parallel: true,
            counters: &[Counter::TransactionsChecked],
            skipped: None,
            case: Box::new(replay::isolation),
        },
        Part {
            name: "schedules",
            about: "a whole database under drawn schedules of its threads",
            share: 3,
            quick_cases: 1,
            parallel: true,
            counters: &[Counter::Schedules],
            skipped: None,
            case: Box::new(move |seed, budget| match &explorer {
                Some(program) => schedules::run(seed, budget, program),
                // An empty report is a failure in the end, because its counter is 0.
                None => Report::default(),
            }),
        },
        Part {
            name: "kills",
            about: "a writing process killed, its store looked at",
            share: 2,
            quick_cases: 2,
            // A process that starts has copies of all open files, lock files too, until it has become
            // the other program. So databases of other threads would stay locked for a moment.
            parallel: false,
            counters: &[Counter::Kills],
            skipped: None,
            case: Box::new(move |seed, budget| kills::run(seed, budget, &soak)),
        },
        Part {
            name: "space",
            about: "a small disk of the machine filled up",
            share: 1,
            quick_cases: 1,
            // This part starts processes, too.
            parallel: false,
            counters: &[Counter::FullDisks],
            skipped: space::unavailable(),
            case: Box::new(move |seed, budget| space::run(seed, budget, &filler)),
        },
    ]
}

/// The amount of work in a run: a time, or a number of seeds.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// All randomized tests, together for about this time.
    Time(Duration),
    /// This many seeds of each randomized test, however long they take.
    Seeds(u64),
    /// Two seeds of each randomized test, with a fixed number of cases each: the same work on every
    /// machine.
    Quick,
}

/// The result of one of the randomized tests that `soak` runs.
pub struct PartReport {
    /// The name of the randomized test.
    pub name: &'static str,
    /// Number of seeds that ran.
    pub seeds: u64,
    /// The counts and failures.
    pub report: Report,
    /// The time that the randomized test took.
    pub took: Duration,
    /// The reason why the randomized test was skipped, if it was.
    pub skipped: Option<String>,
}

/// The result of a run.
pub struct SoakReport {
    pub seed: u64,
    /// The results of the parts, in order.
    pub parts: Vec<PartReport>,
    /// The time that the run took.
    pub took: Duration,
}

/// Runs the parts one after the other. Seeds of a part run on all cores at the same time, if the
/// part permits it. Calls `progress` after each seed, with the report of the part so far.
pub fn run(
    parts: &[Part],
    seed: u64,
    extent: Extent,
    progress: impl Fn(&Part, &Report) + Sync,
) -> SoakReport {
    let begin = Instant::now();
    let share = |part: &Part| part.skipped.as_ref().map_or(part.share, |_| 0);
    let mut shares_left: u32 = parts.iter().map(share).sum();
    let mut reports = Vec::new();
    for part in parts {
        let shares = shares_left.max(1);
        shares_left -= share(part);
        // All later parts share the time that a part leaves unused, or takes beyond its share.
        let (budget, seeds_max) = match extent {
            Extent::Time(time) => {
                let left = time.saturating_sub(begin.elapsed());
                let until = Instant::now() + left * share(part) / shares;
                (Budget::until(until), u64::MAX)
            }
            Extent::Seeds(seeds) => (Budget::UNLIMITED, seeds),
            Extent::Quick => (Budget::cases(part.quick_cases), QUICK_SEEDS),
        };
        reports.push(part.run(seed, seeds_max, &budget, &progress));
    }
    SoakReport {
        seed,
        parts: reports,
        took: begin.elapsed(),
    }
}

impl Part {
    fn run(
        &self,
        seed: u64,
        seeds_max: u64,
        budget: &Budget,
        progress: &(impl Fn(&Self, &Report) + Sync),
    ) -> PartReport {
        let begin = Instant::now();
        if self.skipped.is_some() {
            return PartReport {
                name: self.name,
                seeds: 0,
                report: Report::default(),
                took: Duration::ZERO,
                skipped: self.skipped.clone(),
            };
        }
        let next = AtomicU64::new(0);
        let total = Mutex::new(Report::default());
        let threads = if self.parallel {
            thread::available_parallelism().map_or(1, usize::from)
        } else {
            1
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        // Each part runs one seed at least.
                        if n >= seeds_max || (n > 0 && budget.is_late()) {
                            // This seed does not run: in the end `next` is the number of seeds run.
                            next.fetch_sub(1, Ordering::Relaxed);
                            return;
                        }
                        let report = (self.case)(seed.wrapping_add(n), budget);
                        // `progress` is called under the lock, so its calls come one by one.
                        let mut total = total.lock().expect("cases do not panic");
                        total.add(report);
                        progress(self, &total);
                        if total.failures.len() >= FAILURES_MAX {
                            return;
                        }
                    }
                });
            }
        });
        let mut report = total.into_inner().expect("cases do not panic");
        for (counter, name) in Counter::ALL {
            if self.counters.contains(&counter) && report.counted(counter) == 0 {
                report.failures.push(Failure {
                    replay: format!("{}:{seed}", self.name),
                    detail: format!("it checked nothing: {name} is 0"),
                });
            }
        }
        PartReport {
            name: self.name,
            seeds: next.into_inner(),
            report,
            took: begin.elapsed(),
            skipped: None,
        }
    }
}

impl SoakReport {
    /// Returns all failures, each with the name of the part that found it.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &Failure)> {
        self.parts
            .iter()
            .flat_map(|part| part.report.failures.iter().map(|f| (part.name, f)))
    }

    /// Returns the report as JSON: `seed`, `seconds`, every counter, `failures` (each with `part`,
    /// `replay` and `detail`), `skipped` (the reasons, by part), `parts` (each with `seeds` and
    /// `seconds`).
    pub fn json(&self) -> Value {
        let mut json = json!({
            "seed": self.seed,
            "seconds": self.took.as_secs_f64(),
            "failures": self.failures().map(|(part, failure)| json!({
                "part": part,
                "replay": failure.replay,
                "detail": failure.detail,
            })).collect::<Vec<_>>(),
            "skipped": self.parts.iter().filter_map(|part| {
                Some((part.name.to_string(), part.skipped.clone()?.into()))
            }).collect::<serde_json::Map<_, _>>(),
            "parts": self.parts.iter().map(|part| {
                (part.name.to_string(), json!({
                    "seeds": part.seeds,
                    "seconds": part.took.as_secs_f64(),
                }))
            }).collect::<serde_json::Map<_, _>>(),
        });
        for (counter, name) in Counter::ALL {
            let counts = self.parts.iter().map(|part| part.report.counted(counter));
            json[name] = counts.sum::<u64>().into();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(case: fn(u64, &Budget) -> Report) -> Part {
        Part {
            name: "crash",
            about: "",
            share: 1,
            quick_cases: 1,
            parallel: true,
            counters: &[Counter::CrashPoints],
            skipped: None,
            case: Box::new(case),
        }
    }

    #[test]
    fn every_seed_runs_once_and_counts_add_up() {
        let counted = part(|seed, _| {
            let mut report = Report::default();
            report.count(Counter::CrashPoints, seed);
            report
        });
        let report = run(&[counted], 10, Extent::Seeds(5), |_, _| ());
        assert_eq!(report.json()["crash_points"], 10 + 11 + 12 + 13 + 14);
        assert_eq!(report.json()["parts"]["crash"]["seeds"], 5);
        assert_eq!(report.failures().count(), 0);
    }

    #[test]
    fn a_quick_run_has_a_fixed_number_of_seeds_and_cases() {
        let mut endless = part(|_, budget| {
            let mut report = Report::default();
            while !budget.is_spent_after(report.counted(Counter::CrashPoints)) {
                report.count(Counter::CrashPoints, 1);
            }
            report
        });
        endless.quick_cases = 7;
        let report = run(&[endless], 1, Extent::Quick, |_, _| ());
        assert_eq!(report.json()["crash_points"], 7 * QUICK_SEEDS);
        assert_eq!(report.json()["parts"]["crash"]["seeds"], QUICK_SEEDS);
    }

    #[test]
    fn a_skipped_part_reports_its_reason_and_no_failure() {
        let mut left_out = part(|_, _| unreachable!("it is skipped"));
        left_out.skipped = Some("no reason".into());
        let report = run(&[left_out], 1, Extent::Seeds(3), |_, _| ());
        assert_eq!(report.failures().count(), 0);
        assert_eq!(report.json()["skipped"]["crash"], "no reason");
        assert_eq!(report.json()["crash_points"], 0);
    }

    #[test]
    fn a_proof_that_checked_nothing_is_a_failure() {
        let lazy = part(|_, _| Report::default());
        let report = run(&[lazy], 1, Extent::Seeds(3), |_, _| ());
        let (part, failure) = report.failures().next().unwrap();
        assert_eq!(part, "crash");
        assert!(failure.detail.contains("crash_points"), "{failure:?}");
    }
}

//! Seeds of random tests.
//!
//! By default a test runs the same seeds each time: the landing gate must fail only for the change
//! that it checks. The nightly run sets `EBB_EXPLORE=1`, and seeds are drawn. A drawn seed that fails
//! is appended to `tests/support/regressions.txt`, and every later run of the test begins with it.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `EBB_SEED=N` | run seed N alone, to replay a failure |
//! | `EBB_SEEDS=N` | run N seeds instead of the test's usual number (from `EBB_SEED` on, if it is set) |
//! | `EBB_EXPLORE=1` | draw the first seed |

use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::path::PathBuf;

/// Runs `check` with each seed that is due: the regressions of `test`, then `count` seeds from 1 on,
/// or the seeds that the environment chooses (see the [module](self)).
///
/// `test` is the name of the test function. Names must differ within the workspace, because the file
/// of regressions has one list for all crates.
///
/// # Panics
/// When `check` does, after it has printed how to replay the seed.
pub fn for_seeds(test: &str, count: u64, mut check: impl FnMut(u64)) {
    let plan = Plan::of(
        test,
        count,
        &std::fs::read_to_string(regressions_path()).unwrap_or_default(),
        &Environment::read(),
    );
    for seed in plan.seeds {
        let _replay = Replay {
            test,
            seed,
            is_new: plan.explores,
        };
        check(seed);
    }
}

/// Returns the number in the environment variable `name`; `None` if it is not set.
///
/// # Panics
/// If it is set and is no number: the default would hide the mistake.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The variables that decide which seeds run.
#[derive(Debug, Default, Clone, Copy)]
struct Environment {
    seed: Option<u64>,
    seeds: Option<u64>,
    /// The first seed to explore from.
    drawn: Option<u64>,
}

impl Environment {
    fn read() -> Self {
        let explores = std::env::var("EBB_EXPLORE").is_ok_and(|value| value == "1");
        Self {
            seed: number("EBB_SEED"),
            seeds: number("EBB_SEEDS"),
            // 32 bits, so that people can copy a seed, and no addition overflows.
            drawn: explores.then(|| RandomState::new().hash_one(()) >> 32),
        }
    }
}

/// The seeds of one run of a test.
#[derive(Debug, PartialEq)]
struct Plan {
    seeds: Vec<u64>,
    /// Whether a seed that fails is a new regression.
    explores: bool,
}

impl Plan {
    fn of(test: &str, count: u64, regressions: &str, environment: &Environment) -> Self {
        let known = regressions.lines().filter_map(|line| {
            let (name, seed) = line.split_once(' ')?;
            (name == test).then(|| seed.trim().parse().ok())?
        });
        let from = |first: u64, count: u64| (0..count).map(move |nth| first.wrapping_add(nth));
        match (environment.seed, environment.drawn) {
            (Some(first), _) => Self {
                seeds: from(first, environment.seeds.unwrap_or(1)).collect(),
                explores: false,
            },
            (None, drawn) => Self {
                seeds: known
                    .chain(from(drawn.unwrap_or(1), environment.seeds.unwrap_or(count)))
                    .collect(),
                explores: drawn.is_some(),
            },
        }
    }
}

/// Prints how to replay a seed if the test panics while this value lives, and notes a seed that was
/// drawn as a regression.
struct Replay<'a> {
    test: &'a str,
    seed: u64,
    is_new: bool,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let Self { test, seed, is_new } = *self;
        eprintln!("replay with: EBB_SEED={seed} cargo test --workspace {test}");
        if is_new {
            let path = regressions_path();
            let file = OpenOptions::new().append(true).create(true).open(&path);
            match file.and_then(|mut file| writeln!(file, "{test} {seed}")) {
                Ok(()) => eprintln!("added to {}", path.display()),
                Err(error) => eprintln!("cannot write {}: {error}", path.display()),
            }
        }
    }
}

fn regressions_path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/regressions.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGRESSIONS: &str = "# test seed\nmerge_sorts 77\nother 5\nmerge_sorts 12\n";

    fn seeds(environment: Environment) -> Vec<u64> {
        Plan::of("merge_sorts", 3, REGRESSIONS, &environment).seeds
    }

    #[test]
    fn regressions_run_before_the_fixed_seeds() {
        assert_eq!(seeds(Environment::default()), [77, 12, 1, 2, 3]);
    }

    #[test]
    fn the_environment_chooses_the_seeds() {
        let none = Environment::default();
        let seed = Some(9);
        assert_eq!(seeds(Environment { seed, ..none }), [9]);
        let seeds_max = Some(2);
        let both = Environment {
            seed,
            seeds: seeds_max,
            ..none
        };
        assert_eq!(seeds(both), [9, 10]);
        let more = Environment {
            seeds: seeds_max,
            ..none
        };
        assert_eq!(seeds(more), [77, 12, 1, 2]);
        let explore = Environment {
            drawn: Some(100),
            ..none
        };
        assert_eq!(seeds(explore), [77, 12, 100, 101, 102]);
    }

    #[test]
    fn only_a_drawn_seed_becomes_a_regression() {
        let none = Environment::default();
        let explore = Environment {
            drawn: Some(100),
            ..none
        };
        let replay = Environment {
            seed: Some(3),
            ..explore
        };
        let explores = |environment| Plan::of("merge_sorts", 3, "", &environment).explores;
        assert!(explores(explore) && !explores(replay) && !explores(none));
    }
}

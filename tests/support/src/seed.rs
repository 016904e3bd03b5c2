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
//! | `EBB_EXPLORE=1` | draw the first seed; in tests that call [`explores`], run every case |

use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::path::PathBuf;

/// Runs `check` with each seed of this run: the regressions of `test`, then `count` seeds from 1
/// on, or the seeds that the environment chooses (see the [module](self)).
///
/// `test` is the name of the test function. Names must differ within the workspace, because the file
/// of regressions has one list for all crates.
///
/// # Panics
/// If `check` panics; the way to replay the seed is printed. If a line of
/// `tests/support/regressions.txt` has no seed: the test would pass without it.
pub fn for_seeds(test: &str, count: u64, mut check: impl FnMut(u64)) {
    let plan = Plan::of(
        test,
        count,
        &std::fs::read_to_string(regressions_path()).unwrap_or_default(),
        &Environment::read(),
    );
    for (seed, is_known) in plan.seeds {
        let _replay = Replay {
            test,
            seed,
            is_new: plan.explores && !is_known,
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

/// Returns whether this is the nightly run, which has the time for every case of a test that is not
/// random.
pub fn explores() -> bool {
    std::env::var("EBB_EXPLORE").is_ok_and(|value| value == "1")
}

/// The variables that decide which seeds run.
#[derive(Debug, Default, Clone, Copy)]
struct Environment {
    seed: Option<u64>,
    seeds: Option<u64>,
    /// In the nightly run, which tries new seeds, the random first seed; the other seeds follow it
    /// one by one. `None` in other runs.
    drawn: Option<u64>,
}

impl Environment {
    fn read() -> Self {
        Self {
            seed: number("EBB_SEED"),
            seeds: number("EBB_SEEDS"),
            // 32 bits, so that people can copy a seed, and no addition overflows.
            drawn: explores().then(|| RandomState::new().hash_one(()) >> 32),
        }
    }
}

/// The seeds of one run of a test.
#[derive(Debug, PartialEq)]
struct Plan {
    /// Each seed, and whether it is a known regression.
    seeds: Vec<(u64, bool)>,
    /// Whether the run tries new seeds. A new seed that fails is added to the regressions, unless
    /// it is already there.
    explores: bool,
}

impl Plan {
    fn of(test: &str, count: u64, regressions: &str, environment: &Environment) -> Self {
        let known = known_seeds(test, regressions);
        let replays = environment.seed.is_some();
        let first = environment.seed.or(environment.drawn).unwrap_or(1);
        let count = environment.seeds.unwrap_or(if replays { 1 } else { count });
        let mut seeds = Vec::new();
        if !replays {
            seeds.extend(known.iter().map(|&seed| (seed, true)));
        }
        let more = (0..count).map(|nth| first.wrapping_add(nth));
        seeds.extend(more.map(|seed| (seed, known.contains(&seed))));
        Self {
            seeds,
            explores: !replays && environment.drawn.is_some(),
        }
    }
}

/// Returns the seeds of `test` in the text of the file of regressions. Empty lines and lines that
/// begin with `#` are skipped.
///
/// # Panics
/// If another line is not of the form `TEST SEED`.
fn known_seeds(test: &str, regressions: &str) -> Vec<u64> {
    let lines = regressions.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut seeds = Vec::new();
    for line in lines {
        let parts = line.split_once(' ');
        let parsed = parts.and_then(|(name, seed)| Some((name, seed.trim().parse::<u64>().ok()?)));
        let Some((name, seed)) = parsed else {
            panic!("regressions.txt: `{line}` is not of the form TEST SEED");
        };
        if name == test {
            seeds.push(seed);
        }
    }
    seeds
}

/// If the test panics while this value lives, prints how to replay the seed. If the seed is new,
/// also adds it to the file of regressions.
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
            // One write: several tests may add a line at once.
            let line = format!("{test} {seed}\n");
            match file.and_then(|mut file| file.write_all(line.as_bytes())) {
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

    const REGRESSIONS: &str = "# test seed\nmerge_sorts 77\n\nother 5\nmerge_sorts 12\n";

    fn seeds(environment: Environment) -> Vec<u64> {
        let plan = Plan::of("merge_sorts", 3, REGRESSIONS, &environment);
        plan.seeds.into_iter().map(|(seed, _)| seed).collect()
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

    #[test]
    fn a_known_regression_is_no_new_one() {
        let explore = Environment {
            drawn: Some(11),
            ..Environment::default()
        };
        let plan = Plan::of("merge_sorts", 3, REGRESSIONS, &explore);
        let expected = [(77, true), (12, true), (11, false), (12, true), (13, false)];
        assert_eq!(plan.seeds, expected);
    }

    #[test]
    #[should_panic(expected = "`merge_sorts 1x` is not of the form TEST SEED")]
    fn a_line_without_a_seed_is_an_error() {
        known_seeds("other", "merge_sorts 12\nmerge_sorts 1x\n");
    }
}

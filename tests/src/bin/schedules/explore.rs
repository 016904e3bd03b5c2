//! The command line of `schedules`: runs each scenario under two schedulers, and prints the report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::scenarios::{self, Scenario};

/// The stack size of each thread of a scenario, in bytes. It is enough for every frame of a flush
/// or a recovery in an unoptimised build, and shuttle's default is not.
const STACK_BYTES: usize = 1 << 20;
/// Limit on the steps of one schedule, far above what any scenario takes: a schedule that reaches
/// the limit has a thread that spins.
const STEPS_MAX: usize = 500_000;
/// The depth of the PCT scheduler. In each schedule, the scheduler chooses `PCT_DEPTH - 1` places.
/// At each of them the running thread gets the lowest priority, so that others go first. A few
/// places are enough for bugs that need one thread to be delayed for long.
const PCT_DEPTH: usize = 4;

/// Runs scenarios over a whole database under random schedules of its threads.
#[derive(Debug, Parser)]
struct Args {
    /// Number of schedules of each scenario.
    #[arg(long, default_value_t = 1000)]
    iterations: usize,
    /// Seed of the random schedules.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs only the scenarios whose names contain this text.
    #[arg(long, default_value = "")]
    scenario: String,
    /// Directory in which a failing schedule is saved, for --replay.
    #[arg(long, default_value = ".")]
    failures: PathBuf,
    /// Replays this saved schedule; --scenario must name its scenario.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of exploring one scenario.
struct Outcome {
    scenario: &'static Scenario,
    /// Number of schedules that ran to their end.
    schedules: usize,
    /// The panic message of the failing schedule, or the reason why the schedule to replay cannot
    /// be read; `None` if all schedules passed.
    failure: Option<String>,
}

/// Returns exit code 0 if every schedule passed, 1 if one failed or the schedule to replay cannot
/// be read, and 2 if --scenario matches no scenario, or more than one with --replay.
pub(crate) fn main() -> ExitCode {
    let args = Args::parse();
    let chosen: Vec<_> = scenarios::ALL
        .iter()
        .filter(|scenario| scenario.name.contains(&args.scenario))
        .collect();
    if chosen.is_empty() || (args.replay.is_some() && chosen.len() > 1) {
        let names: Vec<_> = scenarios::ALL.iter().map(|s| s.name).collect();
        eprintln!("schedules: name one of {names:?} with --scenario");
        return ExitCode::from(2);
    }
    let outcomes: Vec<_> = chosen.into_iter().map(|s| explore(s, &args)).collect();
    report(&args, &outcomes);
    ExitCode::from(u8::from(outcomes.iter().any(|o| o.failure.is_some())))
}

fn explore(scenario: &'static Scenario, args: &Args) -> Outcome {
    let mut outcome = Outcome {
        scenario,
        schedules: 0,
        failure: None,
    };
    if let Some(path) = &args.replay {
        match ReplayScheduler::new_from_file(path) {
            Ok(scheduler) => run(&mut outcome, scheduler, FailurePersistence::None),
            Err(e) => outcome.failure = Some(format!("cannot read {}: {e}", path.display())),
        }
        return outcome;
    }
    // Half of the schedules switch threads anywhere. The other half let one thread run far ahead
    // and switch at a few places only, which finds bugs that need a long delay.
    let (random, delayed) = (args.iterations.div_ceil(2), args.iterations / 2);
    let persistence = || FailurePersistence::File(Some(args.failures.clone()));
    run(
        &mut outcome,
        RandomScheduler::new_from_seed(args.seed, random),
        persistence(),
    );
    if outcome.failure.is_none() && delayed > 0 {
        run(
            &mut outcome,
            PctScheduler::new_from_seed(args.seed, PCT_DEPTH, delayed),
            persistence(),
        );
    }
    outcome
}

fn run(
    outcome: &mut Outcome,
    scheduler: impl Scheduler + 'static,
    failure_persistence: FailurePersistence,
) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = failure_persistence;
    config.silence_warnings = true;
    let done = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (count, scenario) = (done.clone(), outcome.scenario.run);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(move || {
            scenario();
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
    }));
    outcome.schedules += done.load(std::sync::atomic::Ordering::Relaxed);
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        outcome.failure = Some(text.unwrap_or("a panic without a message").to_string());
    }
}

fn report(args: &Args, outcomes: &[Outcome]) {
    let total: usize = outcomes.iter().map(|o| o.schedules).sum();
    if args.json {
        let scenarios: Vec<_> = outcomes
            .iter()
            .map(|o| json!({ "name": o.scenario.name, "schedules": o.schedules, "failure": o.failure }))
            .collect();
        println!(
            "{}",
            json!({ "seed": args.seed, "schedules": total, "scenarios": scenarios })
        );
        return;
    }
    for outcome in outcomes {
        let Outcome {
            scenario,
            schedules,
            failure,
        } = outcome;
        println!(
            "{:<12} {schedules:>8} schedules  {}",
            scenario.name, scenario.holds
        );
        if let Some(failure) = failure {
            println!("{:<12} FAILED: {failure}", "");
        }
    }
    println!("{total} schedules from seed {}", args.seed);
}

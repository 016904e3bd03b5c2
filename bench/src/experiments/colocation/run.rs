//! The parts, one after the other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use ebb_colocate::{Limit, Objective, Quantile};
use ebb_scheduler::policy;
use ebb_scheduler::runtime::Throttles;

use super::analytics::{Beside, GuardSees, Held};
use super::args::{ColocationArgs, Part};
use super::curve;
use super::goals;
use super::report::{LoadRow, Report};
use super::setup::{BATCH, Load, Setup};
use super::shape::Shape;
use super::step;
use super::trial::{Contender, Trial, both, managed};
use crate::console::{stop_on_interrupt, write_json};
use crate::demo::{DemoDay, ForecastFrom, Goals, Policy};

/// The steady loads, in hundredths of the machine.
const LOADS: [u32; 3] = [30, 50, 70];
/// Rounds of a steady load at most, where its windows ask for more.
const ROUNDS_MAX: u32 = 60;
/// Jobs that nobody manages play in every so manyth round: they are far off.
const UNMANAGED_EVERY: u32 = 5;
/// After so many microseconds tasks yield, or never.
const YIELDS_US: [Option<u64>; 4] = [Some(50), Some(100), Some(200), None];
/// The load of the parts that have one.
const MIDDLE: f64 = 0.5;
/// A block cache for about a third of the records.
const SMALL_CACHE_BYTES: u64 = 8 << 20;
/// What the disk is taken to do with read tokens, in bytes per second: about half of
/// what jobs read without.
const DISK_BYTES_PER_S: u64 = 20 << 20;
/// The guard's objective, over the p99 of the load alone.
const OBJECTIVE_OVER_ALONE: f64 = 1.5;

/// Runs the experiment, prints its tables, writes JSON and pictures.
///
/// # Errors
/// What the store or the disk says; an interrupt.
pub fn run(args: &ColocationArgs) -> Result<()> {
    let interrupted = stop_on_interrupt()?;
    let setup = Setup::new(args, None)?;
    let mut report = Report::new(args, &setup);
    for part in args.parts() {
        match part {
            Part::Loads => loads(args, &setup, &interrupted, &mut report)?,
            Part::Days => days(args, &setup, &interrupted, &mut report)?,
            Part::Step => {
                let rounds = args.extent((1, 20), (1, 3)).rounds;
                report.step = Some(step::run(&setup, rounds, &interrupted)?);
            }
            Part::Reserves => reserves(args, &setup, &interrupted, &mut report)?,
            Part::Policies => policies(args, &setup, &interrupted, &mut report)?,
            Part::Guard => guard(args, &setup, &interrupted, &mut report)?,
            Part::Isolate => isolate(args, &setup, &interrupted, &mut report)?,
            Part::Cache => cache(args, &interrupted, &mut report)?,
            Part::Goals => {
                let extent = args.extent((30, 5), (10, 1));
                let trial = goals::run(
                    "goals",
                    Goals::Tight,
                    &policies_of_days(),
                    extent,
                    &interrupted,
                );
                report.goals = Some(trial?);
            }
            Part::Forecast => {
                let extent = args.extent((30, 5), (10, 1));
                let trial =
                    goals::run("forecast", Goals::Tight, &forecasts(), extent, &interrupted);
                report.forecast = Some(trial?);
            }
            Part::Curve => {
                let load = first_load(args, &setup)?;
                let length = args.extent((180, 1), (60, 1)).window;
                report.curve = Some(curve::run(&setup, &load, length)?);
            }
            Part::Yields => yields(args, &setup, &interrupted, &mut report)?,
        }
        // A long run that is interrupted leaves the parts that are done.
        if let Some(path) = &args.json {
            write_json(path, &report)?;
        }
    }
    print!("{}", report.text());
    if let Some(folder) = &args.figures {
        report.write_figures(folder)?;
    }
    Ok(())
}

fn loads(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let extent = args.extent_up_to(ROUNDS_MAX, (2, 10), (2, 6));
    let loads = match &args.loads[..] {
        [] => &LOADS[..],
        some => some,
    };
    for &percent in loads {
        for &batch in &args.batches {
            let share = f64::from(percent) / 100.0;
            let load = setup.steady(share, batch)?;
            let name = format!("{percent}%, batches of {batch}");
            let jobs = both(UNMANAGED_EVERY);
            let trial = Trial::run(setup, name, &load, extent, &jobs, interrupted)?;
            report
                .loads
                .push(LoadRow::new(share, batch, setup.cores, trial));
        }
    }
    Ok(())
}

/// What it costs and gains to leave more of the machine alone: the p99 against the CPU that jobs
/// use, in a dozen points.
fn reserves(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let extent = args.extent((2, 12), (2, 2));
    let load = first_load(args, setup)?;
    let reserves = [
        0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.475,
    ];
    let reserves = reserves.map(|reserve| {
        let held = Held {
            reserve,
            ..Held::default()
        };
        managed(format!("a reserve of {reserve}"), held)
    });
    let trial = Trial::run(setup, "reserves", &load, extent, &reserves, interrupted)?;
    report.reserves = Some(trial);
    Ok(())
}

/// What yielding costs and gains.
fn yields(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let extent = args.extent((2, 20), (2, 4));
    let load = first_load(args, setup)?;
    let contenders = YIELDS_US.map(|every_us| {
        let name = every_us.map_or("tasks never yield".to_string(), |us| {
            format!("tasks yield every {us} us")
        });
        let throttles = Throttles {
            yield_every: every_us.map(Duration::from_micros),
            ..Throttles::default()
        };
        let held = Held {
            throttles,
            ..Held::default()
        };
        managed(name, held)
    });
    let trial = Trial::run(setup, "yields", &load, extent, &contenders, interrupted)?;
    report.yields = Some(trial);
    Ok(())
}

fn days(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let extent = args.extent((60, 2), (10, 1));
    let levels = if args.quick { 3..=3 } else { 1..=3 };
    for level in levels {
        let seconds = extent.window.as_secs_f64();
        let load = Load {
            pace: setup.pace(Shape::Day { level, seconds })?,
            batch: BATCH,
            // All of the day counts.
            lead: Duration::ZERO,
            cuts: Vec::new(),
        };
        let name = format!("day, level {level}");
        let trial = Trial::run(setup, name, &load, extent, &both(1), interrupted)?;
        report.days.push(trial);
    }
    Ok(())
}

fn policies(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let contenders: Vec<_> = policy::descriptors()
        .into_iter()
        .map(|policy| {
            let held = Held {
                policy: policy.name,
                ..Held::default()
            };
            managed(policy.name, held)
        })
        .collect();
    let (load, extent) = (middle(setup)?, args.extent((2, 12), (2, 2)));
    let trial = Trial::run(setup, "policies", &load, extent, &contenders, interrupted)?;
    report.policies = Some(trial);
    Ok(())
}

fn guard(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let (load, extent) = (middle(setup)?, args.extent((2, 12), (2, 2)));
    // What the objective is relative to.
    let alone = Trial::run(setup, "alone", &load, extent, &[], interrupted)?;
    let objective = Objective {
        quantile: Quantile::P99,
        limit: Limit::LatencyUs(alone.alone_p99_us * OBJECTIVE_OVER_ALONE),
    };
    let without = |idle_class, cpu_pacing| Held {
        throttles: Throttles {
            idle_class,
            cpu_pacing,
            ..Throttles::default()
        },
        ..Held::default()
    };
    let guarded = |held| Held {
        objective: Some(objective),
        ..held
    };
    let contenders = [
        managed("idle class and pacing", Held::default()),
        managed("and objective", guarded(Held::default())),
        managed(
            "and objective in the store",
            Held {
                guard_sees: GuardSees::Store,
                ..guarded(Held::default())
            },
        ),
        managed(
            "and read tokens",
            Held {
                disk_bytes_per_s: Some(DISK_BYTES_PER_S),
                ..Held::default()
            },
        ),
        managed("no pacing", without(true, false)),
        managed("no idle class", without(false, true)),
        managed("objective, no idle class", guarded(without(false, true))),
        managed(
            "the same in the store",
            Held {
                guard_sees: GuardSees::Store,
                ..guarded(without(false, true))
            },
        ),
        managed("neither", without(false, false)),
        Contender::new("unmanaged", Beside::Unmanaged),
    ];
    let trial = Trial::run(setup, "guard", &load, extent, &contenders, interrupted)?;
    report.objective = Some(objective);
    report.guard = Some(trial);
    Ok(())
}

fn isolate(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let in_processes = Held {
        in_processes: true,
        ..Held::default()
    };
    let contenders = [
        managed("threads", Held::default()),
        managed("processes", in_processes),
    ];
    let extent = args.extent((2, 20), (2, 4));
    for share in [0.5, 0.7] {
        let load = setup.steady(share, BATCH)?;
        let name = format!("{:.0}%, threads and processes", share * 100.0);
        let trial = Trial::run(setup, name, &load, extent, &contenders, interrupted)?;
        report.isolate.push(trial);
    }
    Ok(())
}

fn cache(args: &ColocationArgs, interrupted: &AtomicBool, report: &mut Report) -> Result<()> {
    let setup = Setup::new(args, Some(SMALL_CACHE_BYTES))?;
    let (load, extent) = (middle(&setup)?, args.extent((2, 15), (2, 2)));
    let through_cache = Held {
        through_cache: true,
        ..Held::default()
    };
    let mut contenders = both(1).to_vec();
    contenders.push(managed("managed, through the cache", through_cache));
    let trial = Trial::run(
        &setup,
        "small cache",
        &load,
        extent,
        &contenders,
        interrupted,
    )?;
    report.cache = Some(trial);
    Ok(())
}

/// Days by the same forecast.
fn policies_of_days() -> Vec<DemoDay> {
    let day = |policy: Policy| DemoDay {
        policy,
        forecast: ForecastFrom::Known,
    };
    Policy::compared().into_iter().map(day).collect()
}

/// Days under the policies that plan by a forecast.
fn forecasts() -> Vec<DemoDay> {
    let from = [
        ForecastFrom::Oracle,
        ForecastFrom::Known,
        ForecastFrom::Learned,
    ];
    let planners = ["forecast-edf", "reverse-adaptive"];
    let day = |policy: &str, forecast: &ForecastFrom| DemoDay {
        policy: Policy::Managed(policy.to_string()),
        forecast: forecast.clone(),
    };
    let days = planners.map(|policy| from.each_ref().map(|from| day(policy, from)));
    days.into_iter().flatten().collect()
}

/// The first of the loads that were asked for.
fn first_load(args: &ColocationArgs, setup: &Setup) -> Result<Load> {
    let share = args
        .loads
        .first()
        .map_or(MIDDLE, |percent| f64::from(*percent) / 100.0);
    setup.steady(share, args.batches[0])
}

fn middle(setup: &Setup) -> Result<Load> {
    setup.steady(MIDDLE, BATCH)
}

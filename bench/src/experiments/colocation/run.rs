//! The parts, one after the other.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use ebb_colocate::{Objective, Quantile};
use ebb_scheduler::policy;
use ebb_scheduler::runtime::Throttles;

use super::analytics::{Beside, GuardSees, Held};
use super::args::{ColocationArgs, Part};
use super::goals;
use super::report::{LoadRow, Report};
use super::setup::Setup;
use super::shape::Shape;
use super::step;
use super::trial::{Contender, Trial};
use crate::console::{stop_on_interrupt, write_json};
use crate::demo::{DemoDay, ForecastFrom, Goals, Policy};
use crate::ycsb::Pace;

/// The steady loads, as parts of the machine.
const LOADS: [f64; 3] = [0.3, 0.5, 0.7];
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
                let rounds = args.extent((4, 15), (4, 3)).rounds;
                report.step = Some(step::run(&setup, rounds, &interrupted)?);
            }
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

fn both() -> [Contender; 2] {
    [
        Contender::new("unmanaged", Beside::Unmanaged),
        managed("managed", Held::default()),
    ]
}

fn managed(name: impl Into<String>, held: Held) -> Contender {
    Contender::new(name, Beside::Managed(held))
}

fn loads(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let extent = args.extent((10, 8), (4, 3));
    for load in LOADS {
        let pace = setup.pace(Shape::Steady(load))?;
        let name = format!("{:.0}%", load * 100.0);
        let trial = Trial::run(setup, name, &pace, extent, &both(), interrupted)?;
        report.loads.push(LoadRow::new(load, trial));
    }
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
        let pace = setup.pace(Shape::Day { level, seconds })?;
        let name = format!("day, level {level}");
        let trial = Trial::run(setup, name, &pace, extent, &both(), interrupted)?;
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
    let (pace, extent) = (middle(setup)?, args.extent((6, 5), (2, 2)));
    let trial = Trial::run(setup, "policies", &pace, extent, &contenders, interrupted)?;
    report.policies = Some(trial);
    Ok(())
}

fn guard(
    args: &ColocationArgs,
    setup: &Setup,
    interrupted: &AtomicBool,
    report: &mut Report,
) -> Result<()> {
    let (pace, extent) = (middle(setup)?, args.extent((6, 6), (3, 2)));
    // What the objective is relative to.
    let alone = Trial::run(setup, "alone", &pace, extent, &[], interrupted)?;
    let objective = Objective {
        quantile: Quantile::P99,
        latency_us: alone.alone_p99_us * OBJECTIVE_OVER_ALONE,
    };
    let without = |idle_class, cpu_pacing| Held {
        throttles: Throttles {
            idle_class,
            cpu_pacing,
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
    let trial = Trial::run(setup, "guard", &pace, extent, &contenders, interrupted)?;
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
    let extent = args.extent((10, 8), (4, 3));
    for load in [0.5, 0.7] {
        let pace = setup.pace(Shape::Steady(load))?;
        let name = format!("{:.0}%, threads and processes", load * 100.0);
        let trial = Trial::run(setup, name, &pace, extent, &contenders, interrupted)?;
        report.isolate.push(trial);
    }
    Ok(())
}

fn cache(args: &ColocationArgs, interrupted: &AtomicBool, report: &mut Report) -> Result<()> {
    let setup = Setup::new(args, Some(SMALL_CACHE_BYTES))?;
    let (pace, extent) = (middle(&setup)?, args.extent((6, 5), (3, 2)));
    let through_cache = Held {
        through_cache: true,
        ..Held::default()
    };
    let mut contenders = both().to_vec();
    contenders.push(managed("managed, through the cache", through_cache));
    let trial = Trial::run(
        &setup,
        "small cache",
        &pace,
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

fn middle(setup: &Setup) -> Result<Pace> {
    setup.pace(Shape::Steady(MIDDLE))
}

//! Runs the parts, one after the other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use ebb_colocate::{Limit, Objective, Quantile};
use ebb_scheduler::policy;
use ebb_scheduler::runtime::Throttles;

use super::analytics::{Beside, GuardSees, JobSettings};
use super::args::{ColocationArgs, Extent, Part};
use super::curve;
use super::goals::{self, GoalsTrial};
use super::report::{LoadRow, Report};
use super::setup::{BATCH, Load, Setup};
use super::shape::Shape;
use super::step;
use super::trial::{Contender, Trial, both, managed};
use crate::console::{stop_on_interrupt, write_json};
use crate::demo::{DemoDay, ForecastFrom, Goals, Policy};

/// The steady loads, in hundredths of the machine.
const LOADS: [u32; 3] = [30, 50, 70];
/// The most rounds of a steady load. After the default number, rounds are added only while the
/// confidence interval is too wide.
const ROUNDS_MAX: u32 = 60;
/// Unmanaged jobs run in one of this many rounds: their effect is so large that a few windows are
/// enough to show it.
const UNMANAGED_EVERY: u32 = 5;
/// The intervals after which tasks yield, in microseconds; `None` for never.
const YIELDS_US: [Option<u64>; 4] = [Some(50), Some(100), Some(200), None];
/// The load in those parts of the experiment that use only one load, as a fraction of the machine's
/// CPU.
const MIDDLE: f64 = 0.5;
/// The size of a block cache that holds about a third of the records.
const SMALL_CACHE_BYTES: u64 = 8 << 20;
/// The disk bandwidth that is assumed where the reads of jobs are limited, in bytes per second:
/// about half of what jobs read without a limit.
const DISK_BYTES_PER_S: u64 = 20 << 20;
/// The latency objective of the guard that limits jobs, divided by the p99 of the load alone.
const OBJECTIVE_OVER_ALONE: f64 = 1.5;

pub fn run(args: &ColocationArgs) -> Result<()> {
    let interrupted = stop_on_interrupt()?;
    let setup = Setup::new(args, None)?;
    let mut report = Report::new(args, &setup);
    let parts = Parts {
        args,
        setup: &setup,
        interrupted: &interrupted,
    };
    for part in args.parts() {
        match part {
            Part::Loads => report.loads.extend(parts.loads()?),
            Part::Days => report.days.extend(parts.days()?),
            Part::Step => {
                let rounds = args.extent((1, 20), (1, 3)).rounds;
                report.step = Some(step::run(&setup, rounds, &interrupted)?);
            }
            Part::Reserves => report.reserves = Some(parts.reserves()?),
            Part::Policies => report.policies = Some(parts.policies()?),
            Part::Guard => {
                let (objective, trial) = parts.guard()?;
                report.objective = Some(objective);
                report.guard = Some(trial);
            }
            Part::Isolate => report.isolate.extend(parts.isolate()?),
            Part::Cache => report.cache = Some(parts.cache()?),
            Part::Goals => report.goals = Some(parts.goals("goals", &policies_of_days())?),
            Part::Forecast => report.forecast = Some(parts.goals("forecast", &forecasts())?),
            Part::Curve => {
                let length = args.extent((180, 1), (60, 1)).window;
                report.curve = Some(curve::run(&setup, &parts.first_load()?, length)?);
            }
            Part::Yields => report.yields = Some(parts.yields()?),
        }
        // After each part, so that an interrupted run keeps the parts that are done.
        write_json(args.json.as_deref(), &report)?;
    }
    print!("{}", report.text());
    if let Some(folder) = &args.figures {
        report.write_figures(folder)?;
    }
    Ok(())
}

/// The parts of the experiment that compare windows with and without jobs, and their common
/// parameters.
struct Parts<'a> {
    args: &'a ColocationArgs,
    setup: &'a Setup,
    interrupted: &'a AtomicBool,
}

impl Parts<'_> {
    fn loads(&self) -> Result<Vec<LoadRow>> {
        let extent = (self.args).extent_up_to(ROUNDS_MAX, (2, 10), (2, 6));
        let loads = match &self.args.loads[..] {
            [] => &LOADS[..],
            some => some,
        };
        let mut rows = Vec::new();
        for &percent in loads {
            for &batch in &self.args.batches {
                let share = f64::from(percent) / 100.0;
                let load = self.setup.steady(share, batch)?;
                let name = format!("{percent}%, batches of {batch}");
                let trial = self.trial(name, &load, extent, &both(UNMANAGED_EVERY))?;
                rows.push(LoadRow::new(share, batch, self.setup.cores, trial));
            }
        }
        Ok(rows)
    }

    /// Measures the p99 of the load and the CPU that jobs use, for a dozen sizes of the reserve
    /// that jobs never get.
    fn reserves(&self) -> Result<Trial> {
        let reserves = [
            0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.475,
        ];
        let reserves = reserves.map(|reserve| {
            let settings = JobSettings {
                reserve,
                ..JobSettings::default()
            };
            managed(format!("a reserve of {reserve}"), settings)
        });
        let extent = self.args.extent((2, 12), (2, 2));
        self.trial("reserves", &self.first_load()?, extent, &reserves)
    }

    /// Measures the p99 of the load and the CPU that jobs use, for several intervals after which
    /// tasks yield.
    fn yields(&self) -> Result<Trial> {
        let contenders = YIELDS_US.map(|every_us| {
            let name = every_us.map_or("tasks never yield".to_string(), |us| {
                format!("tasks yield every {us} us")
            });
            let throttles = Throttles {
                yield_every: every_us.map(Duration::from_micros),
                ..Throttles::default()
            };
            let settings = JobSettings {
                throttles,
                ..JobSettings::default()
            };
            managed(name, settings)
        });
        let extent = self.args.extent((2, 20), (2, 4));
        self.trial("yields", &self.first_load()?, extent, &contenders)
    }

    fn days(&self) -> Result<Vec<Trial>> {
        let extent = self.args.extent((60, 2), (10, 1));
        let levels = if self.args.quick { 3..=3 } else { 1..=3 };
        let day = |level| {
            let seconds = extent.window.as_secs_f64();
            let load = Load {
                pace: self.setup.pace(Shape::Day { level, seconds })?,
                batch: BATCH,
                // The whole day counts.
                lead: Duration::ZERO,
                cuts: Vec::new(),
            };
            self.trial(format!("day, level {level}"), &load, extent, &both(1))
        };
        levels.map(day).collect()
    }

    fn policies(&self) -> Result<Trial> {
        let contenders: Vec<_> = policy::descriptors()
            .into_iter()
            .map(|policy| {
                let settings = JobSettings {
                    policy: policy.name,
                    ..JobSettings::default()
                };
                managed(policy.name, settings)
            })
            .collect();
        let extent = self.args.extent((2, 12), (2, 2));
        self.trial("policies", &middle(self.setup)?, extent, &contenders)
    }

    /// Measures the p99 with and without the means that keep it low: the guard, the idle class, the
    /// pacing and the limit of disk reads. Also returns the objective of the guard.
    fn guard(&self) -> Result<(Objective, Trial)> {
        let (load, extent) = (middle(self.setup)?, self.args.extent((2, 12), (2, 2)));
        // The latencies alone, which the objective is relative to.
        let alone = self.trial("alone", &load, extent, &[])?;
        let objective = Objective {
            quantile: Quantile::P99,
            limit: Limit::LatencyUs(alone.alone_p99_us * OBJECTIVE_OVER_ALONE),
        };
        let without = |idle_class, cpu_pacing| JobSettings {
            throttles: Throttles {
                idle_class,
                cpu_pacing,
                ..Throttles::default()
            },
            ..JobSettings::default()
        };
        let guarded = |settings| JobSettings {
            objective: Some(objective),
            ..settings
        };
        let in_store = |settings| JobSettings {
            guard_sees: GuardSees::Store,
            ..guarded(settings)
        };
        let with_tokens = JobSettings {
            disk_bytes_per_s: Some(DISK_BYTES_PER_S),
            ..JobSettings::default()
        };
        let contenders = [
            managed("idle class and pacing", JobSettings::default()),
            managed("and objective", guarded(JobSettings::default())),
            managed(
                "and objective in the store",
                in_store(JobSettings::default()),
            ),
            managed("and read tokens", with_tokens),
            managed("no pacing", without(true, false)),
            managed("no idle class", without(false, true)),
            managed("objective, no idle class", guarded(without(false, true))),
            managed("the same in the store", in_store(without(false, true))),
            managed("neither", without(false, false)),
            Contender::new("unmanaged", Beside::Unmanaged),
        ];
        Ok((objective, self.trial("guard", &load, extent, &contenders)?))
    }

    fn isolate(&self) -> Result<Vec<Trial>> {
        let in_processes = JobSettings {
            in_processes: true,
            ..JobSettings::default()
        };
        let contenders = [
            managed("threads", JobSettings::default()),
            managed("processes", in_processes),
        ];
        let extent = self.args.extent((2, 20), (2, 4));
        let beside = |share: f64| {
            let load = self.setup.steady(share, BATCH)?;
            let name = format!("{:.0}%, threads and processes", share * 100.0);
            self.trial(name, &load, extent, &contenders)
        };
        [0.5, 0.7].into_iter().map(beside).collect()
    }

    /// Runs the part `cache` on a store of its own, whose block cache is too small for the data.
    fn cache(&self) -> Result<Trial> {
        let setup = Setup::new(self.args, Some(SMALL_CACHE_BYTES))?;
        let parts = Parts {
            args: self.args,
            setup: &setup,
            interrupted: self.interrupted,
        };
        let through_cache = JobSettings {
            through_cache: true,
            ..JobSettings::default()
        };
        let mut contenders = both(1).to_vec();
        contenders.push(managed("managed, through the cache", through_cache));
        let extent = self.args.extent((2, 15), (2, 2));
        parts.trial("small cache", &middle(&setup)?, extent, &contenders)
    }

    fn goals(&self, name: &str, days: &[DemoDay]) -> Result<GoalsTrial> {
        let extent = self.args.extent((30, 5), (10, 1));
        goals::run(name, Goals::Tight, days, extent, self.interrupted)
    }

    fn trial(
        &self,
        name: impl Into<String>,
        load: &Load,
        extent: Extent,
        contenders: &[Contender],
    ) -> Result<Trial> {
        Trial::run(self.setup, name, load, extent, contenders, self.interrupted)
    }

    fn first_load(&self) -> Result<Load> {
        let percent = self.args.loads.first();
        let share = percent.map_or(MIDDLE, |percent| f64::from(*percent) / 100.0);
        self.setup.steady(share, self.args.batches[0])
    }
}

/// Returns a simulated day for each of the compared policies, all with the same source of the
/// forecast.
fn policies_of_days() -> Vec<DemoDay> {
    let day = |policy: Policy| DemoDay {
        policy,
        forecast: ForecastFrom::Known,
    };
    Policy::compared().into_iter().map(day).collect()
}

/// Returns a simulated day for each source of the forecast under each policy that plans by a
/// forecast.
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

fn middle(setup: &Setup) -> Result<Load> {
    setup.steady(MIDDLE, BATCH)
}

//! The sources of a day's forecast f(t).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use ebb_colocate::{FLOOR_CORES, LoadSample};
use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::forecast::Series;
use ebb_scheduler::queueing::policy_by_name;
use ebb_text::read_whole;
use serde::Serialize;

use super::day::{Day, HOURS, LoadCost};
use super::day_run::LoadAlone;
use super::load_slots::{LoadSlots, left_by};
use super::policy::Policy;

/// The fractions of the forecast capacity for analytics that a policy may use in its plans, by the
/// kind of forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trust {
    /// For forecasts that are made from the known shape of the day: the fraction of the forecast
    /// capacity that a policy may use in its plans.
    known: f64,
    /// For forecasts that are made from measurements, which include the CPU time of merges of
    /// SSTables: the fraction of the forecast capacity that a policy may use in its plans.
    measured: f64,
    /// The learned forecast assumes a load so high that the real load stays below it with this
    /// probability.
    confidence: f64,
}

impl Trust {
    /// The fractions of the forecast capacity for the sizing of jobs, and for all policies but those
    /// that serve jobs as early as possible. They leave a margin: while the load runs, a task needs
    /// up to 1.5 times the CPU time that was measured before the day, and merges come at
    /// unpredictable times.
    pub(super) const CAUTIOUS: Self = Self {
        known: 0.75,
        measured: 0.85,
        confidence: 0.8,
    };
    /// The fractions for policies that serve jobs as early as possible: they may use the whole
    /// forecast capacity. If they planned with less, they would give up jobs that could still meet
    /// their goals.
    const EVEN: Self = Self {
        known: 1.0,
        measured: 1.0,
        confidence: 0.5,
    };

    /// Returns the fractions of the forecast capacity that this policy may use in its plans.
    pub(super) fn of(policy: &Policy) -> Self {
        match policy_by_name(policy.name()) {
            Some(policy) if !policy.finishes_just_in_time() => Self::EVEN,
            _ => Self::CAUTIOUS,
        }
    }
}

/// The number of days for which the load runs alone before the learned forecast is made. A forecast
/// requires at least three days. With five, the forecasting methods are tried on two of the past
/// days.
const DAYS_LEARNED: u32 = 5;
/// Length of the steps of [the oracle](ForecastFrom::Oracle)'s forecast, in hours of the day.
const ORACLE_STEP_HOURS: f64 = 0.25;

/// The source of f(t), the forecast of the capacity for analytics over time, for the plans of the
/// policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForecastFrom {
    /// The forecast by the curve that the load generator follows, with the CPU cost of requests as
    /// measured before the day.
    Known,
    /// A forecast learned from measured days of the load alone, as in production: unlike
    /// [`Self::Known`], it does not use the generator's curve.
    Learned,
    /// The capacity that was left for analytics in an earlier run of the same day: a perfect
    /// forecast.
    Oracle,
    /// A file of lines `HOUR,HUNDREDTHS`: the capacity for analytics from that hour on, in
    /// hundredths of a core.
    Schedule(PathBuf),
}

impl fmt::Display for ForecastFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known => f.pad("known"),
            Self::Learned => f.pad("learned"),
            Self::Oracle => f.pad("oracle"),
            Self::Schedule(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for ForecastFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "known" => Self::Known,
            "learned" => Self::Learned,
            "oracle" => Self::Oracle,
            path => Self::Schedule(path.into()),
        })
    }
}

impl ForecastFrom {
    /// Returns the number of days that the load must run alone for this forecast.
    pub(super) fn days_alone(&self) -> u32 {
        match self {
            Self::Learned => DAYS_LEARNED,
            Self::Known | Self::Oracle | Self::Schedule(_) => 1,
        }
    }

    /// Returns f(t), the forecast of the capacity for analytics over the day, in hundredths of a
    /// core, times the fraction in `trust` that a policy may use. `alone` has measurements of the
    /// load without jobs, on days that ran `faster` times as fast as this day will; only the
    /// learned forecast uses it. `rehearsed` has the capacity that was left in an earlier run of
    /// the same day; only the perfect forecast, the oracle, uses it. `reserve_cores` are left to
    /// others, and include the cores of other processes. Where these leave less than
    /// [`FLOOR_CORES`], the known and the learned forecast count that much as left, because
    /// analytics get it nevertheless, unless the load needs it. The oracle's forecast contains
    /// this floor, because the rehearsal had it. A forecast from a file is taken as it is.
    pub(super) fn availability(
        &self,
        day: Day,
        (cores, reserve_cores): (u32, f64),
        load: &LoadCost,
        (alone, faster): (&LoadAlone, f64),
        rehearsed: &[LoadSample],
        trust: Trust,
    ) -> Result<Availability> {
        match self {
            Self::Known => Ok(load.forecast(day, cores, reserve_cores, trust.known)?),
            Self::Learned => {
                let forecast = alone.slots.forecast(day.seconds / faster)?;
                let left_of = |cores| left_by(&forecast, cores, trust.confidence, faster);
                let cores = f64::from(cores);
                let (left, beside_load) = (left_of(cores - reserve_cores)?, left_of(cores)?);
                // Takes the trusted fraction of the forecast level.
                let step_s = day.seconds / forecast.point().len() as f64;
                let steps = (0..forecast.point().len()).map(|slot| {
                    let middle_s = (slot as f64 + 0.5) * step_s;
                    let floor = beside_load.at(middle_s).min(FLOOR_CORES * 100.0);
                    Step {
                        from_s: slot as f64 * step_s,
                        hundredths: left.at(middle_s).max(floor) * trust.measured,
                    }
                });
                Ok(Availability::steps(steps.collect())?)
            }
            Self::Oracle => left_on(rehearsed, day, trust),
            Self::Schedule(path) => schedule(path, day, cores),
        }
    }
}

/// Returns a forecast made from the capacity that was left in an earlier run of the day. Each step
/// covers a quarter of an hour, with the mean capacity that analytics were granted in this time, times
/// `trust.measured`.
fn left_on(samples: &[LoadSample], day: Day, trust: Trust) -> Result<Availability> {
    let step_s = day.seconds_of(ORACLE_STEP_HOURS);
    let mut left = LoadSlots::new(step_s);
    for pair in samples.windows(2) {
        let cores = f64::from(pair[0].capacity_hundredths) / 100.0;
        left.record(pair[0].t_s, pair[1].t_s.min(day.seconds), cores);
    }
    let cores = left.cores();
    let Some(first) = cores.iter().flatten().next() else {
        bail!("the oracle's forecast needs a rehearsal of the day");
    };
    // A quarter without a measurement gets the value of the one before.
    let mut last = *first;
    let steps = cores.iter().enumerate().map(|(slot, cores)| {
        last = cores.unwrap_or(last);
        Step {
            from_s: slot as f64 * step_s,
            hundredths: last * 100.0 * trust.measured,
        }
    });
    Ok(Availability::steps(steps.collect())?)
}

fn schedule(path: &Path, day: Day, cores: u32) -> Result<Availability> {
    let named = || format!("the schedule {}", path.display());
    let text = read_whole(path)?;
    let series = Series::parse_csv(&text).with_context(named)?;
    let most = f64::from(cores) * 100.0;
    let mut steps = Vec::new();
    for slot in 0..series.len() {
        let hour = series.time_s(slot);
        let Some(hundredths) = series.value(slot) else {
            bail!("{}: no value for hour {hour}", named());
        };
        if !(0.0..HOURS).contains(&hour) || hundredths > most {
            bail!(
                "{}: {hundredths} hundredths at hour {hour}: hours are 0 to 24, and {cores} cores have {most} hundredths",
                named()
            );
        }
        steps.push(Step {
            from_s: day.seconds_of(hour),
            hundredths,
        });
    }
    Ok(Availability::steps(steps)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_serve_jobs_early_plan_with_the_whole_forecast() {
        let of = |policy: &str| Trust::of(&policy.parse().unwrap());
        assert_eq!(of("forecast-edf"), Trust::EVEN);
        for cautious in ["reverse-adaptive", "adaptive", "none"] {
            assert_eq!(of(cautious), Trust::CAUTIOUS);
        }
    }

    #[test]
    fn the_oracle_returns_the_capacity_of_the_rehearsal() {
        let day = Day { seconds: 24.0 };
        let sample = |i: u32| LoadSample {
            t_s: f64::from(i) * 0.1,
            // Half the capacity from noon on, and none in one cycle, as during a flush.
            capacity_hundredths: match i {
                50 => 0,
                i if i < 120 => 160,
                _ => 80,
            },
            ..LoadSample::default()
        };
        let samples: Vec<_> = (0..=240).map(sample).collect();
        for trust in [Trust::EVEN, Trust::CAUTIOUS] {
            let left = left_on(&samples, day, trust).unwrap();
            assert!((left.at(1.0) - 160.0 * trust.measured).abs() < 1e-6);
            assert!((left.at(23.9) - 80.0 * trust.measured).abs() < 1e-6);
            let flush = left.at(5.1) / trust.measured;
            assert!((0.0..160.0).contains(&flush), "{flush}");
        }
        assert!(left_on(&[], day, Trust::EVEN).is_err());
    }

    #[test]
    fn the_hours_of_a_schedule_are_hours_of_the_day() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.csv");
        let day = Day { seconds: 48.0 };
        std::fs::write(&path, "hour,left\n0,180\n8,120\n16,60\n").unwrap();
        let left = schedule(&path, day, 2).unwrap();
        assert_eq!(
            [left.at(1.0), left.at(17.0), left.at(47.0)],
            [180.0, 120.0, 60.0]
        );
        for (wrong, expected) in [
            ("0,180\n8,201\n", "201"),
            ("0,180\n30,10\n", "hour 30"),
            ("0,180\n4,100\n8,80\n12,\n16,10\n", "hour 12"),
            ("no schedule", "line"),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = format!("{:#}", schedule(&path, day, 2).unwrap_err());
            assert!(
                error.contains("f.csv") && error.contains(expected),
                "{error}"
            );
        }
    }
}

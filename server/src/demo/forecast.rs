//! Where the forecast of a demo's day comes from.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::forecast::Series;
use serde::Serialize;

use super::act::Alone;
use super::day::{Day, HOURS, LoadCost};
use crate::colocate::left_by;
use crate::text::read_whole;

/// The part of the known shape that is planned with. What is granted is not all
/// used: idle-class threads are displaced for the length of a burst, tasks end
/// between two control cycles, and merges of runs come when they come.
const COUNTED_ON: f64 = 0.75;
/// The same of a learned one. Its quantile covers how loads differ from day to
/// day; what is granted and not used is beside that.
const COUNTED_ON_LEARNED: f64 = 0.85;
/// The load is taken for what it stays below with this probability.
const CONFIDENCE: f64 = 0.8;
/// Days that are learned from: two to begin with, one to be forecast, two to see
/// how far such forecasts are off.
const DAYS_LEARNED: u32 = 5;

/// Where f(t) comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForecastFrom {
    /// The shape of the day is known; what it costs is measured beforehand.
    Known,
    /// Nothing is known: days of the load alone are measured and forecast.
    Learned,
    /// A file of lines `HOUR,HUNDREDTHS`: what is left for analytics from that
    /// hour on, in hundredths of a core.
    Schedule(PathBuf),
}

impl FromStr for ForecastFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "known" => Self::Known,
            "learned" => Self::Learned,
            path => Self::Schedule(path.into()),
        })
    }
}

impl ForecastFrom {
    /// Days that the load has to run alone for it.
    pub(super) fn days_alone(&self) -> u32 {
        match self {
            Self::Learned => DAYS_LEARNED,
            Self::Known | Self::Schedule(_) => 1,
        }
    }

    /// f(t) of the day, in hundredths of a core. `alone` ran `faster` than the
    /// day will.
    pub(super) fn availability(
        &self,
        day: Day,
        (cores, reserve_cores): (u32, f64),
        load: &LoadCost,
        (alone, faster): (&Alone, f64),
    ) -> Result<Availability> {
        match self {
            Self::Known => Ok(load.forecast(day, cores, reserve_cores, COUNTED_ON)?),
            Self::Learned => {
                let forecast = alone.history.forecast(day.seconds / faster)?;
                let left = f64::from(cores) - reserve_cores;
                let left = left_by(&forecast, left, CONFIDENCE, faster)?;
                // A part of all of it.
                let step_s = day.seconds / forecast.point().len() as f64;
                let steps = (0..forecast.point().len()).map(|slot| Step {
                    from_s: slot as f64 * step_s,
                    hundredths: left.at((slot as f64 + 0.5) * step_s) * COUNTED_ON_LEARNED,
                });
                Ok(Availability::steps(steps.collect())?)
            }
            Self::Schedule(path) => schedule(path, day, cores),
        }
    }
}

/// Reads a schedule.
fn schedule(path: &Path, day: Day, cores: u32) -> Result<Availability> {
    let named = || format!("the schedule {}", path.display());
    let text = read_whole(path)?;
    let series = Series::parse_csv(&text).with_context(named)?;
    let most = f64::from(cores) * 100.0;
    let mut steps = Vec::new();
    for slot in 0..series.len() {
        let hour = series.time_s(slot);
        let Some(hundredths) = series.value(slot) else {
            bail!("{}: nothing is said of hour {hour}", named());
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
    fn a_schedule_goes_by_the_hours_of_the_day() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.csv");
        let day = Day { seconds: 48.0 };
        std::fs::write(&path, "hour,left\n0,180\n8,120\n16,60\n").unwrap();
        let left = schedule(&path, day, 2).unwrap();
        assert_eq!(
            [left.at(1.0), left.at(17.0), left.at(47.0)],
            [180.0, 120.0, 60.0]
        );
        for (wrong, said) in [
            ("0,180\n8,201\n", "201"),
            ("0,180\n30,10\n", "hour 30"),
            ("0,180\n4,100\n8,80\n12,\n16,10\n", "hour 12"),
            ("no schedule", "line"),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = format!("{:#}", schedule(&path, day, 2).unwrap_err());
            assert!(error.contains("f.csv") && error.contains(said), "{error}");
        }
    }
}

//! Days of the demo in turn: the goals that each policy meets with each forecast.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::args::Extent;
use crate::demo::{self, DemoDay, DemoOptions, ForecastFrom, Goals, Outcome};
use crate::experiments::statistics::{median, median_if_any};

/// The results of demo days, for several pairs of policy and forecast with the same jobs and load.
#[derive(Debug, Clone, Serialize)]
pub struct GoalsTrial {
    pub name: String,
    pub day_s: f64,
    pub rounds: u32,
    pub goals_are: Goals,
    /// The jobs' goals, as hours of the day; `None` for a job without a goal.
    pub goal_hours: Vec<Option<f64>>,
    /// The 99th percentile of the latency of the load alone, in microseconds, from a faster run of
    /// the same day.
    pub alone_p99_us: f64,
    /// The results of each pair of policy and forecast, in the order of the arguments.
    pub contenders: Vec<GoalsRow>,
}

/// The results of a policy with a forecast, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct GoalsRow {
    pub policy: String,
    pub forecast: ForecastFrom,
    /// The number of completion time goals on all days: one for each job with a goal on each day.
    pub goals: usize,
    pub met: usize,
    /// The hours of the day at which jobs completed, in the order of submission: for each job the
    /// median over the days on which it completed; `None` if it completed on none.
    pub finished_hours: Vec<Option<f64>>,
    /// The 99th percentile of the load's latency beside the jobs, in microseconds: the median over
    /// the days.
    pub p99_us: f64,
    /// The error of f(t), the forecast of the capacity for jobs: the mean absolute difference
    /// between f(t) and the capacity that jobs were granted in the day, divided by the mean granted
    /// capacity. The value is the median of this ratio over the days.
    pub forecast_off: f64,
    /// The signed error of f(t), the forecast of the capacity for jobs, divided by the mean
    /// capacity that jobs were granted in the day: above 0 if f(t) promised more than there was.
    /// The median over the days.
    pub forecast_bias: f64,
}

/// Runs a day of the demo for each contender (a policy with a forecast; at least one) in each round.
/// The jobs are sized to the forecast of the first contender. Every second round has the reverse
/// order, so that a drift of the machine affects all contenders alike.
pub fn run(
    name: &str,
    goals: Goals,
    contenders: &[DemoDay],
    extent: Extent,
    interrupted: &AtomicBool,
) -> Result<GoalsTrial> {
    let folder = tempfile::tempdir()?;
    let mut turns: Vec<usize> = Vec::new();
    for round in 0..extent.rounds {
        let order = 0..contenders.len();
        match round % 2 {
            0 => turns.extend(order),
            _ => turns.extend(order.rev()),
        }
    }
    // All days in one demo, which measures the load alone, and sizes the jobs, only once.
    let options = DemoOptions {
        data: folder.path().join("demo"),
        text: None,
        seconds: extent.window.as_secs_f64(),
        days: turns.iter().map(|turn| contenders[*turn].clone()).collect(),
        goals,
        // Without an objective there is no guard, which would stop jobs by the load's latency.
        objective: None,
        in_processes: false,
    };
    let outcomes = demo::run(&options, &|line| eprintln!("  {name}: {line}"))?;
    // The demo itself does not look for an interrupt, so an interrupted trial ends only here.
    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    for outcome in &outcomes {
        let differences = outcome.word_count_check.differences;
        ensure!(differences == 0, "{differences} words were miscounted");
    }
    let days_of = |contender: usize| -> Vec<&Outcome> {
        let days = turns.iter().zip(&outcomes);
        days.filter(|(turn, _)| **turn == contender)
            .map(|(_, outcome)| outcome)
            .collect()
    };
    // The goals and the load alone are the same in all outcomes.
    let first = &outcomes[0];
    let hour = |t_s: f64| first.day().hour_of(t_s);
    Ok(GoalsTrial {
        name: name.to_string(),
        day_s: options.seconds,
        rounds: extent.rounds,
        goals_are: goals,
        goal_hours: first.jobs.iter().map(|job| job.goal_s.map(hour)).collect(),
        alone_p99_us: first.transactional.alone.p99_us,
        contenders: (contenders.iter().enumerate())
            .map(|(number, contender)| GoalsRow::new(contender, &days_of(number)))
            .collect(),
    })
}

impl GoalsRow {
    fn new(contender: &DemoDay, days: &[&Outcome]) -> Self {
        let goals: Vec<(usize, usize)> = days.iter().map(|day| day.goals()).collect();
        let finished_hour = |job: usize| {
            let done = days.iter().filter_map(|day| {
                let finished_s = day.jobs[job].finished_s?;
                Some(day.day().hour_of(finished_s))
            });
            median_if_any(done)
        };
        let off = days.iter().map(|day| ForecastError::of(day));
        let off: Vec<ForecastError> = off.collect();
        Self {
            policy: contender.policy.to_string(),
            forecast: contender.forecast.clone(),
            goals: goals.iter().map(|(goals, _)| goals).sum(),
            met: goals.iter().map(|(_, met)| met).sum(),
            finished_hours: (0..days[0].jobs.len()).map(finished_hour).collect(),
            p99_us: median(
                days.iter()
                    .map(|day| day.transactional.with_analytics.p99_us),
            ),
            forecast_off: median(off.iter().map(|error| error.off)),
            forecast_bias: median(off.iter().map(|error| error.bias)),
        }
    }
}

/// The absolute and the signed error of f(t), the forecast of the capacity for analytics, over one
/// day. Both are divided by the mean capacity that analytics were granted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ForecastError {
    off: f64,
    bias: f64,
}

impl ForecastError {
    fn of(day: &Outcome) -> Self {
        let granted = |from_s: f64, to_s: f64| {
            let within = (day.series.load.iter())
                .filter(|sample| (from_s..to_s).contains(&sample.t_s))
                .map(|sample| f64::from(sample.capacity_hundredths));
            let within: Vec<f64> = within.collect();
            (!within.is_empty()).then(|| within.iter().sum::<f64>() / within.len() as f64)
        };
        // The series has f(t) at the middle of steps of equal length.
        let steps = &day.series.forecast;
        let half_s = day.seconds / steps.len().max(1) as f64 / 2.0;
        let pairs = steps.iter().filter_map(|(t_s, forecast)| {
            let granted = granted(t_s - half_s, t_s + half_s)?;
            Some((*forecast, granted))
        });
        Self::new(&pairs.collect::<Vec<_>>())
    }

    fn new(pairs: &[(f64, f64)]) -> Self {
        let granted: f64 = pairs.iter().map(|(_, granted)| granted).sum();
        let sum = |of: fn(f64) -> f64| {
            let differences = pairs.iter().map(|(forecast, granted)| forecast - granted);
            differences.map(of).sum::<f64>() / granted.max(1e-9)
        };
        Self {
            off: sum(f64::abs),
            bias: sum(|difference| difference),
        }
    }
}

impl GoalsTrial {
    pub fn text(&self) -> String {
        let mut out = String::new();
        let hour = |hour: &Option<f64>| hour.map_or("-".into(), |hour| format!("{hour:.1} h"));
        let hours = |hours: &[Option<f64>]| -> String {
            let cells = hours.iter().map(|each| format!(" {:>8}", hour(each)));
            cells.collect()
        };
        let _ = writeln!(
            out,
            "{}: {} days of {:.0} s each; p99 of the load alone {:.0} us",
            self.name, self.rounds, self.day_s, self.alone_p99_us
        );
        let jobs = (1..=self.goal_hours.len()).map(|job| format!(" {:>8}", format!("J{job}")));
        let _ = writeln!(
            out,
            "  {:<17} {:<9} {:>6}{} {:>9} {:>8} {:>8}",
            "policy",
            "forecast",
            "goals",
            jobs.collect::<String>(),
            "p99",
            "f(t) off",
            "bias"
        );
        let _ = writeln!(
            out,
            "  {:<17} {:<9} {:>6}{}",
            "(goals)",
            "",
            "",
            hours(&self.goal_hours)
        );
        for row in &self.contenders {
            let _ = writeln!(
                out,
                "  {:<17} {:<9} {:>6}{} {:>6.0} us {:>7.0}% {:>+7.0}%",
                row.policy,
                row.forecast,
                format!("{}/{}", row.met, row.goals),
                hours(&row.finished_hours),
                row.p99_us,
                row.forecast_off * 100.0,
                row.forecast_bias * 100.0
            );
        }
        out + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecast_errors_are_relative_to_the_granted_capacity() {
        let error = ForecastError::new(&[(100.0, 50.0), (50.0, 100.0), (100.0, 50.0)]);
        assert!((error.off - 0.75).abs() < 1e-9 && (error.bias - 0.25).abs() < 1e-9);
        let exact = ForecastError::new(&[(80.0, 80.0)]);
        assert_eq!((exact.off, exact.bias), (0.0, 0.0));
        assert_eq!(
            ForecastError::new(&[]),
            ForecastError {
                off: 0.0,
                bias: 0.0
            }
        );
    }
}

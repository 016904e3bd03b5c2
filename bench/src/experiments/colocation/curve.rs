//! The price of analytics as the guard measures it: the tail latency of the load against the
//! capacity that jobs are allowed. The objective is relative to the load alone.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_colocate::{Objective, PricePoint};
use serde::Serialize;

use super::analytics::{Analytics, Beside, JobSettings};
use super::setup::{Load, Setup};

/// The measurements of the latency guard, and the limit that it set for jobs. The guard limits jobs
/// so that the load keeps its latency objective.
#[derive(Debug, Serialize)]
pub struct Curve {
    pub objective: Objective,
    pub seconds: f64,
    /// The p99 of the load without jobs, in microseconds, as the latency guard estimated it at the
    /// end of the run; `None` if the guard had no estimate.
    pub alone_us: Option<f64>,
    /// The limit that the latency guard set for jobs, as a fraction (0 to 1) of the capacity that
    /// the load leaves: the mean over the second half of the run, including times at which the
    /// guard paused the jobs.
    pub allowed: f64,
    pub points: Vec<PricePoint>,
}

/// Runs jobs, limited by a latency guard, beside a load for `length`, and returns the guard's
/// measurements.
pub fn run(setup: &Setup, load: &Load, length: Duration) -> Result<Curve> {
    let objective = Objective::DEFAULT;
    let settings = JobSettings {
        objective: Some(objective),
        ..JobSettings::default()
    };
    let analytics = Analytics::start(setup, &Beside::Managed(settings))?;
    let analytics = analytics.context("jobs were to run")?;
    let driver = setup.start_load(load, length, analytics.latencies())?;
    driver.wait_for_end(load.lead + length);
    analytics.check()?;
    let governor = analytics.governor().context("the jobs have no governor")?;
    let (points, samples) = (governor.price(), governor.guarded());
    driver.join()?;
    ensure!(!samples.is_empty(), "the guard saw no window of the load");
    let later = &samples[samples.len() / 2..];
    let allowed: f64 = later.iter().map(|sample| sample.allowed).sum();
    Ok(Curve {
        objective,
        seconds: length.as_secs_f64(),
        alone_us: samples.last().and_then(|sample| sample.alone_us),
        allowed: allowed / later.len() as f64,
        points,
    })
}

impl Curve {
    pub fn text(&self) -> String {
        let mut out = String::new();
        let alone = match self.alone_us {
            Some(us) => format!("{us:.0} us"),
            None => "not known: too few requests, or the load changed".to_string(),
        };
        let _ = writeln!(
            out,
            "The price of analytics under {}, after {:.0} s: alone {alone}; allowed {:.2} of what is left in the second half",
            self.objective, self.seconds, self.allowed
        );
        let _ = writeln!(
            out,
            "  {:>7} {:>11} {:>10} {:>8} {:>8} {:>10} {:>20}",
            "allowed",
            "hundredths",
            "requests",
            "seconds",
            "p99, us",
            "over alone",
            "above the limit"
        );
        for point in &self.points {
            let _ = writeln!(
                out,
                "  {:>7.2} {:>11.0} {:>10} {:>8.1} {:>8.0} {:>10.2} {:>12.2} +-{:.2}{}",
                point.allowed,
                point.granted_hundredths,
                point.requests,
                point.seconds,
                point.latency_us,
                point.over_alone,
                point.above_limit,
                point.above_limit_error,
                if point.is_dear { "  too much" } else { "" }
            );
        }
        out.push('\n');
        out
    }
}

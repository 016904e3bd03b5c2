//! The objective of a load: a latency, or a multiple of the latency without analytics.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

/// The largest accepted multiple of the latency without analytics.
const OVER_ALONE_MAX: f64 = 1000.0;

/// A latency limit for the load, as in `p99=2ms` or `p99=1.1x`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Objective {
    /// The quantile of the latencies.
    pub quantile: Quantile,
    /// The limit of the quantile.
    #[serde(flatten)]
    pub limit: Limit,
}

impl Objective {
    /// The default objective: transactions do not notice analytics. The p99 is at most 1.1 times the
    /// p99 without analytics.
    pub const DEFAULT: Self = Self {
        quantile: Quantile::P99,
        limit: Limit::OverAlone(1.1),
    };
}

/// The limit of a quantile of the latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A latency in microseconds; positive.
    LatencyUs(f64),
    /// A multiple of the quantile without analytics; above 1.
    OverAlone(f64),
}

/// A quantile of a window's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantile {
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

impl Quantile {
    const NAMES: [(&'static str, Self); 3] = [
        ("p50", Self::P50),
        ("p99", Self::P99),
        ("p99.9", Self::P999),
    ];

    /// Returns the quantile as a number from 0 to 1: the part of the requests that must be within
    /// the objective, such as 0.99 for p99.
    pub fn part(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, quantile)| quantile == self);
        f.pad(named.map_or("", |(name, _)| *name))
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::LatencyUs(latency_us) => {
                let latency = Duration::from_nanos((latency_us * 1e3).round() as u64);
                let latency = humantime::format_duration(latency);
                write!(f, "{}={latency}", self.quantile)
            }
            Limit::OverAlone(factor) => write!(f, "{}={factor}x", self.quantile),
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no objective: use a bound such as p99=2ms, or p99=1.1x for 1.1 times \
                 the latency without jobs; p50 and p99.9 can be bounded, too"
            )
        };
        let (name, limit) = text.split_once('=').ok_or_else(wrong)?;
        let named = Quantile::NAMES.iter().find(|(known, _)| *known == name);
        let (_, quantile) = named.ok_or_else(wrong)?;
        let limit = match limit.strip_suffix('x') {
            Some(factor) => {
                let factor: f64 = factor.parse().map_err(|_| wrong())?;
                let makes_sense = factor > 1.0 && factor <= OVER_ALONE_MAX;
                makes_sense.then_some(Limit::OverAlone(factor))
            }
            None => {
                let latency = humantime::parse_duration(limit).map_err(|_| wrong())?;
                let latency_us = latency.as_secs_f64() * 1e6;
                (!latency.is_zero()).then_some(Limit::LatencyUs(latency_us))
            }
        };
        Ok(Self {
            quantile: *quantile,
            limit: limit.ok_or_else(wrong)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written() {
        for text in [
            "p99=2ms",
            "p50=150us",
            "p99.9=1s 500ms",
            "p99=1.1x",
            "p99.9=2x",
        ] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        assert_eq!(Objective::DEFAULT.to_string(), "p99=1.1x");
        let parsed = |text: &str| text.parse::<Objective>().unwrap();
        let objective = parsed("p99=2ms");
        assert_eq!(
            (objective.quantile, objective.limit),
            (Quantile::P99, Limit::LatencyUs(2000.0))
        );
        assert_eq!(parsed("p99=1.1x").limit, Limit::OverAlone(1.1));
        for wrong in [
            "", "p99", "p98=2ms", "p99=0ms", "p99=2", "p99=-1ms", "p99=1x", "p99=0.9x", "p99=x",
            "p99=nanx", "p99=infx", "p99=1e9x",
        ] {
            let error = wrong.parse::<Objective>().unwrap_err();
            assert!(
                error.contains("p99=2ms") && error.contains("p99=1.1x"),
                "{error}"
            );
        }
    }
}

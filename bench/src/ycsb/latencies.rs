//! Latencies: recorded in nanoseconds, reported in microseconds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The upper end of the histograms, in nanoseconds: one hour. Longer latencies count as one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// Returns an empty histogram of nanoseconds with `digits` significant decimal digits.
pub(super) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOS_MAX, digits).expect("the bounds are valid")
}

/// The significant digits of the histograms of final reports: percentiles are exact to 0.1%, and a
/// histogram has 0.3 MB.
pub(super) const DIGITS: u8 = 3;

/// A summary of latencies, in microseconds; all fields are 0 without latencies.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latencies {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl From<&Histogram<u64>> for Latencies {
    fn from(nanos: &Histogram<u64>) -> Self {
        if nanos.is_empty() {
            return Self::default();
        }
        let percentile_us = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: nanos.len(),
            mean_us: nanos.mean() / 1e3,
            p50_us: percentile_us(0.5),
            p95_us: percentile_us(0.95),
            p99_us: percentile_us(0.99),
            p999_us: percentile_us(0.999),
            max_us: nanos.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_match_the_recorded_latencies() {
        let mut nanos = histogram(DIGITS);
        for micros in 1..=1000 {
            nanos.record(micros * 1000).unwrap();
        }
        let latencies = Latencies::from(&nanos);
        let near = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 2e-3;
        assert_eq!(latencies.count, 1000);
        assert!(near(latencies.p50_us, 500.0), "{latencies:?}");
        assert!(near(latencies.p95_us, 950.0), "{latencies:?}");
        assert!(near(latencies.p999_us, 999.0), "{latencies:?}");
        assert!(near(latencies.max_us, 1000.0), "{latencies:?}");
        assert_eq!(Latencies::from(&histogram(DIGITS)), Latencies::default());
    }
}

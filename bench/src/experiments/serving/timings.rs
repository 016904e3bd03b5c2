//! The latencies of statements that one client executes, one after the other.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::experiments::colocation::counts::Counts;
use crate::ycsb::Latencies;

/// The upper end of the histogram, in nanoseconds: ten minutes. Longer latencies count as ten
/// minutes.
const NANOS_MAX: u64 = 600_000_000_000;
/// The significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// A histogram of latencies.
#[derive(Debug, Clone)]
pub(super) struct Timings(Histogram<u64>);

impl Timings {
    /// Returns a histogram without latencies.
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, NANOS_MAX, DIGITS).expect("the bounds are valid"))
    }

    /// Adds a latency.
    pub(super) fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(NANOS_MAX);
        self.0.saturating_record(nanos.min(NANOS_MAX));
    }

    /// Returns the latencies of all `parts` in one histogram.
    pub(super) fn together<'t>(parts: impl IntoIterator<Item = &'t Self>) -> Self {
        let mut all = Self::new();
        for part in parts {
            all.0.add(&part.0).expect("all have the same bounds");
        }
        all
    }

    /// Returns the summary of the latencies; all fields are 0 without latencies.
    pub(super) fn latencies(&self) -> Latencies {
        Latencies::from(&self.0)
    }

    /// Returns the latencies in the form in which rounds are compared.
    pub(super) fn counts(&self) -> Counts {
        Counts::from(&self.0)
    }
}

/// Returns the median and the p99 in milliseconds, for the terminal.
pub(super) fn quantiles_ms(latencies: &Latencies) -> String {
    let (p50_ms, p99_ms) = (latencies.p50_us / 1e3, latencies.p99_us / 1e3);
    format!("p50 {p50_ms:.2}, p99 {p99_ms:.2}")
}

/// Returns the time that `work` takes.
///
/// # Errors
/// The error of `work`.
pub(super) fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_all_parts_count() {
        let mut parts = [Timings::new(), Timings::new()];
        for (part, ms) in parts.iter_mut().zip([1, 3]) {
            part.record(Duration::from_millis(ms));
        }
        // Longer than the histogram's upper end.
        parts[1].record(Duration::from_secs(3600));
        let found = Timings::together(&parts).latencies();
        assert_eq!(found.count, 3);
        assert!((found.p50_us / 3000.0 - 1.0).abs() < 2e-3, "{found:?}");
        assert!((found.max_us / 6e8 - 1.0).abs() < 2e-3, "{found:?}");
    }
}

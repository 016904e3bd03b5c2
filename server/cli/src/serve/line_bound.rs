//! A bound on the rate of log lines. Lines above it are dropped and counted.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The number of log lines of one kind that may come at once, unless the kind has another bound.
const LINES_BURST: f64 = 50.0;
/// The number of log lines of one kind per second in the long run, unless the kind has another
/// bound.
const LINES_PER_S: f64 = 10.0;
/// The number of log lines about administration that may come at once: a script may make or change
/// many objects.
const ADMINISTRATION_LINES_BURST: f64 = 2000.0;
/// The limit on log lines about administration per second in the long run.
const ADMINISTRATION_LINES_PER_S: f64 = 100.0;
/// The number of log lines that may come at once about the beginnings and ends of one state, such
/// as overload, which may change back and forth.
const STATE_LINES_BURST: f64 = 10.0;
/// The limit on log lines about the beginnings and ends of one state, per second in the long run.
const STATE_LINES_PER_S: f64 = 0.1;

/// A limit on the rate of log lines of one kind. Lines above it are dropped and counted.
#[derive(Debug)]
pub(super) struct LineBound(Mutex<Bound>);

impl LineBound {
    pub(super) fn new() -> Self {
        Self::full(LINES_BURST, LINES_PER_S)
    }

    /// Returns a limit with more lines per second than [`new`](Self::new), for lines about
    /// administration.
    pub(super) fn of_administration() -> Self {
        Self::full(ADMINISTRATION_LINES_BURST, ADMINISTRATION_LINES_PER_S)
    }

    /// Returns a limit with fewer lines per second than [`new`](Self::new), for lines about a state
    /// that lasts, or about its start and its end.
    pub(super) fn of_state() -> Self {
        Self::full(STATE_LINES_BURST, STATE_LINES_PER_S)
    }

    fn full(burst: f64, per_s: f64) -> Self {
        Self(Mutex::new(Bound::full(burst, per_s, Instant::now())))
    }

    /// Counts a line. Returns the number of lines that were dropped since the last written one;
    /// `None` if this line has to be dropped, too.
    pub(super) fn pass(&self) -> Option<u64> {
        let mut bound = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bound.pass(Instant::now())
    }
}

/// A token bucket, with a token for each line.
#[derive(Debug)]
struct Bound {
    burst: f64,
    per_s: f64,
    level: f64,
    at: Instant,
    /// The number of lines dropped since the last written one.
    left_out: u64,
}

impl Bound {
    fn full(burst: f64, per_s: f64, now: Instant) -> Self {
        Self {
            burst,
            per_s,
            level: burst,
            at: now,
            left_out: 0,
        }
    }

    fn pass(&mut self, now: Instant) -> Option<u64> {
        let passed_s = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed_s * self.per_s).min(self.burst);
        self.at = now;
        if self.level < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.level -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_above_the_bound_are_dropped_and_counted() {
        let start = Instant::now(); // clock: a base for the times handed to the bound
        let mut bound = Bound::full(LINES_BURST, LINES_PER_S, start);
        let mut written = 0;
        let mut left_out = 0;
        for request in 0..10_000 {
            let now = start + Duration::from_millis(request);
            if let Some(before) = bound.pass(now) {
                written += 1;
                left_out += before;
            }
        }
        // The burst, and the lines of ten seconds.
        assert!((149..=150).contains(&written), "{written}");
        assert_eq!(left_out + bound.left_out + written, 10_000);
    }
}

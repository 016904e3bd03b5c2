//! Pace: the moments at which operations are due.
//!
//! A closed loop starts an operation when the last one has ended. It measures the capacity of the
//! store, and hides stalls, because no operation is due during a stall. An open loop starts
//! operations at a rate that does not depend on the store, as users do, and its latencies count
//! from the moment at which an operation was due.

use std::fmt;
use std::sync::Arc;

/// Operations per second as a function of the seconds since the run began.
pub type RateSchedule = Arc<dyn Fn(f64) -> f64 + Send + Sync>;

/// The moments at which operations start.
#[derive(Clone, Default)]
pub enum Pace {
    /// A closed loop: an operation starts at the end of the previous one of the same thread or, for
    /// a client of a server, of the same stream of a connection.
    #[default]
    Closed,
    /// An open loop: operations are due evenly spaced, at the rate of a schedule. In a run on a
    /// database in this process, any free thread takes an operation that is due; a client of a
    /// server divides the rate among its threads.
    Open(RateSchedule),
}

impl Pace {
    /// Returns an open loop with a constant rate.
    pub fn steady(rate_ops_per_s: f64) -> Self {
        Self::Open(Arc::new(move |_| rate_ops_per_s))
    }

    /// Returns the rate of one of `threads` threads that share the rate evenly; `None` for a closed
    /// loop.
    pub(super) fn share_of(&self, threads: usize) -> Option<RateSchedule> {
        let Self::Open(rate) = self else {
            return None;
        };
        let (rate, threads) = (Arc::clone(rate), threads as f64);
        Some(Arc::new(move |t_s| rate(t_s) / threads))
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "Closed",
            Self::Open(_) => "Open",
        })
    }
}

/// The longest step in which a rate is sampled: a change takes effect within this time.
const STEP_S: f64 = 0.01;

/// Turns a rate into moments: whenever the integral of the rate has grown by `burst`, that many
/// operations are due together.
pub(super) struct Arrivals {
    rate: RateSchedule,
    burst: u32,
    now_s: f64,
    /// The number of operations by which the rate, summed up over time, must still grow until the
    /// next burst is due.
    remaining: f64,
}

/// The result of [`Arrivals::next`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arrival {
    /// A burst is due at this time, in seconds since the start of the run.
    At(f64),
    /// No burst is due before this time, in seconds since the start of the run.
    NoneBefore(f64),
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arrivals({} s)", self.now_s)
    }
}

impl Arrivals {
    /// Creates the moments at which `burst` operations (at least 1) are due together. The first
    /// burst is due at once, if the rate is positive.
    pub(super) fn new(rate: RateSchedule, burst: u32) -> Self {
        Self {
            rate,
            burst,
            now_s: 0.0,
            remaining: 0.0,
        }
    }

    /// Returns the number of operations that are due at the same moment (a burst).
    pub(super) fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns the next moment at which a burst of operations is due, if it lies before
    /// `horizon_s`. Each one is returned once, in order.
    pub(super) fn next(&mut self, horizon_s: f64) -> Arrival {
        loop {
            // A rate that is no positive number counts as 0.
            let rate = Some((self.rate)(self.now_s)).filter(|rate| *rate > 0.0);
            let due_s = rate.map(|rate| self.now_s + self.remaining / rate);
            if let Some(due_s) = due_s.filter(|due_s| *due_s <= self.now_s + STEP_S) {
                if due_s >= horizon_s {
                    return Arrival::NoneBefore(horizon_s);
                }
                self.now_s = due_s;
                self.remaining = f64::from(self.burst);
                return Arrival::At(due_s);
            }
            let step_s = STEP_S.min(horizon_s - self.now_s);
            if step_s <= 0.0 {
                return Arrival::NoneBefore(horizon_s);
            }
            self.now_s += step_s;
            self.remaining -= rate.unwrap_or(0.0) * step_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(arrivals: &mut Arrivals, until_s: f64) -> Vec<f64> {
        let next = || match arrivals.next(until_s) {
            Arrival::At(t) => Some(t),
            Arrival::NoneBefore(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_steady_rate_is_evenly_spaced() {
        for rate in [1.0, 30.0, 1000.0] {
            let times = all(&mut Arrivals::new(Arc::new(move |_| rate), 1), 10.0);
            assert!((times.len() as f64 - rate * 10.0).abs() <= 1.0, "{rate}");
            for pair in times.windows(2) {
                assert!((pair[1] - pair[0] - 1.0 / rate).abs() < 1e-6, "{pair:?}");
            }
        }
    }

    #[test]
    fn the_distance_of_bursts_follows_from_the_rate() {
        let mut arrivals = Arrivals::new(Arc::new(|_| 1000.0), 10);
        let times = all(&mut arrivals, 1.0);
        assert_eq!(arrivals.burst(), 10);
        assert!((99..=101).contains(&times.len()), "{}", times.len());
        assert!((times[1] - times[0] - 0.01).abs() < 1e-6);
    }

    #[test]
    fn a_changing_rate_gives_as_many_arrivals_as_its_integral() {
        let ramp = Arc::new(|t: f64| 200.0 * t);
        let mut arrivals = Arrivals::new(ramp, 1);
        let first = all(&mut arrivals, 1.0).len();
        let second = all(&mut arrivals, 2.0).len();
        assert!((95..=105).contains(&first), "{first}");
        assert!((290..=310).contains(&second), "{second}");
    }

    #[test]
    fn no_arrival_comes_while_the_rate_is_0() {
        let night = Arc::new(|t: f64| if t < 5.0 { 0.0 } else { 10.0 });
        let mut arrivals = Arrivals::new(night, 1);
        assert_eq!(arrivals.next(2.0), Arrival::NoneBefore(2.0));
        assert_eq!(arrivals.next(4.0), Arrival::NoneBefore(4.0));
        let day = all(&mut arrivals, 6.0);
        assert!(
            day[0] >= 5.0 - 1e-9 && (9..=11).contains(&day.len()),
            "{day:?}"
        );
        assert_eq!(
            Arrivals::new(Arc::new(|_| f64::NAN), 1).next(1.0),
            Arrival::NoneBefore(1.0)
        );
    }

    #[test]
    fn many_short_horizons_lose_no_arrival() {
        let rate: RateSchedule = Arc::new(|_| 100.0);
        let (mut stepwise, mut at_once) = (Arrivals::new(rate.clone(), 1), Arrivals::new(rate, 1));
        let mut times = Vec::new();
        for millis in 1..=1000 {
            times.extend(all(&mut stepwise, f64::from(millis) / 1000.0));
        }
        let expected = all(&mut at_once, 1.0);
        assert!(times.len().abs_diff(expected.len()) <= 1);
    }
}

//! The times in which the guard, which limits jobs to keep the latency objective, leaves them no
//! CPU time. They are logged.

use ebb_colocate::{Action, GuardSample};

/// The number of one-second samples in a row without a stop after which a stop counts as ended. The
/// guard may stop jobs and let them go on many times in short succession: with a line for each
/// change, the log would have hundreds.
const CALM_SAMPLES: u32 = 10;

/// The detector of stops: times in which the guard, which limits jobs to keep the latency objective, leaves
/// them no CPU time.
#[derive(Debug, Default)]
pub(super) struct Stops {
    is_stopped: bool,
    calm_samples: u32,
}

/// The begin or the end of a time in which the guard leaves jobs no CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Begins,
    Ends,
}

impl Stops {
    /// Notes the guard's decisions of one second. Returns [`Stop::Begins`] if one of them leaves
    /// jobs no CPU time, unless a stop has begun already, and [`Stop::Ends`] after [`CALM_SAMPLES`]
    /// seconds without such a decision; otherwise `None`. A pause is no stop: during a pause, the guard
    /// measures the load without jobs.
    pub(super) fn note(&mut self, decided: &[GuardSample]) -> Option<Stop> {
        let stops = |sample: &GuardSample| sample.allowed <= 0.0 && sample.action != Action::Pause;
        if decided.iter().any(stops) {
            self.calm_samples = 0;
            let was_stopped = std::mem::replace(&mut self.is_stopped, true);
            return (!was_stopped).then_some(Stop::Begins);
        }
        if !self.is_stopped {
            return None;
        }
        self.calm_samples += 1;
        if self.calm_samples < CALM_SAMPLES {
            return None;
        }
        *self = Self::default();
        Some(Stop::Ends)
    }
}

#[cfg(test)]
mod tests {
    use ebb_colocate::LatencyWindow;

    use super::*;

    fn decided(action: Action, allowed: f64) -> GuardSample {
        GuardSample {
            window: LatencyWindow {
                t_s: 0.0,
                length_s: 0.1,
                requests: 1000,
                latency_us: 900.0,
            },
            slack: 0.1,
            alone_us: None,
            action,
            allowed,
        }
    }

    #[test]
    fn a_stop_begins_at_once_and_ends_after_ten_calm_seconds() {
        let mut stops = Stops::default();
        let (pause, grow) = (decided(Action::Pause, 0.0), decided(Action::Grow, 0.1));
        let stop = decided(Action::Stop, 0.0);
        assert_eq!(stops.note(&[pause, grow]), None);
        assert_eq!(stops.note(&[grow, stop, grow]), Some(Stop::Begins));
        for _ in 0..3 {
            assert_eq!(stops.note(&[stop]), None);
            let calm = [(); 9].map(|()| stops.note(&[grow]));
            assert_eq!(calm, [None; 9]);
        }
        assert_eq!(stops.note(&[pause]), Some(Stop::Ends));
        assert_eq!(stops.note(&[grow]), None);
    }
}

//! Episodes: times in which a state lasts, for example in which the guard, which limits jobs to keep
//! the latency objective, leaves them no CPU time. Their begins and ends are logged.

use ebb_colocate::{Action, GuardSample};

/// The number of one-second samples in a row without the state after which an episode counts as
/// ended. A state may come and go many times in short succession: with a line for each change, the
/// log would have hundreds.
const CALM_SAMPLES: u32 = 10;

/// The detector of the episodes of one state.
#[derive(Debug, Default)]
pub(super) struct Episodes {
    is_under_way: bool,
    calm_samples: u32,
}

/// The begin or the end of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Begins,
    Ends,
}

impl Episodes {
    /// Notes a sample of one second, and whether it has the state. Returns [`Turn::Begins`] if it has,
    /// unless an episode is under way already, and [`Turn::Ends`] after [`CALM_SAMPLES`] seconds
    /// without the state; otherwise `None`.
    pub(super) fn note(&mut self, has_state: bool) -> Option<Turn> {
        if has_state {
            self.calm_samples = 0;
            let was_under_way = std::mem::replace(&mut self.is_under_way, true);
            return (!was_under_way).then_some(Turn::Begins);
        }
        if !self.is_under_way {
            return None;
        }
        self.calm_samples += 1;
        if self.calm_samples < CALM_SAMPLES {
            return None;
        }
        *self = Self::default();
        Some(Turn::Ends)
    }
}

/// Returns whether one of the guard's decisions leaves jobs no CPU time. A pause is no such decision:
/// during a pause, the guard measures the load without jobs.
pub(super) fn stops_jobs(decided: &[GuardSample]) -> bool {
    let stops = |sample: &GuardSample| sample.allowed <= 0.0 && sample.action != Action::Pause;
    decided.iter().any(stops)
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
    fn an_episode_begins_at_once_and_ends_after_ten_calm_seconds() {
        let mut episodes = Episodes::default();
        assert_eq!(episodes.note(false), None);
        assert_eq!(episodes.note(true), Some(Turn::Begins));
        for _ in 0..3 {
            assert_eq!(episodes.note(true), None);
            let calm = [(); 9].map(|()| episodes.note(false));
            assert_eq!(calm, [None; 9]);
        }
        assert_eq!(episodes.note(false), Some(Turn::Ends));
        assert_eq!(episodes.note(false), None);
        assert_eq!(episodes.note(true), Some(Turn::Begins));
    }

    #[test]
    fn a_pause_does_not_stop_jobs() {
        let (pause, grow) = (decided(Action::Pause, 0.0), decided(Action::Grow, 0.1));
        let stop = decided(Action::Stop, 0.0);
        assert!(!stops_jobs(&[]));
        assert!(!stops_jobs(&[pause, grow]));
        assert!(stops_jobs(&[grow, stop, grow]));
    }
}

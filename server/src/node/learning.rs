//! The state of the forecast that a node learns: what was measured, and the latest decision.
//!
//! It calls no clock, file or thread: see [`learner`](super::learner).

use ebb_colocate::{
    Learned, LeftForecast, LoadForecast, LoadSample, LoadSlot, ShareMeter, SlotMean,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The time between two decisions whether policies plan by a forecast, in seconds.
const DECIDE_EVERY_S: f64 = 3600.0;
/// The longest time for which one sample counts, in seconds. Between two samples there is a control cycle;
/// behind a longer time, samples are missing.
const SAMPLE_S_MAX: f64 = 10.0;

/// A moment by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The time of the runtime, in seconds since its start.
    pub now_s: f64,
    /// The time of the machine, in seconds since 1970.
    pub unix_s: f64,
}

impl Moment {
    /// Returns the time of the machine at which the runtime's time was 0, as the machine's clock is set now.
    fn zero_unix_s(self) -> f64 {
        self.unix_s - self.now_s
    }
}

/// A forecast that policies do not plan by, because the mean of the last ten minutes was better: the mean absolute
/// errors of both over the last six hours, in cores, as both were at the begin of these hours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RefusedForecast {
    /// The mean absolute error of the forecast learned from the load before these hours, in cores.
    pub forecast_error_cores: f64,
    /// The mean absolute error of the mean of the load over the ten minutes before these hours, in cores.
    pub mean_error_cores: f64,
}

/// A change of the plan, for the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Turn {
    /// Policies plan by a forecast from now on, which combines these methods.
    Forecast { methods: String },
    /// Policies plan by the mean of the last ten minutes, because the forecast was worse.
    Mean(RefusedForecast),
    /// Policies plan by the mean of the last ten minutes, because no forecast can be made any more.
    Neither,
}

/// The measurements of the load, and the forecast that was made of it.
#[derive(Debug)]
pub(super) struct Learning {
    slot: SlotMean,
    share: ShareMeter,
    /// The time of the latest sample that was measured, in seconds of the runtime's time.
    sampled_s: f64,
    forecast: Option<LoadForecast>,
    /// The errors of the latest forecast, if it was worse than the mean.
    refused: Option<RefusedForecast>,
    /// The time of the next decision, in seconds since 1970; `None`: at once.
    due_unix_s: Option<f64>,
}

impl Learning {
    /// Returns the state before the first measurement. `now_s` is the present by the runtime's clock.
    pub(super) fn new(now_s: f64) -> Self {
        Self {
            slot: SlotMean::default(),
            share: ShareMeter::default(),
            sampled_s: now_s,
            forecast: None,
            refused: None,
            due_unix_s: None,
        }
    }

    /// Returns the time of the latest sample that was measured, in seconds of the runtime's time.
    pub(super) fn sampled_s(&self) -> f64 {
        self.sampled_s
    }

    /// Adds samples of the load, oldest first, from a machine that has `cores` cores for the load and jobs.
    /// Returns the slots that ended meanwhile, for the record of the load. The load is what transactional
    /// threads used: other processes come and go for reasons of their own.
    pub(super) fn measure(
        &mut self,
        samples: &[LoadSample],
        cores: f64,
        now: Moment,
    ) -> Vec<LoadSlot> {
        let mut ended = Vec::new();
        for sample in samples {
            let length_s = (sample.t_s - self.sampled_s).clamp(0.0, SAMPLE_S_MAX);
            self.sampled_s = sample.t_s;
            let unix_s = now.zero_unix_s() + sample.t_s;
            let load_cores = sample.transactional_cores;
            let forecast = self.forecast.as_ref();
            let forecast_cores = forecast.and_then(|forecast| forecast.load_at(unix_s));
            let left_cores = (
                cores - load_cores,
                cores - forecast_cores.unwrap_or(load_cores),
            );
            let granted_cores = f64::from(sample.capacity_hundredths) / 100.0;
            self.share.take(length_s, left_cores, granted_cores);
            ended.extend(self.slot.take(unix_s, length_s, load_cores));
        }
        ended
    }

    /// Returns whether a decision is due: an hour after the latest one, or at once if the clock was set so that
    /// the forecast is not of the present.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        let is_outdated = |forecast: &LoadForecast| !forecast.covers(now.unix_s);
        // A second is for rounding: these numbers are large.
        let is_waiting = |ahead_s: f64| (0.0..=DECIDE_EVERY_S + 1.0).contains(&ahead_s);
        let is_time = |due_unix_s: f64| !is_waiting(due_unix_s - now.unix_s);
        self.due_unix_s.is_none_or(is_time) || self.forecast.as_ref().is_some_and(is_outdated)
    }

    /// Notes that a decision begins.
    pub(super) fn begin(&mut self, now: Moment) {
        self.due_unix_s = Some(now.unix_s + DECIDE_EVERY_S);
    }

    /// Takes a decision. Returns the change of the plan, if it is one.
    pub(super) fn decide(&mut self, learned: Learned) -> Option<Turn> {
        let had_forecast = self.forecast.is_some();
        let was_refused = self.refused.take().is_some();
        self.forecast = None;
        match learned {
            Learned::TooEarly => had_forecast.then_some(Turn::Neither),
            Learned::WorseThanMean {
                forecast_error_cores,
                mean_error_cores,
            } => {
                let refused = RefusedForecast {
                    forecast_error_cores,
                    mean_error_cores,
                };
                self.refused = Some(refused);
                (!was_refused).then_some(Turn::Mean(refused))
            }
            Learned::Forecast(forecast) => {
                let methods = forecast.methods().to_owned();
                self.forecast = Some(forecast);
                (!had_forecast).then_some(Turn::Forecast { methods })
            }
        }
    }

    /// Returns the errors of the forecast of the latest decision, if it was refused.
    pub(super) fn refused(&self) -> Option<RefusedForecast> {
        self.refused
    }

    /// Returns the forecast f(t) by which policies plan now, on a machine that has `cores` cores for the load and
    /// jobs; `None`: they plan by the mean of the last ten minutes.
    pub(super) fn plan(&self, cores: f64, now: Moment) -> Option<LeftForecast> {
        let covers = |forecast: &&LoadForecast| forecast.covers(now.unix_s);
        let forecast = self.forecast.as_ref().filter(covers)?;
        let clocks = (now.now_s, now.zero_unix_s());
        forecast.left(cores, self.share.share(cores), clocks).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use ebb_colocate::{LoadRecord, learn};

    use super::*;

    const CORES: f64 = 1.9;
    const DAY_S: f64 = 86_400.0;
    const MIDNIGHT_UNIX_S: f64 = 1_795_996_800.0;

    /// A server that measures each ten seconds, as long as the test calls [`run`](Self::run). Its runtime started
    /// at midnight.
    struct Server {
        learning: Learning,
        record: LoadRecord,
        now_s: f64,
        /// The cores that the load uses in addition to those of each day.
        extra_cores: f64,
    }

    impl Server {
        fn started() -> Self {
            Self {
                learning: Learning::new(0.0),
                record: LoadRecord::default(),
                now_s: 0.0,
                extra_cores: 0.0,
            }
        }

        fn now(&self) -> Moment {
            Moment {
                now_s: self.now_s,
                unix_s: MIDNIGHT_UNIX_S + self.now_s,
            }
        }

        /// Measures until `days` days after the start. Jobs get half of what a daily load leaves.
        fn run(&mut self, days: f64) {
            while self.now_s < days * DAY_S {
                self.now_s += 10.0;
                let load_cores = load_at(self.now_s) + self.extra_cores;
                let sample = LoadSample {
                    t_s: self.now_s,
                    transactional_cores: load_cores,
                    others_cores: 0.7,
                    capacity_hundredths: ((CORES - load_cores) * 50.0) as u32,
                    ..LoadSample::default()
                };
                let now = self.now();
                for slot in self.learning.measure(&[sample], CORES, now) {
                    self.record.push(slot);
                }
            }
        }

        fn decide(&mut self) -> Option<Turn> {
            let now = self.now();
            assert!(self.learning.is_due(now));
            self.learning.begin(now);
            assert!(!self.learning.is_due(now));
            let learned = learn(&self.record, now.unix_s as u64, CORES);
            self.learning.decide(learned)
        }
    }

    /// Returns the load at a time of the runtime: the least, 0.2 cores, at 3:00.
    fn load_at(now_s: f64) -> f64 {
        0.8 - 0.6 * ((now_s / DAY_S - 0.125) * TAU).cos()
    }

    #[test]
    fn after_two_days_policies_plan_by_the_load_of_the_day() {
        let mut server = Server::started();
        server.run(1.5);
        assert_eq!(server.decide(), None);
        assert!(server.learning.plan(CORES, server.now()).is_none());
        server.run(2.25);
        assert!(matches!(server.decide(), Some(Turn::Forecast { .. })));
        let now = server.now();
        let left = server.learning.plan(CORES, now).unwrap();
        // Tomorrow at 3:00, in the middle of the day, and then at 3:00 again.
        for (hour, least, most) in [(27.0, 75.0, 95.0), (39.0, 15.0, 35.0), (51.0, 75.0, 95.0)] {
            let expected = left.expected.at((2.0 * 24.0 + hour) * 3600.0);
            assert!((least..most).contains(&expected), "{hour} h: {expected}");
        }
        let later = Moment {
            now_s: now.now_s + DECIDE_EVERY_S + 1.0,
            unix_s: now.unix_s + DECIDE_EVERY_S + 1.0,
        };
        assert!(server.learning.is_due(later));
    }

    #[test]
    fn while_the_load_is_above_its_forecast_the_plan_promises_less_for_hours() {
        let mut server = Server::started();
        server.run(2.25);
        assert!(server.decide().is_some());
        let left = |server: &Server, ahead_s: f64| {
            let left = server.learning.plan(CORES, server.now()).unwrap();
            left.expected.at(server.now_s + ahead_s)
        };
        assert!(left(&server, 0.0) > 65.0);
        server.extra_cores = 0.8;
        server.run(2.27);
        assert!(left(&server, 0.0) < 55.0, "{}", left(&server, 0.0));
        let tomorrow = left(&server, DAY_S);
        assert!(tomorrow > 60.0, "{tomorrow}");
    }

    #[test]
    fn only_changes_of_the_plan_are_reported() {
        let mut server = Server::started();
        server.run(2.0);
        let now_unix_s = server.now().unix_s as u64;
        let forecast = learn(&server.record, now_unix_s + 300, CORES);
        let worse = Learned::WorseThanMean {
            forecast_error_cores: 0.5,
            mean_error_cores: 0.1,
        };
        let learning = &mut server.learning;
        assert!(matches!(
            learning.decide(forecast.clone()),
            Some(Turn::Forecast { .. })
        ));
        assert_eq!(learning.decide(forecast.clone()), None);
        assert!(matches!(
            learning.decide(worse.clone()),
            Some(Turn::Mean(_))
        ));
        assert_eq!(learning.decide(worse), None);
        assert_eq!(learning.refused().unwrap().forecast_error_cores, 0.5);
        assert_eq!(learning.decide(Learned::TooEarly), None);
        assert_eq!(learning.refused(), None);
        assert!(learning.decide(forecast).is_some());
        assert_eq!(learning.decide(Learned::TooEarly), Some(Turn::Neither));
        assert_eq!(learning.decide(Learned::TooEarly), None);
    }

    #[test]
    fn after_the_clock_was_set_the_forecast_is_made_anew() {
        let mut server = Server::started();
        server.run(2.25);
        assert!(server.decide().is_some());
        let now = server.now();
        for set_s in [-7200.0, 2.0 * DAY_S] {
            let set = Moment {
                now_s: now.now_s,
                unix_s: now.unix_s + set_s,
            };
            assert!(server.learning.plan(CORES, set).is_none(), "{set_s}");
            assert!(server.learning.is_due(set), "{set_s}");
        }
    }
}

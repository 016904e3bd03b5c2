//! The part of the capacity left by the load that analytics get; other processes and the latency guard take the
//! rest.
//!
//! Unlike the load, both do not follow the time of day. So a forecast assumes that the part of the last ten
//! minutes goes back to the part of the last day. The first is a part of what was forecast: it is small, too,
//! while the load is above its forecast, so a forecast that is wrong now promises less for the next hours.

/// The time constant of the mean over the latest minutes, in seconds: the plan without a forecast has the same.
const LATELY_S: f64 = 600.0;
/// The time constant of the mean over the latest days, in seconds.
const USUAL_S: f64 = 86_400.0;
/// The time in which the difference between both means shrinks by a factor of e, in seconds.
const BACK_S: f64 = 3600.0;
/// Analytics are assumed to have got everything that was left for this many seconds before the measurements. It
/// keeps the part near 1 while the load leaves next to nothing.
const BELIEVED_S: f64 = 20.0;

/// The part of the capacity left by the load that analytics are expected to get, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The part in the last ten minutes of the capacity that the load should have left by its forecast.
    pub lately: f64,
    /// The part in the last day of the capacity that the load left.
    pub usual: f64,
}

impl Share {
    /// Returns the expected part in `ahead_s` seconds.
    pub fn at(self, ahead_s: f64) -> f64 {
        self.usual + (self.lately - self.usual) * (-ahead_s.max(0.0) / BACK_S).exp()
    }
}

/// Measures the [`Share`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ShareMeter {
    lately: Sums,
    usual: Sums,
}

/// Sums of core-seconds in which older ones weigh less.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    left: f64,
    granted: f64,
}

impl Sums {
    fn take(&mut self, constant_s: f64, length_s: f64, [left_cores, granted_cores]: [f64; 2]) {
        let weight = (-length_s / constant_s).exp();
        self.left = self.left * weight + left_cores * length_s;
        self.granted = self.granted * weight + granted_cores * length_s;
    }

    fn part(self, believed: f64) -> f64 {
        let left = self.left + believed;
        if left > 0.0 {
            ((self.granted + believed) / left).min(1.0)
        } else {
            1.0
        }
    }
}

impl ShareMeter {
    /// Adds a measurement over `length_s` seconds: the load left `left_cores`, should have left
    /// `forecast_cores` by its forecast, and analytics got `granted_cores`.
    pub fn take(
        &mut self,
        length_s: f64,
        (left_cores, forecast_cores): (f64, f64),
        granted_cores: f64,
    ) {
        let of = |cores: f64| [cores.max(0.0), granted_cores.max(0.0)];
        self.lately.take(LATELY_S, length_s, of(forecast_cores));
        self.usual.take(USUAL_S, length_s, of(left_cores));
    }

    /// Returns the share on a machine that has `cores` cores for analytics.
    pub fn share(&self, cores: f64) -> Share {
        let believed = BELIEVED_S * cores;
        Share {
            lately: self.lately.part(believed),
            usual: self.usual.part(believed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: f64 = 2.0;

    #[test]
    fn the_share_is_the_granted_part_and_goes_back_to_the_usual_one() {
        let mut meter = ShareMeter::default();
        let share = meter.share(CORES);
        assert_eq!((share.lately, share.usual), (1.0, 1.0));
        for _ in 0..1440 {
            meter.take(60.0, (1.0, 1.0), 0.8);
        }
        for _ in 0..20 {
            meter.take(60.0, (1.0, 1.0), 0.0);
        }
        let share = meter.share(CORES);
        assert!((0.1..0.25).contains(&share.lately), "{share:?}");
        assert!((0.75..0.82).contains(&share.usual), "{share:?}");
        for (ahead_s, part) in [
            (0.0, share.lately),
            (-5.0, share.lately),
            (86_400.0, share.usual),
        ] {
            assert!((share.at(ahead_s) - part).abs() < 1e-6, "{ahead_s}");
        }
        assert!(share.at(1800.0) < share.at(3600.0));
    }

    #[test]
    fn a_load_above_its_forecast_lowers_only_the_share_of_the_last_minutes() {
        let mut meter = ShareMeter::default();
        for _ in 0..60 {
            meter.take(60.0, (0.5, 1.5), 0.5);
        }
        let share = meter.share(CORES);
        assert!((0.3..0.4).contains(&share.lately), "{share:?}");
        assert_eq!(share.usual, 1.0);
        // A load below its forecast leaves more than the plan needs.
        for _ in 0..60 {
            meter.take(60.0, (1.5, 0.5), 1.5);
        }
        assert_eq!(meter.share(CORES).lately, 1.0);
    }

    #[test]
    fn a_load_that_leaves_nothing_takes_no_share() {
        let mut meter = ShareMeter::default();
        for _ in 0..60 {
            meter.take(60.0, (-0.1, -0.1), 0.0);
        }
        assert_eq!(meter.share(CORES).lately, 1.0);
        // The floor is more than the load leaves.
        meter.take(60.0, (0.0, 0.0), 0.15);
        assert_eq!(meter.share(CORES).lately, 1.0);
        assert_eq!(ShareMeter::default().share(0.0).lately, 1.0);
    }
}

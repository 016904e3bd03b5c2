//! The course of a load over time, as a fraction of the machine.

use std::f64::consts::TAU;

/// The levels of burstiness in the thesis (Polo 2014, Figure 5.22). At each level the fraction of the
/// machine that the load leaves is a sine curve over a day, given here by its mean and its amplitude.
/// The load peaks at 18 h.
const LEVELS: [(f64, f64); 3] = [(0.575, 0.125), (0.575, 0.25), (0.575, 0.375)];
const PEAK_OF_DAY: f64 = 18.0 / 24.0;

/// The course of a load: the fraction of the machine's CPU that the load uses, as a function of
/// time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A day compressed to this many seconds, of burstiness level 1, 2 or 3.
    Day { level: usize, seconds: f64 },
    /// The load uses the fraction `from` of the machine until the time `at_s`, and the
    /// fraction `to` afterwards.
    Step { from: f64, to: f64, at_s: f64 },
}

impl Shape {
    /// Returns the fraction of the machine that the load should use at a time.
    pub fn at(self, t_s: f64) -> f64 {
        match self {
            Self::Day { level, seconds } => {
                let (left, amplitude) = LEVELS[level - 1];
                let phase = (TAU * (t_s / seconds - PEAK_OF_DAY)).cos();
                1.0 - left + amplitude * phase
            }
            Self::Step { from, to, at_s } => {
                if t_s < at_s {
                    from
                } else {
                    to
                }
            }
        }
    }

    pub fn bounds(self) -> (f64, f64) {
        match self {
            Self::Day { level, .. } => {
                let (left, amplitude) = LEVELS[level - 1];
                (1.0 - left - amplitude, 1.0 - left + amplitude)
            }
            Self::Step { from, to, .. } => (from.min(to), from.max(to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burstiest_day_goes_from_5_to_80_percent() {
        let day = Shape::Day {
            level: 3,
            seconds: 24.0,
        };
        let (low, high) = day.bounds();
        assert!((low - 0.05).abs() < 1e-9 && (high - 0.80).abs() < 1e-9);
        assert!((day.at(18.0) - high).abs() < 1e-9);
        assert!((day.at(6.0) - low).abs() < 1e-9);
        for level in 1..=3 {
            let day = Shape::Day {
                level,
                seconds: 24.0,
            };
            let mean = (0..240).map(|t| day.at(f64::from(t) / 10.0)).sum::<f64>() / 240.0;
            assert!((mean - 0.425).abs() < 1e-9, "level {level}");
        }
    }

    #[test]
    fn a_step_changes_the_load_at_its_time() {
        let step = Shape::Step {
            from: 0.1,
            to: 0.8,
            at_s: 2.0,
        };
        assert_eq!((step.at(1.999), step.at(2.0)), (0.1, 0.8));
        assert_eq!(step.bounds(), (0.1, 0.8));
    }
}

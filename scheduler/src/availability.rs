//! f(t): the part of the machines that is left to analytics over time.
//!
//! The transactional load is known or forecast; the capacity minus this load is
//! an [`Availability`] in hundredths of a core. The Reverse-Adaptive policy
//! plans against its integral, and the simulator takes each cycle's capacity
//! from it. The constructors check every number, so amounts and integrals are
//! always finite and never negative.

#[cfg(test)]
mod tests;

use serde::Serialize;
use std::f64::consts::TAU;
use thiserror::Error;

/// Length in seconds of a day of 24 hours, the period of the thesis's load.
pub const DAY_S: f64 = 24.0 * 3600.0;

/// The form of an [`Availability`]: its capacity, in hundredths of a core, as a function of the
/// time in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum Shape {
    Constant(f64),
    SineDay(SineDay),
    Steps(Steps),
    /// The sum of the capacities of several groups of nodes.
    Sum(Vec<Availability>),
    /// The capacity of another availability, multiplied by `factor`.
    Scaled {
        of: Box<Availability>,
        factor: f64,
    },
}

/// A capacity that is constant from each step to the next, and its integral up to each step.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Steps {
    steps: Vec<Step>,
    /// For each step: the integral of the capacity from the start of the first step to the start of
    /// this one, in hundredths of a core-second.
    #[serde(skip)]
    work_before: Vec<f64>,
}

/// A transactional load that follows a cosine over the day.
///
/// The capacity left to analytics at time t is `mean - amplitude * cos(2 pi (t - peak_at) / day)`:
/// smallest at the peak of the transactional load, largest half a day later. Where this is
/// negative, no capacity is left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SineDay {
    /// Mean of the cosine, before negative values count as 0, in hundredths of a core; not
    /// negative.
    pub mean_hundredths: f64,
    /// Amplitude of the cosine, in hundredths of a core; not negative.
    pub amplitude_hundredths: f64,
    /// Time of a peak of the transactional load, in seconds.
    pub peak_at_s: f64,
    /// Length of a day in seconds; positive.
    pub day_s: f64,
}

/// One step of a step function: from `from_s` until the next step, `hundredths`
/// of a core are left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Start of the step in seconds.
    pub from_s: f64,
    /// Amount left to analytics during the step, in hundredths of a core.
    pub hundredths: f64,
}

/// The reason why an [`Availability`] could not be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AvailabilityError {
    /// A number was infinite or not a number.
    #[error("{what} must be a finite number, got {value}")]
    NotFinite {
        /// Name of the rejected argument.
        what: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// A number that must not be negative was negative.
    #[error("{what} must not be negative, got {value}")]
    Negative {
        /// Name of the rejected argument.
        what: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// The length of a day is zero or negative.
    #[error("the length of a day must be positive, got {0} s")]
    EmptyDay(f64),
    /// The step function has no steps.
    #[error("a trace needs at least one step")]
    NoSteps,
    /// A step does not start after the step before it.
    #[error("step {index} starts at {from_s} s, not after its predecessor at {before_s} s")]
    Unordered {
        /// Position of the step, from 0.
        index: usize,
        /// Start, in seconds, of the step at `index`.
        from_s: f64,
        /// Start of the preceding step, in seconds.
        before_s: f64,
    },
}

/// The CPU capacity that is left to analytics, over time; see the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Availability {
    shape: Shape,
}

impl Availability {
    /// Returns an availability that is the same at all times, in hundredths of a core.
    ///
    /// # Errors
    /// When the amount is negative or not finite.
    pub fn constant(hundredths: f64) -> Result<Self, AvailabilityError> {
        not_negative("availability", hundredths)?;
        Ok(Self {
            shape: Shape::Constant(hundredths),
        })
    }

    /// Returns the capacity that the thesis's daily load leaves to analytics: a cosine around a
    /// mean. For example, the most bursty load of the thesis (level 3 in section 5.3.5), on 100
    /// nodes, leaves a mean of 5,750 hundredths of a core with an amplitude of 3,750. This load
    /// peaks at 18:00.
    ///
    /// # Errors
    /// When a number is not finite, mean or amplitude is negative, or the length of the day is not
    /// positive.
    pub fn sine_day(day: SineDay) -> Result<Self, AvailabilityError> {
        not_negative("mean", day.mean_hundredths)?;
        not_negative("amplitude", day.amplitude_hundredths)?;
        finite("peak time", day.peak_at_s)?;
        finite("length of a day", day.day_s)?;
        if day.day_s <= 0.0 {
            return Err(AvailabilityError::EmptyDay(day.day_s));
        }
        Ok(Self {
            shape: Shape::SineDay(day),
        })
    }

    /// Returns the availability of a measured or planned trace, as a step function. The amount of
    /// the first step also holds before its start, and that of the last one for ever.
    ///
    /// # Errors
    /// When there is no step, a number is not finite, an amount is negative, or
    /// starts do not strictly increase.
    pub fn steps(steps: Vec<Step>) -> Result<Self, AvailabilityError> {
        if steps.is_empty() {
            return Err(AvailabilityError::NoSteps);
        }
        for (index, step) in steps.iter().enumerate() {
            finite("start of a step", step.from_s)?;
            not_negative("availability of a step", step.hundredths)?;
            if index > 0 && step.from_s <= steps[index - 1].from_s {
                return Err(AvailabilityError::Unordered {
                    index,
                    from_s: step.from_s,
                    before_s: steps[index - 1].from_s,
                });
            }
        }
        Ok(Self {
            shape: Shape::Steps(Steps::new(steps)),
        })
    }

    /// Returns the sum of the availabilities of several parts of the machines, such as groups of
    /// nodes.
    #[must_use]
    pub fn sum(parts: Vec<Self>) -> Self {
        Self {
            shape: Shape::Sum(parts),
        }
    }

    /// Returns an availability that is, at all times, `factor` times as large as this one.
    ///
    /// # Errors
    /// When `factor` is not finite, or negative.
    pub fn scaled(self, factor: f64) -> Result<Self, AvailabilityError> {
        not_negative("factor", factor)?;
        let of = Box::new(self);
        Ok(Self {
            shape: Shape::Scaled { of, factor },
        })
    }

    /// Returns the capacity left to analytics at `t_s`, in hundredths of a core.
    #[must_use]
    pub fn at(&self, t_s: f64) -> f64 {
        match &self.shape {
            Shape::Constant(hundredths) => *hundredths,
            Shape::SineDay(day) => {
                let phase = TAU * (t_s - day.peak_at_s) / day.day_s;
                (day.mean_hundredths - day.amplitude_hundredths * phase.cos()).max(0.0)
            }
            Shape::Steps(steps) => steps.steps[steps.index_at(t_s)].hundredths,
            Shape::Sum(parts) => parts.iter().map(|part| part.at(t_s)).sum(),
            Shape::Scaled { of, factor } => of.at(t_s) * factor,
        }
    }

    /// Returns the integral, from `a_s` to `b_s`, of the capacity left to analytics, in hundredths
    /// of a core times seconds; exact up to rounding. 0 if `b_s` is not after `a_s`.
    #[must_use]
    pub fn integral(&self, a_s: f64, b_s: f64) -> f64 {
        if b_s <= a_s {
            return 0.0;
        }
        match &self.shape {
            Shape::Constant(hundredths) => hundredths * (b_s - a_s),
            Shape::SineDay(day) => day.work_until(b_s) - day.work_until(a_s),
            Shape::Steps(steps) => steps.work_until(b_s) - steps.work_until(a_s),
            Shape::Sum(parts) => parts.iter().map(|part| part.integral(a_s, b_s)).sum(),
            Shape::Scaled { of, factor } => of.integral(a_s, b_s) * factor,
        }
        .max(0.0)
    }

    /// Returns the mean capacity left to analytics from `a_s` to `b_s`, in hundredths of a core;
    /// the capacity at `a_s` if `b_s` is not after `a_s`.
    #[must_use]
    pub fn mean(&self, a_s: f64, b_s: f64) -> f64 {
        if b_s <= a_s {
            return self.at(a_s);
        }
        self.integral(a_s, b_s) / (b_s - a_s)
    }
}

impl SineDay {
    /// Returns the integral of the capacity left to analytics from `peak_at_s` to `t_s`, in
    /// hundredths of a core times seconds; negative if `t_s` is earlier than `peak_at_s`.
    ///
    /// A day here lasts from one peak to the next. No capacity is left near the peaks: in the first
    /// and the last `zero_phase` radians of a day. So the integral sums over the whole days before
    /// `t_s` and over the part of the last day before `t_s`, both without these phases.
    fn work_until(&self, t_s: f64) -> f64 {
        let radian_s = self.day_s / TAU;
        let phase = (t_s - self.peak_at_s) / radian_s;
        let days = (phase / TAU).floor();
        let phase = phase - days * TAU;
        // Nothing is left where cos(phase) > mean / amplitude.
        let zero_phase = if self.amplitude_hundredths > self.mean_hundredths {
            (self.mean_hundredths / self.amplitude_hundredths).acos()
        } else {
            0.0
        };
        let wave =
            |phase: f64| self.mean_hundredths * phase - self.amplitude_hundredths * phase.sin();
        let since_zero =
            |phase: f64| wave(phase.clamp(zero_phase, TAU - zero_phase)) - wave(zero_phase);
        radian_s * (days * since_zero(TAU) + since_zero(phase))
    }
}

impl Steps {
    fn new(steps: Vec<Step>) -> Self {
        let mut work = 0.0;
        let mut work_before = vec![0.0];
        for pair in steps.windows(2) {
            work += pair[0].hundredths * (pair[1].from_s - pair[0].from_s);
            work_before.push(work);
        }
        Self { steps, work_before }
    }

    /// Returns the index of the step that holds at `t_s`; 0 before the first step.
    fn index_at(&self, t_s: f64) -> usize {
        let after = self.steps.partition_point(|step| step.from_s <= t_s);
        after.saturating_sub(1)
    }

    /// Returns the integral of the step function from its first start to `t_s`; negative if `t_s`
    /// is earlier.
    fn work_until(&self, t_s: f64) -> f64 {
        let index = self.index_at(t_s);
        let step = self.steps[index];
        self.work_before[index] + step.hundredths * (t_s - step.from_s)
    }
}

fn finite(what: &'static str, value: f64) -> Result<(), AvailabilityError> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(AvailabilityError::NotFinite { what, value })
    }
}

fn not_negative(what: &'static str, value: f64) -> Result<(), AvailabilityError> {
    finite(what, value)?;
    if value < 0.0 {
        return Err(AvailabilityError::Negative { what, value });
    }
    Ok(())
}

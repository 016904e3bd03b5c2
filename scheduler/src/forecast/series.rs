//! A measured load: values at even steps, some of which may be missing.

use thiserror::Error;

/// Slots beyond which a series is refused: a century of five minutes. One wrong
/// timestamp must not ask for all memory.
const SLOTS_MAX: f64 = 1e7;

/// The largest value. Sums, squares and quantiles of values up to it are finite.
const VALUE_MAX: f64 = 1e100;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When, in seconds from any fixed instant.
    pub t_s: f64,
    /// How much; not negative, and at most 1e100.
    pub value: f64,
}

/// A load over time, in any unit, at even steps. Values are finite and not
/// negative; a slot may be without one.
#[derive(Clone, Debug)]
pub struct Series {
    start_s: f64,
    step_s: f64,
    /// NaN where nothing was measured; never outside this module and its
    /// neighbours, which skip it.
    values: Vec<f64>,
}

/// Why a [`Series`] could not be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// Nothing to find a step from.
    #[error("a series needs at least two values, got {0}")]
    TooFew(usize),
    /// The step is not a positive number, or the start not a finite one.
    #[error(
        "start {start_s} s and step {step_s} s do not make a series: the step must be positive and both finite"
    )]
    Grid {
        /// The start that was given, in seconds.
        start_s: f64,
        /// The step that was given, in seconds.
        step_s: f64,
    },
    /// A time or value that is infinite or not a number.
    #[error(
        "value {index} is {value} at {t_s} s: times and values must be finite; leave out what was not measured"
    )]
    NotFinite {
        /// Position, from 0.
        index: usize,
        /// Its time in seconds.
        t_s: f64,
        /// The value.
        value: f64,
    },
    /// A load below zero.
    #[error("value {index} is {value}: a load must not be negative")]
    Negative {
        /// Position, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A load beyond what can be counted with.
    #[error("value {index} is {value:e}: the largest that can be counted with is {VALUE_MAX:e}")]
    TooLarge {
        /// Position, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Two values at one time.
    #[error("value {index} has the same time as the one before it, {t_s} s")]
    Duplicate {
        /// Position of the second, from 0.
        index: usize,
        /// The time in seconds.
        t_s: f64,
    },
    /// A time before its predecessor's.
    #[error(
        "value {index} is at {t_s} s, before its predecessor at {before_s} s: sort the series by time"
    )]
    Unordered {
        /// Position, from 0.
        index: usize,
        /// Its time in seconds.
        t_s: f64,
        /// The time before it in seconds.
        before_s: f64,
    },
    /// A span of more steps than anyone measures.
    #[error(
        "{span_s} s in steps of {step_s} s is more than {SLOTS_MAX} slots: is a timestamp wrong?"
    )]
    TooLong {
        /// From the first value to the last, in seconds.
        span_s: f64,
        /// The usual distance of two values, in seconds.
        step_s: f64,
    },
}

impl SeriesError {
    /// The position of the value that was refused, from 0, if it was one.
    #[must_use]
    pub fn index(&self) -> Option<usize> {
        match *self {
            Self::NotFinite { index, .. }
            | Self::Negative { index, .. }
            | Self::TooLarge { index, .. }
            | Self::Duplicate { index, .. }
            | Self::Unordered { index, .. } => Some(index),
            Self::TooFew(_) | Self::Grid { .. } | Self::TooLong { .. } => None,
        }
    }
}

impl Series {
    /// Values at `start_s`, `start_s + step_s` and so on; `None` where nothing
    /// was measured.
    ///
    /// # Errors
    /// When there is no value, the step is not positive, or a number is
    /// infinite, not a number, or a negative value.
    pub fn new(start_s: f64, step_s: f64, values: Vec<Option<f64>>) -> Result<Self, SeriesError> {
        let grid = start_s.is_finite() && step_s.is_finite() && step_s > 0.0;
        if !grid {
            return Err(SeriesError::Grid { start_s, step_s });
        }
        if values.iter().all(Option::is_none) {
            return Err(SeriesError::TooFew(0));
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(value) = *value {
                let t_s = start_s + index as f64 * step_s;
                check(index, Point { t_s, value })?;
            }
        }
        let values = values.into_iter().map(|value| value.unwrap_or(f64::NAN));
        Ok(Self {
            start_s,
            step_s,
            values: values.collect(),
        })
    }

    /// Values as they were measured, in the order of their times. The step is the
    /// median distance of two neighbours; each value goes to the nearest slot, and
    /// those that meet there become their mean. Slots without one stay empty.
    ///
    /// # Errors
    /// When there are less than two points, a number is infinite, not a number or
    /// a negative value, times repeat or run backwards, or the span is absurd.
    pub fn from_points(points: &[Point]) -> Result<Self, SeriesError> {
        for (index, point) in points.iter().enumerate() {
            check(index, *point)?;
            let Some(before) = index.checked_sub(1).map(|before| points[before].t_s) else {
                continue;
            };
            let t_s = point.t_s;
            if t_s == before {
                return Err(SeriesError::Duplicate { index, t_s });
            }
            if t_s < before {
                let before_s = before;
                return Err(SeriesError::Unordered {
                    index,
                    t_s,
                    before_s,
                });
            }
        }
        let [first, .., last] = points else {
            return Err(SeriesError::TooFew(points.len()));
        };
        let mut steps: Vec<f64> = points
            .windows(2)
            .map(|two| two[1].t_s - two[0].t_s)
            .collect();
        let middle = steps.len() / 2;
        let (_, &mut step_s, _) = steps.select_nth_unstable_by(middle, f64::total_cmp);
        let span_s = last.t_s - first.t_s;
        // Not `>`: a span beyond all numbers is too long as well.
        let few = span_s / step_s < SLOTS_MAX;
        if !few {
            return Err(SeriesError::TooLong { span_s, step_s });
        }
        let slot = |t_s: f64| ((t_s - first.t_s) / step_s).round() as usize;
        let mut sums = vec![(0.0, 0_u32); slot(last.t_s) + 1];
        for point in points {
            let (sum, count) = &mut sums[slot(point.t_s)];
            *sum += point.value;
            *count += 1;
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        Self::new(first.t_s, step_s, sums.into_iter().map(mean).collect())
    }

    /// Number of slots, empty ones included; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a series is never empty")]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Number of slots without a value.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.values.iter().filter(|value| value.is_nan()).count()
    }

    /// Distance of two slots in seconds; positive.
    #[must_use]
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// The time of a slot in seconds; beyond the last one the time it would have.
    #[must_use]
    pub fn time_s(&self, slot: usize) -> f64 {
        self.start_s + slot as f64 * self.step_s
    }

    /// The value of a slot; `None` where nothing was measured.
    #[must_use]
    pub fn value(&self, slot: usize) -> Option<f64> {
        self.values
            .get(slot)
            .copied()
            .filter(|value| !value.is_nan())
    }

    /// The slots before `origin`, NaN where nothing was measured. Methods are
    /// given this and nothing else.
    pub(super) fn before(&self, origin: usize) -> &[f64] {
        &self.values[..origin]
    }
}

fn check(index: usize, Point { t_s, value }: Point) -> Result<(), SeriesError> {
    if !t_s.is_finite() || !value.is_finite() {
        return Err(SeriesError::NotFinite { index, t_s, value });
    }
    if value < 0.0 {
        return Err(SeriesError::Negative { index, value });
    }
    if value > VALUE_MAX {
        return Err(SeriesError::TooLarge { index, value });
    }
    Ok(())
}

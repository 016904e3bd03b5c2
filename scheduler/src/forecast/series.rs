//! A measured load: values at even steps, some of which may be missing.

use thiserror::Error;

/// Largest number of slots: a century of five-minute slots. Without a limit, one wrong
/// timestamp would make a series allocate all memory.
const SLOTS_MAX: f64 = 1e7;

/// The longest gap that [`Series::fill_short_gaps`] fills, in seconds: an hour. A restart of what measures leaves
/// such a gap.
const GAP_FILLED_S: f64 = 3600.0;

/// The largest value. Sums, squares and quantiles of values up to it are finite.
const VALUE_MAX: f64 = 1e100;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time of the measurement, in seconds from any fixed instant.
    pub t_s: f64,
    /// Measured load; not negative, and at most 1e100.
    pub value: f64,
}

/// A load over time, in any unit. Time is divided into slots (steps) of equal length,
/// each with a value that is finite and not negative, or without a value if nothing was
/// measured.
#[derive(Clone, Debug)]
pub struct Series {
    start_s: f64,
    step_s: f64,
    /// The value of each slot; NaN where nothing was measured. Only the modules of `forecast` get
    /// NaN, and they skip it; [`value`](Self::value) returns `None` instead.
    values: Vec<f64>,
}

/// The reason why a [`Series`] could not be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// There are too few values; the number is how many there are. [`Series::new`] needs at least
    /// one. [`Series::from_points`] needs two, because the step is a distance between values.
    #[error("a series needs at least two values, got {0}")]
    TooFew(usize),
    /// The step is not positive and finite, or the start not finite.
    #[error(
        "start {start_s} s and step {step_s} s do not make a series: the step must be positive and both finite"
    )]
    Grid {
        /// The start of the series that the caller passed, in seconds.
        start_s: f64,
        /// The step that the caller passed, in seconds.
        step_s: f64,
    },
    /// A time or value that is infinite or not a number.
    #[error(
        "value {index} is {value} at {t_s} s: times and values must be finite; leave out what was not measured"
    )]
    NotFinite {
        /// Position of the value, from 0.
        index: usize,
        /// Time of the value, in seconds.
        t_s: f64,
        /// The value that was refused.
        value: f64,
    },
    /// A load below zero.
    #[error("value {index} is {value}: a load must not be negative")]
    Negative {
        /// Position of the value, from 0.
        index: usize,
        /// The value that was refused.
        value: f64,
    },
    /// A load so large that sums of such values could overflow.
    #[error("value {index} is {value:e}: the largest that can be counted with is {VALUE_MAX:e}")]
    TooLarge {
        /// Position of the value, from 0.
        index: usize,
        /// The value that was refused.
        value: f64,
    },
    /// Two values at one time.
    #[error("value {index} has the same time as the one before it, {t_s} s")]
    Duplicate {
        /// Position, from 0, of the value whose time is the same as that of its
        /// predecessor.
        index: usize,
        /// The time that both the value and its predecessor have, in seconds.
        t_s: f64,
    },
    /// A time before the time of the preceding value.
    #[error(
        "value {index} is at {t_s} s, before its predecessor at {before_s} s: sort the series by time"
    )]
    Unordered {
        /// Position of the value, from 0.
        index: usize,
        /// Time of the value, in seconds.
        t_s: f64,
        /// Time of the preceding value, in seconds.
        before_s: f64,
    },
    /// The span has ten million steps or more, probably because a timestamp is wrong.
    #[error(
        "{span_s} s in steps of {step_s} s is more than {SLOTS_MAX} slots: is a timestamp wrong?"
    )]
    TooLong {
        /// Time from the first value to the last, in seconds.
        span_s: f64,
        /// Median distance of neighbouring values, in seconds.
        step_s: f64,
    },
}

impl SeriesError {
    /// Returns the position of the refused value, from 0; `None` if the error concerns the
    /// series as a whole.
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
    /// Builds a series of values at `start_s`, `start_s + step_s` and so on; `None` where
    /// nothing was measured.
    ///
    /// # Errors
    /// When there is no value, the step is not positive, a number is infinite or not a
    /// number, or a value is negative or larger than 1e100.
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

    /// Builds a series from measurements in the order of their times. The step is the median
    /// distance of two neighbours. Each value belongs to the nearest slot. Values in the same slot
    /// are averaged, and slots without a value are gaps.
    ///
    /// # Errors
    /// When there are less than two points, a number is infinite or not a number, a value is
    /// negative or larger than 1e100, times repeat or run backwards, or the span has ten million
    /// steps or more.
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
        // The negated `<` also refuses an infinite span, whose quotient may be NaN.
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

    /// Fills the gaps of at most an hour between two measured slots by a straight line: if a time of day is
    /// missing in the first days of a series, most methods have no forecast there.
    pub fn fill_short_gaps(&mut self) {
        let slots = self.values.iter().enumerate();
        let measured = slots.filter(|(_, value)| !value.is_nan());
        let measured: Vec<usize> = measured.map(|(slot, _)| slot).collect();
        for pair in measured.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let (from, to) = (self.values[before], self.values[after]);
            let gap = &mut self.values[before + 1..after];
            if gap.len() as f64 * self.step_s > GAP_FILLED_S {
                continue;
            }
            let step = (to - from) / (gap.len() + 1) as f64;
            for (nth, value) in gap.iter_mut().enumerate() {
                *value = (from + step * (nth + 1) as f64).max(0.0);
            }
        }
    }

    /// Returns the number of slots, empty ones included; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a series is never empty")]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the number of slots without a value.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.values.iter().filter(|value| value.is_nan()).count()
    }

    /// Returns the time from the start of a slot to the start of the next one, in seconds;
    /// positive.
    #[must_use]
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// Returns the start of a slot in seconds; `slot` may lie beyond the last one.
    #[must_use]
    pub fn time_s(&self, slot: usize) -> f64 {
        self.start_s + slot as f64 * self.step_s
    }

    /// Returns the value of a slot; `None` in a gap, or beyond the last slot.
    #[must_use]
    pub fn value(&self, slot: usize) -> Option<f64> {
        self.values
            .get(slot)
            .copied()
            .filter(|value| !value.is_nan())
    }

    /// Returns the values before the slot `origin`, NaN where nothing was measured. The
    /// methods get only these values, so that a forecast cannot depend on the future.
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

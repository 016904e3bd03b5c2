//! Availability from a measured trace: a series in a file of its own.

use super::numbers::shown;
use super::schema::TraceQuantity;
use crate::availability::{Availability, Step};
use crate::forecast::Series;
use crate::sim::bounds::{KEPT_MAX, STEPS_MAX};
use std::cell::Cell;

/// The trace files that a scenario names.
pub(super) struct Traces<'a> {
    /// Returns the text of a file, or the reason why it cannot be read.
    text_of: &'a dyn Fn(&str) -> Result<String, String>,
    /// Number of steps of all series that were read so far. The steps of a series that is read
    /// twice are counted twice.
    steps: Cell<u64>,
}

/// The available part of the nodes' CPU from time 0 on.
pub(super) struct Trace {
    /// Start of each step in seconds, and the available part of the CPU from 0 to 1.
    steps: Vec<(f64, f64)>,
}

impl<'a> Traces<'a> {
    pub fn new(text_of: &'a dyn Fn(&str) -> Result<String, String>) -> Self {
        Self {
            text_of,
            steps: Cell::new(0),
        }
    }

    /// Returns the number of steps of all series that were read so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Reads the series in `file`, whose first value holds from time 0 on. Its values are the load
    /// or the capacity left, depending on `measures`. `whole`, positive and finite, is the value
    /// that stands for all CPU of all nodes. A larger value is an error, or is lowered to `whole`
    /// if `clip` is true. A gap in the series is an error.
    pub fn read(
        &self,
        file: &str,
        measures: TraceQuantity,
        whole: f64,
        clip: bool,
    ) -> Result<Trace, String> {
        let text = (self.text_of)(file)?;
        let series = Series::parse_csv(&text).map_err(|error| format!("{file}, {error}"))?;
        if series.len() > STEPS_MAX {
            return Err(format!(
                "{file}: {} values, with gaps; at most {STEPS_MAX}: take longer steps",
                series.len()
            ));
        }
        self.steps.set(self.steps.get() + series.len() as u64);
        if self.steps.get() > KEPT_MAX {
            return Err(format!(
                "{file}: the series of all nodes and points have {} values; at most {KEPT_MAX}: \
                 take longer steps, or sweep over fewer values",
                self.steps.get()
            ));
        }
        let mut steps = Vec::with_capacity(series.len());
        for slot in 0..series.len() {
            let t_s = series.time_s(slot);
            let Some(value) = series.value(slot) else {
                let step_s = series.step_s();
                return Err(format!(
                    "{file}: nothing was measured at {t_s} s, with values {step_s} s apart: fill gaps first"
                ));
            };
            let value = if clip { value.min(whole) } else { value };
            if value > whole {
                let (value, whole) = (shown(value), shown(whole));
                return Err(format!(
                    "{file}: {value} at {t_s} s is more than all of the nodes, {whole}"
                ));
            }
            let part = match measures {
                TraceQuantity::Load => 1.0 - value / whole,
                TraceQuantity::Availability => value / whole,
            };
            steps.push((t_s - series.time_s(0), part));
        }
        Ok(Trace { steps })
    }
}

impl Trace {
    /// Moves time 0 to `from_s` seconds after the first value. Fails if that is before the first or
    /// after the last value.
    pub fn from(self, from_s: f64) -> Result<Self, String> {
        let last_s = self.steps.last().map_or(0.0, |&(t_s, _)| t_s);
        if !(0.0..=last_s).contains(&from_s) {
            let from_s = shown(from_s);
            return Err(format!(
                "from_s must lie between 0 and the last value, {last_s} s, got {from_s}"
            ));
        }
        let first = self.steps.partition_point(|&(t_s, _)| t_s <= from_s) - 1;
        let steps = self.steps[first..].iter();
        Ok(Self {
            steps: steps
                .map(|&(t_s, part)| ((t_s - from_s).max(0.0), part))
                .collect(),
        })
    }

    /// Returns the CPU that the series leaves to jobs over time, on nodes that together have
    /// `cpu_hundredths` hundredths of a core.
    pub fn availability(&self, cpu_hundredths: f64) -> Result<Availability, String> {
        let steps = self.steps.iter().map(|&(from_s, part)| Step {
            from_s,
            hundredths: part * cpu_hundredths,
        });
        Availability::steps(steps.collect()).map_err(|error| error.to_string())
    }
}

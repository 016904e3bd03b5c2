//! Measured availability: a series in a file of its own.

use super::schema::Measured;
use crate::availability::{Availability, Step};
use crate::forecast::Series;

/// How the text of a file that a scenario names is got; the error says why not.
pub(super) struct Traces<'a>(pub &'a dyn Fn(&str) -> Result<String, String>);

/// What is left of the nodes, in parts of their CPU, from time 0 on.
pub(super) struct Trace {
    /// Starts in seconds, and parts from 0 to 1.
    steps: Vec<(f64, f64)>,
}

/// The value that stands for all of the nodes.
#[derive(Clone, Copy)]
pub(super) enum Whole {
    /// No value may be larger.
    Limit(f64),
    /// A larger value counts as this.
    Most(f64),
}

impl Traces<'_> {
    /// The series in `file`, whose first value holds from time 0 on.
    pub fn read(&self, file: &str, measures: Measured, whole: Whole) -> Result<Trace, String> {
        let (Whole::Limit(most) | Whole::Most(most)) = whole;
        let clips = matches!(whole, Whole::Most(_));
        let whole = most;
        if !(whole.is_finite() && whole > 0.0) {
            return Err(format!("whole must be positive and finite, got {whole}"));
        }
        let text = (self.0)(file)?;
        let series = Series::parse_csv(&text).map_err(|error| format!("{file}, {error}"))?;
        let mut steps = Vec::with_capacity(series.len());
        for slot in 0..series.len() {
            let t_s = series.time_s(slot);
            let Some(value) = series.value(slot) else {
                let step_s = series.step_s();
                return Err(format!(
                    "{file}: nothing was measured at {t_s} s, with values {step_s} s apart: fill gaps first"
                ));
            };
            let value = if clips { value.min(whole) } else { value };
            if value > whole {
                return Err(format!(
                    "{file}: {value} at {t_s} s is more than all of the nodes, {whole}"
                ));
            }
            let part = match measures {
                Measured::Load => 1.0 - value / whole,
                Measured::Availability => value / whole,
            };
            steps.push((t_s - series.time_s(0), part));
        }
        Ok(Trace { steps })
    }
}

impl Trace {
    /// The same with time 0 so many seconds after its first value.
    pub fn from(self, from_s: f64) -> Result<Self, String> {
        let last_s = self.steps.last().map_or(0.0, |&(t_s, _)| t_s);
        if !(0.0..=last_s).contains(&from_s) {
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

    /// Of nodes with `cpu_hundredths` in all.
    pub fn availability(&self, cpu_hundredths: f64) -> Result<Availability, String> {
        let steps = self.steps.iter().map(|&(from_s, part)| Step {
            from_s,
            hundredths: part * cpu_hundredths,
        });
        Availability::steps(steps.collect()).map_err(|error| error.to_string())
    }
}

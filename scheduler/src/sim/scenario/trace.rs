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

impl Traces<'_> {
    /// The series in `file`, whose first value holds from time 0 on; `whole` is
    /// the value that stands for all of the nodes.
    pub fn read(&self, file: &str, measures: Measured, whole: f64) -> Result<Trace, String> {
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
    /// Of nodes with `cpu_hundredths` in all.
    pub fn availability(&self, cpu_hundredths: f64) -> Result<Availability, String> {
        let steps = self.steps.iter().map(|&(from_s, part)| Step {
            from_s,
            hundredths: part * cpu_hundredths,
        });
        Availability::steps(steps.collect()).map_err(|error| error.to_string())
    }
}

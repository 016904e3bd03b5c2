//! The availability of a scenario: f(t), the part of the nodes that is left to analytics.

use super::error::FieldError;
use super::nodes::Kind;
use super::numbers::{FieldResult, between, not_negative, positive, shown};
use super::schema::{self, File};
use super::trace::Traces;
use crate::availability::{Availability, DAY_S, SineDay};
use crate::sim::bounds::{DAY_SECONDS_MIN, SECONDS_MAX};
use std::sync::Arc;

/// Returns the availability of all nodes together: the CPU that the load leaves to analytics, over time.
/// The simulated nodes have this CPU; policies may plan with a forecast that differs from it.
pub(super) fn availability(
    file: &File,
    kinds: &[Kind],
    traces: &Traces<'_>,
) -> FieldResult<Arc<Availability>> {
    let whole = schema::Availability::Constant { fraction: 1.0 };
    let mut parts = Vec::new();
    for (index, (group, kind)) in file.nodes.iter().zip(kinds).enumerate() {
        let (field, of) = match (&group.availability, &file.availability) {
            (Some(own), _) => (format!("nodes[{index}].availability"), own),
            (None, Some(all)) => ("availability".into(), all),
            (None, None) => ("availability".into(), &whole),
        };
        parts.push(part(&field, of, hundredths(kind), traces)?);
    }
    Ok(Arc::new(match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            Availability::sum(parts)
        }
    }))
}

/// Returns the forecast that policies see; `None` if the file has none, so that they see the truth.
pub(super) fn forecast(
    file: &File,
    kinds: &[Kind],
    traces: &Traces<'_>,
) -> FieldResult<Option<Arc<Availability>>> {
    let all: f64 = kinds.iter().map(hundredths).sum();
    (file.forecast.as_ref())
        .map(|forecast| part("forecast", forecast, all, traces).map(Arc::new))
        .transpose()
}

/// Returns the CPU of all nodes of a kind, in hundredths of a core.
fn hundredths((count, node): &Kind) -> f64 {
    f64::from(*count) * f64::from(node.capacity.cpu_hundredths)
}

/// Returns the availability of nodes with `cpu_hundredths` in all, as the table named `table` of the file
/// describes it.
fn part(
    table: &str,
    kind: &schema::Availability,
    cpu_hundredths: f64,
    traces: &Traces<'_>,
) -> FieldResult<Availability> {
    let field = |name: &str| format!("{table}.{name}");
    let sine = |mean: f64, amplitude: f64, peak_at_s: f64, day_s: f64| {
        Availability::sine_day(SineDay {
            mean_hundredths: mean * cpu_hundredths,
            amplitude_hundredths: amplitude * cpu_hundredths,
            peak_at_s,
            day_s,
        })
    };
    let built = match *kind {
        schema::Availability::Trace {
            ref file,
            measures,
            whole,
            from_s,
            clip,
        } => {
            // The series may have any unit, so any finite number will do.
            positive(&field("whole"), whole, f64::MAX)?;
            not_negative(&field("from_s"), from_s, f64::MAX)?;
            let trace = traces.read(file, measures, whole, clip);
            let built = trace.and_then(|trace| trace.from(from_s)?.availability(cpu_hundredths));
            // These errors are texts already; those of the other kinds are converted below.
            return built.map_err(|what| FieldError::new(table, what));
        }
        schema::Availability::Constant { fraction } => {
            fraction_of_nodes(&field("fraction"), fraction)?;
            Availability::constant(fraction * cpu_hundredths)
        }
        schema::Availability::SineDay {
            mean,
            amplitude,
            peak_at_s,
            day_s,
        } => {
            fraction_of_nodes(&field("mean"), mean)?;
            fraction_of_nodes(&field("amplitude"), amplitude)?;
            // An amplitude above the mean is permitted: at such times nothing is left, not less.
            if mean + amplitude > 1.0 {
                let most = mean + amplitude;
                let what =
                    format!("mean + amplitude is {most}: more than all of the nodes, which is 1");
                return Err(FieldError::new(field("amplitude"), what));
            }
            // A negative peak is permitted: the curve repeats every day.
            not_negative(&field("peak_at_s"), peak_at_s.abs(), SECONDS_MAX)?;
            let day_s = day_s.unwrap_or(DAY_S);
            between(&field("day_s"), day_s, DAY_SECONDS_MIN, SECONDS_MAX)?;
            sine(mean, amplitude, peak_at_s, day_s)
        }
        schema::Availability::Burstiness { level } => {
            if level > 3 {
                let what = format!("there is no level {level}; they are 0 to 3");
                return Err(FieldError::new(field("level"), what));
            }
            // The curves of the thesis's figure 5.22.
            sine(0.575, 0.125 * f64::from(level), 0.75 * DAY_S, DAY_S)
        }
    };
    built.map_err(|error| FieldError::new(table, error.to_string()))
}

/// Checks that `fraction`, the value of the field `field`, is a fraction of the nodes, 0 to 1.
fn fraction_of_nodes(field: &str, fraction: f64) -> FieldResult<()> {
    not_negative(field, fraction, f64::MAX)?;
    if fraction > 1.0 {
        let fraction = shown(fraction);
        let what = format!("is {fraction}: more than all of the nodes, which is 1");
        return Err(FieldError::new(field, what));
    }
    Ok(())
}

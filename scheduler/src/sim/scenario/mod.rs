//! Scenarios: TOML files that say what to simulate.
//!
//! ```toml
//! title = "A day with two jobs"
//! policies = ["fifo", "reverse-adaptive"]
//!
//! [[nodes]]
//! count = 100
//!
//! [availability]
//! kind = "burstiness"
//! level = 3
//!
//! [applications.scan]
//! map_s = 300
//!
//! [[job]]
//! application = "scan"
//! maps = 4000
//! goal_s = 23400
//!
//! [sweep]                         # every combination is a point
//! "job[0].maps" = [2000, 4000]
//! ```
//!
//! Whatever is wrong with a file is an error that names file, line and field.

mod build;
mod error;
mod msjo;
mod queueing;
mod schema;
#[cfg(test)]
mod tests;
mod trace;

use super::{SimConfig, SimJob};
use crate::model::JobId;
use build::Plan;
use error::Complaint;
pub use error::ScenarioError;
pub use msjo::MsjoScenario;
pub use queueing::QueueingScenario;
use schema::File;
use serde::Deserialize;
use toml::{Table, Value};
use trace::Traces;

/// A scenario, read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about; the file's name where it does not say.
    pub title: String,
    /// Names of the policies to run it under; all of them where it names none.
    pub policies: Vec<String>,
    /// How many times to draw it, at least 1; replica r uses seed + r.
    pub replicas: u32,
    /// Seed of the first replica.
    pub seed: u64,
    /// Whether to bound from below what any scheduler must miss.
    pub offline_bound: bool,
    /// One, or one for each combination of swept values.
    pub points: Vec<Point>,
}

/// One set of values of a scenario.
#[derive(Clone, Debug)]
pub struct Point {
    /// What was swept, and its value here, as written; empty without a sweep.
    pub set: Vec<(String, String)>,
    plan: Plan,
}

impl Point {
    /// Draws the jobs of one replica. The same seed draws the same.
    #[must_use]
    pub fn draw(&self, seed: u64) -> (SimConfig, Vec<SimJob>) {
        self.plan.draw(seed)
    }

    /// Whether this is one of the file's own jobs rather than a generated one.
    #[must_use]
    pub fn is_listed(&self, id: JobId) -> bool {
        (1..=self.plan.jobs.len() as u64).contains(&id.0)
    }

    /// Plans against another quantile of the load, between 0.01 and 0.99. False where
    /// the forecast is not off by chance and so has none.
    pub fn set_quantile(&mut self, quantile: f64) -> bool {
        let Some(error) = &mut self.plan.forecast_error else {
            return false;
        };
        error.quantile = quantile;
        true
    }

    /// What a listed job is called in the file.
    #[must_use]
    pub fn job_name(&self, id: JobId) -> Option<&str> {
        let at = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.plan.names.get(at)?.as_deref()
    }
}

impl Scenario {
    /// Reads a scenario that names no other file; `file` is what errors call it.
    ///
    /// # Errors
    /// When it is no TOML, has an unknown or a missing field, or a value that
    /// cannot be simulated.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let none = |name: &str| Err(format!("{name} cannot be read from here"));
        Self::parse_with(file, text, &none)
    }

    /// As [`parse`](Self::parse); `read` gives the text of a file that the scenario
    /// names, such as the trace of its availability, or says why it cannot.
    ///
    /// # Errors
    /// As there, and when such a file cannot be read or is no series without gaps.
    pub fn parse_with(
        file: &str,
        text: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ScenarioError> {
        let of_toml = |error: toml::de::Error| ScenarioError::of_toml(file, text, &error);
        // As a whole first: this knows the lines.
        let written: File = toml::from_str(text).map_err(of_toml)?;
        let table: Table = toml::from_str(text).map_err(of_toml)?;
        let points = points(&written, &table, &Traces(read))
            .map_err(|complaint| complaint.locate(file, text))?;
        let all = || {
            let names = crate::policy::descriptors();
            names.iter().map(|policy| policy.name.to_string()).collect()
        };
        Ok(Self {
            title: written.title.unwrap_or_else(|| file.to_string()),
            policies: match written.policies {
                none if none.is_empty() => all(),
                some => some,
            },
            replicas: written.replicas,
            seed: written.seed,
            offline_bound: written.offline_bound,
            points,
        })
    }
}

/// As with the numbers of nodes and jobs: a slip of the pen.
const POINTS_MAX: usize = 10_000;

fn points(written: &File, table: &Table, traces: &Traces<'_>) -> Result<Vec<Point>, Complaint> {
    let mut sets: Vec<Vec<(&str, usize, &Value)>> = vec![Vec::new()];
    for (path, values) in &written.sweep {
        let varied = sets.iter().flat_map(|set| {
            (values.iter().enumerate()).map(move |(index, value)| {
                let mut set = set.clone();
                set.push((path, index, value));
                set
            })
        });
        sets = varied.collect();
        if sets.is_empty() || sets.len() > POINTS_MAX {
            let what = format!("{} combinations; from 1 to {POINTS_MAX}", sets.len());
            return Err(Complaint::new("sweep", what));
        }
    }
    sets.iter()
        .map(|set| {
            let mut table = table.clone();
            for &(path, _, value) in set {
                if !replace(&mut table, path, value) {
                    let what = format!("the file has no field {path} to vary");
                    return Err(Complaint::new("sweep", what));
                }
            }
            let point = if set.is_empty() {
                build::plan(written, traces)
            } else {
                let file = File::deserialize(table)
                    .map_err(|error| Complaint::new("sweep", error.message().to_string()))?;
                build::plan(&file, traces)
            };
            let swept: Vec<String> = (set.iter())
                .map(|(path, _, value)| format!("{path} = {value}"))
                .collect();
            let plan = point.map_err(|complaint| Complaint {
                what: match swept.is_empty() {
                    true => complaint.what,
                    false => format!("{} (with {})", complaint.what, swept.join(", ")),
                },
                ..complaint
            })?;
            let set = (set.iter()).map(|&(path, _, value)| (path.to_string(), value.to_string()));
            Ok(Point {
                set: set.collect(),
                plan,
            })
        })
        .collect()
}

/// Puts `value` at a path such as `nodes[0].count`; false when nothing is there.
fn replace(table: &mut Table, path: &str, value: &Value) -> bool {
    let Some((first, rest)) = path.split_once('.') else {
        return match place(table, path) {
            Some(field) => {
                *field = value.clone();
                true
            }
            None => false,
        };
    };
    match place(table, first) {
        Some(Value::Table(inner)) => replace(inner, rest, value),
        _ => false,
    }
}

/// The value of `name` or `name[index]`.
fn place<'a>(table: &'a mut Table, part: &str) -> Option<&'a mut Value> {
    match part.split_once('[') {
        None => table.get_mut(part),
        Some((name, index)) => {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            table.get_mut(name)?.as_array_mut()?.get_mut(index)
        }
    }
}

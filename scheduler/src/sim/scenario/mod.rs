//! Scenarios: TOML files that describe simulations.
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
//! Errors in a file name the file, the line and the field. A task that no node could ever hold is
//! an error, and so is a size beyond the [bounds](super::bounds).
//!
//! | file | content |
//! | --- | --- |
//! | `schema` | the fields of a file |
//! | `sweep` | the points, and the values at each |
//! | `build` | runnable plans from a file |
//! | `nodes`, `supply`, `trace` | the nodes, and their f(t) |
//! | `applications`, `listed`, `generated` | tasks, and the jobs that consist of them |
//! | `numbers`, `fits`, `size` | checks of numbers, of tasks on nodes, and of the size of all runs |
//! | `error` | errors with field and line |
//! | `msjo`, `queueing` | the files of two other models |

mod applications;
mod build;
mod error;
mod fits;
mod generated;
mod listed;
mod msjo;
mod nodes;
mod numbers;
mod queueing;
mod schema;
mod size;
mod supply;
mod sweep;
#[cfg(test)]
mod tests;
mod trace;

use super::{SimConfig, SimError, SimJob};
use crate::model::JobId;
use crate::queueing::policy_by_name;
use build::Plan;
use error::FieldError;
pub use error::ScenarioError;
use fits::PolicyMeasure;
pub use msjo::MsjoScenario;
use numbers::FieldResult;
pub use queueing::{QUEUEING_SLOTS_MAX, QueueingScenario};
use schema::File;
use std::collections::HashSet;
use toml::Table;
use trace::Traces;

/// A scenario whose fields are checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the file, for errors.
    file: String,
    /// Title of the scenario; the file's name if the file has no title.
    pub title: String,
    /// Names of the policies to run the scenario under; all policies if the file names none.
    pub policies: Vec<String>,
    /// Number of replicas, runs that differ in their random numbers; at least 1. Replica r, counted
    /// from 0, uses seed + r.
    pub replicas: u32,
    /// Seed of the random numbers of the first replica.
    pub seed: u64,
    /// True to compute also a lower bound on the number of goals that any scheduler must miss.
    pub offline_bound: bool,
    /// The points of the scenario: a single one, or one for each combination of swept values.
    pub points: Vec<Point>,
}

/// A scenario with one combination of the values that it sweeps.
#[derive(Clone, Debug)]
pub struct Point {
    /// The swept fields and their values at this point, as written in the file; empty without a
    /// sweep.
    pub set: Vec<(String, String)>,
    plan: Plan,
}

impl Point {
    /// Draws the configuration and the jobs of one replica. The same seed draws the same replica.
    ///
    /// # Errors
    /// When the draw is larger than a run may be; see [`Workload::draw`](super::Workload::draw).
    pub fn draw(&self, seed: u64) -> Result<(SimConfig, Vec<SimJob>), SimError> {
        self.plan.draw(seed)
    }

    /// Returns a measure of the memory, not in bytes, of one replica that [`draw`](Self::draw)
    /// returns: the number of nodes, plus the number of steps in the series of their availability,
    /// plus the number of jobs. The sum is approximate, because it takes the mean number of
    /// generated jobs.
    #[must_use]
    pub const fn draw_size(&self) -> u64 {
        self.plan.size.of_draw()
    }

    /// Returns whether the job is listed in the file rather than generated.
    #[must_use]
    pub fn is_listed(&self, id: JobId) -> bool {
        (1..=self.plan.jobs.len() as u64).contains(&id.0)
    }

    /// Sets the quantile of the load that policies plan with; it must lie between 0.01 and 0.99.
    /// Returns false, without effect, if the scenario has no forecast error and so no quantiles.
    pub fn set_quantile(&mut self, quantile: f64) -> bool {
        let Some(error) = &mut self.plan.forecast_error else {
            return false;
        };
        error.quantile = quantile;
        true
    }

    /// Returns the name that the file gives to a listed job; `None` if it gives none, or for a
    /// generated job.
    #[must_use]
    pub fn job_name(&self, id: JobId) -> Option<&str> {
        let at = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.plan.names.get(at)?.as_deref()
    }
}

impl Scenario {
    /// Reads a scenario that refers to no other file; `file` is its name in errors.
    ///
    /// # Errors
    /// When `text` is no TOML, has an unknown or a missing field, or a value that cannot be
    /// simulated.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let none = |name: &str| Err(format!("{name} cannot be read from here"));
        Self::parse_with(file, text, &none)
    }

    /// Reads a scenario like [`parse`](Self::parse). `read` returns the text of a file to which the
    /// scenario refers, such as the trace of its availability, or the reason why it cannot be read.
    ///
    /// # Errors
    /// When [`parse`](Self::parse) fails, and when such a file cannot be read, is no series of
    /// numbers, or has a gap.
    pub fn parse_with(
        file: &str,
        text: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ScenarioError> {
        let of_toml = |error: toml::de::Error| ScenarioError::of_toml(file, text, &error);
        // The typed file is parsed from the text first, because its errors have lines; errors of a
        // table do not.
        let content: File = toml::from_str(text).map_err(of_toml)?;
        let table: Table = toml::from_str(text).map_err(of_toml)?;
        Self::from_file(file, content, &table, &Traces::new(read))
            .map_err(|error| error.locate(file, text))
    }

    fn from_file(
        file: &str,
        content: File,
        table: &Table,
        traces: &Traces<'_>,
    ) -> FieldResult<Self> {
        let mut policies = content.policies.clone();
        if policies.is_empty() {
            let all = crate::policy::descriptors().into_iter();
            policies.extend(all.map(|policy| policy.name.to_string()));
        }
        let points = sweep::points(&content, table, traces, &measures(&policies)?)?;
        let scenario = Self {
            file: file.to_string(),
            title: content.title.unwrap_or_else(|| file.to_string()),
            policies,
            replicas: content.replicas,
            seed: content.seed,
            offline_bound: content.offline_bound,
            points,
        };
        scenario.check_size()?;
        Ok(scenario)
    }

    /// Replaces the policies of the file.
    ///
    /// # Errors
    /// When a name is unknown or occurs twice, when a task could never run under one of the
    /// policies, or when all runs together would be too many. Even then the policies are replaced.
    pub fn set_policies(&mut self, policies: Vec<String>) -> Result<(), ScenarioError> {
        self.policies = policies;
        let result = self.check_policies(&self.policies);
        let result = result.and_then(|()| self.check_size());
        result.map_err(|error| error.without_line(&self.file))
    }

    /// Replaces the number of replicas (repetitions with other random numbers) in the file.
    ///
    /// # Errors
    /// When `replicas` is 0 or above its bound, or all runs together would be too many. Even then
    /// the number is replaced.
    pub fn set_replicas(&mut self, replicas: u32) -> Result<(), ScenarioError> {
        self.replicas = replicas;
        let result = self.check_size();
        result.map_err(|error| error.without_line(&self.file))
    }

    /// Checks that the scenario can run under a policy, which need not be one of its own.
    ///
    /// # Errors
    /// When the name is unknown, or a task could never run under the policy.
    pub fn check_policy(&self, name: &str) -> Result<(), ScenarioError> {
        let result = self.check_policies(&[name.to_string()]);
        result.map_err(|error| error.without_line(&self.file))
    }

    fn check_policies(&self, policies: &[String]) -> FieldResult<()> {
        let policies = measures(policies)?;
        let mut points = self.points.iter();
        points.try_for_each(|point| point.plan.check_fit(&policies))
    }

    fn check_size(&self) -> FieldResult<()> {
        let runs = self.policies.len() + usize::from(self.offline_bound);
        let sizes = self.points.iter().map(|point| point.plan.size);
        size::check_all(sizes, runs, self.replicas)
    }
}

/// Returns each policy with the measure by which it counts the free capacity of a node: slots or
/// resources. Fails unless all names are known and different.
fn measures(policies: &[String]) -> FieldResult<Vec<PolicyMeasure>> {
    let mut seen = HashSet::new();
    let each = policies.iter().enumerate().map(|(index, name)| {
        let error = |what: String| FieldError::new(format!("policies[{index}]"), what);
        let Some(policy) = policy_by_name(name) else {
            let all = crate::policy::descriptors().into_iter();
            let names: Vec<&str> = all.map(|policy| policy.name).collect();
            let names = names.join(", ");
            return Err(error(format!(
                "there is no policy {name:?}; there are {names}"
            )));
        };
        if !seen.insert(name) {
            return Err(error(format!("{name:?} is named twice")));
        }
        Ok((name.clone(), policy.measure()))
    });
    each.collect()
}

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
//! Whatever is wrong with a file is an error that names file, line and field. So is a task that no
//! node could ever hold, and a size beyond the [bounds](super::bounds).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `schema` | what may be written |
//! | `sweep` | the points, and what is written at each |
//! | `build` | from what is written to what can be run |
//! | `nodes`, `supply`, `trace` | the nodes, and what f(t) leaves of them |
//! | `applications`, `listed`, `generated` | tasks, and the jobs that have them |
//! | `numbers`, `fits`, `size` | bounds of numbers, of tasks on nodes, and of everything together |
//! | `error` | a field and what is wrong with it; its line |
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
use error::Complaint;
pub use error::ScenarioError;
use fits::PolicyMeasure;
pub use msjo::MsjoScenario;
use numbers::Checked;
pub use queueing::{QUEUEING_SLOTS_MAX, QueueingScenario};
use schema::File;
use std::collections::HashSet;
use toml::Table;
use trace::Traces;

/// A scenario, read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of the file in errors.
    file: String,
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
    ///
    /// # Errors
    /// When it draws more than a run may have; see [`Workload::draw`](super::Workload::draw).
    pub fn draw(&self, seed: u64) -> Result<(SimConfig, Vec<SimJob>), SimError> {
        self.plan.draw(seed)
    }

    /// Nodes and jobs of one draw, about.
    #[must_use]
    pub const fn draw_size(&self) -> u64 {
        self.plan.size.of_draw()
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
        Self::checked(file, written, &table, &Traces::new(read))
            .map_err(|complaint| complaint.locate(file, text))
    }

    fn checked(file: &str, written: File, table: &Table, traces: &Traces<'_>) -> Checked<Self> {
        let mut policies = written.policies.clone();
        if policies.is_empty() {
            let all = crate::policy::descriptors().into_iter();
            policies.extend(all.map(|policy| policy.name.to_string()));
        }
        let points = sweep::points(&written, table, traces, &measures(&policies)?)?;
        let scenario = Self {
            file: file.to_string(),
            title: written.title.unwrap_or_else(|| file.to_string()),
            policies,
            replicas: written.replicas,
            seed: written.seed,
            offline_bound: written.offline_bound,
            points,
        };
        scenario.check_size()?;
        Ok(scenario)
    }

    /// Takes these policies in place of the file's.
    ///
    /// # Errors
    /// When there is none of that name or one is named twice, when a task could never run under
    /// one, or when all runs together would be too many.
    pub fn set_policies(&mut self, policies: Vec<String>) -> Result<(), ScenarioError> {
        self.policies = policies;
        let checked = self.check_policies(&self.policies);
        let checked = checked.and_then(|()| self.check_size());
        checked.map_err(|complaint| complaint.without_line(&self.file))
    }

    /// Takes this number of replicas in place of the file's.
    ///
    /// # Errors
    /// When it is 0, or all runs together would be too many.
    pub fn set_replicas(&mut self, replicas: u32) -> Result<(), ScenarioError> {
        self.replicas = replicas;
        let checked = self.check_size();
        checked.map_err(|complaint| complaint.without_line(&self.file))
    }

    /// Checks that a policy, which may not be one of the scenario's, can run it.
    ///
    /// # Errors
    /// When there is none of that name, or a task could never run under it.
    pub fn check_policy(&self, name: &str) -> Result<(), ScenarioError> {
        let checked = self.check_policies(&[name.to_string()]);
        checked.map_err(|complaint| complaint.without_line(&self.file))
    }

    fn check_policies(&self, policies: &[String]) -> Checked<()> {
        let policies = measures(policies)?;
        let mut points = self.points.iter();
        points.try_for_each(|point| point.plan.check_fit(&policies))
    }

    fn check_size(&self) -> Checked<()> {
        let runs = self.policies.len() + usize::from(self.offline_bound);
        let sizes = self.points.iter().map(|point| point.plan.size);
        size::check_all(sizes, runs, self.replicas)
    }
}

/// Returns each policy with its measure of the room of a node. Fails unless all names are known
/// and different.
fn measures(policies: &[String]) -> Checked<Vec<PolicyMeasure>> {
    let mut seen = HashSet::new();
    let each = policies.iter().enumerate().map(|(index, name)| {
        let complaint = |what: String| Complaint::new(format!("policies[{index}]"), what);
        let Some(policy) = policy_by_name(name) else {
            let all = crate::policy::descriptors().into_iter();
            let names: Vec<&str> = all.map(|policy| policy.name).collect();
            let names = names.join(", ");
            return Err(complaint(format!(
                "there is no policy {name:?}; there are {names}"
            )));
        };
        if !seen.insert(name) {
            return Err(complaint(format!("{name:?} is named twice")));
        }
        Ok((name.clone(), policy.measure()))
    });
    each.collect()
}

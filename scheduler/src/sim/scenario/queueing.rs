//! Scenarios of the queueing model, with loads and policies, as TOML files.
//!
//! ```toml
//! policies = ["pandas", "weighted-workload"]
//! loads = [2.0, 2.5]        # tasks per slot; default: the sum of the streams
//! slots = 100000
//!
//! [cluster]
//! nodes = 12
//! rack_nodes = 4
//! local = 0.8               # chance per slot that a task ends
//! rack = 0.5
//! remote = 0.2
//!
//! [[streams]]               # tasks with replicas on any 3 of nodes 0 to 5
//! tasks_per_slot = 2.0
//! from = 0
//! until = 6
//! replicas = 3
//! ```

use super::error::{FieldError, ScenarioError};
use super::numbers::{FieldResult, positive};
use crate::queueing::{
    Cluster, JobSizes, LOAD_MAX, Model, ModelError, QUEUEING_POLICIES, Run, Stream, queueing_policy,
};
use serde::Deserialize;
use std::collections::HashSet;

/// A queueing model, and the policies and loads under which it is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueingScenario {
    /// Title of the scenario; the file's name if the file has no title.
    pub title: String,
    /// Names of the policies to simulate.
    pub policies: Vec<String>,
    /// Loads to simulate under each policy, in tasks per time slot, over all streams together.
    pub loads: Vec<f64>,
    /// Cluster and traffic. For each load, the rates of the traffic's streams are scaled to it.
    pub model: Model,
    /// Length and seed of each run.
    pub run: Run,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    policies: Option<Vec<String>>,
    loads: Option<Vec<f64>>,
    slots: Option<u64>,
    warmup_slots: Option<u64>,
    seed: Option<u64>,
    cluster: Cluster,
    sizes: Option<JobSizes>,
    streams: Vec<Stream>,
}

/// Default number of time slots that are measured, as in the paper of Wang and others.
const SLOTS: u64 = 250_000;

/// Largest number of measured time slots, and of warm-up slots. With a thousand nodes,
/// the simulation of this number of slots takes more than an hour.
pub const QUEUEING_SLOTS_MAX: u64 = 100_000_000;

/// Largest number of runs of a file: loads times policies. It is far above what a figure needs, and
/// refuses a file with a typing error in its list of loads before anything is simulated.
const RUNS_MAX: usize = 10_000;

impl QueueingScenario {
    /// Returns a scenario of Wang's cluster, under naive fair sharing and JSQ-MaxWeight, at loads
    /// near those at which these become unstable.
    #[must_use]
    pub fn wang() -> Self {
        Self {
            title: "Wang's cluster: 1,000 nodes, data on 800".into(),
            policies: ["naive-fair", "jsq-maxweight-common"]
                .map(String::from)
                .to_vec(),
            loads: vec![300.0, 350.0, 400.0, 600.0, 650.0, 670.0],
            model: Model::wang(),
            run: Run::new(SLOTS, 1),
        }
    }

    /// Reads `text`, the content of `file`.
    ///
    /// # Errors
    /// When the text is no TOML or a field is missing or invalid; the error names the line
    /// and the field if they are known.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let read: File =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        Self::from_file(file, read).map_err(|error| error.locate(file, text))
    }

    /// Checks the fields of a file, and fills in the defaults, such as the load of the streams, all
    /// policies, and seed 1.
    fn from_file(file: &str, read: File) -> FieldResult<Self> {
        let model = Model {
            cluster: read.cluster,
            sizes: read.sizes.unwrap_or_else(JobSizes::single),
            streams: read.streams,
        };
        model
            .check()
            .map_err(|ModelError { what, why }| FieldError::new(what, why))?;
        let loads = read.loads.unwrap_or_else(|| vec![model.load()]);
        for (at, load) in loads.iter().enumerate() {
            positive(&format!("loads[{at}]"), *load, LOAD_MAX)?;
        }
        let all = || {
            let all = QUEUEING_POLICIES.iter();
            all.map(|policy| policy.name.to_string())
        };
        let policies = read.policies.unwrap_or_else(|| all().collect());
        let mut seen = HashSet::new();
        for (at, name) in policies.iter().enumerate() {
            let error = |what: String| FieldError::new(format!("policies[{at}]"), what);
            if queueing_policy(name).is_none() {
                let known = all().collect::<Vec<_>>().join(", ");
                return Err(error(format!("there is no {name:?}; there are {known}")));
            }
            if !seen.insert(name) {
                return Err(error(format!("{name:?} is named twice")));
            }
        }
        for (field, count) in [("loads", loads.len()), ("policies", policies.len())] {
            if count == 0 {
                let what = "there are none: give one, or leave this out";
                return Err(FieldError::new(field, what));
            }
        }
        // Each load is simulated under each policy.
        let runs = loads.len() * policies.len();
        if runs > RUNS_MAX {
            let what = format!(
                "{runs} runs with {} policies; at most {RUNS_MAX}",
                policies.len()
            );
            return Err(FieldError::new("loads", what));
        }
        // The default warm-up is a part of the measured slots, so it follows from `slots`.
        let standard = Run::new(read.slots.unwrap_or(SLOTS), read.seed.unwrap_or(1));
        let run = Run {
            warmup_slots: read.warmup_slots.unwrap_or(standard.warmup_slots),
            ..standard
        };
        // At least two slots: one has no growth of the backlog, which shows whether a run is stable.
        for (field, slots, least) in [
            ("slots", run.slots, 2),
            ("warmup_slots", run.warmup_slots, 0),
        ] {
            if !(least..=QUEUEING_SLOTS_MAX).contains(&slots) {
                let what = format!("is {slots}; at least {least}, at most {QUEUEING_SLOTS_MAX}");
                return Err(FieldError::new(field, what));
            }
        }
        Ok(Self {
            title: read.title.unwrap_or_else(|| file.into()),
            policies,
            loads,
            model,
            run,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_errors;
    use super::*;

    const SMALL: &str = "
        loads = [1.0, 1.5]
        slots = 1000

        [cluster]
        nodes = 4
        rack_nodes = 2
        local = 0.8
        rack = 0.5
        remote = 0.2

        [[streams]]
        tasks_per_slot = 1.0
        from = 0
        until = 3
        replicas = 2
    ";

    #[test]
    fn a_scenario_is_read_with_its_defaults() {
        let scenario = QueueingScenario::parse("small.toml", SMALL).unwrap();
        assert_eq!(scenario.title, "small.toml");
        assert_eq!(scenario.policies.len(), QUEUEING_POLICIES.len());
        assert_eq!(
            scenario.model.cluster,
            Cluster::racks(4, 2, [0.8, 0.5, 0.2])
        );
        assert_eq!(scenario.model.sizes, JobSizes::single());
        assert_eq!((scenario.run.slots, scenario.run.warmup_slots), (1000, 200));
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let cases = r#"
            until = 3 => until = 9 => line 15, streams[0].until: from 0 until 9
            replicas = 2 => replicas = 9 => line 16, streams[0].replicas: is 9; use 1 to 3
            1.5] => -1] => line 2, loads[1]: must be positive and finite, got -1
            1.5] => 1e300] => line 2, loads[1]: is 1
            [1.0, 1.5] => [] => line 2, loads: there are none
            slots = 1000 => policies = ["lottery"] => line 3, policies[0]: there is no "lottery"
            slots = 1000 => policies = ["pandas", "pandas"]
            => line 3, policies[1]: "pandas" is named twice
            slots = 1000 => slotz = 1 => line 3, slotz: unknown field
            slots = 1000 => slots = 1 => line 3, slots: is 1; at least 2
            slots = 1000 => slots = 9000000000000000000 => line 3, slots: is 9000000000000000000
            slots = 1000 => warmup_slots = 900000000 => line 3, warmup_slots: is 900000000
            nodes = 4 => nodes = 4000000000 => line 6, cluster.nodes: is 4000000000; at most 100000
            remote = 0.2 => remote = 1e-300 => line 10, cluster.remote: is 0
            rack = 0.5 => rack = nan => line 9, cluster.rack: is NaN
            tasks_per_slot = 1.0 => tasks_per_slot = inf
            => line 13, streams[0].tasks_per_slot: must be
        "#;
        check_errors(SMALL, cases, QueueingScenario::parse);
    }
}

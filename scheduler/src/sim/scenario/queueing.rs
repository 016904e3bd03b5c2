//! A queueing model with its loads and policies, as a TOML file.
//!
//! ```toml
//! policies = ["pandas", "weighted-workload"]
//! loads = [2.0, 2.5]        # tasks per slot; default: what the streams say
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

use super::error::ScenarioError;
use crate::queueing::{
    Cluster, JobSizes, Model, ModelError, QUEUEING_POLICIES, Run, Stream, queueing_policy,
};
use serde::Deserialize;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueingScenario {
    /// What it is about; the file's name where it does not say.
    pub title: String,
    /// Names of policies.
    pub policies: Vec<String>,
    /// Tasks per slot in total, each to be run under each policy.
    pub loads: Vec<f64>,
    /// Cluster and traffic.
    pub model: Model,
    /// How long, and the seed.
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

/// Slots that are measured, unless a scenario says otherwise: Wang's.
const SLOTS: u64 = 250_000;

impl QueueingScenario {
    /// Wang's cluster near the loads where naive fair sharing and JSQ-MaxWeight turn
    /// unstable.
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
    /// What is wrong with it, and where.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let read: File =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        let model = Model {
            cluster: read.cluster,
            sizes: read.sizes.unwrap_or_else(JobSizes::single),
            streams: read.streams,
        };
        let refuse = |field: &str, what: String| ScenarioError::of_field(file, field, what);
        model
            .check()
            .map_err(|ModelError::Bad { what, why }| refuse(what, why))?;
        let loads = read.loads.unwrap_or_else(|| vec![model.load()]);
        if !loads.iter().all(|load| load.is_finite() && *load > 0.0) {
            let what = format!("loads must be positive tasks per slot, got {loads:?}");
            return Err(refuse("loads", what));
        }
        let all = || {
            QUEUEING_POLICIES
                .iter()
                .map(|policy| policy.name.to_string())
        };
        let policies = read.policies.unwrap_or_else(|| all().collect());
        if let Some(name) = policies.iter().find(|name| queueing_policy(name).is_none()) {
            let known = all().collect::<Vec<_>>().join(", ");
            return Err(refuse("policies", format!("there is no {name:?}: {known}")));
        }
        let standard = Run::new(read.slots.unwrap_or(SLOTS), read.seed.unwrap_or(1));
        if standard.slots < 2 {
            return Err(refuse("slots", "at least 2".into()));
        }
        Ok(Self {
            title: read.title.unwrap_or_else(|| file.into()),
            policies,
            loads,
            model,
            run: Run {
                warmup_slots: read.warmup_slots.unwrap_or(standard.warmup_slots),
                ..standard
            },
        })
    }
}

#[cfg(test)]
mod tests {
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
    fn what_is_wrong_is_told_with_its_field() {
        let broken = |from: &str, to: &str| {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL);
            QueueingScenario::parse("x.toml", &text)
                .unwrap_err()
                .to_string()
        };
        assert!(broken("until = 3", "until = 9").starts_with("x.toml, streams: from 0 until 9"));
        assert!(broken("1.5]", "-1]").contains("loads must be positive"));
        assert!(broken("slots = 1000", "policies = [\"lottery\"]").contains("no \"lottery\""));
        assert!(broken("slots = 1000", "slotz = 1").contains("slotz"));
        assert!(broken("slots = 1000", "slots = 1").contains("at least 2"));
    }
}

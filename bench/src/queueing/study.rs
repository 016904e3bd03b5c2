//! Runs a model at several loads under several policies.

use anyhow::{Result, anyhow};
use ebb_scheduler::queueing::{Capacity, Measured, Model, Run, queueing_policy, simulate};
use ebb_scheduler::sim::scenario::QueueingScenario;
use ebb_threads::thread_cpu;
use serde::Serialize;

use crate::sim::{Progress, in_parallel};

/// One run of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub policy: String,
    /// Load: tasks per slot in total.
    pub tasks_per_slot: f64,
}

impl Case {
    /// Returns a case for each of these policies, at the same load.
    pub fn of_each(policies: &[&str], tasks_per_slot: f64) -> Vec<Self> {
        let of = |policy: &&str| Self {
            policy: (*policy).into(),
            tasks_per_slot,
        };
        policies.iter().map(of).collect()
    }
}

/// The results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct QueueingRow {
    pub policy: String,
    /// Load: tasks per slot in total.
    pub tasks_per_slot: f64,
    #[serde(flatten)]
    pub measured: Measured,
    /// True if the backlog grew by less than a thousandth of the arrivals, and the run was not
    /// ended early because of a backlog that was too large.
    pub stable: bool,
    /// CPU time of the run, in seconds.
    pub cpu_s: f64,
}

/// The results of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct QueueingResult {
    pub title: String,
    /// The boundary of the capacity region for the scenario's model, in tasks per slot; `None` if
    /// the model has too many kinds of nodes to compute it.
    pub capacity: Option<f64>,
    /// The number of slots at the start that are not measured.
    pub warmup_slots: u64,
    /// The number of slots that are measured, after those at the start.
    pub slots: u64,
    /// Seed of all runs.
    pub seed: u64,
    /// The results for each load and policy.
    pub rows: Vec<QueueingRow>,
}

/// Runs every load under every policy on `threads` threads, at least one.
///
/// # Errors
/// If a policy does not exist, or the model is invalid.
pub fn run(
    scenario: &QueueingScenario,
    threads: usize,
    progress: &dyn Progress,
) -> Result<QueueingResult> {
    let case = |(load, policy): (f64, &String)| Case {
        policy: policy.clone(),
        tasks_per_slot: load,
    };
    let cases: Vec<Case> = (scenario.loads.iter())
        .flat_map(|&load| scenario.policies.iter().map(move |policy| (load, policy)))
        .map(case)
        .collect();
    Ok(QueueingResult {
        title: scenario.title.clone(),
        capacity: Capacity::of(&scenario.model)
            .ok()
            .map(|capacity| capacity.tasks_per_slot),
        warmup_slots: scenario.run.warmup_slots,
        slots: scenario.run.slots,
        seed: scenario.run.seed,
        rows: run_cases(&scenario.model, &cases, scenario.run, threads, progress)?,
    })
}

/// Runs the cases on `threads` threads, at least one.
///
/// # Errors
/// If a policy does not exist, or the model is invalid.
pub fn run_cases(
    model: &Model,
    cases: &[Case],
    run: Run,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<QueueingRow>> {
    in_parallel(cases, threads, |case| {
        let policy = queueing_policy(&case.policy)
            .ok_or_else(|| anyhow!("there is no policy {:?} of queues", case.policy))?;
        let model = model.at_load(case.tasks_per_slot);
        let before = thread_cpu();
        let measured = simulate(&model, policy.build(&model)?.as_mut(), run)?;
        progress.run_done();
        Ok(QueueingRow {
            policy: case.policy.clone(),
            tasks_per_slot: case.tasks_per_slot,
            measured,
            stable: measured.is_stable(),
            cpu_s: (thread_cpu() - before).as_secs_f64(),
        })
    })
}

/// Returns the highest stable load of a policy before the first unstable one; `None` if its lowest
/// load is unstable. `rows` may have other policies too, in any order.
#[must_use]
pub fn stability_limit(rows: &[QueueingRow], policy: &str) -> Option<f64> {
    let mut of: Vec<&QueueingRow> = rows.iter().filter(|row| row.policy == policy).collect();
    of.sort_by(|a, b| a.tasks_per_slot.total_cmp(&b.tasks_per_slot));
    (of.into_iter().take_while(|row| row.stable).last()).map(|row| row.tasks_per_slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stability_limit_ends_at_the_first_load_that_is_not_stable() {
        let row = |policy: &str, tasks_per_slot, stable| QueueingRow {
            policy: policy.into(),
            tasks_per_slot,
            measured: Measured::default(),
            stable,
            cpu_s: 0.0,
        };
        let rows = [
            row("a", 30.0, true),
            row("a", 10.0, true),
            row("b", 10.0, false),
            row("a", 20.0, false),
        ];
        assert_eq!(stability_limit(&rows, "a"), Some(10.0));
        assert_eq!(stability_limit(&rows, "b"), None);
    }
}

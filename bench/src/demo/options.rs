//! The options of a demo.

use std::path::PathBuf;

use ebb_colocate::Objective;
use serde::Serialize;

use super::forecast::ForecastFrom;
use super::plan::GOAL_HOURS;
use super::policy::Policy;

/// A day of the demo: its policy, and the forecast that the policy plans with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoDay {
    /// The policy that shares the capacity among the jobs.
    pub policy: Policy,
    /// The source of f(t), the forecast of the capacity for analytics over time.
    pub forecast: ForecastFrom,
}

/// The completion time goals of the jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Goals {
    /// Jobs that are submitted earlier have earlier goals, and a fifth of the capacity is to spare:
    /// the motivating example of the thesis.
    #[default]
    Example,
    /// Jobs that are submitted earlier have later goals, and a twentieth of the capacity is to
    /// spare.
    Tight,
}

impl Goals {
    /// Returns the completion time goals of the three jobs, as hours of the day, in the order in
    /// which the jobs are submitted.
    pub(super) fn hours(self) -> [f64; 3] {
        let [first, second, last] = GOAL_HOURS;
        match self {
            Self::Example => [first, second, last],
            Self::Tight => [last, second, first],
        }
    }

    /// Returns the fraction (0 to 1) of the forecast capacity that jobs fill; the rest is slack.
    /// Jobs are sized such that, for each goal, all jobs with this goal or an earlier one need
    /// together at most this fraction of the capacity before the goal.
    pub(super) fn filled(self) -> f64 {
        match self {
            Self::Example => 0.80,
            Self::Tight => 0.95,
        }
    }
}

/// The options of a run of the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The folder for the demo's files: a new or empty one, or the folder of an earlier demo, whose
    /// store and output are deleted.
    pub data: PathBuf,
    /// A folder or file of text to load; `None` for sources of Rust code on the machine.
    pub text: Option<PathBuf>,
    /// Length of the compressed day, in seconds; positive.
    pub seconds: f64,
    /// The days to run, one after the other, on the same input; at least one. Jobs are sized to the
    /// forecast of the first.
    pub days: Vec<DemoDay>,
    /// The completion time goals of the jobs.
    pub goals: Goals,
    /// The latency objective of the load; analytics give way to keep it.
    pub objective: Option<Objective>,
    /// Whether tasks run in processes of their own. Then the program must call
    /// [`serve_tasks_if_worker`](ebb_jobs::launch::serve_tasks_if_worker) before anything else.
    pub in_processes: bool,
}

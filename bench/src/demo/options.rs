//! How a demo is set up.

use std::path::PathBuf;

use ebb_colocate::Objective;
use serde::Serialize;

use super::forecast::ForecastFrom;
use super::plan::GOAL_HOURS;
use super::policy::Policy;

/// Who plans a day, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoDay {
    /// Who decides.
    pub policy: Policy,
    /// Where f(t) comes from.
    pub forecast: ForecastFrom,
}

/// When the jobs are to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Goals {
    /// In the order in which they are submitted, with a fifth to spare: the motivating
    /// example.
    #[default]
    Example,
    /// In the other order, with a twentieth to spare.
    Tight,
}

impl Goals {
    /// The goals as hours of the day, in the order of submission.
    pub(super) fn hours(self) -> [f64; 3] {
        let [first, second, last] = GOAL_HOURS;
        match self {
            Self::Example => [first, second, last],
            Self::Tight => [last, second, first],
        }
    }

    /// The part of the forecast capacity that the jobs need before each goal, at most:
    /// the rest is the slack of the schedule.
    pub(super) fn filled(self) -> f64 {
        match self {
            Self::Example => 0.80,
            Self::Tight => 0.95,
        }
    }
}

/// How to run the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// A folder that the demo makes, or made before.
    pub data: PathBuf,
    /// Text to load instead of what is on the machine.
    pub text: Option<PathBuf>,
    /// Length of the compressed day, in seconds; positive.
    pub seconds: f64,
    /// The days to run, one after the other, on the same input; at least one. Jobs are
    /// sized to the forecast of the first.
    pub days: Vec<DemoDay>,
    /// When the jobs are to be done.
    pub goals: Goals,
    /// A latency that the load is to keep; analytics give way for it.
    pub objective: Option<Objective>,
    /// Tasks run in processes of their own. The program has to ask
    /// [`serve_tasks_if_asked`](ebb_jobs::launch::serve_tasks_if_asked) first of all.
    pub in_processes: bool,
}

//! How a demo is set up.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ebb_colocate::Objective;
use ebb_scheduler::policy;
use serde::Serialize;

use super::forecast::ForecastFrom;
use super::plan::GOAL_HOURS;

/// Who decides what the jobs get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A policy of the library, by its name.
    Managed(String),
    /// Nobody: unmanaged threads at normal priority.
    None,
}

/// What the command line calls [`Policy::None`].
const NONE: &str = "none";
/// What `--compare` runs, in turn.
const COMPARED: [&str; 5] = ["reverse-adaptive", "forecast-edf", "adaptive", "fifo", NONE];

impl Policy {
    /// Its name on the command line.
    pub fn name(&self) -> &str {
        match self {
            Self::Managed(name) => name,
            Self::None => NONE,
        }
    }

    /// Those that are compared: two that plan by the forecast, one that knows
    /// goals only, one that knows nothing, and nobody.
    pub fn compared() -> Vec<Self> {
        COMPARED
            .iter()
            .map(|name| name.parse().expect("a name of the library"))
            .collect()
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == NONE {
            return Ok(Self::None);
        }
        match policy::by_name(name) {
            Some(_) => Ok(Self::Managed(name.to_string())),
            None => {
                let known = policy::descriptors().into_iter().map(|policy| policy.name);
                let known: Vec<_> = known.chain([NONE]).collect();
                Err(format!("no policy {name}; there are {}", known.join(", ")))
            }
        }
    }
}

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
    /// [`serve_tasks_if_asked`](ebb_server::jobs::launch::serve_tasks_if_asked) first of all.
    pub in_processes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_library_and_nobody_are_known_by_name() {
        for known in policy::descriptors() {
            let parsed: Policy = known.name.parse().unwrap();
            assert_eq!(parsed.name(), known.name);
        }
        assert_eq!("none".parse(), Ok(Policy::None));
        let error = "lottery".parse::<Policy>().unwrap_err();
        assert!(
            error.contains("lottery") && error.contains("forecast-edf, none"),
            "{error}"
        );
        let compared: Vec<_> = Policy::compared().iter().map(Policy::to_string).collect();
        assert_eq!(compared, COMPARED);
    }
}

//! The choice between a policy of the library and none.

use std::fmt;
use std::str::FromStr;

use ebb_scheduler::queueing::{policy_by_name, policy_names};

/// The policy of a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A policy of the scheduler, by its name.
    Managed(String),
    /// No policy: the jobs run as unmanaged threads at normal priority.
    None,
}

/// The name of [`Policy::None`] on the command line.
const NONE: &str = "none";
/// The policies of `--compare`, in the order in which they run.
const COMPARED: [&str; 5] = ["reverse-adaptive", "forecast-edf", "adaptive", "fifo", NONE];

impl Policy {
    /// Returns the name on the command line.
    pub fn name(&self) -> &str {
        match self {
            Self::Managed(name) => name,
            Self::None => NONE,
        }
    }

    /// Returns the policies to compare: two that plan by the forecast, one that considers only
    /// goals, one that considers neither, and none at all.
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
        match policy_by_name(name) {
            Some(_) => Ok(Self::Managed(name.to_string())),
            None => {
                let known: Vec<_> = policy_names().chain([NONE]).collect();
                Err(format!("no policy {name}; there are {}", known.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_library_and_none_parse() {
        for known in policy_names() {
            let parsed: Policy = known.parse().unwrap();
            assert_eq!(parsed.name(), known);
        }
        assert_eq!("none".parse(), Ok(Policy::None));
        let error = "lottery".parse::<Policy>().unwrap_err();
        assert!(
            error.contains("lottery") && error.contains("pandas") && error.ends_with("none"),
            "{error}"
        );
        let compared: Vec<_> = Policy::compared().iter().map(Policy::to_string).collect();
        assert_eq!(compared, COMPARED);
    }
}

//! Who decides what the jobs of a demo get.

use std::fmt;
use std::str::FromStr;

use ebb_scheduler::queueing::{policy_by_name, policy_names};

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
    fn every_policy_of_the_library_and_nobody_are_known_by_name() {
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

//! The rule by which a publication keeps or removes the older ones of its tables.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The number of newest publications of a table to keep, and optionally the age below which a publication is
/// kept in any case: `3`, or `3,7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KeepRule {
    /// The number of newest publications to keep, the new one included: from 1 on.
    publications: u32,
    /// The age below which a publication is kept; `None` if only the number counts. Never zero.
    age: Option<Duration>,
}

#[cfg(feature = "publish")]
impl KeepRule {
    /// Returns the rule in the form that the commit of a table takes.
    pub(super) fn retention(self) -> ebb_publish::commit::Retention {
        ebb_publish::commit::Retention {
            publications: self.publications,
            age: self.age,
        }
    }
}

impl FromStr for KeepRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (publications, age) = match text.split_once(',') {
            None => (text, None),
            Some((publications, age)) => (publications, Some(age)),
        };
        let publications = publications.trim().parse::<u32>().ok();
        let publications = publications.filter(|&publications| publications > 0);
        let age = age.map(|age| humantime::parse_duration(age.trim()));
        match (publications, age.transpose()) {
            (Some(publications), Ok(age)) => Ok(Self {
                publications,
                age: age.filter(|age| !age.is_zero()),
            }),
            _ => Err(format!(
                "{text:?} is neither a number of publications from 1 on, as in 3, nor such a number with a \
                 comma and a time, as in 3,7d"
            )),
        }
    }
}

impl TryFrom<String> for KeepRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<KeepRule> for String {
    fn from(rule: KeepRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.publications)?;
        match self.age {
            Some(age) => write!(f, ",{}", humantime::format_duration(age)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_number_with_or_without_a_time_and_comes_back() {
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
        for (text, publications, age) in [
            ("1", 1, None),
            ("3", 3, None),
            ("3,7d", 3, hours(7 * 24)),
            ("2, 36h", 2, hours(36)),
            ("2,0s", 2, None),
        ] {
            let rule = KeepRule { publications, age };
            assert_eq!(text.parse(), Ok(rule), "{text}");
            assert_eq!(rule.to_string().parse(), Ok(rule), "{text}");
        }
        for text in ["", "0", "-1", "7d", "3,", "3,7", "3,week", ",7d", "3,20%"] {
            let error = text.parse::<KeepRule>().unwrap_err();
            assert!(error.contains("3,7d"), "{error}");
        }
    }
}

//! The limit on how long, or up to which size, a published snapshot stays readable in the store.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The default limit on how long a published snapshot is kept.
const DEFAULT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The limit on a pin, which keeps a published snapshot readable: a time, as in `36h`, or a
/// percentage of the size of the database, as in `20%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum PinMax {
    /// No pin: a published snapshot is not kept.
    Nothing,
    /// The longest time that a published snapshot is kept.
    Age(Duration),
    /// The largest percentage of the database's size, 1 to 100, that may be kept on disk only
    /// because of one pin.
    Percent(u8),
}

impl Default for PinMax {
    fn default() -> Self {
        Self::Age(DEFAULT_AGE)
    }
}

#[cfg(feature = "publish")]
impl PinMax {
    /// Returns the longest time that a published snapshot is kept; `None` if this setting is not a
    /// time.
    pub(super) fn age(self) -> Option<Duration> {
        match self {
            Self::Age(age) => Some(age),
            Self::Nothing | Self::Percent(_) => None,
        }
    }

    /// Returns the largest percentage of the database's size that may be kept on disk only because
    /// of one pin; `None` if this setting is not a percentage.
    pub(super) fn percent(self) -> Option<u8> {
        match self {
            Self::Percent(percent) => Some(percent),
            Self::Nothing | Self::Age(_) => None,
        }
    }
}

impl FromStr for PinMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!("{text:?} is neither a time such as 36h or 7d, nor a percentage of 1% to 100%")
        };
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse::<u8>().ok();
            let percent = percent.filter(|percent| (1..=100).contains(percent));
            return percent.map(Self::Percent).ok_or_else(refuse);
        }
        match humantime::parse_duration(text.trim()) {
            Ok(age) if age.is_zero() => Ok(Self::Nothing),
            Ok(age) => Ok(Self::Age(age)),
            Err(_) => Err(refuse()),
        }
    }
}

impl TryFrom<String> for PinMax {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PinMax> for String {
    fn from(max: PinMax) -> Self {
        max.to_string()
    }
}

impl fmt::Display for PinMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("0s"),
            Self::Age(age) => write!(f, "{}", humantime::format_duration(*age)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_time_or_a_percentage_and_comes_back() {
        let hours = |hours: u64| PinMax::Age(Duration::from_secs(hours * 3600));
        for (text, max) in [
            ("7d", PinMax::default()),
            ("36h", hours(36)),
            ("20%", PinMax::Percent(20)),
            ("100%", PinMax::Percent(100)),
            ("0s", PinMax::Nothing),
        ] {
            let parsed: PinMax = text.parse().unwrap();
            assert_eq!(parsed, max, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(max), "{text}");
        }
        for text in ["", "7", "0%", "101%", "-1%", "week"] {
            let error = text.parse::<PinMax>().unwrap_err();
            assert!(error.contains("36h"), "{error}");
        }
    }
}

//! Guardrails as text: `NAME=VALUE,...`, or `none`.

use std::fmt;
use std::str::FromStr;

use super::levels::LevelSet;
use super::limit::Unit;
use super::{Access, Feature, Guardrails, Limit};

/// The units of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// The name of the warning threshold of [`Limit::PartitionSize`] before Cassandra 5.0.
const OLDER_PARTITION_SIZE: &str = "compaction_large_partition_warning_threshold";

impl Unit {
    /// Parses the value of a threshold; `Some(None)` for `-1`, which turns the threshold off, and
    /// `None` for text that is no value of this unit.
    fn parse(self, text: &str) -> Option<Option<u64>> {
        if text == "-1" {
            return Some(None);
        }
        let sized = UNITS.into_iter().find_map(|(unit, bytes)| {
            let number = text.strip_suffix(unit).filter(|_| self == Self::Bytes)?;
            number.trim_end().parse::<u64>().ok()?.checked_mul(bytes)
        });
        sized.or_else(|| text.parse().ok()).map(Some)
    }

    /// Prints the value of a threshold. Bytes are printed in the largest unit of which they are a
    /// multiple.
    fn show(self, value: Option<u64>) -> String {
        match (self, value) {
            (_, None) => "-1".into(),
            (Self::Bytes, Some(bytes)) if bytes > 0 => {
                let unit = UNITS.into_iter().find(|(_, of)| bytes % of == 0);
                let (unit, of) = unit.unwrap_or(("B", 1));
                format!("{}{unit}", bytes / of)
            }
            (_, Some(count)) => count.to_string(),
        }
    }
}

impl Guardrails {
    /// Sets the setting `name` to `value`.
    ///
    /// # Errors
    /// If the setting does not permit the value, or if there is no such setting: then the message
    /// lists all settings.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(feature) = Feature::ALL.into_iter().find(|one| one.setting() == name) {
            let is_enabled: bool = (value.parse())
                .map_err(|_| format!("{name} is {value:?}: expected true or false"))?;
            self.forbidden[feature as usize] = !is_enabled;
            return Ok(());
        }
        for access in Access::ALL {
            let levels = &mut self.levels[access as usize];
            let place = match name.strip_prefix(access.name()) {
                Some("_warned") => &mut levels.warned,
                Some("_disallowed") => &mut levels.disallowed,
                _ => continue,
            };
            let parsed = LevelSet::parse(value);
            *place = parsed.ok_or_else(|| {
                format!("{name} is {value:?}: expected consistency levels, as in ALL+ANY")
            })?;
            return Ok(());
        }
        // Configurations from before Cassandra 5.0 have the older name.
        let name = match name {
            OLDER_PARTITION_SIZE => "partition_size_warn_threshold",
            name => name,
        };
        for limit in Limit::ALL {
            let Some(suffix) = name.strip_prefix(limit.name()) else {
                continue;
            };
            let (warn, fail) = limit.suffixes();
            let threshold = &mut self.thresholds[limit as usize];
            // With another suffix it is no setting of this limit, and the loop ends in the error below.
            let place = match suffix {
                _ if suffix == warn => &mut threshold.warn,
                _ if Some(suffix) == fail => &mut threshold.fail,
                _ => continue,
            };
            let of = match limit.unit() {
                Unit::Count => "a number",
                Unit::Bytes => "a size, as in 64KiB",
            };
            let parsed = limit.unit().parse(value);
            *place = parsed.ok_or_else(|| format!("{name} is {value:?}: expected {of}"))?;
            return Ok(());
        }
        let features = Feature::ALL.map(Feature::setting).into_iter();
        let limits = Limit::ALL.into_iter().flat_map(names);
        let levels = Access::ALL.map(Access::name).into_iter().flat_map(|name| {
            let suffixes = ["_warned", "_disallowed"].into_iter();
            suffixes.map(move |suffix| format!("{name}{suffix}"))
        });
        let known = limits.chain(features.map(str::to_owned)).chain(levels);
        let known = known.collect::<Vec<_>>().join(", ");
        Err(format!(
            "there is no guardrail {name:?}; there are: {known}"
        ))
    }
}

/// Returns the names of a limit's settings.
fn names(limit: Limit) -> impl Iterator<Item = String> {
    let (warn, fail) = limit.suffixes();
    let suffixes = [Some(warn), fail].into_iter().flatten();
    suffixes.map(move |suffix| format!("{}{suffix}", limit.name()))
}

/// Parses text such as `tables_warn_threshold=100,allow_filtering_enabled=false`, or `none`.
impl FromStr for Guardrails {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut guardrails = Self::default();
        if text == "none" {
            return Ok(guardrails);
        }
        for part in text.split(',') {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("{part:?} is not NAME=VALUE"));
            };
            guardrails.set(name.trim(), value.trim())?;
        }
        // Checked at the end: settings may come in any order, and one threshold may be the default.
        for limit in Limit::ALL {
            let threshold = guardrails.thresholds[limit as usize];
            if let (Some(warn), Some(fail)) = (threshold.warn, threshold.fail)
                && warn > fail
            {
                let names: Vec<String> = names(limit).collect();
                return Err(format!("{} {warn} is above {} {fail}", names[0], names[1]));
            }
        }
        Ok(guardrails)
    }
}

/// Writes the settings that differ from the defaults, or `none`.
impl fmt::Display for Guardrails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for limit in Limit::ALL {
            let (own, default) = (self.thresholds[limit as usize], limit.default_threshold());
            let values = [(own.warn, default.warn), (own.fail, default.fail)];
            for (name, (value, default)) in names(limit).zip(values) {
                if value != default {
                    parts.push(format!("{name}={}", limit.unit().show(value)));
                }
            }
        }
        for feature in Feature::ALL {
            if self.forbidden[feature as usize] {
                parts.push(format!("{}=false", feature.setting()));
            }
        }
        for access in Access::ALL {
            let levels = self.levels[access as usize];
            for (set, suffix) in [
                (levels.warned, "_warned"),
                (levels.disallowed, "_disallowed"),
            ] {
                if set != LevelSet::default() {
                    parts.push(format!(
                        "{}{suffix}={}",
                        access.name(),
                        set.names().join("+")
                    ));
                }
            }
        }
        if parts.is_empty() {
            f.pad("none")
        } else {
            f.pad(&parts.join(","))
        }
    }
}

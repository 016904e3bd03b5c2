//! The settings of a file, in TOML.

use std::path::Path;

use anyhow::Result;
use ebb_text::read_whole;

use super::fields::{FORMER_MEMORY, Settings};
use super::names::meant_by;
use crate::error::CliError;

impl Settings {
    /// Reads the settings of a file. Settings that the file does not have get their defaults.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or has a setting that is unknown or wrong.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::read_with_names(path).map(|(settings, _)| settings)
    }

    /// Returns the settings of a file, and the names of those that the file has.
    pub(super) fn read_with_names(path: &Path) -> Result<(Self, Vec<String>)> {
        let text = read_whole(path)?;
        let wrong = |problem: String| CliError::Usage(format!("{}: {problem}", path.display()));
        let settings = Self::parse(&text).map_err(wrong)?;
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(described(&error)))?;
        let names = table.into_iter().map(|(name, _)| {
            if name == FORMER_MEMORY {
                "memory".to_owned()
            } else {
                name
            }
        });
        Ok((settings, names.collect()))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| described(&error))?;
        let known = Self::names();
        let is_unknown = |key: &&String| !known.contains(key) && *key != FORMER_MEMORY;
        if let Some(unknown) = table.keys().find(is_unknown) {
            let hint = match meant_by(unknown, &known) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("there are {}", known.join(", ")),
            };
            return Err(format!("unknown setting {unknown}: {hint}"));
        }
        // The defaults are appended to the text of the file, so that errors have its line numbers.
        let rest = Self::default().table();
        let mut rest = rest.map_err(|error| error.to_string())?;
        rest.retain(|name, _| !table.contains_key(name));
        toml::from_str(&format!("{text}\n{rest}")).map_err(|error| described(&error))
    }
}

/// Describes an error with its place, without the empty line at the end.
fn described(error: &toml::de::Error) -> String {
    error.to_string().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;

    use super::super::{Durability, ForecastSource};
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        let settings = Settings {
            slo: "p99=2ms".parse().unwrap(),
            advertise: Some(([10, 0, 0, 1], 9042).into()),
            durability: Durability::Sync,
            memory: Some(ByteSize::mib(1500)),
            request_bytes_max: ByteSize(100_001),
            connections_max: Some(7),
            forecast: ForecastSource::Off,
            audit_writes: "shop,app.users".parse().unwrap(),
            ..Settings::default()
        };
        let table: toml::Table = (settings.named().into_iter())
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        assert_eq!(Settings::parse(&table.to_string()).unwrap(), settings);
    }

    /// Regression: the error for a number only named the type `string`, and neither the unit nor the quotes.
    #[test]
    fn the_error_of_a_number_shows_the_form_of_a_time_or_a_size() {
        for (wrong, remedy) in [
            ("grace = 90", "as in \"30s\""),
            ("grace = \"90\"", "write 90s"),
            ("memory = 1073741824", "as in \"512MiB\""),
        ] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(
                error.contains(remedy) && error.contains("line 1"),
                "{error}"
            );
        }
        let settings = Settings::parse("grace = \"90s\"").unwrap();
        assert_eq!(settings.grace.as_secs(), 90);
    }

    #[test]
    fn the_error_of_an_unknown_setting_suggests_a_known_one() {
        let error = Settings::parse("durabilty = \"sync\"").unwrap_err();
        assert!(error.contains("did you mean durability?"), "{error}");
        let error = Settings::parse("colour = 1").unwrap_err();
        assert!(error.contains("there are data, cql"), "{error}");
        assert!(Settings::parse("forecast = \"guess\"").is_err());
        let error = Settings::parse("durability = \"often\"").unwrap_err();
        assert!(
            error.contains("often") && error.contains("line 1"),
            "{error}"
        );
    }
}

//! The arguments that set settings, and the order in which they override each other.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use ebb_server::http::SettingSource;

use super::fields::{FORMER_MEMORY_VARIABLE, Settings};
use crate::error::CliError;

/// The origins of the settings that are not defaults, by their names.
pub(in crate::serve) type SettingSources = BTreeMap<String, SettingSource>;

/// The arguments of a command that set settings: a file, and flags with their environment
/// variables.
#[derive(Debug, Clone)]
pub(crate) struct SettingsArgs {
    config: Option<PathBuf>,
    /// The settings that flags and environment variables set. The other settings have their
    /// defaults.
    settings: Settings,
    /// The names of the settings that flags and environment variables set, with the origin of each.
    given: SettingSources,
}

impl clap::Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("EBB_CONFIG")
            .value_parser(clap::value_parser!(PathBuf))
            .help("TOML file of settings; flags and the environment override it");
        let mut command = Settings::augment_args(command.arg(config));
        // clap reads one variable per argument, so the former one takes the place of the new one.
        let is_set = |variable: &str| env::var_os(variable).is_some();
        if is_set(FORMER_MEMORY_VARIABLE) && !is_set("EBB_MEMORY") {
            command = command.mut_arg("memory", |arg| arg.env(FORMER_MEMORY_VARIABLE));
        }
        command.mut_args(|arg| arg.hide_env_values(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: String| {
            let source = match matches.value_source(&name.replace('-', "_"))? {
                ValueSource::CommandLine => SettingSource::Flag,
                ValueSource::EnvVariable => SettingSource::Environment,
                _ => return None,
            };
            Some((name, source))
        };
        Ok(Self {
            config: matches.get_one("config").cloned(),
            settings: Settings::from_arg_matches(matches)?,
            given: Settings::names().into_iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingsArgs {
    /// Returns the path of the file of settings if a later start cannot read the file again, because it is no
    /// regular file. A pipe, as of `--config <(decrypt ebb.toml)`, has no content then, like a file without
    /// settings.
    pub(in crate::serve) fn unlasting_config(&self) -> Option<PathBuf> {
        let is_lasting = |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file());
        self.config.clone().filter(|path| !is_lasting(path))
    }

    /// Returns the settings in force.
    ///
    /// # Errors
    /// When the file cannot be read or parsed, or a setting makes no sense.
    pub(crate) fn settings(self) -> Result<Settings> {
        self.with_sources().map(|(settings, _)| settings)
    }

    /// Returns the settings in force, and the origins of their values.
    ///
    /// # Errors
    /// See [`settings`](Self::settings).
    pub(in crate::serve) fn with_sources(self) -> Result<(Settings, SettingSources)> {
        let mut sources = SettingSources::new();
        let settings = match &self.config {
            Some(file) => {
                let (settings, names) = Settings::read_with_names(file)?;
                let of_file = names.into_iter().map(|name| (name, SettingSource::File));
                sources.extend(of_file);
                settings.overridden(&self.settings, self.given.keys())?
            }
            None => self.settings,
        };
        sources.extend(self.given);
        settings.check()?;
        Ok((settings, sources))
    }
}

impl Settings {
    /// Returns these settings, but with the values of `by` for the settings in `names`.
    ///
    /// # Errors
    /// Those of [`table`](Self::table).
    fn overridden<'n>(
        self,
        by: &Self,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<Self, CliError> {
        let (mut table, mut others) = (self.table()?, by.table()?);
        for name in names {
            if let Some(value) = others.remove(name) {
                table.insert(name.clone(), value);
            }
        }
        Ok(table.try_into().expect("both can be read"))
    }
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;
    use clap::Args as _;
    use clap::builder::Resettable;

    use super::super::{Authentication, Durability};
    use super::*;

    #[test]
    fn what_comes_first_wins() {
        let file = Settings::parse("durability = \"os\"\nconnections-max = 5").unwrap();
        let command = SettingsArgs::augment_args(Command::new("ebb"));
        let flags = command.get_matches_from(["ebb", "--connections-max", "9"]);
        let flags = SettingsArgs::from_arg_matches(&flags).unwrap();
        let settings = file.overridden(&flags.settings, flags.given.keys());
        let settings = settings.unwrap();
        assert_eq!(settings.connections_max, Some(9));
        assert_eq!(settings.durability, Durability::Os);
        assert_eq!(settings.cql, Settings::default().cql);
    }

    #[test]
    fn the_origin_of_a_value_is_the_one_that_overrides_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ebb.toml");
        let text = "memory-bytes = \"1 GiB\"\nconnections-max = 5\ngrace = \"7s\"";
        std::fs::write(&file, text).unwrap();
        let command = SettingsArgs::augment_args(Command::new("ebb"));
        let command = command.mut_args(|arg| arg.env(Resettable::Reset));
        let file = file.to_str().unwrap();
        let words = ["ebb", "--config", file, "--connections-max", "9"];
        let flags = SettingsArgs::from_arg_matches(&command.get_matches_from(words));
        let (settings, sources) = flags.unwrap().with_sources().unwrap();
        assert_eq!(settings.connections_max, Some(9));
        let source = |name: &str| sources.get(name).copied();
        assert_eq!(source("connections-max"), Some(SettingSource::Flag));
        assert_eq!(source("grace"), Some(SettingSource::File));
        assert_eq!(source("memory"), Some(SettingSource::File));
        assert_eq!(source("cql"), None);
    }

    /// Regression: with a file, sizes were rounded to one decimal place of their unit.
    #[test]
    fn a_size_has_the_same_bytes_with_a_file_as_without() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ebb.toml");
        std::fs::write(&file, "memory = \"1500MiB\"\nwal-bytes-max = \"12345678\"").unwrap();
        let command = SettingsArgs::augment_args(Command::new("ebb"));
        let command = command.mut_args(|arg| arg.env(Resettable::Reset));
        let file = file.to_str().unwrap();
        let words = ["ebb", "--config", file, "--request-bytes-max", "100001"];
        let flags = SettingsArgs::from_arg_matches(&command.get_matches_from(words));
        let settings = flags.unwrap().settings().unwrap();
        assert_eq!(settings.memory, Some(ByteSize::mib(1500)));
        assert_eq!(settings.wal_bytes_max, ByteSize(12_345_678));
        assert_eq!(settings.request_bytes_max, ByteSize(100_001));
    }

    /// Regression: the help has `--insecure YES`, and only `true` and `false` were accepted.
    #[test]
    fn a_switch_takes_the_usual_words_for_yes_and_no() {
        let command = SettingsArgs::augment_args(Command::new("ebb"));
        let command = command.mut_args(|arg| arg.env(Resettable::Reset));
        for id in [
            "group_readable",
            "tls_client_optional",
            "tls_optional",
            "insecure",
            "stage_latencies",
        ] {
            let flag = format!("--{}", id.replace('_', "-"));
            let read = |words: &[&str]| {
                let words = std::iter::once(&"ebb").chain(words);
                let found = command.clone().try_get_matches_from(words).ok()?;
                found.get_one::<bool>(id).copied()
            };
            assert_eq!(read(&[]), Some(false), "{flag}");
            assert_eq!(read(&[&flag]), Some(true), "{flag}");
            for (value, expected) in [
                ("YES", Some(true)),
                ("1", Some(true)),
                ("true", Some(true)),
                ("no", Some(false)),
                ("0", Some(false)),
                ("maybe", None),
            ] {
                assert_eq!(read(&[&flag, value]), expected, "{flag} {value}");
            }
        }
    }

    #[test]
    fn the_flag_without_a_value_requires_passwords() {
        let read = |words: &[&str]| {
            let command = SettingsArgs::augment_args(Command::new("ebb"));
            let command = command.mut_args(|arg| arg.env(Resettable::Reset));
            let words = std::iter::once(&"ebb").chain(words);
            let flags = SettingsArgs::from_arg_matches(&command.get_matches_from(words));
            flags.unwrap().settings.authentication
        };
        assert_eq!(read(&[]), Authentication::None);
        assert_eq!(read(&["--auth"]), Authentication::Password);
        assert_eq!(read(&["--auth", "--data", "x"]), Authentication::Password);
        assert_eq!(read(&["--authentication", "none"]), Authentication::None);
        let file = Settings::parse("authentication = \"password\"").unwrap();
        assert_eq!(file.authentication, Authentication::Password);
        assert!(Settings::parse("authentication = \"ldap\"").is_err());
    }
}

//! The settings of a server: flags before the environment, that before a file, that
//! before what is built in.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_colocate::Objective;
use serde::{Deserialize, Deserializer};

use crate::error::CliError;

/// How alike a name must be to be meant, of 0 to 1.
const ALIKE: f64 = 0.8;

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// After an fsync, which writes that come at the same time share.
    Sync,
    /// Before; an fsync follows within this time.
    Interval(Duration),
    /// Before; the operating system decides when it reaches the disk.
    Os,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sync" => Ok(Self::Sync),
            "os" => Ok(Self::Os),
            text => match humantime::parse_duration(text) {
                Ok(time) if !time.is_zero() => Ok(Self::Interval(time)),
                _ => Err(format!("{text:?} is not sync, os, or a time as in 100ms")),
            },
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.pad("sync"),
            Self::Os => f.pad("os"),
            Self::Interval(time) => f.pad(&humantime::format_duration(*time).to_string()),
        }
    }
}

/// What is said of a server's settings in one place.
#[derive(Debug, Clone, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Said {
    /// Directory of the database; made when absent [default: ./ebb-data].
    #[arg(long, value_name = "DIR", env = "EBB_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
    /// Address and port for CQL clients [default: 127.0.0.1:9042].
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "EBB_CQL",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "parsed")]
    cql: Option<SocketAddr>,
    /// Address that drivers are told to connect to [default: that of --cql].
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "EBB_ADVERTISE",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "parsed")]
    advertise: Option<SocketAddr>,
    /// When a write is acknowledged: sync (after an fsync, shared by all that wait), os, or
    /// a time within which the fsync follows [default: 100ms].
    #[arg(
        long,
        value_name = "WHEN",
        env = "EBB_DURABILITY",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "parsed")]
    durability: Option<Durability>,
    /// Latency that point requests are to keep, as in p99=2ms: jobs get less before it
    /// breaks [default: none; jobs get what the load leaves].
    #[arg(
        long,
        value_name = "OBJECTIVE",
        env = "EBB_SLO",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "parsed")]
    slo: Option<Objective>,
    /// Name of the cluster of this one node [default: ebb].
    #[arg(
        long,
        value_name = "NAME",
        env = "EBB_CLUSTER_NAME",
        hide_env_values = true
    )]
    cluster_name: Option<String>,
    /// Time that a request may take [default: 10s].
    #[arg(
        long,
        value_name = "TIME",
        env = "EBB_REQUEST_TIMEOUT",
        hide_env_values = true
    )]
    #[arg(value_parser = humantime::parse_duration)]
    #[serde(deserialize_with = "time")]
    request_timeout: Option<Duration>,
    /// Maximum number of connections [default: 20000].
    #[arg(
        long,
        value_name = "N",
        env = "EBB_CONNECTIONS_MAX",
        hide_env_values = true
    )]
    connections_max: Option<u32>,
    /// Listen on an address that other machines reach. Nobody has to authenticate: whoever
    /// reaches the port can read and write everything.
    #[arg(
        long,
        value_name = "YES",
        env = "EBB_INSECURE_LISTEN",
        hide_env_values = true
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    insecure_listen: Option<bool>,
}

fn parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = humantime::parse_duration(&text);
    time.map(Some).map_err(serde::de::Error::custom)
}

/// Where settings come from.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SettingsArgs {
    /// TOML file of settings; flags and the environment override it.
    #[arg(long, value_name = "FILE", env = "EBB_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    said: Said,
}

/// All settings of a server, as they are in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) cql: SocketAddr,
    pub(crate) advertise: Option<SocketAddr>,
    pub(crate) durability: Durability,
    pub(crate) slo: Option<Objective>,
    pub(crate) cluster_name: String,
    pub(crate) request_timeout: Duration,
    pub(crate) connections_max: u32,
    pub(crate) insecure_listen: bool,
}

impl SettingsArgs {
    /// The settings in force.
    ///
    /// # Errors
    /// When the file cannot be read or understood, or a setting makes no sense.
    pub(crate) fn settings(self) -> Result<Settings> {
        let file = self.config.as_deref().map(Said::read).transpose()?;
        let settings = Settings::of(self.said, file.unwrap_or_default());
        settings.check()?;
        Ok(settings)
    }
}

impl Said {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, or has a setting that is unknown or wrong.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).map_err(|problem| CliError::Usage(format!("{name}: {problem}")).into())
    }

    /// The settings where nothing else is said.
    pub(crate) fn alone(self) -> Settings {
        Settings::of(Self::default(), self)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| told(&error))?;
        let known = Settings::default().named().map(|(name, _)| name);
        if let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) {
            let likeness = |name: &str| strsim::jaro_winkler(unknown, name);
            let meant = known
                .into_iter()
                .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            let hint = match meant.filter(|name| likeness(name) >= ALIKE) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("there are {}", known.join(", ")),
            };
            return Err(format!("unknown setting {unknown}: {hint}"));
        }
        toml::from_str(text).map_err(|error| told(&error))
    }
}

/// The error with its place, without an empty line at its end.
fn told(error: &toml::de::Error) -> String {
    error.to_string().trim_end().to_owned()
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Said::default(), Said::default())
    }
}

impl Settings {
    fn of(first: Said, then: Said) -> Self {
        Self {
            data: (first.data.or(then.data)).unwrap_or_else(|| "./ebb-data".into()),
            cql: (first.cql.or(then.cql)).unwrap_or((Ipv4Addr::LOCALHOST, 9042).into()),
            advertise: first.advertise.or(then.advertise),
            durability: (first.durability.or(then.durability))
                .unwrap_or(Durability::Interval(Duration::from_millis(100))),
            slo: first.slo.or(then.slo),
            cluster_name: (first.cluster_name.or(then.cluster_name))
                .unwrap_or_else(|| "ebb".to_owned()),
            request_timeout: (first.request_timeout.or(then.request_timeout))
                .unwrap_or(Duration::from_secs(10)),
            connections_max: (first.connections_max.or(then.connections_max)).unwrap_or(20_000),
            insecure_listen: (first.insecure_listen.or(then.insecure_listen)).unwrap_or(false),
        }
    }

    /// # Errors
    /// When settings make no sense, or would let everybody in unasked.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let refused = |text: String| Err(CliError::Usage(text));
        if !self.cql.ip().is_loopback() && !self.insecure_listen {
            return refused(format!(
                "{} can be reached from other machines, and ebb asks nobody for a password: \
                 listen on 127.0.0.1, or say --insecure-listen where everybody who reaches \
                 the port may read and write everything",
                self.cql
            ));
        }
        if self.connections_max == 0 {
            return refused("connections-max is 0: nobody could connect".into());
        }
        if self.request_timeout.is_zero() {
            return refused("request-timeout is 0: no request could be answered".into());
        }
        // Drivers connect to what system.local says, which must be an address.
        let advertised = self.advertise.unwrap_or(self.cql).ip();
        if advertised.is_unspecified() {
            return refused(format!(
                "drivers cannot connect to {advertised}: name an address of this machine with \
                 --advertise"
            ));
        }
        Ok(())
    }

    /// The settings by name, with their values as TOML; without one where there is none.
    pub(crate) fn named(&self) -> [(&'static str, Option<toml::Value>); 9] {
        let text = |value: &dyn fmt::Display| Some(toml::Value::String(value.to_string()));
        let timeout = humantime::format_duration(self.request_timeout);
        [
            ("data", text(&self.data.display())),
            ("cql", text(&self.cql)),
            (
                "advertise",
                self.advertise.and_then(|address| text(&address)),
            ),
            ("durability", text(&self.durability)),
            ("slo", self.slo.and_then(|slo| text(&slo))),
            ("cluster-name", text(&self.cluster_name)),
            ("request-timeout", text(&timeout)),
            (
                "connections-max",
                Some(i64::from(self.connections_max).into()),
            ),
            ("insecure-listen", Some(self.insecure_listen.into())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        let settings = Settings {
            slo: Some("p99=2ms".parse().unwrap()),
            advertise: Some(([10, 0, 0, 1], 9042).into()),
            durability: Durability::Sync,
            connections_max: 7,
            ..Settings::default()
        };
        let table: toml::Table = (settings.named().into_iter())
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        let said = Said::parse(&table.to_string()).unwrap();
        assert_eq!(Settings::of(Said::default(), said), settings);
    }

    #[test]
    fn what_comes_first_wins() {
        let file = Said::parse("durability = \"os\"\nconnections-max = 5").unwrap();
        let flags = Said {
            connections_max: Some(9),
            ..Said::default()
        };
        let settings = Settings::of(flags, file);
        assert_eq!(settings.connections_max, 9);
        assert_eq!(settings.durability, Durability::Os);
        assert_eq!(settings.cql, Settings::default().cql);
    }

    #[test]
    fn an_unknown_setting_is_an_error_that_says_which_is_meant() {
        let error = Said::parse("durabilty = \"sync\"").unwrap_err();
        assert!(error.contains("did you mean durability?"), "{error}");
        let error = Said::parse("colour = 1").unwrap_err();
        assert!(error.contains("there are data, cql"), "{error}");
        let error = Said::parse("durability = \"often\"").unwrap_err();
        assert!(
            error.contains("often") && error.contains("line 1"),
            "{error}"
        );
    }

    #[test]
    fn other_machines_are_let_in_only_on_request() {
        let listening = |ip: [u8; 4], insecure_listen| {
            let settings = Settings {
                cql: (ip, 9042).into(),
                advertise: Some(([10, 0, 0, 1], 9042).into()),
                insecure_listen,
                ..Settings::default()
            };
            settings.check().is_ok()
        };
        assert!(listening([127, 0, 0, 1], false));
        assert!(!listening([0, 0, 0, 0], false));
        assert!(!listening([10, 0, 0, 1], false));
        assert!(listening([0, 0, 0, 0], true));
    }

    #[test]
    fn drivers_are_told_an_address() {
        let everywhere = Settings {
            cql: ([0, 0, 0, 0], 9042).into(),
            insecure_listen: true,
            ..Settings::default()
        };
        let error = everywhere.check().unwrap_err().to_string();
        assert!(error.contains("--advertise"), "{error}");
        let advertised = Settings {
            advertise: Some(([0, 0, 0, 0], 9042).into()),
            ..Settings::default()
        };
        assert!(advertised.check().is_err());
    }
}

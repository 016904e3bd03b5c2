//! The settings of a server. Flags override the environment, which overrides a file, which overrides the
//! defaults.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches};
use ebb_colocate::{FLOOR_CORES, FLOOR_CORES_MIN, Objective};
use ebb_cql_server::guardrails::Guardrails;
use ebb_cql_server::serve::{AuditedTables, TlsOptions};
use ebb_server::http::SettingSource;
use ebb_server::memory::MemoryLimits;
use ebb_text::read_whole;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amounts;
use super::log::LogFormat;
use super::log_levels::LogLevels;
use crate::error::CliError;

/// The least similarity, from 0 to 1, at which the error of an unknown setting suggests a known one.
const ALIKE: f64 = 0.8;

/// The start of the names of environment variables of settings.
const VARIABLE_START: &str = "EBB_";

/// The least value of the setting `request-bytes-max`. Drivers' queries of system tables fit into it.
const REQUEST_BYTES_LEAST: u64 = 64 << 10;
/// The greatest value of the setting `request-bytes-max`: the limit of the protocol.
const REQUEST_BYTES_MOST: u64 = 256 << 20;

/// The greatest value of the setting `analytics-floor`, far above the cores of any machine.
const FLOOR_CORES_MOST: f64 = 1024.0;

/// The name of the setting `memory` in earlier builds, and its variable. Both are still read.
const FORMER_MEMORY: &str = "memory-bytes";
const FORMER_MEMORY_VARIABLE: &str = "EBB_MEMORY_BYTES";

/// The least memory with which a server still works well.
const MEMORY_BYTES_LEAST: u64 = 16 << 20;
/// The least memory for memtables with which a server still works well.
const MEMTABLES_BYTES_LEAST: u64 = 4 << 20;
/// The shortest log with which a server still works well.
const WAL_BYTES_LEAST: u64 = 4 << 20;

/// The time at which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A write is acknowledged after an fsync, which concurrent writes share.
    Sync,
    /// A write is acknowledged before its fsync, which follows within this time.
    Interval(Duration),
    /// A write is acknowledged when the operating system has it, which decides when the write
    /// reaches the disk.
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

/// The authentication of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// No authentication: every client may do everything.
    None,
    /// Clients log in as a role, with its password.
    Password,
}

impl FromStr for Authentication {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "password" => Ok(Self::Password),
            _ => Err(format!("{text:?} is not password or none")),
        }
    }
}

impl fmt::Display for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Password => "password",
        })
    }
}

/// The reaction to a failed write, after which the store takes no more writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnFailedWrite {
    /// The server stops: only the next start can find out what is on the disk.
    Exit,
    /// The server answers reads until it is stopped.
    ReadOnly,
}

/// The settings of a server. A field is a flag, an environment variable and a name in a
/// file at once.
#[derive(Debug, Clone, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Directory of the database; made when absent.
    #[arg(long, value_name = "DIR", env = "EBB_DATA")]
    #[arg(default_value = "./ebb-data")]
    pub(crate) data: PathBuf,
    /// Address and port for CQL clients.
    #[arg(long, value_name = "ADDR:PORT", env = "EBB_CQL")]
    #[arg(default_value = "127.0.0.1:9042")]
    pub(crate) cql: SocketAddr,
    /// Address that the server gives to drivers to connect to [default: that of --cql].
    #[arg(long, value_name = "ADDR:PORT", env = "EBB_ADVERTISE")]
    pub(crate) advertise: Option<SocketAddr>,
    /// Address and port for HTTP: jobs, snapshots, metrics, health. Requests need a token of
    /// `ebb token create`. If other machines reach the address, the port speaks TLS with the
    /// certificate of --tls-cert [default: none].
    #[arg(long, value_name = "ADDR:PORT", env = "EBB_HTTP")]
    pub(crate) http: Option<SocketAddr>,
    /// Host names by which HTTP requests may address the server, besides localhost and IP
    /// addresses; separated by commas.
    #[arg(
        long,
        value_name = "NAME",
        env = "EBB_HTTP_HOSTS",
        value_delimiter = ','
    )]
    pub(crate) http_hosts: Vec<String>,
    /// Address and port for /health/live and /health/ready alone, without a token and without TLS,
    /// for supervisors and load balancers. They are answered as soon as the server opens its
    /// database [default: none].
    #[arg(long, value_name = "ADDR:PORT", env = "EBB_HEALTH")]
    pub(crate) health: Option<SocketAddr>,
    /// Folder below which jobs submitted over HTTP may write files, outside of the directory of the
    /// database [default: none: they may write tables only].
    #[arg(long, value_name = "DIR", env = "EBB_OUTPUT_ROOT")]
    pub(crate) output_root: Option<PathBuf>,
    /// Folder for backups requested over HTTP, outside of the directory of the database [default:
    /// none: such requests are rejected].
    #[arg(long, value_name = "DIR", env = "EBB_BACKUP_ROOT")]
    pub(crate) backup_root: Option<PathBuf>,
    /// Give new files of the database and of backups the mode 0640, and new directories 0750, so that
    /// the group of the server's user may read them, for example a user for backups. Files that are
    /// there already keep their modes. Otherwise the modes are 0600 and 0700.
    #[arg(long, value_name = "YES", env = "EBB_GROUP_READABLE")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) group_readable: bool,
    /// When a write is acknowledged: sync (after an fsync, which concurrent writes share), os
    /// (before; the operating system decides when to write to the disk), or a time as in 100ms
    /// (before; an fsync follows within this time).
    #[arg(long, value_name = "WHEN", env = "EBB_DURABILITY")]
    #[arg(default_value = "100ms")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) durability: Durability,
    /// Reaction to a failed write or fsync, after which the store takes no more writes until it is
    /// opened again: exit (the server stops with exit code 1, for its supervisor to start it again;
    /// the start recovers what was acknowledged as durable), or read-only (the server answers reads
    /// until it is stopped).
    #[arg(long, value_name = "WHAT", env = "EBB_ON_FAILED_WRITE")]
    #[arg(default_value = "exit", hide_possible_values = true)]
    pub(crate) on_failed_write: OnFailedWrite,
    /// Time within which the server reads every SSTable once, in the background, and puts damaged
    /// ones into quarantine. The reads are paced, and continue after a restart. 0s turns this off.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_VERIFY_EVERY")]
    #[arg(default_value = "30days")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) verify_every: humantime::Duration,
    /// Memory of the server, as in 2GiB. At most 1/8 of it is for CQL requests, 1/8 for results that
    /// wait for their clients, 1/32 for prepared statements, and 1/16 for jobs. The rest is for
    /// memtables (a quarter of the rest), and for open tables and the cache of blocks, indexes and
    /// filters. The former name memory-bytes is read, too [default: a quarter of the machine's
    /// memory, or of its cgroup's limit if that is less; at least 64 MiB].
    #[arg(value_parser = amounts::size)]
    #[arg(
        long,
        visible_alias = FORMER_MEMORY,
        value_name = "SIZE",
        env = "EBB_MEMORY"
    )]
    #[serde(default, alias = "memory-bytes", serialize_with = "shown_if_any")]
    #[serde(deserialize_with = "amounts::read_size_if_any")]
    pub(crate) memory: Option<ByteSize>,
    /// Bound on the memory of all memtables. Once they use half of it, the largest are flushed; at
    /// the bound, writers wait [default: a quarter of the memory that --memory leaves to the store].
    #[arg(value_parser = amounts::size)]
    #[arg(long, value_name = "BYTES", env = "EBB_MEMTABLES_BYTES")]
    #[serde(default, serialize_with = "shown_if_any")]
    #[serde(deserialize_with = "amounts::read_size_if_any")]
    pub(crate) memtables_bytes: Option<ByteSize>,
    /// Bound on the length of the write-ahead log. Once the log has three quarters of it, memtables
    /// are flushed; at the bound, writers wait. A restart replays this much at most.
    #[arg(value_parser = amounts::size)]
    #[arg(long, value_name = "BYTES", env = "EBB_WAL_BYTES_MAX")]
    #[arg(default_value = "512 MiB")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_size")]
    pub(crate) wal_bytes_max: ByteSize,
    /// Latency objective for point requests: jobs get less CPU time before the load, the requests of
    /// clients, misses it. p99=2ms is an absolute bound, p99=1.1x a multiple of the latency without
    /// jobs; p50 and p99.9 can be bounded, too. With none, jobs get all that the load leaves.
    #[arg(long, value_name = "OBJECTIVE", env = "EBB_SLO")]
    #[arg(default_value = "p99=1.1x")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) slo: Slo,
    /// Cores that jobs get even while other processes hold the CPU; long scans of clients get as
    /// many. The load and its objective come first. Jobs whose goals are in danger get up to four
    /// times as much. With 0, jobs and long scans get only what other processes leave.
    #[arg(long, value_name = "CORES", env = "EBB_ANALYTICS_FLOOR")]
    #[arg(default_value_t = FLOOR_CORES)]
    pub(crate) analytics_floor: f64,
    /// Name of the cluster, as clients find it in system.local and by DESCRIBE CLUSTER.
    #[arg(long, value_name = "NAME", env = "EBB_CLUSTER_NAME")]
    #[arg(default_value = "ebb")]
    pub(crate) cluster_name: String,
    /// Time that a CQL request may take. Then the server answers it with a timeout error.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_REQUEST_TIMEOUT")]
    #[arg(default_value = "10s")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) request_timeout: humantime::Duration,
    /// Time that the server takes at most to stop. Scans end at once. Other requests, and results that
    /// clients have not read, are cut off after three fifths of the time. The rest is for jobs, for
    /// HTTP requests and for writing memtables to files.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_GRACE")]
    #[arg(default_value = "5s")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) grace: humantime::Duration,
    /// Maximum number of connections for CQL. If the limit of open files leaves fewer, that is the
    /// maximum, which the server logs at its start [default: 20000].
    #[arg(long, value_name = "N", env = "EBB_CONNECTIONS_MAX")]
    pub(crate) connections_max: Option<u32>,
    /// Maximum number of CQL connections from one address [default: no limit].
    #[arg(long, value_name = "N", env = "EBB_CONNECTIONS_PER_ADDRESS_MAX")]
    pub(crate) connections_per_address_max: Option<u32>,
    /// Maximum number of requests of one connection that run or wait at once, without those that are
    /// answered at once, such as point reads. At the limit the server reads no more requests of the
    /// connection until one of them is done.
    #[arg(long, value_name = "N", env = "EBB_CONNECTION_REQUESTS_MAX")]
    #[arg(default_value = "128")]
    pub(crate) connection_requests_max: u32,
    /// Maximum length of a request, and so of a statement with its values.
    #[arg(value_parser = amounts::size)]
    #[arg(long, value_name = "BYTES", env = "EBB_REQUEST_BYTES_MAX")]
    #[arg(default_value = "16 MiB")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_size")]
    pub(crate) request_bytes_max: ByteSize,
    /// Queueing time that counts as overload. While most requests queue for longer than this, the
    /// server rejects requests that queued for longer than a twentieth of it with OVERLOADED. 0s
    /// turns this off.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_OVERLOAD_WAIT")]
    #[arg(default_value = "20ms")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) overload_wait: humantime::Duration,
    /// Limits on the cost of statements, by their names in Cassandra 5.0 and separated by commas,
    /// as in tables_warn_threshold=100,allow_filtering_enabled=false.
    #[arg(long, value_name = "NAME=VALUE,...", env = "EBB_GUARDRAILS")]
    #[arg(default_value = "none")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) guardrails: Guardrails,
    /// Number of snapshots of each keyspace, the newest, that system_schema lists as keyspaces, as in
    /// shop@monday. Clients that read the whole schema when they connect, such as cqlsh, see only
    /// these as keyspaces, and get an event when one is created or gone. A statement can name any
    /// snapshot.
    #[arg(long, value_name = "N", env = "EBB_SCHEMA_SNAPSHOTS")]
    #[arg(default_value = "0")]
    pub(crate) schema_snapshots: u32,
    /// Certificate chain of the server, in PEM. With it and --tls-key, clients speak TLS. The server
    /// reads this file and the other files for TLS again when they change, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "EBB_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM, not encrypted.
    #[arg(long, value_name = "FILE", env = "EBB_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate authorities, in PEM: clients must present a certificate that one of them signed.
    #[arg(long, value_name = "FILE", env = "EBB_TLS_CLIENT_CA")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Accept clients without a certificate, too. Needs --tls-client-ca.
    #[arg(long, value_name = "YES", env = "EBB_TLS_CLIENT_OPTIONAL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) tls_client_optional: bool,
    /// Accept clients without TLS, too, on the same port.
    #[arg(long, value_name = "YES", env = "EBB_TLS_OPTIONAL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) tls_optional: bool,
    /// Time that a client may take for the TLS handshake and for STARTUP.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_STARTUP_TIMEOUT")]
    #[arg(default_value = "10s")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) startup_timeout: humantime::Duration,
    /// Authentication of clients: password (they log in as a role; also if the flag has no value),
    /// or none (every client may do everything).
    #[arg(
        long,
        visible_alias = "auth",
        value_name = "HOW",
        env = "EBB_AUTHENTICATION"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "password", default_value = "none")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) authentication: Authentication,
    /// Time that a client may take to log in.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_LOGIN_TIMEOUT")]
    #[arg(default_value = "30s")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) login_timeout: humantime::Duration,
    /// Wrong passwords that an address may send within a minute, before its logins are rejected for
    /// a while. 0 turns this off.
    #[arg(long, value_name = "N", env = "EBB_LOGIN_FAILURES_MAX")]
    #[arg(default_value = "60")]
    pub(crate) login_failures_max: u32,
    /// Listen on an address that other machines reach even without authentication (every client can
    /// then read and write everything), and for HTTP even without TLS (others on the network can
    /// then read the tokens).
    #[arg(long, value_name = "YES", env = "EBB_INSECURE")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) insecure: bool,
    /// Lowest level of the lines in the log: off, error, warn, info, debug or trace. An area (server,
    /// cql, http, jobs or storage) may have another level, as in info,storage=debug,cql=warn.
    #[arg(long, value_name = "LEVEL,...", env = "EBB_LOG")]
    #[arg(default_value = "info")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) log: LogLevels,
    /// Format of the lines in the log: human, or json [default: human on a terminal, json
    /// elsewhere].
    #[arg(
        long,
        value_name = "FORMAT",
        env = "EBB_LOG_FORMAT",
        hide_possible_values = true
    )]
    pub(crate) log_format: Option<LogFormat>,
    /// Requests that take at least this many milliseconds are logged, with the time of each step. 0
    /// logs all requests. The log is bounded to ten lines per second in the long run.
    #[arg(long, value_name = "N", env = "EBB_SLOW_REQUEST_MS")]
    #[arg(default_value = "500")]
    pub(crate) slow_request_ms: u32,
    /// Measure latencies of point requests by stage, for the metric
    /// ebb_cql_stage_duration_seconds: waiting, executing, sending.
    #[arg(long, value_name = "YES", env = "EBB_STAGE_LATENCIES")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) stage_latencies: bool,
    /// Tables whose writes by CQL are recorded, without their values, in the file audit-writes.log of
    /// the directory --data: names separated by commas, of keyspaces as in shop or of tables as in
    /// shop.orders; or all, or none. If lines come faster than they can be written, or cannot be
    /// written, they are dropped and counted, and the writes go on.
    #[arg(long, value_name = "NAME,...", env = "EBB_AUDIT_WRITES")]
    #[arg(default_value = "none")]
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub(crate) audit_writes: AuditedTables,
}

fn shown<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn shown_if_any<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// A latency objective, or `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slo(pub(crate) Option<Objective>);

impl FromStr for Slo {
    type Err = <Objective as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            _ => text.parse().map(|objective| Self(Some(objective))),
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(objective) => objective.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// The origins of the settings that are not defaults, by their names.
pub(crate) type SettingSources = BTreeMap<String, SettingSource>;

/// The arguments of a command that set settings: a file, and flags with their variables.
#[derive(Debug, Clone)]
pub(crate) struct SettingsArgs {
    config: Option<PathBuf>,
    /// The settings of flags and the environment; the other settings have their defaults.
    settings: Settings,
    /// The settings that flags and the environment have, with their origins.
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
    pub(crate) fn with_sources(self) -> Result<(Settings, SettingSources)> {
        let mut sources = SettingSources::new();
        let settings = match &self.config {
            Some(file) => {
                let (settings, names) = Settings::read_with_names(file)?;
                let of_file = names.into_iter().map(|name| (name, SettingSource::File));
                sources.extend(of_file);
                settings.overridden(&self.settings, self.given.keys())
            }
            None => self.settings,
        };
        sources.extend(self.given);
        settings.check()?;
        Ok((settings, sources))
    }
}

impl Default for Settings {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("ebb"));
        let alone = command.mut_args(|arg| arg.env(Resettable::Reset));
        Self::from_arg_matches(&alone.get_matches_from(["ebb"])).expect("defaults can be read")
    }
}

impl Settings {
    /// The names of the settings in flags and files, in order.
    fn names() -> Vec<String> {
        let command = Self::augment_args(Command::new("ebb"));
        let names = command.get_arguments();
        names
            .map(|arg| arg.get_id().as_str().replace('_', "-"))
            .collect()
    }

    /// The settings as TOML, without those that have no value.
    fn table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("settings are plain values")
    }

    /// The settings by name, with their values as TOML; `None` for a setting without a value.
    pub(crate) fn named(&self) -> Vec<(String, Option<toml::Value>)> {
        let mut table = self.table();
        let named = Self::names().into_iter().map(|name| {
            let value = table.remove(&name);
            (name, value)
        });
        named.collect()
    }

    /// Reads the settings of a file. Settings that the file does not have get their defaults.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or has a setting that is unknown or wrong.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::read_with_names(path).map(|(settings, _)| settings)
    }

    /// Returns the settings of a file, and the names of those that the file has.
    fn read_with_names(path: &Path) -> Result<(Self, Vec<String>)> {
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

    fn parse(text: &str) -> Result<Self, String> {
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
        let mut rest = Self::default().table();
        rest.retain(|name, _| !table.contains_key(name));
        toml::from_str(&format!("{text}\n{rest}")).map_err(|error| described(&error))
    }

    /// Returns these settings, where each setting in `names` has the value that it has in `by`.
    fn overridden<'n>(self, by: &Self, names: impl IntoIterator<Item = &'n String>) -> Self {
        let (mut table, mut others) = (self.table(), by.table());
        for name in names {
            if let Some(value) = others.remove(name) {
                table.insert(name.clone(), value);
            }
        }
        table.try_into().expect("both can be read")
    }

    /// Returns whether clients on other machines may do everything without logging in.
    pub(crate) fn is_open_to_others(&self) -> bool {
        !self.cql.ip().is_loopback() && self.authentication == Authentication::None
    }

    /// Returns whether other machines can connect over HTTP.
    pub(crate) fn is_http_open_to_others(&self) -> bool {
        self.http.is_some_and(|http| !http.ip().is_loopback())
    }

    /// Divides the memory of the server, on a machine with `machine_bytes`, if that is known.
    pub(crate) fn memory_limits(&self, machine_bytes: Option<u64>) -> MemoryLimits {
        let memtables_bytes = self.memtables_bytes.map_or(0, |bytes| bytes.as_u64());
        let all_bytes = match self.memory {
            Some(bytes) => bytes.as_u64(),
            None => MemoryLimits::default_bytes(machine_bytes, memtables_bytes),
        };
        MemoryLimits::of(all_bytes, self.request_bytes_max.as_u64())
    }

    /// Checks values that the type of a setting does not exclude, and settings against each other. Without a
    /// value (`None`) a setting has its default or no bound, so only values that were given are rejected.
    ///
    /// # Errors
    /// When a value or several together make no sense, or the settings would let clients of other machines in
    /// without authentication although `insecure` is not set.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let refused = |text: String| Err(CliError::Usage(text));
        if self.is_open_to_others() && !self.insecure {
            return refused(format!(
                "{} can be reached from other machines, and clients need no password: use --auth, \
                 listen on 127.0.0.1, or use --insecure if every client that reaches the port may \
                 read and write everything",
                self.cql
            ));
        }
        let is_readable = self.is_http_open_to_others() && self.tls_cert.is_none();
        if let Some(http) = self.http.filter(|_| is_readable && !self.insecure) {
            return refused(format!(
                "{http} can be reached from other machines, and HTTP would carry tokens in the \
                 clear: use --tls-cert and --tls-key, listen on 127.0.0.1, or use --insecure if \
                 others on the network may read them"
            ));
        }
        let floor = self.analytics_floor;
        if floor != 0.0 && !(FLOOR_CORES_MIN..=FLOOR_CORES_MOST).contains(&floor) {
            return refused(format!(
                "analytics-floor is {floor}: use 0 for none, or a number of cores from \
                 {FLOOR_CORES_MIN} to {FLOOR_CORES_MOST}"
            ));
        }
        if self.connections_max == Some(0) {
            return refused("connections-max is 0: no client could connect".into());
        }
        for (name, is_zero) in [
            (
                "connections-per-address-max",
                self.connections_per_address_max == Some(0),
            ),
            ("connection-requests-max", self.connection_requests_max == 0),
        ] {
            if is_zero {
                return refused(format!("{name} is 0: no client could send a request"));
            }
        }
        let bytes = self.request_bytes_max.as_u64();
        if !(REQUEST_BYTES_LEAST..=REQUEST_BYTES_MOST).contains(&bytes) {
            let size = self.request_bytes_max;
            return refused(format!(
                "request-bytes-max is {size}: use 64 KiB to 256 MiB"
            ));
        }
        for (name, bytes, least) in [
            ("memory", self.memory, MEMORY_BYTES_LEAST),
            (
                "memtables-bytes",
                self.memtables_bytes,
                MEMTABLES_BYTES_LEAST,
            ),
            ("wal-bytes-max", Some(self.wal_bytes_max), WAL_BYTES_LEAST),
        ] {
            if bytes.is_some_and(|bytes| bytes.as_u64() < least) {
                return refused(format!(
                    "{name} is less than {}, with which a server still works well: raise it",
                    ByteSize(least)
                ));
            }
        }
        // The machine's memory matters only for the default of `memory`, which has room for any memtables.
        let store_bytes = self.memory_limits(None).store_bytes;
        if (self.memtables_bytes).is_some_and(|bytes| bytes.as_u64() > store_bytes) {
            let store = ByteSize(store_bytes);
            return refused(format!(
                "memtables-bytes is more than the {store} of memory that the store has: lower it, \
                 or raise memory"
            ));
        }
        if self.startup_timeout.is_zero() {
            return refused("startup-timeout is 0: no client could connect".into());
        }
        // Only for its errors: the options are made at the start.
        self.tls_options()?;
        if self.login_timeout.is_zero() {
            return refused("login-timeout is 0: no client could log in".into());
        }
        if self.request_timeout.is_zero() {
            return refused("request-timeout is 0: no request could be answered".into());
        }
        // `system.local` has this address, and drivers connect to it.
        let advertised = self.advertise.unwrap_or(self.cql).ip();
        if advertised.is_unspecified() {
            return refused(format!(
                "drivers cannot connect to {advertised}: name an address of this machine with \
                 --advertise"
            ));
        }
        Ok(())
    }

    /// Returns the options of TLS, if the settings have any.
    ///
    /// # Errors
    /// When a setting needs another that is missing.
    pub(crate) fn tls_options(&self) -> Result<Option<TlsOptions>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            let given = [
                ("tls-cert", self.tls_cert.is_some()),
                ("tls-key", self.tls_key.is_some()),
                ("tls-client-ca", self.tls_client_ca.is_some()),
                ("tls-client-optional", self.tls_client_optional),
                ("tls-optional", self.tls_optional),
            ];
            return match given.iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((name, _)) => {
                    let text = format!("{name} is given, but TLS needs both tls-cert and tls-key");
                    Err(CliError::Usage(text))
                }
            };
        };
        if self.tls_client_optional && self.tls_client_ca.is_none() {
            let text = "tls-client-optional needs tls-client-ca";
            return Err(CliError::Usage(text.into()));
        }
        Ok(Some(TlsOptions {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: self.tls_client_ca.clone(),
            is_client_optional: self.tls_client_optional,
            is_optional: self.tls_optional,
        }))
    }
}

/// Returns the known name that is most like an unknown one; `None` if none is like it.
fn meant_by<'n>(unknown: &str, known: &'n [String]) -> Option<&'n String> {
    let likeness = |name: &str| strsim::jaro_winkler(unknown, name);
    let meant = known
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    meant.filter(|name| likeness(name) >= ALIKE)
}

/// Returns the environment variables that belong to no setting, but whose names are almost those of
/// settings' variables. Each comes with the name of the variable that was probably meant.
pub(super) fn misspelt(variables: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let known = Settings::names();
    let mut misspelt = Vec::new();
    for variable in variables {
        let Some(name) = variable.strip_prefix(VARIABLE_START) else {
            continue;
        };
        let name = name.to_lowercase().replace('_', "-");
        if known.contains(&name) || name == FORMER_MEMORY {
            continue;
        }
        if let Some(meant) = meant_by(&name, &known) {
            let meant = meant.replace('-', "_").to_uppercase();
            misspelt.push((variable, format!("{VARIABLE_START}{meant}")));
        }
    }
    misspelt
}

/// Describes an error with its place, without the empty line at the end.
fn described(error: &toml::de::Error) -> String {
    error.to_string().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        let settings = Settings {
            slo: "p99=2ms".parse().unwrap(),
            advertise: Some(([10, 0, 0, 1], 9042).into()),
            durability: Durability::Sync,
            memory: Some(ByteSize::gib(3)),
            connections_max: Some(7),
            audit_writes: "shop,app.users".parse().unwrap(),
            ..Settings::default()
        };
        let table: toml::Table = (settings.named().into_iter())
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        assert_eq!(Settings::parse(&table.to_string()).unwrap(), settings);
    }

    #[test]
    fn an_objective_is_kept_unless_it_is_refused() {
        assert_eq!(Settings::default().slo, Slo(Some(Objective::DEFAULT)));
        let settings = Settings::parse("slo = \"none\"").unwrap();
        assert_eq!(
            (settings.slo, settings.slo.to_string()),
            (Slo(None), "none".into())
        );
    }

    #[test]
    fn the_floor_of_analytics_is_a_number_of_cores() {
        assert_eq!(Settings::default().analytics_floor, FLOOR_CORES);
        for (text, is_good) in [
            ("0", true),
            ("0.01", true),
            ("1.5", true),
            ("0.004", false),
            ("-0.1", false),
            ("1e300", false),
            ("inf", false),
            ("nan", false),
        ] {
            let settings = Settings::parse(&format!("analytics-floor = {text}")).unwrap();
            assert_eq!(settings.check().is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn what_comes_first_wins() {
        let file = Settings::parse("durability = \"os\"\nconnections-max = 5").unwrap();
        let command = SettingsArgs::augment_args(Command::new("ebb"));
        let flags = command.get_matches_from(["ebb", "--connections-max", "9"]);
        let flags = SettingsArgs::from_arg_matches(&flags).unwrap();
        let settings = file.overridden(&flags.settings, flags.given.keys());
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

    #[test]
    fn the_error_of_an_unknown_setting_suggests_a_known_one() {
        let error = Settings::parse("durabilty = \"sync\"").unwrap_err();
        assert!(error.contains("did you mean durability?"), "{error}");
        let error = Settings::parse("colour = 1").unwrap_err();
        assert!(error.contains("there are data, cql"), "{error}");
        let error = Settings::parse("durability = \"often\"").unwrap_err();
        assert!(
            error.contains("often") && error.contains("line 1"),
            "{error}"
        );
    }

    #[test]
    fn a_variable_that_is_misspelt_is_found_and_those_of_other_things_are_not() {
        let found = |variables: &[&str]| misspelt(variables.iter().map(ToString::to_string));
        let pair = |wrong: &str, right: &str| (wrong.to_owned(), right.to_owned());
        assert_eq!(
            found(&["EBB_DURABILTY", "EBB_AUTH", "EBB_CQL"]),
            [
                pair("EBB_DURABILTY", "EBB_DURABILITY"),
                pair("EBB_AUTH", "EBB_AUTHENTICATION"),
            ]
        );
        let others = [
            "DURABILTY",
            FORMER_MEMORY_VARIABLE,
            "EBB_CONFIG",
            "EBB_SERVER",
            "EBB_SERVER_CA",
            "EBB_TOKEN",
            "EBB_CATALOG_TOKEN",
            "EBB_CATALOG_ALLOW_HTTP",
            "EBB_TEST_UNPACED",
            "EBB_SERVICE_HOST",
            "EBB_PORT_9042_TCP",
        ];
        assert_eq!(found(&others), Vec::<(String, String)>::new());
    }

    #[test]
    fn other_machines_are_let_in_only_on_request() {
        let listening = |ip: [u8; 4], insecure, authentication: &str| {
            let settings = Settings {
                cql: (ip, 9042).into(),
                advertise: Some(([10, 0, 0, 1], 9042).into()),
                insecure,
                authentication: authentication.parse().unwrap(),
                ..Settings::default()
            };
            settings.check().is_ok()
        };
        assert!(listening([127, 0, 0, 1], false, "none"));
        assert!(!listening([0, 0, 0, 0], false, "none"));
        assert!(!listening([10, 0, 0, 1], false, "none"));
        assert!(listening([0, 0, 0, 0], true, "none"));
        assert!(listening([10, 0, 0, 1], false, "password"));
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

    #[test]
    fn memory_and_log_have_bounds_that_make_sense() {
        let check = |text: &str| Settings::parse(text).unwrap().check();
        for good in [
            "",
            "memory = \"2 GiB\"",
            "memtables-bytes = \"100 GiB\"",
            "memory = \"64 MiB\"\nmemtables-bytes = \"8 MiB\"\nwal-bytes-max = \"1 GiB\"",
        ] {
            check(good).unwrap();
        }
        for (bad, named) in [
            ("memory = \"1 MiB\"", "memory is less than"),
            ("memtables-bytes = \"0\"", "memtables-bytes is less than"),
            ("wal-bytes-max = \"1 KiB\"", "wal-bytes-max is less than"),
            (
                "memory = \"64 MiB\"\nmemtables-bytes = \"43 MiB\"",
                "more than the 42.0 MiB of memory",
            ),
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        // The former name of the setting.
        let settings = Settings::parse("memory-bytes = \"2 GiB\"").unwrap();
        assert_eq!(settings.memory, Some(ByteSize::gib(2)));
        assert!(Settings::parse("memory-bytes = \"1\"\nmemory = \"1\"").is_err());
        assert_eq!(settings.memory_limits(Some(1 << 40)).all_bytes, 2 << 30);
        let settings = Settings::default();
        assert_eq!(settings.memory, None);
        assert_eq!(settings.memory_limits(Some(1 << 40)).all_bytes, 1 << 38);
        let options = ebb_storage::Options::default();
        let log_bytes = Settings::default().wal_bytes_max.as_u64();
        assert_eq!(log_bytes, options.wal_bytes_max);
    }

    #[test]
    fn the_address_for_drivers_must_be_a_real_one() {
        let everywhere = Settings {
            cql: ([0, 0, 0, 0], 9042).into(),
            insecure: true,
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

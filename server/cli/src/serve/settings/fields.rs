//! The fields of the settings, which are their flags, variables and names in a file.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use bytesize::ByteSize;
use clap::builder::{BoolishValueParser, Resettable};
use clap::{ArgAction, Args as _, Command, FromArgMatches as _};
use ebb_colocate::FLOOR_CORES;
use ebb_cql_server::guardrails::Guardrails;
use ebb_cql_server::serve::AuditedTables;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amounts;
use super::authentication::Authentication;
use super::durability::{Durability, OnFailedWrite};
use super::forecast::ForecastSource;
use super::slo::Slo;
use crate::error::CliError;
use crate::serve::log::LogFormat;
use crate::serve::log_levels::LogLevels;

/// The name of the setting `memory` in earlier builds. Files and flags with this name are still read.
pub(super) const FORMER_MEMORY: &str = "memory-bytes";
/// The environment variable of the setting `memory` in earlier builds. It is read if `EBB_MEMORY` is not set.
pub(super) const FORMER_MEMORY_VARIABLE: &str = "EBB_MEMORY_BYTES";

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
    /// for supervisors and load balancers. They are answered already while the server opens its
    /// database, and /health/ready fails until then [default: none].
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
    #[arg(value_parser = BoolishValueParser::new())]
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
    /// opened again: reopen (the server stops, and its process starts it again, at most three times
    /// in an hour, and then exits; a port 0 becomes another port; it exits at once if --config is a
    /// pipe), exit (the server stops with exit code 1, for its supervisor to start it again), or
    /// read-only (the server answers reads until it is stopped). Each start recovers what was
    /// acknowledged as durable.
    #[arg(long, value_name = "WHAT", env = "EBB_ON_FAILED_WRITE")]
    #[arg(default_value = "reopen", hide_possible_values = true)]
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
    #[serde(default, alias = "memory-bytes")]
    #[serde(serialize_with = "amounts::write_size_if_any")]
    #[serde(deserialize_with = "amounts::read_size_if_any")]
    pub(crate) memory: Option<ByteSize>,
    /// Bound on the memory of all memtables. Once they use half of it, the largest are flushed; at
    /// the bound, writers wait [default: a quarter of the memory that --memory leaves to the store].
    #[arg(value_parser = amounts::size)]
    #[arg(long, value_name = "BYTES", env = "EBB_MEMTABLES_BYTES")]
    #[serde(default, serialize_with = "amounts::write_size_if_any")]
    #[serde(deserialize_with = "amounts::read_size_if_any")]
    pub(crate) memtables_bytes: Option<ByteSize>,
    /// Bound on the length of the write-ahead log. Once the log has three quarters of it, memtables
    /// are flushed; at the bound, writers wait. A restart replays this much at most.
    #[arg(value_parser = amounts::size)]
    #[arg(long, value_name = "BYTES", env = "EBB_WAL_BYTES_MAX")]
    #[arg(default_value = "512 MiB")]
    #[serde(serialize_with = "amounts::write_size")]
    #[serde(deserialize_with = "amounts::read_size")]
    pub(crate) wal_bytes_max: ByteSize,
    /// Latency objective for point requests: when their latency comes near it, jobs get less CPU time.
    /// p99=2ms is an absolute bound, p99=1.1x a multiple of the latency without jobs; p50 and p99.9 can
    /// be bounded, too. With none, jobs get all the CPU time that the requests of clients leave.
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
    /// Forecast by which jobs are planned: learn (the server records the CPU use of the load, in the file
    /// load.csv of the directory --data, and from the third day on forecasts the next 24 hours from it,
    /// unless the mean of the last ten minutes was the better forecast lately), or off (the mean alone).
    #[arg(long, value_name = "HOW", env = "EBB_FORECAST")]
    #[arg(default_value = "learn", hide_possible_values = true)]
    pub(crate) forecast: ForecastSource,
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
    #[serde(serialize_with = "amounts::write_size")]
    #[serde(deserialize_with = "amounts::read_size")]
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
    /// these as keyspaces, and get an event when one is listed or no longer listed. A statement can
    /// name any snapshot.
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
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) tls_client_optional: bool,
    /// Accept clients without TLS, too, on the same port.
    #[arg(long, value_name = "YES", env = "EBB_TLS_OPTIONAL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, hide_default_value = true)]
    pub(crate) tls_optional: bool,
    /// Time that a client may take for the TLS handshake and for STARTUP.
    #[arg(value_parser = amounts::time)]
    #[arg(long, value_name = "TIME", env = "EBB_STARTUP_TIMEOUT")]
    #[arg(default_value = "10s")]
    #[serde(serialize_with = "shown", deserialize_with = "amounts::read_time")]
    pub(crate) startup_timeout: humantime::Duration,
    /// Authentication of clients: password (they log in as a role, and each token for HTTP belongs to
    /// a role; also if the flag has no value), or none (every client may do everything).
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
    /// Wrong passwords that an address may send in a row before its logins are rejected; it may send as
    /// many again over each minute. 0 turns this off.
    #[arg(long, value_name = "N", env = "EBB_LOGIN_FAILURES_MAX")]
    #[arg(default_value = "60")]
    pub(crate) login_failures_max: u32,
    /// Listen on an address that other machines reach even without authentication (every client can
    /// then read and write everything), and for HTTP even without TLS (others on the network can
    /// then read the tokens).
    #[arg(long, value_name = "YES", env = "EBB_INSECURE")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(value_parser = BoolishValueParser::new())]
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
    /// ebb_cql_stage_duration_seconds: queued, executed, sent.
    #[arg(long, value_name = "YES", env = "EBB_STAGE_LATENCIES")]
    #[arg(num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    #[arg(value_parser = BoolishValueParser::new())]
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

impl Default for Settings {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("ebb"));
        let alone = command.mut_args(|arg| arg.env(Resettable::Reset));
        Self::from_arg_matches(&alone.get_matches_from(["ebb"])).expect("defaults can be read")
    }
}

impl Settings {
    /// Returns the settings as TOML, without those that have no value.
    ///
    /// # Errors
    /// When a path is not UTF-8: neither a file of settings nor a response over HTTP can contain it.
    pub(super) fn table(&self) -> Result<toml::Table, CliError> {
        toml::Table::try_from(self).map_err(|error| {
            CliError::Usage(format!("the settings cannot be written as TOML: {error}"))
        })
    }
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

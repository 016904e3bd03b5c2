//! The command line of `ebb-bench ycsb`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ebb_storage::{Durability, MAX_VALUE_BYTES};
use serde::Serialize;

use crate::console::{rate, seconds};
use crate::ycsb::cql::SnapshotForm;
use crate::ycsb::{Distribution, ReadFrom, VALUE_BYTES_DEFAULT, VALUE_BYTES_MIN, Workload};

/// The options of `ycsb`: the workload, and the store or server that it runs against.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct YcsbArgs {
    /// The mix of operations: a to f as in YCSB, thesis-a to thesis-e
    #[arg(long, short, value_name = "NAME")]
    pub workload: Workload,

    /// Records to load; a table with more records is used as it is
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,

    /// Ends the run after N operations [default: 100000 without --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,

    /// Ends the run after S seconds
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,

    /// Threads that load and run [default: 2; with --cql 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,

    /// Starts OPS operations a second, whether the store keeps up or not, and measures latencies
    /// from the time at which each was due [default: a closed loop]
    #[arg(long, visible_alias = "rate", value_name = "OPS", value_parser = rate,
          allow_negative_numbers = true)]
    pub target: Option<f64>,

    /// Source of reads: live or snapshot:NAME; a snapshot that does not exist is taken after the
    /// load
    #[arg(long, value_name = "SOURCE", default_value_t)]
    pub read_from: ReadFrom,

    /// Directory of the database, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR", conflicts_with = "cql")]
    pub data: Option<PathBuf>,

    /// Length of each value in bytes
    #[arg(long, value_name = "N", default_value_t = VALUE_BYTES_DEFAULT as u64,
          value_parser = clap::value_parser!(u64)
              .range(VALUE_BYTES_MIN as u64..=MAX_VALUE_BYTES as u64))]
    pub value_bytes: u64,

    /// Distribution of records, in place of the workload's own: zipfian, uniform or latest
    #[arg(long, value_name = "NAME")]
    pub distribution: Option<Distribution>,

    /// When a write is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Interval, conflicts_with = "cql")]
    pub durability: DurabilityArg,

    /// Size of the block cache in MiB
    #[arg(long, value_name = "N", default_value_t = 256, conflicts_with = "cql",
          value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    pub cache_mb: u64,

    /// Size at which a memtable is flushed, in MiB
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with = "cql",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub memtable_mb: u64,

    /// Takes N snapshots at even intervals during the run, and shows how long each took and the
    /// latencies of writes in the 10 ms around it
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "cql",
          value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub snapshots: u64,

    /// Seed of the random choice of operations in each thread
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,

    #[command(flatten)]
    pub through: CqlArgs,
}

/// The options of a run against a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Through CQL")]
pub struct CqlArgs {
    /// Runs against the server at this address, such as `ebb serve`; keyspace and table are created
    /// if they do not exist
    #[arg(long, value_name = "HOST:PORT")]
    pub cql: Option<String>,

    /// The client: the built-in one, or an application's driver (scylla, in a build with
    /// `--features scylla`)
    #[arg(long, value_enum, default_value_t = ClientArg::Raw, requires = "cql")]
    pub client: ClientArg,

    /// Connections to the server
    #[arg(long, value_name = "N", default_value_t = 64, requires = "cql",
          value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub connections: u64,

    /// Requests that each connection has under way
    #[arg(long, value_name = "N", default_value_t = 1, requires = "cql",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub in_flight: u64,

    /// Interval at which an open loop sends due operations and reads responses, and sleeps in
    /// between, in microseconds: saves CPU, and makes latencies longer by up to twice the interval
    #[arg(long, value_name = "N", default_value_t = 0, requires = "cql",
          value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub tick_us: u64,

    /// The way in which reads name the snapshot of --read-from
    #[arg(long, value_enum, default_value_t = SnapshotForm::Statement, requires = "cql")]
    pub snapshot_form: SnapshotForm,

    /// Runs the client in the kernel's idle class, on the CPU that the server leaves (if both are
    /// in one session)
    #[arg(long, requires = "cql")]
    pub idle_class: bool,

    /// The server's process, whose CPU time is measured [default: the process that listens at the
    /// address, if it is on this machine]
    #[arg(long, value_name = "PID", requires = "cql")]
    pub server_pid: Option<u32>,
}

/// The client of a run against a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientArg {
    /// The built-in client, which encodes its requests in advance and so uses little CPU
    Raw,
    /// ScyllaDB's driver for Rust
    #[cfg(feature = "scylla")]
    Scylla,
}

impl YcsbArgs {
    /// Returns the number of threads that load and run.
    pub fn threads(&self) -> usize {
        let default = if self.through.cql.is_some() { 1 } else { 2 };
        self.threads.unwrap_or(default) as usize
    }

    /// Returns the number of operations that ends the run; `None` if only the time does.
    pub fn operations_max(&self) -> Option<u64> {
        const DEFAULT: u64 = 100_000;
        self.ops.or(self.duration.is_none().then_some(DEFAULT))
    }
}

/// The point at which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilityArg {
    /// Acknowledged after an fsync, which concurrent writes share
    Sync,
    /// Acknowledged after the write to the operating system, with an fsync every 100 ms
    Interval,
    /// Acknowledged after the write to the operating system, without fsyncs
    Os,
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Self {
        match arg {
            DurabilityArg::Sync => Self::Sync,
            DurabilityArg::Interval => Self::Interval(Duration::from_millis(100)),
            DurabilityArg::Os => Self::Os,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench ycsb --workload a
  ebb-bench ycsb --workload b --records 1000000 --duration 60 --target 20000
  ebb-bench ycsb --workload c --read-from snapshot:monday --data /var/tmp/ycsb
  ebb-bench ycsb --workload a --duration 20 --target 20000 --snapshots 50 --json-file a.json
  ebb-bench ycsb --workload c --cql 127.0.0.1:9042
  ebb-bench ycsb --workload b --cql 127.0.0.1:9042 --target 20000 --read-from snapshot:monday";

fn long_help() -> String {
    format!("{EXAMPLES}\n\nWorkloads:\n{}", Workload::listing())
}

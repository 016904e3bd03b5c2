//! The command line of `ebb-bench experiments serving`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::console::seconds;
use crate::ycsb::{Distribution, VALUE_BYTES_DEFAULT, VALUE_BYTES_MIN};

/// The options of the experiment.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServingArgs {
    /// The server's binary [default: the `ebb` beside this program]
    #[arg(long, value_name = "FILE")]
    pub ebb: Option<PathBuf>,

    /// Only these parts, in this order
    #[arg(long = "part", value_name = "NAME", value_enum, value_delimiter = ',')]
    pub parts: Vec<Part>,

    /// Rounds, in each of which all compared variants take turns
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Rounds of windows in the parts `beside`, `hostile`, `watched`, `endless`, `neighbours`,
    /// `backup`, `publications`, `descriptors` and `schema`: a round has a window of each condition
    /// (in `schema`, of each server) that the part compares
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub windows: u32,

    /// Length of a run and of a window
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    pub window: Duration,

    /// Records in the table
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(1000..))]
    pub records: u64,

    /// Length of each value in bytes
    #[arg(long, value_name = "N", default_value_t = VALUE_BYTES_DEFAULT as u64,
          value_parser = clap::value_parser!(u64).range(VALUE_BYTES_MIN as u64..=1 << 20))]
    pub value_bytes: u64,

    /// Connections of the client
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections: u64,

    /// Rate of the load in operations per second, in the parts `beside`, `watched`, `hostile`,
    /// `endless`, `neighbours`, `backup`, `publications` and `descriptors` [default: half of what a
    /// closed loop reaches]
    #[arg(long, value_name = "OPS", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,

    /// Distribution of the records that operations choose; some parts, such as `throughput`, have
    /// their own
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    pub distribution: Distribution,

    /// For the part `hostile`: windows with each kind of attack alone, too
    #[arg(long)]
    pub each_attack: bool,

    /// For the part `hostile`: seed of the attacks [default: random]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,

    /// For the part `backup`: gigabytes of keys and values in the database
    #[arg(long, value_name = "GB", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub backup_gb: u64,

    /// For the part `backup`: folder for the copies, on another file system than the database
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub target: PathBuf,

    /// For the part `descriptors`: SSTables in the table
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub sstables: u64,

    /// For the part `schema`: tables that each server creates, and then drops, in each round
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub tables: u64,

    /// For the part `schema`: the binary of another version, such as an older one, to compare with
    #[arg(long, value_name = "FILE")]
    pub peer: Option<PathBuf>,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A part of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Reads and writes of one record compared with Redis, and the CPU of each compared with the
    /// store in process
    Throughput,
    /// The tail latency at half of the peak rate: alone, beside three jobs, and beside a client that
    /// fetches the table page by page
    Beside,
    /// The memory of idle connections
    Connections,
    /// The time from the start to the first answer
    Startup,
    /// Writes of one row: plain, with IF, of a counter
    #[value(name = "hot-row")]
    HotRow,
    /// The server's CPU for writes with an index, and for rows that are found by the index
    Indexed,
    /// The tail latency of served requests at three times the peak rate, compared with that at half of
    /// the peak rate
    Overload,
    /// The server's CPU with TLS and roles, compared with that without
    Secured,
    /// The tail latency of reads at half of the peak rate while 200 event streams are open, and clients
    /// fetch a list of 1,000 jobs and the metrics each second
    Watched,
    /// The tail latency at half of the peak rate beside hostile and half-broken clients, and the memory
    /// that these make the server use
    Hostile,
    /// The tail latency of reads at half of the peak rate beside twenty endless statements of two
    /// users, compared with that beside threads that only use idle CPU; also the number of scans
    /// that a third user completes
    Endless,
    /// Jobs and a client's scan beside two programs that keep cores busy, in the session of the server
    /// and in sessions of their own: the durations of the jobs and of the scan compared with those
    /// without the programs, and the tail latency of reads with the jobs compared with that without
    /// them
    Neighbours,
    /// The server's CPU time and instructions for a request, with its text log compared with a server
    /// that logs nothing
    Logs,
    /// The tail latency of reads at half of the peak rate beside backups, and the rate of backups
    /// compared with `cp`
    Backup,
    /// The tail latency of reads at half of the peak rate beside publications of the table
    Publications,
    /// The bytes that snapshots pin as the server reports them, compared with the bytes that are
    /// freed
    Pinned,
    /// With a limit of 1,024 open files and more SSTables than that: the tail latency of cached
    /// reads, then a scan, a backup and merges
    Descriptors,
    /// CREATE SNAPSHOT and DROP SNAPSHOT of 500 tables beside ten idle drivers, from the first snapshot
    /// to the thousandth, and the server's CPU at rest
    Snapshots,
    /// The latencies of CREATE TABLE and DROP TABLE, and with `--peer` their medians compared with
    /// those of another version
    Schema,
}

impl ServingArgs {
    pub fn parts(&self) -> Vec<Part> {
        if self.parts.is_empty() {
            Part::value_variants().to_vec()
        } else {
            self.parts.clone()
        }
    }
}

/// A server with jobs, as a process of its own.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// Directory of the database
    pub data: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments serving
  ebb-bench experiments serving --part throughput --rounds 9 --json-file serving.json
  ebb-bench experiments serving --part snapshots
  ebb-bench experiments serving --part schema --peer ../older/ebb

It starts `ebb serve` itself, from the file beside this program, so build both:
cargo build --release -p ebb-cli -p ebb-bench. Part throughput compares with Redis where
`redis-server` and `redis-benchmark` are installed (Debian's package redis-server). Data
lies in a temporary directory (TMPDIR) and goes with the run. Run nothing else meanwhile.";

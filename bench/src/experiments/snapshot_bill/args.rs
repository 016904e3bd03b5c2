//! The command line of `ebb-bench experiments snapshot-bill`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::console::seconds;
use crate::ycsb::KEY_BYTES;

/// Length of a value, in bytes: an entry has 116, key included.
pub const VALUE_BYTES: usize = 116 - KEY_BYTES;

/// The options of the experiment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BillArgs {
    #[command(flatten)]
    pub scale: Scale,

    /// Pairs of runs, with and without a snapshot; the results are medians over the pairs
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of one process of the experiment.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// The case to run
    #[arg(value_enum)]
    pub case: Case,

    /// Directory of the database: missing or empty
    pub dir: PathBuf,

    #[command(flatten)]
    pub scale: Scale,
}

/// The work of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Overwrites entries while a snapshot exists, and deletes the snapshot
    With,
    /// Overwrites entries without a snapshot
    Without,
    /// Loads each entry once, with the value that the overwrites of the other cases leave, and
    /// waits for background work
    Fresh,
}

/// The size of an experiment, the same in each of its processes.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Scale {
    /// Entries of 116 bytes, key included
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: u64,

    /// Overwrites of random entries
    #[arg(long, value_name = "N", default_value_t = 8_000_000)]
    pub overwrites: u64,

    /// Size at which a memtable is flushed, in MiB
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub memtable_mb: u64,

    /// Seconds between the last write and the measurement
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    #[serde(rename = "wait_s", serialize_with = "as_seconds")]
    pub wait: Duration,

    /// Seconds between the snapshot's end and the last measurement
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    #[serde(rename = "idle_s", serialize_with = "as_seconds")]
    pub idle: Duration,

    /// Seed of the choice of overwritten entries
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

impl Scale {
    /// Returns the arguments that give another process the same sizes.
    pub fn to_args(&self) -> Vec<OsString> {
        let flags = [
            ("entries", self.entries.to_string()),
            ("overwrites", self.overwrites.to_string()),
            ("memtable-mb", self.memtable_mb.to_string()),
            ("wait", self.wait.as_secs_f64().to_string()),
            ("idle", self.idle.as_secs_f64().to_string()),
            ("seed", self.seed.to_string()),
        ];
        let argument = |(name, value)| format!("--{name}={value}").into();
        flags.map(argument).into()
    }
}

fn as_seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments snapshot-bill
  ebb-bench experiments snapshot-bill --json-file bill.json
  ebb-bench experiments snapshot-bill --entries 100000 --overwrites 800000 --rounds 1

Databases lie in a temporary directory (TMPDIR) and go with the run. A database
has at most a few times its entries on disk; the whole takes some minutes.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        scale: Scale,
    }

    #[test]
    fn another_process_gets_the_same_scale() {
        let words = "x --entries 7 --overwrites 8 --memtable-mb 9 --wait 0.25 --idle 11 --seed 12";
        let given = Cli::parse_from(words.split(' ')).scale;
        let received = [OsString::from("x")].into_iter().chain(given.to_args());
        let received = Cli::parse_from(received).scale;
        let json = |scale: &Scale| serde_json::to_value(scale).unwrap();
        assert_eq!(json(&received), json(&given));
        assert_eq!(json(&received)["wait_s"], 0.25);
    }
}

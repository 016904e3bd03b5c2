//! The command line of `ebb-peers run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::engine::EngineName;
use crate::plan::{Scale, WorkloadName};

/// The options of `run`: scale, engines, workloads, and the files to write.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// A quarter of the records, cache and memtable: ten minutes
    #[arg(long, conflicts_with = "tiny")]
    pub quick: bool,

    /// A few thousand records, to see that everything works; measures nothing
    #[arg(long)]
    pub tiny: bool,

    /// Only these engines; ebb runs twice, because the difference between its runs is noise
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    pub engines: Vec<EngineName>,

    /// Only these workloads
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    pub workloads: Vec<WorkloadName>,

    /// How many times everything is repeated; at least 3 for meaningful spreads
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Number of records, in place of the scale's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub records: Option<u64>,

    /// Operations of each YCSB workload, in place of the scale's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub ops: Option<u64>,

    /// Milliseconds added to every fsync in workload sync-slow
    #[arg(long, value_name = "MS", default_value_t = 2,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub fsync_delay_ms: u64,

    /// Seed of the random choice of operations and records
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Folder for temporary data directories, each removed after its turn
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub data: PathBuf,

    /// Writes everything measured to FILE, after each round
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Writes the summary as tables of Markdown to FILE
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Draws operations per CPU second of the YCSB workloads to FILE
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the scale that the flags select, with `--records` and `--ops` applied.
    pub fn scale(&self) -> Scale {
        let scale = match (self.quick, self.tiny) {
            (true, _) => Scale::QUICK,
            (_, true) => Scale::TINY,
            _ => Scale::FULL,
        };
        Scale {
            records: self.records.unwrap_or(scale.records),
            operations: self.ops.unwrap_or(scale.operations),
            ..scale
        }
    }

    /// The workloads, all of them unless some are named.
    pub fn workloads(&self) -> Vec<WorkloadName> {
        all_unless_named(&self.workloads)
    }

    /// The engines, all of them unless some are named; in the order of the tables' columns.
    pub fn engines(&self) -> Vec<EngineName> {
        all_unless_named(&self.engines)
    }

    /// The delay that is added to each fsync of a sync-slow child.
    pub fn fsync_delay(&self) -> Duration {
        Duration::from_millis(self.fsync_delay_ms)
    }
}

fn all_unless_named<T: ValueEnum + Ord>(named: &[T]) -> Vec<T> {
    let mut chosen = match named {
        [] => T::value_variants().to_vec(),
        named => named.to_vec(),
    };
    chosen.sort();
    chosen.dedup();
    chosen
}

const EXAMPLES: &str = "\
Examples:
  ebb-peers run --quick
  ebb-peers run --json-file peers.json --markdown peers.md --svg peers.svg
  ebb-peers run --quick --engines ebb,rocksdb --workloads load,a,c --rounds 5
  ebb-peers run --workloads held,read,bill --data /mnt/nvme";

//! The command line of `ebb-bench experiments thesis-5.2.4`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::plan::Part;
use crate::console::seconds;
use crate::ycsb::{KEY_BYTES, VALUE_BYTES_DEFAULT};

/// The options of the experiment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ThesisArgs {
    #[command(flatten)]
    pub sizes: Sizes,

    /// Only this part of the section; may be given repeatedly [default: all]
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Vec<Part>,

    /// A tenth of the time, by smaller defaults; less precise
    #[arg(long)]
    pub quick: bool,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Writes the tables to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Draws the figures into DIR, as SVG; DIR is created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

/// The options of one process of the experiment.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// The case to run, as JSON
    pub case: String,
}

/// The options for the scale of the experiment, such as the number of records; each has a default.
#[derive(Debug, Clone, Args)]
pub struct Sizes {
    /// Records of 1 KiB that each execution begins with [default: 400000;
    /// quick: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,

    /// Operations of an execution at full speed [default: 100000; quick: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,

    /// Duration in seconds of an execution that keeps up with its target rate [default: 1.5; quick:
    /// 0.5]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Number of rounds, each of which runs every execution once; the ratios and the throughput are
    /// medians over the rounds [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Executions of workload A, one after the other, in the part snapshots [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    iterations: Option<u32>,

    /// Threads that run operations [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Size at which a memtable is flushed, in KiB; figure 5.10 also divides it by up to 8, to
    /// create SSTables more often [default: 8192; quick: 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(64..=1 << 30))]
    memtable_kb: Option<u64>,

    /// Percentage of the data that memory can hold: the size of the block cache; the page cache is
    /// kept empty [default: 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    memory_percent: Option<u64>,

    /// Seed of the random choice of operations [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// The size of an experiment, the same in each of its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The number of records that each execution begins with.
    pub records: u64,
    pub value_bytes: u64,
    /// The number of operations of an execution at full speed.
    pub operations: u64,
    /// Length of an execution that keeps up with its target rate of operations, in seconds.
    pub target_s: f64,
    /// The number of rounds. Each round runs every execution once.
    pub rounds: u32,
    /// The number of executions of workload A, one after the other, in the part `snapshots`.
    pub iterations: u32,
    pub threads: u32,
    /// Size at which a memtable is flushed, in KiB.
    pub memtable_kb: u64,
    /// The fraction of the data that memory holds, in percent.
    pub memory_percent: u64,
    pub seed: u64,
}

impl ThesisArgs {
    pub fn parts(&self) -> Vec<Part> {
        let is_chosen = |part: &Part| self.only.is_empty() || self.only.contains(part);
        Part::ALL.into_iter().filter(is_chosen).collect()
    }

    /// Returns the sizes from the command line. A size that is not given has its default, which may
    /// be smaller with `--quick`.
    pub fn scale(&self) -> Scale {
        let default = |full, quick| if self.quick { quick } else { full };
        let sizes = &self.sizes;
        let target_s = sizes.seconds.map(|seconds| seconds.as_secs_f64());
        Scale {
            records: sizes.records.unwrap_or(default(400_000, 100_000)),
            value_bytes: VALUE_BYTES_DEFAULT as u64,
            operations: sizes.ops.unwrap_or(default(100_000, 50_000)),
            target_s: target_s.unwrap_or(if self.quick { 0.5 } else { 1.5 }),
            rounds: sizes.rounds.unwrap_or(if self.quick { 1 } else { 3 }),
            iterations: sizes.iterations.unwrap_or(10),
            threads: sizes.threads.unwrap_or(4),
            memtable_kb: sizes.memtable_kb.unwrap_or(default(8192, 2048)),
            memory_percent: sizes.memory_percent.unwrap_or(40),
            seed: sizes.seed.unwrap_or(0),
        }
    }
}

impl Scale {
    /// Returns the bytes of keys and values that each execution starts with, uncompressed.
    pub fn data_bytes(&self) -> u64 {
        self.records * (KEY_BYTES as u64 + self.value_bytes)
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments thesis-5.2.4
  ebb-bench experiments thesis-5.2.4 --quick
  ebb-bench experiments thesis-5.2.4 --only snapshots --rounds 5
  ebb-bench experiments thesis-5.2.4 --json-file t.json --markdown t.md --figures figures
  ebb-bench experiments thesis-5.2.4 --records 2000000 --ops 1000000 --rounds 5

The whole takes about 20 minutes on two cores, --quick about 2. Databases lie in
a temporary directory (TMPDIR) and go with the run; they take up to a few times
the data.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ThesisArgs,
    }

    #[test]
    fn parts_are_all_or_those_that_are_named() {
        let parts = |words: &str| Cli::parse_from(words.split(' ')).args.parts();
        assert_eq!(parts("x"), Part::ALL);
        let two = parts("x --only snapshots --only throughput");
        assert_eq!(two, [Part::Throughput, Part::Snapshots]);
    }

    fn scale(words: &str) -> Scale {
        Cli::parse_from(words.split(' ')).args.scale()
    }

    #[test]
    fn options_override_defaults_and_quick_changes_the_others() {
        let full = scale("x --records 7");
        assert_eq!((full.records, full.rounds, full.target_s), (7, 3, 1.5));
        let quick = scale("x --quick --seconds 0.25 --memtable-kb 64");
        assert_eq!((quick.rounds, quick.target_s), (1, 0.25));
        assert_eq!((quick.records, quick.memtable_kb), (100_000, 64));
        assert_eq!(quick.iterations, full.iterations, "the thesis's ten");
    }

    #[test]
    fn another_process_gets_the_same_scale() {
        let given = scale("x --quick --seed 12");
        let text = serde_json::to_string(&given).unwrap();
        assert_eq!(serde_json::from_str::<Scale>(&text).unwrap(), given);
        assert_eq!(given.data_bytes(), 100_000 * 1048);
    }
}

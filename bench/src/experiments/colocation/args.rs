//! The command line of `ebb-bench experiments colocation`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::console::seconds;
use crate::ycsb::Workload;

/// The options of the experiment: parts, lengths, loads, and the files to write.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ColocationArgs {
    /// Shorter windows and fewer rounds: less than a quarter of an hour in all
    #[arg(long)]
    pub quick: bool,

    /// Only these parts, in this order
    #[arg(long = "part", value_name = "NAME", value_enum, value_delimiter = ',')]
    pub parts: Vec<Part>,

    /// Rounds of each trial, in place of each part's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// Length of each window, and of each compressed day, instead of the length that each part has
    /// by default
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub window: Option<Duration>,

    /// Steady loads in hundredths of the machine: the part `loads` runs only these, and the parts
    /// `reserves`, `curve` and `yields` run the first one
    #[arg(long = "load", value_name = "PERCENT", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub loads: Vec<u32>,

    /// Number of operations of a steady load that are due together: the part `loads` runs with each
    /// value in turn, and the parts `reserves`, `curve` and `yields` with the first one
    #[arg(long = "batch", value_name = "N", value_delimiter = ',', default_value = "50",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub batches: Vec<u32>,

    /// The load's YCSB workload
    #[arg(long, value_name = "NAME", default_value = "b")]
    pub workload: Workload,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Writes the pictures into this folder
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

/// A part of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Steady loads of 30, 50 and 70% of the machine
    Loads,
    /// Days compressed to seconds, with the thesis's three levels of burstiness of the load
    Days,
    /// A step of the load from 10 to 60%
    Step,
    /// Several sizes of the CPU reserve that jobs never get, beside the first load of --load (by
    /// default 50%)
    Reserves,
    /// Every policy of the library beside a load of 50%
    Policies,
    /// The latency guard, which limits jobs, with some of its mechanisms switched off, beside a
    /// load of 50%
    Guard,
    /// Tasks on threads and in processes, beside loads of 50 and 70%
    Isolate,
    /// A block cache that is too small for the data: its hit rate with jobs that scan a snapshot,
    /// compared with that of the load alone
    Cache,
    /// Compressed days with jobs whose goals are tight, under several policies
    Goals,
    /// Compressed days with jobs whose goals are tight, planned with a perfect (oracle), a known
    /// and a learned forecast of the capacity
    Forecast,
    /// The growth of the load's tail latency with the capacity of jobs, as the latency guard
    /// measures it, beside the first load of --load (by default 50%)
    Curve,
    /// Tasks that regularly yield their core to the load: the cost for jobs and the benefit for the
    /// load, beside the first load of --load (by default 50%)
    Yields,
}

impl ColocationArgs {
    pub fn parts(&self) -> Vec<Part> {
        if self.parts.is_empty() {
            Part::value_variants().to_vec()
        } else {
            self.parts.clone()
        }
    }

    /// Returns the length of a window and the number of rounds. `full` and `quick` are a part's
    /// defaults, without and with `--quick`: the seconds of a window, and the number of rounds.
    pub fn extent(&self, full: (u64, u32), quick: (u64, u32)) -> Extent {
        let (window_s, rounds) = if self.quick { quick } else { full };
        let rounds = self.rounds.unwrap_or(rounds);
        Extent {
            window: self.window.unwrap_or(Duration::from_secs(window_s)),
            rounds,
            rounds_max: rounds,
        }
    }

    /// Returns the length of a window and the number of rounds, for a part that adds rounds until
    /// the confidence intervals of its results are narrow, up to `rounds_max`. With `--rounds` or
    /// `--quick` the number of rounds is fixed. `full` and `quick` are defaults without and with
    /// `--quick`: the seconds of a window, and the number of rounds.
    pub fn extent_up_to(&self, rounds_max: u32, full: (u64, u32), quick: (u64, u32)) -> Extent {
        let extent = self.extent(full, quick);
        Extent {
            rounds_max: match self.rounds {
                Some(rounds) => rounds,
                None if self.quick => extent.rounds,
                None => rounds_max,
            },
            ..extent
        }
    }
}

/// The length of each window, and the number of rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    pub window: Duration,
    /// The number of rounds that run in any case; at least 1.
    pub rounds: u32,
    /// The most rounds that run if the confidence intervals are too wide after `rounds` rounds.
    pub rounds_max: u32,
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments colocation --quick
  ebb-bench experiments colocation --part loads,step --json-file colocation.json
  ebb-bench experiments colocation --part loads --load 50 --batch 1,10,50
  ebb-bench experiments colocation --part loads --workload a --rounds 5

A database in a temporary directory (TMPDIR) goes with the run. Run nothing else
meanwhile: windows that others spoil do not count. All parts at full length take hours.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ColocationArgs,
    }

    #[test]
    fn all_parts_run_by_default_and_options_override_defaults() {
        let parse = |words: &str| Cli::parse_from(words.split(' ')).args;
        let all = parse("x");
        assert_eq!(all.parts().len(), 12);
        let extent = |window_s, rounds| Extent {
            window: Duration::from_secs(window_s),
            rounds,
            rounds_max: rounds,
        };
        assert_eq!(all.extent((10, 8), (4, 3)), extent(10, 8));
        assert_eq!(parse("x --quick").extent((10, 8), (4, 3)), extent(4, 3));
        let some = parse("x --part step,loads --rounds 2 --window 7");
        assert_eq!(some.parts(), [Part::Step, Part::Loads]);
        assert_eq!(some.extent((10, 8), (4, 3)), extent(7, 2));
        let planned = |words| parse(words).extent_up_to(60, (2, 10), (2, 4));
        assert_eq!(planned("x").rounds_max, 60);
        assert_eq!(planned("x --quick"), extent(2, 4));
        assert_eq!(planned("x --rounds 9"), extent(2, 9));
        let points = parse("x --load 30,70 --batch 1,10");
        assert_eq!((points.loads, points.batches), (vec![30, 70], vec![1, 10]));
    }
}

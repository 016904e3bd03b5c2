//! Repeats the results of papers on data locality: the load that each policy can serve, and its
//! delays.
//!
//! ```text
//!   throughput     Wang, figures 3 and 4: where naive fair sharing and JSQ-MaxWeight end
//!   heavy_traffic  Wang, theorems 2 to 4: the backlog near the boundary
//!   levels         a survey: which policy is stable at three levels of locality
//! ```

mod heavy_traffic;
mod levels;
mod throughput;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ebb_scheduler::queueing::Run;
use indicatif::ProgressBar;

use super::part;
use crate::console::progress_bar;
use crate::queueing::QueueingRow;

/// The results of a part of the experiment: for each setting its name and its rows, one for each
/// policy and load.
type Part = part::Part<(String, Vec<QueueingRow>)>;

/// The options of the experiment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LocalityArgs {
    /// Parts to run
    #[arg(value_enum, default_values_t = [Which::Throughput, Which::HeavyTraffic, Which::Levels])]
    pub parts: Vec<Which>,

    /// Length of the measurements, in time slots: the part `throughput` measures N slots, after N/5
    /// for warming up; the other parts measure N/4 slots, and up to 4N at loads near the capacity
    #[arg(long, value_name = "N", default_value_t = 250_000,
          value_parser = clap::value_parser!(u64).range(1000..))]
    pub slots: u64,

    /// For the part `throughput`: only this policy, and no pictures
    #[arg(long, value_name = "NAME", value_parser = [throughput::FAIR, throughput::JSQ])]
    pub policy: Option<String>,

    /// For the part `throughput`: only loads of at least N tasks per slot
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub from: f64,

    /// Seed of all runs
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Writes pictures into DIR
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Figures 3 and 4 of Wang et al.: the load that two policies can serve on 1,000 nodes
    Throughput,
    /// Theorem 4 of Wang et al.: how the number of waiting tasks on ten nodes grows as the load
    /// approaches the greatest that they can serve
    HeavyTraffic,
    /// Eight nodes, without racks and in two racks: the loads at which policies are stable, and the
    /// delays of tasks
    Levels,
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments locality                              all of it
  ebb-bench experiments locality heavy-traffic --report out   one part, with its picture
  ebb-bench experiments locality throughput --slots 20000
  ebb-bench experiments locality throughput --policy naive-fair --from 310";

struct Setting {
    slots: u64,
    seed: u64,
    threads: usize,
}

impl Setting {
    /// Returns the parameters of a run over this many quarters of `--slots`.
    fn run(&self, quarters: u64) -> Run {
        Run::new(self.slots * quarters / 4, self.seed)
    }

    fn bar(runs: usize) -> ProgressBar {
        progress_bar("runs", runs as u64)
    }
}

pub fn run(args: &LocalityArgs) -> Result<()> {
    let setting = Setting {
        slots: args.slots,
        seed: args.seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut parts: Vec<Part> = Vec::new();
    for which in &args.parts {
        let part = match which {
            Which::Throughput => throughput::run(&setting, args.policy.as_deref(), args.from)?,
            Which::HeavyTraffic => heavy_traffic::run(&setting)?,
            Which::Levels => levels::run(&setting)?,
        };
        part.print();
        parts.push(part);
    }
    part::write(&parts, args.report.as_deref(), args.json.as_deref())
}

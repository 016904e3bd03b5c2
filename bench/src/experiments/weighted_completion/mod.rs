//! Weighted completion times of jobs known in advance, after Ling et al.
//!
//! ```text
//!   ratios    MarS and MARES with 20 jobs, over the last linear programme
//!   search    lp-search with 100 jobs, over the converged relaxation
//!   figures   the paper's figures 1, 5 to 12 and 14 to 17
//!   series    the numbers in the JSON file
//! ```

mod figures;
mod ratios;
mod search;
mod series;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ebb_scheduler::msjo::{Algorithm, FIGURES};
use indicatif::ProgressBar;

use super::part;
use crate::console::progress_bar;
use series::Series;

type Part = part::Part<Series>;

/// The options of the experiment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WeightedCompletionArgs {
    /// Parts to run
    #[arg(value_enum, default_values_t = [Which::Ratios, Which::Search])]
    pub parts: Vec<Which>,

    /// For the part `figures`: only these, by their numbers in the paper, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = figure_number)]
    pub figure: Vec<u32>,

    /// For the part `figures`: averages each point over the seeds 1 to N [default: as many as each
    /// figure has in ebb's book]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,

    /// Writes pictures into DIR
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A part of the experiment, to be chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The published algorithms MarS and MARES on 20 jobs, all parameters random, seeds 1 to 10
    Ratios,
    /// The search lp-search compared with the published algorithm MarS and with rules
    /// that order jobs by weight, 100 jobs, all parameters random, seeds 1 to 10
    Search,
    /// The paper's figures 1, 5 to 12 and 14 to 17, one after the other
    Figures,
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments weighted-completion
  ebb-bench experiments weighted-completion figures --figure 7,15 --seeds 1
  ebb-bench experiments weighted-completion figures --report out     as in the book";

fn figure_number(text: &str) -> Result<u32, String> {
    let known = FIGURES.map(|figure| figure.number);
    let number = text.parse().ok().filter(|number| known.contains(number));
    number.ok_or_else(|| format!("one of {known:?}"))
}

/// The seeds of the experiment's parts `ratios` and `search`.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

fn algorithms(names: &[&str]) -> Vec<Algorithm> {
    let named = |name: &&str| Algorithm::by_name(name).expect("a name of one");
    names.iter().map(named).collect()
}

fn bar(runs: usize) -> ProgressBar {
    progress_bar("runs", runs as u64)
}

pub fn run(args: &WeightedCompletionArgs) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts: Vec<Part> = Vec::new();
    let mut add = |part: Part| {
        part.print();
        parts.push(part);
    };
    for which in &args.parts {
        match which {
            Which::Ratios => add(ratios::run(threads)?),
            Which::Search => add(search::run(threads)?),
            Which::Figures => {
                for figure in figures::chosen(&args.figure) {
                    add(figures::run(figure, args.seeds, threads)?);
                }
            }
        }
    }
    part::write(&parts, args.report.as_deref(), args.json.as_deref())
}

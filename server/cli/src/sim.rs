//! `ebb sim`: simulations of jobs and loads.

mod advice;
mod experiments;
mod msjo;
mod plan;
mod print;
mod queueing;
mod run;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::RangedI64ValueParser;
use ebb_scheduler::policy::Policy;
use ebb_scheduler::queueing::policy_by_name;
use ebb_scheduler::sim::bounds::{KEPT_MAX, REPLICAS_MAX};
use ebb_scheduler::sim::scenario::Point;

use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  ebb sim run week.toml --policy fifo,reverse-adaptive
  ebb sim plan tonight.toml
  ebb sim experiments motivation
  ebb sim queueing --load 600,650 --slots 20000
  ebb sim capacity
  ebb sim msjo --jobs 50

`ebb sim experiments motivation --scenario` prints a scenario to start from.";

/// Simulate jobs and a transactional load: a week in a second.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Advice(advice::Args),
    Experiments(experiments::Args),
    Queueing(queueing::Args),
    Capacity(queueing::CapacityArgs),
    Msjo(msjo::Args),
}

pub(super) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Advice(args) => advice::run(args),
        Command::Experiments(args) => experiments::run(args),
        Command::Queueing(args) => queueing::run(args),
        Command::Capacity(args) => queueing::run_capacity(args),
        Command::Msjo(args) => msjo::run(args),
    }
}

/// Returns a parser of a number of replicas, from `least` to the greatest number that a scenario may
/// have.
fn replicas_range(least: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=i64::from(REPLICAS_MAX))
}

/// Checks that `count` randomly generated clusters and workloads, each with the parameters of `point`,
/// fit into memory together. `count` is the value of the command-line option `option`, which the error
/// names.
fn check_draws(path: &Path, option: &str, count: u32, point: &Point) -> Result<(), CliError> {
    let each = point.draw_size();
    let all = each.saturating_mul(count.into());
    if all <= KEPT_MAX {
        return Ok(());
    }
    let path = path.display();
    Err(CliError::Usage(format!(
        "{path}: {option} {count} is too much: each of them has {each} nodes and jobs, {all} \
         together, and {KEPT_MAX} fit into memory: ask for fewer"
    )))
}

fn policy_named(name: &str) -> Result<Arc<dyn Policy>, CliError> {
    policy_by_name(name)
        .ok_or_else(|| CliError::Usage(format!("there is no policy {name:?}: see `ebb policies`")))
}

//! `ebb sim`: what would happen, without waiting for it.

mod advice;
mod experiments;
mod msjo;
mod plan;
mod print;
mod queueing;
mod run;

use std::sync::Arc;

use anyhow::Result;
use clap::Subcommand;
use ebb_scheduler::policy::{self, Policy};

use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  ebb sim run week.toml --policy fifo,reverse-adaptive
  ebb sim plan tonight.toml
  ebb sim experiments motivation
  ebb sim queueing --load 600,650 --slots 20000
  ebb sim capacity
  ebb sim msjo --jobs 50";

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

/// The policy of this name.
fn policy_named(name: &str) -> Result<Arc<dyn Policy>, CliError> {
    policy::by_name(name)
        .ok_or_else(|| CliError::Usage(format!("there is no policy {name:?}: see `ebb policies`")))
}

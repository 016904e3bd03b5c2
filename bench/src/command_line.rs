//! The command line of `ebb-bench`: the YCSB driver and experiments for ebb.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ebb_jobs::launch::serve_tasks_if_worker;

use crate::experiments;
use crate::ycsb::command as ycsb;

/// Benchmarks of ebb.
#[derive(Debug, Parser)]
#[command(name = "ebb-bench", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Loads records and runs a YCSB workload, checking every value read
    Ycsb(ycsb::YcsbArgs),
    /// Answers one question about the store, with a few figures
    #[command(subcommand)]
    Experiments(experiments::Experiment),
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 it failed; 2 the command line is wrong; 3 it ran, and \
reads returned wrong values or none.";

/// The exit code of a run in which reads returned wrong values, or no values.
const EXIT_WRONG_READS: u8 = 3;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if let Some(ended) = serve_tasks_if_worker() {
        return ended;
    }
    let verdict = match Cli::parse().command {
        Command::Ycsb(args) => ycsb::run(&args),
        Command::Experiments(experiment) => {
            experiments::run(&experiment).map(|()| ycsb::Verdict::Right)
        }
    };
    match verdict {
        Ok(ycsb::Verdict::Right) => ExitCode::SUCCESS,
        Ok(ycsb::Verdict::WrongReads) => ExitCode::from(EXIT_WRONG_READS),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! YCSB driver and experiments for ebb.
//!
//! ```text
//!   ycsb                  YCSB's workloads, one run at a time
//!   experiments           one question each, with processes of their own
//!   console  resources    for both: bars and files; what a process uses
//! ```

#![forbid(unsafe_code)]

mod console;
mod experiments;
mod resources;
mod ycsb;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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

/// Reads returned wrong values, or none.
const EXIT_WRONG_READS: u8 = 3;

fn main() -> ExitCode {
    if let Some(ended) = ebb_server::cli::serve_tasks_if_asked() {
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

//! YCSB driver and experiments for ebb.
//!
//! ```text
//!   ycsb_args ─► ycsb ─► table      the command, the run, its print
//!                 │
//!      snapshots  resources     what is measured beside the load
//! ```

#![forbid(unsafe_code)]

mod outcome;
mod resources;
mod snapshots;
mod table;
mod ycsb;
mod ycsb_args;

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
    Ycsb(ycsb_args::YcsbArgs),
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 it failed; 2 the command line is wrong; 3 it ran, and \
reads returned wrong values or none.";

/// Reads returned wrong values, or none.
const EXIT_WRONG_READS: u8 = 3;

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let Command::Ycsb(args) = command;
    match ycsb::run(&args) {
        Ok(ycsb::Verdict::Right) => ExitCode::SUCCESS,
        Ok(ycsb::Verdict::WrongReads) => ExitCode::from(EXIT_WRONG_READS),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Compares ebb with other embedded stores: the same bytes and the same operations for all, each
//! engine in a process of its own, in alternating order.
//!
//! ```text
//!   args ─► plan ─► run ──► child ═══ process ═══ sequence ─► mix ─► engine
//!                    │                                │
//!                 summary ─► table, markdown, picture  phase ◄─ tally, usage
//! ```

#![deny(unsafe_code)]

mod args;
mod child;
mod engine;
mod markdown;
mod mix;
mod outcome;
mod phase;
mod picture;
mod plan;
mod progress;
mod run;
mod sequence;
mod shim;
mod statistics;
mod summary;
mod table;
mod tally;
mod usage;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ebb_bench::console::{stop_on_interrupt, write_json};

use args::RunArgs;
use outcome::Outcome;
use plan::Entrant;
use progress::TerminalProgress;
use run::{Measurement, TurnResults};
use shim::Shim;

/// ebb side by side with other embedded stores.
#[derive(Debug, Parser)]
#[command(name = "ebb-peers", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures, and prints medians, spreads and ratios
    Run(RunArgs),
    /// Runs the steps of one engine; started by `run` (hidden)
    #[command(name = child::COMMAND, hide = true)]
    Child {
        #[arg(long)]
        spec: String,
    },
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 it failed, or an engine did; 2 the command line is wrong; \
3 reads returned wrong values or none.";

const EXIT_WRONG_READS: u8 = 3;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => measure(&args),
        Command::Child { spec } => child::run(&spec).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn measure(args: &RunArgs) -> Result<ExitCode> {
    let scale = args.scale();
    let entrants = Entrant::all(&args.engines());
    let jobs = plan::jobs(&args.workloads(), &scale);
    std::fs::create_dir_all(&args.data)
        .with_context(|| format!("cannot make {}", args.data.display()))?;
    let of_shim = tempfile::tempdir()?;
    let needs_shim = jobs
        .iter()
        .any(|job| job.parts.iter().any(|part| part.delays_fsync));
    let shim = needs_shim.then(|| Shim::compile(of_shim.path(), args.fsync_delay()));
    let measurement = Measurement {
        jobs,
        entrants: entrants.clone(),
        rounds: args.rounds,
        memtable_bytes: scale.memtable_bytes,
        seed: args.seed,
        shim: shim.transpose()?,
        stop: stop_on_interrupt()?,
    };
    let mut progress = TerminalProgress::new(measurement.turns());
    let outcome = |measured: &TurnResults| Outcome::new(&scale, args, measured.clone(), &entrants);
    // After each round, so that a crash of the machine loses one round at most.
    let keep = |measured: &TurnResults| write_files(args, &outcome(measured), &entrants);
    let measured = measurement.run(&args.data, &mut progress, keep)?;
    progress.finish();

    let outcome = outcome(&measured);
    print!("{}", table::render(&outcome.summary, &entrants));
    outcome.warn();
    Ok(if outcome.wrong_reads > 0.0 {
        ExitCode::from(EXIT_WRONG_READS)
    } else if outcome.has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn write_files(args: &RunArgs, outcome: &Outcome, entrants: &[Entrant]) -> Result<()> {
    let cannot_write = |path: &Path| format!("cannot write {}", path.display());
    write_json(args.json.as_deref(), outcome)?;
    if let Some(path) = &args.markdown {
        let page = markdown::render(&outcome.summary, entrants);
        std::fs::write(path, page).with_context(|| cannot_write(path))?;
    }
    if let Some(path) = &args.svg {
        match picture::draw(&outcome.summary, entrants) {
            Some(svg) => std::fs::write(path, svg).with_context(|| cannot_write(path))?,
            None => eprintln!("note: no picture without a YCSB workload, ebb and an LSM peer"),
        }
    }
    Ok(())
}

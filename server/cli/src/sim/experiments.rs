//! `ebb sim experiments`: repeats the experiments of J. Polo's thesis on schedulers.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_bench::sim::{self, Analysis, EXPERIMENTS, Experiment, Source};
use ebb_scheduler::sim::scenario::Scenario;

use super::print::{print, simulate, write_json};
use super::replicas_range;
use crate::error::CliError;
use crate::print::{Printer, say, unless_closed, write_stderr};

const EXAMPLES: &str = "\
Examples:
  ebb sim experiments                       the list of experiments
  ebb sim experiments motivation            one of them
  ebb sim experiments all --report results  all, with pictures, in results/NAME
  ebb sim experiments motivation --scenario its scenario, to change it and run it by ebb sim run";

/// Run an experiment of J. Polo's thesis on schedulers, or list the experiments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Name of the experiment, or all; without it, list them.
    name: Option<String>,
    /// Number of replicas, runs with random numbers of their own. Default: that of the scenario.
    /// Without effect on experiments that evaluate a formula.
    #[arg(long, value_name = "N", value_parser = replicas_range(1))]
    replicas: Option<u32>,
    /// Print the experiment's scenario instead of running it. Experiments that evaluate a
    /// formula have no scenario.
    #[arg(long)]
    scenario: bool,
    /// Write DIR/NAME: an HTML report and its pictures, and the result as JSON if the experiment has
    /// a scenario.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let Some(name) = &args.name else {
        return list();
    };
    let chosen: Vec<&Experiment> = (EXPERIMENTS.iter())
        .filter(|experiment| name == "all" || experiment.name == name)
        .collect();
    if chosen.is_empty() {
        let message = format!("there is no experiment {name:?}: `ebb sim experiments` lists them");
        return Err(CliError::Usage(message).into());
    }
    for experiment in chosen {
        let text = match experiment.source {
            Source::Scenario(text) => text,
            Source::Formula(_) if args.scenario && name == "all" => continue,
            Source::Formula(formula) => {
                evaluate(experiment, &formula(), &args)?;
                continue;
            }
        };
        if args.scenario {
            say(text.trim_end().to_string())?;
            continue;
        }
        let mut scenario =
            Scenario::parse(experiment.name, text).context("a scenario that comes with ebb")?;
        if let Some(replicas) = args.replicas {
            scenario.set_replicas(replicas)?;
        }
        let result = simulate(&scenario)?;
        let mut printer = Printer::new();
        let printed = print(&mut printer, &result);
        unless_reported(&args, printed.and_then(|()| printer.finish()))?;
        if let Some(folder) = &args.report {
            let folder = folder.join(experiment.name);
            let report = sim::write_report(&result, &folder)?;
            write_json(&result, &folder.join("result.json"))?;
            write_stderr(format_args!("report: {}\n", report.display()));
        }
    }
    Ok(())
}

fn evaluate(experiment: &Experiment, analysis: &Analysis, args: &Args) -> Result<()> {
    if args.scenario {
        let message = format!(
            "experiment {:?} evaluates a formula and has no scenario: leave out --scenario",
            experiment.name
        );
        return Err(CliError::Usage(message).into());
    }
    let mut printer = Printer::new();
    let head: Vec<&str> = analysis.head.iter().map(String::as_str).collect();
    let printed = (printer.line(&analysis.title))
        .and_then(|()| printer.table(&head, &head[1..], &analysis.rows))
        .and_then(|()| printer.finish());
    unless_reported(args, printed)?;
    if let Some(folder) = &args.report {
        let report = sim::write_analysis(analysis, &folder.join(experiment.name))?;
        write_stderr(format_args!("report: {}\n", report.display()));
    }
    Ok(())
}

/// Returns the result of printing. If reports are to be written, they are written also if the reader has closed
/// stdout. Otherwise the output is all that the command makes, so the command ends.
fn unless_reported(args: &Args, printed: Result<()>) -> Result<()> {
    if args.report.is_some() {
        unless_closed(printed)
    } else {
        printed
    }
}

fn list() -> Result<()> {
    let row = |e: &Experiment| [e.name, e.figures, e.claim].map(String::from).to_vec();
    let rows: Vec<_> = EXPERIMENTS.iter().map(row).collect();
    let mut printer = Printer::new();
    printer.table(&["name", "figures", "the thesis shows"], &[], &rows)?;
    printer.finish()
}

//! `ebb sim run`: one scenario.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_bench::sim;
use ebb_jobs::simulate::read_scenario;

use super::print::{print, simulate};
use super::{policy_named, replicas_range};
use crate::error::CliError;
use crate::print::{JsonArgs, write_stderr};

const EXAMPLES: &str = "\
Examples:
  ebb sim run week.toml
  ebb sim run week.toml --policy fifo,reverse-adaptive --replicas 10
  ebb sim run week.toml --quantile 0.7
  ebb sim run week.toml --json | jq '.points[0].policies[].missed_fraction'
  ebb sim run week.toml --report week/

`ebb sim experiments motivation --scenario` prints a scenario to start from.";

/// Run a scenario under one or several policies, on all cores.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Scenario to simulate, a TOML file.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Policies, with commas between them. Default: those of the scenario.
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    policy: Vec<String>,
    /// Number of replicas, runs with random numbers of their own. Default: that of the scenario.
    #[arg(long, value_name = "N", value_parser = replicas_range(1))]
    replicas: Option<u32>,
    /// Seed of the first replica; each further one has the next number. Default: that of the scenario.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Quantile of the forecast load that policies plan against, 0.01 to 0.99; the scenario must have
    /// a [forecast_error]. Default: that of the scenario.
    #[arg(long, value_name = "Q", value_parser = quantile)]
    quantile: Option<f64>,
    #[command(flatten)]
    json: JsonArgs,
    /// Write an HTML report and its pictures into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn quantile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(q) if (0.01..=0.99).contains(&q) => Ok(q),
        _ => Err("expected a number from 0.01 to 0.99".to_string()),
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut scenario = read_scenario(&args.scenario)?;
    if !args.policy.is_empty() {
        for name in &args.policy {
            policy_named(name)?;
        }
        scenario.set_policies(args.policy)?;
    }
    if let Some(replicas) = args.replicas {
        scenario.set_replicas(replicas)?;
    }
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if let Some(quantile) = args.quantile {
        for point in &mut scenario.points {
            if !point.set_quantile(quantile) {
                let path = args.scenario.display();
                let message = format!(
                    "{path}: --quantile needs a forecast with random errors: add a section \
                     [forecast_error] with log_sd and correlation_s"
                );
                return Err(CliError::Usage(message).into());
            }
        }
    }

    let named = || args.scenario.display().to_string();
    let result = simulate(&scenario).with_context(named)?;
    if let Some(folder) = &args.report {
        let report = sim::write_report(&result, folder)?;
        write_stderr(format_args!("report: {}\n", report.display()));
    }
    args.json.write_file(&result)?;
    args.json.print(&result, |printer| print(printer, &result))
}

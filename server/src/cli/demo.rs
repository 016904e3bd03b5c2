//! `ebb demo`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::demo::{self, DemoOptions, Policy};

const EXAMPLES: &str = "\
Examples:
  ebb demo                              a day in a minute, in ./ebb-demo
  ebb demo --seconds 20 --text ~/books  shorter, over your own text
  ebb demo --policy none                what happens when nobody manages
  ebb demo --json result.json           the result for a script

The demo uses text that is on the machine already and asks the network for
nothing. It says which text, and how much.";

/// Run a day in a minute: a load that peaks at hour 18, and jobs with goals
/// beside it, over snapshots of the same store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Folder for store, outputs and report; made anew by each demo.
    #[arg(long, value_name = "DIR", default_value = "ebb-demo")]
    data: PathBuf,
    /// File or folder of text to load. Default: sources that are on the machine.
    #[arg(long, value_name = "PATH")]
    text: Option<PathBuf>,
    /// Length of the compressed day, in seconds, 5 to 3600.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Who decides what the jobs get.
    #[arg(long, value_enum, default_value_t = Policy::ReverseAdaptive)]
    policy: Policy,
    /// Also write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<()> {
    if !(5.0..=3600.0).contains(&args.seconds) {
        bail!(
            "--seconds {}: a day is run in 5 to 3600 seconds",
            args.seconds
        );
    }
    let options = DemoOptions {
        data: args.data,
        text: args.text,
        seconds: args.seconds,
        policy: args.policy,
    };
    let outcome = demo::run(&options, &|line| eprintln!("  {line}"))?;
    let report = demo::write_report(&outcome, &options.data)?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&outcome)?;
        std::fs::write(path, json + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (goals, met) = outcome.goals();
    println!(
        "\n{}\n  {met} of {goals} goals met; report: {}",
        outcome.table(),
        report.display()
    );
    Ok(())
}

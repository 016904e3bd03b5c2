//! `ebb policies`: the scheduling policies and where they come from.

use anyhow::Result;
use ebb_scheduler::policy;
use ebb_scheduler::queueing::QUEUEING_POLICIES;
use serde::Serialize;

use super::print::{Printer, table};

const EXAMPLES: &str = "\
Examples:
  ebb policies
  ebb policies --json | jq -r '.[] | select(.runs == \"live\").name'";

/// List the scheduling policies, and where each can run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print a JSON array of objects with name, runs, paper and summary.
    #[arg(long)]
    json: bool,
}

/// What the listing says of a policy.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    runs: Runs,
    paper: &'static str,
    summary: &'static str,
}

/// Where a policy can run.
#[derive(Clone, Copy, Serialize)]
enum Runs {
    /// `ebb run`, `ebb demo`, `ebb sim run`.
    #[serde(rename = "live")]
    Live,
    /// `ebb sim queueing` only: it has to be told the rates of arrivals.
    #[serde(rename = "sim queueing")]
    Queueing,
}

impl Runs {
    const fn words(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Queueing => "sim queueing",
        }
    }
}

fn listed() -> Vec<Listed> {
    let live = policy::descriptors().into_iter().map(|policy| Listed {
        name: policy.name,
        runs: Runs::Live,
        paper: policy.paper,
        summary: policy.summary,
    });
    let queueing = QUEUEING_POLICIES.iter().map(|policy| Listed {
        name: policy.name,
        runs: if policy.knows_rates {
            Runs::Queueing
        } else {
            Runs::Live
        },
        paper: policy.paper,
        summary: policy.summary,
    });
    live.chain(queueing).collect()
}

pub(super) fn run(args: Args) -> Result<()> {
    let listed = listed();
    let mut printer = Printer::new();
    if args.json {
        printer.json(&listed)?;
    } else {
        let row = |of: &Listed| [of.name, of.runs.words(), of.summary, of.paper].map(String::from);
        let rows: Vec<_> = listed.iter().map(|of| row(of).to_vec()).collect();
        for line in table(&["name", "runs", "summary", "paper"], &[], &rows) {
            printer.line(line)?;
        }
        printer.line("")?;
        printer.line("live: `ebb run`, `ebb demo` and `ebb sim run`. sim queueing: only there.")?;
    }
    printer.finish()
}

//! `ebb policies`: the scheduling policies and where they come from.

use anyhow::Result;
use ebb_scheduler::policy;
use ebb_scheduler::queueing::QUEUEING_POLICIES;
use serde::Serialize;

use super::print::json_or_text;

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

/// A policy in the listing.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    /// The commands in which the policy runs: [`LIVE`] or [`IN_QUEUES`].
    runs: &'static str,
    paper: &'static str,
    summary: &'static str,
}

/// The value of `runs` for a policy that runs in `ebb run`, `ebb demo` and `ebb sim run`.
const LIVE: &str = "live";
/// The value of `runs` for a policy that runs in `ebb sim queueing` only, because it needs the
/// rates of arrivals.
const IN_QUEUES: &str = "sim queueing";

fn listed() -> Vec<Listed> {
    let live = policy::descriptors().into_iter().map(|policy| Listed {
        name: policy.name,
        runs: LIVE,
        paper: policy.paper,
        summary: policy.summary,
    });
    let queueing = QUEUEING_POLICIES.iter().map(|policy| Listed {
        name: policy.name,
        runs: if policy.knows_rates { IN_QUEUES } else { LIVE },
        paper: policy.paper,
        summary: policy.summary,
    });
    live.chain(queueing).collect()
}

pub(super) fn run(args: Args) -> Result<()> {
    let listed = listed();
    json_or_text(args.json, &listed, |printer| {
        let row = |of: &Listed| {
            [of.name, of.runs, of.summary, of.paper]
                .map(String::from)
                .to_vec()
        };
        let rows: Vec<_> = listed.iter().map(row).collect();
        printer.table(&["name", "runs", "summary", "paper"], &[], &rows)?;
        printer.line("")?;
        printer.line("live: `ebb run`, `ebb demo` and `ebb sim run`. sim queueing: only there.")
    })
}

//! `ebb policies`: the scheduling policies and where they come from.

use anyhow::Result;
use ebb_scheduler::policy;

use super::print::{Printer, table};

const EXAMPLES: &str = "\
Examples:
  ebb policies
  ebb policies --json | jq -r '.[].name'";

/// List the scheduling policies that jobs can run under.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print a JSON array of objects with name, paper and summary.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let descriptors = policy::descriptors();
    let mut printer = Printer::new();
    if args.json {
        printer.json(&descriptors)?;
    } else {
        let row = |d: &policy::Descriptor| [d.name, d.summary, d.paper].map(String::from).to_vec();
        let rows: Vec<_> = descriptors.iter().map(row).collect();
        for line in table(&["name", "summary", "paper"], &[], &rows) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

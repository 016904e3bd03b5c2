//! `ebb apps`: the built-in applications.

use anyhow::Result;
use ebb_jobs::APPLICATIONS;

use super::print::{Printer, table};

const EXAMPLES: &str = "\
Examples:
  ebb apps
  ebb apps --json | jq -r '.[].name'";

/// List the applications that `ebb run` can run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print a JSON array of objects with name and summary.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut printer = Printer::new();
    if args.json {
        printer.json(&APPLICATIONS)?;
    } else {
        let rows = APPLICATIONS.map(|app| [app.name, app.summary].map(String::from).to_vec());
        for line in table(&["name", "summary"], &[], &rows) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

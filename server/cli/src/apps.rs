//! `ebb apps`: the built-in applications.

use anyhow::Result;
use clap::Command;
use ebb_jobs::request::{APPLICATIONS, ApplicationEntry};
use serde::Serialize;

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

/// A row of the list.
#[derive(Serialize)]
struct Application {
    name: &'static str,
    summary: String,
}

impl Application {
    /// Takes the summary from the help of the subcommand of `ebb run`.
    fn of(entry: &ApplicationEntry) -> Self {
        let command = (entry.augment_args)(Command::new(entry.name));
        let about = command.get_about().map(ToString::to_string);
        Self {
            name: entry.name,
            // clap leaves out the full stop.
            summary: format!("{}.", about.unwrap_or_default()),
        }
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut printer = Printer::new();
    let applications = APPLICATIONS.iter().map(Application::of);
    if args.json {
        printer.json(&applications.collect::<Vec<_>>())?;
    } else {
        let rows = applications.map(|app| vec![app.name.to_string(), app.summary]);
        for line in table(&["name", "summary"], &[], &rows.collect::<Vec<_>>()) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

//! `ebb apps`: the built-in applications.

use anyhow::Result;
use clap::Command;
use ebb_jobs::request::ApplicationEntry;
use serde::Serialize;

use super::print::json_or_text;
use super::run::runnable;

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

/// A row of the list of applications that the command prints.
#[derive(Serialize)]
struct Application {
    name: &'static str,
    summary: String,
}

impl Application {
    /// Returns the row of an application. Its summary is the help text of its subcommand of `ebb run`.
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
    let applications: Vec<_> = runnable().map(Application::of).collect();
    json_or_text(args.json, &applications, |printer| {
        let row = |app: &Application| vec![app.name.to_string(), app.summary.clone()];
        let rows: Vec<_> = applications.iter().map(row).collect();
        printer.table(&["name", "summary"], &[], &rows)
    })
}

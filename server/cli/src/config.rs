//! `ebb config`: the settings of a server, shown or checked.

use std::path::PathBuf;

use anyhow::Result;

use super::print::Printer;
use super::serve::settings::{Settings, SettingsArgs};

const EXAMPLES: &str = "\
Examples:
  ebb config show > ebb.toml
  ebb config show --config ebb.toml --slo p99=2ms
  ebb config check ebb.toml

A flag of `ebb serve` comes before its environment variable (EBB_ and its name), that
before the file, that before what is built in.";

/// Show or check the settings of a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the settings in force as TOML.
    #[command(after_help = EXAMPLES)]
    Show(Box<SettingsArgs>),
    /// Check a file: unknown settings and wrong values are errors.
    #[command(after_help = EXAMPLES)]
    Check {
        /// The TOML file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut printer = Printer::new();
    match args.command {
        Command::Show(args) => {
            for (name, value) in args.settings()?.named() {
                match value {
                    Some(value) => printer.line(format_args!("{name} = {value}"))?,
                    None => printer.line(format_args!("# {name} is not set"))?,
                }
            }
        }
        Command::Check { file } => {
            Settings::read(&file)?.check()?;
            printer.line(format_args!("{}: nothing is wrong", file.display()))?;
        }
    }
    printer.finish()
}

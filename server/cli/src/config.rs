//! `ebb config`: the settings of a server, shown, explained or checked.

mod reference;
mod running;

use std::path::PathBuf;

use anyhow::Result;

use self::reference::Setting;
use super::print::Printer;
use super::serve::settings::{Settings, SettingsArgs};

const EXAMPLES: &str = "\
Examples:
  ebb config show > ebb.toml
  ebb config show --config ebb.toml --slo p99=2ms
  ebb config running
  ebb config check ebb.toml
  ebb config reference > configuration.md

A flag of `ebb serve` wins over its environment variable (--slo: EBB_SLO), the variable over the
file, and the file over the default.";

/// Show, explain or check the settings of a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the settings that `ebb serve` would have with the same flags, as TOML, with what each does.
    #[command(after_help = EXAMPLES)]
    Show(Box<SettingsArgs>),
    Running(running::Args),
    /// Print what each setting does, as Markdown.
    #[command(after_help = EXAMPLES)]
    Reference,
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
    let settings = Setting::all();
    match args.command {
        Command::Running(args) => running::print(&args, &mut printer)?,
        Command::Reference => printer.bytes(reference::markdown(&settings).as_bytes())?,
        Command::Show(args) => {
            for (name, value) in args.settings()?.named() {
                let setting = settings.iter().find(|setting| setting.name == name);
                if let Some(setting) = setting {
                    printer.line(format_args!("# {}", setting.help))?;
                }
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

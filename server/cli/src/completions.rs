//! `ebb completions`: what a shell completes with the tab key.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  ebb completions bash > ~/.local/share/bash-completion/completions/ebb
  ebb completions zsh > ~/.zfunc/_ebb
  ebb completions fish > ~/.config/fish/completions/ebb.fish

Start a new shell to use it. For zsh, ~/.zfunc must be in fpath.";

/// Print a shell's completion script.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ebb", &mut script);
    let mut printer = Printer::new();
    printer.bytes(&script)?;
    printer.finish()
}

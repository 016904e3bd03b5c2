//! The `ebb` binary: one subcommand per file.
//!
//! ```text
//!   arguments ─> clap ─> a subcommand ─> its result on stdout
//!                             └─ error ─> "ebb: ..." on stderr, exit code
//! ```
//!
//! Invariants:
//!
//! - Results go to stdout; progress, warnings and errors to stderr.
//! - A command that reads never makes a database where there is none.
//! - The exit code is the class of the failure (`exit`).
//! - When the reader closes stdout, the command ends quietly; `ebb serve` goes on.

#![forbid(unsafe_code)]
// No `expect`, because only rustdoc has this lint: the compiler finds no broken link.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts are doc comments, and name sections of TOML files in brackets"
)]

mod apps;
mod attached;
mod backup;
mod completions;
mod config;
mod database;
mod delete;
mod demo;
mod drop;
mod error;
mod escape;
mod exit;
mod exposure;
mod forecast;
mod get;
mod interrupt;
mod jobs;
mod key_range;
mod listening;
mod load;
mod lock_holder;
mod names;
mod open_files;
mod policies;
mod print;
mod progress;
mod publish;
mod put;
mod queries;
mod rate;
mod repair;
mod request_file;
mod restore;
mod run;
mod runner;
mod scan;
mod serve;
mod server_progress;
mod sim;
mod snapshot;
mod stats;
mod time;
mod token;
mod top;
mod truncate;
mod unpaced;
mod verify;
mod what_if;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// An allocator whose threads share locks only to reserve address space, and when a thread starts
/// or ends. With the C library's allocator, a thread that serves requests would wait for locks that
/// tasks and long scans hold. The kernel runs tasks and long scans on idle cores only, so the wait
/// may be long.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A key-value store with snapshots, and MapReduce jobs on the CPU time that its clients leave free.
#[derive(Debug, Parser)]
#[command(name = "ebb", version, propagate_version = true, max_term_width = 100)]
#[command(arg_required_else_help = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Config(config::Args),
    Demo(demo::Args),
    #[command(hide = true)]
    DemoClient(demo::ClientArgs),
    Load(load::Args),
    Snapshot(snapshot::Args),
    Get(get::Args),
    Scan(scan::Args),
    Put(put::Args),
    Delete(delete::Args),
    Truncate(truncate::Args),
    Drop(drop::Args),
    Run(Box<run::Args>),
    Publish(Box<publish::Args>),
    Apps(apps::Args),
    Jobs(jobs::Args),
    Queries(queries::Args),
    Top(top::Args),
    WhatIf(what_if::Args),
    Token(token::Args),
    Stats(stats::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Verify(verify::Args),
    Repair(repair::Args),
    Policies(policies::Args),
    Forecast(forecast::Args),
    Sim(sim::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    interrupt::survive_long_files();
    if let Some(ended) = ebb_jobs::launch::serve_tasks_if_worker() {
        return ended;
    }
    // Raised before anything is opened: a database takes its share of the limit when it opens.
    open_files::raise_limit();
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(*args),
        Command::Config(args) => config::run(args),
        Command::Demo(args) => demo::run(args),
        Command::DemoClient(args) => demo::run_client(&args),
        Command::Load(args) => load::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Get(args) => get::run(args),
        Command::Scan(args) => scan::run(args),
        Command::Put(args) => put::run(args),
        Command::Delete(args) => delete::run(args),
        Command::Truncate(args) => truncate::run(args),
        Command::Drop(args) => drop::run(args),
        Command::Run(args) => run::run(*args),
        Command::Publish(args) => publish::run(*args),
        Command::Apps(args) => apps::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Queries(args) => queries::run(args),
        Command::Top(args) => top::run(args),
        Command::WhatIf(args) => what_if::run(args),
        Command::Token(args) => token::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Forecast(args) => forecast::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Completions(args) => completions::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use ebb_jobs::request::{APPLICATIONS, ApplicationEntry};

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        for command in cli.get_subcommands() {
            if command.get_name() == "help" {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|help| help.contains("ebb ")),
                "{} has no example",
                command.get_name()
            );
        }
    }

    #[test]
    fn every_built_in_application_can_be_run() {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        let commands: Vec<_> = run.get_subcommands().map(clap::Command::get_name).collect();
        let (own, others): (Vec<&ApplicationEntry>, Vec<&ApplicationEntry>) =
            (APPLICATIONS.iter()).partition(|application| application.has_own_command);
        let others: Vec<_> = others.iter().map(|application| application.name).collect();
        assert_eq!(commands, others);
        for application in own {
            assert!(cli.find_subcommand(application.name).is_some());
        }
    }
}

//! Runs one engine in a process of its own, so that its allocations, its threads and the background
//! work that it leaves cannot affect the figures of another engine.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::phase::Phase;
use crate::sequence::Spec;
use crate::shim::Shim;

/// The hidden subcommand.
pub const COMMAND: &str = "child";

/// Runs a spec in a new process of this program, and calls `on_phase` with each phase when it ends.
///
/// # Errors
/// If the process cannot be started, exits with a failure, or prints a line that is not a phase.
pub fn spawn(spec: &Spec, shim: Option<&Shim>, mut on_phase: impl FnMut(Phase)) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(COMMAND)
        .arg("--spec")
        .arg(serde_json::to_string(spec)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(shim) = shim {
        shim.preload(&mut command);
    }
    let mut process = command.spawn().context("cannot start a child process")?;
    let stdout = process.stdout.take().expect("it is piped");
    for line in BufReader::new(stdout).lines() {
        on_phase(serde_json::from_str(&line?).context("a line of the child process")?);
    }
    let status = process.wait()?;
    ensure!(status.success(), "the child process ended with {status}");
    Ok(())
}

/// Runs the spec in this process, and prints each phase as one line of JSON.
///
/// # Errors
/// The same as [`Spec::run`]; if `spec` is not a spec in JSON.
pub fn run(spec: &str) -> Result<()> {
    let spec: Spec = serde_json::from_str(spec).context("the spec")?;
    spec.run(|phase| {
        let line = serde_json::to_string(phase).expect("a phase is plain data");
        println!("{line}");
    })?;
    Ok(())
}

//! One engine in a process of its own: what it allocates, how it schedules and
//! what it leaves running touches nobody else's figures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::phase::Phase;
use crate::sequence::Spec;
use crate::shim::Shim;

/// The hidden subcommand.
pub const COMMAND: &str = "child";

/// Runs a spec in a new process of this program; `tell` gets each phase as it
/// ends.
///
/// # Errors
/// When it cannot be started, fails, or says what is not understood.
pub fn spawn(spec: &Spec, shim: Option<&Shim>, mut tell: impl FnMut(Phase)) -> Result<()> {
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
        tell(serde_json::from_str(&line?).context("what the child process said")?);
    }
    let status = process.wait()?;
    ensure!(status.success(), "the child process ended with {status}");
    Ok(())
}

/// What the child process does: a line of JSON for each phase.
///
/// # Errors
/// Those of the spec.
pub fn run(spec: &str) -> Result<()> {
    let spec: Spec = serde_json::from_str(spec).context("the spec")?;
    spec.run(|phase| {
        let line = serde_json::to_string(phase).expect("a phase is plain data");
        println!("{line}");
    })?;
    Ok(())
}

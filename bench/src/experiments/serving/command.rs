//! Runs other programs.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a program, and waits for its end. Its standard output is dropped.
///
/// # Errors
/// When it does not start, or fails.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let ended = command.stdout(Stdio::null()).status();
    let status = ended.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

//! Runs a part of an experiment in a process of its own, so that its memory and caches are
//! independent of other parts.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

/// Runs `ebb-bench experiments` with these arguments and additional environment variables, and
/// parses its standard output as JSON. `name` is the name of the process in error messages. Its
/// progress bars are drawn on the stderr of the calling process.
///
/// # Errors
/// If the process cannot be started, fails or prints something else, or the user has interrupted
/// the run.
pub(super) fn run<T: DeserializeOwned>(
    name: &str,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    envs: &[(&str, &str)],
    stop: &AtomicBool,
) -> Result<T> {
    let program = std::env::current_exe().context("cannot find this program again")?;
    let output = Command::new(program)
        .arg("experiments")
        .args(args)
        .envs(envs.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start the process {name:?}"))?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    ensure!(
        output.status.success(),
        "the process {name:?} failed: {}",
        output.status
    );
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the process {name:?} did not print what it measured"))
}

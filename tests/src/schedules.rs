//! A whole database under random schedules of its threads.
//!
//! The scheduler must control every lock, which takes a separate build: the program `schedules`.
//! This module builds that program, runs it seed after seed, and reads its reports.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::report::{Budget, Counter, Report};

/// Number of schedules of each scenario in one seed.
const ITERATIONS: u32 = 100;

/// The command that builds the program `schedules` by hand.
pub const HOW_TO_BUILD: &str = "RUSTFLAGS=\"--cfg shuttle\" cargo build --release -p ebb-tests \
     --bin schedules --target-dir target/shuttle";

/// Builds the program `schedules` in a target folder of its own, with the cargo that runs this
/// process, or else with the cargo in the PATH.
///
/// # Errors
/// If cargo or the sources are missing, or the build fails. The error describes how to go on.
pub fn build() -> Result<PathBuf> {
    build_by_cargo().with_context(|| {
        format!(
            "cannot build the program that explores schedules; build it in the sources with \
             {HOW_TO_BUILD}, and give target/shuttle/release/schedules to --schedules, or \
             leave it out with --only"
        )
    })
}

fn build_by_cargo() -> Result<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = workspace.join("target/shuttle");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&workspace)
        .args([
            "build",
            "--release",
            "-p",
            "ebb-tests",
            "--bin",
            "schedules",
        ])
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", "--cfg shuttle")
        .output()
        .with_context(|| format!("starting cargo in {}", workspace.display()))?;
    ensure!(
        output.status.success(),
        "it does not build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(target.join("release/schedules"))
}

/// Runs every scenario of `program` under random schedules that are drawn from the seed.
pub fn run(seed: u64, _: &Budget, program: &Path) -> Report {
    let mut report = Report::default();
    let outcome = explore(seed, program, &mut report);
    report.note(outcome, || format!("schedules:{seed}"));
    report
}

fn explore(seed: u64, program: &Path, report: &mut Report) -> Result<()> {
    let failures = tempfile::tempdir()?;
    let output = Command::new(program)
        .args(["--json", "--iterations", &ITERATIONS.to_string()])
        .args(["--seed", &seed.to_string(), "--failures"])
        .arg(failures.path())
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let found: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{}, and no report: {stderr}", output.status)
    })?;
    let schedules = found["schedules"].as_u64().context("no schedules")?;
    report.count(Counter::Schedules, schedules);
    let scenarios = found["scenarios"].as_array().context("no scenarios")?;
    for scenario in scenarios {
        if let Some(failure) = scenario["failure"].as_str() {
            bail!("scenario {}: {failure}", scenario["name"]);
        }
    }
    ensure!(output.status.success(), "it ended with {}", output.status);
    Ok(())
}

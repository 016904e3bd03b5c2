//! The bill: processes in turn, and what their figures come to.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::args::{BillArgs, Case, Scale};
use super::case::Measured;
use super::report::{Bill, Round};
use crate::console::{stop_on_interrupt, write_json};

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// What a process or the disk says; an interrupt.
pub fn run(args: &BillArgs) -> Result<()> {
    let work = tempfile::Builder::new().prefix("ebb-bill-").tempdir();
    let work = work.context("cannot create a temporary directory")?;
    let processes = Processes {
        work: work.path(),
        scale: &args.scale,
        stop: stop_on_interrupt()?,
    };
    let fresh = processes.run(Case::Fresh)?;
    let rounds = (0..args.rounds)
        .map(|round| processes.round(round))
        .collect::<Result<_>>()?;
    let bill = Bill::new(args.scale.clone(), &fresh, rounds);
    print!("{bill}");
    if let Some(path) = &args.json {
        write_json(path, &bill)?;
    }
    Ok(())
}

struct Processes<'a> {
    work: &'a Path,
    scale: &'a Scale,
    stop: Arc<AtomicBool>,
}

impl Processes<'_> {
    /// Both cases; which is first alternates.
    fn round(&self, round: u64) -> Result<Round> {
        Ok(match round.is_multiple_of(2) {
            true => {
                let with = self.run(Case::With)?;
                let without = self.run(Case::Without)?;
                Round { with, without }
            }
            false => {
                let without = self.run(Case::Without)?;
                let with = self.run(Case::With)?;
                Round { with, without }
            }
        })
    }

    /// Runs a case in a process and on a directory of its own.
    fn run(&self, case: Case) -> Result<Measured> {
        let name = case.to_possible_value().expect("no case is skipped");
        let name = name.get_name();
        let dir = self.work.join(name);
        let program = std::env::current_exe().context("cannot find this program again")?;
        // Its bars are drawn on this process's stderr.
        let output = Command::new(program)
            .args(["experiments", "snapshot-bill-case", name])
            .arg(&dir)
            .args(self.scale.to_args())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start the process {name:?}"))?;
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        ensure!(
            output.status.success(),
            "the process {name:?} failed: {}",
            output.status
        );
        let measured = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the process {name:?} did not print what it measured"))?;
        std::fs::remove_dir_all(&dir)
            .with_context(|| format!("cannot remove {}", dir.display()))?;
        Ok(measured)
    }
}

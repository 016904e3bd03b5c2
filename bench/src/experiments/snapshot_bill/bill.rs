//! Runs the processes in turn, and computes the bill from their measurements.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::args::{BillArgs, Case, Scale};
use super::case::Measurement;
use super::report::{Bill, Round};
use crate::console::{stop_on_interrupt, temporary_directory, write_json};
use crate::experiments::process;

pub fn run(args: &BillArgs) -> Result<()> {
    let work = temporary_directory("bill")?;
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
    write_json(args.json.as_deref(), &bill)
}

struct Processes<'a> {
    work: &'a Path,
    scale: &'a Scale,
    stop: Arc<AtomicBool>,
}

impl Processes<'_> {
    /// Runs the case with a snapshot and the case without. Which one is first alternates between
    /// rounds.
    fn round(&self, round: u64) -> Result<Round> {
        Ok(if round.is_multiple_of(2) {
            let with = self.run(Case::With)?;
            let without = self.run(Case::Without)?;
            Round { with, without }
        } else {
            let without = self.run(Case::Without)?;
            let with = self.run(Case::With)?;
            Round { with, without }
        })
    }

    /// Runs a case in a process and on a directory of its own.
    fn run(&self, case: Case) -> Result<Measurement> {
        let name = case.to_possible_value().expect("no case is skipped");
        let name = name.get_name();
        let dir = self.work.join(name);
        let mut args: Vec<OsString> =
            vec!["snapshot-bill-case".into(), name.into(), dir.clone().into()];
        args.extend(self.scale.to_args());
        let measured = process::run(name, args, &[], &self.stop)?;
        std::fs::remove_dir_all(&dir)
            .with_context(|| format!("cannot remove {}", dir.display()))?;
        Ok(measured)
    }
}

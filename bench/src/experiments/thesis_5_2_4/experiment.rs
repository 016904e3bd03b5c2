//! The experiment: processes in turn, each with a copy of the same data.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;

use super::args::{Scale, ThesisArgs};
use super::case::{Case, Execution};
use super::plan::{Load, Plan, Run};
use super::published;
use super::report::Report;
use super::results::{Results, RunResult};
use super::{figures, tables};
use crate::console::{progress_bar, stop_on_interrupt, temporary_directory, write_json};
use crate::experiments::process;

pub fn run(args: &ThesisArgs) -> Result<()> {
    let scale = args.scale();
    let work = temporary_directory("thesis")?;
    let processes = Processes {
        base: work.path().join("base"),
        dir: work.path().join("copy"),
        scale: &scale,
        stop: stop_on_interrupt()?,
    };
    let parts = args.parts();
    let results = processes.run_all(&Plan::new(&parts, scale.iterations))?;
    let tables = tables::all(&results, &parts);
    for table in &tables {
        println!("{}", table.plain());
    }
    write_json(args.json.as_deref(), &Report::new(&scale, &results))?;
    if let Some(path) = &args.markdown {
        let text: String = tables.iter().map(|table| table.markdown()).collect();
        write(path, &text)?;
    }
    if let Some(dir) = &args.figures {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        for (name, chart) in figures::all(&results, &parts) {
            write(&dir.join(format!("{name}.svg")), &chart.to_svg())?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

struct Processes<'a> {
    base: PathBuf,
    dir: PathBuf,
    scale: &'a Scale,
    stop: Arc<AtomicBool>,
}

impl Processes<'_> {
    fn run_all(&self, plan: &Plan) -> Result<Results> {
        let rounds = self.scale.rounds;
        let steps = [&plan.saturating, &plan.targets, &plan.series];
        let each: usize = steps.iter().map(|runs| runs.len()).sum();
        self.start(&Case::Load {
            dir: self.base.clone(),
            scale: self.scale.clone(),
        })?;
        let bar = progress_bar("run", each as u64 * u64::from(rounds));
        let mut results = Results::default();
        for runs in steps {
            for round in 0..rounds {
                self.run_round(runs, round, &mut results, &bar)?;
            }
        }
        bar.finish_and_clear();
        Ok(results)
    }

    /// Runs each of `runs` once. Compared runs are neighbours; which of them is first alternates
    /// between rounds.
    fn run_round(
        &self,
        runs: &[Run],
        round: u32,
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<()> {
        let order: Vec<_> = if round.is_multiple_of(2) {
            runs.iter().collect()
        } else {
            runs.iter().rev().collect()
        };
        for run in order {
            bar.set_message(run.label());
            let executions = self.execute(*run, round, results)?;
            results.add(RunResult {
                run: *run,
                round,
                executions,
            });
            bar.inc(1);
        }
        Ok(())
    }

    fn execute(&self, run: Run, round: u32, results: &Results) -> Result<Vec<Execution>> {
        let executions = self.start(&Case::Execute {
            base: self.base.clone(),
            dir: self.dir.clone(),
            scale: self.scale.clone(),
            run,
            target_ops_per_s: target_ops_per_s(run, results),
            seed: self.scale.seed.wrapping_add(u64::from(round)),
        })?;
        ensure!(
            executions.len() == run.iterations as usize,
            "the process {:?} did not measure all of its executions",
            run.label()
        );
        fs::remove_dir_all(&self.dir)
            .with_context(|| format!("cannot remove {}", self.dir.display()))?;
        Ok(executions)
    }

    /// Runs a case in a process of its own.
    fn start(&self, case: &Case) -> Result<Vec<Execution>> {
        let name = match case {
            Case::Load { .. } => "load".to_string(),
            Case::Execute { run, .. } => run.label(),
        };
        let args = ["thesis-5.2.4-case".into(), serde_json::to_string(case)?];
        process::run(&name, args, &[], &self.stop)
    }
}

/// Converts a target rate of the thesis to one for this machine: the same fraction of the greatest
/// rate measured here as the target was of the greatest rate in the thesis. `None` for a run at
/// full speed, or if the greatest rate has not been measured.
fn target_ops_per_s(run: Run, results: &Results) -> Option<f64> {
    let Load::Target(target) = run.load else {
        return None;
    };
    let part = f64::from(target) / published::maximum_ops_per_s(run.workload);
    Some(part * results.full_speed_ops_per_s(run.workload)?)
}

//! What things cost on this machine, measured for a few seconds: an operation
//! of the load, and a pass of each application over the text.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_scheduler::runtime::{FixedCapacity, Outcome, Runtime, RuntimeOptions};
use ebb_storage::SnapshotTable;

use super::day::LoadCost;
use super::jobs::{Application, Repeated, spec};
use super::load::{LoadPace, LoadReport};
use super::setup::Setup;

/// Lengths of the measurements: of the load as fast as it goes, at about its
/// peak, and at about its ebb.
const FLAT_OUT: Duration = Duration::from_millis(1000);
const AT_PEAK: Duration = Duration::from_millis(2000);
const AT_EBB: Duration = Duration::from_millis(700);
/// The rate of the last, as a part of the peak's.
const EBB_OF_PEAK: f64 = 0.1;
/// While tasks are measured the load runs at this part of its peak, as it does
/// on the average of the day: they share caches and memory with it.
const BESIDE_TASKS: f64 = 0.5;
/// Pieces of the text, and how many of them a measured job reads.
const PIECES: usize = 32;
const TASKS: u32 = 8;
/// A measured job is some seconds of work.
const TASKS_MAX: Duration = Duration::from_secs(60);

/// Measures the load: the rate whose peak uses the part of the machine that the
/// day wants, and what it uses at its ebb.
pub(super) fn load_cost(setup: &Setup, cores: u32) -> Result<LoadCost> {
    let wanted = LoadCost::peak_cores_wanted(cores);
    let (flat_out, used) = run(setup, cores, LoadPace::Closed, FLAT_OUT)?;
    let mut peak_ops_per_s = flat_out.ops_per_s * wanted / used.max(0.01);
    let (mut report, mut peak_cores) = run(setup, cores, steady(peak_ops_per_s), AT_PEAK)?;
    // An operation among few costs more than one among many: correct once, by
    // what the peak really used.
    peak_ops_per_s = report.ops_per_s * (wanted / peak_cores.max(0.01)).clamp(0.5, 1.5);
    (report, peak_cores) = run(setup, cores, steady(peak_ops_per_s), AT_PEAK)?;
    peak_ops_per_s = report.ops_per_s;
    let (_, ebb_cores) = run(setup, cores, steady(peak_ops_per_s * EBB_OF_PEAK), AT_EBB)?;
    // The line through both points, at no operations.
    let idle_cores = (ebb_cores - peak_cores * EBB_OF_PEAK) / (1.0 - EBB_OF_PEAK);
    Ok(LoadCost {
        peak_cores,
        idle_cores: idle_cores.clamp(0.0, peak_cores),
        peak_ops_per_s,
    })
}

fn steady(ops_per_s: f64) -> LoadPace {
    LoadPace::Steady { ops_per_s }
}

/// Runs the load, and says how many cores it used, the store's threads
/// included.
fn run(setup: &Setup, cores: u32, pace: LoadPace, duration: Duration) -> Result<(LoadReport, f64)> {
    let driver = setup.load.start(cores, pace, Some(duration), None)?;
    let mut monitor = setup.load.monitor()?;
    // Measured while it runs: a thread that has ended is not counted.
    driver.wait_for_end(duration.mul_f64(0.9));
    let used = monitor.sample()?.load;
    Ok((driver.join()?, used))
}

/// Measures the CPU time, in seconds, that each application needs for one pass
/// over the text, with the load running beside it.
pub(super) fn pass_cpu_s(
    setup: &Setup,
    text: &SnapshotTable,
    load: &LoadCost,
    cores: u32,
    applications: &[Application],
) -> Result<Vec<f64>> {
    let pace = steady(load.peak_ops_per_s * BESIDE_TASKS);
    let driver = setup.load.start(cores, pace, None, None)?;
    let left = f64::from(cores) - load.peak_cores * BESIDE_TASKS;
    let runtime = Runtime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new((left * 100.0) as u32)),
        spill_dir: setup.spill.clone(),
        ..RuntimeOptions::new(cores)
    })?;
    let input = Repeated::new(text.clone(), PIECES, TASKS)?;
    let measure = |(i, application): (usize, &Application)| {
        let name = format!("measure-{i}");
        let spec = spec(setup, ("measured", &name), *application, &input, 0.1)?;
        let report = runtime.submit(spec)?.wait_timeout(TASKS_MAX);
        let report = report.with_context(|| {
            let name = application.name();
            format!("measuring {name} took more than {TASKS_MAX:?}: other programs leave no CPU")
        })?;
        match report.outcome {
            Outcome::Succeeded => Ok(report.cpu_s / f64::from(TASKS) * input.pieces() as f64),
            Outcome::Failed { cause } => bail!("measuring {} failed: {cause}", application.name()),
            Outcome::Cancelled => bail!("measuring {} was cancelled", application.name()),
        }
    };
    let costs = applications.iter().enumerate().map(measure).collect();
    runtime.shutdown();
    driver.stop();
    driver.join()?;
    costs
}

pub(super) fn cores() -> u32 {
    thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

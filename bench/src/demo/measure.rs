//! Costs on this machine, measured for a few seconds: of the load's operations, and of a pass of
//! each application over the text.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_scheduler::runtime::{
    Capacity, CapacityRequest, CapacitySource, Outcome, Runtime, RuntimeOptions,
};
use ebb_storage::SnapshotTable;

use super::day::LoadCost;
use super::jobs::{Application, RepeatedText, spec};
use super::load::{LoadPace, LoadReport, UsedCores};
use super::outcome::OTHERS_MUCH;
use super::setup::Setup;

/// The length of the measurement of the load at full speed.
const FLAT_OUT: Duration = Duration::from_millis(1000);
/// The length of each measurement of the load at about its peak of the day.
const AT_PEAK: Duration = Duration::from_millis(2000);
/// The length of the measurement of the load at about its lowest rate of the day (the ebb).
const AT_EBB: Duration = Duration::from_millis(700);
/// The rate of the measurement at the ebb (the lowest rate of the day), as a fraction of the rate
/// at the peak. The load uses 5% of the machine at the ebb, and 50% at the peak.
const EBB_OF_PEAK: f64 = 0.1;
/// The rate of the load while tasks are measured, as a fraction of its peak: about its mean over
/// the day. The load runs because it shares caches and memory with the tasks.
const BESIDE_TASKS: f64 = 0.5;
/// The number of pieces into which the jobs' input text is cut for the first run of a measured job; a
/// task reads one.
const PIECES: usize = 32;
/// The number of tasks of the first run.
const TASKS: u32 = 8;
/// The CPU time of a task of the second run, in seconds: about as much as that of a task of the day, so that
/// the costs of a task that do not depend on its piece count as much as they do there.
const TASK_CPU_S: f64 = 0.1;
/// The CPU time of the second run, in seconds.
const SECOND_RUN_CPU_S: f64 = 0.5;
/// The timeout of a measured job, which needs only a few seconds.
const TASKS_MAX: Duration = Duration::from_secs(60);

/// The capacity of the measured jobs, the same in each control cycle.
struct MeasuredCapacity(Capacity);

impl CapacitySource for MeasuredCapacity {
    fn capacity(&self, _request: CapacityRequest) -> Capacity {
        self.0.clone()
    }
}

/// Measures the load's peak rate, at which the load uses the intended fraction of the machine, and
/// the cores that it uses at this rate. Extrapolates the cores that it would use without
/// operations. Also returns the cores that other processes use at the ebb of the load, where it
/// takes the least from them.
pub(super) fn load_cost(setup: &Setup, cores: u32) -> Result<(LoadCost, f64)> {
    let target = LoadCost::peak_cores_target(cores);
    let (flat_out, used) = run(setup, cores, LoadPace::Closed, FLAT_OUT)?;
    let mut peak_ops_per_s = flat_out.ops_per_s * target / used.load.max(0.01);
    let (mut report, mut at_peak) = run(setup, cores, steady(peak_ops_per_s), AT_PEAK)?;
    // An operation costs more at a low rate than at full speed, so the rate is corrected once by
    // the cores that the peak really used.
    peak_ops_per_s = report.ops_per_s * (target / at_peak.load.max(0.01)).clamp(0.5, 1.5);
    (report, at_peak) = run(setup, cores, steady(peak_ops_per_s), AT_PEAK)?;
    peak_ops_per_s = report.ops_per_s;
    let peak_cores = at_peak.load;
    let (_, at_ebb) = run(setup, cores, steady(peak_ops_per_s * EBB_OF_PEAK), AT_EBB)?;
    // The straight line through both points gives the cores at rate 0.
    let idle_cores = (at_ebb.load - peak_cores * EBB_OF_PEAK) / (1.0 - EBB_OF_PEAK);
    let load = LoadCost {
        peak_cores,
        idle_cores: idle_cores.clamp(0.0, peak_cores),
        peak_ops_per_s,
    };
    Ok((load, at_ebb.others))
}

fn steady(ops_per_s: f64) -> LoadPace {
    LoadPace::Steady { ops_per_s }
}

/// Runs the load, and returns its report, and the mean numbers of cores that it and other processes
/// used.
fn run(
    setup: &Setup,
    cores: u32,
    pace: LoadPace,
    duration: Duration,
) -> Result<(LoadReport, UsedCores)> {
    let driver = setup.load.start(cores, pace, Some(duration), None)?;
    let mut monitor = setup.load.monitor()?;
    // Samples before the end of the run: a thread that has ended is no longer counted.
    driver.wait_for_end(duration.mul_f64(0.9));
    let used = monitor.sample()?;
    Ok((driver.join()?, used))
}

/// Measures the CPU time, in seconds, of one pass of each application over the text while the load
/// runs, on a machine of `cores` of which other processes use `others_cores`.
pub(super) fn pass_cpu_s(
    setup: &Setup,
    text: &SnapshotTable,
    load: &LoadCost,
    (cores, others_cores): (u32, f64),
    applications: &[Application],
) -> Result<Vec<f64>> {
    let pace = steady(load.peak_ops_per_s * BESIDE_TASKS);
    let driver = setup.load.start(cores, pace, None, None)?;
    let left = f64::from(cores) - load.peak_cores * BESIDE_TASKS;
    let capacity = Capacity {
        // In the idle class, tasks would take minutes beside busy processes. On a quiet machine
        // they are measured in it, because they run in it during the day.
        is_on_floor: others_cores > OTHERS_MUCH * f64::from(cores),
        ..Capacity::cpu((left * 100.0) as u32)
    };
    let runtime = Runtime::start(RuntimeOptions {
        capacity: Arc::new(MeasuredCapacity(capacity)),
        spill_dir: setup.spill.clone(),
        ..RuntimeOptions::new(cores)
    })?;
    // Returns the CPU time of a pass, measured by a job over this input, whose output goes into the folder `run`.
    let measure = |run: &str, application: Application, input: &RepeatedText| {
        let name = application.name();
        let spec = spec(setup, (run, name), application, input)?;
        let report = runtime.submit(spec)?.wait_timeout(TASKS_MAX);
        let report = report.with_context(|| {
            format!("measuring {name} took more than {TASKS_MAX:?}: other programs leave no CPU")
        })?;
        match report.outcome {
            Outcome::Succeeded => Ok(input.pass_cpu_s(report.cpu_s)),
            Outcome::Failed { cause } => bail!("measuring {name} failed: {cause}"),
            Outcome::Cancelled => bail!("measuring {name} was cancelled"),
        }
    };
    // The first run fills the caches, and shows how large the pieces of the second one must be. Its own cost is
    // only assumed.
    let assumed_pass_cpu_s = PIECES as f64 * TASK_CPU_S;
    let first_input = RepeatedText::new(text.clone(), PIECES, TASKS, assumed_pass_cpu_s)?;
    let measure_twice = |application: &Application| {
        let pass_cpu_s = measure("measured-first", *application, &first_input)?.max(0.001);
        let input = RepeatedText::sized(text, pass_cpu_s, SECOND_RUN_CPU_S, TASK_CPU_S)?;
        measure("measured", *application, &input)
    };
    let costs = applications.iter().map(measure_twice).collect();
    runtime.shutdown();
    driver.stop();
    driver.join()?;
    costs
}

pub(super) fn cores() -> u32 {
    thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

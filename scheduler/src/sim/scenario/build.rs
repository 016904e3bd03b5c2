//! Builds a runnable plan from a scenario file, and checks every number.

use super::applications::Applications;
use super::error::FieldError;
use super::fits::{self, Need, PolicyMeasure};
use super::generated::generator;
use super::listed::{ListedJob, listed_jobs};
use super::nodes::{self, Kind};
use super::numbers::{FieldResult, between, log_sd, positive, seconds, shown};
use super::schema::{self, File};
use super::size::Size;
use super::supply;
use super::trace::Traces;
use crate::policy::Preemption;
use crate::sim::bounds::{SECONDS_MAX, TASK_SECONDS_MIN};
use crate::sim::{
    ForecastError, NodeLoss, Recording, SimConfig, SimError, SimJob, Workload, place_splits,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// One point of a scenario (a combination of swept values), with checked numbers. It draws
/// replicas: runs that differ in their random numbers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub config: SimConfig,
    /// Listed jobs, with the number of replicas of their splits.
    pub jobs: Vec<ListedJob>,
    pub names: Vec<Option<String>>,
    pub workload: Option<Workload>,
    pub forecast_error: Option<ForecastError>,
    pub size: Size,
    needs: Vec<Need>,
    kinds: Vec<Kind>,
}

impl Plan {
    /// Draws the configuration and the jobs of a replica. The same seed draws the same
    /// jobs, whatever the policy.
    pub fn draw(&self, seed: u64) -> Result<(SimConfig, Vec<SimJob>), SimError> {
        let nodes = self.config.nodes.len() as u32;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // A random stream of its own, apart from those of task lengths and of the
        // generator.
        rng.set_stream(u64::MAX - 1);
        let mut jobs: Vec<SimJob> = (self.jobs.iter())
            .map(|(job, replicas)| SimJob {
                splits: (*replicas > 0).then(|| place_splits(job.maps, *replicas, nodes, &mut rng)),
                ..job.clone()
            })
            .collect();
        if let Some(workload) = &self.workload {
            jobs.extend(workload.draw(seed, 1 + jobs.len() as u64, nodes)?);
        }
        let mut config = SimConfig {
            seed,
            ..self.config.clone()
        };
        if let Some(error) = &self.forecast_error {
            config.forecast = Arc::new(error.draw(&config, seed));
        }
        Ok((config, jobs))
    }

    /// Fails if no node can ever hold some task under one of the policies.
    pub fn check_fit(&self, policies: &[PolicyMeasure]) -> FieldResult<()> {
        fits::check(policies, &self.needs, &self.kinds)
    }
}

/// Builds the plan of `file`. Fails if a number is out of bounds, or if a task could never run
/// under one of `policies`.
pub(super) fn plan(
    file: &File,
    traces: &Traces<'_>,
    policies: &[PolicyMeasure],
) -> FieldResult<Plan> {
    let steps_before = traces.steps();
    let kinds = nodes::kinds(file)?;
    let config = config(file, &kinds, traces)?;
    if let Some(error) = &file.forecast_error {
        check_forecast_error(error)?;
    }
    let applications = Applications::new(file)?;
    let needs = fits::needs(file, &applications);
    fits::check(policies, &needs, &kinds)?;
    let workload = generator(file, &applications, &config)?;
    if workload.is_none() && file.jobs.is_empty() {
        let what = "nothing to run: give a [workload] or at least one [[job]]";
        return Err(FieldError::new("workload", what));
    }
    let jobs = listed_jobs(file, &applications, &config)?;
    let steps = traces.steps() - steps_before;
    Ok(Plan {
        size: Size::of_run(&config, steps, &jobs, workload.as_ref())?,
        config,
        jobs,
        names: file.jobs.iter().map(|job| job.name.clone()).collect(),
        workload,
        forecast_error: file.forecast_error,
        needs,
        kinds,
    })
}

fn check_forecast_error(error: &ForecastError) -> FieldResult<()> {
    positive("forecast_error.log_sd", error.log_sd, f64::MAX)?;
    log_sd("forecast_error.log_sd", error.log_sd)?;
    between(
        "forecast_error.correlation_s",
        error.correlation_s,
        TASK_SECONDS_MIN,
        SECONDS_MAX,
    )?;
    if !(0.01..=0.99).contains(&error.quantile) {
        let what = format!("between 0.01 and 0.99, got {}", shown(error.quantile));
        return Err(FieldError::new("forecast_error.quantile", what));
    }
    Ok(())
}

fn config(file: &File, kinds: &[Kind], traces: &Traces<'_>) -> FieldResult<SimConfig> {
    let run = &file.run;
    between("run.cycle_s", run.cycle_s, TASK_SECONDS_MIN, SECONDS_MAX)?;
    between(
        "run.horizon_s",
        run.horizon_s,
        TASK_SECONDS_MIN,
        SECONDS_MAX,
    )?;
    let window_s = window(run)?;
    if let Some(every_s) = run.shares_every_s {
        seconds("run.shares_every_s", every_s)?;
    }
    let availability = supply::availability(file, kinds, traces)?;
    let nodes = kinds.iter();
    let nodes: Vec<_> = nodes
        .flat_map(|(count, node)| std::iter::repeat_n(*node, *count as usize))
        .collect();
    for (index, loss) in file.losses.iter().enumerate() {
        check_loss(index, loss, nodes.len(), run.horizon_s)?;
    }
    Ok(SimConfig {
        nodes,
        forecast: supply::forecast(file, kinds, traces)?.unwrap_or_else(|| availability.clone()),
        availability,
        spread: run.spread,
        cycle_s: run.cycle_s,
        horizon_s: run.horizon_s,
        reduce_start: run.reduces,
        preemption: Preemption::Never,
        losses: file.losses.clone(),
        seed: file.seed,
        window_s,
        recording: Recording {
            tasks: run.tasks,
            shares_every_s: run.shares_every_s,
        },
    })
}

/// Returns the begin and the end of the time that is measured, in seconds; the end is infinity if
/// the file gives none.
fn window(run: &schema::Run) -> FieldResult<(f64, f64)> {
    let (from_s, horizon_s) = (run.measure_from_s, run.horizon_s);
    seconds("run.measure_from_s", from_s)?;
    if from_s >= horizon_s {
        let what = format!("is {from_s}; nothing is measured from run.horizon_s on, {horizon_s}");
        return Err(FieldError::new("run.measure_from_s", what));
    }
    let Some(until_s) = run.measure_until_s else {
        return Ok((from_s, f64::INFINITY));
    };
    seconds("run.measure_until_s", until_s)?;
    if until_s <= from_s {
        let what = format!("is {until_s}; must lie after measure_from_s, {from_s}");
        return Err(FieldError::new("run.measure_until_s", what));
    }
    if until_s > horizon_s {
        let what = format!("is {until_s}; must not lie after run.horizon_s, {horizon_s}");
        return Err(FieldError::new("run.measure_until_s", what));
    }
    Ok((from_s, until_s))
}

fn check_loss(index: usize, loss: &NodeLoss, nodes: usize, horizon_s: f64) -> FieldResult<()> {
    let field = |name: &str| format!("loss[{index}].{name}");
    let node = loss.node.0;
    if node as usize >= nodes {
        let last = nodes - 1;
        let what = format!("there is no node {node}; they count from 0 to {last}");
        return Err(FieldError::new(field("node"), what));
    }
    seconds(&field("at_s"), loss.at_s)?;
    if loss.at_s > horizon_s {
        let what = format!(
            "is {}; must not lie after run.horizon_s, {horizon_s}",
            loss.at_s
        );
        return Err(FieldError::new(field("at_s"), what));
    }
    if let Some(back_s) = loss.back_s {
        seconds(&field("back_s"), back_s)?;
        if back_s <= loss.at_s {
            let what = format!("is {back_s}; must lie after at_s, {}", loss.at_s);
            return Err(FieldError::new(field("back_s"), what));
        }
    }
    Ok(())
}

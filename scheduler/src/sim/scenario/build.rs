//! From what is written to what can be run, with every number checked.

use super::applications::Applications;
use super::error::Complaint;
use super::fits::{self, Need, PolicyMeasure};
use super::generated::generator;
use super::listed::{Listed, listed};
use super::nodes::{self, Kind};
use super::numbers::{Checked, between, log_sd, positive, seconds};
use super::schema::{self, File};
use super::size::Size;
use super::supply;
use super::trace::Traces;
use crate::model::NodeId;
use crate::policy::{Preemption, ReduceStart};
use crate::sim::bounds::{SECONDS_MAX, TASK_SECONDS_MIN};
use crate::sim::{
    ForecastError, NodeLoss, Recording, SimConfig, SimError, SimJob, Spread, Workload, place_splits,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// One point of a scenario, ready to draw replicas of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub config: SimConfig,
    /// Listed jobs, with how many replicas their splits have.
    pub jobs: Vec<Listed>,
    pub names: Vec<Option<String>>,
    pub workload: Option<Workload>,
    pub forecast_error: Option<ForecastError>,
    pub size: Size,
    needs: Vec<Need>,
    kinds: Vec<Kind>,
}

impl Plan {
    /// The same seed draws the same jobs, whatever the policy.
    pub fn draw(&self, seed: u64) -> Result<(SimConfig, Vec<SimJob>), SimError> {
        let nodes = self.config.nodes.len() as u32;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Apart from the streams of task lengths and of the generator.
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

    /// Fails if there is a task that no node can ever hold under one of the policies.
    pub fn check_fit(&self, policies: &[PolicyMeasure]) -> Checked<()> {
        fits::check(policies, &self.needs, &self.kinds)
    }
}

/// A plan that can be run under each of `policies`.
pub(super) fn plan(file: &File, traces: &Traces<'_>, policies: &[PolicyMeasure]) -> Checked<Plan> {
    let steps_before = traces.steps();
    let kinds = nodes::kinds(file)?;
    let config = config(file, &kinds, traces)?;
    let forecast_error = file.forecast_error.map(forecast_error).transpose()?;
    let applications = Applications::new(file)?;
    let needs = fits::needs(file, &applications);
    fits::check(policies, &needs, &kinds)?;
    let workload = generator(file, &applications, &config)?;
    if workload.is_none() && file.jobs.is_empty() {
        let what = "nothing to run: give a [workload] or at least one [[job]]";
        return Err(Complaint::new("workload", what));
    }
    let jobs = listed(file, &applications, &config)?;
    let steps = traces.steps() - steps_before;
    Ok(Plan {
        size: Size::of_run(&config, steps, &jobs, workload.as_ref())?,
        config,
        jobs,
        names: file.jobs.iter().map(|job| job.name.clone()).collect(),
        workload,
        forecast_error,
        needs,
        kinds,
    })
}

fn forecast_error(written: schema::ForecastError) -> Checked<ForecastError> {
    let schema::ForecastError {
        log_sd: deviation,
        correlation_s,
        quantile,
    } = written;
    positive("forecast_error.log_sd", deviation, f64::MAX)?;
    log_sd("forecast_error.log_sd", deviation)?;
    between(
        "forecast_error.correlation_s",
        correlation_s,
        TASK_SECONDS_MIN,
        SECONDS_MAX,
    )?;
    if !(0.01..=0.99).contains(&quantile) {
        let what = format!("between 0.01 and 0.99, got {quantile}");
        return Err(Complaint::new("forecast_error.quantile", what));
    }
    Ok(ForecastError {
        log_sd: deviation,
        correlation_s,
        quantile,
    })
}

fn config(file: &File, kinds: &[Kind], traces: &Traces<'_>) -> Checked<SimConfig> {
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
    let losses = (file.losses.iter().enumerate())
        .map(|(index, loss)| lost(index, loss, nodes.len(), run.horizon_s))
        .collect::<Checked<Vec<_>>>()?;
    Ok(SimConfig {
        nodes,
        forecast: supply::forecast(file, kinds, traces)?.unwrap_or_else(|| availability.clone()),
        availability,
        spread: match run.spread {
            schema::Spread::WholeNodes => Spread::WholeNodes,
            schema::Spread::Even => Spread::Even,
        },
        cycle_s: run.cycle_s,
        horizon_s: run.horizon_s,
        reduce_start: match run.reduces {
            schema::Reduces::AfterMaps => ReduceStart::AfterMaps,
            schema::Reduces::Overlapped => ReduceStart::Overlapped,
        },
        preemption: Preemption::Never,
        losses,
        seed: file.seed,
        window_s,
        recording: Recording {
            tasks: run.tasks,
            shares_every_s: run.shares_every_s,
        },
    })
}

/// The begin and the end of the time that is measured, in seconds.
fn window(run: &schema::Run) -> Checked<(f64, f64)> {
    let (from_s, horizon_s) = (run.measure_from_s, run.horizon_s);
    seconds("run.measure_from_s", from_s)?;
    if from_s >= horizon_s {
        let what = format!("is {from_s}; nothing is measured from run.horizon_s on, {horizon_s}");
        return Err(Complaint::new("run.measure_from_s", what));
    }
    let Some(until_s) = run.measure_until_s else {
        return Ok((from_s, f64::INFINITY));
    };
    seconds("run.measure_until_s", until_s)?;
    if until_s <= from_s {
        let what = format!("is {until_s}; must lie after measure_from_s, {from_s}");
        return Err(Complaint::new("run.measure_until_s", what));
    }
    if until_s > horizon_s {
        let what = format!("is {until_s}; must not lie after run.horizon_s, {horizon_s}");
        return Err(Complaint::new("run.measure_until_s", what));
    }
    Ok((from_s, until_s))
}

fn lost(index: usize, loss: &schema::Loss, nodes: usize, horizon_s: f64) -> Checked<NodeLoss> {
    let field = |name: &str| format!("loss[{index}].{name}");
    if loss.node as usize >= nodes {
        let what = format!(
            "there is no node {}; they count from 0 to {}",
            loss.node,
            nodes - 1
        );
        return Err(Complaint::new(field("node"), what));
    }
    seconds(&field("at_s"), loss.at_s)?;
    if loss.at_s > horizon_s {
        let what = format!(
            "is {}; must not lie after run.horizon_s, {horizon_s}",
            loss.at_s
        );
        return Err(Complaint::new(field("at_s"), what));
    }
    if let Some(back_s) = loss.back_s {
        seconds(&field("back_s"), back_s)?;
        if back_s <= loss.at_s {
            let what = format!("is {back_s}; must lie after at_s, {}", loss.at_s);
            return Err(Complaint::new(field("back_s"), what));
        }
    }
    Ok(NodeLoss {
        node: NodeId(loss.node),
        at_s: loss.at_s,
        back_s: loss.back_s,
    })
}

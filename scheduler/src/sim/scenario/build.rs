//! From what is written to what can be run, with every number checked.

use super::error::Complaint;
use super::schema::{self, File};
use super::trace::{Traces, Whole};
use crate::availability::{Availability, DAY_S, SineDay};
use crate::model::{Job, JobId, NodeId, PhaseProfile, Pool, Profile, Resources, TypedSlots};
use crate::policy::{Preemption, ReduceStart, by_name};
use crate::sim::{
    ForecastError, NodeLoss, Recording, SimConfig, SimJob, SimNode, Spread, Stragglers, TaskLength,
    Variety, Workload, place_splits,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// One point of a scenario, ready to draw replicas of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub config: SimConfig,
    /// Listed jobs, with how many replicas their splits have.
    pub jobs: Vec<(SimJob, u32)>,
    pub names: Vec<Option<String>>,
    pub workload: Option<Workload>,
    pub forecast_error: Option<ForecastError>,
}

impl Plan {
    /// The same seed draws the same jobs, whatever the policy.
    pub fn draw(&self, seed: u64) -> (SimConfig, Vec<SimJob>) {
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
            jobs.extend(workload.draw(seed, 1 + jobs.len() as u64, nodes));
        }
        let mut config = SimConfig {
            seed,
            ..self.config.clone()
        };
        if let Some(error) = &self.forecast_error {
            config.forecast = Arc::new(error.draw(&config, seed));
        }
        (config, jobs)
    }
}

type Checked<T> = Result<T, Complaint>;

pub(super) fn plan(file: &File, traces: &Traces<'_>) -> Checked<Plan> {
    for (index, name) in file.policies.iter().enumerate() {
        if by_name(name).is_none() {
            let names: Vec<&str> = crate::policy::descriptors()
                .iter()
                .map(|d| d.name)
                .collect();
            let what = format!(
                "there is no policy {name:?}; there are {}",
                names.join(", ")
            );
            return Err(Complaint::new(format!("policies[{index}]"), what));
        }
    }
    at_least_one("replicas", file.replicas)?;
    let config = config(file, traces)?;
    let forecast_error = (file.forecast_error)
        .map(|written| {
            positive("forecast_error.log_sd", written.log_sd)?;
            positive("forecast_error.correlation_s", written.correlation_s)?;
            if !(0.01..=0.99).contains(&written.quantile) {
                let what = format!("between 0.01 and 0.99, got {}", written.quantile);
                return Err(Complaint::new("forecast_error.quantile", what));
            }
            Ok(ForecastError {
                log_sd: written.log_sd,
                correlation_s: written.correlation_s,
                quantile: written.quantile,
            })
        })
        .transpose()?;
    let workload = (file.workload.as_ref())
        .map(|workload| generator(file, workload, &config))
        .transpose()?;
    if workload.is_none() && file.jobs.is_empty() {
        let what = "nothing to run: give a [workload] or at least one [[job]]";
        return Err(Complaint::new("workload", what));
    }
    let jobs = (file.jobs.iter().enumerate())
        .map(|(index, job)| listed(file, index, job))
        .collect::<Checked<Vec<_>>>()?;
    Ok(Plan {
        config,
        jobs,
        names: file.jobs.iter().map(|job| job.name.clone()).collect(),
        workload,
        forecast_error,
    })
}

fn config(file: &File, traces: &Traces<'_>) -> Checked<SimConfig> {
    let run = &file.run;
    positive("run.cycle_s", run.cycle_s)?;
    positive("run.horizon_s", run.horizon_s)?;
    not_negative("run.measure_from_s", run.measure_from_s)?;
    let until_s = run.measure_until_s.unwrap_or(f64::INFINITY);
    if until_s.is_nan() || until_s <= run.measure_from_s {
        let what = format!("must lie after measure_from_s, {}", run.measure_from_s);
        return Err(Complaint::new("run.measure_until_s", what));
    }
    if let Some(every_s) = run.shares_every_s {
        not_negative("run.shares_every_s", every_s)?;
    }
    let nodes = nodes(file)?;
    let availability = availability(file, traces)?;
    let forecast = match &file.forecast {
        Some(forecast) => Arc::new(part("forecast", forecast, cpu_of(&nodes), traces)?),
        None => availability.clone(),
    };
    let losses = (file.losses.iter().enumerate())
        .map(|(index, loss)| lost(index, loss, nodes.len()))
        .collect::<Checked<Vec<_>>>()?;
    Ok(SimConfig {
        nodes,
        availability,
        forecast,
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
        window_s: (run.measure_from_s, until_s),
        recording: Recording {
            tasks: run.tasks,
            shares_every_s: run.shares_every_s,
        },
    })
}

fn nodes(file: &File) -> Checked<Vec<SimNode>> {
    let mut nodes = Vec::new();
    for (index, group) in file.nodes.iter().enumerate() {
        let field = |name: &str| format!("nodes[{index}].{name}");
        at_least_one(&field("count"), group.count)?;
        at_least_one(&field("cpu_hundredths"), group.cpu_hundredths)?;
        let slots = match (group.map_slots, group.reduce_slots) {
            (None, None) => None,
            (maps, reduces) => Some(TypedSlots {
                maps: maps.unwrap_or(0),
                reduces: reduces.unwrap_or(0),
            }),
        };
        let node = SimNode {
            capacity: Resources {
                cpu_hundredths: group.cpu_hundredths,
                io_bytes_per_s: group.io_bytes_per_s.unwrap_or(u64::MAX),
                memory_bytes: group.memory_bytes.unwrap_or(u64::MAX),
            },
            slots,
            pool: if group.accelerated {
                Pool::Accelerated
            } else {
                Pool::Regular
            },
        };
        if nodes.len() + group.count as usize > NODES_MAX {
            let what = format!("more than {NODES_MAX} nodes in all");
            return Err(Complaint::new(field("count"), what));
        }
        nodes.extend(std::iter::repeat_n(node, group.count as usize));
    }
    if nodes.is_empty() {
        return Err(Complaint::new("nodes", "a cluster needs at least one node"));
    }
    Ok(nodes)
}

/// A slip of the pen must not ask for all memory.
const NODES_MAX: usize = 1_000_000;

fn cpu_of(nodes: &[SimNode]) -> f64 {
    let cpu = nodes.iter().map(|node| node.capacity.cpu_hundredths);
    cpu.map(f64::from).sum()
}

fn availability(file: &File, traces: &Traces<'_>) -> Checked<Arc<Availability>> {
    let whole = schema::Availability::Constant { fraction: 1.0 };
    let mut parts = Vec::new();
    for (index, group) in file.nodes.iter().enumerate() {
        let cpu = f64::from(group.count) * f64::from(group.cpu_hundredths);
        let (field, kind) = match (&group.availability, &file.availability) {
            (Some(own), _) => (format!("nodes[{index}].availability"), own),
            (None, Some(all)) => ("availability".into(), all),
            (None, None) => ("availability".into(), &whole),
        };
        parts.push(part(&field, kind, cpu, traces)?);
    }
    Ok(Arc::new(match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Availability::sum(parts)
        }
        None => Availability::sum(parts),
    }))
}

/// What is left of nodes with `cpu_hundredths` in all.
fn part(
    field: &str,
    kind: &schema::Availability,
    cpu_hundredths: f64,
    traces: &Traces<'_>,
) -> Checked<Availability> {
    let sine = |mean: f64, amplitude: f64, peak_at_s: f64, day_s: f64| {
        Availability::sine_day(SineDay {
            mean_hundredths: mean * cpu_hundredths,
            amplitude_hundredths: amplitude * cpu_hundredths,
            peak_at_s,
            day_s,
        })
    };
    let most = |what: &str, most: f64| {
        if most > 1.0 {
            let what = format!("{what} is {most}: more than all of the nodes, which is 1");
            return Err(Complaint::new(field, what));
        }
        Ok(())
    };
    let built = match *kind {
        schema::Availability::Trace {
            ref file,
            measures,
            whole,
            from_s,
            clip,
        } => {
            let whole = match clip {
                true => Whole::Most(whole),
                false => Whole::Limit(whole),
            };
            let trace = traces.read(file, measures, whole);
            return trace
                .and_then(|trace| trace.from(from_s)?.availability(cpu_hundredths))
                .map_err(|what| Complaint::new(field, what));
        }
        schema::Availability::Constant { fraction } => {
            most("the fraction", fraction)?;
            Availability::constant(fraction * cpu_hundredths)
        }
        schema::Availability::SineDay {
            mean,
            amplitude,
            peak_at_s,
            day_s,
        } => {
            most("mean + amplitude", mean + amplitude)?;
            sine(mean, amplitude, peak_at_s, day_s.unwrap_or(DAY_S))
        }
        schema::Availability::Burstiness { level } => {
            if level > 3 {
                return Err(Complaint::new(field, format!("level {level}: from 0 to 3")));
            }
            sine(0.575, 0.125 * f64::from(level), 0.75 * DAY_S, DAY_S)
        }
    };
    built.map_err(|error| Complaint::new(field, error.to_string()))
}

fn lost(index: usize, loss: &schema::Loss, nodes: usize) -> Checked<NodeLoss> {
    let field = |name: &str| format!("loss[{index}].{name}");
    if loss.node as usize >= nodes {
        let what = format!(
            "there is no node {}; they count from 0 to {}",
            loss.node,
            nodes - 1
        );
        return Err(Complaint::new(field("node"), what));
    }
    not_negative(&field("at_s"), loss.at_s)?;
    if let Some(back_s) = loss.back_s
        && !(back_s.is_finite() && back_s > loss.at_s)
    {
        return Err(Complaint::new(field("back_s"), "must lie after at_s"));
    }
    Ok(NodeLoss {
        node: NodeId(loss.node),
        at_s: loss.at_s,
        back_s: loss.back_s,
    })
}

/// An application, checked.
struct Tasks<'a> {
    written: &'a schema::Application,
    profile: Profile,
    stragglers: Option<Stragglers>,
    replicas: u32,
}

fn tasks<'a>(file: &'a File, user: &str, name: &str) -> Checked<Tasks<'a>> {
    let Some(written) = file.applications.get(name) else {
        let what = format!("there is no [applications.{name}]");
        return Err(Complaint::new(format!("{user}.application"), what));
    };
    let field = |field: &str| format!("applications.{name}.{field}");
    positive(&field("map_s"), written.map_s)?;
    let reduce_s = written.reduce_s.unwrap_or(written.map_s);
    positive(&field("reduce_s"), reduce_s)?;
    not_negative(&field("task_log_sd"), written.task_log_sd)?;
    let estimated_s = written.estimated_map_s.unwrap_or(written.map_s);
    positive(&field("estimated_map_s"), estimated_s)?;
    if !(written.remote_factor.is_finite() && written.remote_factor >= 1.0) {
        return Err(Complaint::new(
            field("remote_factor"),
            "must be finite and at least 1",
        ));
    }
    if let Some(speedup) = written.speedup {
        positive(&field("speedup"), speedup)?;
    }
    if !(0.0..=1.0).contains(&written.straggler_fraction) {
        return Err(Complaint::new(
            field("straggler_fraction"),
            "must lie between 0 and 1",
        ));
    }
    if !(written.straggler_factor.is_finite() && written.straggler_factor >= 1.0) {
        return Err(Complaint::new(
            field("straggler_factor"),
            "must be finite and at least 1",
        ));
    }
    let phase = |demand: Option<schema::Demand>, cpu_hundredths: u32, task_s: f64| PhaseProfile {
        demand: demand.map_or(Resources::cpu(cpu_hundredths), |demand| Resources {
            cpu_hundredths: demand.cpu_hundredths,
            io_bytes_per_s: demand.io_bytes_per_s,
            memory_bytes: demand.memory_bytes,
        }),
        task_s,
    };
    Ok(Tasks {
        written,
        replicas: written.replicas.unwrap_or(file.run.replicas),
        profile: Profile {
            map: phase(written.map, 100, estimated_s),
            shuffle: phase(written.shuffle, 0, 0.0),
            reduce: phase(written.reduce, 100, reduce_s),
        },
        stragglers: (written.straggler_fraction > 0.0).then_some(Stragglers {
            fraction: written.straggler_fraction,
            factor: written.straggler_factor,
        }),
    })
}

fn length(mean_s: f64, log_sd: f64) -> TaskLength {
    if log_sd > 0.0 {
        TaskLength::LogNormal { mean_s, log_sd }
    } else {
        TaskLength::Fixed(mean_s)
    }
}

fn listed(file: &File, index: usize, job: &schema::Job) -> Checked<(SimJob, u32)> {
    let user = format!("job[{index}]");
    let tasks = tasks(file, &user, &job.application)?;
    let field = |name: &str| format!("{user}.{name}");
    not_negative(&field("submitted_s"), job.submitted_s)?;
    if let Some(goal_s) = job.goal_s {
        not_negative(&field("goal_s"), goal_s)?;
    }
    positive(&field("weight"), job.weight)?;
    at_least_one(&field("maps"), job.maps)?;
    let written = tasks.written;
    let goal_s = job.goal_s.map(|goal_s| job.submitted_s + goal_s);
    let built = SimJob {
        job: Job {
            weight: job.weight,
            ..Job::new(JobId(index as u64 + 1), job.submitted_s, goal_s)
        },
        maps: job.maps,
        reduces: job.reduces,
        profile: tasks.profile,
        map_length: length(written.map_s, written.task_log_sd),
        reduce_length: length(tasks.profile.reduce.task_s, written.task_log_sd),
        remote_factor: written.remote_factor,
        speedup: written.speedup,
        splits: None,
        stragglers: tasks.stragglers,
        map_input_bytes: written.map_input_bytes,
        after: after(file, index, job)?,
    };
    Ok((built, tasks.replicas))
}

/// The job that a listed one comes after. A chain of them must begin somewhere.
fn after(file: &File, index: usize, job: &schema::Job) -> Checked<Option<JobId>> {
    let field = || format!("job[{index}].after");
    let find = |name: &String| {
        let named = |job: &schema::Job| job.name.as_ref() == Some(name);
        let at = file.jobs.iter().position(named);
        at.ok_or_else(|| Complaint::new(field(), format!("there is no job called {name:?}")))
    };
    let Some(name) = &job.after else {
        return Ok(None);
    };
    let first = find(name)?;
    let mut next = first;
    for _ in 0..file.jobs.len() {
        if next == index {
            break;
        }
        match &file.jobs[next].after {
            Some(name) => next = find(name)?,
            None => return Ok(Some(JobId(first as u64 + 1))),
        }
    }
    let what = format!("jobs that wait for each other: {name:?} comes after this one in the end");
    Err(Complaint::new(field(), what))
}

fn generator(file: &File, workload: &schema::Workload, config: &SimConfig) -> Checked<Workload> {
    let tasks = tasks(file, "workload", &workload.application)?;
    positive("workload.span_s", workload.span_s)?;
    positive("workload.maps_mean", workload.maps_mean)?;
    not_negative("workload.maps_log_sd", workload.maps_log_sd)?;
    not_negative("workload.reduces_per_map", workload.reduces_per_map)?;
    if let Some((low, high)) = workload.goal_factor
        && !(low > 0.0 && high >= low && high.is_finite())
    {
        let what = "must be two positive numbers, the smaller one first";
        return Err(Complaint::new("workload.goal_factor", what));
    }
    let variety = variety(workload, tasks.profile.map.task_s / tasks.written.map_s)?;
    let mut profile = tasks.profile;
    // What policies believe of it is part of the variety.
    profile.map.task_s = tasks.written.map_s;
    let work_of =
        |phase: PhaseProfile, length_s: f64| length_s * f64::from(phase.demand.cpu_hundredths);
    let job_work = workload.maps_mean
        * (work_of(profile.map, variety.mean_map_s(profile.map.task_s))
            + workload.reduces_per_map * work_of(profile.reduce, profile.reduce.task_s));
    let rate_per_s = match (workload.load, workload.jobs) {
        (Some(load), None) => {
            positive("workload.load", load)?;
            load * config.cpu_hundredths() / job_work
        }
        (None, Some(jobs)) => {
            positive("workload.jobs", jobs)?;
            jobs / workload.span_s
        }
        _ => {
            let what = "give either load or jobs: how much work arrives";
            return Err(Complaint::new("workload.load", what));
        }
    };
    let jobs = rate_per_s * workload.span_s;
    if jobs > JOBS_MAX || !jobs.is_finite() {
        let what = format!("about {jobs:.0} jobs; at most {JOBS_MAX}");
        return Err(Complaint::new("workload.load", what));
    }
    let isolated_slots: f64 = (config.nodes.iter())
        .map(|node| match node.slots {
            Some(slots) => f64::from(slots.maps),
            None => node
                .capacity
                .times(&profile.map.demand)
                .min(u32::MAX.into()) as f64,
        })
        .sum();
    if isolated_slots < 1.0 {
        let what = "no node has room for a map";
        return Err(Complaint::new("workload.application", what));
    }
    if tasks.written.speedup.is_some() {
        let what = "generated jobs have no accelerated version; list jobs instead";
        return Err(Complaint::new("workload.application", what));
    }
    Ok(Workload {
        span_s: workload.span_s,
        rate_per_s,
        maps_mean: workload.maps_mean,
        maps_log_sd: workload.maps_log_sd,
        reduces_per_map: workload.reduces_per_map,
        profile,
        task_log_sd: tasks.written.task_log_sd,
        goal_factor: workload.goal_factor,
        isolated_slots,
        replicas: tasks.replicas,
        remote_factor: tasks.written.remote_factor,
        stragglers: tasks.stragglers,
        map_input_bytes: tasks.written.map_input_bytes,
        variety,
    })
}

/// `estimate` is what the application's maps are believed to take, in parts of what they
/// take.
fn variety(workload: &schema::Workload, estimate: f64) -> Checked<Variety> {
    let burst = workload.burst_jobs_mean;
    if !(burst.is_finite() && burst >= 1.0) {
        let what = format!("must be finite and at least 1, got {burst}");
        return Err(Complaint::new("workload.burst_jobs_mean", what));
    }
    if let Some(tail) = workload.maps_pareto
        && !(tail.is_finite() && tail > 1.0)
    {
        let what = format!("a tail index must be finite and above 1, got {tail}");
        return Err(Complaint::new("workload.maps_pareto", what));
    }
    for &(part, map_s) in &workload.other_map_s {
        positive("workload.other_map_s", map_s)?;
        not_negative("workload.other_map_s", part)?;
    }
    let parts: f64 = workload.other_map_s.iter().map(|(part, _)| part).sum();
    if parts > 1.0 {
        let what = format!("the parts of the jobs are {parts} together; at most 1");
        return Err(Complaint::new("workload.other_map_s", what));
    }
    let (low, high) = workload.estimate_factor.unwrap_or((1.0, 1.0));
    if !(low > 0.0 && high >= low && high.is_finite()) {
        let what = "must be two positive numbers, the smaller one first";
        return Err(Complaint::new("workload.estimate_factor", what));
    }
    Ok(Variety {
        burst_jobs_mean: burst,
        maps_pareto: workload.maps_pareto,
        other_map_s: workload.other_map_s.clone(),
        estimate_factor: (low * estimate, high * estimate),
    })
}

/// As with [`NODES_MAX`].
const JOBS_MAX: f64 = 1e6;

fn positive(field: &str, value: f64) -> Checked<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Complaint::new(
        field,
        format!("must be positive and finite, got {value}"),
    ))
}

fn not_negative(field: &str, value: f64) -> Checked<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Complaint::new(
        field,
        format!("must be finite and not negative, got {value}"),
    ))
}

fn at_least_one(field: &str, value: u32) -> Checked<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Complaint::new(field, "must be at least 1"))
}

//! The workload generator of a scenario.

use super::applications::Applications;
use super::error::FieldError;
use super::numbers::{
    FieldResult, between, factor_of_at_least_one, factors, log_sd, not_negative, task_seconds,
};
use super::schema::{self, File};
use crate::model::PhaseProfile;
use crate::sim::bounds::{FACTOR_MAX, JOBS_MAX, SECONDS_MAX, TASK_SECONDS_MIN, TASKS_MAX};
use crate::sim::{SimConfig, Variety, Workload};

/// Returns the workload generator; `None` if the file has none.
pub(super) fn generator(
    file: &File,
    applications: &Applications<'_>,
    config: &SimConfig,
) -> FieldResult<Option<Workload>> {
    (file.workload.as_ref())
        .map(|workload| of(workload, applications, config))
        .transpose()
}

/// Checks the generator's fields, and computes the rate at which jobs arrive. The rate follows from
/// the load or from the number of jobs: the file must have exactly one of these fields.
fn of(
    workload: &schema::Workload,
    applications: &Applications<'_>,
    config: &SimConfig,
) -> FieldResult<Workload> {
    let tasks = applications.find("workload", &workload.application)?;
    between(
        "workload.span_s",
        workload.span_s,
        TASK_SECONDS_MIN,
        SECONDS_MAX,
    )?;
    if workload.span_s > config.horizon_s {
        let what = format!(
            "is {}, so that jobs arrive after run.horizon_s, {}: generate for a shorter time, or \
             simulate for longer",
            workload.span_s, config.horizon_s
        );
        return Err(FieldError::new("workload.span_s", what));
    }
    // Means may be below 1: a draw has at least one map, and a run may have no job.
    let least = 1.0 / FACTOR_MAX;
    let maps_mean = workload.maps_mean;
    between("workload.maps_mean", maps_mean, least, TASKS_MAX as f64)?;
    log_sd("workload.maps_log_sd", workload.maps_log_sd)?;
    not_negative(
        "workload.reduces_per_map",
        workload.reduces_per_map,
        FACTOR_MAX,
    )?;
    if let Some(goals) = workload.goal_factor {
        factors("workload.goal_factor", goals)?;
    }
    let variety = variety(workload, tasks.profile.map.task_s / tasks.spec.map_s)?;
    let mut profile = tasks.profile;
    // The estimated length is part of the variety, so the profile has the true one.
    profile.map.task_s = tasks.spec.map_s;
    let work_of =
        |phase: PhaseProfile, length_s: f64| length_s * f64::from(phase.demand.cpu_hundredths);
    // The mean CPU work of a job: the load of the cluster over this work is the rate of jobs. The work
    // is that of maps beside their input: stragglers and remote maps take longer. It also
    // leaves out that a draw has at least one map, and that reduces are rounded up: with many small
    // jobs, the load is higher than in the file.
    let job_work = workload.maps_mean
        * (work_of(profile.map, variety.mean_map_s(profile.map.task_s))
            + workload.reduces_per_map * work_of(profile.reduce, profile.reduce.task_s));
    let (field, rate_per_s) = match (workload.load, workload.jobs) {
        (Some(load), None) => {
            between("workload.load", load, least, FACTOR_MAX)?;
            // A load of 1 would keep all CPU of all nodes busy, whatever their availability.
            ("workload.load", load * config.cpu_hundredths() / job_work)
        }
        (None, Some(jobs)) => {
            between("workload.jobs", jobs, least, JOBS_MAX as f64)?;
            ("workload.jobs", jobs / workload.span_s)
        }
        _ => {
            let what = "give either load or jobs: how much work arrives";
            return Err(FieldError::new("workload.load", what));
        }
    };
    // The mean. A draw may have more jobs, and is checked by itself.
    let jobs = rate_per_s * workload.span_s;
    if jobs > JOBS_MAX as f64 {
        let what = format!(
            "makes about {jobs:.0} jobs; at most {JOBS_MAX}: ask for less, or for larger jobs"
        );
        return Err(FieldError::new(field, what));
    }
    // The maps that run at once in a job that is alone. Goals are multiples of such a job's length.
    let isolated_slots: f64 = (config.nodes.iter())
        .map(|node| match node.slots {
            Some(slots) => f64::from(slots.maps),
            None => node
                .capacity
                .times(&profile.map.demand)
                // Of a map without any demand, an endless number would fit.
                .min(u32::MAX.into()) as f64,
        })
        .sum();
    if isolated_slots < 1.0 {
        let what = "no node has room for a map: give nodes more, or some of them map_slots";
        return Err(FieldError::new("workload.application", what));
    }
    // An ignored speedup would be another workload than the one in the file.
    if tasks.spec.speedup.is_some() {
        let what = "generated jobs have no accelerated version; list jobs instead";
        return Err(FieldError::new("workload.application", what));
    }
    Ok(Workload {
        span_s: workload.span_s,
        rate_per_s,
        maps_mean: workload.maps_mean,
        maps_log_sd: workload.maps_log_sd,
        reduces_per_map: workload.reduces_per_map,
        profile,
        task_log_sd: tasks.spec.task_log_sd,
        goal_factor: workload.goal_factor,
        isolated_slots,
        replicas: tasks.replicas,
        remote_factor: tasks.spec.remote_factor,
        stragglers: tasks.stragglers,
        map_input_bytes: tasks.spec.map_input_bytes,
        variety,
    })
}

/// Returns the ways in which the generated jobs differ from the thesis's workload (bursts, sizes,
/// lengths and estimates), after a check of their numbers. `estimate` is the estimated length of
/// the application's maps divided by their true length.
fn variety(workload: &schema::Workload, estimate: f64) -> FieldResult<Variety> {
    let burst = workload.burst_jobs_mean;
    between("workload.burst_jobs_mean", burst, 1.0, JOBS_MAX as f64)?;
    if let Some(tail) = workload.maps_pareto {
        factor_of_at_least_one("workload.maps_pareto", tail)?;
        if tail <= 1.0 {
            let what = format!("a tail index must be above 1, got {tail}");
            return Err(FieldError::new("workload.maps_pareto", what));
        }
    }
    for (at, &(part, map_s)) in workload.other_map_s.iter().enumerate() {
        let field = format!("workload.other_map_s[{at}]");
        not_negative(&field, part, 1.0)?;
        task_seconds(&field, map_s)?;
    }
    let parts: f64 = workload.other_map_s.iter().map(|(part, _)| part).sum();
    if parts > 1.0 {
        let what = format!("the parts of the jobs are {parts} together; at most 1");
        return Err(FieldError::new("workload.other_map_s", what));
    }
    let (low, high) = workload.estimate_factor.unwrap_or((1.0, 1.0));
    factors("workload.estimate_factor", (low, high))?;
    Ok(Variety {
        burst_jobs_mean: burst,
        maps_pareto: workload.maps_pareto,
        other_map_s: workload.other_map_s.clone(),
        estimate_factor: (low * estimate, high * estimate),
    })
}

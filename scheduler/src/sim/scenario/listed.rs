//! The jobs that a scenario lists, one by one.

use super::applications::Applications;
use super::error::FieldError;
use super::numbers::{FieldResult, count, factor, seconds};
use super::schema::{self, File};
use crate::model::{Job, JobId};
use crate::sim::bounds::TASKS_MAX;
use crate::sim::{SimConfig, SimJob};
use std::collections::HashMap;

/// A listed job, and the number of replicas of each of its splits.
pub(super) type ListedJob = (SimJob, u32);

/// Returns the listed jobs in the order of the file, with ids from 1 on.
pub(super) fn listed_jobs(
    file: &File,
    applications: &Applications<'_>,
    config: &SimConfig,
) -> FieldResult<Vec<ListedJob>> {
    let after = predecessors(file)?;
    (file.jobs.iter().zip(after).enumerate())
        .map(|(index, (spec, after))| {
            let listed = job(index, spec, after.map(id_at), applications)?;
            starts_before_the_end(index, &listed.0, config)?;
            Ok(listed)
        })
        .collect()
}

/// Returns the id of the job at the position `index` among the listed jobs of the file.
fn id_at(index: usize) -> JobId {
    JobId(index as u64 + 1)
}

fn job(
    index: usize,
    job: &schema::Job,
    after: Option<JobId>,
    applications: &Applications<'_>,
) -> FieldResult<ListedJob> {
    let user = format!("job[{index}]");
    let tasks = applications.find(&user, &job.application)?;
    let field = |name: &str| format!("{user}.{name}");
    seconds(&field("submitted_s"), job.submitted_s)?;
    if let Some(goal_s) = job.goal_s {
        seconds(&field("goal_s"), goal_s)?;
    }
    factor(&field("weight"), job.weight)?;
    count(&field("maps"), job.maps, TASKS_MAX)?;
    let spec = tasks.spec;
    let goal_s = job.goal_s.map(|goal_s| job.submitted_s + goal_s);
    let built = SimJob {
        job: Job {
            weight: job.weight,
            ..Job::new(id_at(index), job.submitted_s, goal_s)
        },
        maps: job.maps,
        reduces: job.reduces,
        profile: tasks.profile,
        map_length: tasks.length(spec.map_s),
        reduce_length: tasks.length(tasks.profile.reduce.task_s),
        remote_factor: spec.remote_factor,
        speedup: spec.speedup,
        splits: None,
        stragglers: tasks.stragglers,
        map_input_bytes: spec.map_input_bytes,
        after,
    };
    Ok((built, tasks.replicas))
}

/// Fails if the listed job at position `index` could only start after the horizon: it starts in the
/// first control cycle at or after its submission. For a job that follows another one, the end of
/// that job is unknown and counts as 0.
fn starts_before_the_end(index: usize, job: &SimJob, config: &SimConfig) -> FieldResult<()> {
    let horizon_s = config.horizon_s;
    let submitted_s = job.job.submitted_s;
    let starts_s = match job.after {
        // The submission counts from the end of another job, which is unknown here.
        Some(_) => submitted_s,
        None => (submitted_s / config.cycle_s).ceil() * config.cycle_s,
    };
    if starts_s.max(submitted_s) <= horizon_s {
        return Ok(());
    }
    let what = format!(
        "is {submitted_s}, so that the job could start at {starts_s} s at the earliest, after \
         run.horizon_s, {horizon_s}: submit it earlier, or simulate for longer"
    );
    Err(FieldError::new(format!("job[{index}].submitted_s"), what))
}

/// Returns, for each job, the position of the job that it follows. Fails if there is no such job,
/// or if jobs follow each other in a circle.
fn predecessors(file: &File) -> FieldResult<Vec<Option<usize>>> {
    let positions = positions(file)?;
    let field = |index: usize| format!("job[{index}].after");
    let before = (file.jobs.iter().enumerate()).map(|(index, job)| {
        let Some(name) = &job.after else {
            return Ok(None);
        };
        let position = positions.get(name.as_str()).copied();
        position.map(Some).ok_or_else(|| {
            FieldError::new(field(index), format!("there is no job called {name:?}"))
        })
    });
    let before: Vec<Option<usize>> = before.collect::<FieldResult<_>>()?;
    // Jobs whose chain of predecessors was followed to its start, so that each job is visited
    // once.
    let mut settled = vec![false; before.len()];
    for start in 0..before.len() {
        let mut visited = Vec::new();
        let mut at = start;
        while !settled[at]
            && let Some(next) = before[at]
        {
            // Jobs are marked on the way, so reaching a marked job of this walk closes a
            // circle.
            settled[at] = true;
            visited.push(at);
            at = next;
        }
        if visited.contains(&at) {
            let name = file.jobs[at].after.as_deref().unwrap_or_default();
            let what =
                format!("jobs that wait for each other: {name:?} comes after this one in the end");
            return Err(FieldError::new(field(at), what));
        }
    }
    Ok(before)
}

/// Returns the position of each job by its name. Names must differ; a job without a name has
/// its id as name.
fn positions(file: &File) -> FieldResult<HashMap<String, usize>> {
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (index, job) in file.jobs.iter().enumerate() {
        let name = match &job.name {
            None => id_at(index).to_string(),
            Some(name) if name.trim().is_empty() || name.contains(char::is_control) => {
                let what = format!("{name:?} is no name: give one line of text, or none at all");
                return Err(FieldError::new(format!("job[{index}].name"), what));
            }
            Some(name) => name.clone(),
        };
        let Some(&first) = positions.get(&name) else {
            positions.insert(name, index);
            continue;
        };
        // The error names the job with a name of its own, since only that name can be changed.
        let (named, other) = match job.name {
            Some(_) => (index, first),
            None => (first, index),
        };
        let what = format!("job[{other}] is called {name:?} too: give each job a name of its own");
        return Err(FieldError::new(format!("job[{named}].name"), what));
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(jobs: &str) -> File {
        let text = format!("nodes = [{{ count = 1 }}]\n{jobs}");
        toml::from_str(&text).unwrap()
    }

    /// Returns a file with a job for each pair: the number in its name, and the number of the
    /// job after whose end it is submitted, if any.
    fn chain(jobs: impl IntoIterator<Item = (u32, Option<u32>)>) -> File {
        let job = |(name, after): (u32, Option<u32>)| {
            let after = after.map_or(String::new(), |after| format!(", after = \"j{after}\""));
            format!("{{ name = \"j{name}\", application = \"a\", maps = 1{after} }},")
        };
        file(&format!(
            "job = [{}]",
            jobs.into_iter().map(job).collect::<String>()
        ))
    }

    #[test]
    fn a_chain_of_ten_thousand_jobs_is_followed_in_linear_time() {
        let file = chain((0..10_000_u32).map(|name| (name, name.checked_sub(1))));
        let before = predecessors(&file).unwrap();
        assert_eq!((before[0], before[9_999]), (None, Some(9_998)));
    }

    #[test]
    fn a_circle_is_found_from_inside_and_from_outside() {
        let circle = [(0, Some(1)), (1, Some(2)), (2, Some(1))];
        let error = predecessors(&chain(circle)).unwrap_err();
        assert_eq!(error.field, "job[1].after");
        let itself = predecessors(&chain([(0, Some(0))])).unwrap_err();
        assert!(
            itself
                .what
                .starts_with("jobs that wait for each other: \"j0\"")
        );
    }
}

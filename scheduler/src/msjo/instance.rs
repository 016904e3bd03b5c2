//! What is to be scheduled: machines, and jobs down to the length of each task.

use crate::model::{Job, TaskId, TaskKind};
use std::ops::Range;
use thiserror::Error;

/// A task as it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskSpec {
    /// p: how long it runs, in seconds; positive.
    pub length_s: f64,
    /// d: how long after the end of a map its output has reached the reduces, in
    /// seconds; not negative. Of no meaning for a reduce.
    pub delay_s: f64,
    /// W: what its own completion weighs where those of tasks are added up; not negative.
    pub weight: f64,
}

impl TaskSpec {
    /// A task of weight 1 whose output is there at once.
    #[must_use]
    pub const fn of(length_s: f64) -> Self {
        Self {
            length_s,
            delay_s: 0.0,
            weight: 1.0,
        }
    }
}

/// A job as it is given. Its release time r is [`Job::submitted_s`], its weight w
/// [`Job::weight`]; its goal plays no part.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Id, release and weight.
    pub job: Job,
    /// Its maps.
    pub maps: Vec<TaskSpec>,
    /// Its reduces. None of them starts before the output of every map has arrived.
    pub reduces: Vec<TaskSpec>,
}

/// A task of an [`Instance`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Which one.
    pub id: TaskId,
    /// The position of its job in [`Instance::jobs`].
    pub job: usize,
    /// p, in seconds.
    pub length_s: f64,
    /// d, in seconds; 0 for a reduce.
    pub delay_s: f64,
    /// W.
    pub weight: f64,
    /// r: when it may start at the earliest, whatever other tasks do, in seconds.
    pub released_s: f64,
}

/// A job of an [`Instance`].
#[derive(Clone, Debug, PartialEq)]
pub struct JobTasks {
    /// Id, release and weight.
    pub job: Job,
    /// The positions of its maps in [`Instance::tasks`].
    pub maps: Range<usize>,
    /// The positions of its reduces there, right behind the maps.
    pub reduces: Range<usize>,
}

impl JobTasks {
    /// The positions of all its tasks.
    #[must_use]
    pub const fn tasks(&self) -> Range<usize> {
        self.maps.start..self.reduces.end
    }

    /// The tasks that end last: its reduces, or its maps if it has none.
    #[must_use]
    pub fn last_tasks(&self) -> Range<usize> {
        if self.reduces.is_empty() {
            self.maps.clone()
        } else {
            self.reduces.clone()
        }
    }
}

/// Identical machines that run one task at a time, and all jobs, known in advance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// From when on each machine is free, in seconds. The machine at position i is the
    /// node with id i.
    pub free_s: Vec<f64>,
    /// The jobs, in the order they were given in.
    pub jobs: Vec<JobTasks>,
    /// The tasks job by job, maps before reduces.
    pub tasks: Vec<Task>,
}

/// Why something cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InstanceError {
    /// Nowhere to run.
    #[error("there must be at least one machine")]
    NoMachines,
    /// Nothing to run.
    #[error("{0} needs at least one task")]
    NoTasks(crate::model::JobId),
    /// A time or a weight out of range.
    #[error("{0}: {1} must be {2} and finite")]
    Number(String, &'static str, &'static str),
}

impl Instance {
    /// Lays out the tasks of `jobs`, to run on `machines` machines that are free from 0 on.
    ///
    /// # Errors
    /// Without machines; a job without tasks; lengths that are not positive; times or
    /// weights that are negative; what is not finite.
    pub fn new(machines: u32, jobs: Vec<JobSpec>) -> Result<Self, InstanceError> {
        if machines == 0 {
            return Err(InstanceError::NoMachines);
        }
        let mut instance = Self {
            free_s: vec![0.0; machines as usize],
            jobs: Vec::with_capacity(jobs.len()),
            tasks: Vec::new(),
        };
        for spec in jobs {
            instance.push(spec)?;
        }
        Ok(instance)
    }

    fn push(&mut self, spec: JobSpec) -> Result<(), InstanceError> {
        let (job, at) = (spec.job, self.jobs.len());
        if spec.maps.is_empty() && spec.reduces.is_empty() {
            return Err(InstanceError::NoTasks(job.id));
        }
        not_negative(&job.id, "the release", job.submitted_s)?;
        not_negative(&job.id, "the weight", job.weight)?;
        let kinds = [(TaskKind::Map, spec.maps), (TaskKind::Reduce, spec.reduces)];
        let [maps, reduces] = kinds.map(|(kind, specs)| {
            let start = self.tasks.len();
            for (index, spec) in (0..).zip(specs) {
                let id = TaskId {
                    job: job.id,
                    kind,
                    index,
                };
                self.tasks.push(Task {
                    id,
                    job: at,
                    length_s: spec.length_s,
                    delay_s: if kind == TaskKind::Map {
                        spec.delay_s
                    } else {
                        0.0
                    },
                    weight: spec.weight,
                    released_s: job.submitted_s,
                });
            }
            start..self.tasks.len()
        });
        for task in &self.tasks[maps.start..reduces.end] {
            if !(task.length_s.is_finite() && task.length_s > 0.0) {
                let who = task.id.to_string();
                return Err(InstanceError::Number(who, "the length", "positive"));
            }
            not_negative(&task.id, "the delay", task.delay_s)?;
            not_negative(&task.id, "the weight", task.weight)?;
        }
        self.jobs.push(JobTasks { job, maps, reduces });
        Ok(())
    }

    /// |M|: how many machines there are.
    #[must_use]
    pub const fn machines(&self) -> usize {
        self.free_s.len()
    }

    /// The total length of a job's tasks, in seconds.
    #[must_use]
    pub fn work_s(&self, job: usize) -> f64 {
        let tasks = &self.tasks[self.jobs[job].tasks()];
        tasks.iter().map(|task| task.length_s).sum()
    }

    /// Weight over work: what a second of a job's work is worth.
    #[must_use]
    pub fn unit_weight(&self, job: usize) -> f64 {
        self.jobs[job].job.weight / self.work_s(job)
    }

    /// Whether in every job every map is at most as long as every reduce: what the bound
    /// of 3 of Theorem 3 assumes.
    #[cfg(test)]
    pub(super) fn maps_are_shorter(&self) -> bool {
        self.jobs.iter().all(|job| {
            let length_s = |at: usize| self.tasks[at].length_s;
            let longest_map_s = job.maps.clone().map(length_s).fold(0.0, f64::max);
            job.reduces.clone().all(|at| length_s(at) >= longest_map_s)
        })
    }
}

fn not_negative(who: &impl ToString, what: &'static str, number: f64) -> Result<(), InstanceError> {
    if number.is_finite() && number >= 0.0 {
        return Ok(());
    }
    Err(InstanceError::Number(who.to_string(), what, "0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobId;

    fn job(maps: Vec<TaskSpec>) -> JobSpec {
        JobSpec {
            job: Job::new(JobId(7), 0.0, None),
            maps,
            reduces: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_scheduled_is_refused_and_named() {
        let message = |machines, spec| {
            let error = Instance::new(machines, vec![spec]).unwrap_err();
            error.to_string()
        };
        let map = TaskSpec::of(1.0);
        assert!(message(0, job(vec![map])).contains("machine"));
        assert_eq!(message(1, job(vec![])), "job-7 needs at least one task");
        assert_eq!(
            message(1, job(vec![map, TaskSpec::of(0.0)])),
            "job-7/map-1: the length must be positive and finite"
        );
        let late = TaskSpec {
            delay_s: f64::NAN,
            ..map
        };
        assert_eq!(
            message(1, job(vec![late])),
            "job-7/map-0: the delay must be 0 or more and finite"
        );
    }
}

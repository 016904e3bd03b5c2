//! The input of MSJO: machines, and jobs with the length of each task.

use crate::model::{Job, TaskId, TaskKind};
use std::ops::Range;
use thiserror::Error;

/// A task in the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskSpec {
    /// p: the length in seconds; positive.
    pub length_s: f64,
    /// d: the time from the end of a map until its output has reached the reduces, in
    /// seconds; not negative. Ignored for a reduce.
    pub delay_s: f64,
    /// W: the weight of the task's completion time in
    /// [`Objective::Tasks`](super::Objective::Tasks); not negative.
    pub weight: f64,
}

impl TaskSpec {
    /// Returns a task of weight 1 without delay.
    #[must_use]
    pub const fn of(length_s: f64) -> Self {
        Self {
            length_s,
            delay_s: 0.0,
            weight: 1.0,
        }
    }
}

/// A job in the input. Its release time r is [`Job::submitted_s`] and its weight w is
/// [`Job::weight`]; its goal is ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Id, release and weight of the job.
    pub job: Job,
    /// The maps, which may start at the release.
    pub maps: Vec<TaskSpec>,
    /// The reduces. None of them starts before the output of every map has arrived.
    pub reduces: Vec<TaskSpec>,
}

/// A task of an [`Instance`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The id of the task.
    pub id: TaskId,
    /// The position of the task's job in [`Instance::jobs`].
    pub job: usize,
    /// p: the length of the task, in seconds.
    pub length_s: f64,
    /// d: the time from the end of a map until its output has reached the reduces, in seconds; 0 for a
    /// reduce.
    pub delay_s: f64,
    /// W: the weight of the task's completion time in [`Objective::Tasks`](super::Objective::Tasks).
    pub weight: f64,
    /// r: the earliest start, in seconds. It does not include the wait for maps.
    pub released_s: f64,
}

/// A job of an [`Instance`].
#[derive(Clone, Debug, PartialEq)]
pub struct JobTasks {
    /// Id, release and weight of the job.
    pub job: Job,
    /// The positions of the job's maps in [`Instance::tasks`].
    pub maps: Range<usize>,
    /// The positions of the job's reduces in [`Instance::tasks`], right behind its maps.
    pub reduces: Range<usize>,
}

impl JobTasks {
    /// Returns the positions of all tasks of the job in [`Instance::tasks`].
    #[must_use]
    pub const fn tasks(&self) -> Range<usize> {
        self.maps.start..self.reduces.end
    }

    /// Returns the positions, in [`Instance::tasks`], of the tasks whose ends decide when the job ends:
    /// its reduces, or its maps if it has no reduces.
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
    /// The time from which each machine is free, in seconds. The machine at position i is
    /// the node with id i.
    pub free_s: Vec<f64>,
    /// The jobs, in the order of the input.
    pub jobs: Vec<JobTasks>,
    /// The tasks job by job, maps before reduces.
    pub tasks: Vec<Task>,
}

/// The reason why the input of the scheduling problem is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InstanceError {
    /// There are no machines.
    #[error("there must be at least one machine")]
    NoMachines,
    /// A job has no tasks.
    #[error("{0} needs at least one task")]
    NoTasks(crate::model::JobId),
    /// A time or a weight is out of range: the job or task, the name of the number, and the
    /// valid range.
    #[error("{0}: {1} must be {2} and finite")]
    Number(String, &'static str, &'static str),
}

impl Instance {
    /// Creates the instance that has the tasks of `jobs`, and `machines` machines that are free from
    /// 0 on.
    ///
    /// # Errors
    /// If there are no machines, a job has no tasks, a length is not positive, a time or a
    /// weight is negative, or a number is not finite.
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

    /// Returns the number of machines (|M| in Ling et al.).
    #[must_use]
    pub const fn machines(&self) -> usize {
        self.free_s.len()
    }

    /// Returns the total length of the tasks of the job at position `job`, in seconds.
    #[must_use]
    pub fn work_s(&self, job: usize) -> f64 {
        let tasks = &self.tasks[self.jobs[job].tasks()];
        tasks.iter().map(|task| task.length_s).sum()
    }

    /// Returns the weight of the job at position `job` divided by [`Self::work_s`].
    #[must_use]
    pub fn unit_weight(&self, job: usize) -> f64 {
        self.jobs[job].job.weight / self.work_s(job)
    }

    /// Returns whether every map of every job is at most as long as every reduce of that job.
    /// Theorem 3 of Ling et al. assumes this when it proves that MarS costs at most 3 times the
    /// lower bound.
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
    fn invalid_instances_are_rejected_with_the_name_of_the_task() {
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

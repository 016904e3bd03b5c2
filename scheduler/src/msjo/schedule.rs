//! A schedule: the machine and the start of each task.

use super::instance::Instance;
use crate::model::NodeId;
use thiserror::Error;

/// The sum of weighted completion times that a schedule is to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Objective {
    /// The sum over jobs of weight times completion time (TWJCT, total weighted job completion
    /// time).
    Jobs,
    /// The sum over tasks of weight times completion time (TWTCT, total weighted task completion
    /// time).
    Tasks,
}

/// A start and a machine for every task of an instance, in the order of its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// S: the start of each task, in seconds.
    pub start_s: Vec<f64>,
    /// The machine of each task.
    pub node: Vec<NodeId>,
}

/// The reason why a schedule is not feasible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Violation {
    /// The schedule has another number of tasks (the first number) than the instance (the
    /// second).
    #[error("the schedule has {0} tasks, the instance {1}")]
    Length(usize, usize),
    /// A task is on a machine that does not exist.
    #[error("{0} runs on a machine that is not there")]
    NoSuchMachine(String),
    /// A task starts before its release, or before its machine is free ([`Instance::free_s`]).
    #[error("{0} starts before its release")]
    BeforeRelease(String),
    /// The reduce with the first name starts before the output of the map of its job with the second name
    /// has arrived.
    #[error("{0} starts before the output of {1} has arrived")]
    BeforeMap(String, String),
    /// A task, the first name, starts on a machine where another one, the second name, still runs.
    #[error("{0} starts on a machine where {1} still runs")]
    Overlap(String, String),
}

/// The tolerance for rounding errors of a start, in seconds.
const ROUNDING_S: f64 = 1e-6;

impl Schedule {
    /// Returns the end of the task at position `task`, in seconds.
    #[must_use]
    pub fn end_s(&self, instance: &Instance, task: usize) -> f64 {
        self.start_s[task] + instance.tasks[task].length_s
    }

    /// Returns the end of the job at position `job` (C in Ling et al.), in seconds.
    #[must_use]
    pub fn completion_s(&self, instance: &Instance, job: usize) -> f64 {
        let tasks = instance.jobs[job].last_tasks();
        let ends_s = tasks.map(|task| self.end_s(instance, task));
        ends_s.fold(0.0, f64::max)
    }

    /// Returns the value of `objective` for this schedule: a sum of weights times seconds.
    #[must_use]
    pub fn value(&self, instance: &Instance, objective: Objective) -> f64 {
        match objective {
            Objective::Jobs => (instance.jobs.iter().enumerate())
                .map(|(at, job)| job.job.weight * self.completion_s(instance, at))
                .sum(),
            Objective::Tasks => (instance.tasks.iter().enumerate())
                .map(|(at, task)| task.weight * self.end_s(instance, at))
                .sum(),
        }
    }

    /// Checks that the schedule is feasible: every task runs once, on a machine that runs nothing
    /// else meanwhile, not before its release, and no reduce before the output of its job's maps
    /// (equations (1) and (2) of Ling et al.).
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, instance: &Instance) -> Result<(), Violation> {
        let tasks = instance.tasks.len();
        if self.start_s.len() != tasks || self.node.len() != tasks {
            let length = self.start_s.len().min(self.node.len());
            return Err(Violation::Length(length, tasks));
        }
        let name = |task: usize| instance.tasks[task].id.to_string();
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); instance.machines()];
        for (at, task) in instance.tasks.iter().enumerate() {
            let Some(tasks) = on.get_mut(self.node[at].0 as usize) else {
                return Err(Violation::NoSuchMachine(name(at)));
            };
            tasks.push(at);
            let free_s = instance.free_s[self.node[at].0 as usize];
            let in_time = self.start_s[at] >= task.released_s.max(free_s) - ROUNDING_S;
            if !in_time {
                return Err(Violation::BeforeRelease(name(at)));
            }
        }
        for job in &instance.jobs {
            for (map, reduce) in (job.maps.clone()).flat_map(|map| {
                let reduces = job.reduces.clone();
                reduces.map(move |reduce| (map, reduce))
            }) {
                let arrived_s = self.end_s(instance, map) + instance.tasks[map].delay_s;
                if self.start_s[reduce] < arrived_s - ROUNDING_S {
                    return Err(Violation::BeforeMap(name(reduce), name(map)));
                }
            }
        }
        for mut tasks in on {
            tasks.sort_by(|&a, &b| self.start_s[a].total_cmp(&self.start_s[b]));
            for pair in tasks.windows(2) {
                if self.start_s[pair[1]] < self.end_s(instance, pair[0]) - ROUNDING_S {
                    return Err(Violation::Overlap(name(pair[1]), name(pair[0])));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{figure_1, one_job};
    use super::*;
    use ebb_test_support::cases::parse_cases;

    fn schedule(start_s: &[f64], node: &[u32]) -> Schedule {
        Schedule {
            start_s: start_s.to_vec(),
            node: node.iter().copied().map(NodeId).collect(),
        }
    }

    /// The FIFO schedule in figure 1 (a) of Ling et al.: the tasks of job 1, then those of job 2.
    #[test]
    fn figure_1_adds_up() {
        let instance = figure_1();
        let fifo = schedule(
            &[0.0, 0.0, 0.0, 75.0, 150.0, 150.0, 75.0, 150.0],
            &[0, 1, 2, 0, 0, 1, 1, 2],
        );
        assert_eq!(fifo.check(&instance), Ok(()));
        assert_eq!(fifo.completion_s(&instance, 1), 250.0);
        assert_eq!(fifo.value(&instance, Objective::Jobs), 500.0);
        // Maps end at 75, 75, 75, 150 and 150, all reduces at 250.
        assert_eq!(fifo.value(&instance, Objective::Tasks), 1275.0);
    }

    /// Two maps of 4 s and 6 s, whose outputs take 2 s and 1 s to arrive, and a reduce of 3 s.
    #[test]
    fn infeasible_schedules_are_found() {
        let instance = one_job(2, 1.0, &[(4.0, 2.0), (6.0, 1.0)], &[3.0]);
        let told = |start_s: &[f64], node: &[u32]| {
            let checked = schedule(start_s, node).check(&instance);
            checked.map_err(|violation| violation.to_string())
        };
        assert_eq!(told(&[1.0, 1.0, 8.0], &[0, 1, 0]), Ok(()));
        // The start and the machine of each task, and the error.
        let cases = "
            0 1 8 => 0 1 0 => job-0/map-0 starts before its release
            1 1 7.5 => 0 1 0
            => job-0/reduce-0 starts before the output of job-0/map-1 has arrived
            1 4 11 => 0 0 0 => job-0/map-1 starts on a machine where job-0/map-0 still runs
            1 1 8 => 0 2 0 => job-0/map-1 runs on a machine that is not there
            1 => 0 => the schedule has 1 tasks, the instance 3
        ";
        for [start_s, node, expected] in parse_cases(cases) {
            let start_s: Vec<f64> = start_s.split(' ').map(|s| s.parse().unwrap()).collect();
            let node: Vec<u32> = node.split(' ').map(|n| n.parse().unwrap()).collect();
            assert_eq!(told(&start_s, &node), Err(expected.to_string()));
        }
    }
}

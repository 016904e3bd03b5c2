//! A heuristic of ebb's own: the best of many orders, without gaps.
//!
//! The rules and the relaxation agree on most decisions: within a job, the task that keeps
//! others waiting longest goes first, and jobs are ordered by weight per second of work.
//! The rest is the order of *blocks*, the maps or the reduces of a job, when a free machine
//! could take any of them. The search starts from the best of several such orders, and
//! moves one block at a time to another place, for a given number of tries.
//!
//! The result is never worse than that of MarS for the same relaxation, nor than that of
//! the rules, because their orders are among those tried. So MarS's bound of 3 holds where
//! MarS has it.

use super::instance::Instance;
use super::list::{NonIdling, non_idling};
use super::mars::{mars_of, middle_s};
use super::order::ranks;
use super::relaxation::Bound;
use super::rules::Rule;
use super::schedule::{Objective, Schedule};
use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The limit of the local search, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Number of orders to try after those that the search starts from.
    pub tries: u32,
    /// Seed of the random changes that the search makes to the order of tasks: the same seed finds
    /// the same schedule.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            tries: 10_000,
            seed: 0,
        }
    }
}

impl Search {
    /// Returns the best schedule found for the weighted completion times of jobs. `bound`
    /// gives one of the orders that the search starts from.
    #[must_use]
    pub fn schedule(&self, instance: &Instance, bound: &Bound) -> Schedule {
        let middle_s = middle_s(instance, &bound.start_s);
        let mut schedules = vec![
            mars_of(instance, bound),
            non_idling(instance, &ranks(instance, |at| middle_s[at])),
        ];
        for rule in [Rule::HighUnitWeightFirst, Rule::HighJobWeightFirst] {
            schedules.push(rule.planned(instance));
            schedules.push(rule.non_idling(instance));
        }
        let blocks = Blocks::new(instance);
        let mut best = starts(instance, &blocks, &middle_s);
        let mut work = Work::default();
        for (value, order) in &mut best {
            *value = work.value(instance, &blocks, order);
        }
        best.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (value, order) = best.swap_remove(0);
        let order = self.improved(instance, &blocks, order, value, &mut work);
        schedules.push(non_idling(instance, &blocks.ranks(&order)));
        (schedules.into_iter())
            .min_by_key(|schedule| OrderedF64(schedule.value(instance, Objective::Jobs)))
            .expect("there are several")
    }

    /// Moves one block of `order` to another place, `tries` times, and undoes each move that raises
    /// the objective. Returns the order after the last move. `value` is the objective of the given
    /// order.
    fn improved(
        &self,
        instance: &Instance,
        blocks: &Blocks,
        mut order: Vec<u32>,
        mut value: f64,
        work: &mut Work,
    ) -> Vec<u32> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let count = order.len();
        if count < 2 {
            return order;
        }
        let mut moved = Vec::with_capacity(count);
        for _ in 0..self.tries {
            moved.clone_from(&order);
            let from = rng.random_range(0..count);
            // Mostly to a place nearby, because the first orders are roughly right.
            let far = (count as f64).powf(rng.random::<f64>()) as usize;
            let to = if rng.random::<bool>() {
                (from + far).min(count - 1)
            } else {
                from.saturating_sub(far)
            };
            let block = moved.remove(from);
            moved.insert(to, block);
            let new_value = work.value(instance, blocks, &moved);
            if new_value <= value {
                value = new_value;
                std::mem::swap(&mut order, &mut moved);
            }
        }
        order
    }
}

/// The tasks of an instance in blocks: two for each job, its maps and its reduces.
struct Blocks {
    /// The tasks of each block (the maps or the reduces of a job), by descending sum of length and
    /// delay.
    tasks: Vec<Vec<u32>>,
}

impl Blocks {
    fn new(instance: &Instance) -> Self {
        // The longest first, including the time until its output has arrived.
        let sorted = |tasks: std::ops::Range<usize>| {
            let mut tasks: Vec<u32> = tasks.map(|at| at as u32).collect();
            let tail_s = |at: u32| {
                let task = &instance.tasks[at as usize];
                task.length_s + task.delay_s
            };
            tasks.sort_by(|&a, &b| tail_s(b).total_cmp(&tail_s(a)).then(a.cmp(&b)));
            tasks
        };
        let both =
            |job: &super::instance::JobTasks| [job.maps.clone(), job.reduces.clone()].map(sorted);
        Self {
            tasks: instance.jobs.iter().flat_map(both).collect(),
        }
    }

    /// Returns the rank of each task, its position in the order of all tasks, if the
    /// blocks (the maps or the reduces of a job) are scheduled in `order`.
    fn ranks(&self, order: &[u32]) -> Vec<u32> {
        let mut ranks = Vec::new();
        self.ranks_into(order, &mut ranks);
        ranks
    }

    fn ranks_into(&self, order: &[u32], ranks: &mut Vec<u32>) {
        ranks.resize(self.tasks.iter().map(Vec::len).sum(), 0);
        let tasks = order.iter().flat_map(|&block| &self.tasks[block as usize]);
        for (rank, &at) in (0..).zip(tasks) {
            ranks[at as usize] = rank;
        }
    }
}

/// Returns the orders of blocks (the maps or the reduces of a job) from which the search starts,
/// each with a 0, which the caller replaces by the objective of its schedule. `middle_s` has the
/// middle finish time of each task in the relaxation.
fn starts(instance: &Instance, blocks: &Blocks, middle_s: &[f64]) -> Vec<(f64, Vec<u32>)> {
    let jobs = instance.jobs.len();
    let by = |key: &dyn Fn(usize, TaskKind) -> f64| {
        let kinds = [TaskKind::Map, TaskKind::Reduce];
        let keys = (0..jobs).flat_map(|job| kinds.map(|kind| key(job, kind)));
        let keys: Vec<f64> = keys.collect();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by_key(|&block| OrderedF64(keys[block as usize]));
        (0.0, order)
    };
    let mean = |block: usize| {
        let tasks = &blocks.tasks[block];
        let sum: f64 = tasks.iter().map(|&at| middle_s[at as usize]).sum();
        sum / tasks.len().max(1) as f64
    };
    let last = |job: usize| {
        let tasks = instance.jobs[job].last_tasks();
        tasks.map(|at| middle_s[at]).fold(0.0, f64::max)
    };
    vec![
        by(&|job, _| -instance.unit_weight(job)),
        by(&|job, kind| match kind {
            TaskKind::Map => -instance.unit_weight(job),
            // Reduces of every job before maps of any.
            TaskKind::Reduce => -instance.unit_weight(job) - 1e12,
        }),
        by(&|job, kind| mean(2 * job + usize::from(kind == TaskKind::Reduce))),
        by(&|job, _| last(job)),
    ]
}

/// Buffers that all tries of a search share.
#[derive(Default)]
struct Work {
    list: NonIdling,
    ranks: Vec<u32>,
    completion_s: Vec<f64>,
}

impl Work {
    fn value(&mut self, instance: &Instance, blocks: &Blocks, order: &[u32]) -> f64 {
        blocks.ranks_into(order, &mut self.ranks);
        self.completion_s.clear();
        self.completion_s.resize(instance.jobs.len(), 0.0);
        let completion_s = &mut self.completion_s;
        self.list.run(instance, &self.ranks, |at, start_s, _| {
            let task = &instance.tasks[at];
            let completion_s = &mut completion_s[task.job];
            *completion_s = completion_s.max(start_s + task.length_s);
        });
        let jobs = instance.jobs.iter().zip(&self.completion_s);
        jobs.map(|(job, completion_s)| job.job.weight * completion_s)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::job;
    use super::super::mars::mars;
    use super::*;

    /// One machine. Job 0, weight 2: a map of 2 s whose output takes 3 s to arrive, a reduce of 1
    /// s. Job 1, weight 2: maps of 2 s and 1 s. Both have a weight of 2/3 per second of work.
    ///
    /// The best schedule fills the 3 s in which job 0's output is on its way: job 0's map at 0..2,
    /// both maps of job 1 at 2..5, the reduce at 5..6: 2 * 6 + 2 * 5 = 22. With job 1 first, job 1
    /// ends at 3, and job 0 at 3 + 2 + 3 + 1 = 9: 24. MarS lets the machine idle.
    #[test]
    fn the_delay_of_one_job_is_filled_with_another() {
        let jobs = vec![
            job(0, 0.0, 2.0, &[(2.0, 3.0)], &[1.0]),
            job(1, 0.0, 2.0, &[(2.0, 0.0), (1.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let (_, bound) = mars(&instance, Objective::Jobs, 0.0).unwrap();
        let found = Search::default().schedule(&instance, &bound);
        assert_eq!(found.check(&instance), Ok(()));
        assert_eq!(found.value(&instance, Objective::Jobs), 22.0);
    }
}

//! Naive fair sharing (Zaharia et al., *Delay Scheduling*, EuroSys 2010, section 3.1),
//! against which Wang compares.

use super::discipline::Discipline;
use super::least::Least;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// An idle node serves the job with the fewest running tasks, of those the oldest: a
/// local task if the job has one that waits, otherwise its first.
#[derive(Debug)]
pub(super) struct NaiveFair {
    jobs: Vec<Waiting>,
    /// Per place of a job that has waiting tasks: its running tasks, then its age.
    turns: Least,
    arrived: u64,
}

/// The tasks of one job that wait.
#[derive(Debug, Default)]
struct Waiting {
    tasks: Vec<Task>,
    taken: Vec<bool>,
    /// All before are taken.
    first: usize,
    left: usize,
    /// (node, task), ordered, of a job that is searched often enough.
    on_node: Vec<(NodeId, u32)>,
    /// Its number in order of arrival.
    age: u64,
}

/// From this many tasks on, they are found by node.
const INDEXED_FROM: usize = 32;
/// Bits for the age in a turn; the number of running tasks is above them.
const AGE_BITS: u32 = 40;

impl Waiting {
    fn index(&mut self) {
        if self.tasks.len() < INDEXED_FROM || !self.on_node.is_empty() {
            return;
        }
        let places = (0..).zip(&self.tasks);
        self.on_node = places
            .flat_map(|(at, task)| task.local_nodes().map(move |node| (node, at)))
            .collect();
        self.on_node.sort_unstable();
    }

    fn local(&self, node: NodeId) -> Option<usize> {
        if self.on_node.is_empty() {
            return (self.first..self.tasks.len())
                .find(|&at| !self.taken[at] && self.tasks[at].replicas.contains(&node));
        }
        let from = self.on_node.partition_point(|&(at, _)| at < node);
        (self.on_node[from..].iter())
            .take_while(|&&(at, _)| at == node)
            .map(|&(_, task)| task as usize)
            .find(|&at| !self.taken[at])
    }

    fn take(&mut self, at: usize) -> Task {
        self.taken[at] = true;
        self.left -= 1;
        while self.taken.get(self.first) == Some(&true) {
            self.first += 1;
        }
        let task = self.tasks[at];
        if self.left == 0 {
            *self = Self::default();
        }
        task
    }
}

impl NaiveFair {
    pub fn new() -> Self {
        Self {
            jobs: Vec::new(),
            turns: Least::new(1024),
            arrived: 0,
        }
    }

    fn set_turn(&mut self, job: u32, running: u32) {
        let waiting = &self.jobs[job as usize];
        let turn = match waiting.left {
            0 => u64::MAX,
            _ => u64::from(running) << AGE_BITS | waiting.age,
        };
        self.turns.set(job as usize, turn);
    }
}

impl Discipline for NaiveFair {
    fn route(&mut self, task: Task, _: &mut ChaCha8Rng) {
        let job = task.job as usize;
        while self.turns.positions() <= job {
            self.turns.grow();
        }
        if self.jobs.len() <= job {
            self.jobs.resize_with(job + 1, Waiting::default);
        }
        let waiting = &mut self.jobs[job];
        if waiting.left == 0 {
            waiting.age = self.arrived;
            self.arrived += 1;
        }
        waiting.tasks.push(task);
        waiting.taken.push(false);
        waiting.left += 1;
        // All tasks of a job arrive together, before any of them runs.
        if waiting.left == 1 {
            self.set_turn(task.job, 0);
        }
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        if self.turns.min() == u64::MAX {
            return None;
        }
        let job = self.turns.position(ties);
        let waiting = &mut self.jobs[job];
        waiting.index();
        let at = waiting.local(node).unwrap_or(waiting.first);
        let task = waiting.take(at);
        self.set_turn(task.job, running[job] + 1);
        Some(task)
    }

    fn finished(&mut self, _: NodeId, task: &Task, running: &[u32]) {
        self.set_turn(task.job, running[task.job as usize]);
    }
}

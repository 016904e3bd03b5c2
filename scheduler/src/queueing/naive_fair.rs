//! Naive fair sharing (Zaharia et al., *Delay Scheduling*, EuroSys 2010, section 3.1),
//! the baseline of Wang's comparison.

use super::discipline::Discipline;
use super::least::Least;
use super::task::{REPLICAS_MAX, Task};
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// The policy under which an idle node serves the job with the fewest running tasks, among equals
/// the oldest. The node takes the job's first waiting task with data on the node, or the first of
/// all waiting tasks of the job if none has data there.
#[derive(Debug)]
pub(super) struct NaiveFair {
    jobs: Vec<WaitingTasks>,
    /// For each job, by its index in `jobs`: the key that orders the jobs, first by the number of
    /// running tasks, then by age; `u64::MAX` if no task of the job waits.
    turns: Least,
    arrived: u64,
}

/// The waiting tasks of one job.
#[derive(Debug, Default)]
struct WaitingTasks {
    tasks: Vec<Task>,
    taken: Vec<bool>,
    /// The position in `tasks` of the first task that still waits.
    first: usize,
    left: usize,
    /// An index of the job's tasks by node, built when a node first looks for a local task. It
    /// stays `None` for jobs below [`INDEXED_FROM`] or with too many nodes per task
    /// ([`NODES_PER_TASK_MAX`]): their tasks are searched one by one.
    on_node: Option<ByNode>,
    /// The highest number of a node with data of the job, plus one: the length of the lists by node
    /// in [`ByNode`].
    nodes: usize,
    /// Number of the job in order of arrival.
    age: u64,
}

/// An index of one job's tasks by node. A node's group is the tasks whose data is on the node; a
/// task whose data lies on several nodes is in the group of each of them.
#[derive(Debug)]
struct ByNode {
    /// For each node, the index in `tasks` of the first entry of its group that may still wait:
    /// nodes have taken all tasks of the group before it.
    from: Vec<u32>,
    /// For each node, the index in `tasks` behind the last entry of its group.
    until: Vec<u32>,
    /// The groups, one after another in the order of the nodes: positions of tasks in
    /// `WaitingTasks::tasks`, in order of arrival within a group.
    tasks: Vec<u32>,
}

/// Jobs with fewer tasks than this get no index by node: searching their tasks one by one is
/// cheaper.
const INDEXED_FROM: usize = 32;
/// Jobs with fewer than one task per this many nodes get no index by node: the index has an entry
/// for each node, so for a few tasks it is too expensive.
const NODES_PER_TASK_MAX: usize = 8;
/// The number of low bits of a job's key that hold its age; the number of running tasks is above
/// them.
const AGE_BITS: u32 = 40;

impl ByNode {
    /// Builds the index by counting the tasks of each node (a counting sort), which is much faster
    /// than sorting by comparison because there are few nodes.
    fn new(tasks: &[Task], nodes: usize) -> Self {
        let mut until = vec![0; nodes];
        for node in tasks.iter().flat_map(Task::local_nodes) {
            until[node.0 as usize] += 1;
        }
        let mut total = 0;
        let mut from = Vec::with_capacity(nodes);
        for count in &mut until {
            from.push(total);
            total += *count;
            *count = total - *count;
        }
        let mut places = vec![0; total as usize];
        for (at, task) in (0..).zip(tasks) {
            for node in task.local_nodes() {
                let end = &mut until[node.0 as usize];
                places[*end as usize] = at;
                *end += 1;
            }
        }
        Self {
            from,
            until,
            tasks: places,
        }
    }

    /// Returns the position, in the job's list of tasks, of the first waiting task with data on
    /// `node`. `taken[i]` is true if the task at position i does not wait any more.
    fn first(&mut self, node: NodeId, taken: &[bool]) -> Option<usize> {
        let from = self.from.get_mut(node.0 as usize)?;
        let until = self.until[node.0 as usize];
        while *from < until {
            let task = self.tasks[*from as usize] as usize;
            if !taken[task] {
                return Some(task);
            }
            *from += 1;
        }
        None
    }
}

impl WaitingTasks {
    fn local(&mut self, node: NodeId) -> Option<usize> {
        let count = self.tasks.len();
        if count >= INDEXED_FROM && self.nodes <= NODES_PER_TASK_MAX * count {
            let index = || ByNode::new(&self.tasks, self.nodes);
            return (self.on_node.get_or_insert_with(index)).first(node, &self.taken);
        }
        (self.first..self.tasks.len())
            .find(|&at| !self.taken[at] && self.tasks[at].replicas.contains(&node))
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
            self.jobs.resize_with(job + 1, WaitingTasks::default);
        }
        let waiting = &mut self.jobs[job];
        if waiting.left == 0 {
            waiting.age = self.arrived;
            self.arrived += 1;
        }
        waiting.tasks.push(task);
        // Replicas are ascending, so the last one is the highest.
        let last = task.replicas[REPLICAS_MAX - 1];
        waiting.nodes = waiting.nodes.max(last.0 as usize + 1);
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
        let at = waiting.local(node).unwrap_or(waiting.first);
        let task = waiting.take(at);
        self.set_turn(task.job, running[job] + 1);
        Some(task)
    }

    fn finished(&mut self, _: NodeId, task: &Task, running: &[u32]) {
        self.set_turn(task.job, running[task.job as usize]);
    }
}

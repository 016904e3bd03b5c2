//! Numbered queues of tasks, and the number of tasks in service from each.

use super::job_queue::{JobQueue, Tasks};
use super::task::Task;
use super::traffic::below;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Queues, by number, and for each queue the number of tasks in service that came from it.
#[derive(Debug)]
pub(super) struct Queues {
    tasks: Tasks,
    queues: Vec<JobQueue>,
    in_service: Vec<u32>,
    /// By node: the number of the queue from which the node took the task that it serves, or served
    /// last.
    from: Vec<u32>,
}

impl Queues {
    pub fn new(queues: u32, nodes: u32) -> Self {
        Self {
            tasks: Tasks::default(),
            queues: (0..queues).map(|_| JobQueue::default()).collect(),
            in_service: vec![0; queues as usize],
            from: vec![0; nodes as usize],
        }
    }

    /// Returns the number of tasks that wait in the queue with the number `queue`.
    pub fn waiting(&self, queue: u32) -> u32 {
        self.queues[queue as usize].len()
    }

    /// Returns the number of tasks that wait in the queue with the number `queue` or are in
    /// service from it.
    pub fn length(&self, queue: u32) -> u32 {
        self.waiting(queue) + self.in_service[queue as usize]
    }

    pub fn push(&mut self, queue: u32, task: Task) {
        self.queues[queue as usize].push(&mut self.tasks, task);
    }

    /// Moves a task of the queue into service on `node`: the first task of the job with the fewest
    /// running tasks. `running[j]` is the number of running tasks of job j. `None` if no task waits
    /// in the queue.
    pub fn serve(&mut self, queue: u32, node: NodeId, running: &[u32]) -> Option<Task> {
        let task = self.queues[queue as usize].pop_fewest(&mut self.tasks, running)?;
        self.in_service[queue as usize] += 1;
        self.from[node.0 as usize] = queue;
        Some(task)
    }

    /// Ends the service on `node`; returns the number of the queue from which the ended task came.
    pub fn finished(&mut self, node: NodeId) -> u32 {
        let queue = self.from[node.0 as usize];
        self.in_service[queue as usize] -= 1;
        queue
    }

    /// Returns the number of the shortest of the queues `of`, counting waiting tasks and tasks in
    /// service; ties are random.
    pub fn shortest(&self, of: impl Iterator<Item = u32>, ties: &mut ChaCha8Rng) -> u32 {
        let mut best = (u32::MAX, 0);
        let mut alike = 0;
        for queue in of {
            let length = self.length(queue);
            if length < best.0 {
                best = (length, queue);
                alike = 1;
            } else if length == best.0 {
                alike += 1;
                if below(ties, alike) == 0 {
                    best.1 = queue;
                }
            }
        }
        best.1
    }
}

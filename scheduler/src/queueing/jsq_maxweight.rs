//! Join the shortest queue, then MaxWeight: Wang's with a common queue of remote tasks,
//! and the survey's with queues of nodes only.
//!
//! The length of a queue includes its tasks in service (Wang, equation 1). The survey's
//! equation (6) leaves them out, and it breaks all ties at random: here a node prefers
//! its own queue, then its rack's.

use super::cluster::Cluster;
use super::discipline::Discipline;
use super::job_queue::{JobQueue, Tasks};
use super::least::Least;
use super::task::Task;
use super::traffic::below;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Queues by number, each with the tasks in service that came from it.
#[derive(Debug)]
pub(super) struct Queues {
    tasks: Tasks,
    queues: Vec<JobQueue>,
    in_service: Vec<u32>,
    /// Per node: which queue its task came from.
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

    /// Waiting tasks.
    pub fn waiting(&self, queue: u32) -> u32 {
        self.queues[queue as usize].len()
    }

    /// Waiting tasks and those in service.
    pub fn length(&self, queue: u32) -> u32 {
        self.waiting(queue) + self.in_service[queue as usize]
    }

    pub fn push(&mut self, queue: u32, task: Task) {
        self.queues[queue as usize].push(&mut self.tasks, task);
    }

    /// Has `node` serve the queue: the job with the fewest running tasks first.
    pub fn serve(&mut self, queue: u32, node: NodeId, running: &[u32]) -> Option<Task> {
        let task = self.queues[queue as usize].pop_fewest(&mut self.tasks, running)?;
        self.in_service[queue as usize] += 1;
        self.from[node.0 as usize] = queue;
        Some(task)
    }

    /// `node` is done; which queue it served.
    pub fn finished(&mut self, node: NodeId) -> u32 {
        let queue = self.from[node.0 as usize];
        self.in_service[queue as usize] -= 1;
        queue
    }

    /// The shortest of these queues; ties are random.
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

/// Wang's: a task joins the shortest of its local queues and the common one. Idle node m
/// serves its own queue where alpha Q_m >= gamma Q, else the common one.
///
/// The paper's node idles when it chooses an empty common queue; here it serves its own.
#[derive(Debug)]
pub(super) struct Common {
    cluster: Cluster,
    queues: Queues,
}

impl Common {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            queues: Queues::new(cluster.nodes + 1, cluster.nodes),
        }
    }

    /// The number of the common queue.
    const fn common(&self) -> u32 {
        self.cluster.nodes
    }
}

impl Discipline for Common {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        let candidates = task.local_nodes().map(|node| node.0);
        let candidates = candidates.chain([self.common()]);
        let queue = self.queues.shortest(candidates, ties);
        self.queues.push(queue, task);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], _: &mut ChaCha8Rng) -> Option<Task> {
        let (own, common) = (node.0, self.common());
        let weight = |queue, rate: f64| f64::from(self.queues.length(queue)) * rate;
        let keeps = self.queues.waiting(own) > 0
            && weight(own, self.cluster.local) >= weight(common, self.cluster.remote);
        let order = if keeps { [own, common] } else { [common, own] };
        (order.into_iter()).find_map(|queue| self.queues.serve(queue, node, running))
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        self.queues.finished(node);
    }
}

/// The survey's: a task joins the shortest of its local queues; an idle node serves the
/// queue with the largest length times rate, its own at alpha, one of its rack at beta,
/// any other at gamma (equation 5; 4 without racks, where the print has beta for gamma).
///
/// Only queues with waiting tasks can be chosen.
#[derive(Debug)]
pub(super) struct PerNode {
    cluster: Cluster,
    queues: Queues,
    /// The longest queue comes first.
    longest: Least,
}

impl PerNode {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            queues: Queues::new(cluster.nodes, cluster.nodes),
            longest: Least::new(cluster.nodes as usize),
        }
    }

    fn changed(&mut self, queue: u32) {
        let key = match self.queues.waiting(queue) {
            0 => u64::MAX,
            _ => u64::MAX - u64::from(self.queues.length(queue)),
        };
        self.longest.set(queue as usize, key);
    }
}

impl Discipline for PerNode {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        let candidates = task.local_nodes().map(|node| node.0);
        let queue = self.queues.shortest(candidates, ties);
        self.queues.push(queue, task);
        self.changed(queue);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let weight = |key: u64, rate: f64| (u64::MAX - key) as f64 * rate;
        let own = weight(self.longest.get(node.0 as usize), self.cluster.local);
        let rack = self.cluster.rack_range(node).map_or(0.0, |(from, until)| {
            let key = self.longest.min_within(from, until).0;
            weight(key, self.cluster.rack.unwrap_or(0.0))
        });
        let any = weight(self.longest.min(), self.cluster.remote);
        let queue = if own.max(rack).max(any) <= 0.0 {
            return None;
        } else if own >= rack && own >= any {
            node.0
        } else if rack >= any {
            let (from, until) = self.cluster.rack_range(node)?;
            self.longest.position_within(from, until, ties) as u32
        } else {
            self.longest.position(ties) as u32
        };
        let task = self.queues.serve(queue, node, running);
        self.changed(queue);
        task
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        let queue = self.queues.finished(node);
        self.changed(queue);
    }
}

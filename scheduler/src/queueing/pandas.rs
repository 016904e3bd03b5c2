//! Pandas, the priority algorithm for near-data scheduling (Xie and Lu, INFOCOM 2015; the
//! survey, section IV-B), and a variant that knows racks.

use super::cluster::Cluster;
use super::discipline::Discipline;
use super::jsq_maxweight::Queues;
use super::least::Least;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// A task joins the shortest of its local queues. An idle node serves its own queue; one
/// with an empty queue takes a task of the longest if at least alpha / gamma wait there,
/// so that the task gains by it.
///
/// The variant first looks at the longest of its rack, where alpha / beta suffice.
#[derive(Debug)]
pub(super) struct Pandas {
    cluster: Cluster,
    knows_racks: bool,
    queues: Queues,
    /// The queue with the most waiting tasks comes first.
    longest: Least,
}

impl Pandas {
    pub fn new(cluster: Cluster, knows_racks: bool) -> Self {
        Self {
            cluster,
            knows_racks,
            queues: Queues::new(cluster.nodes, cluster.nodes),
            longest: Least::new(cluster.nodes as usize),
        }
    }

    fn changed(&mut self, queue: u32) {
        let waiting = u64::from(self.queues.waiting(queue));
        self.longest.set(queue as usize, u64::MAX - waiting);
    }

    /// Whom an idle node without tasks of its own helps.
    fn helped(&self, node: NodeId, ties: &mut ChaCha8Rng) -> Option<u32> {
        let worth = |key: u64, rate: f64| {
            key != u64::MAX && (u64::MAX - key) as f64 >= self.cluster.local / rate
        };
        let rack = self.cluster.rack_range(node).zip(self.cluster.rack);
        if let Some(((from, until), rate)) = rack.filter(|_| self.knows_racks)
            && worth(self.longest.min_within(from, until).0, rate)
        {
            return Some(self.longest.position_within(from, until, ties) as u32);
        }
        let helps = worth(self.longest.min(), self.cluster.remote);
        helps.then(|| self.longest.position(ties) as u32)
    }
}

impl Discipline for Pandas {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        let candidates = task.local_nodes().map(|node| node.0);
        let queue = self.queues.shortest(candidates, ties);
        self.queues.push(queue, task);
        self.changed(queue);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let queue = match self.queues.waiting(node.0) {
            0 => self.helped(node, ties)?,
            _ => node.0,
        };
        let task = self.queues.serve(queue, node, running);
        self.changed(queue);
        task
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        self.queues.finished(node);
    }
}

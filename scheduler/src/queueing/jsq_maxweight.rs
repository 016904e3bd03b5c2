//! Wang's policy: join the shortest queue, then MaxWeight, with a common queue of remote
//! tasks. The survey's version has queues of nodes only
//! ([`NodeQueues`](super::node_queues::NodeQueues)).

use super::cluster::Cluster;
use super::discipline::Discipline;
use super::queues::Queues;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Each node has a queue, and one common queue holds tasks for any node. A task joins the shortest
/// of the queues of the nodes with its data and the common queue. An idle node serves its own queue
/// or the common one, whichever has the larger product of length and service rate (own tasks at the
/// rate alpha, common ones at the rate gamma of remote tasks); its own if they are equal.
///
/// The length of a queue includes its tasks in service (Wang, equation 1). In Wang's paper a node
/// idles if it chooses the common queue and no task waits there; here it then serves its own queue.
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

    /// Returns the index of the common queue, behind the indices of the nodes' queues.
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
